"""The shards of groups: which partition holds a group, who coordinates it, what can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from goqueue.groups.shard import GroupShard, not_coordinator
from goqueue.model import internal_topics
from goqueue.model.errors import CoordinatorUnavailableError, GroupNotFoundError
from goqueue.state.certainty import settled
from goqueue.state.coordinators import Family

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.groups.coordinator import GroupCoordinator
    from goqueue.topics.catalogue import Topics

T = TypeVar("T")

OFFSETS_TOPIC: Final = internal_topics.CONSUMER_OFFSETS


class GroupShards:
    """One shard for each partition of the offsets topic that this node leads."""

    def __init__(
        self,
        topics: Topics,
        partition_count: int,
        new_shard: Callable[[int], GroupShard],
        facts: ClusterFacts | None,
    ) -> None:
        """`facts` tell who leads what, in a cluster."""
        self._topics = topics
        self._facts = facts
        self._family = Family(OFFSETS_TOPIC, partition_count, new_shard)
        self._beside: list[Family[Any]] = []

    @property
    def shard_count(self) -> int:
        """How many partitions the offsets topic has, or will have."""
        return self._family.partition_count

    def shard_number(self, group_id: str) -> int:
        """Which partition of the offsets topic holds the group."""
        return self._family.number_of(group_id)

    def _shard_of(self, group_id: str) -> GroupShard:
        return self._shard(self.shard_number(group_id))

    def _shard(self, number: int) -> GroupShard:
        shard = self._family.shards.get(number)
        if shard is None:
            if self._facts is not None:
                raise not_coordinator()
            raise CoordinatorUnavailableError("this node does not coordinate the group; try again")
        return shard

    def coordinator_of(self, group_id: str) -> int:
        """The node that coordinates a group: the leader of the partition that holds it.

        Raises:
            CoordinatorUnavailableError: there is none at the moment.
        """
        assert self._facts is not None  # one node coordinates everything
        topic = self._topics.catalogue.by_name.get(OFFSETS_TOPIC)
        if topic is None:
            raise CoordinatorUnavailableError(
                f"{OFFSETS_TOPIC} is not created yet: it is when enough nodes are active; try again"
            )
        leader = self._facts.partition(topic.topic_id, self.shard_number(group_id)).leader
        if leader is None:
            raise CoordinatorUnavailableError(
                f"{OFFSETS_TOPIC}-{self.shard_number(group_id)} has no leader at the moment; try "
                "again"
            )
        return leader

    def epoch_of(self, group_id: str) -> int:
        """The epoch in which this node coordinates a group. Raises like `coordinator`."""
        shard = self._shard_of(group_id)
        shard.read()
        return shard.state.epoch

    @property
    def in_cluster(self) -> bool:
        """Whether other nodes may coordinate groups."""
        return self._facts is not None

    def coordinator(self, group_id: str) -> GroupCoordinator:
        """The coordinator of a group, for reading.

        Raises:
            CoordinatorUnavailableError: its state is being built.
        """
        return self._shard_of(group_id).read()

    def coordinators(self) -> Iterator[GroupCoordinator]:
        """Every coordinator that has groups, for reading."""
        return (shard.coordinator for shard in self._family.opened() if shard.is_readable)

    def staged(self) -> Iterator[tuple[int, int, Hashable]]:
        """What open transactions have staged here: shard, producer, and something of the offsets.

        That changes with what is staged.
        """
        for number, shard in self._family.shards.items():
            if shard.is_readable:
                for producer_id, content in shard.coordinator.staged():
                    yield number, producer_id, content

    def newest_coordinator(self, number: int, producer_id: int) -> int:
        """The epoch of the last coordinator that has ended a producer's transaction in a shard."""
        return self._shard(number).read().fences.newest(producer_id)

    @property
    def is_loading(self) -> bool:
        """Whether the state of some groups of this node is being built."""
        return self._facts is not None and any(
            not shard.is_readable for shard in self._family.opened()
        )

    def settle_with(self, family: Family[Any]) -> None:
        """Tell of groups only what is committed in this family too.

        It keeps each group in the shard of the same number.
        """
        self._beside.append(family)

    async def settled(self, group_ids: Iterable[str]) -> bool:
        """Return when what was just read of groups is committed, and whether it is.

        If it is not, what was read has not happened: read again.
        """
        if self._facts is None:
            return True
        return await self._settled(set(map(self.shard_number, group_ids)))

    async def all_settled(self) -> bool:
        """The same for what was read of all groups."""
        return self._facts is None or await self._settled(self._family.shards.keys())

    async def told(self, read: Callable[[], T], *group_ids: str) -> T:
        """What `read` finds in these groups, or in all of this node, once that is committed.

        On one node everything that can be read is. Raises what `read` does.
        """
        while True:
            found: T | GroupNotFoundError
            try:
                found = read()
            except GroupNotFoundError as error:
                found = error
            if await (self.settled(group_ids) if group_ids else self.all_settled()):
                if isinstance(found, GroupNotFoundError):
                    raise found
                return found

    async def _settled(self, numbers: Collection[int]) -> bool:
        families = (self._family, *self._beside)
        shards = [f.shards[each] for f in families for each in numbers if each in f.shards]
        return all([await settled(shard.state) for shard in shards])

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshots of all groups."""
        return self._family.snapshot_bytes
