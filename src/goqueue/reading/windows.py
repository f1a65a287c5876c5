"""Where a search looks into a partition: a log here, or the leader on another node."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.errors import OffsetOutOfRangeError
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.partition import Isolation
from goqueue.reading.fetch import Fetched, FetchRequest, PartitionRead, visible_batches
from goqueue.reading.searching import Loaded, SearchFilter, Window, look, pick
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.elsewhere.leaders import Leaders
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.reading.any_fetch import AnyFetcher
    from goqueue.reading.time_range import Span

_LEAST_BYTES: Final = 64 * 1024
_MAX_WINDOW_BYTES: Final = 4 * 1024 * 1024
"""What a look at another node's partition keeps; where messages are larger than was guessed, the
older ones of a window are left for the next look."""
_GUESSED_BYTES: Final = 200
"""The size of a message, before one was seen."""


class WindowRequest(NamedTuple):
    """What one look is for."""

    wanted: SearchFilter
    size_bytes: int
    limit: int
    newest: bool


class Windows(Protocol):
    """Looks into one partition, a window at a time."""

    async def look(self, span: Span, asked: WindowRequest) -> Window:
        """What one end of a span holds. Raises like `searching.look`."""


class Looks(Protocol):
    """Finds where to look."""

    def into(self, place: TopicPartition, span: Span) -> Windows:
        """The windows of a partition. Raises like `Partitions.partition`."""


class LocalLooks:
    """Looks into the logs of this node."""

    def __init__(self, partitions: Partitions, executor: Executor) -> None:
        self._partitions = partitions
        self._executor = executor

    def into(self, place: TopicPartition, span: Span) -> Windows:  # noqa: ARG002 - any of it is here
        """The log of a partition that is led here."""
        return LocalWindows(self._partitions.partition(place), self._executor)


class LocalWindows:
    """Windows of a log on this node."""

    def __init__(self, partition: Partition, executor: Executor) -> None:
        self._partition = partition
        self._executor = executor

    async def look(self, span: Span, asked: WindowRequest) -> Window:
        """What one end of a span holds, without what was aborted."""
        partition = self._partition
        window = await in_thread(
            self._executor,
            partial(
                look,
                partition,
                span,
                asked.wanted,
                until=partition.readable_to(Isolation.READ_COMMITTED),
                size_bytes=asked.size_bytes,
                limit=asked.limit,
                newest=asked.newest,
            ),
        )
        is_aborted = partition.transactions.is_aborted
        return window._replace(hits=[each for each in window.hits if not is_aborted(each.batch)])


class AnyLooks:
    """Looks into the partitions of a cluster: a replica here that has all, or the leader."""

    def __init__(self, leaders: Leaders, fetcher: AnyFetcher, executor: Executor) -> None:
        self._leaders = leaders
        self._fetcher = fetcher
        self._executor = executor

    def into(self, place: TopicPartition, span: Span) -> Windows:
        """A replica here that knows all of a span to be committed, or else the leader."""
        replica = self._leaders.replica(place)
        if replica is not None and (
            replica.is_leading or replica.readable_to(Isolation.READ_COMMITTED) >= span.end
        ):
            return LocalWindows(replica, self._executor)
        return RemoteWindows(place, self._fetcher, self._executor)


class RemoteWindows:
    """Windows of a partition that another node leads; where one begins backwards is guessed."""

    def __init__(self, place: TopicPartition, fetcher: AnyFetcher, executor: Executor) -> None:
        self._place = place
        self._fetcher = fetcher
        self._executor = executor
        self._message_bytes = _GUESSED_BYTES

    async def look(self, span: Span, asked: WindowRequest) -> Window:
        """What one end of a span holds, without what was aborted."""
        start = span.start
        if asked.newest:
            start = max(start, span.end - max(asked.size_bytes // self._message_bytes, 1))
        loaded = await self._load(start, span.end, asked)
        if loaded is None:
            return Window([], span._replace(start=span.end), None, 0, 0)
        return await in_thread(
            self._executor,
            partial(pick, loaded, span, asked.wanted, limit=asked.limit, newest=asked.newest),
        )

    async def _load(self, start: int, end: int, asked: WindowRequest) -> Loaded | None:
        """The batches of a window; None when nothing of it is there any more."""
        kept: list[Fetched] = []
        kept_bytes = read_bytes = 0
        at = start
        while at < end and (asked.newest or read_bytes < asked.size_bytes):
            try:
                found = await self._fetch(at, max(asked.size_bytes, _LEAST_BYTES))
            except OffsetOutOfRangeError as error:
                if not at < error.log_start < end:
                    break
                start = at = error.log_start  # retention has been there
                continue
            if not found.data:
                at = end
                break
            if asked.newest and kept_bytes + len(found.data) > _MAX_WINDOW_BYTES:
                kept, kept_bytes, start = [], 0, at
            kept.append(found)
            kept_bytes += len(found.data)
            read_bytes += len(found.data)
            self._message_bytes = max(len(found.data) // max(found.count, 1), 1)
            at = max(found.next_offset, at + 1)
        if start >= end or (not kept and at < end):
            return None
        batches = [(each.data, *batch) for each in kept for batch in visible_batches(each)]
        return Loaded(batches, start, end, at, read_bytes)

    async def _fetch(self, at: int, size_bytes: int) -> Fetched:
        request = FetchRequest(
            [PartitionRead(self._place, at, size_bytes)],
            0,
            isolation=Isolation.READ_COMMITTED,
            by_message=True,
        )
        (found,) = await self._fetcher.fetch(request)
        if found.error is not None:
            raise found.error
        return found
