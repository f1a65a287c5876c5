"""Opens and closes the shards of coordinators with the leadership of their partitions.

Every coordinator is a family of shards, one for each partition of an internal topic. A shard may
need partitions of another topic too: the two together are a unit, and it is open only while this
node leads all of it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import mmh3

from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.state.shard import StateShard
    from goqueue.topics.catalogue import Topics

_AT_A_TIME: Final = 8
"""Shards that are loaded side by side at a start."""


class Shard(Protocol):
    """What a family keeps in one partition."""

    @property
    def state(self) -> StateShard:
        """Its state."""

    async def close(self) -> None:
        """Let go whoever waits; a snapshot is kept where this node still leads."""


_S = TypeVar("_S", bound=Shard)


class Family(Generic[_S]):
    """The shards of one coordinator."""

    def __init__(
        self,
        topic: str,
        partition_count: int,
        make: Callable[[int], _S],
        beside: str | None = None,
        beside_count: int = 0,
    ) -> None:
        """Keep one shard for each partition of `topic`, which is made with so many.

        `make` makes one that is closed, once its partitions are led here; `beside_count` partitions
        of the topic `beside` belong to each.
        """
        self.topic = topic
        self.partition_count = partition_count
        self.make = make
        self.beside = beside
        self.beside_count = beside_count
        self.shards: dict[int, _S] = {}
        """By the number of their partition: those that were ever opened."""

    def number_of(self, key: str) -> int:
        """The partition that a key belongs to."""
        number: int = mmh3.hash(key, signed=False)
        return number % self.partition_count

    def find(self, key: str) -> _S | None:
        """The shard that a key belongs to, if this node has ever led it."""
        return self.shards.get(self.number_of(key))

    def opened(self) -> list[_S]:
        """The shards whose partitions this node leads."""
        return [shard for shard in self.shards.values() if shard.state.is_open]

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshots of all shards."""
        return sum(shard.state.log.snapshot_bytes for shard in self.shards.values())

    def unit_of(self, partition_id: TopicPartition) -> int:
        """The number of the unit that a partition belongs to."""
        number = partition_id.partition
        return number if partition_id.topic == self.topic else number // self.beside_count

    def partitions_of(self, unit: int) -> Iterator[TopicPartition]:
        """The partitions of a unit."""
        yield TopicPartition(self.topic, unit)
        if self.beside is not None:
            for number in range(unit * self.beside_count, (unit + 1) * self.beside_count):
                yield TopicPartition(self.beside, number)


class Coordinators:
    """Follows who leads the partitions of internal topics."""

    def __init__(self, partitions: Partitions, topics: Topics) -> None:
        self._partitions = partitions
        self._topics = topics

    async def start(self, family: Family[_S]) -> None:
        """Open what is led here, some at a time; from now on with every change of leadership."""
        known = self._topics.catalogue.by_name.get(family.topic)
        if known is not None:
            family.partition_count = known.partition_count
        led: list[Partition] = []
        is_starting = True

        async def on_leading(partition: Partition, _epoch: int) -> None:
            if is_starting:
                led.append(partition)
            else:
                await self._open(family, partition)

        async def on_left(partition: Partition) -> None:
            shard = family.shards.get(family.unit_of(partition.id))
            if shard is not None:
                await shard.close()

        for topic in filter(None, (family.topic, family.beside)):
            await self._partitions.watch(topic, on_leading, on_left)
        is_starting = False
        waiting = iter(led)

        async def open_some() -> None:
            for partition in waiting:
                await self._open(family, partition)

        await asyncio.gather(*(open_some() for _ in range(_AT_A_TIME)))

    async def _open(self, family: Family[_S], partition: Partition) -> None:
        unit = family.unit_of(partition.id)
        led = [self._partitions.find(each) for each in family.partitions_of(unit)]
        if led[0] is None or not all(each is not None and each.is_leading for each in led):
            return  # the rest of the unit comes later
        shard = family.shards.get(unit)
        if shard is None:
            shard = family.shards[unit] = family.make(unit)
        epoch = led[0].leader_epoch
        if not shard.state.is_open or shard.state.epoch != epoch:
            await shard.state.open(epoch)
