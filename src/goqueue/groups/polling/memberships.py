"""Members of groups that the broker reads for: joining, staying, polling and committing.

A member is one of the newer group protocol's (KIP-848): the broker assigns partitions and hands
them over one by one, so members that stay keep reading. What a Kafka client keeps for itself, which
partitions it holds and where it reads on, is kept here for as long as the member lives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from goqueue.groups.messages import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    CommitRequest,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    OffsetToCommit,
    PartitionOutcomes,
    PollingTerms,
)
from goqueue.groups.polling.member import AutoCommit, Member
from goqueue.model.errors import (
    FencedMemberEpochError,
    GroupError,
    PartitionNotAssignedError,
    StaleMemberEpochError,
    UnknownMemberError,
)
from goqueue.model.limits import MAX_POLLED_BYTES
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goqueue.groups.consumer.member import ConsumerMember
    from goqueue.groups.polling.reader import MemberReader, Polled
    from goqueue.groups.service import Groups
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topics

REBALANCE_TIMEOUT_MS: Final = 60_000
_MAX_MEMBERS: Final = 100_000
"""Members whose places are kept; at the bound, those whose session has ended are looked for."""


class Memberships:
    """Every member of every group that the broker reads for."""

    def __init__(self, groups: Groups, topics: Topics, clock: Clock, reader: MemberReader) -> None:
        self._groups = groups
        self._topics = topics
        self._clock = clock
        self.reader = reader
        self._members: dict[tuple[str, str], Member] = {}

    async def join(
        self,
        group_id: str,
        topics: Iterable[str],
        *,
        client_id: str = "",
        client_host: str = "",
        member_id: str = "",
        reset_to_earliest: bool = True,
        releases_itself: bool = False,
        session_timeout_ms: int | None = None,
        assignor: str | None = None,
        auto_commit_ms: int | None = None,
    ) -> Member:
        """Become a member that reads these topics.

        With the id of a member that was lost without a word, its place is taken at once; should it
        still be there, it is fenced.

        A member that `releases_itself` calls `release` when it has finished with partitions that
        it is to give up; the group waits for it, up to the rebalance timeout.

        With `auto_commit_ms` each `poll` commits what the polls before it returned, at most once
        in that time; so do leaving and losing a partition.

        Raises:
            GroupError: the group refuses, for example because it speaks the classic protocol.
        """
        member_id = member_id or f"{client_id or 'member'}-{uuid4().hex}"
        member = Member(group_id, member_id, reset_to_earliest)
        member.client_id, member.client_host = client_id, client_host
        member.releases_itself = releases_itself
        if auto_commit_ms is not None:
            member.auto = AutoCommit(auto_commit_ms, self._clock.now_ms())
        terms = None
        if self._groups.in_cluster:
            terms = PollingTerms(
                reset_to_earliest, releases_itself, auto_commit_ms, session_timeout_ms
            )
            member.coordinated_in = self._groups.epoch_of(group_id)
        await self._heartbeat(
            member,
            ConsumerHeartbeat(
                group_id=group_id,
                member_id=member.member_id,
                epoch=JOINING_EPOCH,
                client_id=client_id,
                client_host=client_host,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                subscribed_names=frozenset(topics),
                owned=frozenset(),
                server_assignor=assignor,
                session_timeout_ms=session_timeout_ms,
                polling=terms,
            ),
        )
        if len(self._members) >= _MAX_MEMBERS:
            self._forget_ended()
        self._members[group_id, member.member_id] = member
        return member

    def _forget_ended(self) -> None:
        """Drop members that went without a word."""
        alive = {
            (group_id, member.member_id)
            for group_id in {group_id for group_id, _ in self._members}
            for member in self._known(group_id)
        }
        self._members = {key: member for key, member in self._members.items() if key in alive}

    def _known(self, group_id: str) -> tuple[ConsumerMember, ...]:
        try:
            return self._groups.coordinator(group_id).describe_consumer(group_id).members
        except GroupError:
            return ()

    def member(self, group_id: str, member_id: str, epoch: int | None = None) -> Member:
        """A member that has joined here.

        Raises:
            UnknownMemberError: it never did, or its session is over.
            StaleMemberEpochError: it speaks for another epoch than its newest.
        """
        member = self._members.get((group_id, member_id))
        if self._groups.in_cluster:
            epoch_now = self._groups.epoch_of(group_id)
            if member is None or member.coordinated_in != epoch_now:
                member = self._rebuilt(group_id, member_id, epoch_now)
        if member is None:
            raise UnknownMemberError(
                f"group {group_id!r} has no member {member_id!r}: its session may have ended; "
                "join again"
            )
        if epoch is not None and epoch != member.epoch:
            raise StaleMemberEpochError(
                f"member {member_id!r} is at generation {member.epoch}, the request says {epoch}: "
                "send a heartbeat first"
            )
        return member

    def _rebuilt(self, group_id: str, member_id: str, coordinated_in: int) -> Member | None:
        """A member that another coordinator has let in, as its group is stored.

        It goes on where its group has committed; None when the group does not know it.
        """
        known = next((each for each in self._known(group_id) if each.member_id == member_id), None)
        if known is None or known.polling is None:
            self._members.pop((group_id, member_id), None)
            return None
        terms = known.polling
        member = Member(group_id, member_id, terms.reset_to_earliest)
        member.client_id, member.client_host = known.client_id, known.client_host
        member.epoch, member.coordinated_in = known.epoch, coordinated_in
        member.releases_itself = terms.releases_itself
        member.assigned = self._named(known.assigned)
        if terms.releases_itself:
            member.revoking = self._named(known.pending_revocation)
        if terms.auto_commit_ms is not None:
            member.auto = AutoCommit(terms.auto_commit_ms, self._clock.now_ms())
        self._members[group_id, member_id] = member
        return member

    async def heartbeat(self, member: Member) -> None:
        """Stay alive, give up what is to be given up, and take over what is assigned.

        Giving up is at once, unless the member releases partitions itself: whatever it was handed
        before is its business, and its commits count until the partition has a new owner.

        Raises:
            GroupError: the group has removed it, or somebody has taken its place.
        """
        self._check_kept(member)
        await self._heartbeat(
            member,
            ConsumerHeartbeat(
                group_id=member.group_id,
                member_id=member.member_id,
                epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                owned=self._with_ids(member.assigned | member.revoking),
            ),
        )

    async def release(self, member: Member) -> None:
        """The member has finished with the partitions that it is to give up."""
        member.revoking = frozenset()
        await self.heartbeat(member)

    async def leave(self, member: Member) -> None:
        """Go; the partitions are free for others at once.

        One whose place was taken has nothing to leave.
        """
        if self._members.get((member.group_id, member.member_id)) is not member:
            return
        if member.auto is not None:
            await self._auto_commit(member, member.auto, member.auto.changed(member.positions))
        if not self._forget(member):
            return
        await self._groups.consumer_heartbeat(
            ConsumerHeartbeat(
                group_id=member.group_id, member_id=member.member_id, epoch=LEAVING_EPOCH
            )
        )

    async def _heartbeat(self, member: Member, request: ConsumerHeartbeat) -> None:
        try:
            result = await self._groups.consumer_heartbeat(request)
        except GroupError:
            self._forget(member)
            raise
        self._take_over(member, result)

    def _check_kept(self, member: Member) -> None:
        if self._members.get((member.group_id, member.member_id)) is not member:
            raise FencedMemberEpochError(
                f"member {member.member_id!r} is not in group {member.group_id!r} any more, or "
                "somebody has taken its place: join again"
            )

    def _forget(self, member: Member) -> bool:
        """Keep nothing for a member any more; False when it is not, or no longer, kept."""
        key = (member.group_id, member.member_id)
        if self._members.get(key) is not member:
            return False
        del self._members[key]
        return True

    def _take_over(self, member: Member, result: ConsumerHeartbeatResult) -> None:
        member.epoch = result.epoch
        member.heartbeat_interval_ms = result.heartbeat_interval_ms
        if result.assignment is None:
            return
        assigned = self._named(result.assignment)
        if member.releases_itself:
            member.revoking = (member.revoking | member.assigned) - assigned
        member.assigned = assigned
        for partition in set(member.positions) - member.assigned:
            del member.positions[partition]

    def _named(self, places: Iterable[TopicIdPartition]) -> frozenset[TopicPartition]:
        topics = self._topics.catalogue.by_id
        return frozenset(
            TopicPartition(topics[topic_id].name, number)
            for topic_id, number in places
            if topic_id in topics
        )

    def _with_ids(self, partitions: Iterable[TopicPartition]) -> frozenset[tuple[UUID, int]]:
        topics = self._topics.catalogue.by_name
        return frozenset(
            (topics[each.topic].topic_id, each.partition)
            for each in partitions
            if each.topic in topics
        )

    # --- Reading ---------------------------------------------------------------------------------

    async def poll(
        self, member: Member, *, limit: int, max_wait_ms: int, max_bytes: int = MAX_POLLED_BYTES
    ) -> Polled:
        """A heartbeat, and `read`."""
        if member.auto is None:
            await self.heartbeat(member)
        else:
            await self._committing_heartbeat(member, member.auto)
        return await self.reader.read(
            member, limit=limit, max_wait_ms=max_wait_ms, max_bytes=max_bytes
        )

    # --- Committing ------------------------------------------------------------------------------

    def check_owner(self, member: Member, partitions: Iterable[TopicPartition]) -> None:
        """Let only the owner of partitions say how far they are read. Raises like `commit`."""
        self._check_kept(member)
        for partition in partitions:
            if partition not in member.assigned and partition not in member.revoking:
                raise PartitionNotAssignedError(
                    f"{partition} is not assigned to member {member.member_id!r}: only its owner "
                    "commits it"
                )

    async def commit(
        self, member: Member, offsets: Mapping[TopicPartition, int]
    ) -> PartitionOutcomes:
        """Note how far the member's partitions are read.

        Raises:
            PartitionNotAssignedError: one of them is not this member's.
            GroupError: the group has removed the member, or somebody has taken its place.
        """
        try:
            self.check_owner(member, offsets)
        except GroupError as error:
            self._groups.commit_refused(member.group_id, error)
            raise
        return await self._store(member, offsets)

    async def _store(
        self, member: Member, offsets: Mapping[TopicPartition, int]
    ) -> PartitionOutcomes:
        return await self._groups.commit(
            CommitRequest(
                group_id=member.group_id,
                member_id=member.member_id,
                generation_or_epoch=member.epoch,
                offsets=tuple(
                    OffsetToCommit(topic=each.topic, partition=each.partition, offset=offset)
                    for each, offset in offsets.items()
                ),
            )
        )

    async def _committing_heartbeat(self, member: Member, auto: AutoCommit) -> None:
        """A heartbeat that commits what earlier polls returned.

        A partition that the heartbeat takes from the member is its own until the next one: a
        commit of it still counts, and its next owner begins where this member stopped.
        """
        returned = dict(member.positions)
        await self._auto_commit(member, auto, auto.due(returned, self._clock.now_ms()))
        await self.heartbeat(member)
        lost = {each: returned[each] for each in returned.keys() - member.assigned}
        await self._auto_commit(member, auto, auto.changed(lost))
        for partition in lost:
            auto.forget(partition)

    async def _auto_commit(
        self, member: Member, auto: AutoCommit, offsets: Mapping[TopicPartition, int]
    ) -> None:
        if offsets:
            auto.note(offsets, await self._store(member, offsets))
