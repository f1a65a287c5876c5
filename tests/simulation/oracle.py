"""What must hold at every step of a run, whatever happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.cluster.records import (
    CONTROLLER,
    PARTITIONS,
    ControllerRecord,
    PartitionKey,
    PartitionRecord,
    decode,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cluster.metadata import Entry
    from simulation.model_log import ModelLog, Record
    from simulation.world import World

LEADERS_PURPOSES = {"isr", "resign"}
CONTROLLERS_PURPOSES = {"elect", "preferred", "recover", "sweep", "fence"}


class ViolationError(Exception):
    """An invariant does not hold."""


class Oracle:
    """Knows everything: what is stored, what is in every log, and what was ever committed."""

    def __init__(self, world: World, log_of: Callable[[int, PartitionKey], ModelLog]) -> None:
        self._world = world
        self._log_of = log_of
        self.records: dict[PartitionKey, PartitionRecord] = {}
        self.committed: dict[PartitionKey, list[Record]] = {}
        self.unclean: set[tuple[int, PartitionKey]] = set()
        """Replicas that may have lost something, until their nodes have said so."""
        self.recovered_epoch: dict[PartitionKey, int] = {}
        self.is_always = False
        self._owed: dict[PartitionKey, set[int]] = {}
        """Who was to be compared when a node was chosen that had lost its disk."""
        self._leaders: dict[tuple[PartitionKey, int], tuple[int, int]] = {}
        self._controller: int | None = None
        self.recoveries = 0
        self.commits = 0

    def fail(self, what: str) -> None:
        """Stop the run."""
        raise ViolationError(f"{self._world.now_s:.3f} s: {what}")

    # --- The store -------------------------------------------------------------------------------

    def stored(
        self, node_id: int, purpose: str, changes: list[tuple[str, Entry | None, Entry | None]]
    ) -> None:
        """A transaction was committed."""
        if purpose in CONTROLLERS_PURPOSES and node_id != self._controller:
            self.fail(f"node {node_id} is not the controller and wrote by {purpose!r}")
        for key, _, after in changes:
            if key == CONTROLLER and after is not None:
                self._controller = decode(after.value, ControllerRecord, key).node
            elif key.startswith(PARTITIONS) and after is not None:
                record = decode(after.value, PartitionRecord, key)
                self._changed(node_id, purpose, PartitionKey.parse(key), record)

    def _changed(
        self, node_id: int, purpose: str, key: PartitionKey, record: PartitionRecord
    ) -> None:
        before = self.records.get(key)
        self.records[key] = record
        self._world.say(f"node {node_id} {purpose}: {show(record)}")
        self.committed.setdefault(key, [])
        if not set(record.isr) <= set(record.replicas) or not record.isr:
            self.fail(f"{show(record)}: the in-sync set is not of its replicas")
        if record.leader is not None and record.leader not in record.isr:
            self.fail(f"{show(record)}: the leader is not in sync")
        if before is not None:
            if record.epoch < before.epoch:
                self.fail(f"{show(record)}: the epoch was {before.epoch}")
            if record.leader != before.leader and record.epoch == before.epoch:
                self.fail(f"{show(record)}: another leader in the same epoch")
            if purpose in LEADERS_PURPOSES and before.leader != node_id:
                self.fail(f"{show(record)}: written by {node_id} and led by {before.leader}")
        if purpose == "recover":
            self._recovered(key, before or record, record)
        promised = {*record.isr, *record.elr}.difference(record.struck)
        for each in promised:
            self.check_promise(each, key)

    def check_promise(self, node_id: int, key: PartitionKey) -> None:
        """Whoever the store counts on has all that is committed."""
        if (node_id, key) in self.unclean:
            return
        committed, log = self.committed[key], self._log_of(node_id, key)
        if log.end < len(committed):
            self.fail(f"node {node_id} has {log.end} of {len(committed)} committed records")
        if committed and log.start < len(committed) and log.at(len(committed) - 1) != committed[-1]:
            self.fail(f"node {node_id} has another record at {len(committed) - 1}")

    def _recovered(
        self, key: PartitionKey, before: PartitionRecord, record: PartitionRecord
    ) -> None:
        self.recoveries += 1
        assert record.leader is not None
        counted = {*before.isr, *before.elr, *before.struck, *self._owed.pop(key, ())}
        if (record.leader, key) in self.unclean:
            self._owed[key] = counted  # it has lost something since it was chosen
            return
        kept = self.common(record.leader, key)
        best = max(self.common(each, key) for each in counted)
        lost = len(self.committed[key]) - kept
        if kept < best:
            self.fail(f"the recovery gave up {best - kept} records that another replica has")
        if lost and self.is_always:
            self.fail(f"the recovery lost {lost} records that were on disks")
        del self.committed[key][kept:]
        self.recovered_epoch[key] = record.epoch

    def common(self, node_id: int, key: PartitionKey) -> int:
        """How much of what is committed is in a log."""
        committed, log = self.committed[key], self._log_of(node_id, key)
        if log.start > len(committed):
            return 0
        same = log.start
        while same < len(committed) and log.at(same) == committed[same]:
            same += 1
        return same

    # --- Nodes -----------------------------------------------------------------------------------

    def lost(self, node_id: int, key: PartitionKey) -> None:
        """A replica may lack something that it had, and has not said so."""
        self.unclean.add((node_id, key))

    def confessed(self, node_id: int, key: PartitionKey) -> None:
        """The store is said to count no longer on what a replica had."""
        self.unclean.discard((node_id, key))
        record = self.records.get(key)
        if record and node_id in {*record.isr, *record.elr}.difference(record.struck):
            self.check_promise(node_id, key)

    def leads(self, node_id: int, incarnation: int, key: PartitionKey, epoch: int) -> None:
        """A node begins to lead."""
        known = self._leaders.setdefault((key, epoch), (node_id, incarnation))
        if known != (node_id, incarnation):
            self.fail(f"epoch {epoch} is led by {node_id}.{incarnation} and by {known}")
        self._owed.pop(key, None)
        if epoch < self.recovered_epoch.get(key, 0):
            return
        record = self.records.get(key)
        if record is not None and record.epoch == epoch:
            self.check_promise(node_id, key)

    def moved(self, node_id: int, key: PartitionKey, epoch: int, hw: int) -> None:
        """A leader's high watermark moved: what lies below is committed."""
        if epoch < self.recovered_epoch.get(key, 0):
            return
        committed, log = self.committed[key], self._log_of(node_id, key)
        new = range(len(committed), hw)
        for offset in new:
            record = log.at(offset)
            if record is None:
                self.fail(f"node {node_id} committed offset {offset}, which it does not have")
            else:
                committed.append(record)
        self.commits += len(new)
        if hw and hw > log.start and log.at(hw - 1) != committed[hw - 1]:
            self.fail(f"node {node_id} committed another record at {hw - 1}")
        stored = self.records[key]
        for each in {*stored.isr, *stored.elr}.difference(stored.struck):
            if (each, key) in self.unclean:
                continue
            other = self._log_of(each, key)
            for offset in new:
                if offset >= other.start and other.at(offset) != committed[offset]:
                    self.fail(
                        f"node {node_id} committed offset {offset}; node {each}, which is in "
                        f"{show(stored)}, has {other.at(offset)}"
                    )
            if self.is_always and other.flushed < hw and new:
                self.fail(f"node {each} is counted on to {hw} and has {other.flushed} on its disk")

    def follows(self, node_id: int, key: PartitionKey, hw: int) -> None:
        """A follower's high watermark moved."""
        if self.recovered_epoch.get(key):
            return
        committed, log = self.committed[key], self._log_of(node_id, key)
        if hw > len(committed):
            self.fail(f"follower {node_id} takes {hw} for committed, which is {len(committed)}")
        if hw > log.start and log.at(hw - 1) != committed[hw - 1]:
            self.fail(f"follower {node_id} shows another record at {hw - 1}")

    def cut(self, node_id: int, key: PartitionKey, to: int, *, is_below_hw: bool) -> None:
        """A follower has cut its log."""
        if self.recovered_epoch.get(key):
            return
        record = self.records[key]
        if is_below_hw and (node_id, key) not in self.unclean:
            self.fail(f"node {node_id} cut to {to}, below its own high watermark")
        if node_id in {*record.isr, *record.elr}.difference(record.struck):
            self.check_promise(node_id, key)

    def gave_up(self, node_id: int, key: PartitionKey, to: int) -> None:
        """A replica cuts its log where a record is damaged."""
        record, committed = self.records[key], self.committed[key]
        counted = {*record.isr, *record.elr, *record.struck}
        if record.leader is not None or node_id not in counted or to >= len(committed):
            return
        for each in counted.difference({node_id}):
            if self._log_of(each, key).at(to) == committed[to]:
                self.fail(f"node {node_id} gave up offset {to}, which node {each} has")

    def acknowledged(self, key: PartitionKey, offset: int, producer: int, sequence: int) -> None:
        """A producer is told that its record is committed."""
        if self.recovered_epoch.get(key):
            return
        committed = self.committed[key]
        if offset >= len(committed):
            self.fail(f"offset {offset} was acknowledged and {len(committed)} are committed")
        record = committed[offset]
        if (record.producer, record.sequence) != (producer, sequence):
            self.fail(f"offset {offset} was acknowledged to {producer} and is {record}")

    def finish(self) -> None:
        """What holds for a whole run: logs agree with what is committed, nothing is doubled."""
        for key, committed in self.committed.items():
            last: dict[int, int] = {}
            for record in committed:
                if record.sequence <= last.get(record.producer, -1):
                    self.fail(f"{record} was committed twice or out of order")
                last[record.producer] = record.sequence
            for node_id in self.records[key].isr:
                if (node_id, key) not in self.unclean:
                    same = self.common(node_id, key)
                    if same < len(committed):
                        self.fail(f"node {node_id} agrees to {same} of {len(committed)}")


def show(record: PartitionRecord) -> str:
    """A record in one line."""
    parts = [f"leader {record.leader or '-'} epoch {record.epoch} isr {_list(record.isr)}"]
    if record.elr:
        parts.append(f"elr {_list(record.elr)}")
    if record.struck:
        parts.append(f"struck {_list(record.struck)}")
    return " ".join(parts)


def _list(nodes: tuple[int, ...]) -> str:
    return ",".join(map(str, nodes))
