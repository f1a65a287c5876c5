"""Delayed messages: those that wait until they are due, listed, looked at and cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from goqueue.protocols.http.api.codecs import Encoding  # noqa: TC001 - read by the router
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import Milliseconds, Offset, PartitionPath, TopicPath, doc
from goqueue.protocols.http.messages.message_shapes import (
    HeaderOut,
    Limit,
    headers_out,
    text_of,
)

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.broker.delay_views import DelayedMessage

_TAG: Final = "delayed messages"


class DelayedQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which page is wanted."""

    limit: Limit = 100
    skip: Annotated[int, doc("So many are left out.", 0, ge=0, le=2**31 - 1)] = 0


class DelayedPath(TopicPath, frozen=True):
    """A delayed message in the path."""

    offset: Annotated[Offset, doc("The `id`, which is the `offset` that publish answered.", 168)]


class DelayedPlace(PartitionPath, frozen=True):
    """A delayed message and its partition in the path."""

    offset: Annotated[Offset, doc("The `id`, which is the `offset` that publish answered.", 168)]


class DelayedOut(msgspec.Struct):
    """A message that waits, or has waited."""

    id: Annotated[int, doc("What it is cancelled by.", 168)]
    offset: Annotated[int, doc("The same: it has no place in its partition before it is due.", 168)]
    topic: str
    partition: Annotated[int, doc("Where it will be.", 0)]
    state: Annotated[str, doc("pending, delivered, cancelled or expired.", "pending")]
    deliver_at: Annotated[Milliseconds, doc("When it is due.")] = msgspec.field(name="deliverAt")
    published_at: Annotated[Milliseconds, doc("When it was published.")] = msgspec.field(
        name="publishedAt"
    )
    priority: Annotated[str, doc("The lane that it will wait in.", "normal")]
    key: Annotated[str | None, doc("Null if it has none.", "customer-7")]
    value: Annotated[str | None, doc("Null is a tombstone.", '{"id": 1}')]
    headers: list[HeaderOut]
    encoding: Annotated[Encoding, doc("How `value` is written.", "text")] = "text"
    key_encoding: Annotated[Encoding, doc("How `key` is written.", "text")] = "text"


class DelayedList(msgspec.Struct):
    """Messages of one topic that wait."""

    topic: str
    total: Annotated[int, doc("All that wait.", 2)]
    messages: list[DelayedOut]


class WheelCounts(msgspec.Struct):
    """The timing wheel, which holds what is due soon."""

    size: Annotated[int, doc("Timers in it.", 2)]
    levels: Annotated[list[int], doc("By level, the nearest first.", [1, 1, 0, 0])]
    scheduled: int
    cancelled: int
    fired: int
    cascades: Annotated[int, doc("Buckets that were spread over lower levels.", 0)]


class DelayStatsAnswer(msgspec.Struct):
    """How many delayed messages there were, and are."""

    scheduled: int
    delivered: int
    cancelled: int
    expired: Annotated[int, doc("That went with their topic.", 0)]
    pending: int
    topics: Annotated[dict[str, int], doc("Pending, by topic.", {"orders": 2})]
    wheel: WheelCounts


class TimelineQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How finely."""

    buckets: Annotated[int, doc("So many steps of the same length.", 60, ge=1, le=1000)] = 60


class TimelineAnswer(msgspec.Struct):
    """When the messages that wait will come, of all topics together."""

    at: Annotated[Milliseconds, doc("Where the first step begins: now.")]
    step_ms: Annotated[int, doc("How long each is; chosen to reach the last message.", 60_000)]
    counts: Annotated[list[int], doc("Messages due in each.", [3, 0, 1])]
    later: Annotated[int, doc("Due behind the last step.", 0)]
    approximate: Annotated[
        bool, doc("Some are far away: known by a few hours, cancelled ones among them.")
    ]


class DelayedRoutes:
    """Delayed messages."""

    def __init__(self, broker: Broker) -> None:
        self._delays = broker.delays

    @route("GET", "/topics/{topic}/delayed", tag=_TAG)
    async def list_pending(self, path: TopicPath, query: DelayedQuery) -> DelayedList:
        """The messages of a topic that wait until they are due."""
        found = await self._delays.list(path.topic, query.limit, query.skip)
        total = self._delays.stats().pending_by_topic.get(path.topic, 0)
        return DelayedList(path.topic, total, [DelayedOut(**_fields(each)) for each in found])

    @route("GET", "/topics/{topic}/delayed/{offset}", tag=_TAG)
    async def show(self, path: DelayedPath) -> DelayedOut:
        """One delayed message, and what became of it as long as that is known."""
        return DelayedOut(**_fields(await self._delays.get(path.topic, path.offset)))

    @route("DELETE", "/topics/{topic}/delayed/{partition}/{offset}", tag=_TAG)
    async def cancel(self, path: DelayedPlace) -> DelayedOut:
        """Let a delayed message never be delivered."""
        cancelled = await self._delays.cancel(path.topic, path.partition, path.offset)
        return DelayedOut(**_fields(cancelled))

    @route("GET", "/delay/stats", tag="statistics")
    async def stats(self) -> DelayStatsAnswer:
        """How many delayed messages there were and are, and the wheel that turns under them."""
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

    @route("GET", "/delay/timeline", tag="statistics")
    async def timeline(self, query: TimelineQuery) -> TimelineAnswer:
        """How many delayed messages are due when."""
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
