"""The group coordinator: every event of every group comes in here, and effects come out.

No event awaits, reads a clock or touches a disk. `now_ms` is the shell's: milliseconds since the
Unix epoch that never go back (the wall clock of the start plus monotonic time since). What is in
`Effects` must be done in its order, group by group.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from goqueue.groups.administration import GroupAdministration
from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.consumer.checks import check_heartbeat
from goqueue.groups.consumer.group import ConsumerGroup
from goqueue.groups.effects import Effects, Token, refusal
from goqueue.groups.member_memory import MemberMemory
from goqueue.groups.messages import (
    JOINING_EPOCH,
    NO_GENERATION,
    CommitRequest,
    ConsumerHeartbeat,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    MemberHeartbeat,
    OffsetToCommit,
    PartitionOutcomes,
    StreamsHeartbeat,
    SyncRequest,
)
from goqueue.groups.migration import downgrade, hand_over, may_downgrade, upgrade
from goqueue.groups.streams.checks import check_streams_heartbeat
from goqueue.groups.streams.group import StreamsGroup
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GroupNotFoundError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    MemberIdRequiredError,
    UnknownMemberError,
)
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from goqueue.groups.describe import Group
    from goqueue.groups.registry import Slot
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.topics import TopicCatalogue


class GroupCoordinator(GroupAdministration):
    """Members and commits; `GroupAdministration` has what administrators use.

    Every method that takes a token answers it exactly once: in the effects it returns, or in those
    of a later event.
    """

    def __init__(
        self,
        settings: GroupSettings,
        new_uuid: Callable[[], str],
        memory: MemberMemory | None = None,
        settings_of: Callable[[str], GroupSettings] | None = None,
    ) -> None:
        """`memory` is what this coordinator shares with others of the same broker."""
        super().__init__(settings, memory or MemberMemory(settings), settings_of)
        self._new_uuid = new_uuid
        self._sweep_at_ms: int | None = None

    # --- The classic protocol ------------------------------------------------------------------

    def join(
        self, request: JoinRequest, catalogue: TopicCatalogue, token: Token, now_ms: int
    ) -> Effects:
        """JoinGroup: answered when the next generation begins."""
        return self._answer(token, partial(self._join, request, catalogue, token, now_ms))

    def _join(
        self,
        request: JoinRequest,
        catalogue: TopicCatalogue,
        token: Token,
        now_ms: int,
        out: Effects,
    ) -> None:
        self._check_join(request)
        slot = self.slots.get(request.group_id)
        if slot is not None and isinstance(slot.core, ConsumerGroup) and not slot.core.is_empty:
            slot.core.join(request, self._new_uuid, token, now_ms, out, catalogue=catalogue)
            self._downgrade_if_due(request.group_id, now_ms, out)
            return
        if slot is not None and isinstance(slot.core, ClassicGroup):
            try:
                slot.core.join(request, self._new_uuid, token, now_ms, out)
            finally:
                self.touch(request.group_id)
            return
        # A group that is not there yet: it comes to be only if the member gets in.
        effects = Effects()
        core = self._new_classic(request, slot, effects)
        try:
            core.join(request, self._new_uuid, token, now_ms, effects)
        except MemberIdRequiredError as error:
            effects.reply(token, error)
        self.install(core)
        out.add(effects)

    def _check_join(self, request: JoinRequest) -> None:
        self._check_group_id(request.group_id)
        low, high = self.settings.min_session_timeout_ms, self.settings.max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise InvalidSessionTimeoutError(
                f"the session timeout is {request.session_timeout_ms} ms; {low} to {high} ms are "
                "allowed (group.min.session.timeout.ms, group.max.session.timeout.ms)"
            )
        self.check_join_memory(request)

    def _new_classic(self, request: JoinRequest, slot: Slot | None, out: Effects) -> ClassicGroup:
        if slot is not None and isinstance(slot.core, StreamsGroup) and not slot.core.is_empty:
            raise InconsistentGroupProtocolError(
                f"{request.group_id!r} is a Streams group: set group.protocol=streams, or stop its "
                "members first"
            )
        if slot is not None and not isinstance(slot.core, ClassicGroup) and not request.member_id:
            hand_over(slot.core, out)
            return ClassicGroup.in_place_of(slot.core, out)
        if request.member_id:
            raise self._unknown_member(request.group_id, request.member_id)
        self.check_room(request.group_id)
        return self.fresh(ClassicGroup, request.group_id)

    def sync(self, request: SyncRequest, token: Token, now_ms: int) -> Effects:
        """SyncGroup: answered when the leader's assignment is durable."""

        def event(out: Effects) -> None:
            core = self._classic_core(request.group_id, request.member_id)
            self.check_assignment_memory(core, request)
            core.sync(request, token, now_ms, out)

        return self._answer(token, event, request.group_id)

    def heartbeat(self, request: HeartbeatRequest, token: Token, now_ms: int) -> Effects:
        """Heartbeat: answered at once."""

        def event(out: Effects) -> None:
            core = self._classic_core(request.group_id, request.member_id)
            if isinstance(core, ClassicGroup):
                core.heartbeat(request, token, now_ms, out)
            else:
                core.classic_heartbeat(request, token, now_ms, out)

        return self._answer(token, event, request.group_id)

    def leave(self, request: LeaveRequest, token: Token, now_ms: int) -> Effects:
        """LeaveGroup: answered at once, with an outcome for each member."""

        def event(out: Effects) -> None:
            self._core(request.group_id, "").leave(request, token, now_ms, out)
            self._downgrade_if_due(request.group_id, now_ms, out)

        return self._answer(token, event, request.group_id)

    def _core(self, group_id: str, member_id: str) -> Group:
        self._check_group_id(group_id)
        slot = self.slots.get(group_id)
        if slot is None:
            raise self._unknown_member(group_id, member_id)
        return slot.core

    def _classic_core(self, group_id: str, member_id: str) -> ClassicGroup | ConsumerGroup:
        core = self._core(group_id, member_id)
        if isinstance(core, StreamsGroup):
            raise core.no_classic_member(member_id)
        return core

    # --- Members that the broker leads to a target ----------------------------------------------

    def consumer_heartbeat(
        self, request: ConsumerHeartbeat, catalogue: TopicCatalogue, token: Token, now_ms: int
    ) -> Effects:
        """ConsumerGroupHeartbeat: answered at once."""

        def event(out: Effects) -> None:
            check_heartbeat(request)
            self.check_consumer_memory(request)
            out.add(self._heartbeat(ConsumerGroup, request, catalogue, token, now_ms))
            self._downgrade_if_due(request.group_id, now_ms, out)

        return self._answer(token, event, request.group_id)

    def streams_heartbeat(
        self, request: StreamsHeartbeat, catalogue: TopicCatalogue, token: Token, now_ms: int
    ) -> Effects:
        """StreamsGroupHeartbeat: answered at once."""

        def event(out: Effects) -> None:
            check_streams_heartbeat(request)
            self.check_streams_memory(request)
            out.add(self._heartbeat(StreamsGroup, request, catalogue, token, now_ms))

        return self._answer(token, event, request.group_id)

    def _heartbeat(
        self,
        kind: type[ConsumerGroup | StreamsGroup],
        request: Any,
        catalogue: TopicCatalogue,
        token: Token,
        now_ms: int,
    ) -> Effects:
        # A group that cannot take the member in stays as it was, with whoever waits in it.
        out = Effects()
        core = self._reconciled(kind, request, catalogue, now_ms, out)
        core.heartbeat(request, catalogue, token, now_ms, out)
        self.install(core)
        return out

    def _reconciled(
        self,
        kind: type[ConsumerGroup | StreamsGroup],
        request: MemberHeartbeat[Any],
        catalogue: TopicCatalogue,
        now_ms: int,
        out: Effects,
    ) -> ConsumerGroup | StreamsGroup:
        """The group, or one that comes to be if its first member gets in."""
        group_id = request.group_id
        core = None if group_id not in self.slots else self.slots[group_id].core
        if isinstance(core, kind):
            return core
        if request.epoch == JOINING_EPOCH:
            if core is None:
                self.check_room(group_id)
                return self.fresh(kind, group_id)
            if not core.roster.members:
                return kind(group_id, core.settings, core.stats, epoch=hand_over(core, out))
            if kind is ConsumerGroup and isinstance(core, ClassicGroup):
                return upgrade(core, catalogue, now_ms, out)
        kind_name = "consumer" if kind is ConsumerGroup else "Streams"
        reason = "" if core is None else ", but a group of another kind with this name"
        raise GroupNotFoundError(f"there is no {kind_name} group {group_id!r}{reason}")

    def _downgrade_if_due(self, group_id: str, now_ms: int, out: Effects) -> None:
        slot = self.slots.get(group_id)
        if slot is not None and isinstance(slot.core, ConsumerGroup) and may_downgrade(slot.core):
            self.install(downgrade(slot.core, now_ms, out))
        self.touch(group_id)

    # --- Offsets -------------------------------------------------------------------------------

    def commit(self, request: CommitRequest, token: Token, now_ms: int) -> Effects:
        """OffsetCommit: answered when the offsets are durable."""

        def event(out: Effects) -> None:
            slot = self._slot_for_commit(request)
            slot.core.check_commit(request, now_ms)

            def commit(item: OffsetToCommit) -> None:
                slot.offsets.commit(
                    item,
                    now_ms,
                    out,
                    retention_ms=request.retention_ms,
                    is_reset=request.is_reset,
                )

            accepted, refused = self._commit_each(request, token, commit, out)
            slot.core.stats.committed(accepted=accepted, refused=refused)

        return self._answer(token, event, request.group_id)

    def stage(self, producer_id: int, request: CommitRequest, token: Token, now_ms: int) -> Effects:
        """TxnOffsetCommit: the offsets count when the producer's transaction commits."""

        def event(out: Effects) -> None:
            slot = self._slot_for_commit(request)
            slot.core.check_commit(request, now_ms, is_transactional=True)

            def stage(item: OffsetToCommit) -> None:
                slot.offsets.stage(producer_id, item, now_ms, out)
                self.transactions.setdefault(producer_id, set()).add(request.group_id)

            _, refused = self._commit_each(request, token, stage, out)
            slot.core.stats.committed(accepted=0, refused=refused)

        return self._answer(token, event, request.group_id)

    def complete_transaction(self, producer_id: int, *, commit: bool) -> Effects:
        """A producer's transaction has ended: what it staged counts, or never was."""
        out = Effects()
        for group_id in sorted(self.transactions.pop(producer_id, ())):
            slot = self.slots.get(group_id)
            if slot is not None:
                accepted = slot.offsets.complete(producer_id, out, commit=commit)
                slot.core.stats.committed(accepted=accepted, refused=0)
        return out

    def _slot_for_commit(self, request: CommitRequest) -> Slot:
        slot = self.slots.get(request.group_id)
        if slot is not None:
            return slot
        if request.generation_or_epoch > NO_GENERATION:
            raise IllegalGenerationError(
                f"there is no group {request.group_id!r}, so it has no generation "
                f"{request.generation_or_epoch}: join again"
            )
        self.check_room(request.group_id)
        return self.install(self.fresh(ClassicGroup, request.group_id))

    def commit_refused(self, group_id: str) -> None:
        """A whole commit was refused, here or before it came here."""
        slot = self.slots.get(group_id)
        stats = self.stats if slot is None else slot.core.stats
        stats.committed(accepted=0, refused=1)

    @staticmethod
    def _commit_each(
        request: CommitRequest,
        token: Token,
        commit: Callable[[OffsetToCommit], None],
        out: Effects,
    ) -> tuple[int, int]:
        """Returns how many offsets were accepted, and how many refused."""
        outcomes = tuple(
            (TopicPartition(item.topic, item.partition), refusal(commit, item))
            for item in request.offsets
        )
        refused = sum(error is not None for _, error in outcomes)
        out.reply(token, PartitionOutcomes(outcomes))
        return len(outcomes) - refused, refused

    # --- Time, start and stop ------------------------------------------------------------------

    def resume(self, now_ms: int) -> Iterator[None]:
        """After the last `load`, before the first event."""
        yield from super().resume(now_ms)
        self._sweep_at_ms = now_ms + self.settings.offsets_check_interval_ms

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do; None when nothing waits for time to pass."""
        deadlines = (self.timers.next_ms(), self._sweep_at_ms)
        return min((each for each in deadlines if each is not None), default=None)

    def tick(self, now_ms: int) -> Effects:
        """Do everything whose time has come. Groups that wait for nothing cost nothing."""
        out = Effects()
        for group_id in self.timers.due(now_ms):
            slot = self.slots.get(group_id)
            if slot is not None:
                slot.core.tick(now_ms, out)
                self._downgrade_if_due(group_id, now_ms, out)
        if self._sweep_at_ms is not None and now_ms >= self._sweep_at_ms:
            self._sweep_at_ms = now_ms + self.settings.offsets_check_interval_ms
            self.expire_offsets(now_ms, out)
            self.fences.expire(now_ms, out)
        return out

    def abandon(self) -> Effects:
        """The coordinator stops, moves or could not store something: everyone who waits is told.

        It must not be used afterwards; a new one is loaded from the log.
        """
        out = Effects()
        error = CoordinatorUnavailableError("the coordinator of the group moves: find it again")
        for slot in self.slots.values():
            slot.core.abandon(error, out)
        self.clear()
        self._sweep_at_ms = None
        return out

    @staticmethod
    def _check_group_id(group_id: str) -> None:
        if not group_id:
            raise InvalidGroupIdError("the group id is empty: set group.id")

    @staticmethod
    def _unknown_member(group_id: str, member_id: str) -> UnknownMemberError:
        return UnknownMemberError(
            f"group {group_id!r} has no member {member_id!r}: join again without a member id"
        )
