"""`client.traces`: what happened to messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.client.administration.calls import Calls, time_ms
from goqueue.client.times import to_ms
from goqueue.model.errors import UnknownTraceError

if TYPE_CHECKING:
    from goqueue.client.link.link import Link
    from goqueue.client.types import Moment, Time

_SEARCHES: Final = 100
"""Requests of one search by key, each of which looks at a bounded part of a topic."""


class Span(msgspec.Struct, frozen=True):
    """One event of a message."""

    trace_id: str
    span_id: str
    parent_id: str | None
    event: str
    """Such as `publish.persisted`."""
    timestamp_ms: int = msgspec.field(name="timestamp")
    timestamp_ns: int
    duration_ms: float
    topic: str | None
    partition: int | None
    offset: int | None
    priority: str | None
    group: str | None = msgspec.field(name="consumer_group")
    consumer: str | None
    receipt: str | None
    deliver_at_ms: int | None = msgspec.field(name="deliver_at")
    delay_ms: int | None
    error: str | None
    node: str
    attributes: dict[str, str]


class TraceSummary(msgspec.Struct, frozen=True):
    """A trace of a list."""

    trace_id: str
    topic: str | None
    partition: int | None
    offset: int | None
    status: str
    """Such as pending, completed or failed."""
    start_ms: int = msgspec.field(name="start")
    end_ms: int = msgspec.field(name="end")
    duration_ms: float
    span_count: int = msgspec.field(name="spans")


class Trace(msgspec.Struct, frozen=True):
    """A trace with its events, in the order in which they happened."""

    trace_id: str
    topic: str | None
    partition: int | None
    offset: int | None
    status: str
    start_ms: int = msgspec.field(name="start")
    end_ms: int = msgspec.field(name="end")
    duration_ms: float
    spans: tuple[Span, ...]
    """The first thousand,"""
    span_count: int
    """of so many."""


class Exporter(msgspec.Struct, frozen=True):
    """Where trace events go."""

    name: str
    exported: int
    dropped: int


class TraceStats(msgspec.Struct, frozen=True):
    """How much is traced."""

    is_enabled: bool = msgspec.field(name="enabled")
    sampling: float
    """The share of batches that are traced."""
    events: int
    """In memory, of at most"""
    capacity: int
    noted: int
    """Since the start."""
    traced_batches: int
    damaged_lines: int
    exporters: tuple[Exporter, ...]


class _Traces(msgspec.Struct):
    traces: list[TraceSummary]


class _Found(msgspec.Struct):
    partition: int
    offset: int


class _Search(msgspec.Struct):
    messages: list[_Found]
    cursor: str | None
    complete: bool


class AsyncTraces:
    """`client.traces`."""

    def __init__(self, link: Link) -> None:
        self._calls = Calls(link)

    async def message(self, topic: str, partition: int, offset: int) -> Trace:
        """What happened to the message at an offset.

        Raises:
            UnknownTraceError: it was not traced, or its trace is gone.
        """
        path = "/topics/{}/partitions/{}/messages/{}/trace"
        return await self._calls.get(Trace, path, topic, partition, offset)

    async def key(self, topic: str, key: str, *, limit: int = 10) -> list[Trace]:
        """What happened to the newest messages with a key, those of them that were traced."""
        traces: list[Trace] = []
        cursor = None
        for _ in range(_SEARCHES):
            found = await self._calls.get(
                _Search,
                "/topics/{}/search",
                topic,
                key=key,
                key_match="exact",
                limit=limit,
                cursor=cursor,
            )
            for each in found.messages:
                try:
                    traces.append(await self.message(topic, each.partition, each.offset))
                except UnknownTraceError:
                    continue
                if len(traces) == limit:
                    return traces
            if found.complete or found.cursor is None:
                break
            cursor = found.cursor
        return traces

    async def get(self, trace_id: str) -> Trace:
        """One trace, by its id."""
        return await self._calls.get(Trace, "/traces/{}", trace_id)

    async def recent(self, limit: int = 100) -> list[TraceSummary]:
        """The traces with the newest events."""
        return (await self._calls.get(_Traces, "/traces", limit=limit)).traces

    async def search(
        self,
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        status: str | None = None,
        min_duration: Time | None = None,
        max_duration: Time | None = None,
        limit: int = 100,
    ) -> list[TraceSummary]:
        """Traces that match all of this, the newest first.

        Args:
            topic: The topic of the message.
            partition: Its partition.
            group: A group that it was delivered to.
            since: Something happened at this time or later.
            until: Something happened before this time.
            status: What became of the message: pending, in_progress, retrying, completed, failed,
                delayed, cancelled or expired.
            min_duration: It took at least so long, in seconds.
            max_duration: It took at most so long.
            limit: At most so many.
        """
        found = await self._calls.get(
            _Traces,
            "/traces/search",
            topic=topic,
            partition=partition,
            consumer_group=group,
            start=time_ms(since),
            end=time_ms(until),
            status=status,
            min_duration=to_ms(min_duration),
            max_duration=to_ms(max_duration),
            limit=limit,
        )
        return found.traces

    async def stats(self) -> TraceStats:
        """How much is traced, and where it goes."""
        return await self._calls.get(TraceStats, "/traces/stats")
