"""Reading partitions wherever they are led, for protocols whose clients do not look for leaders.

One partition is read from its leader: whoever has published by way of any node finds it there.
While it has no leader, a replica here serves what it knows to be committed. Several, as members of
groups hold, are read from replicas here that are in sync, and only the others from their leaders: a
member that waits costs no other node anything.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from goqueue.model.errors import GoQueueError, LeaderUnavailableError, PeerUnavailableError
from goqueue.partitions.elsewhere.leaders import MOVING
from goqueue.reading.fetch import Fetched, FetchRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.elsewhere.leaders import Leaders
    from goqueue.partitions.partition import Partition
    from goqueue.reading.fetch import Fetcher, PartitionRead
    from goqueue.reading.remote_fetch import RemoteFetch


class AnyFetcher:
    """`Fetcher` for all partitions of a cluster."""

    def __init__(self, leaders: Leaders, fetcher: Fetcher, remote: RemoteFetch) -> None:
        self._leaders = leaders
        self._node_id = leaders.routes.node_id
        self._fetcher = fetcher
        self._remote = remote

    def handed_out(self, counts: Mapping[str, int]) -> None:
        """So many messages of each topic went to a reader that takes them one by one."""
        self._fetcher.handed_out(counts)

    async def fetch(self, request: FetchRequest) -> list[Fetched]:
        """As `Fetcher.fetch`, of partitions that any node leads."""
        if len(request.reads) == 1:
            return [await self._fetch_one(request, request.reads[0])]
        parts = self._parts(request.reads)
        if set(parts) <= {self._node_id}:
            return await self._fetcher.fetch(replace(request, any_replica=True))
        found = await self._fetch_parts(replace(request, max_wait_ms=0), parts)
        if request.max_wait_ms and not any(each.data or each.error for each in found.values()):
            found = await self._fetch_parts(request, parts)
        return [found[each.partition] for each in request.reads]

    # --- One partition ---------------------------------------------------------------------------

    async def _fetch_one(self, request: FetchRequest, read: PartitionRead) -> Fetched:
        async def here(_: Partition) -> Fetched:
            (found,) = await self._fetcher.fetch(request)
            return _unless_moving(found)

        async def there(node_id: int) -> Fetched:
            (found,) = await self._fetch_there(node_id, request, request.reads)
            return _unless_moving(found)

        try:
            return await self._leaders.ask(read.partition, here, there)
        except (LeaderUnavailableError, PeerUnavailableError) as error:
            if self._leaders.replica(read.partition) is None:
                return Fetched(read, error=error)
            (found,) = await self._fetcher.fetch(replace(request, any_replica=True))
            return found
        except GoQueueError as error:
            return Fetched(read, error=error)

    # --- Several partitions ----------------------------------------------------------------------

    def _parts(self, reads: Sequence[PartitionRead]) -> dict[int, list[PartitionRead]]:
        """The partitions by the node that they are read from; those without a leader from here."""
        parts: dict[int, list[PartitionRead]] = {}
        for read in reads:
            node_id = self._node_id
            if self._leaders.replica(read.partition) is None:
                with suppress(GoQueueError):  # which is said in the result
                    node_id = self._leaders.routes.leader_of(read.partition)
            parts.setdefault(node_id, []).append(read)
        return parts

    async def _fetch_parts(
        self, request: FetchRequest, parts: Mapping[int, list[PartitionRead]]
    ) -> dict[TopicPartition, Fetched]:
        """Read from several nodes, until the first of them has something, or the time is over."""
        tasks = [
            asyncio.ensure_future(self._fetch_part(request, node_id, reads))
            for node_id, reads in parts.items()
        ]
        try:
            waiting = set(tasks)
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if request.max_wait_ms and any(
                    each.data for task in done for each in task.result()
                ):
                    break
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        found = {
            read.partition: Fetched(read, next_offset=read.offset)
            for reads in parts.values()
            for read in reads
        }
        for task in tasks:
            if not task.cancelled() and task.exception() is None:
                found.update((each.read.partition, each) for each in task.result())
        return found

    async def _fetch_part(
        self, request: FetchRequest, node_id: int, reads: list[PartitionRead]
    ) -> list[Fetched]:
        if node_id == self._node_id:
            return await self._fetcher.fetch(replace(request, reads=reads, any_replica=True))
        try:
            return await self._fetch_there(node_id, request, reads)
        except GoQueueError as error:
            return [Fetched(each, error=error) for each in reads]

    async def _fetch_there(
        self, node_id: int, request: FetchRequest, reads: Sequence[PartitionRead]
    ) -> list[Fetched]:
        fetched = await self._remote.fetch(node_id, request, reads)
        self._fetcher.relayed(request, fetched)
        return fetched


def _unless_moving(found: Fetched) -> Fetched:
    """What was found, unless it is that the partition is led elsewhere."""
    if isinstance(found.error, MOVING):
        raise found.error
    return found
