"""`client.queues`: queue groups, their settings, their messages and their members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.client.administration.calls import Calls
from goqueue.client.administration.groups import GroupLine, GroupMember
from goqueue.client.times import to_ms
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.client.link.link import Link
    from goqueue.client.types import Time


class QueueSettings(msgspec.Struct, frozen=True):
    """The settings of a queue group."""

    visibility_ms: int = msgspec.field(name="visibility_timeout")
    max_deliveries: int
    """After so many failed deliveries a message is dead-lettered."""
    backoff_ms: int = msgspec.field(name="backoff")
    """Before the first redelivery; doubles each time,"""
    max_backoff_ms: int = msgspec.field(name="max_backoff")
    """up to this."""
    max_unacked: int
    """Unacknowledged messages that a member may hold."""
    max_waiting: int
    """Messages of a partition that may wait for a retry; one more is dead-lettered."""
    weights: dict[str, int]
    """The weight of each lane."""
    starvation_ms: int = msgspec.field(name="starvation_timeout")
    """How long a lane may wait before it is served out of turn."""
    dead_letters: bool
    """Whether dead-lettered messages are stored."""


class QueuePartition(msgspec.Struct, frozen=True):
    """The messages of one partition of a queue group, by what they wait for."""

    ready: int
    in_flight: int
    """Delivered and not acknowledged."""
    waiting: int
    """For redelivery."""
    dead: int
    """Being moved to the dead-letter topic."""
    committed: int
    """The lowest offset that is not acknowledged."""
    log_end: int


class QueueMember(msgspec.Struct, frozen=True):
    """One member of a queue group."""

    member_id: str
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]
    unacked: int


class QueueGroup(msgspec.Struct, frozen=True):
    """One queue group as it is now."""

    name: str
    state: str
    mode: str
    """`shared` or `exclusive`."""
    ready: int
    in_flight: int
    waiting: int
    dead: int
    """Dead-lettered since the broker started, or being moved."""
    lag: int
    settings: QueueSettings
    partitions: dict[str, dict[int, QueuePartition]]
    """By topic and number."""
    members: tuple[QueueMember, ...]


class QueueStats(msgspec.Struct, frozen=True):
    """The deliveries of a queue group since the broker started, and what is under way now."""

    delivered: int
    """Redeliveries included."""
    acks: int
    nacks: int
    releases: int
    rejects: int
    extensions: int
    in_flight: int
    waiting: int
    expired: int
    """Redelivered because their visibility timeout expired."""
    dead: int
    """Moved to a dead-letter topic."""
    dead_by_reason: dict[str, int]


class Lane(msgspec.Struct, frozen=True):
    """The messages of one priority in a queue group."""

    weight: int
    ready: int
    in_flight: int
    served: int
    served_per_s: float | None
    """Over the last minute; None in the first seconds."""
    boosts: int
    """Deliveries out of turn."""
    last_served_ms: int | None = msgspec.field(name="last_served")


class _Counts(msgspec.Struct):
    ready: int
    in_flight: int
    waiting: int
    dead: int
    settings: QueueSettings
    partitions: dict[str, dict[int, QueuePartition]]


class _Group(GroupLine, kw_only=True):
    members: list[GroupMember]
    total_lag: int
    queue: _Counts | None


class _Groups(msgspec.Struct):
    groups: list[GroupLine]


class _Settings(msgspec.Struct):
    settings: QueueSettings


class _Acknowledgement(msgspec.Struct):
    acks: int
    nacks: int
    releases: int
    rejects: int
    extensions: int


class _Visibility(msgspec.Struct):
    in_flight: int
    waiting: int
    expired: int


class _Dead(msgspec.Struct):
    routed: int
    reasons: dict[str, int]


class _Reliability(msgspec.Struct):
    delivered: int
    acknowledgement: _Acknowledgement
    visibility: _Visibility
    dead_letters: _Dead


class _Stats(msgspec.Struct):
    groups: dict[str, _Reliability]


class _GroupLanes(msgspec.Struct):
    lanes: dict[str, Lane]


class _Lanes(msgspec.Struct):
    groups: dict[str, _GroupLanes]


class AsyncQueues:
    """`client.queues`."""

    def __init__(self, link: Link) -> None:
        self._calls = Calls(link)

    async def list(self) -> list[str]:
        """The names of all queue groups."""
        found = await self._calls.get(_Groups, "/groups")
        return [each.group for each in found.groups if each.type == "queue"]

    async def describe(self, group: str) -> QueueGroup:
        """One queue group: what waits, what is under way, settings and members.

        Raises:
            GroupNotFoundError: there is no such group.
            ValueError: it is a log group.
        """
        found = await self._calls.get(_Group, "/groups/{}", group)
        counts = found.queue
        if counts is None:
            raise ValueError(f"{group!r} is a log group: describe it with client.groups")
        return QueueGroup(
            found.group,
            found.state,
            found.mode or "",
            counts.ready,
            counts.in_flight,
            counts.waiting,
            counts.dead,
            found.total_lag,
            counts.settings,
            counts.partitions,
            tuple(_member(each) for each in found.members),
        )

    async def members(self, group: str) -> tuple[QueueMember, ...]:
        """Who works on a queue group, and what each holds."""
        return (await self.describe(group)).members

    async def settings(self, group: str) -> QueueSettings:
        """The settings of a queue group."""
        return (await self._calls.get(_Settings, "/groups/{}/settings", group)).settings

    async def configure(
        self,
        group: str,
        *,
        visibility: Time | None = None,
        max_deliveries: int | None = None,
        backoff: Time | None = None,
        max_backoff: Time | None = None,
        max_unacked: int | None = None,
        max_waiting: int | None = None,
        weights: Mapping[str, int] | None = None,
        starvation: Time | None = None,
        dead_letters: bool | None = None,
    ) -> QueueSettings:
        """Change some settings of a queue group; times are in seconds.

        Args:
            group: The group.
            visibility: The visibility timeout; messages under way keep theirs.
            max_deliveries: After so many failed deliveries a message is dead-lettered.
            backoff: Before the first redelivery; doubles each time.
            max_backoff: Its upper bound.
            max_unacked: Unacknowledged messages that a member may hold.
            max_waiting: Messages of a partition that may wait for a retry.
            weights: The weight of lanes, by priority.
            starvation: How long a lane may wait before it is served out of turn; 0: for ever.
            dead_letters: Whether dead-lettered messages are stored.
        """
        body: dict[str, Any] = {
            "visibility_timeout": to_ms(visibility),
            "max_deliveries": max_deliveries,
            "backoff": to_ms(backoff),
            "max_backoff": to_ms(max_backoff),
            "max_unacked": max_unacked,
            "max_waiting": max_waiting,
            "weights": None if weights is None else dict(weights),
            "starvation_timeout": to_ms(starvation),
            "dead_letters": dead_letters,
        }
        answer = await self._calls.put(_Settings, "/groups/{}/settings", group, body=body)
        return answer.settings

    async def stats(self) -> dict[str, QueueStats]:
        """Deliveries and acknowledgements of every queue group since the broker started."""
        found = await self._calls.get(_Stats, "/reliability/stats")
        return {name: _stats(each) for name, each in found.groups.items()}

    async def lanes(self, group: str) -> dict[str, Lane]:
        """The lanes of a queue group, by priority."""
        found = await self._calls.get(_Lanes, "/priority/stats", group=group)
        return next((each.lanes for each in found.groups.values()), {})


def _member(found: GroupMember) -> QueueMember:
    return QueueMember(
        found.member_id, found.client_id, found.client_host, found.places(), found.unacked or 0
    )


def _stats(found: _Reliability) -> QueueStats:
    said, seen = found.acknowledgement, found.visibility
    return QueueStats(
        found.delivered,
        said.acks,
        said.nacks,
        said.releases,
        said.rejects,
        said.extensions,
        seen.in_flight,
        seen.waiting,
        seen.expired,
        found.dead_letters.routed,
        found.dead_letters.reasons,
    )
