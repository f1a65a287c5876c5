"""What followers get: the batches behind where they are, as soon as there are some.

A follower keeps a session for each connection. The session knows where each of its replicas is, so
a request names only those that have moved, and an append marks its partition in the sessions that
watch it. The cost of a request follows the partitions that changed, however many there are.

A request that finds nothing is parked. It is answered in the turn of the next append, when the
high watermark has moved and nothing came along for a few milliseconds, or when its time is over;
and at once when the follower sends another one, which says where more of its replicas are.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from goqueue.cluster.records import PartitionKey
from goqueue.model.errors import DamagedRangeError, GoQueueError
from goqueue.partitions.replication.tail import TailRegion
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.fetch import FetchedPartition, FetchedTopic
from goqueue.wire.kafka.replica_fetch import encode_response

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

PARTITION_BYTES: Final = 1024 * 1024
"""Of one partition in one answer, unless a single batch is larger."""
ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Of all partitions in one answer; the others come with the next."""
TELL_S: Final = 0.02
"""How long a new high watermark waits for batches to travel with: a round trip of its own costs as
much as one with a batch, and nobody waits for it at a follower."""

FetchedTopics: TypeAlias = "list[FetchedTopic]"


class SessionLostError(GoQueueError):
    """A request does not continue the session of its connection: the follower begins another."""


class FeedHost(Protocol):
    """What all sessions of a node share."""

    clock: Clock
    executor: Executor
    """Reads what is not in memory."""
    traffic: ReplicationTraffic

    def find(self, key: PartitionKey) -> LedPartition | ErrorCode:
        """A partition that this node leads, or why there is nothing to be had of it."""


class Watched:
    """One replica of a follower in a session: where it is, and what it was told."""

    __slots__ = ("_session", "_watermark", "key", "led", "loaded", "max_bytes", "offset")

    def __init__(self, session: FeedSession, key: PartitionKey, led: LedPartition) -> None:
        self._session = session
        self.key = key
        self.led = led
        self.offset: int | None = None
        """What it has; None while batches are on their way to it."""
        self.max_bytes = PARTITION_BYTES
        self.loaded: Chunk | ErrorCode | None = None
        """What was read for it in a thread."""
        self._watermark = (-1, -1)

    @property
    def node_id(self) -> int:
        """Whose replica it is."""
        return self._session.node_id

    @property
    def incarnation(self) -> int:
        """Which run of the node asks."""
        return self._session.incarnation

    @property
    def heard_s(self) -> float:
        """When the session last asked for something."""
        return self._session.heard_s

    def appended(self) -> None:
        """There is more to be had."""
        if self.offset is not None:
            self._session.mark(self)

    def watermark_moved(self) -> None:
        """There is something to be told, with the next batches or a little later."""
        if self.offset is not None:
            self._session.mark_told(self)

    def ended(self) -> None:
        """This node does not lead the partition any more."""
        self._session.drop(self, ErrorCode.not_leader_or_follower)

    @property
    def has_news(self) -> bool:
        """Whether the follower does not know where the log starts and how far it is committed."""
        partition = self.led.partition
        return self._watermark != (partition.high_watermark, partition.log_start)

    def told(self, records: Sequence[Buffer] = ()) -> FetchedPartition:
        """What the follower is told, with the batches that it has asked for.

        The last stable offset is none of a follower's business; in its place stands the end of the
        log, by which it knows how much it lacks.
        """
        partition = self.led.partition
        high_watermark, log_start = self._watermark = (
            partition.high_watermark,
            partition.log_start,
        )
        return FetchedPartition(
            self.key.partition,
            ErrorCode.none,
            high_watermark,
            partition.log_end,
            log_start,
            records,
        )


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
        self._due: dict[PartitionKey, Watched] = {}
        """Those that have batches for the follower, the longest waiting first."""
        self._news: dict[PartitionKey, Watched] = {}
        """Those whose watermark is to be told."""
        self._errors: dict[PartitionKey, FetchedPartition] = {}
        self._parked: asyncio.Future[Encoded] | None = None
        self._max_bytes = ANSWER_BYTES
        self._timer: asyncio.TimerHandle | None = None
        self._teller: asyncio.TimerHandle | None = None
        self._is_woken = False
        self._epoch = 0
        self.read_count = 0
        """How often a partition was looked at for batches; tests count it."""

    # --- A request -------------------------------------------------------------------------------

    def fetch(self, request: ReplicaFetch) -> Encoded | asyncio.Future[Encoded]:
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
        self._watched[key] = led.watchers[self, key] = watched
        self._errors.pop(key, None)
        watched.offset, watched.loaded = asked.fetch_offset, None
        watched.max_bytes = min(asked.max_bytes, PARTITION_BYTES)
        led.fetched(self.node_id, self.incarnation, asked, self.heard_s)
        if asked.fetch_offset < led.partition.log_end:
            self._due[key] = watched
        else:
            self._due.pop(key, None)
        if watched.has_news:
            self._news[key] = watched

    def _refuse(self, key: PartitionKey, code: ErrorCode) -> None:
        self._errors[key] = FetchedPartition(key.partition, code)

    def _forget(self, key: PartitionKey) -> None:
        watched = self._watched.pop(key, None)
        if watched is not None:
            watched.led.watchers.pop((self, key), None)
            watched.offset = None
        self._due.pop(key, None)
        self._news.pop(key, None)
        self._errors.pop(key, None)

    # --- Its answer ------------------------------------------------------------------------------

    def _collect(self) -> FetchedTopics:
        """Everything that is to be told now; a new watermark alone waits a little longer."""
        by_topic: dict[UUID, list[FetchedPartition]] = {}
        room = self._max_bytes
        for key in list(self._due):
            if room <= 0:
                break
            told = self._read(self._due.pop(key))
            if told is not None:
                room -= sum(map(len, told.records))
                by_topic.setdefault(key.topic_id, []).append(told)
        for key, error in self._errors.items():
            by_topic.setdefault(key.topic_id, []).append(error)
        self._errors.clear()
        if by_topic:
            self._add_news(by_topic)
        return [FetchedTopic(None, topic_id, told) for topic_id, told in by_topic.items()]

    def _add_news(self, by_topic: dict[UUID, list[FetchedPartition]]) -> None:
        for key, watched in self._news.items():
            if watched.has_news:
                by_topic.setdefault(key.topic_id, []).append(watched.told())
        self._news.clear()
        if self._teller is not None:
            self._teller.cancel()
            self._teller = None

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
        self._news.pop(watched.key, None)
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

    def _park(self, wait_s: float) -> asyncio.Future[Encoded]:
        self._parked = self._loop.create_future()
        self._timer = self._loop.call_later(wait_s, self._answer)
        if self._news:
            self._tell_soon()
        return self._parked

    def mark(self, watched: Watched) -> None:
        """There are batches for a replica."""
        self._due[watched.key] = watched
        self._wake()

    def mark_told(self, watched: Watched) -> None:
        """There is a new watermark for it."""
        self._news[watched.key] = watched
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
        if self._parked is not None:
            self._answer()

    def _answer(self, topics: FetchedTopics | None = None) -> None:
        """End the wait of the parked request, with what there is by now."""
        parked, self._parked = self._parked, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if parked is None or parked.done():
            return
        if topics is None:
            topics = self._collect()
            if not topics and self._news:
                by_topic: dict[UUID, list[FetchedPartition]] = {}
                self._add_news(by_topic)
                topics = [FetchedTopic(None, each, told) for each, told in by_topic.items()]
        parked.set_result(self._encoded(topics))

    def _encoded(self, topics: FetchedTopics) -> Encoded:
        answer = encode_response(topics)
        self._feed.traffic.sent.add(sum(map(len, answer.parts)))
        return answer

    def close(self) -> None:
        """Forget everything: the connection is gone, or the follower begins anew."""
        for key in list(self._watched):
            self._forget(key)
        self._errors.clear()
        if self._teller is not None:
            self._teller.cancel()
            self._teller = None
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
