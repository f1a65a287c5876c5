"""What is answered about delayed messages."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.protocols.http.api.codecs import Encoding
from goqueue.protocols.http.api.gathered import Gathered
from goqueue.protocols.http.api.shapes import Milliseconds, doc
from goqueue.protocols.http.messages.message_shapes import HeaderOut


class DelayedOut(msgspec.Struct):
    """A delayed message."""

    id: Annotated[int, doc("The id of the delayed message.", 168)]
    offset: Annotated[
        int, doc("The same id: a delayed message has no log offset before it is due.", 168)
    ]
    topic: str
    partition: Annotated[int, doc("The target partition.", 0)]
    state: Annotated[str, doc("pending, delivered, cancelled or expired.", "pending")]
    deliver_at: Annotated[Milliseconds, doc("When it is due.")] = msgspec.field(name="deliverAt")
    published_at: Annotated[Milliseconds, doc("When it was published.")] = msgspec.field(
        name="publishedAt"
    )
    priority: Annotated[str, doc("The priority lane.", "normal")]
    key: Annotated[str | None, doc("Null if there is none.", "customer-7")]
    value: Annotated[str | None, doc("Null for a tombstone.", '{"id": 1}')]
    headers: list[HeaderOut]
    encoding: Annotated[Encoding, doc("Encoding of `value`.", "text")] = "text"
    key_encoding: Annotated[Encoding, doc("Encoding of `key`.", "text")] = "text"


class DelayedList(Gathered):
    """Pending delayed messages of a topic."""

    topic: str
    total: Annotated[int, doc("All pending messages.", 2)]
    messages: list[DelayedOut]


class WheelCounts(msgspec.Struct):
    """The timing wheel, which holds messages that are due soon."""

    size: Annotated[int, doc("Timers.", 2)]
    levels: Annotated[list[int], doc("By level, the nearest first.", [1, 1, 0, 0])]
    scheduled: int
    cancelled: int
    fired: int
    cascades: Annotated[int, doc("Buckets cascaded to lower levels.", 0)]


class DelayStatsAnswer(Gathered):
    """Counts of delayed messages."""

    scheduled: int
    delivered: int
    cancelled: int
    expired: Annotated[int, doc("Dropped with their topic.", 0)]
    pending: int
    topics: Annotated[dict[str, int], doc("Pending, by topic.", {"orders": 2})]
    wheel: WheelCounts


class TimelineAnswer(Gathered):
    """Due times of the delayed messages of all topics."""

    at: Annotated[Milliseconds, doc("Start of the first step: now.")]
    step_ms: Annotated[int, doc("Length of a step, chosen to reach the last message.", 60_000)]
    counts: Annotated[list[int], doc("Messages due in each step.", [3, 0, 1])]
    later: Annotated[int, doc("Messages due after the last step.", 0)]
    approximate: Annotated[
        bool,
        doc("Messages far in the future are counted by slots of hours, cancelled ones included."),
    ]
