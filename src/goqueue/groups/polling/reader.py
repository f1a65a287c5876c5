"""The next messages of the partitions that a member holds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.groups.encoding import CommittedOffset
from goqueue.model.errors import OffsetOutOfRangeError
from goqueue.model.limits import MAX_POLLED_BYTES
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.partition import Isolation
from goqueue.reading.fetch import Fetched, FetchRequest, PartitionRead, bytes_for
from goqueue.reading.stored_messages import StoredMessage, messages_of

if TYPE_CHECKING:
    from goqueue.groups.polling.member import Member
    from goqueue.groups.service import Groups
    from goqueue.partitions.batch_opener import BatchOpener
    from goqueue.partitions.damage import DamageReports
    from goqueue.reading.positions import Positions
    from goqueue.reading.stored_messages import Fetches

_EACH_BYTES: Final = 1024 * 1024
"""Of one partition, so that one poll has something of each."""


class Polled(msgspec.Struct, frozen=True):
    """What one poll brought."""

    messages: list[StoredMessage]
    next_offsets: Mapping[TopicPartition, int]


class MemberReader:
    """Reads on where each member, or its group, was."""

    def __init__(
        self,
        groups: Groups,
        positions: Positions,
        fetcher: Fetches,
        opener: BatchOpener,
        damage: DamageReports,
    ) -> None:
        self._groups = groups
        self._positions = positions
        self._fetcher = fetcher
        self._opener = opener
        self._damage = damage

    async def read(
        self, member: Member, *, limit: int, max_wait_ms: int, max_bytes: int = MAX_POLLED_BYTES
    ) -> Polled:
        """Up to `limit` messages of the member's partitions, waiting for the first.

        Partitions take turns at being first. Offsets without a message, as markers have them, do
        not end the wait.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + max_wait_ms / 1000
        while True:
            wait_ms = max(round((deadline_s - loop.time()) * 1000), 0)
            polled, has_hidden = await self._read(member, limit, wait_ms, max_bytes)
            if not has_hidden or loop.time() >= deadline_s:
                return polled

    async def _read(
        self, member: Member, limit: int, max_wait_ms: int, max_bytes: int
    ) -> tuple[Polled, bool]:
        """What is there, and whether that is nothing but offsets without a message."""
        assigned = sorted(member.assigned, key=lambda each: (each.topic, each.partition))
        turn = member.polls % len(assigned) if assigned else 0
        member.polls += 1
        assigned = assigned[turn:] + assigned[:turn]
        max_bytes = bytes_for(limit, max_bytes)
        each_bytes = min(max_bytes, _EACH_BYTES)
        reads = [
            PartitionRead(each, await self._position(member, each), each_bytes) for each in assigned
        ]
        request = FetchRequest(
            reads,
            max_wait_ms,
            max_bytes=max_bytes,
            isolation=Isolation.READ_COMMITTED,
            by_message=True,
            group=member.group_id,
            consumer=member.member_id,
        )
        messages: list[StoredMessage] = []
        found = await self._fetcher.fetch(request)
        for fetched in found:
            if isinstance(fetched.error, OffsetOutOfRangeError):
                member.positions.pop(fetched.read.partition, None)
            await self._take(member, fetched, limit, messages)
        if messages:
            self._fetcher.handed_out(Counter(each.topic for each in messages))
        has_hidden = not messages and any(
            each.error is None and each.next_offset > each.read.offset for each in found
        )
        return Polled(messages, dict(member.positions)), has_hidden

    async def _take(
        self, member: Member, fetched: Fetched, limit: int, messages: list[StoredMessage]
    ) -> None:
        """Hand out one partition's messages as far as the limit goes, and remember the place."""
        partition = fetched.read.partition
        if partition not in member.assigned or fetched.error is not None:
            return
        if len(messages) >= limit:
            return
        room = limit - len(messages)
        found, is_all = await messages_of(fetched, self._opener, self._damage, room)
        if partition not in member.assigned:
            return  # it went to somebody else meanwhile
        messages += found
        member.positions[partition] = fetched.next_offset if is_all else found[-1].record.offset + 1

    async def _position(self, member: Member, partition_id: TopicPartition) -> int:
        """Where to read on: where this member was, where its group was, or at an end."""
        position = member.positions.get(partition_id)
        if position is not None:
            return position
        coordinator = self._groups.coordinator(member.group_id)
        committed = coordinator.fetch_offsets(
            member.group_id, [partition_id], member_id=member.member_id, epoch=member.epoch
        )[partition_id]
        ends = await self._positions.ends(partition_id)
        if isinstance(committed, CommittedOffset) and committed.offset >= ends.log_start:
            return committed.offset
        return ends.log_start if member.reset_to_earliest else ends.readable_to
