"""Membership: be in a group over HTTP.

A member over HTTP is one of the newer group protocol: the broker assigns partitions, one owner for
each, and hands them over one by one, so that members which stay keep reading. What the protocol
calls a member's epoch is its `generation` here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from goqueue.broker.group_views import view_group
from goqueue.broker.membership import REBALANCE_TIMEOUT_MS
from goqueue.model.errors import TopicError
from goqueue.protocols.http.codecs import Duration, duration_ms
from goqueue.protocols.http.errors import AtFieldError, FieldError
from goqueue.protocols.http.message_shapes import MessageOut, message_out
from goqueue.protocols.http.messages import MAX_READ_BYTES, Limit, OutEncoding
from goqueue.protocols.http.requests import Request  # noqa: TC001 - read by the router
from goqueue.protocols.http.routing import route
from goqueue.protocols.http.shapes import (
    Generation,
    GroupPath,
    MemberId,
    OffsetsByTopic,
    PartitionsByTopic,
    TopicName,
    by_topic,
    doc,
    offsets_by_topic,
)

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.broker.membership import Member
    from goqueue.broker.partition import PartitionId
MAX_POLL_MS: Final = 60_000
_STEP_MS: Final = 500
"""How long a poll waits before it gives a sign of life, and takes over what was handed to it."""
_TAG: Final = "groups"
_PROTOCOL: Final = "cooperative"


# --- Requests ------------------------------------------------------------------------------------


class JoinBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a member wants to read."""

    topics: Annotated[list[TopicName], doc("Topics that exist.", ["orders"], min_length=1)]
    client_id: Annotated[
        str, doc("The first part of the member id.", "worker-1", max_length=200)
    ] = ""
    assignment: Annotated[
        str,
        doc(
            "`exclusive`: every partition has one owner. Nothing else is served yet.",
            "exclusive",
            extra_json_schema={"enum": ["exclusive"]},
        ),
    ] = "exclusive"
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
    rewind: Annotated[
        bool,
        doc("Read again from the committed offsets: after an answer that got lost."),
    ] = False
    encoding: OutEncoding = "auto"


# --- Answers -------------------------------------------------------------------------------------


class MemberAnswer(msgspec.Struct):
    """A member's place in its group, after what it has just said."""

    member_id: str
    generation: Generation
    state: Annotated[str, doc("Of the group.", "Stable")]
    protocol: Annotated[str, doc("How partitions are handed over.", _PROTOCOL)]
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
    leader_id: Annotated[str | None, doc("Always null: the broker assigns, no member leads.")] = (
        None
    )


class Left(msgspec.Struct):
    """A member that is gone."""

    member_id: str


class PollAnswer(msgspec.Struct):
    """Messages for a member."""

    generation: Generation
    messages: list[MessageOut]
    next_offsets: Annotated[OffsetsByTopic, doc("What to commit once they are processed.")]
    partitions: PartitionsByTopic


# --- Being a member ------------------------------------------------------------------------------


class MemberRoutes:
    """Membership."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._members = broker.memberships

    @route("POST", "/groups/{group}/join", tag=_TAG)
    async def join(self, path: GroupPath, body: JoinBody, request: Request) -> JoinAnswer:
        """Become a member, and get partitions."""
        return await self._join(path.group, body, request)

    @route("POST", "/groups/{group}/join/cooperative", tag=_TAG)
    async def join_cooperative(
        self, path: GroupPath, body: JoinBody, request: Request
    ) -> JoinAnswer:
        """Become a member that acknowledges revocations."""
        body.acknowledge_revocations = True
        return await self._join(path.group, body, request)

    async def _join(self, group: str, body: JoinBody, request: Request) -> JoinAnswer:
        if body.assignment != "exclusive":
            raise FieldError(
                f"assignment {body.assignment[:60]!r} is not served: this server assigns each "
                "partition to one member, which is called 'exclusive'",
                field="assignment",
                expected="exclusive",
            )
        self._check_topics(body.topics)
        member = await self._members.join(
            group,
            body.topics,
            client_id=body.client_id,
            client_host=request.client_host,
            reset_to_earliest=body.start == "earliest",
            releases_itself=body.acknowledge_revocations,
        )
        view = view_group(self._broker, group)
        return JoinAnswer(
            **_place(member, frozenset(), view.listing.state),
            members=[each.member_id for each in view.members],
        )

    def _check_topics(self, topics: list[str]) -> None:
        for number, topic in enumerate(topics):
            try:
                self._broker.topics.catalogue.topic(topic)
            except TopicError as error:
                raise AtFieldError(error, f"topics[{number}]") from error

    @route("POST", "/groups/{group}/heartbeat", tag=_TAG)
    @route("POST", "/groups/{group}/heartbeat/cooperative", tag=_TAG)
    async def heartbeat(self, path: GroupPath, body: MemberBody) -> MemberAnswer:
        """Stay a member, and hear what has changed.

        Without a `generation` it tells a member that has lost track where it is.
        """
        member = self._members.member(path.group, body.member_id, body.generation)
        before = member.assigned
        await self._members.heartbeat(member)
        return self._answer(member, before)

    @route("POST", "/groups/{group}/revoke", tag=_TAG)
    async def revoke(self, path: GroupPath, body: MemberBody) -> MemberAnswer:
        """Say that `partitions_to_revoke` are finished with; others may have them now."""
        member = self._members.member(path.group, body.member_id, body.generation)
        before = member.assigned
        await self._members.release(member)
        return self._answer(member, before)

    @route("POST", "/groups/{group}/leave", tag=_TAG)
    @route("POST", "/groups/{group}/leave/cooperative", tag=_TAG)
    async def leave(self, path: GroupPath, body: MemberBody) -> Left:
        """Stop being a member; the partitions are free for others at once."""
        member = self._members.member(path.group, body.member_id, body.generation)
        await self._members.leave(member)
        return Left(member.member_id)

    @route("GET", "/groups/{group}/poll", tag=_TAG, polls=True)
    async def poll(self, path: GroupPath, query: PollQuery) -> PollAnswer:
        """Get messages of the member's partitions, waiting for the first.

        Each poll goes on where the last one ended, and is a sign of life as well. Commit
        `next_offsets` when the messages are processed.
        """
        timeout_ms = duration_ms(query.timeout, "timeout", at_most_ms=MAX_POLL_MS)
        member = self._members.member(path.group, query.member_id, query.generation)
        if query.rewind:
            member.positions.clear()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        while True:
            left_ms = max(round((deadline_s - loop.time()) * 1000), 0)
            polled = await self._members.poll(
                member,
                limit=query.limit,
                max_wait_ms=min(left_ms, _STEP_MS),
                max_bytes=MAX_READ_BYTES,
            )
            if polled.messages or not left_ms:
                break
        force = query.encoding == "base64"
        return PollAnswer(
            member.epoch,
            [message_out(each, force_base64=force) for each in polled.messages],
            offsets_by_topic(polled.next_offsets.items()),
            by_topic(member.assigned),
        )

    def _answer(self, member: Member, before: frozenset[PartitionId]) -> MemberAnswer:
        state = view_group(self._broker, member.group_id).listing.state
        return MemberAnswer(**_place(member, before, state))


def _place(member: Member, before: frozenset[PartitionId], state: str) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "generation": member.epoch,
        "state": state,
        "protocol": _PROTOCOL,
        "partitions": by_topic(member.assigned),
        "added": by_topic(member.assigned - before),
        "revoked": by_topic(before - member.assigned),
        "partitions_to_revoke": by_topic(member.revoking),
        "rebalance_required": bool(member.revoking) or state not in {"Stable", "Empty"},
        "revocation_timeout_ms": REBALANCE_TIMEOUT_MS,
        "heartbeat_interval_ms": member.heartbeat_interval_ms,
    }
