"""Fetching: read several partitions at once, waiting for records when there are too few."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from goqueue.model.errors import DamagedRangeError, GoQueueError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.partition import Isolation, Partition
from goqueue.partitions.waiting import Waiter
from goqueue.records.batch import BatchInfo, walk
from goqueue.records.committed import committed
from goqueue.storage.region import Readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Executor

    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partitions import Partitions
    from goqueue.runtime.clock import Clock
    from goqueue.storage.region import Chunk
    from goqueue.tracing.log_groups import LogGroupTraces

_MAX_DAMAGED_RANGES: Final = 100
"""How many damaged stretches one read steps over; then it returns what it has, if anything."""
_USUAL_BYTES: Final = 4096
"""More than most messages have."""
_LEAST_BYTES: Final = 64 * 1024
_MAX_HELD_REGIONS: Final = 16
"""Regions that a fetch holds between finding and reading. A region keeps a file open, and a request
may name more partitions than the process may open files: of the others it keeps the length alone,
and finds them again when it is their turn."""


class PartitionRead(msgspec.Struct, frozen=True):
    """What a reader wants of one partition."""

    partition: TopicPartition
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    """The reader's view of the leader; -1 when it has none."""


class FetchRequest(msgspec.Struct, frozen=True):
    """What a reader wants, and how long it is willing to wait for it."""

    reads: Sequence[PartitionRead]
    max_wait_ms: int
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    grant: Callable[[int], int] | None = None
    """Asked, once there is enough, how many of so many bytes may be read into memory now."""
    by_message: bool = False
    """The reader takes single messages out of the batches, and tells `Fetcher.handed_out`."""
    group: str = ""
    """The group of the reader, where the protocol names it; Kafka's Fetch does not."""
    consumer: str = ""
    """The member of the group, or the client id."""
    any_replica: bool = False
    """A follower may be read, as far as it knows what is committed."""
    is_relayed: bool = False
    """Another node reads for somebody there, and notes in traces who that is."""


def bytes_for(limit: int, at_most: int) -> int:
    """How much to read for so many messages: enough of most, and not megabytes for a few."""
    return min(max(limit * _USUAL_BYTES, _LEAST_BYTES), at_most)


class Fetched(msgspec.Struct, frozen=True):
    """What one partition had: whole batches, or the error that says why there are none."""

    read: PartitionRead
    data: bytes | bytearray = b""
    count: int = 0
    """How many records the batches hold, those before the offset asked for included."""
    next_offset: int = -1
    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = -1
    error: GoQueueError | None = None
    aborted: Sequence[tuple[int, int]] = ()
    """For a reader of committed records: producer id and first offset of each transaction among
    the batches that was aborted, in the order of the offsets."""


class _Found(msgspec.Struct):
    """A partition's watermarks and where its records are, before anything is read."""

    read: PartitionRead
    partition: Partition | None = None
    region: Readable | None = None
    length: int = 0
    """Of the region, also when that is not held."""
    error: GoQueueError | None = None
    any_replica: bool = False

    def find(self, offset: int, max_bytes: int, isolation: Isolation) -> Readable | None:
        """The batches from an offset on, of a partition that is here."""
        assert self.partition is not None
        if self.any_replica and not self.partition.is_leading:
            return self.partition.find_committed(offset, max_bytes, isolation)
        return self.partition.find(offset, max_bytes, isolation)


class Fetcher:
    """Serves readers of partitions, from memory where it can, from a thread where it must."""

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        executor: Executor,
        measures: Measures,
        on_damage: Callable[[TopicPartition, DamagedRangeError], None],
        *,
        traces: LogGroupTraces,
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._executor = executor
        self._measures = measures
        self._on_damage = on_damage
        self._traces = traces

    async def fetch(self, request: FetchRequest) -> list[Fetched]:
        """Read every partition asked for, one result for each, in the order asked.

        Returns as soon as `min_bytes` can be read, or something went wrong that the reader must
        hear of, or `max_wait_ms` is over. At least one whole batch is returned if there is one,
        however small the limits. Damaged stretches are stepped over and reported.
        """
        polled_s = self._clock.monotonic_s()
        found = self._within_grant(request, await self._find_enough(request))
        read_s = self._clock.monotonic_s()
        fetched = [await self._load(item, found, request.isolation) for item in found]
        now_s = self._clock.monotonic_s()
        self._measure(request, fetched, now_s - polled_s, now_s - read_s)
        return fetched

    def fetch_now(self, request: FetchRequest) -> list[Fetched] | None:
        """`fetch` where all that is asked for is at hand: enough records, in memory, and no error.

        None when there is something to wait for, or to tell; nothing was counted then.
        """
        if not self._has_news(request):
            return None
        polled_s = self._clock.monotonic_s()
        found = self._find(request)
        size = _size(found)
        if size < max(request.min_bytes, 1) or any(item.error for item in found):
            return None
        if request.grant is not None and request.grant(size) < size:
            return None
        read_s = self._clock.monotonic_s()
        fetched = []
        for item in found:
            try:
                chunk = None if item.region is None else item.region.load_cached()
            except DamagedRangeError:
                return None
            if chunk is None and item.length:
                return None
            fetched.append(_fetched(item, chunk, request.isolation))
        now_s = self._clock.monotonic_s()
        self._measure(request, fetched, now_s - polled_s, now_s - read_s)
        return fetched

    def _has_news(self, request: FetchRequest) -> bool:
        """Whether a partition has records that its reader has not asked for; costs no search."""
        for read in request.reads:
            partition = self._partitions.find(read.partition)
            if partition is not None and partition.readable_to(request.isolation) > read.offset:
                return True
        return False

    def handed_out(self, counts: Mapping[str, int]) -> None:
        """So many messages of each topic went to a reader that takes them one by one."""
        self._measures.poll_batch_size.observe(sum(counts.values()))
        for topic, count in counts.items():
            self._measures.topic(topic).consumed(count)

    def _measure(
        self, request: FetchRequest, fetched: list[Fetched], polled_s: float, read_s: float
    ) -> None:
        measures = self._measures
        count = sum(item.count for item in fetched)
        measures.polls.add()
        measures.poll_latency.observe(polled_s)
        if count == 0:
            measures.polls_empty.add()
            return
        measures.fetch_latency.observe(read_s)
        if not request.by_message:
            measures.poll_batch_size.observe(count)
        for item in fetched:
            if item.data:
                topic = measures.topic(item.read.partition.topic)
                topic.consumed(0 if request.by_message else item.count, len(item.data))
                topic.bytes_read.add(len(item.data))
        if self._traces.is_on and not request.is_relayed:
            self._trace(self._traces.fetched, request, fetched)

    def relayed(self, request: FetchRequest, fetched: list[Fetched]) -> None:
        """Another node has read this for a reader here."""
        if self._traces.is_on:
            self._trace(self._traces.relayed, request, fetched)

    def _trace(
        self, note: Callable[..., None], request: FetchRequest, fetched: list[Fetched]
    ) -> None:
        for item in fetched:
            if item.data:
                note(
                    item.read.partition,
                    item.read.offset,
                    item.next_offset,
                    group=request.group,
                    consumer=request.consumer,
                )

    async def _find_enough(self, request: FetchRequest) -> list[_Found]:
        """Look up every read; again, each time that it is woken, until there is enough to read."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.max_wait_ms / 1000
        found = self._find(request)
        while (missing := request.min_bytes - _size(found)) > 0:
            left_s = deadline - loop.time()
            if left_s <= 0 or any(item.error for item in found):
                break
            _let_go(found)
            if not await self._wait(found, request.isolation, missing, left_s):
                break
            found = self._find(request)
        return found

    def _within_grant(self, request: FetchRequest, found: list[_Found]) -> list[_Found]:
        """What may be read of what was found; asked this late, a long wait holds no memory."""
        wanted = _size(found)
        if request.grant is None or wanted == 0:
            return found
        granted = request.grant(wanted)
        if granted >= wanted:
            return found
        _let_go(found)
        return self._find(replace(request, max_bytes=granted))

    def _find(self, request: FetchRequest) -> list[_Found]:
        """Look up every read; the limits are for all of them together.

        Only the first partition that has something may go beyond the limits, by a single batch:
        so a reader always gets on, and never gets much more than it asked for.
        """
        left_bytes = request.max_bytes
        found = []
        found_count = 0
        for read in request.reads:
            item = self._find_one(read, request, left_bytes, is_first=not found_count)
            if item.length:
                left_bytes -= item.length
                found_count += 1
                if found_count > _MAX_HELD_REGIONS:
                    item.region = None
            found.append(item)
        return found

    def _find_one(
        self, read: PartitionRead, request: FetchRequest, left_bytes: int, *, is_first: bool
    ) -> _Found:
        item = _Found(read, any_replica=request.any_replica)
        limit = min(read.max_bytes, left_bytes)
        try:
            if request.any_replica:
                item.partition = self._partitions.local(read.partition)
            else:
                item.partition = self._partitions.partition(read.partition)
                item.partition.check_leader_epoch(read.leader_epoch)
            region = self._region(item, limit, request.isolation)
            if region is not None and (is_first or region.length <= limit):
                item.region = region
                item.length = region.length
        except GoQueueError as error:
            item.error = error
        return item

    def _region(
        self, item: _Found, max_bytes: int, isolation: Isolation, start: int | None = None
    ) -> Readable | None:
        """Where the records begin, past any damage at the place asked for."""
        assert item.partition is not None
        offset = item.read.offset if start is None else start
        for _ in range(_MAX_DAMAGED_RANGES):
            try:
                return item.find(offset, max_bytes, isolation)
            except DamagedRangeError as damage:
                self._on_damage(item.read.partition, damage)
                offset = damage.resume_at
        return None

    async def _wait(
        self, found: list[_Found], isolation: Isolation, missing_bytes: int, timeout_s: float
    ) -> bool:
        """Wait for so many more bytes; False when the time is over."""
        waiter = Waiter(missing_bytes)
        queues = [
            item.partition.waiters_for(isolation) for item in found if item.partition is not None
        ]
        for waiters in queues:
            waiters.add(waiter)
        try:
            return await waiter.wait(timeout_s)
        finally:
            for waiters in queues:
                waiters.discard(waiter)

    async def _load(self, item: _Found, found: list[_Found], isolation: Isolation) -> Fetched:
        partition = item.partition
        if partition is None:
            return Fetched(item.read, error=item.error)
        chunk = None
        error = item.error
        try:
            if item.length:
                chunk = await self._load_found(item, found, isolation)
        except GoQueueError as caught:
            error = caught
        finally:
            item.region = None
        return _fetched(item, chunk, isolation, error)

    async def _load_found(
        self, item: _Found, found: list[_Found], isolation: Isolation
    ) -> Chunk | None:
        """Read what was found, past any damage in it; None when nothing is left of it."""
        offset = item.read.offset
        if item.region is None:
            item.region = self._region(item, item.length, isolation)
        while item.region is not None:
            try:
                return await self._read(item.region, found)
            except DamagedRangeError as damage:
                self._on_damage(item.read.partition, damage)
                offset = max(damage.resume_at, offset + 1)
                item.region = self._region(item, item.length, isolation, offset)
        return None

    async def _read(self, region: Readable, found: list[_Found]) -> Chunk:
        """The region's batches: at once when the kernel has them in memory, else in a thread."""
        chunk = region.load_cached()
        if chunk is None:
            _let_go(found)
            loop = asyncio.get_running_loop()
            chunk = await loop.run_in_executor(self._executor, region.load)
        return chunk


def visible_batches(fetched: Fetched) -> Iterator[tuple[int, BatchInfo]]:
    """The position and header of each batch of a fetch that holds messages for its reader."""
    return committed(walk(fetched.data), fetched.aborted)


def _fetched(
    item: _Found, chunk: Chunk | None, isolation: Isolation, error: GoQueueError | None = None
) -> Fetched:
    """What was read of a partition that is here."""
    partition, read = item.partition, item.read
    assert partition is not None
    data, next_offset, count = chunk or (b"", read.offset, 0)
    aborted: Sequence[tuple[int, int]] = ()
    if chunk is not None and isolation is Isolation.READ_COMMITTED:
        aborted = partition.transactions.aborted_between(read.offset, next_offset)
    return Fetched(
        read,
        data,
        count,
        next_offset,
        partition.high_watermark,
        partition.last_stable,
        partition.log_start,
        error,
        aborted,
    )


def _size(found: list[_Found]) -> int:
    return sum(item.length for item in found)


def _let_go(found: list[_Found]) -> None:
    """Keep no file open from here on: there may be many fetches that wait."""
    for item in found:
        item.region = None
