"""Queue groups over HTTP, gRPC, the Python client and confluent-kafka's `ShareConsumer`."""

from __future__ import annotations

import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from support.cluster_queue import call
from support.oracles.queues import QueueHistory
from support.workloads.base import DRAIN_S, PROGRESS_S, STOP_S, Feeder, Workload
from support.workloads.queue_members import (
    ClientMember,
    GrpcMember,
    HttpMember,
    Member,
    ShareMember,
)

if TYPE_CHECKING:
    from support.cluster_nodes import ClusterNodes
    from support.history import Finding

PARTITIONS: Final = 3
RATE: Final = 10.0
MEMBERS: Final = 2
GROUP_KEY: Final = 0
"""Of FindCoordinator."""
FLAGS: Final = (
    *("--groups-share-min-session-timeout", "500ms"),
    *("--groups-share-min-heartbeat-interval", "100ms"),
    *("--groups-share-min-record-lock-duration", "100ms"),
)
"""Of the nodes, so that share groups may be quick."""
_SHARE: Final = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": "10000",
    "share.delivery.count.limit": "10",
    "share.heartbeat.interval.ms": "500",
}


class Queues(Workload):
    """Two members for each API, in a group of its own on a topic of its own."""

    def __init__(self, cluster: ClusterNodes, seed: int) -> None:
        self._cluster = cluster
        kinds: tuple[type[Member], ...] = (HttpMember, GrpcMember, ClientMember, ShareMember)
        self.topics = {f"queue-{kind.api}": PARTITIONS for kind in kinds}
        self.histories = {topic: QueueHistory() for topic in self.topics}
        self._members = [
            kind(cluster, self.histories[f"queue-{kind.api}"], seed + number)
            for kind in kinds
            for number in range(MEMBERS)
        ]
        self._feeder = Feeder(cluster.bootstrap, self.topics, PARTITIONS, RATE)
        for topic, history in self.histories.items():
            history.published = self._feeder.acked[topic]
        self.clients = [self._feeder, *self._members]

    def prepare(self) -> None:
        """Settings of the share group."""
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap, "log_level": 0})
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in _SHARE.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, "workers-share", incremental_configs=entries)
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(PROGRESS_S)

    def coordinators(self) -> list[tuple[int, str]]:
        return [(GROUP_KEY, each.group) for each in self._members[::MEMBERS]]

    def done(self) -> dict[str, int]:
        return {topic: each.done_count for topic, each in self.histories.items()}

    def finish(self) -> list[Finding]:
        self._feeder.stopping.set()
        self._feeder.join()
        groups = {each.topic: each.group for each in self._members}
        self.drain(lambda: self._to_come() or self._all_left(groups), "messages")
        left = self._all_left(groups)
        self.stop()
        findings = []
        for topic, history in self.histories.items():
            found = history.judge(self._letters(f"{topic}.dlq"), left.get(topic))
            findings += [each._replace(told=f"{topic}: {each.told}") for each in found]
        return findings

    def _to_come(self) -> dict[str, int]:
        """By topic, what the members have to see; what is none is left out."""
        counts = {topic: len(each.left) for topic, each in self.histories.items()}
        return {topic: count for topic, count in counts.items() if count}

    def _all_left(self, groups: dict[str, str]) -> dict[str, dict[str, int]]:
        """By topic, what the broker has to do; what is none is left out."""
        found = {topic: self._left(group) for topic, group in groups.items()}
        return {topic: left for topic, left in found.items() if left}

    def _left(self, group: str) -> dict[str, int]:
        """What the broker says is left to do in a group."""
        deadline = time.monotonic() + DRAIN_S
        node = 0
        while True:
            node = node % 3 + 1
            try:
                status, told = call(self._cluster.http_url(node), "GET", f"/groups/{group}")
            except (OSError, HTTPException) as error:
                status, told = 0, error
            if status == 200:
                return _undone(told["queue"]["partitions"])
            assert time.monotonic() < deadline, f"{group}: {status} {told}"
            time.sleep(0.1)

    def _letters(self, topic: str) -> list[str]:
        """Every dead letter of a topic."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "group.id": "letters",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        found, left = [], set(range(PARTITIONS))
        deadline = time.monotonic() + STOP_S
        try:
            while left:
                assert time.monotonic() < deadline, f"the end of {topic} {left} is not reached"
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if message.error() is None:
                    found.append(message.value().decode())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
        finally:
            consumer.close()
        return found


def _undone(topics: dict[str, dict[str, dict[str, Any]]]) -> dict[str, int]:
    """The counts of a group that are not zero."""
    names = ("ready", "in_flight", "waiting", "dead")
    partitions = [each for topic in topics.values() for each in topic.values()]
    counts = {name: sum(each[name] for each in partitions) for name in names}
    return {name: count for name, count in counts.items() if count}
