"""What is answered about delayed messages."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.protocols.http.api.codecs import Encoding
from goqueue.protocols.http.api.shapes import Milliseconds, doc
from goqueue.protocols.http.messages.message_shapes import HeaderOut


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


class TimelineAnswer(msgspec.Struct):
    """When the messages that wait will come, of all topics together."""

    at: Annotated[Milliseconds, doc("Where the first step begins: now.")]
    step_ms: Annotated[int, doc("How long each is; chosen to reach the last message.", 60_000)]
    counts: Annotated[list[int], doc("Messages due in each.", [3, 0, 1])]
    later: Annotated[int, doc("Due behind the last step.", 0)]
    approximate: Annotated[
        bool, doc("Some are far away: known by a few hours, cancelled ones among them.")
    ]
