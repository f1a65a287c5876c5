"""What administrators do with groups: list, describe, delete, and offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.consumer.group import ConsumerGroup
from goqueue.groups.describe import (
    ClassicDescription,
    ConsumerDescription,
    GroupListing,
    Reading,
    describe_classic,
    describe_consumer,
    list_group,
    reading_of,
    type_of,
)
from goqueue.groups.effects import Effects, Token, refusal
from goqueue.groups.messages import NO_GENERATION, GroupOutcomes, PartitionOutcomes
from goqueue.groups.registry import G, GroupRegistry, Slot
from goqueue.groups.streams.describe import StreamsDescription, describe_streams
from goqueue.groups.streams.group import StreamsGroup
from goqueue.model.errors import GroupError, GroupNotFoundError, UnstableOffsetCommitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from goqueue.groups.encoding import CommittedOffset
    from goqueue.groups.stats import GroupStats
    from goqueue.model.topic_partition import TopicPartition


class GroupAdministration(GroupRegistry):
    """Reads raise `GroupError`; changes answer a token like every other event."""

    # --- Reads ---------------------------------------------------------------------------------

    def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[GroupListing]:
        """The groups in any of the states and of any of the types; none given means all."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {each.lower() for each in types}
        return [
            line
            for line in (list_group(slot.core) for slot in self.slots.values())
            if (not wanted_states or line.state.lower() in wanted_states)
            and (not wanted_types or line.group_type.value in wanted_types)
        ]

    def describe_classic(self, group_id: str) -> ClassicDescription:
        """A classic group, or `GroupNotFoundError`."""
        return describe_classic(self._core_of(ClassicGroup, group_id))

    def describe_consumer(self, group_id: str) -> ConsumerDescription:
        """A KIP-848 group, or `GroupNotFoundError`."""
        return describe_consumer(self._core_of(ConsumerGroup, group_id))

    def describe_streams(self, group_id: str) -> StreamsDescription:
        """A Streams group, or `GroupNotFoundError`."""
        return describe_streams(self._core_of(StreamsGroup, group_id))

    def _core_of(self, kind: type[G], group_id: str) -> G:
        core = self._slot(group_id).core
        if not isinstance(core, kind):
            raise GroupNotFoundError(f"group {group_id!r} is a {type_of(core)} group")
        return core

    def group_stats(self, group_id: str) -> GroupStats:
        """The counters of one group, or `GroupNotFoundError`."""
        return self._slot(group_id).core.stats

    def fetch_offsets(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None = None,
        *,
        member_id: str | None = None,
        epoch: int = NO_GENERATION,
        require_stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset | GroupError | None]:
        """Offsets of the partitions asked for (None: all that there are); None where unknown.

        Raises:
            GroupError: a member asks with an epoch that is not its own.
        """
        slot = self.slots.get(group_id)
        if slot is None:
            return dict.fromkeys(partitions or ())
        if not isinstance(slot.core, ClassicGroup):
            slot.core.check_fetch(member_id, epoch)
        wanted = list(slot.offsets.committed) if partitions is None else partitions
        return {part: _offset(slot, part, require_stable=require_stable) for part in wanted}

    def reading(self, group_id: str) -> Reading:
        """What the members of a group read; nothing of a group that is not there."""
        slot = self.slots.get(group_id)
        if slot is None:
            return Reading()
        return reading_of(slot.core)

    def knows(self, group_id: str) -> bool:
        """Whether there is such a group."""
        return group_id in self.slots

    def _slot(self, group_id: str) -> Slot:
        slot = self.slots.get(group_id)
        if slot is None:
            raise GroupNotFoundError(f"there is no group {group_id!r}")
        return slot

    # --- Changes -------------------------------------------------------------------------------

    def delete_groups(self, group_ids: Sequence[str], token: Token, now_ms: int) -> Effects:
        """Delete groups without members, with their offsets."""
        out = Effects()
        outcomes = ((each, refusal(self._delete, each, now_ms, out)) for each in group_ids)
        out.reply(token, GroupOutcomes(tuple(outcomes)))
        return out

    def _delete(self, group_id: str, now_ms: int, out: Effects) -> None:
        self._slot(group_id).core.check_delete()
        self.discard(group_id, now_ms, out)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition], token: Token
    ) -> Effects:
        """Forget offsets of topics that the group does not read."""
        out = Effects()
        try:
            slot = self._slot(group_id)
            if isinstance(slot.core, ClassicGroup) and slot.core.subscribed is None:
                slot.core.check_delete()
        except GroupError as error:
            out.reply(token, error)
            return out

        def delete(part: TopicPartition) -> None:
            slot.core.check_delete_offset(part[0])
            slot.offsets.delete(part, out)

        outcomes = tuple((part, refusal(delete, part)) for part in partitions)
        out.reply(token, PartitionOutcomes(outcomes))
        return out

    def topics_with_offsets(self) -> set[str]:
        """The names of topics that some group has committed offsets of."""
        return {part.topic for slot in self.slots.values() for part in slot.offsets.committed}

    def delete_topics(self, topics: Iterable[str]) -> Effects:
        """Topics are gone, and so is how far they were read."""
        out = Effects()
        names = list(topics)
        for slot in self.slots.values():
            for topic in names:
                slot.offsets.delete_topic(topic, out)
        return out

    def expire_offsets(self, now_ms: int, out: Effects) -> None:
        """Forget offsets that are too old, and groups that nothing is left of."""
        for group_id, slot in list(self.slots.items()):
            slot.offsets.expire(now_ms, slot.core.expires_from, out)
            if slot.is_useless:
                self.discard(group_id, now_ms, out)

    # --- The one place where refusals become replies -------------------------------------------

    def _answer(
        self, token: Token, event: Callable[[Effects], None], group_id: str | None = None
    ) -> Effects:
        out = Effects()
        try:
            event(out)
        except GroupError as error:
            # Its frames hold `out`, and so the error itself: the request, up to a megabyte of
            # metadata, would wait for a collection of garbage.
            out.reply(token, error.with_traceback(None))
        if group_id is not None:
            self._tidy(group_id)
        return out

    def _tidy(self, group_id: str) -> None:
        """Note the next deadline, and let go of a group that an event made for nothing."""
        slot = self.slots.get(group_id)
        if slot is None:
            return
        is_classic = isinstance(slot.core, ClassicGroup)
        if slot.is_useless and is_classic and next(slot.core.dump(), None) is None:
            del self.slots[group_id]
        self.touch(group_id)


def _offset(
    slot: Slot, part: TopicPartition, *, require_stable: bool
) -> CommittedOffset | GroupError | None:
    if require_stable and slot.offsets.is_pending(part):
        return UnstableOffsetCommitError(
            f"an open transaction is about to commit an offset of {part[0]}-{part[1]}: ask again"
        )
    return slot.offsets.committed.get(part)
