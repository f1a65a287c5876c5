"""Restoring the state of coordinators on one node: the shards that are led here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from goqueue.backup.state_entries import (
    all_confirmed,
    entries_in,
    in_portions,
    partition_of,
    routed,
)
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from goqueue.backup.copying import CopyProgress
    from goqueue.backup.manifest import PartitionCopy, TopicCopy
    from goqueue.backup.repository import Repository
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.state.coordinators import Family, Shard
    from goqueue.state.log import StateEntry
    from goqueue.state.logs import StateLogs

_STATE_BYTES: Final = 256 * 1024
"""Entries of a coordinator's state in one batch."""


class StateRestore:
    """Gives the shards that are led here what they had; each is loaded anew."""

    def __init__(
        self,
        state_logs: StateLogs,
        partitions: Partitions,
        repository: Repository,
        restore_partition: Callable[[Partition, PartitionCopy, CopyProgress], Awaitable[None]],
    ) -> None:
        """`restore_partition` restores the messages of one partition."""
        self._state_logs = state_logs
        self._partitions = partitions
        self._repository = repository
        self._restore_partition = restore_partition
        self.wanted: set[TopicPartition] = set()
        """The shards that the backup has something for, whichever node leads them."""
        self.done: set[TopicPartition] = set()
        """Those that were restored here."""

    async def run(self, topics: Sequence[TopicCopy], progress: CopyProgress) -> None:
        """Restore the shards that are open here and were not restored yet.

        Raises:
            GoQueueError: a file is damaged, this node leads no more, or the disk refused.
        """
        copies: dict[str | None, TopicCopy] = {each.name: each for each in topics}
        families = self._state_logs.coordinators.families
        for copy in topics:
            family = families.get(copy.name)
            if family is None:
                continue
            beside = _units(
                family, None if family.beside in families else copies.get(family.beside)
            )
            entries = await self._entries(family, copy)
            for number in sorted({*entries, *beside}):
                place = TopicPartition(copy.name, number)
                self.wanted.add(place)
                if place not in self.done and (shard := self._open_shard(family, place)):
                    messages = beside.get(number, {})
                    await self._shard(shard, entries.get(number, []), messages, progress)
                    self.done.add(place)
            await asyncio.to_thread(progress.copied, _state_bytes(copy))

    async def _entries(self, family: Family[Shard], copy: TopicCopy) -> dict[int, list[StateEntry]]:
        """What the backup has for each shard, by number."""
        count, route = family.partition_count, routed(copy.name)
        found: dict[int, list[StateEntry]] = {}
        for each in copy.partitions:
            for entry in await asyncio.to_thread(entries_in, self._repository, copy.name, each):
                if (target := route(entry)) is not None:
                    name, kept = target
                    number = each.number if name is None else partition_of(name, count)
                    found.setdefault(number, []).append(kept)
        return found

    def _open_shard(self, family: Family[Shard], place: TopicPartition) -> Shard | None:
        """The shard, if this node leads it and has opened it."""
        partition = self._partitions.find(place)
        shard = family.shards.get(place.partition)
        is_led = partition is not None and partition.is_leading
        return shard if is_led and shard is not None and shard.state.is_open else None

    async def _shard(
        self,
        shard: Shard,
        entries: list[StateEntry],
        messages: Mapping[TopicPartition, PartitionCopy],
        progress: CopyProgress,
    ) -> None:
        """Restore what a shard has stored, and the messages that it speaks of.

        It is closed meanwhile, and loaded anew in any case: delayed messages of which nothing has
        been said yet are known from their own log alone.
        """
        await shard.state.rebuilt()
        epoch = shard.state.epoch
        await shard.close()
        log = shard.state.log
        try:
            for place, copy in messages.items():
                await self._restore_partition(self._partitions.partition(place), copy, progress)
            confirmed = [all_confirmed(messages.values())] if messages else []
            for some in in_portions([*entries, *confirmed], _STATE_BYTES):
                end = log.append(some)
                if not log.partition.is_committed(end):
                    await log.partition.committed(end)
                await asyncio.sleep(0)
        finally:
            if log.partition.is_leading and log.partition.leader_epoch == epoch:
                await shard.state.begin(epoch)
        await shard.state.rebuilt()


def _units(
    family: Family[Shard], copy: TopicCopy | None
) -> dict[int, dict[TopicPartition, PartitionCopy]]:
    """The partitions with messages that belong to each shard of a family, by its number."""
    found: dict[int, dict[TopicPartition, PartitionCopy]] = {}
    for each in () if copy is None else copy.partitions:
        if each.end_offset and copy is not None:
            place = TopicPartition(copy.name, each.number)
            found.setdefault(family.unit_of(place), {})[place] = each
    return found


def _state_bytes(copy: TopicCopy) -> int:
    return sum(part.log_bytes for each in copy.partitions for part in each.parts)
