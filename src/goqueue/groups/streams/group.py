"""A Streams group (KIP-1071): what members and administrators may do with it besides heartbeats."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from goqueue.groups.messages import NO_GENERATION, EndpointPartitions, LeaveResult
from goqueue.groups.streams.assignor import Role
from goqueue.groups.streams.membership import StreamsMembership
from goqueue.model.errors import (
    GroupSubscribedError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberError,
)
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goqueue.groups.effects import Effects, Token
    from goqueue.groups.messages import (
        CommitRequest,
        HeartbeatRequest,
        LeaveRequest,
        SyncRequest,
        UserEndpoint,
    )
    from goqueue.groups.streams.assignor import Task
    from goqueue.model.errors import GroupError


class StreamsGroup(StreamsMembership):
    """What offsets and administration ask of a Streams group."""

    # --- What tasks read -----------------------------------------------------------------------

    def partitions_of(self, tasks: Iterable[Task]) -> frozenset[TopicPartition]:
        """The partitions that tasks read; those of topics that are gone are left out."""
        counts = self.partition_counts
        sources = self._sources()
        return frozenset(
            TopicPartition(name, number)
            for _, subtopology_id, number in tasks
            for name in sources.get(subtopology_id, ())
            if number < counts.get(name, 0)
        )

    @property
    def partition_counts(self) -> Mapping[str, int]:
        """The topics of the topology, as far as they existed when the target was computed."""
        return {name: count for name, _, count in self.basis.topics}

    def _sources(self) -> dict[str, tuple[str, ...]]:
        if self.topology is None:
            return {}
        return {each.subtopology_id: tuple(each.sources) for each in self.topology.subtopologies}

    def endpoints(self) -> tuple[EndpointPartitions, ...]:
        """What each instance of the application can be asked for."""
        tasks: defaultdict[UserEndpoint, set[Task]] = defaultdict(set)
        for member in self.roster.members.values():
            if member.endpoint is not None:
                tasks[member.endpoint] |= member.assigned
        return tuple(
            EndpointPartitions(
                endpoint,
                self.partitions_of(each for each in found if each[0] is Role.ACTIVE),
                self.partitions_of(each for each in found if each[0] is Role.STANDBY),
            )
            for endpoint, found in sorted(tasks.items())
        )

    # --- Requests of the classic protocol ------------------------------------------------------

    def leave(self, request: LeaveRequest, token: Token, now_ms: int, out: Effects) -> None:
        """Nobody here can be taken out with LeaveGroup."""
        del now_ms
        out.reply(
            token,
            LeaveResult(
                tuple((each, self._no_classic_member(each.member_id)) for each in request.members)
            ),
        )

    def sync(self, request: SyncRequest, token: Token, now_ms: int, out: Effects) -> None:
        """Nobody here is assigned anything with SyncGroup.

        Raises:
            UnknownMemberError: always.
        """
        del token, now_ms, out
        raise self._no_classic_member(request.member_id)

    def classic_heartbeat(
        self, request: HeartbeatRequest, token: Token, now_ms: int, out: Effects
    ) -> None:
        """Nobody here sends a Heartbeat of the classic protocol.

        Raises:
            UnknownMemberError: always.
        """
        del token, now_ms, out
        raise self._no_classic_member(request.member_id)

    def _no_classic_member(self, member_id: str) -> UnknownMemberError:
        return UnknownMemberError(
            f"{self.group_id!r} is a Streams group without members of the classic protocol, such "
            f"as {member_id!r}: set group.protocol=streams, or choose another application.id"
        )

    # --- Offsets and administration ------------------------------------------------------------

    def check_commit(
        self, request: CommitRequest, now_ms: int, *, is_transactional: bool = False
    ) -> None:
        """Let a commit through, or raise.

        Without a member it is let through while the group is empty, or from a transactional
        producer that does not know its group.

        Raises:
            UnknownMemberError: there is no such member.
            StaleMemberEpochError: the member is at another epoch.
        """
        del now_ms  # only heartbeats keep a session alive
        epoch = request.generation_or_epoch
        if epoch <= NO_GENERATION and self.is_empty:
            return
        names_member = bool(request.member_id) or request.instance_id is not None
        if is_transactional and epoch <= NO_GENERATION and not names_member:
            return
        self._check_member(request.member_id, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Let a member read its group's offsets, or raise; others need not name themselves.

        Raises:
            UnknownMemberError: there is no such member.
            StaleMemberEpochError: the member is at another epoch.
        """
        if member_id is None and epoch <= NO_GENERATION:
            return
        self._check_member(member_id or "", epoch)

    def _check_member(self, member_id: str, epoch: int) -> None:
        member = self._get(member_id)
        if member.epoch != epoch:
            raise StaleMemberEpochError(
                f"{member_id!r} is at epoch {member.epoch}, not {epoch}: ask again with the epoch "
                "of the newest heartbeat"
            )

    def check_delete(self) -> None:
        """Let the group be deleted, or raise `NonEmptyGroupError`."""
        if not self.is_empty:
            raise NonEmptyGroupError(
                f"group {self.group_id!r} has {len(self.roster.members)} members: stop them first"
            )

    def reads(self, topic: str) -> bool:
        """Whether the group has members, and its topology reads the topic."""
        return not self.is_empty and any(topic in each for each in self._sources().values())

    def check_delete_offset(self, topic: str) -> None:
        """Let the offsets of a topic be deleted, or raise `GroupSubscribedError`."""
        if self.reads(topic):
            raise GroupSubscribedError(
                f"group {self.group_id!r} reads {topic!r}: its offsets are in use"
            )

    def expires_from(self, topic: str) -> int | None:
        """The earliest moment from which offsets of a topic grow old; None while they are used."""
        if self.is_empty:
            return self.empty_since_ms
        return None if self.reads(topic) else 0

    def abandon(self, error: GroupError, out: Effects) -> None:
        """Nobody ever waits in this protocol, so there is only time to stop."""
        del error, out
        self.timers.clear()
