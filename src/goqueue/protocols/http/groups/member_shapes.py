"""What members of groups say over HTTP, and what they are answered."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from goqueue.protocols.http.api.codecs import Duration
from goqueue.protocols.http.api.shapes import (
    Generation,
    MemberId,
    OffsetsByTopic,
    PartitionsByTopic,
    TopicName,
    doc,
)
from goqueue.protocols.http.groups.queue_settings_shapes import SettingsBody, SettingsShape
from goqueue.protocols.http.messages.message_shapes import (
    Limit,
    OutEncoding,
    PolledMessage,
)

PROTOCOL: Final = "cooperative"

# --- Requests ------------------------------------------------------------------------------------


class JoinBody(SettingsBody, forbid_unknown_fields=True, kw_only=True):
    """What a member wants to read, and how. The settings are those of a group that is new."""

    topics: Annotated[list[TopicName], doc("Topics that exist.", ["orders"], min_length=1)]
    client_id: Annotated[
        str, doc("The first part of the member id.", "worker-1", max_length=200)
    ] = ""
    member_id: Annotated[MemberId | None, doc("To come back as the member that one was.")] = None
    assignment: Annotated[
        Literal["exclusive", "shared", "log"],
        doc(
            "`exclusive`: a queue, every partition has one owner, and order is kept. `shared`: a "
            "queue, every member takes from every partition. `log`: no queue, members commit "
            "offsets as Kafka's do.",
            "exclusive",
        ),
    ] = "exclusive"
    session_timeout: Annotated[
        Duration | None,
        doc(
            "How long the member may be silent before its partitions and messages go to others; "
            "45s, if left out.",
            "45s",
        ),
    ] = None
    assignor: Annotated[
        Literal["sticky", "range", "round-robin"] | None,
        doc(
            "How partitions are shared out, where they have owners; what most members ask for "
            "counts.",
            "sticky",
        ),
    ] = None
    auto_commit: Annotated[
        bool,
        doc(
            "Of log groups: each poll commits what the polls before it returned, at most once in "
            "`auto_commit_interval`; so does leaving."
        ),
    ] = False
    auto_commit_interval: Annotated[
        Duration | None, doc("With `auto_commit`: 5s, if left out; 0 commits at every poll.")
    ] = None
    start: Annotated[
        Literal["earliest", "latest"], doc("Where to begin what the group never read.", "earliest")
    ] = "earliest"
    acknowledge_revocations: Annotated[
        bool,
        doc(
            "Partitions to be given up are kept until `revoke` says so, up to a minute; otherwise "
            "they go with the next heartbeat or poll.",
        ),
    ] = False


class MemberBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which member speaks."""

    member_id: MemberId
    generation: Annotated[Generation | None, doc("Checked if it is given.", 3)] = None


class PollQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which member reads, and how much."""

    member_id: MemberId
    generation: Annotated[Generation | None, doc("Checked if it is given.")] = None
    timeout: Annotated[Duration, doc("How long to wait for a first message, up to 60s.", "30s")] = (
        30_000
    )
    limit: Limit = 100
    visibility: Annotated[
        Duration | None,
        doc("How long the messages are this member's, up to 12h; as the group says, if left out."),
    ] = None
    rewind: Annotated[
        bool,
        doc("Of log groups: read again from the committed offsets, after an answer got lost."),
    ] = False
    encoding: OutEncoding = "auto"


# --- Answers -------------------------------------------------------------------------------------


class MemberAnswer(msgspec.Struct):
    """A member's place in its group, after what it has just said."""

    member_id: str
    generation: Generation
    state: Annotated[str, doc("Of the group.", "Stable")]
    protocol: Annotated[str, doc("How partitions are handed over.", PROTOCOL)]
    partitions: PartitionsByTopic
    added: Annotated[dict[str, list[int]], doc("New since the last answer.", {"orders": [2]})]
    revoked: Annotated[dict[str, list[int]], doc("Gone since the last answer.", {})]
    partitions_to_revoke: Annotated[
        dict[str, list[int]], doc("To be finished with, and acknowledged with `revoke`.", {})
    ]
    rebalance_required: Annotated[bool, doc("Partitions are changing hands.")]
    revocation_timeout_ms: Annotated[int, doc("How long `revoke` may take.", 60_000)]
    heartbeat_interval_ms: Annotated[int, doc("How often to send one.", 5000)]


class JoinAnswer(MemberAnswer):
    """The place of a new member."""

    members: Annotated[list[str], doc("Everyone in the group.", ["worker-1-5f0c"])]
    assignment: Annotated[str, doc("How the group works.", "exclusive")]
    settings: Annotated[SettingsShape | None, doc("Of a queue group.")]
    leader_id: Annotated[str | None, doc("Always null: the broker assigns, no member leads.")] = (
        None
    )


class Left(msgspec.Struct):
    """A member that is gone."""

    member_id: str


class PollAnswer(msgspec.Struct):
    """Messages for a member."""

    generation: Generation
    messages: list[PolledMessage]
    next_offsets: Annotated[OffsetsByTopic, doc("What to commit once they are processed.")]
    partitions: PartitionsByTopic
