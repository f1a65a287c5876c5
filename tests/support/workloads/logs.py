"""Producers and consumer groups of three clients on one topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from support.history import Finding, judge
from support.replicas import differences
from support.workload import Workload as Clients
from support.workloads.base import PROGRESS_S, Workload

if TYPE_CHECKING:
    from support.cluster_nodes import ClusterNodes
    from support.history import History

TOPIC: Final = "chaos"
PARTITIONS: Final = 6


class Logs(Workload):
    """See `support.workload`; the replicas are compared as well."""

    def __init__(self, cluster: ClusterNodes, history: History) -> None:
        self._cluster = cluster
        self._history = history
        self._work = Clients(cluster.bootstrap, TOPIC, PARTITIONS, history)
        self.topics = {TOPIC: PARTITIONS}
        self.clients = [*self._work.clients]
        self._log: dict[int, dict[int, str]] = {}

    def done(self) -> dict[str, int]:
        return {}

    def wait_for_progress(self, within_s: float = PROGRESS_S, count: int = 10) -> None:
        self._work.wait_for_progress(within_s, count)

    def finish(self) -> list[Finding]:
        self._log = self._work.finish()
        return judge(self._history.operations, self._log)

    def compared(self) -> list[Finding]:
        """What differs between replicas, once the nodes have stopped."""
        watermarks = {partition: max(at, default=-1) + 1 for partition, at in self._log.items()}
        folders = {number: node.data_dir for number, node in self._cluster.nodes.items()}
        return [Finding("replicas", each) for each in differences(folders, TOPIC, watermarks)]
