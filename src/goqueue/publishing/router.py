"""Publishing to partitions that other nodes lead, for protocols whose clients do not look for them.

A batch for a partition that is led here is published as any other. The others go to their leaders
as they are, by Produce on the internal listeners: those of one partition in the order in which they
came, a few at a time, and in one request with those of other partitions that wait for the same
node. A node that does not lead the partition has stored nothing: the batch waits for the next
leader, for a while, and everything for its partition behind it. When a connection is lost nobody
knows what was stored: batches that their leaders know again, by the producer's own numbers, are
sent again; of the others the publisher is told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    ForwardingBusyError,
    GoQueueError,
    LeaderUnavailableError,
    NotLeaderError,
    PeerUnavailableError,
)
from goqueue.model.limits import MAX_ROUTED_BYTES
from goqueue.partitions.elsewhere.leaders import MOVING, PATIENCE_S, RETRY_S
from goqueue.publishing.admission import check_size
from goqueue.publishing.peer_lane import PeerLane
from goqueue.publishing.routed import RoutedPublish, refusal_of
from goqueue.wire.kafka.replies import future_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partitions import Partitions
    from goqueue.publishing.deferred import DeferredPublish
    from goqueue.publishing.publish import Publisher
    from goqueue.publishing.requests import Published, PublishRequest
    from goqueue.topics.catalogue import Topics
    from goqueue.topics.routes import Routes
    from goqueue.wire.kafka.produce import PartitionResult

_MAX_IN_FLIGHT: Final = 5
"""Batches of one partition that are sent and not answered; a leader knows as many again by their
numbers. One more waits."""
_MAX_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""Of the batches of one request, apart from one that is larger by itself."""
_MAX_REQUEST_BATCHES: Final = 100


class _Queue:
    """What is on its way to one partition."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[RoutedPublish] = deque()
        """In the order of their numbers."""
        self.in_flight = 0
        self.moving: GoQueueError | None = None
        """Why nothing is sent until everything that was sent is answered, and a moment is over."""
        self.retry_at_s = 0.0

    def put_back(self, batch: RoutedPublish) -> None:
        """Send a batch again, before all that came later."""
        at = next(
            (at for at, each in enumerate(self.waiting) if each.number > batch.number),
            len(self.waiting),
        )
        self.waiting.insert(at, batch)


class PublishRouter:
    """Publishes to any partition of the cluster."""

    def __init__(
        self, topics: Topics, partitions: Partitions, publisher: Publisher, routes: Routes
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._publisher = publisher
        self._routes = routes
        self._numbers = count()
        self._queues: dict[TopicPartition, _Queue] = {}
        """Of the partitions that something is on its way to."""
        self._lanes: dict[int, PeerLane] = {}
        """As many as there are other nodes."""
        self._held_bytes = 0
        self._flush_is_due = False
        self._retry: asyncio.TimerHandle | None = None
        self._stopping: GoQueueError | None = None

    def publish(self, request: PublishRequest) -> Published | DeferredPublish | RoutedPublish:
        """Publish a batch; what became of it is known when its `durable` was awaited.

        Raises:
            TopicError, BatchError: it can be published nowhere; see `Publisher.publish`, which is
                what the leader says of it later.
            ForwardingBusyError: too much waits for other nodes already.
        """
        place = request.partition
        partition = self._partitions.find(place)
        if partition is not None and partition.is_leading and place not in self._queues:
            try:
                return self._publisher.publish(request)
            except NotLeaderError:
                pass  # a moment ago another node began to lead
        check_size(self._topics.catalogue.require(place), len(request.batch))
        if self._stopping is not None:
            raise self._stopping.with_traceback(None)
        if self._held_bytes + len(request.batch) > MAX_ROUTED_BYTES:
            raise ForwardingBusyError(
                f"{self._held_bytes} bytes of messages wait for other nodes, at most "
                f"{MAX_ROUTED_BYTES} may: try again when their leaders have answered"
            )
        give_up_s = asyncio.get_running_loop().time() + PATIENCE_S
        routed = RoutedPublish(request, next(self._numbers), give_up_s)
        self._held_bytes += len(request.batch)
        self._queues.setdefault(place, _Queue(place)).waiting.append(routed)
        self._flush_soon()
        return routed

    def close(self) -> None:
        """Hang up on everybody; what was not answered fails, and so does all that comes."""
        self._stopping = PeerUnavailableError(
            "this node stops, and the messages may be stored or not: send them to another node"
        )
        if self._retry is not None:
            self._retry.cancel()
        for lane in self._lanes.values():
            lane.close()
        for queue in list(self._queues.values()):
            self._give_up(queue, self._stopping)

    # --- Sending ---------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        """Send in the next turn of the event loop, together with what comes until then."""
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        while True:
            groups: dict[tuple[int, int, str | None], list[RoutedPublish]] = {}
            for queue in list(self._queues.values()):
                leader = self._sendable_to(queue)
                if leader is None:
                    continue
                batch = queue.waiting.popleft()
                queue.in_flight += 1
                key = leader, batch.acks, batch.request.transactional_id
                groups.setdefault(key, []).append(batch)
            if not groups:
                return
            for (leader, _, _), batches in groups.items():
                for some in _requests(batches):
                    self._lanes[leader].send(some)

    def _sendable_to(self, queue: _Queue) -> int | None:
        """The other node that the next batch of a queue goes to now; None: there is none."""
        if queue.moving is not None and not self._has_settled(queue):
            return None
        while queue.waiting and queue.in_flight < _MAX_IN_FLIGHT and queue.moving is None:
            try:
                leader = self._routes.leader_of(queue.partition)
            except LeaderUnavailableError as error:
                self._wait(queue, error)
                return None
            except GoQueueError as error:  # the topic was deleted meanwhile
                self._give_up(queue, error)
                return None
            if leader == self._routes.node_id:
                if queue.in_flight:
                    return None  # of the leader before
                self._publish_here(queue, queue.waiting.popleft())
                continue
            lane = self._lane(leader)
            if lane.is_open:
                return leader
            lane.open()
            return None
        return None

    def _has_settled(self, queue: _Queue) -> bool:
        """Whether a queue whose partition was moving may go on."""
        if queue.in_flight or asyncio.get_running_loop().time() < queue.retry_at_s:
            return False
        queue.moving = None
        return True

    def _lane(self, node_id: int) -> PeerLane:
        lane = self._lanes.get(node_id)
        if lane is None:
            lane = self._lanes[node_id] = PeerLane(
                node_id, self._routes, self._flush_soon, self._answered, self._unreachable
            )
        return lane

    def _publish_here(self, queue: _Queue, batch: RoutedPublish) -> None:
        queue.in_flight += 1
        try:
            published = self._publisher.publish(batch.request)
        except GoQueueError as error:
            self._settle(batch, error)
            return
        if published.durable is None:
            batch.store_here(published)
            self._settle(batch, None)
            return
        durable = future_of(published.durable)
        durable.add_done_callback(partial(self._durable_here, batch, published))

    def _durable_here(
        self,
        batch: RoutedPublish,
        published: Published | DeferredPublish,
        durable: asyncio.Future[None],
    ) -> None:
        batch.store_here(published)
        error = LeaderUnavailableError("this node stops")
        found = error if durable.cancelled() else durable.exception()
        self._settle(batch, found if isinstance(found, GoQueueError) else None)

    # --- Answers ---------------------------------------------------------------------------------

    def _answered(self, batch: RoutedPublish, told: PartitionResult | GoQueueError) -> None:
        if isinstance(told, GoQueueError):
            self._settle(batch, told)
        elif told.error_code:
            self._settle(batch, refusal_of(told))
        else:
            batch.store(told)
            self._settle(batch, None)

    def _settle(self, batch: RoutedPublish, error: GoQueueError | None) -> None:
        """A batch that was sent is stored, refused, or to be sent again."""
        queue = self._queues[batch.request.partition]
        queue.in_flight -= 1
        is_lost = isinstance(error, PeerUnavailableError)
        is_unstored = isinstance(error, MOVING)
        may_repeat = is_unstored or (is_lost and batch.has_producer)
        if error is not None and may_repeat and self._stopping is None:
            queue.put_back(batch)
            self._wait(queue, error)
            self._flush_soon()
            return
        if error is not None and is_lost and self._stopping is None:
            self._wait(queue, error)
        self._done(batch, error)
        if not queue.waiting and not queue.in_flight:
            self._queues.pop(queue.partition, None)
        else:
            self._flush_soon()

    def _unreachable(self, node_id: int, error: GoQueueError) -> None:
        """No connection to a node could be made: nothing that waits for it was stored."""
        for queue in list(self._queues.values()):
            try:
                leader = self._routes.leader_of(queue.partition)
            except GoQueueError:
                leader = node_id  # which the next look finds out
            if leader == node_id:
                self._wait(queue, error)

    def _wait(self, queue: _Queue, error: GoQueueError) -> None:
        """Send nothing to a partition for a moment; those that waited for too long are told why."""
        now_s = asyncio.get_running_loop().time()
        queue.moving, queue.retry_at_s = error, now_s + RETRY_S
        if queue.waiting and queue.waiting[0].give_up_s <= now_s and not queue.in_flight:
            self._give_up(queue, _moved(queue, error))
        elif self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self._flush()
        waits = any(queue.moving is not None for queue in self._queues.values())
        if waits and self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._retry_now)

    def _give_up(self, queue: _Queue, error: GoQueueError) -> None:
        """Tell all that wait for a partition: in their order, some without the others are wrong."""
        while queue.waiting:
            self._done(queue.waiting.popleft(), error)
        if not queue.in_flight:
            self._queues.pop(queue.partition, None)

    def _done(self, batch: RoutedPublish, error: GoQueueError | None) -> None:
        self._held_bytes -= len(batch.request.batch)
        batch.settle(error)


def _requests(batches: Iterable[RoutedPublish]) -> Iterator[list[RoutedPublish]]:
    """Batches in as few requests as they fit."""
    some: list[RoutedPublish] = []
    size_bytes = 0
    for batch in batches:
        batch_bytes = len(batch.request.batch)
        is_full = len(some) == _MAX_REQUEST_BATCHES or size_bytes + batch_bytes > _MAX_REQUEST_BYTES
        if some and is_full:
            yield some
            some, size_bytes = [], 0
        some.append(batch)
        size_bytes += batch_bytes
    if some:
        yield some


def _moved(queue: _Queue, error: GoQueueError) -> GoQueueError:
    """What is told of a partition that had no leader for too long."""
    if isinstance(error, PeerUnavailableError):
        return error
    return LeaderUnavailableError(
        f"{queue.partition} had no leader that takes messages for {PATIENCE_S:g} s, and nothing "
        f"was stored: try again ({error})"
    )
