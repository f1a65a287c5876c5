"""What is answered about groups."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from goqueue.protocols.http.api.codecs import Time
from goqueue.protocols.http.api.shapes import (
    CommittedByTopic,
    Generation,
    LagByTopic,
    MemberId,
    Milliseconds,
    Offset,
    OffsetsByTopic,
    PartitionsByTopic,
    TopicName,
    UncommittedLag,
    doc,
)
from goqueue.protocols.http.groups.queue_settings_shapes import SettingsShape


class MemberInfo(msgspec.Struct, kw_only=True):
    """One member of a group."""

    member_id: str
    client_id: str
    client_host: str
    protocol: Annotated[
        str, doc("`classic`, `consumer` or `share`; a group may have members of two.", "consumer")
    ]
    partitions: PartitionsByTopic
    unacked: Annotated[int | None, doc("Of a queue group: messages that it has.", 3)] = None


class GroupLine(msgspec.Struct):
    """One group in a list."""

    group: str
    state: Annotated[str, doc("Empty, Stable, Dead, or on the way between.", "Stable")]
    protocol: Annotated[str, doc("`classic`, `consumer` or `share`.", "consumer")]
    generation: int
    member_count: int
    type: Annotated[str, doc("`log`, or `queue`.", "queue")]
    mode: Annotated[str | None, doc("Of a queue: `exclusive` or `shared`.", "exclusive")]


class ListedGroup(GroupLine):
    """One group in a list, and its lag."""

    total_lag: Annotated[int, doc("Its lag in all topics together.", 120)]
    uncommitted_lag: UncommittedLag
    oldest_age_ms: Annotated[
        int | None, doc("How long the oldest of them has been waiting; null: none, or not known.")
    ]
    topics: Annotated[list[str], doc("That it reads; at most 20 of them.", ["orders"])]


class PartitionCounts(msgspec.Struct):
    """One partition of a queue group."""

    ready: Annotated[int, doc("Ready to be delivered, counted up to 100000 a lane.", 7)]
    in_flight: Annotated[int, doc("That members have.", 2)]
    waiting: Annotated[int, doc("That wait to be redelivered.", 1)]
    dead: Annotated[int, doc("On their way to the dead-letter topic.", 0)]
    committed: Annotated[int, doc("The lowest offset that is not done with.", 42)]
    log_end: int


class QueueInfo(msgspec.Struct):
    """What is particular about a queue group, and how many of its messages are where."""

    ready: int
    in_flight: int
    waiting: int
    dead: Annotated[int, doc("Dead-lettered since this server started, or on their way there.", 0)]
    settings: SettingsShape
    partitions: Annotated[
        dict[str, dict[int, PartitionCounts]], doc("By topic and partition; keys are strings.")
    ]


class GroupInfo(GroupLine):
    """One group."""

    assignor: Annotated[str, doc("How partitions are shared out.", "uniform")]
    members: list[MemberInfo]
    offsets: CommittedByTopic
    lag: LagByTopic
    total_lag: int
    uncommitted_lag: UncommittedLag
    queue: Annotated[QueueInfo | None, doc("Of a queue group.")]


class GroupList(msgspec.Struct):
    """Every group, by name."""

    groups: list[ListedGroup]


class AssignmentAnswer(msgspec.Struct):
    """Who has which partitions."""

    group: str
    generation: int
    members: list[MemberInfo]


class GroupDeleted(msgspec.Struct):
    """What is gone."""

    deleted: str


class RebalanceStats(msgspec.Struct):
    """How often partitions changed hands, and why."""

    total: int
    successful: int
    failed: Annotated[int, doc("Given up because members did not do their part in time.", 0)]
    superseded: Annotated[int, doc("Begun anew before they had come to an end.", 0)]
    partitions_revoked: int
    partitions_assigned: int
    revocation_timeouts: int
    last_duration_ms: int
    average_duration_ms: Annotated[float, doc("A moving average.", 12.5)]
    last_at: Annotated[Milliseconds | None, doc("When the last one ended; null before the first.")]
    reasons: Annotated[dict[str, int], doc("How many by what set them off.", {"member_joined": 2})]
    joins: int
    leaves: Annotated[dict[str, int], doc("How many by why.", {"left": 1})]
    heartbeats: int
    offset_commits: int
    offset_commit_errors: int


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
