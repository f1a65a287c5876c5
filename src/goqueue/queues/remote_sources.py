"""Follows partitions that other nodes lead, by one long poll a node (WatchSources)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError
from goqueue.reading.remote_source import RemoteSource
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.reading.remote_fetch import RemoteFetch
    from goqueue.topics.routes import Routes

_log = logging.getLogger(__name__)

WAIT_MS: Final = 500
"""How long a leader lets an answer wait for news; a source that is new is told of at once."""
_RETRY_S: Final = 0.1
_IDLE_ROUNDS: Final = 600
"""A source that nobody has asked for in so many answers is followed no more."""


class RemoteSources:
    """The sources on other nodes that somebody reads."""

    def __init__(self, fetch: RemoteFetch, routes: Routes) -> None:
        self._fetch = fetch
        self._routes = routes
        self._sources: dict[TopicIdPartition, RemoteSource] = {}
        self._unused: dict[TopicIdPartition, int] = {}
        """Answers since somebody has asked for a source."""
        self._unled: set[TopicIdPartition] = set()
        """Sources whose leader is looked for again soon."""
        self._watching: dict[int, asyncio.Task[None]] = {}
        self._asking: dict[int, tuple[asyncio.Task[None], set[RemoteSource]]] = {}
        """The question to each node, and what it asks for."""

    def of(self, partition_id: TopicPartition, key: TopicIdPartition) -> RemoteSource:
        """The source of a partition, followed from now on."""
        source = self._sources.get(key)
        self._unused[key] = 0
        if source is None:
            source = self._sources[key] = RemoteSource(partition_id, key, self._fetch, self._routes)
        if not source.is_live:
            self._watch(source)
        return source

    def stop(self) -> None:
        """Follow nothing more."""
        self._sources.clear()
        for task in self._watching.values():
            task.cancel()

    def _leader(self, source: RemoteSource) -> int | None:
        try:
            return self._routes.leader_of(source.id)
        except GoQueueError:
            return None

    def _watch(self, source: RemoteSource) -> None:
        """Ask the leader of a source, and end a question to it that leaves the source out."""
        node_id = self._leader(source)
        if node_id is None:
            self._watch_soon(source)
            return
        if node_id == self._routes.node_id:
            return  # it is read here
        if node_id not in self._watching:
            task = asyncio.get_running_loop().create_task(self._follow(node_id))
            self._watching[node_id] = task
        elif node_id in self._asking:
            asking, asked = self._asking[node_id]
            if source not in asked:
                asking.cancel()

    def _watch_soon(self, source: RemoteSource) -> None:
        """Look again for the leader of a source: somebody may wait for its messages."""
        if source.key not in self._unled:
            self._unled.add(source.key)
            asyncio.get_running_loop().call_later(_RETRY_S, self._watch_again, source)

    def _watch_again(self, source: RemoteSource) -> None:
        self._unled.discard(source.key)
        if self._sources.get(source.key) is not source or source.is_live:
            return
        self._unused[source.key] += 1
        if self._unused[source.key] > _IDLE_ROUNDS:
            del self._sources[source.key], self._unused[source.key]
        else:
            self._watch(source)

    async def _follow(self, node_id: int) -> None:
        """Ask a node for news of everything that it leads, until it leads nothing that is read."""
        mine: set[RemoteSource] = set()
        try:
            while True:
                before, mine = mine, self._led_by(node_id)
                for source in before - mine:  # somebody else leads it, or nobody reads it
                    source.is_live = False
                    self._watch_soon(source)
                if not mine:
                    return
                await self._hear(node_id, mine)
        finally:
            del self._watching[node_id]
            for source in mine:
                source.is_live = False

    async def _hear(self, node_id: int, mine: set[RemoteSource]) -> None:
        """Ask a node once; when it does not tell of all, return only after a moment."""
        asking = asyncio.create_task(self._ask(node_id, mine))
        self._asking[node_id] = asking, mine
        try:
            await asking
        except asyncio.CancelledError:
            if asyncio.current_task() is None or asyncio.current_task().cancelling():  # type: ignore[union-attr] # in a task
                raise
            return  # there is another source to ask for
        except GoQueueError as error:
            _log.debug("node %d does not tell of its partitions: %s", node_id, error)
            for source in mine:
                source.is_live = False
        finally:
            del self._asking[node_id]
        if not all(source.is_live for source in mine):  # it may not know yet that it leads them
            await asyncio.sleep(_RETRY_S)

    def _led_by(self, node_id: int) -> set[RemoteSource]:
        found: set[RemoteSource] = set()
        for key, source in list(self._sources.items()):
            if self._unused[key] > _IDLE_ROUNDS:
                del self._sources[key], self._unused[key]
            elif self._leader(source) == node_id:
                self._unused[key] += 1
                found.add(source)
        return found

    async def _ask(self, node_id: int, sources: set[RemoteSource]) -> None:
        answer = await self._routes.peers.ask(
            node_id,
            ApiKey.WATCH_SOURCES,
            0,
            wait_s=WAIT_MS / 1000,
            max_wait_ms=WAIT_MS,
            partitions=[
                {
                    "topic_id": source.key[0],
                    "partition_index": source.key[1],
                    "leader_epoch": source.leader_epoch,
                    "high_watermark": source.high_watermark,
                    "last_stable": source.last_stable,
                    "log_start": source.log_start,
                    "marker_known": source.marker_known,
                }
                for source in sources
            ],
        )
        by_key = {source.key: source for source in sources}
        for told in answer.partitions:
            source = by_key.pop((told.topic_id, told.partition_index), None)
            if source is None:
                continue
            if told.error_code == ErrorCode.none:
                source.follow(told)
            else:
                source.is_live = False
                self._watch_soon(source)
        for source in by_key.values():  # nothing is new
            if source.leader_epoch >= 0:
                source.heard()
            else:
                source.is_live = False
