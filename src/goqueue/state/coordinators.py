"""Opens and closes the shards of coordinators with the leadership of their partitions.

Every coordinator is a family of shards, one for each partition of an internal topic. A shard may
need partitions of another topic too: the two together are a unit, and it is open only while this
node leads all of it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import mmh3

from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.state.shard import StateShard
    from goqueue.topics.catalogue import Topics

_log = logging.getLogger(__name__)

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
        self.topics: Topics | None = None
        """The catalogue, once this node opens shards: it knows how many partitions there are."""
        self._partition_count = partition_count
        self.make = make
        self.beside = beside
        self.beside_count = beside_count
        self.shards: dict[int, _S] = {}
        """By the number of their partition: those that were ever opened."""

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has; before it is made, how many it will have."""
        if self.topics is not None:
            made = self.topics.catalogue.by_name.get(self.topic)
            if made is not None:
                return made.partition_count
        return self._partition_count

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
        self._following: dict[tuple[str, int], asyncio.Task[None]] = {}
        """Of a cluster: what is under way for the shard of each unit."""
        self.families: dict[str, Family[Any]] = {}
        """Those that were started, by the topic that their state is in."""

    async def start(self, family: Family[_S]) -> None:
        """Open what is led here, some at a time; from now on with every change of leadership."""
        family.topics = self._topics
        self.families[family.topic] = family
        if self._partitions.facts is not None:
            await self._watch(family)
            return
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

    # --- In a cluster ----------------------------------------------------------------------------

    async def _watch(self, family: Family[_S]) -> None:
        """Open and close shards as leaders change, without holding up whoever changes them.

        A shard is loaded once everything in its log is committed, which takes other nodes.
        """

        async def on_leading(partition: Partition, _epoch: int) -> None:
            self._follow_soon(family, family.unit_of(partition.id))

        async def on_left(partition: Partition) -> None:
            self._follow_soon(family, family.unit_of(partition.id))

        for topic in filter(None, (family.topic, family.beside)):
            await self._partitions.watch(topic, on_leading, on_left)

    def _follow_soon(self, family: Family[_S], unit: int) -> None:
        """Let a shard follow the leadership of its unit, after what is under way for it."""
        key = family.topic, unit
        before = self._following.get(key)
        task = asyncio.get_running_loop().create_task(self._follow(family, unit, before))
        self._following[key] = task
        task.add_done_callback(partial(self._followed, key))

    def _followed(self, key: tuple[str, int], task: asyncio.Task[None]) -> None:
        if self._following.get(key) is task:
            del self._following[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s-%d: its state was not loaded", *key, exc_info=error)

    async def _follow(
        self, family: Family[_S], unit: int, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None:
            await asyncio.wait((before,))
        epoch = self._led_epoch(family, unit)
        shard = family.shards.get(unit)
        if epoch is None:
            if shard is not None:
                await shard.close()
            return
        if shard is not None and shard.state.log.partition is not self._first(family, unit):
            await shard.close()  # the replica was removed meanwhile, and given to this node anew
            shard = None
        if shard is None:
            shard = family.shards[unit] = family.make(unit)
        if not shard.state.is_open or shard.state.epoch != epoch:
            await shard.state.begin(epoch)

    def _first(self, family: Family[_S], unit: int) -> Partition | None:
        return self._partitions.find(next(family.partitions_of(unit)))

    def _led_epoch(self, family: Family[_S], unit: int) -> int | None:
        """The epoch in which this node leads a unit; None while it does not lead all of it."""
        led = [self._partitions.find(each) for each in family.partitions_of(unit)]
        if led[0] is None or not all(each is not None and each.is_leading for each in led):
            return None
        return led[0].leader_epoch

    # --- On one node -----------------------------------------------------------------------------

    async def _open(self, family: Family[_S], partition: Partition) -> None:
        unit = family.unit_of(partition.id)
        epoch = self._led_epoch(family, unit)
        if epoch is None:
            return  # the rest of the unit comes later
        shard = family.shards.get(unit)
        if shard is None:
            shard = family.shards[unit] = family.make(unit)
        if not shard.state.is_open or shard.state.epoch != epoch:
            await shard.state.open(epoch)
