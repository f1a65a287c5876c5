"""Reading partitions from a place on, without a group."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from goqueue.client.consuming.decoding import Chunk, Decode, arrow_of, messages_of
from goqueue.client.consuming.fetcher import Fetcher
from goqueue.client.consuming.log_offsets import bounds_of, check_start, offsets_of
from goqueue.client.link.link import TOPIC_AGE_S
from goqueue.model.errors import GoQueueError, OffsetOutOfRangeError, UnknownPartitionError
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from goqueue.client.link.link import Link
    from goqueue.client.link.metadata import TopicView
    from goqueue.client.types import Message, Start

_log = logging.getLogger(__name__)

_PREFETCH_BYTES: Final = 4 * 1024 * 1024
"""What waits to be taken; at the bound, nothing more is fetched."""

BatchForm: TypeAlias = "int | Literal['arrow', 'pandas'] | None"
"""What `consume` hands out: so many messages at once, tables, or as it comes."""


class _Buffer:
    """Chunks between the fetcher and the program, both in one loop."""

    def __init__(self) -> None:
        self.chunks: deque[Chunk] = deque()
        self.news = asyncio.Event()
        self._bytes = 0
        self._failure: Exception | None = None

    @property
    def has_room(self) -> bool:
        return self._bytes < _PREFETCH_BYTES

    def put(self, chunk: Chunk) -> None:
        if chunk.count:
            self._bytes += chunk.size_bytes
            self.chunks.append(chunk)
        self.news.set()

    def fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self.news.set()

    def pop(self) -> Chunk | None:
        """The next chunk; raises the failure once all that came before it was taken."""
        if not self.chunks:
            if self._failure is not None:
                raise self._failure
            return None
        chunk = self.chunks.popleft()
        self._bytes -= chunk.size_bytes
        return chunk


async def read_batches(
    link: Link,
    topic: str,
    partition: int | None,
    start: Start,
    *,
    until_end: bool = False,
    batch: BatchForm = None,
) -> AsyncGenerator[Any, None]:
    """The messages of a partition as they come, for ever or up to where it ends now.

    Args:
        link: The cluster.
        topic: The topic.
        partition: The partition; None for all of them, also those that are added later.
        start: Where to begin.
        until_end: Stop where the partitions ended at the start.
        batch: Lists of at most so many messages; `arrow` for a `pyarrow.Table`, `pandas` for a
            `DataFrame`; None for sequences of any length.

    Raises:
        GoQueueError: the broker refuses; a lost connection is no reason to end.
    """
    check_start(start)
    decode = _decoder(batch)
    view = await link.topic(topic)
    if partition is not None and partition not in view.partitions:
        view = await link.topic(topic, max_age_s=0)  # it may have grown
    places = _places(view, partition)
    begin = await offsets_of(link, places, start)
    end = (await bounds_of(link, places))[1] if until_end else {}
    buffer = _Buffer()
    fetcher = Fetcher(link, buffer, decode, partial(_relocate, link))
    for place in places:
        fetcher.add(place, view.topic_id, begin[place], end.get(place))
    following = None
    if partition is None and not until_end:
        following = asyncio.create_task(_follow(link, fetcher, view), name="goqueue partitions")
    try:
        while True:
            buffer.news.clear()
            fetcher.poke()
            chunk = buffer.pop()
            if chunk is not None:
                await asyncio.sleep(0)  # the fetcher's turn: it asks for what comes next
                for part in _parts(chunk, batch):
                    yield part
            elif fetcher.is_done:
                return
            else:
                await buffer.news.wait()
    finally:
        if following is not None:
            following.cancel()
        await fetcher.close()


async def each_of(
    batches: AsyncGenerator[Sequence[Message], None],
) -> AsyncGenerator[Message, None]:
    """Messages one by one."""
    try:
        async for batch in batches:
            for message in batch:
                yield message
    finally:
        await batches.aclose()


def _places(view: TopicView, partition: int | None) -> list[TopicPartition]:
    if partition is None:
        return [TopicPartition(view.name, number) for number in view.partitions]
    if partition not in view.partitions:
        raise UnknownPartitionError(
            f"topic {view.name!r} has partitions 0 to {view.count - 1}, not {partition!r}"
        )
    return [TopicPartition(view.name, partition)]


async def _relocate(link: Link, place: TopicPartition, offset: int) -> int:
    """Where to read on when there is nothing at an offset: where the partition begins by now."""
    first, end = await bounds_of(link, (place,))
    if offset > end[place]:
        raise OffsetOutOfRangeError(offset, first[place], end[place])
    if offset < first[place]:
        _log.warning(
            "%s: consuming from offset %d, messages from offset %d on are no longer stored",
            place,
            first[place],
            offset,
        )
    return max(offset, first[place])


async def _follow(link: Link, fetcher: Fetcher, view: TopicView) -> None:
    """Read the partitions that the topic gets, from their beginning."""
    known = set(view.partitions)
    while True:
        await asyncio.sleep(TOPIC_AGE_S)
        with suppress(GoQueueError):  # whoever reads the others is told
            now = await link.topic(view.name, max_age_s=TOPIC_AGE_S / 2)
            for number in now.partitions.keys() - known:
                fetcher.add(TopicPartition(view.name, number), view.topic_id, 0)
            known |= now.partitions.keys()
            fetcher.poke()


# --- Batches --------------------------------------------------------------------------------------


def _decoder(batch: BatchForm) -> Decode:
    """What makes batches of this form.

    Raises:
        ValueError: there is no such form.
        ImportError: what it needs is not installed.
    """
    if batch is None or (isinstance(batch, int) and not isinstance(batch, bool) and batch > 0):
        return messages_of
    if not isinstance(batch, str) or batch not in _MODULES:
        raise ValueError(f"batch: {batch!r} is not a number of messages, 'arrow' or 'pandas'")
    for module in _MODULES[batch]:
        try:
            import_module(module)
        except ImportError:
            raise ImportError(
                f"batch={batch!r} needs {module}, which is not installed: pip install {module}"
            ) from None
    return arrow_of


_MODULES: Final = {"arrow": ("pyarrow",), "pandas": ("pyarrow", "pandas")}


def _parts(chunk: Chunk, batch: BatchForm) -> Iterator[Any]:
    """A chunk as the program wants it."""
    if batch is None or batch == "arrow":
        yield chunk.content
    elif isinstance(batch, int):
        for start in range(0, chunk.count, batch):
            yield chunk.content[start : start + batch]
    else:
        yield chunk.content.to_pandas()
