"""Clients that are not ours, against a server that was just installed: librdkafka and curl."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, Producer

if TYPE_CHECKING:
    from support.server import ServerProcess

WAIT_S: Final = 60.0


def publish_by_kafka(server: ServerProcess, topic: str, value: str) -> None:
    """Publish one message; returns when it is acknowledged."""
    producer = Producer({"bootstrap.servers": server.kafka_address})
    producer.produce(topic, value.encode())
    assert producer.flush(WAIT_S) == 0


def publish_by_curl(server: ServerProcess, topic: str, value: str) -> None:
    """Publish one message to a topic, which is made for it; returns when it is acknowledged."""
    curl(server, "/topics", "--json", json.dumps({"name": topic}))
    messages = {"messages": [{"value": value}]}
    told = json.loads(curl(server, f"/topics/{topic}/messages", "--json", json.dumps(messages)))
    assert told["results"][0]["status"] == 200, told


def read_by_kafka(server: ServerProcess, topic: str) -> str:
    """The first message of a topic."""
    settings = {"group.id": f"readers-of-{topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": server.kafka_address, **settings})
    consumer.subscribe([topic])
    try:
        found = consumer.poll(WAIT_S)
        assert found is not None
        value = found.value()
        assert value is not None
        return value.decode()
    finally:
        consumer.close()


def read_by_curl(server: ServerProcess, topic: str) -> list[str]:
    """The messages of a topic."""
    answer = json.loads(curl(server, f"/topics/{topic}/messages"))
    return [message["value"] for message in answer["messages"]]


def curl(server: ServerProcess, path: str, *arguments: str) -> str:
    """What curl prints of a path."""
    command = ["curl", "--silent", "--show-error", *arguments, server.http_url + path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
