"""librdkafka on a cluster, while all is well and while nodes die, in a process of its own.

See `_client.py`. Moments are those of `time.perf_counter`, which all processes of a machine share.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, ElectionType, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.cimpl import NewTopic

from benchmarks._client import serve_calls

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, TopicPartition

VALUE: Final = bytes(100)
NOBODY: Final = -1
_NEVER_S: Final = 60.0
_ASKED_S: Final = 1.0
_DESCRIBED_S: Final = 5.0
_POLL_S: Final = 0.02
_COMMITTED_EVERY_S: Final = 0.1
_SETTLED_S: Final = 3.0
"""How long members go on after all have partitions: a group may be rebalanced once more."""


@cache
def _admin(address: str) -> AdminClient:
    return _new_admin(address)


@cache
def _patient_admin(address: str) -> AdminClient:
    """One that waits as long as making a thousand partitions takes."""
    return AdminClient({"bootstrap.servers": address, "log_level": 0})


def _new_admin(address: str) -> AdminClient:
    """One that learns within a second that a node is gone."""
    return AdminClient({"bootstrap.servers": address, "socket.timeout.ms": 3000, "log_level": 0})


# --- Topics ------------------------------------------------------------------------------------


def make(
    address: str,
    topics: list[str],
    partitions: int,
    replicas: int = -1,
    settings: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Topics, and who leads their partitions once somebody does."""
    wanted = [NewTopic(each, partitions, replicas, config=settings or {}) for each in topics]
    began = time.perf_counter()
    making = _patient_admin(address).create_topics(wanted, request_timeout=_NEVER_S)
    for made in making.values():
        made.result(_NEVER_S)
    took = time.perf_counter() - began
    for topic in topics:
        while True:
            led = leaders(address, topic)
            if len(led["ports"]) == partitions and None not in led["ports"]:
                break
            time.sleep(_POLL_S)
    return {"seconds": took, "led_s": time.perf_counter() - began}


def leaders(address: str, topic: str) -> dict[str, Any]:
    """The node that leads each partition, and its port; None while nobody does."""
    found = _admin(address).list_topics(topic, timeout=_NEVER_S)
    ports = {node: broker.port for node, broker in found.brokers.items()}
    partitions = found.topics[topic].partitions
    nodes = [partitions[number].leader for number in sorted(partitions)]
    return {"nodes": nodes, "ports": [ports.get(node) for node in nodes]}


def coordinator(address: str, group: str) -> int:
    """The node that coordinates a group.

    A client that has lived through the death of a node sometimes waits for it for ever: ask anew.
    """
    give_up = time.perf_counter() + _NEVER_S
    admin = _admin(address)
    while True:
        described = admin.describe_consumer_groups([group], request_timeout=_DESCRIBED_S)
        try:
            node: int = described[group].result(_DESCRIBED_S + _ASKED_S).coordinator.id
        except (KafkaException, TimeoutError):
            if time.perf_counter() > give_up:
                raise
            admin = _new_admin(address)
        else:
            return node


def prefer(address: str) -> None:
    """Have every partition led by the first of its replicas again."""
    elected = _admin(address).elect_leaders(ElectionType.PREFERRED)
    elected.result(_NEVER_S)


def min_isr(address: str, topic: str) -> str:
    """What the topic requires to be in sync, as the cluster tells it."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = _admin(address).describe_configs([resource])[resource].result(_NEVER_S)
    value: str = found["min.insync.replicas"].value
    return value


def formed(address: str, nodes: int) -> None:
    """Wait until so many nodes are there, and one of them makes topics."""
    admin = _admin(address)
    while True:
        try:
            if len(admin.list_topics(timeout=_ASKED_S).brokers) >= nodes:
                name = f"formed-{time.time_ns()}"
                admin.create_topics([NewTopic(name, 1)])[name].result(_NEVER_S)
                return
        except KafkaException:
            pass
        time.sleep(_POLL_S)


def whole(address: str) -> None:
    """Wait until every partition is led and every replica is in sync."""
    while True:
        topics = _admin(address).list_topics(timeout=_NEVER_S).topics.values()
        partitions = [each for topic in topics for each in topic.partitions.values()]
        if all(each.leader > 0 and len(each.isrs) == len(each.replicas) for each in partitions):
            return
        time.sleep(_POLL_S)


# --- While a node dies -------------------------------------------------------------------------


def led_again(address: str, topics: list[str], dead: int, give_up_s: float) -> dict[str, Any]:
    """The moment from which a living node knows other leaders for all that a dead one led."""
    admin = AdminClient({"bootstrap.servers": address, "socket.timeout.ms": 1000, "log_level": 0})
    until = time.perf_counter() + give_up_s
    while time.perf_counter() < until:
        try:
            found = admin.list_topics(timeout=_ASKED_S).topics
        except KafkaException:
            continue
        asked_at = time.perf_counter()
        led = [each.leader for topic in topics for each in found[topic].partitions.values()]
        if led and NOBODY not in led and dead not in led:
            return {"at": asked_at, "count": len(led)}
        time.sleep(_POLL_S)
    raise TimeoutError(f"after {give_up_s:.0f} s node {dead} still leads, or nobody does")


@cache
def _steady_producer(address: str) -> Producer:
    """An idempotent producer as librdkafka comes, but for a linger of nothing."""
    return Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
            "client.id": "steady",
        }
    )


def warm_up(address: str, topic: str, partitions: int) -> int:
    """Have a message of `steady` acknowledged in each partition; how many were not."""
    producer = _steady_producer(address)
    for number in range(partitions):
        producer.produce(topic, VALUE, partition=number)
    return producer.flush(_NEVER_S)


def steady(
    address: str, topic: str, partitions: int, rate: float, seconds: float
) -> dict[str, Any]:
    """Send to each partition in turn, at a rate; the longest times without acknowledgements."""
    producer = _steady_producer(address)
    acknowledged: dict[int, list[float]] = defaultdict(list)
    failed = 0

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        nonlocal failed
        failed += error is not None
        partition = message.partition()
        if error is None and partition is not None:
            acknowledged[partition].append(time.perf_counter())

    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        while (early_s := due - time.perf_counter()) > 0:
            producer.poll(early_s)
        producer.produce(topic, VALUE, partition=number % partitions, on_delivery=on_delivery)
        producer.poll(0)
    left = producer.flush(_NEVER_S)
    everywhere = sorted(moment for moments in acknowledged.values() for moment in moments)
    return {
        "acknowledged": len(everywhere),
        "failed": failed + left,
        "gap_s": _longest(everywhere),
        "partition_gap_s": {number: _longest(each) for number, each in acknowledged.items()},
    }


def _longest(moments: list[float]) -> float:
    return max((after - before for before, after in pairwise(moments)), default=0.0)


class _Member:
    """A member of a group that commits what it has read."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._consumer = Consumer(settings)
        self.changes = 0
        """How often it was given partitions, or had some taken away."""
        self.moments: list[float] = []
        self.errors: set[str] = set()
        self._consumer.subscribe([topic], on_assign=self._changed, on_revoke=self._changed)

    def _changed(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.changes += 1

    @property
    def has_partitions(self) -> bool:
        return bool(self._consumer.assignment())

    def read(self) -> None:
        self._consumer.consume(1000, 0.02)

    def commit(self) -> None:
        """Commit where it is, and note the moment when that is done."""
        positions = self._consumer.position(self._consumer.assignment())
        offsets = [each for each in positions if each.offset >= 0]
        if not offsets:
            return
        try:
            found = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self.errors.add(str(error.args[0].name()))
            return
        if all(each.error is None for each in found):
            self.moments.append(time.perf_counter())

    def close(self) -> None:
        self._consumer.close()


_joined: Final[list[_Member]] = []


def join(address: str, topic: str, group: str, members: int, protocol: str) -> int:
    """Let members join a group; how many have partitions when they have settled."""
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    _joined.extend(_Member(settings, topic) for _ in range(members))
    give_up, settled = time.perf_counter() + _NEVER_S, math.inf
    while time.perf_counter() < min(give_up, settled):
        for each in _joined:
            each.read()
        if settled == math.inf and all(each.has_partitions for each in _joined):
            settled = time.perf_counter() + _SETTLED_S
    return sum(each.has_partitions for each in _joined)


def commit_through(seconds: float) -> dict[str, Any]:
    """Have them commit ten times a second; when each did, and how often they were rebalanced."""
    for each in _joined:
        each.changes = 0
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for each in _joined:
            each.read()
            each.commit()
        time.sleep(_COMMITTED_EVERY_S)
    changes = sum(each.changes for each in _joined)
    for each in _joined:
        each.close()
    return {
        "rebalances": changes,
        "moments": [each.moments for each in _joined],
        "errors": sorted(set[str]().union(*(each.errors for each in _joined))),
    }


if __name__ == "__main__":
    serve_calls(
        {
            each.__name__: each
            for each in (
                *(make, leaders, coordinator, prefer, min_isr, formed, whole),
                *(led_again, warm_up, steady, join, commit_through),
            )
        }
    )
