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
    Decode,
    Limit,
    OutEncoding,
    PolledMessage,
)

PROTOCOL: Final = "cooperative"

# --- Requests ------------------------------------------------------------------------------------


class JoinBody(SettingsBody, forbid_unknown_fields=True, kw_only=True):
    """The subscription of a member. The settings apply if the group is new."""

    topics: Annotated[list[TopicName], doc("Existing topics.", ["orders"], min_length=1)]
    client_id: Annotated[str, doc("Prefix of the member id.", "worker-1", max_length=200)] = ""
    member_id: Annotated[MemberId | None, doc("Rejoin with the member id of an earlier join.")] = (
        None
    )
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
            "Session timeout: a member without a heartbeat for this long is removed; 45s if "
            "omitted.",
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
        Duration | None, doc("With `auto_commit`: 5s if omitted; 0 commits at every poll.")
    ] = None
    start: Annotated[
        Literal["earliest", "latest"],
        doc("Where to start in partitions without a committed offset.", "earliest"),
    ] = "earliest"
    acknowledge_revocations: Annotated[
        bool,
        doc(
            "Partitions to be given up are kept until `revoke` says so, up to a minute; otherwise "
            "they go with the next heartbeat or poll.",
        ),
    ] = False


class MemberBody(msgspec.Struct, forbid_unknown_fields=True):
    """The member that sends the request."""

    member_id: MemberId
    generation: Annotated[Generation | None, doc("Checked if present.", 3)] = None


class PollQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The member that polls, and how many messages it takes."""

    member_id: MemberId
    generation: Annotated[Generation | None, doc("Checked if present.")] = None
    timeout: Annotated[
        Duration, doc("How long to wait for the first message, up to 60s.", "30s")
    ] = 30_000
    limit: Limit = 100
    visibility: Annotated[
        Duration | None,
        doc("The visibility timeout, up to 12h; the group's if omitted."),
    ] = None
    rewind: Annotated[
        bool,
        doc("Log groups: read again from the committed offsets, after a lost response."),
    ] = False
    encoding: OutEncoding = "auto"
    decode: Decode = "none"


# --- Answers -------------------------------------------------------------------------------------


class MemberAnswer(msgspec.Struct):
    """The assignment of a member."""

    member_id: str
    generation: Generation
    state: Annotated[str, doc("State of the group.", "Stable")]
    protocol: Annotated[str, doc("The rebalance protocol.", PROTOCOL)]
    partitions: PartitionsByTopic
    added: Annotated[
        dict[str, list[int]], doc("Assigned since the last response.", {"orders": [2]})
    ]
    revoked: Annotated[dict[str, list[int]], doc("Revoked since the last response.", {})]
    partitions_to_revoke: Annotated[dict[str, list[int]], doc("To be released with `revoke`.", {})]
    rebalance_required: Annotated[bool, doc("A rebalance is in progress.")]
    revocation_timeout_ms: Annotated[int, doc("Time limit of `revoke`.", 60_000)]
    heartbeat_interval_ms: Annotated[int, doc("Heartbeat interval.", 5000)]


class JoinAnswer(MemberAnswer):
    """The assignment of a new member."""

    members: Annotated[list[str], doc("All members of the group.", ["worker-1-5f0c"])]
    assignment: Annotated[str, doc("The mode of the group.", "exclusive")]
    settings: Annotated[SettingsShape | None, doc("Queue groups only.")]
    leader_id: Annotated[str | None, doc("Always null: the broker assigns partitions.")] = None


class Left(msgspec.Struct):
    """A member that has left."""

    member_id: str


class PollAnswer(msgspec.Struct):
    """Messages delivered to a member."""

    generation: Generation
    messages: list[PolledMessage]
    next_offsets: Annotated[OffsetsByTopic, doc("The offsets to commit after processing.")]
    partitions: PartitionsByTopic
