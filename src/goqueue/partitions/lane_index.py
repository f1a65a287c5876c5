"""Which lane each message of a partition waits in, at a cost per run of equal priority.

Only runs that are not normal are kept: a topic without priorities costs nothing, and an offset
that nobody spoke of is normal, so that no message can be lost here, only its haste. One index a
partition is shared by every queue group that reads it.

The lane of an offset is final once noted, because groups remember how far they have read in each
lane. Noting the same again, as after a recovery, changes nothing; noting another lane for it is a
bug and raises. So note a batch before its offsets become visible to readers, and ask only about
offsets that are.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import accumulate, chain, groupby, islice
from operator import add, lt, sub
from typing import TYPE_CHECKING, Final

from goqueue.model.delivery import PRIORITY_HEADER, Priority
from goqueue.model.errors import CorruptQueueStateError, InvariantError, PriorityError
from goqueue.model.limits import PRIORITY_COUNT
from goqueue.records.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from goqueue.records.record import Headers, Record

_MAX_RUNS: Final = 4_000_000
"""Runs of one partition, 16 to 32 bytes each. Beyond it messages wait in the normal lane, in which
they are delivered as all others; `LaneIndex.demoted` counts them."""

_NORMAL: Final = int(Priority.NORMAL)
_URGENT_OR_LAX: Final = tuple(int(each) for each in Priority if each is not Priority.NORMAL)
_VERSION: Final = 1
_PREFIX: Final = struct.Struct("<BqqQ")
_SECTION: Final = struct.Struct("<QBB")
_CHECKSUM: Final = struct.Struct("<I")
_CODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}


class LaneIndex:
    """The lanes of the offsets of one partition.

    Every lane but the normal one has its runs in arrays of its own, so that its next run is one
    bisection away however many runs the others have. `_covered` is the union of them: what lies
    between its ranges is normal.

    Watermarks: `start` is where the log begins (moved by `forget_before`), `end` is one above the
    last offset whose lane is final (moved by `note`, `advance_to`, and down by `truncate_to`);
    every run lies between them.
    """

    def __init__(self, max_runs: int = _MAX_RUNS) -> None:
        self._max_runs = max_runs
        self._start = 0
        self._end = 0
        self._demoted = 0
        self._covered = _Runs()
        self._lanes = {lane: _Runs() for lane in _URGENT_OR_LAX}

    def __len__(self) -> int:
        """How many runs are kept; 0 when everything is normal."""
        return sum(len(runs) for runs in self._lanes.values())

    @property
    def is_flat(self) -> bool:
        """Whether everything is normal."""
        return not self._covered

    @property
    def start(self) -> int:
        """Offsets below it are forgotten."""
        return self._start

    @property
    def end(self) -> int:
        """Offsets below it have a lane for good; reading the log goes on here after a `load`."""
        return self._end

    @property
    def demoted(self) -> int:
        """How many messages wait in the normal lane because there were too many runs."""
        return self._demoted

    def note(self, first: int, priorities: Sequence[int]) -> None:
        """Take down the priorities of consecutive offsets from `first` on.

        Offsets that were left out below `first` are normal. Those below `end` are only compared.

        Raises:
            InvariantError: an offset has another lane already, or there is no such lane. Nothing
                was taken down.
        """
        if not priorities:
            return
        if first < 0 or min(priorities) < 0 or max(priorities) >= PRIORITY_COUNT:
            raise InvariantError(f"no offset or no lane: {first}, {sorted(set(priorities))}")
        known = self._end - first
        if known > 0:
            self._compare(first, priorities[:known])
            first, priorities = self._end, priorities[known:]
        for lane, run in groupby(priorities):
            end = first + len(list(run))
            if lane != _NORMAL:
                self._append(lane, first, end)
            first = end
        self._end = first

    def note_at(self, offset: int, priority: int) -> None:
        """`note` for a single message, as in a compacted batch, where offsets are missing."""
        self.note(offset, (priority,))

    def advance_to(self, end: int) -> None:
        """Everything below `end` that was not noted is normal, for good."""
        self._end = max(self._end, end)

    def truncate_to(self, end: int) -> None:
        """Forget every offset from `end` on: the log has lost its tail."""
        for runs in self._all_runs():
            runs.truncate_to(end)
        self._start = min(self._start, end)
        self._end = min(self._end, end)

    def forget_before(self, start: int) -> None:
        """Forget every offset below `start`: the log, or every group's interest, begins there."""
        if start <= self._start:
            return
        for runs in self._all_runs():
            runs.forget_before(start)
        self._start = start
        self._end = max(self._end, start)

    def lane_of(self, offset: int) -> int:
        """The lane of one message; normal when nobody said otherwise."""
        if offset in self._covered:
            for lane, runs in self._lanes.items():
                if offset in runs:
                    return lane
        return _NORMAL

    def next_run(self, lane: int, start: int, until: int) -> tuple[int, int] | None:
        """The first range [first, end) of that lane inside [start, until); None when none is."""
        if lane == _NORMAL:
            return self._covered.next_gap(start, until)
        return self._lanes[lane].next_run(start, until)

    def runs(self, lane: int, start: int, until: int) -> Iterator[tuple[int, int]]:
        """Every maximal range [first, end) of that lane inside [start, until), in order.

        The index must not change while this is walked; `next_run` is for those who cannot tell.
        """
        if lane == _NORMAL:
            return self._covered.gaps(start, until)
        return self._lanes[lane].between(start, until)

    def counts(self, start: int, until: int) -> tuple[int, ...]:
        """How many offsets of each lane lie inside [start, until)."""
        found = [0] * PRIORITY_COUNT
        found[_NORMAL] = max(until - start, 0)
        if self._covered:
            for lane, runs in self._lanes.items():
                found[lane] = runs.count(start, until)
                found[_NORMAL] -= found[lane]
        return tuple(found)

    def dump(self) -> bytes:
        """Everything, for a snapshot: as a rule two to four bytes a run."""
        parts = [_PREFIX.pack(_VERSION, self._start, self._end, self._demoted)]
        parts += [runs.dump() for runs in self._all_runs()]
        body = b"".join(parts)
        return body + _CHECKSUM.pack(crc32c(body))

    def load(self, data: bytes) -> None:
        """Become what `dump` was called on.

        Raises:
            CorruptQueueStateError: these are not the bytes of a dump. Nothing was changed; the
                index can be built from the log instead.
        """
        body, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
        if len(body) < _PREFIX.size or _CHECKSUM.pack(crc32c(body)) != checksum:
            raise CorruptQueueStateError("the lanes of a partition do not have their checksum")
        version, start, end, demoted = _PREFIX.unpack_from(body)
        if version != _VERSION:
            raise CorruptQueueStateError(f"lanes in format {version}, expected {_VERSION}")
        covered, lanes = _Runs(), {lane: _Runs() for lane in _URGENT_OR_LAX}
        at = _PREFIX.size
        for runs in (covered, *lanes.values()):
            at = runs.load(body, at)
        if at != len(body):
            raise CorruptQueueStateError(f"{len(body) - at} bytes after the lanes of a partition")
        self._start, self._end, self._demoted = start, end, demoted
        self._covered, self._lanes = covered, lanes

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the lanes contradict each other or the watermarks."""
        if self._start > self._end:
            raise InvariantError(f"start {self._start} above end {self._end}")
        for runs in self._all_runs():
            runs.check_invariants(self._start, self._end)
        union = _Runs()
        everything = sorted(chain.from_iterable(runs.pairs() for runs in self._lanes.values()))
        for first, end in everything:
            if union and first < union.last_end:
                raise InvariantError(f"two lanes have offset {first}")
            union.append(first, end)
        if list(union.pairs()) != list(self._covered.pairs()):
            raise InvariantError("the union of the lanes is not what they cover")

    def _all_runs(self) -> Iterator[_Runs]:
        yield self._covered
        yield from self._lanes.values()

    def _append(self, lane: int, first: int, end: int) -> None:
        runs = self._lanes[lane]
        if (not runs or runs.last_end < first) and len(self) >= self._max_runs:
            self._demoted += end - first
            return
        runs.append(first, end)
        self._covered.append(first, end)

    def _compare(self, first: int, priorities: Sequence[int]) -> None:
        for offset, lane in enumerate(priorities, first):
            known = self.lane_of(offset)
            if known == lane or offset < self._start or (known == _NORMAL and self._demoted):
                continue
            raise InvariantError(
                f"offset {offset} is in lane {known}, and now said to be in {lane}"
            )


class _Runs:
    """Ranges [first, end) of offsets in order, none touching the next, in two flat arrays."""

    __slots__ = ("_ends", "_firsts")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._ends = array("q")

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    @property
    def last_end(self) -> int:
        """Where the last range ends; there must be one."""
        return self._ends[-1]

    def pairs(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._ends, strict=True)

    def append(self, first: int, end: int) -> None:
        """Add a range at or above the last end."""
        if self._ends and self._ends[-1] == first:
            self._ends[-1] = end
        else:
            self._firsts.append(first)
            self._ends.append(end)

    def truncate_to(self, end: int) -> None:
        kept = bisect_left(self._firsts, end)
        del self._firsts[kept:], self._ends[kept:]
        if self._ends and self._ends[-1] > end:
            self._ends[-1] = end

    def forget_before(self, start: int) -> None:
        gone = bisect_right(self._ends, start)
        del self._firsts[:gone], self._ends[:gone]
        if self._firsts and self._firsts[0] < start:
            self._firsts[0] = start

    def next_run(self, start: int, until: int) -> tuple[int, int] | None:
        at = bisect_right(self._ends, start)
        if at == len(self._ends):
            return None
        first = max(self._firsts[at], start)
        return (first, min(self._ends[at], until)) if first < until else None

    def next_gap(self, start: int, until: int) -> tuple[int, int] | None:
        at = bisect_right(self._ends, start)
        if at < len(self._firsts) and self._firsts[at] <= start:
            start = self._ends[at]
            at += 1  # ranges do not touch: what follows this one is a gap
        if start >= until:
            return None
        return start, min(self._firsts[at], until) if at < len(self._firsts) else until

    def between(self, start: int, until: int) -> Iterator[tuple[int, int]]:
        if start >= until:
            return
        for at in range(bisect_right(self._ends, start), bisect_left(self._firsts, until)):
            yield max(self._firsts[at], start), min(self._ends[at], until)

    def gaps(self, start: int, until: int) -> Iterator[tuple[int, int]]:
        for first, end in self.between(start, until):
            if start < first:
                yield start, first
            start = end
        if start < until:
            yield start, until

    def count(self, start: int, until: int) -> int:
        low, high = bisect_right(self._ends, start), bisect_left(self._firsts, until)
        if start >= until or low >= high:
            return 0
        whole = sum(self._ends[low:high]) - sum(self._firsts[low:high])
        return whole - max(start - self._firsts[low], 0) - max(self._ends[high - 1] - until, 0)

    def dump(self) -> bytes:
        """Distances from first to first, then lengths, each as wide as the largest needs."""
        gaps = _narrow(map(sub, self._firsts, chain((0,), self._firsts)))
        lengths = _narrow(map(sub, self._ends, self._firsts))
        head = _SECTION.pack(len(self), gaps.itemsize, lengths.itemsize)
        return head + gaps.tobytes() + lengths.tobytes()

    def load(self, data: bytes, at: int) -> int:
        """Read what `dump` wrote at `at`; returns where it ends."""
        try:
            count, gap_bytes, length_bytes = _SECTION.unpack_from(data, at)
            at += _SECTION.size
            gaps = _widen(data, at, count, gap_bytes)
            at += count * gap_bytes
            lengths = _widen(data, at, count, length_bytes)
            self._firsts = array("q", accumulate(gaps))
            self._ends = array("q", map(add, self._firsts, lengths))
        except (struct.error, KeyError, ValueError, OverflowError) as error:
            raise CorruptQueueStateError("the lanes of a partition do not decode") from error
        return at + len(lengths) * lengths.itemsize

    def check_invariants(self, start: int, end: int) -> None:
        if len(self._firsts) != len(self._ends):
            raise InvariantError(f"{len(self._firsts)} firsts and {len(self._ends)} ends")
        if not self:
            return
        if self._firsts[0] < start or self._ends[-1] > end:
            raise InvariantError(f"runs outside of {start} to {end}")
        if not all(map(lt, self._firsts, self._ends)):
            raise InvariantError("a run is empty")
        if not all(map(lt, self._ends, islice(self._firsts, 1, None))):
            raise InvariantError("runs overlap, touch, or are out of order")


def priority_of(headers: Headers) -> int:
    """The lane of a stored message: its last word on it.

    A text that is no priority counts as normal: what is stored cannot be refused any more.
    """
    for name, value in reversed(headers):
        if name == PRIORITY_HEADER:
            return _parsed(value)
    return _NORMAL


def priorities_of(records: Iterable[Record]) -> list[int]:
    """The lane of each stored message, in their order."""
    return [priority_of(record.headers) if record.headers else _NORMAL for record in records]


@lru_cache(maxsize=64)
def _parsed(value: bytes | None) -> int:
    try:
        return int(Priority.parse((value or b"").decode()))
    except (PriorityError, UnicodeDecodeError):
        return _NORMAL


def _narrow(values: Iterable[int]) -> array[int]:
    """The numbers in the narrowest array that holds the largest, in little-endian order."""
    wide = array("Q", values)
    largest = max(wide, default=0)
    width = next(width for width in _CODES if largest < 1 << 8 * width)
    return _little_endian(array(_CODES[width], wide))


def _widen(data: bytes, at: int, count: int, width: int) -> array[int]:
    piece = data[at : at + count * width]
    if len(piece) != count * width:
        raise ValueError(f"{count} numbers of {width} bytes are cut off")
    values = array(_CODES[width])
    values.frombytes(piece)
    return _little_endian(values)


def _little_endian(values: array[int]) -> array[int]:
    if sys.byteorder == "big":
        values.byteswap()
    return values
