"""Delayed messages through the deaths of nodes: each once, none early, what was cancelled never.

`python -m cluster.delay_faults --folder …`: three nodes, an idempotent Kafka producer whose batches
are partly delayed, publishers and cancellers over HTTP, and `kill -9` of nodes while messages come
in and while they fall due. Every node leads units and targets, so each death meets both.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.cluster_nodes import ClusterNode, ClusterNodes

TOPIC: Final = "delayed-orders"
PARTITIONS: Final = 6
SPREAD_MS: Final = 12_000
"""Over which messages fall due, from `FIRST_MS` on."""
FIRST_MS: Final = 10_000
PATIENCE_S: Final = 90.0
EARLY_MS: Final = 0


def _say(*said: object) -> None:
    print(*said, flush=True)  # noqa: T201 - a command


class Sent:
    """What was acknowledged, and when it is due at the earliest."""

    def __init__(self) -> None:
        self.due_ms: dict[str, int] = {}
        self.acked: set[str] = set()
        self.cancelled: set[str] = set()
        self.lock = threading.Lock()


def produce(cluster: ClusterNodes, sent: Sent, count: int, pause_s: float) -> None:
    """An idempotent producer; two of three messages of each batch are due later."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "request.timeout.ms": 3000,
            "socket.timeout.ms": 3000,
            "message.timeout.ms": 60_000,
        }
    )

    def told(error: Any, message: Any) -> None:
        if error is None:
            sent.acked.add(message.value().decode())
        else:
            _say("not stored:", error)

    for number in range(count):
        value = f"kafka-{number}"
        due_ms = int(time.time() * 1000) + FIRST_MS + number * 7 % SPREAD_MS
        headers: list[Any] = [("goqueue-deliver-at", str(due_ms))] if number % 3 else []
        sent.due_ms[value] = due_ms if number % 3 else 0
        producer.produce(
            TOPIC, value, partition=number % PARTITIONS, headers=headers, on_delivery=told
        )
        producer.poll(0)
        if number % 20 == 0:
            time.sleep(pause_s)
    assert producer.flush(PATIENCE_S) == 0


def call(node: ClusterNode, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """A request of the HTTP API; 0 when the node does not answer."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(node.http_url + path, data, method=method)
    request.add_header("content-type", "application/json")
    try:
        with urlopen(request, timeout=5) as answer:
            return answer.status, json.load(answer)
    except URLError as error:
        status = getattr(error, "code", 0)
        return status, getattr(error, "reason", None)
    except OSError:
        return 0, None


def publish_and_cancel(cluster: ClusterNodes, sent: Sent, count: int, pause_s: float) -> None:
    """Messages over HTTP, of which every fourth is cancelled by way of some other node."""
    for number in range(count):
        value = f"http-{number}"
        nodes = list(cluster.nodes.values())
        due_ms = int(time.time() * 1000) + FIRST_MS + number * 13 % SPREAD_MS
        message = {"value": value, "deliverAt": due_ms, "partition": number % PARTITIONS}
        status, answer = call(
            nodes[number % 3], "POST", f"/topics/{TOPIC}/messages", {"messages": [message]}
        )
        if status == 200 and answer["results"][0]["status"] == 200:
            with sent.lock:
                sent.due_ms[value] = due_ms
                sent.acked.add(value)
            if number % 4 == 0:
                cancel(nodes, number, answer["results"][0], value, sent)
        time.sleep(pause_s)


def cancel(nodes: list[ClusterNode], number: int, result: Any, value: str, sent: Sent) -> None:
    delayed_id, partition = result["offset"], result["partition"]
    for attempt in range(30):
        node = nodes[(number + 1 + attempt) % 3]
        status, _ = call(node, "DELETE", f"/topics/{TOPIC}/delayed/{partition}/{delayed_id}")
        if status == 200 or (status == 409 and attempt):  # an earlier attempt was stored
            sent.cancelled.add(value)
            return
        time.sleep(0.3)


def judge(cluster: ClusterNodes, sent: Sent) -> list[str]:
    """Read everything, and say what is wrong."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "judge",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    seen: Counter[str] = Counter()
    wrong = []
    wanted = sent.acked - sent.cancelled
    last_due_s = max(sent.due_ms.values()) / 1000
    deadline = time.monotonic() + PATIENCE_S
    quiet_until = 0.0
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            value = message.value().decode()
            seen[value] += 1
            stamped_ms = message.timestamp()[1]
            if stamped_ms < sent.due_ms.get(value, 0) - EARLY_MS:
                wrong.append(f"{value} came {sent.due_ms[value] - stamped_ms} ms early")
            quiet_until = time.monotonic() + 5
        elif wanted <= seen.keys() and time.time() > last_due_s and time.monotonic() > quiet_until:
            break
    consumer.close()
    wrong += [f"{value} was acknowledged and never came" for value in wanted - seen.keys()]
    wrong += [f"{value} came {times} times" for value, times in seen.items() if times > 1]
    wrong += [f"{value} was cancelled and came" for value in sent.cancelled & seen.keys()]
    _say(
        f"{len(sent.acked)} acknowledged, {len(sent.cancelled)} cancelled, {len(seen)} came,"
        f" {sum(seen.values()) - len(seen)} twice"
    )
    return sorted(wrong)


def run(folder: Path, count: int) -> list[str]:
    """The whole of it."""
    cluster = ClusterNodes(folder)
    sent = Sent()
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = NewTopic(TOPIC, PARTITIONS, 3, config={"goqueue.kafka.headers": "true"})
        for future in admin.create_topics([topic]).values():
            future.result(30)
        time.sleep(2)
        kafka = threading.Thread(target=produce, args=(cluster, sent, count, 0.05))
        http = threading.Thread(target=publish_and_cancel, args=(cluster, sent, count // 8, 0.05))
        kafka.start()
        http.start()
        for number in (1, 2):
            time.sleep(4)
            _say(f"kill -9 of node {number}")
            cluster.nodes[number].kill()
            time.sleep(3)
            cluster.restart(cluster.nodes[number])
        kafka.join()
        http.join()
        _say("kill -9 of node 3, while messages fall due")
        cluster.nodes[3].kill()
        wrong = judge(cluster, sent)
        if wrong:
            _say(cluster.told()[-20_000:])
    finally:
        cluster.close()
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=3000)
    options = parser.parse_args()
    found = run(options.folder, options.count)
    _say("\n".join(found[:50]) or "nothing is wrong")
    sys.exit(bool(found))
