"""What a partition knows of its log without reading it: everything that follows from its batches.

Each part is changed by `note` alone, after a batch is in the log, and by the same call when a
start replays what came after the last snapshot. So a part cannot know more or less than the log
holds, and whoever adds one says only how it is noted, dumped and loaded. One snapshot holds them
all; the type of an entry says whose it is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    BatchError,
    DamagedRangeError,
    InvalidTransactionStateError,
    StorageError,
)
from goqueue.model.ids import NO_PRODUCER_ID
from goqueue.partitions.hidden_offsets import HiddenOffsets
from goqueue.partitions.isolation import PartitionTransactions
from goqueue.partitions.lane_index import LaneIndex, priorities_of
from goqueue.partitions.sequences import ProducerSequences, SequencedBatch
from goqueue.records import decode_rows
from goqueue.records.batch import CONTROL, DELIVERY, TRANSACTIONAL, BatchInfo, walk
from goqueue.storage.snapshot import Entry, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from goqueue.partitions.partition_log import PartitionLog
    from goqueue.runtime.disk import Bytes

_log = logging.getLogger(__name__)

SEQUENCES: Final = 0
"""Entries of the producers' sequences, one for each producer."""
OPEN_TRANSACTIONS: Final = 1
"""One for each producer with an open transaction, the oldest first."""
ABORTED_TRANSACTIONS: Final = 2
"""One for all, if there are any."""
LANES: Final = 3
"""One for all, if any message is not in the normal lane."""
HIDDEN_OFFSETS: Final = 4
"""One for all, if there are any."""

ENDED_TRANSACTIONS: Final = 5
"""One for all, if there are any whose markers readers may not see yet."""


class LogState:
    """The parts of one partition that are rebuilt from its batches."""

    def __init__(self) -> None:
        self.sequences = ProducerSequences()
        self.transactions = PartitionTransactions()
        self.lanes = LaneIndex()
        self.hidden = HiddenOffsets()

    @classmethod
    def rebuilt(
        cls,
        log: PartitionLog,
        snapshot: Snapshot | None,
        now_ms: int,
        on_damage: Callable[[DamagedRangeError], None] | None = None,
    ) -> LogState:
        """What the newest snapshot says, and the batches behind it; none before it are read."""
        state, start = cls(), log.start_offset
        if snapshot is not None:
            try:
                state.load(snapshot.entries, now_ms)
                start = max(start, snapshot.last_offset + 1)
            except StorageError as error:
                _log.warning("%s: the snapshot is skipped: %s", log.folder, error)
                state = cls()
        for chunk in log.chunks(start, on_damage=on_damage):
            view = memoryview(chunk.data)
            for position, info in walk(chunk.data):
                if info.base_offset >= start and state.follows(info):
                    batch = view[position : position + info.size_bytes]
                    state.note(info, info.base_offset, batch, now_ms)
        state.forget_before(log.start_offset)
        return state

    def check(self, info: BatchInfo) -> SequencedBatch | None:
        """None when the batch may be appended; the earlier append when it is a repetition.

        Raises:
            ProducerError: an idempotent producer's batch is out of order, it is fenced, or writes
                outside the transaction that it has open here.
        """
        if info.producer_id == NO_PRODUCER_ID:
            return None
        known = self.sequences.check(info)
        if (
            known is None
            and not info.attributes & TRANSACTIONAL
            and self.transactions.first_of(info.producer_id) is not None
        ):
            raise InvalidTransactionStateError(
                f"producer {info.producer_id} has a transaction open in this partition: its "
                "batches belong to it until it ends"
            )
        return known

    def expects(self, info: BatchInfo) -> bool:
        """Whether `check` lets a batch pass that is the next of a producer, in no transaction.

        False says nothing.
        """
        return self.sequences.expects(info) and self.transactions.first_of(info.producer_id) is None

    @staticmethod
    def follows(info: BatchInfo) -> bool:
        """Whether any part must be told of the batch. Most batches are of no interest to any."""
        return info.producer_id != NO_PRODUCER_ID or bool(info.attributes & DELIVERY)

    def note(self, info: BatchInfo, first_offset: int, batch: Bytes, now_ms: int) -> None:
        """Follow a batch that is in the log, where its offsets begin with `first_offset`."""
        if info.attributes & CONTROL or info.count <= info.last_offset_delta:
            self.hidden.note(info, first_offset)
        if info.producer_id != NO_PRODUCER_ID:
            self.sequences.note(info, first_offset, now_ms)
            if info.attributes & TRANSACTIONAL:
                end = self.transactions.note(info, first_offset, batch)
                if end is not None:
                    self.sequences.note_coordinator(info.producer_id, end.coordinator_epoch)
        if info.attributes & DELIVERY:
            self._note_lanes(info, first_offset, batch)

    def _note_lanes(self, info: BatchInfo, first_offset: int, batch: Bytes) -> None:
        """Open a batch that says how its records are to be delivered."""
        try:
            records = decode_rows(batch, check_crc=False)
        except BatchError:
            return  # whoever set the attribute has seen them; without it they would be normal too
        priorities = priorities_of(records)
        if info.count == info.last_offset_delta + 1:
            self.lanes.note(first_offset, priorities)
            return
        # Compaction has left gaps; such a batch comes from the log and has its own offsets.
        for record, priority in zip(records, priorities, strict=True):
            self.lanes.note_at(record.offset, priority)

    def forget_before(self, log_start: int) -> None:
        """The log starts later now: what was known of records before that is of no use."""
        self.transactions.forget_before(log_start)
        self.lanes.forget_before(log_start)
        self.hidden.forget_before(log_start)

    def forget_idle(self, before_ms: int) -> int:
        """Forget the producers of which nothing was heard since; returns how many."""
        return self.sequences.forget_idle(before_ms)

    # --- Snapshots -------------------------------------------------------------------------------

    def dump(self) -> tuple[Entry, ...]:
        """Everything, as the entries that would load it."""
        return tuple(self._dump())

    def _dump(self) -> Iterator[Entry]:
        for key, value in self.sequences.dump():
            yield Entry(SEQUENCES, key, value)
        for key, value in self.transactions.dump_open():
            yield Entry(OPEN_TRANSACTIONS, key, value)
        if aborted := self.transactions.dump_aborted():
            yield Entry(ABORTED_TRANSACTIONS, b"", aborted)
        if ended := self.transactions.dump_ended():
            yield Entry(ENDED_TRANSACTIONS, b"", ended)
        if len(self.lanes):
            yield Entry(LANES, b"", self.lanes.dump())
        if len(self.hidden):
            yield Entry(HIDDEN_OFFSETS, b"", self.hidden.dump())

    def load(self, entries: Iterable[Entry], now_ms: int) -> None:
        """Take over what `dump` gave."""
        parts: dict[int, list[tuple[bytes, bytes]]] = {}
        for entry in entries:
            parts.setdefault(entry.type, []).append((entry.key, entry.value))
        self.sequences.load(parts.get(SEQUENCES, ()), now_ms)
        self.transactions.load_open(parts.get(OPEN_TRANSACTIONS, ()))
        for _, data in parts.get(ABORTED_TRANSACTIONS, ()):
            self.transactions.load_aborted(data)
        for _, data in parts.get(ENDED_TRANSACTIONS, ()):
            self.transactions.load_ended(data)
        for _, data in parts.get(LANES, ()):
            self.lanes.load(data)
        for _, data in parts.get(HIDDEN_OFFSETS, ()):
            self.hidden.load(data)

    def check_invariants(self) -> None:
        """Raise `InvariantError` when a part contradicts itself."""
        self.sequences.check_invariants()
        self.transactions.check_invariants()
        self.lanes.check_invariants()
        self.hidden.check_invariants()
