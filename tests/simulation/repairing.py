"""Damage that a start has found: what others have is put in its place, or it is cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.cluster import elections
from goqueue.cluster.records import NodeState
from simulation.replica import ReplicaProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cluster.records import PartitionKey, PartitionRecord
    from simulation.model_log import Record


class RepairingProcess(ReplicaProcess):
    """A process with damaged logs, if it has any: they neither lead nor fetch."""

    def repair_all(self) -> None:
        """Do what is next for every log that is damaged."""
        if self.state is not NodeState.ACTIVE or self.is_registering:
            return
        for key, log in self.machine.logs.items():
            if log.damaged is not None and key not in self.failed:
                self._repair(key)

    def _repair(self, key: PartitionKey) -> None:
        stored, damaged = self.view.partitions.get(key), self.machine.log(key).damaged
        if stored is None or damaged is None:
            return
        record, leader = stored.value, stored.value.leader
        if self.cluster.mistakes.cut_own_damage:
            self._cut_damage(key, damaged[0])
            return
        lacking = self.lacking.setdefault((key, damaged[0]), set())
        for node_id in record.replicas:
            if node_id not in {self.node_id, *lacking}:
                self.send(node_id, "read_range", key, damaged, self.node_id, self._patcher(key))
        if leader is not None:
            # Until it has forgotten who was struck, nobody knows that it acts.
            counted = {*record.isr, *record.elr, *record.struck}
            if self.node_id not in counted and self.view.is_active(leader):
                self._cut_damage(key, damaged[0])
        elif elections.is_recoverable(stored, self.view) and self._is_nowhere(record, lacking):
            self._cut_damage(key, damaged[0])

    def _is_nowhere(self, record: PartitionRecord, lacking: set[int]) -> bool:
        """Whether everybody who was counted on has said that it does not have it."""
        return lacking.issuperset({*record.isr, *record.elr, *record.struck} - {self.node_id})

    def _patcher(self, key: PartitionKey) -> Callable[[int, int, list[Record]], None]:
        def told(node_id: int, first: int, found: list[Record]) -> None:
            log = self.machine.log(key)
            if log.damaged is None or log.damaged[0] != first:
                return
            if log.patch(found):
                self.world.say(f"node {self.node_id} has {first} again, from node {node_id}")
                self.lacking.clear()
                self.refresh(key)
            else:
                self.lacking.setdefault((key, first), set()).add(node_id)

        return told

    def read_range(
        self,
        key: PartitionKey,
        damaged: tuple[int, int],
        asker: int,
        tell: Callable[[int, int, list[Record]], None],
    ) -> None:
        """Another replica asks for records that are damaged in it."""
        first, end = damaged
        log = self.machine.log(key)
        found = log.read(first, end - first)
        while found and len(found) < end - first:
            more = log.read(first + len(found), end - first - len(found))
            if not more:
                break
            found = log.joined(found, more)
        self.send(asker, "told_range", tell, self.node_id, first, found)

    @staticmethod
    def told_range(
        tell: Callable[[int, int, list[Record]], None],
        node_id: int,
        first: int,
        found: list[Record],
    ) -> None:
        """A replica's answer arrived."""
        tell(node_id, first, found)

    def _cut_damage(self, key: PartitionKey, to: int) -> None:
        self.world.say(f"node {self.node_id} cuts its log at the damage at {to}")
        self.cluster.oracle.gave_up(self.node_id, key, to)
        self.machine.log(key).truncate(to)
        self.watermarks[key] = self.watermark(key)
        self.followed.pop(key, None)
        self.refresh(key)
