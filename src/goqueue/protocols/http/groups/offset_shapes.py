"""What is asked and answered about committed offsets."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from goqueue.protocols.http.api.codecs import Time
from goqueue.protocols.http.api.shapes import (
    CommittedByTopic,
    Generation,
    LagByTopic,
    MemberId,
    Offset,
    OffsetsByTopic,
    TopicName,
    UncommittedLag,
    doc,
)

ALL_PARTITIONS: Final = -1


class CommitBody(msgspec.Struct, forbid_unknown_fields=True):
    """How far a member has read; without a member, for a group that has none."""

    offsets: Annotated[
        dict[str, dict[Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)], Offset]],
        doc(
            "The next offset to be read, by topic and partition.",
            {"orders": {"0": 42}},
            min_length=1,
        ),
    ]
    member_id: Annotated[MemberId | None, doc("Who commits.", "worker-1-5f0c")] = None
    generation: Annotated[Generation | None, doc("Checked if it is given.", 3)] = None


class Committed(msgspec.Struct):
    """What was noted."""

    group: str
    committed: OffsetsByTopic


class OffsetsAnswer(msgspec.Struct):
    """How far a group has read."""

    group: str
    offsets: CommittedByTopic
    lag: LagByTopic
    total_lag: int
    uncommitted_lag: UncommittedLag


class ResetBody(msgspec.Struct, forbid_unknown_fields=True):
    """Where a group shall read on."""

    topic: TopicName
    strategy: Annotated[
        Literal["earliest", "latest", "timestamp", "offset"], doc("Which place.", "earliest")
    ]
    partition: Annotated[int, doc("-1 is all of them.", -1, ge=ALL_PARTITIONS, le=2**31 - 1)] = (
        ALL_PARTITIONS
    )
    timestamp: Annotated[Time | None, doc("With the strategy `timestamp`.")] = None
    offset: Annotated[Offset | None, doc("With the strategy `offset`.")] = None
    dry_run: Annotated[bool, doc("Only say what would change.")] = False


class Change(msgspec.Struct):
    """One partition's committed offset."""

    topic: str
    partition: int
    before: Annotated[int | None, doc("Null if nothing was committed.", 42)]
    after: int
    log_start: Annotated[int, doc("The first message that is still there.", 0)]
    log_end: Annotated[int, doc("The offset that the next message gets.", 120)]
    skipped: Annotated[int, doc("Messages that are not read, and would have been.", 0)]
    again: Annotated[int, doc("Messages that are read a second time.", 42)]


class ResetAnswer(msgspec.Struct):
    """What a reset changes."""

    group: str
    dry_run: bool
    changes: list[Change]
