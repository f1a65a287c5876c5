"""The transactions of one partition: where the undecided ones begin, and which were aborted.

Both follow from the log: the first batch of a producer opens its transaction here, a marker ends
it. Readers of committed records stop at the first undecided one, and are told of the aborted ones
among what they read: two numbers for each, and nothing for each message.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import InvariantError
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.markers import Marker, TransactionEnd, read_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.disk import Bytes

_OPEN: Final = struct.Struct(">q")
_ENDED: Final = struct.Struct(">qq")
_NOWHERE: Final = 1 << 62
_ABORTED: Final = struct.Struct(">qqqq")


class AbortedTransaction(NamedTuple):
    """A producer's records from `first_offset` on, up to its marker, that nobody shall see."""

    producer_id: int
    first_offset: int
    marker_offset: int
    last_stable: int
    """What the last stable offset was once the marker was in the log: aborted transactions whose
    markers come later begin there or behind."""


class PartitionTransactions:
    """What one partition knows of the transactions in its log."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        """Producer id to first offset, in the order of the offsets: the log's own order."""
        self._ended: list[tuple[int, int]] = []
        """First offset and marker offset of transactions whose marker readers cannot see yet:
        until they can, a reader of committed records must not pass the first offset."""
        # The aborted ones in the order of their markers: 32 bytes each, bounded by retention.
        self._producers = array("q")
        self._firsts = array("q")
        self._markers = array("q")
        self._stables = array("q")

    def __len__(self) -> int:
        return len(self._open)

    # --- Following the log -----------------------------------------------------------------------

    def note(self, info: BatchInfo, offset: int, batch: Bytes) -> TransactionEnd | None:
        """Follow a transactional batch that is in the log from `offset` on.

        Returns what it says of the end of a transaction, if it is a marker.
        """
        if not info.is_control:
            self._open.setdefault(info.producer_id, offset)
            return None
        end = read_marker(batch)
        first = self._open.pop(info.producer_id, None) if end is not None else None
        if end is None or first is None:
            return end
        self._ended.append((first, offset))
        if end.marker is Marker.ABORT:
            stable = min(self.first_undecided(), offset + info.last_offset_delta + 1)
            self._add(AbortedTransaction(info.producer_id, first, offset, stable))
        return end

    def _add(self, aborted: AbortedTransaction) -> None:
        self._producers.append(aborted.producer_id)
        self._firsts.append(aborted.first_offset)
        self._markers.append(aborted.marker_offset)
        self._stables.append(aborted.last_stable)

    def forget_before(self, log_start: int) -> None:
        """The log starts later now: forget the aborted transactions that ended before."""
        gone = bisect_left(self._markers, log_start)
        for column in (self._producers, self._firsts, self._markers, self._stables):
            del column[:gone]

    # --- Asking ----------------------------------------------------------------------------------

    def first_of(self, producer_id: int) -> int | None:
        """Where a producer's open transaction begins here; None when it has none."""
        return self._open.get(producer_id)

    def open_producers(self) -> list[int]:
        """The producers with an open transaction here, the oldest first."""
        return list(self._open)

    def first_undecided(self) -> int:
        """Where the oldest open transaction begins; past every offset when there is none."""
        return next(iter(self._open.values()), _NOWHERE)

    @property
    def are_decided(self) -> bool:
        """Nothing is open, and every marker was seen to be visible: the rule, and cheap to ask."""
        return not self._open and not self._ended

    def last_stable(self, high_watermark: int) -> int:
        """Below it every transaction is decided, by a marker that all readers can see.

        It moves when the oldest open transaction ends, and never past the high watermark.
        """
        if self._ended:
            self._ended = [each for each in self._ended if each[1] >= high_watermark]
        undecided = (first for first, _ in self._ended)
        return min(high_watermark, self.first_undecided(), *undecided)

    def aborted_between(self, start: int, end: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction that overlaps a read.

        In the order of their first offsets. The search begins at the first marker behind `start`
        and ends with the first that tells that all later ones begin behind `end`.
        """
        found = []
        for at in range(bisect_left(self._markers, start), len(self._markers)):
            if self._firsts[at] < end:
                found.append((self._producers[at], self._firsts[at]))
            if self._stables[at] >= end:
                break
        found.sort(key=lambda each: each[1])
        return found

    def aborted(self) -> Iterator[AbortedTransaction]:
        """Every aborted transaction that the log still holds something of."""
        columns = (self._producers, self._firsts, self._markers, self._stables)
        return map(AbortedTransaction, *columns)

    def is_aborted(self, info: BatchInfo) -> bool:
        """Whether a stored batch is part of an aborted transaction; cheap for any other batch."""
        if not info.is_transactional or info.is_control or not self._markers:
            return False
        overlapping = self.aborted_between(info.base_offset, info.base_offset + 1)
        return any(producer_id == info.producer_id for producer_id, _ in overlapping)

    def frozen(self) -> Callable[[BatchInfo], bool]:
        """`is_aborted` as of now, for use in another thread."""
        ranges: dict[int, list[AbortedTransaction]] = {}
        for each in self.aborted():
            ranges.setdefault(each.producer_id, []).append(each)

        def is_aborted(info: BatchInfo) -> bool:
            mine = ranges.get(info.producer_id, ())
            at = bisect_left(mine, info.base_offset, key=lambda each: each.marker_offset)
            return at < len(mine) and mine[at].first_offset <= info.base_offset

        return is_aborted

    # --- Snapshots -------------------------------------------------------------------------------

    def dump_open(self) -> Iterator[tuple[bytes, bytes]]:
        """The open transactions, oldest first."""
        for producer_id, first in self._open.items():
            yield producer_id.to_bytes(8, "big", signed=True), _OPEN.pack(first)

    def dump_aborted(self) -> bytes:
        """The aborted transactions in the order of their markers."""
        return b"".join(_ABORTED.pack(*each) for each in self.aborted())

    def dump_ended(self) -> bytes:
        """The transactions whose markers readers may not see yet.

        Of a replica among others a marker may be cut off again: what it has ended is undecided.
        """
        return b"".join(_ENDED.pack(*each) for each in self._ended)

    def load_ended(self, data: bytes) -> None:
        """Take over what `dump_ended` gave."""
        self._ended.extend(_ENDED.iter_unpack(data))

    def load_open(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Take over what `dump_open` gave."""
        for key, value in entries:
            producer_id = int.from_bytes(key, "big", signed=True)
            (self._open[producer_id],) = _OPEN.unpack(value)

    def load_aborted(self, data: bytes) -> None:
        """Take over what `dump_aborted` gave."""
        for fields in _ABORTED.iter_unpack(data):
            self._add(AbortedTransaction._make(fields))

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the order that searches rely on is broken."""
        firsts, markers = list(self._open.values()), list(self._markers)
        if firsts != sorted(firsts):
            raise InvariantError(f"open transactions are out of order: {self._open}")
        if markers != sorted(markers) or any(
            each.first_offset >= each.marker_offset for each in self.aborted()
        ):
            raise InvariantError("aborted transactions are out of order")
