"""What followers get: the batches behind where they are, as soon as there are some.

A follower keeps a session for each connection. The session knows where each of its replicas is, so
a request names only those that have moved, and an append marks its partition in the sessions that
watch it. The cost of a request follows the partitions that changed, however many there are.

A request that finds nothing is parked. It is answered in the turn of the next append, when a high
watermark has moved and no batch of its partition came along for a few milliseconds, or when its
time is over; and at once when the follower sends another one, which says where more of its replicas
are.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.cluster.records import PartitionKey
from goqueue.model.errors import ClusterError, DamagedRangeError, GoQueueError
from goqueue.partitions.replication.tail import TailRegion
from goqueue.partitions.replication.watched import PARTITION_BYTES, Watched
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.fetch import FetchedPartition, FetchedTopic
from goqueue.wire.kafka.replica_fetch import encode_response
from goqueue.wire.kafka.replies import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor
    from uuid import UUID

    from goqueue.partitions.replication.led import LedPartition
    from goqueue.partitions.replication.traffic import ReplicationTraffic
    from goqueue.runtime.clock import Clock
    from goqueue.storage.region import Chunk
    from goqueue.wire.kafka.fetch import FetchPartition, ForgottenTopic
    from goqueue.wire.kafka.frames import Encoded
    from goqueue.wire.kafka.primitives import Buffer
    from goqueue.wire.kafka.replica_fetch import ReplicaFetch

ANSWER_BYTES: Final = 2 * 1024 * 1024
"""Of all partitions in one answer; the others come with the next. What is received stays in the
caches of the processor until it is checked and written: with 8 MB a megabyte cost a sixth more."""
TELL_S: Final = 0.01
"""How long a new high watermark waits for batches of its partition, and then once more for those of
any other: a round trip of its own costs as much as one with a batch, an answer about two partitions
more than one about one, and nobody waits for a watermark at a follower."""
_EARLY_S: Final = 0.002
"""Timers of uvloop count whole milliseconds and come up to one too early."""


class SessionLostError(ClusterError):
    """A request does not continue the session of its connection: the follower begins another."""


class FeedHost(Protocol):
    """What all sessions of a node share."""

    clock: Clock
    executor: Executor
    """Reads what is not in memory."""
    traffic: ReplicationTraffic

    def find(self, key: PartitionKey) -> LedPartition | ErrorCode:
        """A partition that this node leads, or why there is nothing to be had of it."""


class FeedSession:
    """Fetches of one node on one connection; answers come in the order of the requests."""

    def __init__(self, feed: FeedHost, node_id: int, incarnation: int) -> None:
        self._feed = feed
        self.node_id = node_id
        self.incarnation = incarnation
        self.heard_s = feed.clock.monotonic_s()
        """When it last asked for something."""
        self._loop = asyncio.get_running_loop()
        self._watched: dict[PartitionKey, Watched] = {}
        """As many as this node leads at most."""
        self._due: dict[Watched, None] = {}
        """Those that have batches for the follower, the longest waiting first."""
        self._news: dict[Watched, None] = {}
        """Those whose watermark is to be told."""
        self._errors: dict[PartitionKey, FetchedPartition] = {}
        self._parked: Reply[Encoded] | None = None
        self._parked_until_s = 0.0
        self._max_bytes = ANSWER_BYTES
        self._timer: asyncio.TimerHandle | None = None
        """Ends the wait of a parked request; it is left running for the next one."""
        self._teller: asyncio.TimerHandle | None = None
        self._is_news_due = False
        """Watermarks have waited for long enough: they go with the next answer."""
        self._is_woken = False
        self._epoch = 0
        self.read_count = 0
        """How often a partition was looked at for batches; tests count it."""

    # --- A request -------------------------------------------------------------------------------

    def fetch(self, request: ReplicaFetch) -> Encoded | Reply[Encoded]:
        """Take in where replicas are; returns what there is for them, now or when there is some.

        Raises:
            SessionLostError: it is not the next request of this session.
        """
        if self._parked is not None:
            self._answer()
        if request.session_epoch == 0:
            self.close()
        elif request.session_epoch != self._epoch:
            raise SessionLostError(
                f"request {request.session_epoch} of a session comes where {self._epoch} was "
                "expected: begin another"
            )
        self._epoch = request.session_epoch + 1
        self.heard_s = self._feed.clock.monotonic_s()
        for key in _keys(request.forgotten):
            self._forget(key)
        for topic in request.topics:
            if topic.topic_id is not None:
                for each in topic.partitions:
                    self._note(PartitionKey(topic.topic_id, each.partition), each)
        self._max_bytes = min(request.max_bytes, ANSWER_BYTES)
        topics = self._collect()
        if topics or request.max_wait_ms <= 0:
            return self._encoded(topics)
        return self._park(request.max_wait_ms / 1000)

    def _note(self, key: PartitionKey, asked: FetchPartition) -> None:
        """A replica is at an offset: that acknowledges everything below, unless it diverges."""
        watched = self._watched.get(key)
        if watched is None:
            led = self._feed.find(key)
            if isinstance(led, ErrorCode):
                self._refuse(key, led)
                return
            watched = Watched(self, key, led)
        led = watched.led
        refusal = led.refusal(self.node_id, self.incarnation, asked)
        if refusal is not None:
            self._forget(key)
            self._errors[key] = refusal
            return
        if key not in self._watched:
            self._watched[key] = led.watchers[self, key] = watched
        if self._errors:
            self._errors.pop(key, None)
        watched.offset, watched.loaded = asked.fetch_offset, None
        watched.max_bytes = min(asked.max_bytes, PARTITION_BYTES)
        led.fetched(self.node_id, self.incarnation, asked, self.heard_s)
        if asked.fetch_offset < led.partition.log_end:
            self._due[watched] = None
        else:
            self._due.pop(watched, None)
        if watched.has_news:
            self._news[watched] = None

    def _refuse(self, key: PartitionKey, code: ErrorCode) -> None:
        self._errors[key] = FetchedPartition(key.partition, code)

    def _forget(self, key: PartitionKey) -> None:
        watched = self._watched.pop(key, None)
        if watched is not None:
            watched.led.watchers.pop((self, key), None)
            watched.offset = None
            self._due.pop(watched, None)
            self._news.pop(watched, None)
        self._errors.pop(key, None)

    # --- Its answer ------------------------------------------------------------------------------

    def _collect(self) -> list[FetchedTopic]:
        """Everything that is to be told now; a new watermark alone waits a little longer."""
        if not self._due and not self._errors:
            return []
        if len(self._due) == 1 and not self._errors and not self._is_news_due:
            watched = self._due.popitem()[0]
            told = self._read(watched)
            return [] if told is None else [FetchedTopic(None, watched.key.topic_id, [told])]
        by_topic: dict[UUID, list[FetchedPartition]] = {}
        room = self._max_bytes
        for watched in list(self._due):
            if room <= 0:
                break
            del self._due[watched]
            told = self._read(watched)
            if told is not None:
                room -= sum(map(len, told.records))
                by_topic.setdefault(watched.key.topic_id, []).append(told)
        for key, error in self._errors.items():
            by_topic.setdefault(key.topic_id, []).append(error)
        self._errors.clear()
        if self._is_news_due and by_topic:
            self._add_news(by_topic)
        return [FetchedTopic(None, topic_id, told) for topic_id, told in by_topic.items()]

    def _add_news(self, by_topic: dict[UUID, list[FetchedPartition]]) -> None:
        for watched in self._news:
            if watched.has_news:
                by_topic.setdefault(watched.key.topic_id, []).append(watched.told())
        self._news.clear()
        self._is_news_due = False

    def _read(self, watched: Watched) -> FetchedPartition | None:
        """The batches that a replica lacks; None when there are none, or not in memory yet."""
        self.read_count += 1
        offset, partition = watched.offset, watched.led.partition
        if offset is None:
            return None
        chunk, watched.loaded = watched.loaded, None
        if chunk is None:
            try:
                region = partition.read_replica(offset, watched.max_bytes)
                if region is None:
                    return None
                if isinstance(region, TailRegion):
                    return self._sent(watched, region.parts)
                chunk = region.load_cached()
                if chunk is None:
                    self._load(watched, region.load)
                    return None
            except GoQueueError as error:
                _report(watched, error)
                chunk = ErrorCode.kafka_storage_error
        if isinstance(chunk, ErrorCode):
            self._forget(watched.key)
            return FetchedPartition(watched.key.partition, chunk)
        return self._sent(watched, (chunk.data,))

    def _sent(self, watched: Watched, records: Sequence[Buffer]) -> FetchedPartition:
        watched.offset = None
        self._news.pop(watched, None)
        return watched.told(records)

    def _load(self, watched: Watched, load: Callable[[], Chunk]) -> None:
        """Read in a thread what is not in memory; meanwhile the other partitions go on."""
        offset, watched.offset = watched.offset, None
        loading = self._loop.run_in_executor(self._feed.executor, load)
        loading.add_done_callback(partial(self._loaded, watched, offset))

    def _loaded(self, watched: Watched, offset: int | None, loading: asyncio.Future[Chunk]) -> None:
        error = None if loading.cancelled() else loading.exception()
        if self._watched.get(watched.key) is not watched or watched.offset is not None:
            return  # it was given up, or is elsewhere by now
        watched.offset = offset
        _report(watched, error)
        failed = loading.cancelled() or error is not None
        watched.loaded = ErrorCode.kafka_storage_error if failed else loading.result()
        self.mark(watched)

    # --- Waiting ---------------------------------------------------------------------------------

    def _park(self, wait_s: float) -> Reply[Encoded]:
        parked: Reply[Encoded] = Reply()
        self._parked = parked
        self._parked_until_s = self._loop.time() + wait_s
        if self._timer is None:
            self._timer = self._loop.call_at(self._parked_until_s, self._time_is_over)
        if self._news:
            self._tell_soon()
        return parked

    def _time_is_over(self) -> None:
        self._timer = None
        if self._loop.time() >= self._parked_until_s - _EARLY_S:
            self._answer()
        elif self._parked is not None:
            self._timer = self._loop.call_at(self._parked_until_s, self._time_is_over)

    def mark(self, watched: Watched) -> None:
        """There are batches for a replica."""
        self._due[watched] = None
        self._wake()

    def mark_told(self, watched: Watched) -> None:
        """There is a new watermark for it."""
        self._news[watched] = None
        if self._parked is not None:
            self._tell_soon()

    def drop(self, watched: Watched, code: ErrorCode) -> None:
        """There will be nothing more of a partition."""
        self._forget(watched.key)
        self._refuse(watched.key, code)
        self._wake()

    def _wake(self) -> None:
        """Answer at the end of this turn: what is appended until then comes along."""
        if self._parked is not None and not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._woken)

    def _woken(self) -> None:
        self._is_woken = False
        if self._parked is not None:
            topics = self._collect()
            if topics:
                self._answer(topics)

    def _tell_soon(self) -> None:
        if self._teller is None:
            self._teller = self._loop.call_later(TELL_S, self._tell)

    def _tell(self) -> None:
        self._teller = None
        if not self._news:
            return
        if self._is_news_due and self._parked is not None:
            self._answer()
        else:
            self._is_news_due = True
            self._tell_soon()

    def _answer(self, topics: list[FetchedTopic] | None = None) -> None:
        """End the wait of the parked request, with what there is by now."""
        parked, self._parked = self._parked, None
        if parked is None or parked.done():
            return
        if topics is None:
            topics = self._collect()
            if not topics and self._news:
                by_topic: dict[UUID, list[FetchedPartition]] = {}
                self._add_news(by_topic)
                topics = [FetchedTopic(None, each, told) for each, told in by_topic.items()]
        parked.set_result(self._encoded(topics))

    def _encoded(self, topics: list[FetchedTopic]) -> Encoded:
        answer = encode_response(topics)
        self._feed.traffic.sent.add(sum(map(len, answer.parts)))
        return answer

    def close(self) -> None:
        """Forget everything: the connection is gone, or the follower begins anew."""
        for key in list(self._watched):
            self._forget(key)
        self._errors.clear()
        for timer in (self._teller, self._timer):
            if timer is not None:
                timer.cancel()
        self._teller = self._timer = None
        self._is_news_due = False
        self._answer([])


def _keys(topics: Iterable[ForgottenTopic]) -> Iterator[PartitionKey]:
    for topic in topics:
        if topic.topic_id is not None:
            for number in topic.partitions:
                yield PartitionKey(topic.topic_id, number)


def _report(watched: Watched, error: BaseException | None) -> None:
    """Damage that a follower meets is the leader's: another node may have the records."""
    if isinstance(error, DamagedRangeError):
        watched.led.partition.report_damage(error)
