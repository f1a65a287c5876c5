"""Offsets of dead-letter topics that hold no letter, so that letters can be counted.

A transaction ends with a marker, which takes up an offset; what was aborted, and what compaction
has removed, takes up more of them. Where these are follows from the log: it is read once, and from
then on only what has come since. A partition that is not on this node is fetched from its leader.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from goqueue.model.errors import ClusterError, DamagedRangeError
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.partition import Isolation
from goqueue.reading.remote_source import RemoteSource
from goqueue.records import decode_readable
from goqueue.records.batch import BatchInfo, walk
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.partitions.partition import Partition
    from goqueue.reading.record_reader import RecordSource
    from goqueue.storage.region import Chunk

_MAX_GAPS: Final = 100_000
"""Of one partition, 24 bytes each. Those of more come to be counted as letters: a count is then
too large by the markers above this number, and nothing else depends on it."""
_MAX_REMOTE: Final = 1000
"""Partitions on other nodes whose gaps are kept. With more, those of the one that was asked for
longest ago are forgotten, and it is fetched anew when somebody asks again."""
_READ_BYTES: Final = 1024 * 1024


class Gaps:
    """Some ranges of offsets, in order; how much of any other range they cover."""

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self._before = array("q")
        """Offsets in all gaps before each one."""
        self.known_to = 0
        """Where the next look begins. All gaps end at or before it; it moves with every look."""

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, first: int, end: int) -> None:
        """Note a gap behind the others; what it has in common with the last one is left out."""
        first = max(first, self._ends[-1]) if self._ends else first
        if first >= end or len(self._starts) >= _MAX_GAPS:
            return
        if self._ends and self._ends[-1] == first:
            self._ends[-1] = end
            return
        self._before.append(self._covered_below(first))
        self._starts.append(first)
        self._ends.append(end)

    def forget_before(self, log_start: int) -> None:
        """The log starts later now: nobody asks for what was before."""
        gone = bisect_right(self._ends, log_start)
        for column in (self._starts, self._ends, self._before):
            del column[:gone]

    def covered(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are in gaps."""
        return self._covered_below(end) - self._covered_below(first) if first < end else 0

    def _covered_below(self, offset: int) -> int:
        at = bisect_left(self._starts, offset) - 1
        if at < 0:
            return self._before[0] if self._before else 0
        return self._before[at] + min(offset, self._ends[at]) - self._starts[at]

    def last_outside(self, first: int, end: int) -> int | None:
        """The last offset of [first, end) that is in no gap."""
        at = bisect_left(self._starts, end) - 1
        last = end - 1
        if at >= 0 and last < self._ends[at]:
            last = self._starts[at] - 1  # two gaps never touch, so this one is in none
        return last if last >= first else None


class _Part(NamedTuple):
    """What one read has found."""

    found: list[tuple[int, int, BatchInfo | None]]
    """Gaps; with a batch: if that was aborted, which only the event loop can tell."""
    upto: int


class LetterGaps:
    """The gaps of every partition that somebody has asked for."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._gaps: WeakKeyDictionary[Partition, Gaps] = WeakKeyDictionary()
        self._remote: dict[TopicIdPartition, Gaps] = {}
        """Of partitions on other nodes, by key: nobody follows one of them for long."""

    async def upto(self, partition: RecordSource, end: int) -> Gaps:
        """The gaps of a partition, all of those before `end`, where readers of letters stop.

        Of a partition on another node those that are known, where its leader cannot be asked.

        Raises:
            StorageError: the disk refused.
        """
        gaps = self._known(partition)
        gaps.forget_before(partition.log_start)
        gaps.known_to = max(gaps.known_to, partition.log_start)
        while gaps.known_to < end:
            at = gaps.known_to
            try:
                part = await self._read_on(partition, at, end)
            except ClusterError:
                break
            if gaps.known_to == at:  # nobody else has looked at the same meanwhile
                for first, behind, info in part.found:
                    if info is None or partition.transactions.is_aborted(info):
                        gaps.add(first, behind)
                gaps.known_to = part.upto
        return gaps

    def _known(self, partition: RecordSource) -> Gaps:
        """What is known of a partition; nothing, if what nobody was promised is gone from it."""
        if isinstance(partition, RemoteSource):
            gaps = self._remote.pop(partition.key, None)
            if gaps is None or gaps.known_to > partition.log_end:
                gaps = Gaps()
            if len(self._remote) >= _MAX_REMOTE:
                del self._remote[next(iter(self._remote))]
            self._remote[partition.key] = gaps
            return gaps
        gaps = self._gaps.setdefault(partition, Gaps())
        if gaps.known_to > partition.log_end:
            gaps = self._gaps[partition] = Gaps()
        return gaps

    async def _read_on(self, partition: RecordSource, at: int, end: int) -> _Part:
        if not isinstance(partition, RemoteSource):
            return await in_thread(self._executor, partial(_look, partition, at, end))
        chunk, resume_at = await partition.fetch(at, _READ_BYTES, Isolation.READ_COMMITTED)
        if chunk is None:
            upto = min(resume_at, end)
            return _Part([(at, upto, None)], upto)
        return await in_thread(self._executor, partial(_parse, chunk, at, end))


def _look(partition: Partition, first: int, end: int) -> _Part:
    """Read on from an offset: some of what there is before `end`, at least one batch."""
    try:
        region = partition.read(first, _READ_BYTES, until=end)
        if region is None:
            return _Part([(first, end, None)], end)
        chunk = region.load()
    except DamagedRangeError as damage:
        upto = max(damage.resume_at, first + 1)
        return _Part([(first, upto, None)], upto)
    return _parse(chunk, first, end)


def _parse(chunk: Chunk, first: int, end: int) -> _Part:
    """The gaps in what was read; a leader may give more than what is known here to be committed."""
    found: list[tuple[int, int, BatchInfo | None]] = []
    expected = first
    for position, info in walk(chunk.data):
        if info.base_offset > expected:
            found.append((expected, min(info.base_offset, end), None))
        if info.base_offset >= end:
            return _Part(found, end)
        expected = info.next_offset
        if info.is_control:
            found.append((info.base_offset, info.next_offset, None))
            continue
        if info.is_transactional:
            found.append((info.base_offset, info.next_offset, info))
        if info.count != info.last_offset_delta + 1:
            found += ((*hole, None) for hole in _holes(chunk.data, position, info))
    return _Part(found, max(chunk.next_offset, first + 1))


def _holes(data: bytes | bytearray, position: int, info: BatchInfo) -> Iterator[Range]:
    """Where compaction has taken records out of a batch."""
    expected = info.base_offset
    for record in decode_readable(data, position).records:
        if record.offset > expected:
            yield expected, record.offset
        expected = record.offset + 1
    if expected < info.next_offset:
        yield expected, info.next_offset
