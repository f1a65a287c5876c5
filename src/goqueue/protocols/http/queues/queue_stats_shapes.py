"""What is answered about the deliveries and the lanes of queue groups."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.protocols.http.api.gathered import Gathered
from goqueue.protocols.http.api.shapes import LANES, Milliseconds, doc


class Verdicts(msgspec.Struct):
    """Acknowledgements since the server started."""

    acks: int
    nacks: int
    releases: Annotated[int, doc("Returned to be redelivered at once.", 0)]
    rejects: int
    extensions: int


class Visibility(msgspec.Struct):
    """Messages in flight, and expired visibility timeouts."""

    tracked: Annotated[int, doc("In flight, or waiting for a retry.", 3)]
    in_flight: int
    waiting: Annotated[int, doc("For a retry.", 1)]
    expired: Annotated[int, doc("Redelivered because their visibility timeout expired.", 0)]


class Dead(msgspec.Struct):
    """Dead-lettered messages."""

    routed: Annotated[int, doc("Moved to a dead-letter topic.", 2)]
    reasons: Annotated[dict[str, int], doc("By reason.", {"REJECTED": 2})]
    pending: Annotated[int, doc("Being moved.", 0)]


class GroupReliability(msgspec.Struct):
    """Delivery counts of one group, or of all."""

    delivered: Annotated[int, doc("Deliveries, redeliveries included.", 40)]
    acknowledgement: Verdicts
    visibility: Visibility
    dead_letters: Dead


class ReliabilityStats(Gathered):
    """Delivery counts since the server started, and messages in flight now."""

    total: GroupReliability
    groups: dict[str, GroupReliability]
    expired: Annotated[dict[str, int], doc("Messages whose TTL expired, by topic.", {"orders": 1})]
    redriven: Annotated[
        dict[str, int], doc("Dead letters redriven, by original topic.", {"orders": 2})
    ]


class PartitionLane(msgspec.Struct):
    """One lane of one partition."""

    ready: Annotated[int, doc("Ready to be delivered, counted up to 100000.", 7)]
    in_flight: int
    oldest_offset: Annotated[int | None, doc("Offset of the first message that is ready.", 42)]
    oldest_timestamp: Annotated[Milliseconds | None, doc("Its timestamp.")]


class GroupLane(msgspec.Struct):
    """One lane of a group."""

    weight: Annotated[int, doc("The weight of the lane.", 15)]
    ready: int
    in_flight: int
    served: Annotated[int, doc("Messages delivered since this server started.", 120)]
    served_per_s: Annotated[
        float | None, doc("Over the last minute; null in the first seconds of a group.", 2.5)
    ]
    boosts: Annotated[int, doc("Deliveries out of turn, by the starvation guard.", 0)]
    last_served: Annotated[Milliseconds | None, doc("Null before the first.")]


class GroupLanes(msgspec.Struct):
    """The lanes of one group, and of each partition that it reads."""

    mode: Annotated[str, doc("`exclusive` or `shared`.", "shared")]
    starvation_timeout: Annotated[int, doc("In milliseconds; 0 disables the guard.", 30_000)]
    lanes: Annotated[dict[str, GroupLane], doc("By priority.")]
    topics: Annotated[
        dict[str, dict[int, dict[str, PartitionLane]]], doc("By topic, partition and priority.")
    ]


class PriorityStats(Gathered):
    """Lanes by group."""

    priorities: Annotated[list[str], doc("The most urgent first.", LANES)]
    groups: dict[str, GroupLanes]
