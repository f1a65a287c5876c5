"""What is answered about groups."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from goqueue.protocols.http.api.codecs import Time
from goqueue.protocols.http.api.gathered import Gathered
from goqueue.protocols.http.api.shapes import (
    CommittedByTopic,
    Generation,
    LagByTopic,
    LogEndsByTopic,
    MemberId,
    Milliseconds,
    Offset,
    OffsetsByTopic,
    PartitionNumber,
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
    unacked: Annotated[int | None, doc("Queue groups: its unacknowledged messages.", 3)] = None


class GroupLine(msgspec.Struct):
    """One group in a list."""

    group: str
    state: Annotated[
        str,
        doc(
            "As in Kafka, such as Empty, Assigning, Reconciling, Stable or Dead.",
            "Stable",
        ),
    ]
    protocol: Annotated[str, doc("`classic`, `consumer` or `share`.", "consumer")]
    generation: int
    member_count: int
    type: Annotated[str, doc("`log`, or `queue`.", "queue")]
    mode: Annotated[str | None, doc("Queue groups: `exclusive` or `shared`.", "exclusive")]


class ListedGroup(GroupLine):
    """One group in a list, and its lag."""

    total_lag: Annotated[int, doc("Lag over all topics.", 120)]
    uncommitted_lag: UncommittedLag
    oldest_age_ms: Annotated[
        int | None,
        doc("Age of the oldest unconsumed message; null if there is none, or it is unknown."),
    ]
    topics: Annotated[list[str], doc("Topics of the group, at most 20.", ["orders"])]


class PartitionCounts(msgspec.Struct):
    """One partition of a queue group."""

    ready: Annotated[int, doc("Messages ready for delivery, counted up to 100000 per lane.", 7)]
    in_flight: Annotated[int, doc("Messages delivered and not acknowledged.", 2)]
    waiting: Annotated[int, doc("Messages that wait for redelivery.", 1)]
    dead: Annotated[int, doc("Messages being moved to the dead-letter topic.", 0)]
    committed: Annotated[int, doc("The lowest offset that is not acknowledged.", 42)]
    log_end: int


class QueueInfo(msgspec.Struct):
    """The settings of a queue group, and its messages by state."""

    ready: int
    in_flight: int
    waiting: int
    dead: Annotated[int, doc("Messages dead-lettered since the server started, or being moved.", 0)]
    settings: SettingsShape
    partitions: Annotated[
        dict[str, dict[int, PartitionCounts]], doc("By topic and partition; keys are strings.")
    ]


class GroupInfo(GroupLine):
    """One group."""

    assignor: Annotated[str, doc("The partition assignor.", "uniform")]
    members: list[MemberInfo]
    offsets: CommittedByTopic
    log_ends: LogEndsByTopic
    lag: LagByTopic
    total_lag: int
    uncommitted_lag: UncommittedLag
    queue: Annotated[QueueInfo | None, doc("Queue groups only.")]


class GroupList(Gathered):
    """Every group, by name."""

    groups: list[ListedGroup]


class AssignmentAnswer(msgspec.Struct):
    """The partitions of each member."""

    group: str
    generation: int
    members: list[MemberInfo]


class GroupDeleted(msgspec.Struct):
    """What was deleted."""

    deleted: str


class RebalanceStats(Gathered):
    """Counts of rebalances, joins, leaves, heartbeats and commits."""

    total: int
    successful: int
    failed: Annotated[int, doc("Rebalances that timed out waiting for members.", 0)]
    superseded: Annotated[int, doc("Rebalances restarted before they completed.", 0)]
    partitions_revoked: int
    partitions_assigned: int
    revocation_timeouts: int
    last_duration_ms: int
    average_duration_ms: Annotated[float, doc("A moving average.", 12.5)]
    last_at: Annotated[
        Milliseconds | None, doc("When the last rebalance ended; null before the first.")
    ]
    reasons: Annotated[dict[str, int], doc("Rebalances by trigger.", {"member_joined": 2})]
    joins: int
    leaves: Annotated[dict[str, int], doc("By reason.", {"left": 1})]
    heartbeats: int
    offset_commits: int
    offset_commit_errors: int


ALL_PARTITIONS: Final = -1


class CommitBody(msgspec.Struct, forbid_unknown_fields=True):
    """Offsets to commit; without a member id only for a group without members."""

    offsets: Annotated[
        dict[str, dict[Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)], Offset]],
        doc(
            "The next offset to read, by topic and partition.",
            {"orders": {"0": 42}},
            min_length=1,
        ),
    ]
    member_id: Annotated[MemberId | None, doc("The member that commits.", "worker-1-5f0c")] = None
    generation: Annotated[Generation | None, doc("Checked if present.", 3)] = None


class Committed(msgspec.Struct):
    """The committed offsets."""

    group: str
    committed: OffsetsByTopic


class OffsetsAnswer(msgspec.Struct):
    """Committed offsets and lag of a group."""

    group: str
    offsets: CommittedByTopic
    log_ends: LogEndsByTopic
    lag: LagByTopic
    total_lag: int
    uncommitted_lag: UncommittedLag


class OffsetsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which partitions to list."""

    partitions: Annotated[
        str | None,
        doc(
            "These partitions only, with commas between them, whether the group has read them or "
            "not; all that count for the group if omitted.",
            "orders:0,orders:1",
        ),
    ] = None


class ResetBody(msgspec.Struct, forbid_unknown_fields=True):
    """New committed offsets for a group."""

    topic: TopicName
    strategy: Annotated[
        Literal["earliest", "latest", "timestamp", "offset"],
        doc("How the new offset is found.", "earliest"),
    ]
    partition: Annotated[
        int, doc("-1 means all partitions.", -1, ge=ALL_PARTITIONS, le=2**31 - 1)
    ] = ALL_PARTITIONS
    partitions: Annotated[
        list[PartitionNumber] | None, doc("Several partitions, instead of `partition`.", [0, 2])
    ] = None
    timestamp: Annotated[Time | None, doc("For the strategy `timestamp`.")] = None
    offset: Annotated[Offset | None, doc("For the strategy `offset`.")] = None
    dry_run: Annotated[bool, doc("Return the changes without making them.")] = False


class Change(msgspec.Struct):
    """One partition's committed offset."""

    topic: str
    partition: int
    before: Annotated[int | None, doc("Null if no offset was committed.", 42)]
    after: int
    log_start: Annotated[int, doc("Log start offset.", 0)]
    log_end: Annotated[int, doc("Log end offset: the offset of the next message.", 120)]
    skipped: Annotated[int, doc("Messages that the group will skip.", 0)]
    again: Annotated[int, doc("Messages that the group will read again.", 42)]


class ResetAnswer(msgspec.Struct):
    """The changes of a reset."""

    group: str
    dry_run: bool
    changes: list[Change]
