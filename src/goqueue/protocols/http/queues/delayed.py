"""Delayed messages: those that wait until they are due, listed, looked at and cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from goqueue.protocols.http.api.merging import total
from goqueue.protocols.http.api.paths import PartitionPath, TopicPath
from goqueue.protocols.http.api.places import gather, pages, unit
from goqueue.protocols.http.api.rights import DESCRIBE, READ, WRITE, on_cluster, on_topic
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import Offset, doc
from goqueue.protocols.http.messages.message_shapes import (
    Limit,
    headers_out,
    text_of,
)
from goqueue.protocols.http.queues.delayed_shapes import (
    DelayedList,
    DelayedOut,
    DelayStatsAnswer,
    TimelineAnswer,
    WheelCounts,
)
from goqueue.protocols.http.queues.queue_merges import merge_timelines

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.delays.views import DelayedMessage

_TAG: Final = "delayed messages"


class DelayedQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Paging."""

    limit: Limit = 100
    skip: Annotated[int, doc("Messages to skip.", 0, ge=0, le=2**31 - 1)] = 0


class DelayedPath(TopicPath, frozen=True):
    """A delayed message in the path."""

    offset: Annotated[Offset, doc("The `id`, which publish returned as `offset`.", 168)]


class DelayedPlace(PartitionPath, frozen=True):
    """A delayed message and its partition in the path."""

    offset: Annotated[Offset, doc("The `id`, which publish returned as `offset`.", 168)]


class TimelineQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Resolution of the timeline."""

    buckets: Annotated[int, doc("Number of steps.", 60, ge=1, le=1000)] = 60


class DelayedRoutes:
    """Delayed messages."""

    def __init__(self, broker: Broker) -> None:
        self._delays = broker.delays

    @route(
        "GET", "/topics/{topic}/delayed", right=on_topic(READ), tag=_TAG, place=pages("messages")
    )
    async def list_pending(self, path: TopicPath, query: DelayedQuery) -> DelayedList:
        """List the pending delayed messages of a topic."""
        found = await self._delays.list(path.topic, query.limit, query.skip)
        total = self._delays.stats().pending_by_topic.get(path.topic, 0)
        return DelayedList(path.topic, total, [DelayedOut(**_fields(each)) for each in found])

    @route(
        "GET",
        "/topics/{topic}/delayed/{offset}",
        right=on_topic(READ),
        tag=_TAG,
        place=unit("path.offset"),
    )
    async def show(self, path: DelayedPath) -> DelayedOut:
        """Describe a delayed message and its state."""
        return DelayedOut(**_fields(await self._delays.get(path.topic, path.offset)))

    @route(
        "DELETE",
        "/topics/{topic}/delayed/{partition}/{offset}",
        right=on_topic(WRITE),
        tag=_TAG,
        place=unit("path.offset"),
    )
    async def cancel(self, path: DelayedPlace) -> DelayedOut:
        """Cancel a delayed message."""
        cancelled = await self._delays.cancel(path.topic, path.partition, path.offset)
        return DelayedOut(**_fields(cancelled))

    @route("GET", "/delay/stats", right=on_cluster(DESCRIBE), tag="statistics", place=gather(total))
    async def stats(self) -> DelayStatsAnswer:
        """Counts of delayed messages, and of the timing wheel."""
        found = self._delays.stats()
        wheel = found.wheel
        return DelayStatsAnswer(
            found.scheduled,
            found.delivered,
            found.cancelled,
            found.expired,
            found.pending,
            dict(found.pending_by_topic),
            WheelCounts(
                wheel.size,
                list(wheel.per_level),
                wheel.scheduled,
                wheel.cancelled,
                wheel.fired,
                wheel.cascades,
            ),
        )

    @route(
        "GET",
        "/delay/timeline",
        right=on_cluster(DESCRIBE),
        tag="statistics",
        place=gather(merge_timelines),
    )
    async def timeline(self, query: TimelineQuery) -> TimelineAnswer:
        """Number of delayed messages by due time."""
        return TimelineAnswer(*await self._delays.timeline(query.buckets))


def _fields(message: DelayedMessage) -> dict[str, Any]:
    key, key_encoding = text_of(message.key)
    value, encoding = text_of(message.value)
    return {
        "id": message.delayed_id,
        "offset": message.delayed_id,
        "topic": message.topic,
        "partition": message.partition,
        "state": message.state.name.lower(),
        "deliver_at": message.deliver_at_ms,
        "published_at": message.published_at_ms,
        "priority": message.priority.label,
        "key": key,
        "value": value,
        "headers": headers_out(message.headers),
        "encoding": encoding,
        "key_encoding": key_encoding,
    }
