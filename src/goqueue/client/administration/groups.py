"""`client.groups` and `client.offsets`: groups of every kind, and how far they have read."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.client.administration.calls import Calls, unexpected
from goqueue.client.times import moment_ms
from goqueue.client.types import Group, GroupOffset, Member, OffsetChange, Start
from goqueue.model.errors import GroupNotFoundError
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.client.link.link import Link

_PARTITIONS_A_CALL: Final = 100


class Rebalances(msgspec.Struct, frozen=True):
    """Rebalances, joins, leaves, heartbeats and commits since the broker started."""

    total: int
    successful: int
    failed: int
    superseded: int
    partitions_revoked: int
    partitions_assigned: int
    revocation_timeouts: int
    last_duration_ms: int
    average_duration_ms: float
    last_at_ms: int | None = msgspec.field(name="last_at")
    reasons: dict[str, int]
    joins: int
    leaves: dict[str, int]
    heartbeats: int
    offset_commits: int
    offset_commit_errors: int


class GroupMember(msgspec.Struct):
    """A member as JSON has it."""

    member_id: str
    client_id: str
    client_host: str
    partitions: dict[str, list[int]]
    unacked: int | None = None

    def places(self) -> tuple[TopicPartition, ...]:
        """Its partitions."""
        return places(self.partitions)


class GroupLine(msgspec.Struct):
    """A group of a list as JSON has it."""

    group: str
    state: str
    protocol: str
    generation: int
    member_count: int
    type: str
    mode: str | None = None


class _Groups(msgspec.Struct):
    groups: list[GroupLine]


class _Offsets(msgspec.Struct):
    offsets: dict[str, dict[int, int | None]]
    log_ends: dict[str, dict[int, int]]
    lag: dict[str, dict[int, int]]

    def each(self) -> list[GroupOffset]:
        """One by one. Raises `UnexpectedAnswerError` where something is missing."""
        try:
            return [
                GroupOffset(
                    topic, number, offset, self.log_ends[topic][number], self.lag[topic][number]
                )
                for topic, numbers in self.offsets.items()
                for number, offset in numbers.items()
            ]
        except KeyError as error:
            raise unexpected("offsets", error) from error


class _Group(GroupLine, kw_only=True):
    members: list[GroupMember]
    offsets: dict[str, dict[int, int | None]]
    log_ends: dict[str, dict[int, int]]
    lag: dict[str, dict[int, int]]


class _Changes(msgspec.Struct):
    changes: list[_Change]


class _Change(msgspec.Struct):
    topic: str
    partition: int
    before: int | None
    after: int


class AsyncGroups:
    """`client.groups`."""

    def __init__(self, link: Link) -> None:
        self._calls = Calls(link)

    async def list(self) -> list[Group]:
        """Every group, by name, without members and offsets."""
        found = await self._calls.get(_Groups, "/groups")
        return [_group(each, (), ()) for each in found.groups]

    async def describe(self, name: str) -> Group:
        """One group."""
        found = await self._calls.get(_Group, "/groups/{}", name)
        members = (
            Member(each.member_id, each.client_id, each.client_host, each.places())
            for each in found.members
        )
        offsets = _Offsets(found.offsets, found.log_ends, found.lag)
        return _group(found, tuple(members), tuple(offsets.each()))

    async def delete(self, name: str) -> None:
        """Delete a group without members, with its offsets."""
        await self._calls.delete(msgspec.Raw, "/groups/{}", name)

    async def rebalances(self, name: str | None = None) -> Rebalances:
        """Rebalances of a group, or of all, since the broker started."""
        if name is None:
            return await self._calls.get(Rebalances, "/rebalance/stats")
        return await self._calls.get(Rebalances, "/groups/{}/rebalance/stats", name)


class AsyncOffsets:
    """`client.offsets`: of groups whose members are elsewhere, or gone."""

    def __init__(self, link: Link) -> None:
        self._calls = Calls(link)

    async def fetch(
        self, group: str, partitions: Sequence[TopicPartition] = ()
    ) -> list[GroupOffset]:
        """How far a group has read; without partitions, all that it has committed."""
        path = "/groups/{}/offsets"
        if not partitions:
            try:
                return (await self._calls.get(_Offsets, path, group)).each()
            except GroupNotFoundError:
                return []
        found: dict[tuple[str, int], GroupOffset] = {}
        for start in range(0, len(partitions), _PARTITIONS_A_CALL):
            chosen = partitions[start : start + _PARTITIONS_A_CALL]
            named = ",".join(f"{topic}:{number}" for topic, number in chosen)
            answer = await self._calls.get(_Offsets, path, group, partitions=named)
            found |= {(each.topic, each.partition): each for each in answer.each()}
        try:
            return [found[topic, number] for topic, number in partitions]
        except KeyError as error:
            raise unexpected("offsets", error) from error

    async def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Say where a group goes on reading.

        Raises:
            GoQueueError: of the first partition that was refused; others may have been committed.
        """
        if not offsets:
            return
        named: dict[str, dict[int, int]] = {}
        for (topic, number), offset in offsets.items():
            named.setdefault(topic, {})[number] = offset
        await self._calls.post(
            msgspec.Raw, "/groups/{}/offsets", group, body={"offsets": named}, again=True
        )

    async def reset(
        self,
        group: str,
        topic: str,
        to: Start,
        *,
        partitions: Sequence[int] = (),
        dry_run: bool = False,
    ) -> list[OffsetChange]:
        """Let a group go on reading elsewhere; with `dry_run`, only say what would change."""
        body = {
            "topic": topic,
            "partitions": [*partitions] or None,
            "dry_run": dry_run,
            **_strategy(to),
        }
        answer = await self._calls.post(
            _Changes, "/groups/{}/offsets/reset", group, body=body, again=True
        )
        return [
            OffsetChange(each.topic, each.partition, each.before, each.after)
            for each in answer.changes
        ]


def places(partitions: Mapping[str, Sequence[int]]) -> tuple[TopicPartition, ...]:
    """Partitions by topic, one by one."""
    return tuple(
        TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers
    )


def _group(line: GroupLine, members: tuple[Member, ...], offsets: tuple[GroupOffset, ...]) -> Group:
    return Group(
        line.group,
        line.protocol,
        line.state,
        line.generation,
        line.member_count,
        members,
        offsets,
    )


def _strategy(to: Start) -> dict[str, Any]:
    if isinstance(to, datetime):
        return {"strategy": "timestamp", "timestamp": moment_ms(to)}
    if isinstance(to, int):
        return {"strategy": "offset", "offset": to}
    if to not in {"earliest", "latest"}:
        raise ValueError(f"to: {to!r} is not 'earliest', 'latest', an offset or a datetime")
    return {"strategy": to}
