"""The partitions that this node follows, each fetched from its leader in one of three lanes."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from goqueue.cluster.peers import Lane
from goqueue.partitions.replication.fetcher import Fetcher
from goqueue.partitions.replication.followed import Followed
from goqueue.storage.config import Fsync

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from goqueue.cluster.hello import NodeIdentity
    from goqueue.cluster.peers import Peers
    from goqueue.cluster.records import PartitionKey
    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
    from goqueue.partitions.replication.traffic import ReplicationTraffic
    from goqueue.runtime.clock import Clock

logger = logging.getLogger(__name__)


class FollowedPartitions:
    """All of them, and the connections by which they are fetched."""

    def __init__(
        self,
        peers: Peers,
        identity: NodeIdentity,
        clock: Clock,
        *,
        catch_up_bytes_per_s: int = 0,
        failure_wait_s: float = 1.0,
        traffic: ReplicationTraffic,
    ) -> None:
        """Fetch as this node; catching up takes at most so many bytes a second, 0 as they come."""
        self._peers = peers
        self._identity = identity
        self.now_s = clock.monotonic_s
        self._catch_up_bytes_per_s = catch_up_bytes_per_s
        self.failure_wait_s = failure_wait_s
        self._traffic = traffic
        self.by_key: dict[PartitionKey, Followed] = {}
        self.fetchers: dict[tuple[int, Lane], Fetcher] = {}
        """At most one for each node and lane."""
        self.has_room = True
        """False while the disk is so full that nothing is copied to it."""
        self.cut_below_hw_count = 0
        """Cuts that took something committed away: legal only after a loss."""
        self._closing: set[asyncio.Task[None]] = set()

    def follow(
        self, key: PartitionKey, partition: ReplicatedPartition, leader: int, epoch: int
    ) -> None:
        """Fetch a partition from its leader; it is fetched from nobody at the moment."""
        followed = Followed(key, partition, leader, epoch, self)
        self.by_key[key] = followed
        self._enter(followed, _home(followed))

    async def end(self, key: PartitionKey) -> None:
        """Fetch it no more; nothing changes its log when this returns."""
        followed = self.by_key.pop(key, None)
        if followed is not None:
            self._leave(followed)
            await followed.end()

    def choose_lane(self, followed: Followed, *, lacks_much: bool) -> None:
        """Fetch a replica where it belongs now."""
        lane = Lane.CATCH_UP if lacks_much else _home(followed)
        if followed.fetcher is not None and followed.fetcher.lane is not lane:
            self._leave(followed)
            self._enter(followed, lane)

    def _enter(self, followed: Followed, lane: Lane) -> None:
        place = followed.state.leader, lane
        fetcher = self.fetchers.get(place)
        if fetcher is None:
            limit = self._catch_up_bytes_per_s if lane is Lane.CATCH_UP else 0
            fetcher = Fetcher(
                *place, self._peers, self._identity, bytes_per_s=limit, traffic=self._traffic
            )
            self.fetchers[place] = fetcher
        followed.fetcher = fetcher
        followed.forget_told()
        fetcher.add(followed)

    def _leave(self, followed: Followed) -> None:
        fetcher, followed.fetcher = followed.fetcher, None
        if fetcher is None:
            return
        fetcher.remove(followed.key)
        if not fetcher.followed:
            self.fetchers.pop((fetcher.leader, fetcher.lane), None)
            self._close_soon(fetcher.close())

    def _close_soon(self, closing: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def note_cut(self, followed: Followed, to: int, *, is_below_hw: bool) -> None:
        """A log leaves the leader's, and is cut."""
        partition = followed.partition
        told = partial(logger.log, logging.ERROR if is_below_hw else logging.INFO)
        told(
            "%s: cut from %d to %d, where the log of node %d goes on otherwise%s",
            partition.id,
            partition.log_end,
            to,
            followed.state.leader,
            "; that was committed" if is_below_hw else "",
        )
        self.cut_below_hw_count += is_below_hw

    async def close(self) -> None:
        """Fetch nothing any more."""
        for key in list(self.by_key):
            await self.end(key)
        if self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)


def _home(followed: Followed) -> Lane:
    return Lane.SYNCED if followed.partition.fsync is Fsync.ALWAYS else Lane.LIVE
