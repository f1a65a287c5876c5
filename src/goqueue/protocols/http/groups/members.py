"""Membership: be in a group over HTTP.

A member joins a queue group, whose messages it acknowledges one by one, or a log group, of which it
commits offsets. Where partitions have owners, a member is one of the newer group protocol: the
broker assigns partitions and hands them over one by one, so that members which stay keep reading.
What that protocol calls a member's epoch is its `generation` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.groups.polling.member import Member
from goqueue.groups.polling.memberships import REBALANCE_TIMEOUT_MS
from goqueue.model.errors import GroupModeError, TopicError
from goqueue.model.topic_partition import TopicPartition, numbers_by_topic
from goqueue.protocols.http.api.codecs import duration_ms
from goqueue.protocols.http.api.errors import AtFieldError, FieldError
from goqueue.protocols.http.api.paths import GroupPath
from goqueue.protocols.http.api.places import group
from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.api.rights import READ, all_of, on_group, on_topic
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.groups.member_shapes import (
    PROTOCOL,
    JoinAnswer,
    JoinBody,
    Left,
    MemberAnswer,
    MemberBody,
    PollQuery,
)
from goqueue.protocols.http.groups.queue_settings_shapes import settings_shape
from goqueue.protocols.http.limits import MAX_AUTO_COMMIT_MS
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.queues.members import HEARTBEAT_INTERVAL_MS, QueueMember

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

_TAG: Final = "groups"
_ASSIGNORS: Final = {"sticky": "uniform", "range": "range", "round-robin": "round-robin"}
"""As users know them, and as Kafka calls them."""
AUTO_COMMIT_MS: Final = 5_000


# --- Being a member ------------------------------------------------------------------------------


_JOINED: Final = all_of(on_group(READ), on_topic(READ, "body.topics"))


class MemberRoutes:
    """Membership."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._members = broker.memberships
        self._queues = broker.queues
        self._queue_members = broker.queue_members

    @route("POST", "/groups/{group}/join", right=_JOINED, tag=_TAG, place=group())
    async def join(self, path: GroupPath, body: JoinBody, request: Request) -> JoinAnswer:
        """Join a group: a queue group unless `assignment` is `log`.

        A new group is created with the settings in the body. An existing one keeps its own: see
        `PUT /groups/{group}/settings`.
        """
        return await self._join(path.group, body, request)

    @route("POST", "/groups/{group}/join/cooperative", right=_JOINED, tag=_TAG, place=group())
    async def join_cooperative(
        self, path: GroupPath, body: JoinBody, request: Request
    ) -> JoinAnswer:
        """Join a group as a member that acknowledges revocations."""
        body.acknowledge_revocations = True
        return await self._join(path.group, body, request)

    async def _join(self, group_id: str, body: JoinBody, request: Request) -> JoinAnswer:
        self._check_topics(body.topics)
        who: dict[str, Any] = {
            "client_id": body.client_id,
            "client_host": request.client_host,
            "member_id": body.member_id or "",
            "releases_itself": body.acknowledge_revocations,
            "session_timeout_ms": self._session_timeout_ms(body),
            "assignor": None if body.assignor is None else _ASSIGNORS[body.assignor],
        }
        settings = None
        if body.assignment == "log":
            self._check_log(group_id, body)
            from_earliest = body.start == "earliest"
            owner = await self._members.join(
                group_id,
                body.topics,
                reset_to_earliest=from_earliest,
                auto_commit_ms=_auto_commit_ms(body),
                **who,
            )
            place = self._place(owner)
        else:
            _check_queue(body)
            wanted = _settings(body)
            member = await self._queue_members.join(group_id, body.topics, wanted, **who)
            place = self._place(_owner(member))
            settings = settings_shape(self._queues.group(group_id).settings)
        view = self._broker.group_views.view(group_id)
        members = [each.member_id for each in view.members]
        return JoinAnswer(**place, members=members, assignment=body.assignment, settings=settings)

    def _check_topics(self, topics: list[str]) -> None:
        for number, topic in enumerate(topics):
            try:
                self._broker.topics.catalogue.topic(topic)
            except TopicError as error:
                raise AtFieldError(error, f"topics[{number}]") from error

    def _check_log(self, group_id: str, body: JoinBody) -> None:
        group = self._queues.find(group_id)
        if group is not None and not group.is_dormant:
            raise GroupModeError(
                f"group {group_id!r} is a queue: its messages are acknowledged, not its offsets"
            )
        if given := body.given():
            raise FieldError(
                f"{given[0]} is a setting of queue groups: log groups have no visibility timeout",
                field=given[0],
                expected="nothing, or another assignment than log",
            )

    def _session_timeout_ms(self, body: JoinBody) -> int | None:
        if body.session_timeout is None:
            return None
        settings = self._broker.groups.settings
        low, high = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        found = duration_ms(
            body.session_timeout, "session_timeout", at_most_ms=high, location="body"
        )
        if found < low:
            raise FieldError(
                f"session_timeout is {found} ms, expected {low} to {high} ms",
                field="session_timeout",
                expected=f"{low} to {high} ms",
            )
        return found

    @route("POST", "/groups/{group}/heartbeat", right=on_group(READ), tag=_TAG, place=group())
    @route(
        "POST",
        "/groups/{group}/heartbeat/cooperative",
        right=on_group(READ),
        tag=_TAG,
        place=group(),
    )
    async def heartbeat(self, path: GroupPath, body: MemberBody) -> MemberAnswer:
        """Send a heartbeat; returns changes of the assignment.

        Without a `generation`, a member that lost its state gets its current assignment.
        """
        member = _owner(find_member(self._broker, path.group, body))
        if isinstance(member, QueueMember):
            await self._queue_members.heartbeat(member)
            return MemberAnswer(**self._place(member))
        before = member.assigned
        await self._members.heartbeat(member)
        return MemberAnswer(**self._place(member, before))

    @route("POST", "/groups/{group}/revoke", right=on_group(READ), tag=_TAG, place=group())
    async def revoke(self, path: GroupPath, body: MemberBody) -> MemberAnswer:
        """Release `partitions_to_revoke`, so that other members get them."""
        member = _owner(find_member(self._broker, path.group, body))
        if isinstance(member, QueueMember):
            return MemberAnswer(**self._place(member))
        before = member.assigned
        await self._members.release(member)
        return MemberAnswer(**self._place(member, before))

    @route("POST", "/groups/{group}/leave", right=on_group(READ), tag=_TAG, place=group())
    @route(
        "POST", "/groups/{group}/leave/cooperative", right=on_group(READ), tag=_TAG, place=group()
    )
    async def leave(self, path: GroupPath, body: MemberBody) -> Left:
        """Leave a group; its partitions and messages go to other members at once."""
        member = find_member(self._broker, path.group, body)
        if isinstance(member, QueueMember):
            await self._queue_members.leave(member)
        else:
            await self._members.leave(member)
        return Left(body.member_id)

    # --- Where a member is -----------------------------------------------------------------------

    def _place(
        self, member: Member | QueueMember, before: frozenset[TopicPartition] = frozenset()
    ) -> dict[str, Any]:
        state = self._broker.group_views.view(member.group_id).listing.state
        revoking: frozenset[TopicPartition] = frozenset()
        if isinstance(member, QueueMember):  # a shared one, to whom nothing is handed over
            assigned = before = frozenset(self._queue_members.partitions_of(member))
            heartbeat_interval_ms = HEARTBEAT_INTERVAL_MS
        else:
            assigned, revoking = member.assigned, member.revoking
            heartbeat_interval_ms = member.heartbeat_interval_ms
        return {
            "member_id": member.member_id,
            "generation": member.epoch,
            "state": state,
            "protocol": PROTOCOL,
            "partitions": numbers_by_topic(assigned),
            "added": numbers_by_topic(assigned - before),
            "revoked": numbers_by_topic(before - assigned),
            "partitions_to_revoke": numbers_by_topic(revoking),
            "rebalance_required": bool(revoking) or state not in {"Stable", "Empty"},
            "revocation_timeout_ms": REBALANCE_TIMEOUT_MS,
            "heartbeat_interval_ms": heartbeat_interval_ms,
        }


def find_member(
    broker: Broker, group_id: str, named: MemberBody | PollQuery
) -> QueueMember | Member:
    """The member of a queue group, or of a log group, that a request names."""
    member = broker.queue_members.find(group_id, named.member_id, named.generation)
    if member is not None:
        return member
    return broker.memberships.member(group_id, named.member_id, named.generation)


def _owner(member: QueueMember | Member) -> QueueMember | Member:
    """Who owns partitions, where partitions have owners; else the member of a shared queue."""
    return member if isinstance(member, Member) else member.owner or member


def _check_queue(body: JoinBody) -> None:
    """Refuse what only log groups, or groups whose partitions have owners, can do."""
    given = {
        "auto_commit": body.auto_commit,
        "auto_commit_interval": body.auto_commit_interval is not None,
        "assignor": body.assignor is not None and body.assignment == "shared",
    }
    for name in (name for name, is_said in given.items() if is_said):
        raise FieldError(
            f"{name} has no effect in a group whose assignment is {body.assignment!r}",
            field=name,
            expected="nothing, or the assignment log",
        )


def _auto_commit_ms(body: JoinBody) -> int | None:
    if not body.auto_commit:
        return None
    if body.auto_commit_interval is None:
        return AUTO_COMMIT_MS
    return duration_ms(
        body.auto_commit_interval,
        "auto_commit_interval",
        at_most_ms=MAX_AUTO_COMMIT_MS,
        location="body",
    )


def _settings(body: JoinBody) -> QueueSettings:
    settings = QueueSettings(mode=Mode(body.assignment), start_at_latest=body.start == "latest")
    return msgspec.structs.replace(settings, **body.changes(settings))
