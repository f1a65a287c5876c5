"""What is known of traces: the newest in memory, older ones in files; and the way out to others."""

from __future__ import annotations

import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from goqueue.model.errors import DiskError, TraceExportError, UnknownTraceError
from goqueue.runtime.tasks import in_thread
from goqueue.tracing.context import PLACE_CHARS, offset_in
from goqueue.tracing.events import Entry, Event
from goqueue.tracing.feed import Feed, FileExporter, StdoutExporter
from goqueue.tracing.files import FileLimits, Partition, Search, TraceFiles, Where
from goqueue.tracing.search import FoundTraces, TraceQuery, search, trace_at
from goqueue.tracing.views import Trace, assemble

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_RING_SPANS: Final = 10_000
"""Entries held in memory, unless the settings say otherwise."""
_MAX_BATCHES_A_SECOND: Final = 200
"""Enough to see every message of a quiet broker, and cheap for a busy one."""
_MAX_SHARE: Final = 0.1
"""Of the bytes published since the start."""
_MAX_FOUND: Final = 20_000
"""Entries of one trace that are taken from files. A producer may name the same trace in all its
messages: of more, the newest."""
_FILE_BATCH: Final = 500
_FILE_FLUSH_S: Final = 1.0
_STDOUT_BATCH: Final = 100


def unknown_trace(trace_id: str) -> UnknownTraceError:
    """What is said of a trace that nothing is known of, also to whom it is hidden."""
    return UnknownTraceError(
        f"there is no trace {trace_id!r}: its messages were not sampled, or it is over for so long "
        "that it was forgotten"
    )


def unknown_trace_of(topic: str, partition: int, offset: int) -> UnknownTraceError:
    """The same of the trace of a message."""
    return UnknownTraceError(
        f"no trace of the message at offset {offset} of partition {partition} of topic {topic!r}: "
        "it was not sampled, or was forgotten"
    )


class OtlpSettings(msgspec.Struct, frozen=True):
    """Where a collector listens."""

    endpoint: str
    protocol: str = "grpc"
    service: str = "goqueue"


class TracingSettings(msgspec.Struct, frozen=True):
    """How much is traced, and where it goes."""

    is_on: bool = True
    sampling: float = 1.0
    """The share of batches that is traced, of topics that say nothing else."""
    max_batches_a_second: int = _MAX_BATCHES_A_SECOND
    """Of those topics together; 0 is without bound."""
    max_share: float = _MAX_SHARE
    """How large trace files may become beside what those topics publish; 1 is without bound."""
    ring_spans: int = _RING_SPANS
    writes_files: bool = True
    files: FileLimits = msgspec.field(default_factory=FileLimits)
    stdout: bool = False
    otlp: OtlpSettings | None = None


class ExporterStats(msgspec.Struct, frozen=True):
    """How an exporter gets on."""

    name: str
    exported: int
    dropped: int


class TraceStats(msgspec.Struct, frozen=True):
    """How tracing gets on."""

    is_on: bool
    sampling: float
    spans: int
    capacity: int
    noted: int
    traced_batches: int
    damaged_lines: int
    exporters: list[ExporterStats]


class TraceStore:
    """Every entry of this node. Belongs to the event loop; what takes long is done in threads."""

    def __init__(
        self, settings: TracingSettings, disk: Disk, folder: Path, clock: Clock, node: str
    ) -> None:
        self.settings = settings
        self.ring: deque[Entry] = deque(maxlen=settings.ring_spans)
        """The newest entries; of more than there is room for, the oldest go. Queries get copies, as
        they look through them in threads."""
        self.noted = 0
        """Entries, since the start."""
        self.files = TraceFiles(disk, folder, settings.files)
        self._readable = TraceFiles(disk, folder, settings.files)
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="trace queries")
        self._feeds = self._make_feeds(clock, node) if settings.is_on else []

    def _make_feeds(self, clock: Clock, node: str) -> list[Feed]:
        settings = self.settings
        feeds = []
        if settings.writes_files:
            feeds.append(Feed(FileExporter(self.files, clock), _FILE_BATCH, _FILE_FLUSH_S))
        if settings.stdout:
            feeds.append(Feed(StdoutExporter(), _STDOUT_BATCH, _FILE_FLUSH_S))
        if settings.otlp is not None:
            feeds.append(_otlp_feed(settings.otlp, node))
        return feeds

    async def start(self) -> list[Entry]:
        """Take up what the files hold of the last process; returns it, the oldest first."""
        if not self.settings.is_on:
            return []
        known: list[Entry] = []
        if self.settings.writes_files:
            try:
                known = await self._in_thread(
                    partial(self._readable.newest, self.settings.ring_spans)
                )
            except DiskError as error:
                logger.warning("earlier traces are missing: %s", error)
            self.ring.extend(known)
        for feed in self._feeds:
            feed.start()
        return known

    async def stop(self) -> None:
        """Let out what waits."""
        for feed in self._feeds:
            await feed.stop()
        self._threads.shutdown(wait=False)

    async def flush(self) -> None:
        """Write what waits to the files; a collector may take its time."""
        for feed in self._feeds:
            if isinstance(feed.exporter, FileExporter):
                await feed.flush()

    def add(self, entry: Entry) -> None:
        """Note what happened."""
        self.noted += 1
        self.ring.append(entry)
        for feed in self._feeds:
            feed.put(entry)

    def add_all(self, entries: list[Entry]) -> None:
        """Note what happened to several at once."""
        self.noted += len(entries)
        self.ring.extend(entries)
        for feed in self._feeds:
            feed.put_all(entries)

    # --- Asking ----------------------------------------------------------------------------------

    async def get(self, trace_id: str) -> Trace:
        """A trace; its beginning may be in the files alone.

        Raises:
            UnknownTraceError: nothing is known of it, or not any more.
        """
        entries = list(self.ring)
        found = await self._in_thread(lambda: assemble(entries, [trace_id]).get(trace_id))
        if found is None or found.spans[0].event not in _BEGINNINGS:
            await self.flush()
            entries = list(self.ring)
            found = await self._in_thread(partial(self._from_files, trace_id, entries))
        if found is None:
            raise unknown_trace(trace_id)
        return found

    async def of_message(self, topic: str, partition: int, offset: int) -> Trace:
        """The trace of a stored message. Raises like `get`."""
        place = (topic, partition, offset)
        trace_id = await self._in_thread(partial(trace_at, list(self.ring), *place))
        if trace_id is None:
            await self.flush()
            trace_id = await self._in_thread(partial(self._find_in_files, *place))
        if trace_id is None:
            raise unknown_trace_of(topic, partition, offset)
        return await self.get(trace_id)

    async def search(self, query: TraceQuery) -> FoundTraces:
        """The newest traces in memory that are wanted."""
        entries = list(self.ring)
        return await self._in_thread(partial(search, entries, query))

    def stats(self, traced_batches: int) -> TraceStats:
        """How tracing gets on."""
        return TraceStats(
            self.settings.is_on,
            self.settings.sampling,
            len(self.ring),
            self.settings.ring_spans,
            self.noted,
            traced_batches,
            self._readable.damaged_lines,
            [
                ExporterStats(feed.exporter.name, feed.exported, feed.dropped)
                for feed in self._feeds
            ],
        )

    def _from_files(self, trace_id: str, newest: Sequence[Entry]) -> Trace | None:
        searches = [Search(trace_id.encode(), lambda where: where.trace == trace_id)]
        place = trace_id[:PLACE_CHARS]
        offset = offset_in(place, trace_id)
        if offset is not None:
            searches.append(
                Search(
                    place.encode(),
                    lambda where: not where.trace and where.place == place and where.holds(offset),
                    place,
                    offset,
                )
            )
        found = deque(chain.from_iterable(self._readable.find(*searches)), maxlen=_MAX_FOUND)
        return assemble([*found, *newest], [trace_id]).get(trace_id)

    def _find_in_files(self, topic: str, partition: int, offset: int) -> str | None:
        def is_wanted(where: Where) -> bool:
            return where.topic == topic and where.partition == partition and where.holds(offset)

        key = Partition(topic, partition)
        found = self._readable.find(Search(msgspec.json.encode(topic), is_wanted, key, offset))
        return trace_at([*chain.from_iterable(found)], topic, partition, offset)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await in_thread(self._threads, work)


_BEGINNINGS: Final = frozenset({Event.RECEIVED, Event.VALIDATION_FAILED, Event.REBALANCE_STARTED})


def _otlp_feed(settings: OtlpSettings, node: str) -> Feed:
    try:
        from goqueue.tracing import otlp  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise TraceExportError(
            f"tracing.otlp_endpoint needs the extra goqueue[otlp]: pip install 'goqueue[otlp]' "
            f"({error})"
        ) from error
    resource = {"service.name": settings.service, "service.instance.id": node}
    exporter = otlp.OtlpExporter(settings.endpoint, settings.protocol, resource=resource)
    return Feed(exporter, otlp.BATCH, otlp.FLUSH_S)
