"""A cluster in trouble: who leads in it, whether it is whole, and the luck of what comes next."""

from __future__ import annotations

import time
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from goqueue.wire.kafka.api_keys import ApiKey
from support.cluster_queue import call
from support.history import Fault, History
from support.kafka_wire import WireClient
from support.pace import PATIENCE

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

    from support.cluster_nodes import ClusterNode, ClusterNodes

WHOLE_S: Final = 120.0 * PATIENCE


class Trouble:
    """A cluster, who leads in it, and luck."""

    def __init__(
        self, cluster: ClusterNodes, topics: Sequence[str], luck: random.Random, history: History
    ) -> None:
        self.cluster = cluster
        self.topics = list(topics)
        self.keys: list[tuple[int, str]] = []
        """What the cluster has coordinators for: a kind of FindCoordinator, and a name."""
        self.cut_off: ClusterNode | None = None
        """The node that was cut off last."""
        self.luck = luck
        self._history = history
        settings: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "socket.timeout.ms": 3000,
            "log_level": 0,
            "error_cb": lambda error: None,
        }
        self._admin = AdminClient(settings)

    @property
    def nodes(self) -> list[ClusterNode]:
        return list(self.cluster.nodes.values())

    def say(self, what: str) -> None:
        """Note in the history what is done now."""
        self._history.add(Fault(self._history.now(), what))

    @property
    def topic(self) -> str:
        """One of the topics."""
        return self.luck.choice(self.topics)

    def leader(self) -> ClusterNode:
        """The node that leads a partition of one of the topics."""
        if not self.topics:
            return self.coordinator()
        leaders = self.leaders()
        return self.luck.choice(leaders) if leaders else self.any()

    def leaders(self) -> list[ClusterNode]:
        """The nodes that lead the partitions of one of the topics: each as often as it does."""
        found: Iterable[tuple[int, int]] = ()
        with suppress(KafkaException):  # nobody answers in the middle of another fault
            found = self._partitions(self.topic).values()
        return [self.cluster.nodes[each[0]] for each in found if each[0] in self.cluster.nodes]

    def coordinator(self) -> ClusterNode:
        """The node that coordinates one of the groups or transactional ids; or writes schemas."""
        if not self.keys:
            return self._writer()
        kind, key = self.luck.choice(self.keys)
        asked = {"key_type": kind, "coordinator_keys": [key]}
        for node in self.nodes:
            with suppress(OSError), WireClient(node.kafka_address) as client:
                (found,) = client.call(ApiKey.FIND_COORDINATOR, 4, **asked).coordinators
                if found.error_code == 0 and found.node_id in self.cluster.nodes:
                    return self.cluster.nodes[int(found.node_id)]
        return self.any()

    def _writer(self) -> ClusterNode:
        for node in self.nodes:
            with suppress(OSError, HTTPException):
                _, answer = call(node.http_url, "GET", "/cluster/partitions?limit=1000")
                for each in answer["partitions"]:
                    if each["topic"] == "__schemas" and each["leader"] in self.cluster.nodes:
                        return self.cluster.nodes[each["leader"]]
        return self.any()

    def controller(self, asked: Sequence[ClusterNode] | None = None) -> ClusterNode | None:
        """The node that decides who leads, as far as one of those asked knows."""
        for node in self.nodes if asked is None else asked:
            with suppress(OSError, HTTPException, ValueError):
                status, answer = call(node.http_url, "GET", "/cluster/nodes", timeout_s=3.0)
                if status == 200 and answer["controller"] in self.cluster.nodes:
                    return self.cluster.nodes[answer["controller"]]
        return None

    def any(self) -> ClusterNode:
        return self.luck.choice(self.nodes)

    def pair(self) -> tuple[ClusterNode, ClusterNode]:
        one, other = self.luck.sample(self.nodes, 2)
        return one, other

    def _partitions(self, topic: str) -> dict[int, tuple[int, int]]:
        """By partition: its leader, and how many are in sync."""
        found = self._admin.list_topics(topic, timeout=5).topics[topic].partitions
        return {number: (each.leader, len(each.isrs)) for number, each in found.items()}

    def wait_until_whole(self, within_s: float = WHOLE_S) -> None:
        """Every partition is led, internal ones too, and every node is in sync."""
        deadline = time.monotonic() + within_s
        while told := self._missing():
            assert time.monotonic() < deadline, f"not whole after {within_s:.0f} s: {told}"
            time.sleep(0.1)

    def _missing(self) -> str:
        """What is not whole; nothing when all is."""
        try:
            for topic in self.topics:
                behind = {
                    number: each
                    for number, each in self._partitions(topic).items()
                    if each[0] < 1 or each[1] < len(self.nodes)
                }
                if behind:
                    return f"(leader, in sync) by partition of {topic}: {behind}"
            for node in self.nodes:
                path = "/cluster/partitions?state=under_replicated"
                status, answer = call(node.http_url, "GET", path)
                if status != 200 or answer["total"]:
                    return f"node {node.number} says {status}: {answer}"[:1000]
        except Exception as error:  # noqa: BLE001 - no node answers yet
            return str(error) or repr(error)
        return ""

    def rest(self, low_s: float, high_s: float) -> None:
        time.sleep(self.luck.uniform(low_s, high_s))
