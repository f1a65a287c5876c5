"""A Kafka client that logs in over TLS, as a program for a container.

    python kafka_login.py publish|read BOOTSTRAP CA_FILE TOPIC

The environment has GOQUEUE_USER and GOQUEUE_PASSWORD.
"""

from __future__ import annotations

import os
import sys

from confluent_kafka import Consumer, Producer

COUNT = 100
_WITHIN_S = 100


def main(action: str, bootstrap: str, authority: str, topic: str) -> None:
    """Publish `COUNT` messages, or read all that are there and print how many differ."""
    settings = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": authority,
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": os.environ["GOQUEUE_USER"],
        "sasl.password": os.environ["GOQUEUE_PASSWORD"],
    }
    if action == "publish":
        producer = Producer({**settings, "enable.idempotence": True})
        for number in range(COUNT):
            producer.produce(topic, str(number).encode())
        assert producer.flush(_WITHIN_S) == 0, "not all messages were acknowledged"
        return
    reading = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**settings, **reading})
    consumer.subscribe([topic])
    found = set()
    while len(found) < COUNT and (message := consumer.poll(_WITHIN_S)) is not None:
        if message.error() is None:
            found.add(message.value())
    consumer.close()
    print(f"{len(found)} messages")  # noqa: T201 - what it is run for


if __name__ == "__main__":
    main(*sys.argv[1:])
