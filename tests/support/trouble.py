"""A cluster in trouble: who leads in it, whether it is whole, and the luck of what comes next."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.admin import AdminClient

from support.history import Fault, History
from support.pace import PATIENCE

if TYPE_CHECKING:
    import random

    from support.cluster_nodes import ClusterNode, ClusterNodes

WHOLE_S: Final = 60.0 * PATIENCE


class Trouble:
    """A cluster, who leads in it, and luck."""

    def __init__(
        self, cluster: ClusterNodes, topic: str, luck: random.Random, history: History
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.luck = luck
        self._history = history
        settings: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "socket.timeout.ms": 3000,
            "error_cb": lambda error: None,
        }
        self._admin = AdminClient(settings)

    @property
    def nodes(self) -> list[ClusterNode]:
        return list(self.cluster.nodes.values())

    def say(self, what: str) -> None:
        """Note in the history what is done now."""
        self._history.add(Fault(self._history.now(), what))

    def leader(self) -> ClusterNode:
        """The node that leads one of the topic's partitions."""
        leaders = [each[0] for each in self._partitions().values() if each[0] in self.cluster.nodes]
        return self.cluster.nodes[self.luck.choice(leaders)] if leaders else self.any()

    def any(self) -> ClusterNode:
        return self.luck.choice(self.nodes)

    def pair(self) -> tuple[ClusterNode, ClusterNode]:
        one, other = self.luck.sample(self.nodes, 2)
        return one, other

    def _partitions(self) -> dict[int, tuple[int, int]]:
        """By partition: its leader, and how many are in sync."""
        found = self._admin.list_topics(self.topic, timeout=5).topics[self.topic].partitions
        return {number: (each.leader, len(each.isrs)) for number, each in found.items()}

    def wait_until_whole(self, within_s: float = WHOLE_S) -> None:
        """Every partition is led, and every node is in sync."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                found = self._partitions()
            except Exception as error:  # noqa: BLE001 - no node answers yet
                told = str(error)
            else:
                behind = {
                    number: each
                    for number, each in found.items()
                    if each[0] < 1 or each[1] < len(self.nodes)
                }
                if found and not behind:
                    return
                told = f"(leader, in sync) by partition: {behind}"
            assert time.monotonic() < deadline, f"not whole after {within_s:.0f} s: {told}"
            time.sleep(0.1)

    def rest(self, low_s: float, high_s: float) -> None:
        time.sleep(self.luck.uniform(low_s, high_s))
