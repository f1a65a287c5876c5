"""All groups of one coordinator: finding, loading, dumping, and whose deadline is next."""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar, cast

import msgspec

from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.classic.state import ClassicState
from goqueue.groups.consumer.group import ConsumerGroup
from goqueue.groups.describe import Group, type_of
from goqueue.groups.encoding import (
    ClassicGroupValue,
    CommittedOffset,
    FenceKey,
    GroupKey,
    GroupValue,
    MemberKey,
    OffsetKey,
    PendingOffsetKey,
    ProducerFence,
    StreamsGroupValue,
    StreamsMemberKey,
    TopologyKey,
    Value,
    decode,
    remove,
)
from goqueue.groups.member_memory import MemberMemory, check_ids, held_by
from goqueue.groups.messages import (
    JOINING_EPOCH,
    ConsumerHeartbeat,
    JoinRequest,
    StreamsHeartbeat,
    SyncRequest,
)
from goqueue.groups.offsets import OffsetStore
from goqueue.groups.stats import GroupStats
from goqueue.groups.streams.group import StreamsGroup
from goqueue.groups.timers import Timers
from goqueue.groups.transaction_fences import TransactionFences
from goqueue.model.errors import InvalidGroupIdError, InvariantError, TooManyGroupsError
from goqueue.model.limits import MAX_ID_CHARS, MAX_REBALANCE_DURATIONS
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from goqueue.groups.effects import Effects, Entry
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.streams.topology import Topology

G = TypeVar("G", bound=ClassicGroup | ConsumerGroup | StreamsGroup)

_RESUMED_AT_ONCE: Final = 500
"""Groups that resume before other work has its turn."""


class Slot(msgspec.Struct):
    """One group id: its members under either protocol, and its offsets, which outlive them."""

    core: Group
    offsets: OffsetStore

    @property
    def is_useless(self) -> bool:
        """Nobody would notice if it were gone."""
        return self.core.is_empty and not self.offsets

    @property
    def is_stored(self) -> bool:
        """Whether the log knows more of it than offsets."""
        return not isinstance(self.core, ClassicGroup) or self.core.stored is not None


class GroupRegistry:
    """Groups by id, with the deadline of each."""

    def __init__(
        self,
        settings: GroupSettings,
        memory: MemberMemory,
        settings_of: Callable[[str], GroupSettings] | None = None,
    ) -> None:
        """Give groups `settings`, or what `settings_of` says of each."""
        self.settings = settings
        self.memory = memory
        self.settings_of = settings_of or (lambda _: settings)
        self.slots: dict[str, Slot] = {}
        self.stats = GroupStats(durations_ms=deque(maxlen=MAX_REBALANCE_DURATIONS))
        """The sum over all groups, also those that are gone."""
        self.timers: Timers[str] = Timers()
        self.transactions: dict[int, set[str]] = {}
        """Producer id to the groups in which its open transaction has staged offsets."""
        self.fences = TransactionFences()

    # --- Slots ---------------------------------------------------------------------------------

    def fresh(self, kind: type[G], group_id: str) -> G:
        """A group that is not in the registry yet."""
        return kind(group_id, self.settings_of(group_id), GroupStats(self.stats, group_id))

    def check_room(self, group_id: str) -> None:
        """Refuse a further group that is one too many.

        Raises:
            TooManyGroupsError, GroupQuotaExceededError: there are as many as there may be.
            InvalidGroupIdError: its id has no end.
        """
        if len(group_id) > MAX_ID_CHARS:
            raise InvalidGroupIdError(
                f"the group id has {len(group_id)} characters; {MAX_ID_CHARS} are allowed"
            )
        if group_id in self.slots:
            return
        if len(self.slots) >= self.settings.max_groups:
            raise TooManyGroupsError(
                f"there are {len(self.slots)} groups, as many as the settings allow: delete some"
            )
        if self.memory.admit_group is not None:
            self.memory.admit_group(group_id)

    def check_join_memory(self, request: JoinRequest) -> None:
        """Refuse a member of the classic protocol for which there is no room, or raise nothing."""
        texts = (request.member_id, request.instance_id, request.client_id, request.client_host)
        self._check_member(request, held_by(texts, request.protocols))

    def check_consumer_memory(self, request: ConsumerHeartbeat) -> None:
        """The same for KIP-848. Only a heartbeat that says something makes the group hold more."""
        if request.epoch != JOINING_EPOCH and request.subscribed_names is None:
            return
        texts = (
            request.member_id,
            request.instance_id,
            request.rack_id,
            request.client_id,
            request.subscribed_regex,
        )
        self._check_member(request, held_by(texts, names=request.subscribed_names))

    def check_streams_memory(self, request: StreamsHeartbeat) -> None:
        """Refuse a member of a Streams group for which, or for whose topology, there is no room."""
        if request.epoch != JOINING_EPOCH:
            return
        texts = (request.member_id, request.rack_id, request.client_id, request.process_id)
        self._check_member(request, held_by(texts, names=chain.from_iterable(request.tags or ())))
        if request.topology is not None:
            slot = self.slots.get(request.group_id)
            core = None if slot is None else slot.core
            before = core.topology_bytes if isinstance(core, StreamsGroup) else 0
            self.memory.check_member(request.group_id, request.topology.held_bytes, before)

    def _check_member(
        self, request: JoinRequest | ConsumerHeartbeat | StreamsHeartbeat, size_bytes: int
    ) -> None:
        check_ids(
            member_id=request.member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
        )
        slot, before_bytes = self.slots.get(request.group_id), 0
        if slot is not None:
            before_bytes = slot.core.member_bytes(request.member_id, request.instance_id)
        self.memory.check_member(request.group_id, size_bytes, before_bytes)

    def check_assignment_memory(self, core: Group, request: SyncRequest) -> None:
        """Refuse assignments of a leader for which there is no room."""
        if isinstance(core, ClassicGroup) and request.assignments:
            before = sum(len(member.assignment) for member in core.roster.members.values())
            brought = sum(map(len, request.assignments.values()))
            self.memory.check_growth(core.group_id, brought - before)

    def install(self, core: Group) -> Slot:
        """Put a group under its id; offsets that are there stay."""
        slot = self.slots.get(core.group_id)
        if slot is None:
            slot = Slot(core, OffsetStore(core.group_id, self.settings))
            self.slots[core.group_id] = slot
        else:
            slot.core = core
        core.stats.group_type = type_of(core)
        self.touch(core.group_id)
        return slot

    def follow_settings(self, group_id: str) -> None:
        """Let a group follow its changed settings from its next event on."""
        slot = self.slots.get(group_id)
        if slot is not None:
            slot.core.settings = self.settings_of(group_id)

    def touch(self, group_id: str) -> None:
        """After every event: note what the group holds and when it wants to be woken next."""
        slot = self.slots.get(group_id)
        self.memory.note(group_id, 0 if slot is None else slot.core.held_bytes)
        deadline_ms = None if slot is None else slot.core.next_deadline_ms()
        if deadline_ms is None:
            self.timers.cancel(group_id)
        else:
            self.timers.set(group_id, deadline_ms)

    def discard(self, group_id: str, now_ms: int, out: Effects) -> None:
        """Remove a group with its offsets, here and in the log."""
        slot = self.slots.pop(group_id)
        slot.offsets.clear(out)
        is_stored = slot.is_stored
        if isinstance(slot.core, ClassicGroup):
            slot.core.transition_to(ClassicState.DEAD, now_ms)
        else:
            slot.core.is_dead = True
            out.persist.extend(slot.core.forget())
        if is_stored:
            out.persist.append(remove(GroupKey(group_id)))
        out.gone.append(group_id)
        self.touch(group_id)

    def clear(self) -> None:
        """Forget every group."""
        for group_id in self.slots:
            self.memory.note(group_id, 0)
        self.slots.clear()
        self.timers.clear()

    def staged(self) -> Iterator[tuple[int, Hashable]]:
        """The producers with staged offsets, each with what it has staged in which group."""
        for producer_id, group_ids in self.transactions.items():
            stores = [self.slots[each].offsets for each in sorted(group_ids) if each in self.slots]
            yield producer_id, tuple((each.group_id, each.staged(producer_id)) for each in stores)

    # --- Loading and dumping -------------------------------------------------------------------

    def load(self, entries: Iterable[Entry]) -> None:
        """Replay entries in the order of the log; `resume` follows the last one.

        Raises:
            StorageError: an entry cannot be read; its message names the key.
        """
        for entry in entries:
            key, value = decode(entry)
            if isinstance(key, GroupKey):
                self._load_group(key.group_id, cast("GroupValue | None", value))
            elif isinstance(key, OffsetKey | PendingOffsetKey):
                offsets = self._loading(key.group_id).offsets
                part = TopicPartition(key.topic, key.partition)
                offset = cast("CommittedOffset | None", value)
                if isinstance(key, OffsetKey):
                    offsets.load(part, offset)
                else:
                    offsets.load_pending(key.producer_id, part, offset)
            elif isinstance(key, FenceKey):
                self.fences.load(key.producer_id, cast("ProducerFence | None", value))
            else:
                self._load_part(key, value)

    def _loading(self, group_id: str) -> Slot:
        slot = self.slots.get(group_id)
        return slot if slot is not None else self.install(self.fresh(ClassicGroup, group_id))

    def _load_group(self, group_id: str, value: GroupValue | None) -> None:
        slot = self._loading(group_id)
        if value is None:
            slot.core = self.fresh(ClassicGroup, group_id)
        elif isinstance(value, ClassicGroupValue):
            slot.core = ClassicGroup.load(
                group_id, value, self.settings_of(group_id), slot.core.stats
            )
        elif isinstance(value, StreamsGroupValue):
            self._loading_as(StreamsGroup, slot).load_group(value)
        else:
            self._loading_as(ConsumerGroup, slot).load_group(value)

    def _load_part(
        self, key: MemberKey | StreamsMemberKey | TopologyKey, value: Value | None
    ) -> None:
        """A member or topology; its entry may come before the newest one of its group."""
        slot = self._loading(key.group_id)
        kind: type[ConsumerGroup | StreamsGroup] = (
            ConsumerGroup if isinstance(key, MemberKey) else StreamsGroup
        )
        if value is None and not isinstance(slot.core, kind):
            return
        if isinstance(key, TopologyKey):
            topology = cast("Topology | None", value)
            self._loading_as(StreamsGroup, slot).set_topology(topology)
        else:
            self._loading_as(kind, slot).load_member(key.member_id, value)

    def _loading_as(self, kind: type[G], slot: Slot) -> G:
        if not isinstance(slot.core, kind):
            slot.core = self.fresh(kind, slot.core.group_id)
        return slot.core

    def resume(self, now_ms: int) -> Iterator[None]:
        """Loading is over: sessions begin anew, and what was removed for good is dropped.

        Other work may be done each time that this yields.
        """
        for count, (group_id, slot) in enumerate(list(self.slots.items()), 1):
            if count % _RESUMED_AT_ONCE == 0:
                yield
            if slot.is_useless and not slot.is_stored:
                del self.slots[group_id]
            else:
                slot.core.resume(now_ms)
            slot.core.stats.group_type = type_of(slot.core)
            for producer_id in slot.offsets.pending_producers:
                self.transactions.setdefault(producer_id, set()).add(group_id)
            self.touch(group_id)

    def dump(self) -> Iterator[Entry]:
        """Everything that the log holds after compaction: a snapshot, to be loaded like a log.

        It may change while this is drawn: then what is drawn is true at some time meanwhile.
        """
        for group_id, slot in list(self.slots.items()):
            if self.slots.get(group_id) is slot:
                yield from slot.core.dump()
                yield from slot.offsets.dump()
        yield from self.fences.dump()

    def check_invariants(self) -> None:
        """Raise `InvariantError` where a group contradicts itself or its deadline is forgotten."""
        for group_id, slot in self.slots.items():
            slot.core.check_invariants()
            slot.offsets.check_invariants()
            if self.memory.of(group_id) != slot.core.held_bytes:
                raise InvariantError(f"the bytes of group {group_id!r} are out of date")
            if self.timers.get(group_id) != slot.core.next_deadline_ms():
                raise InvariantError(f"the deadline of group {group_id!r} is out of date")
