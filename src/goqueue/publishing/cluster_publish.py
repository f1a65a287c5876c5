"""Publishing at the leader of a partition that several nodes hold: batches of which a part waits.

What is due later is in a log of its own, which moves to another leader by itself. If the rest of an
idempotent batch survived a failover and the delayed part did not, the producer would send the batch
again and be told that it is there. So the delayed part is committed first, and the rest is stored
then, if this node still leads the partition in the same epoch. Meanwhile later batches of the same
producer for this partition queue behind. If the rest is not stored, the delayed part is void:
whoever sends the batch again makes another.
"""

from __future__ import annotations

import asyncio
import struct
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from goqueue.model.errors import DelaysUnavailableError, GoQueueError, NotLeaderError
from goqueue.partitions.partition import Partition, Placed
from goqueue.publishing.deferred import DeferredPublish
from goqueue.publishing.delayed import Origin, TakenIn
from goqueue.publishing.publish import Publisher, both
from goqueue.publishing.requests import Acks, Published, PublishRequest
from goqueue.publishing.straight import waits_for
from goqueue.records.batch import ATTEMPT, ATTEMPT_SHIFT, peek
from goqueue.topics.catalogue import Topic

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.sequences import SequencedBatch
    from goqueue.publishing.delayed import SplitBatch
    from goqueue.publishing.delivery_headers import Delayed, Opened
    from goqueue.publishing.traces import PublishTraces
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.clock import Clock

_PRODUCER: Final = struct.Struct(">q")
_PRODUCER_AT: Final = 43
"""Where in a batch the id of its producer is."""
_MAX_QUEUED: Final = 100
"""Batches of one producer behind one of which a part waits; a producer has five under way. One more
is refused, and may be sent again."""
_MAX_VOID: Final = 100_000
"""Delayed parts that are remembered to be void; of more, the oldest is forgotten. It was asked for
long before, when its unit was loaded."""

_MAX_ATTEMPT: Final = ATTEMPT >> ATTEMPT_SHIFT
"""Of a batch in one epoch, as many as its attributes can tell apart; then another has to begin."""
_MAX_GIVEN_UP: Final = 100_000
"""Batches of which attempts are remembered; of more, the oldest is forgotten. Its producer sends it
again within moments, or never."""

_Key: TypeAlias = "tuple[TopicPartition, int]"
"""A partition and a producer."""


class _Split(msgspec.Struct):
    """A batch whose delayed part is being committed, and what queues behind it."""

    topic: Topic
    partition: Partition
    rest: PublishRequest
    base_sequence: int
    origin: Origin
    taken: TakenIn
    deferred: DeferredPublish
    started_s: float
    behind: deque[tuple[PublishRequest, DeferredPublish]] = msgspec.field(default_factory=deque)

    @property
    def key(self) -> _Key:
        """What it is found by."""
        return self.rest.partition, peek(self.rest.batch).producer_id


class ClusterPublisher(Publisher):
    """Takes in batches for partitions that this node leads in a cluster."""

    def __init__(
        self, partitions: Partitions, clock: Clock, measures: Measures, traces: PublishTraces
    ) -> None:
        super().__init__(partitions, clock, measures, traces)
        self._splits: dict[_Key, _Split] = {}
        self._finishing: set[asyncio.Task[None]] = set()
        """One for each split, and for each rest that is not committed yet."""
        self._void: OrderedDict[int, None] = OrderedDict()
        """The first ids of delayed parts whose rest was not stored."""
        self._given_up: OrderedDict[tuple[_Key, int], tuple[int, int]] = OrderedDict()
        """By producer and first sequence: the leader epoch, and how many attempts to store the
        batch were given up in it."""

    def publish(self, request: PublishRequest) -> Published | DeferredPublish:
        """Store a batch, now or when those before it are stored. See `Publisher.publish`."""
        if self._splits:
            split = self._splits.get((request.partition, _producer_of(request.batch)))
            if split is not None:
                return self._queue(split, request)
        try:
            return super().publish(request)
        except GoQueueError as error:
            if error.retriable and not isinstance(error, NotLeaderError):
                self._note_refused(request.partition)
            raise

    def _note_refused(self, partition_id: TopicPartition) -> None:
        """A batch will be sent again, and those behind it may come before: no mistake of theirs."""
        partition = self._partitions.replica(partition_id)
        if partition is not None:
            partition.admitted()

    def _queue(self, split: _Split, request: PublishRequest) -> DeferredPublish:
        if len(split.behind) >= _MAX_QUEUED:
            raise DelaysUnavailableError(
                f"{request.partition}: {_MAX_QUEUED} batches of one producer wait for one with "
                "delayed messages to be stored; send fewer at a time, and this one again"
            )
        deferred = DeferredPublish()
        # The buffer is the connection's, which reads on.
        kept = request._replace(batch=memoryview(bytearray(request.batch)))
        split.behind.append((kept, deferred))
        return deferred

    def is_under_way(self, partition_id: TopicPartition, batch: SplitBatch) -> bool:
        """Whether the rest of a batch may still be stored."""
        split = self._splits.get((partition_id, batch.producer_id))
        return split is not None and split.base_sequence == batch.base_sequence

    def is_void(self, batch: SplitBatch) -> bool:
        """Whether a delayed part is known not to count, whatever the log has by now."""
        return batch.first_id in self._void

    # --- Splitting -------------------------------------------------------------------------------

    def _repeated(
        self,
        topic: Topic,
        partition: Partition,
        request: PublishRequest,
        info: BatchInfo,
        found: Opened,
        *,
        known: SequencedBatch,
    ) -> Published:
        """Answer a batch that is stored already: what waits of it was committed before."""
        del topic, info
        again: list[Delayed] = [(number, None, due_ms) for number, due_ms in found.later]
        placed = Placed(known.first_offset, known.end_offset, duplicate=True)
        durable = waits_for(partition, placed.end_offset, request.acks)
        return Published(placed, partition.log_start, durable=durable, delayed=again)

    def _store_apart(
        self,
        topic: Topic,
        partition: Partition,
        request: PublishRequest,
        info: BatchInfo,
        found: Opened,
    ) -> Published | DeferredPublish:
        """Store what is due later, then the rest; at once if nobody recognises a repetition."""
        started_s, delays = self._clock.monotonic_s(), self._required_delays()
        if not info.has_producer:
            taken, rest = self._split(topic, request, info, found)
            published = self._store_rest(topic, partition, rest, taken, started_s)
            if request.acks is Acks.NONE:
                return published
            return published._replace(durable=both(delays.committed(taken), published.durable))
        origin = Origin.of(
            partition.leader_epoch, partition.log_end, self._attempt(partition, info)
        )
        taken, rest = self._split(topic, request, info, found, origin)
        assert rest is not None  # of a producer there is always one: it has the sequence
        deferred, sequence = DeferredPublish(), info.base_sequence
        split = _Split(topic, partition, rest, sequence, origin, taken, deferred, started_s)
        self._splits[split.key] = split
        self._spawn(self._finish(split))
        return deferred

    def _attempt(self, partition: Partition, info: BatchInfo) -> int:
        """How many attempts to store a batch were given up, in this epoch."""
        key = (partition.id, info.producer_id), info.base_sequence
        epoch, count = self._given_up.get(key, (-1, 0))
        if epoch != partition.leader_epoch:
            return 0
        if count > _MAX_ATTEMPT:
            raise DelaysUnavailableError(
                f"{partition.id}: a batch with delayed messages could not be stored {count} times; "
                "it can be once another node leads the partition: send it again"
            )
        return count

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def _finish(self, split: _Split) -> None:
        """Store the rest of a batch once its delayed part is committed."""
        delays, taken = self._required_delays(), split.taken
        try:
            await delays.committed(taken)
            published = self._store_rest_in_epoch(split)
        except BaseException as error:
            self._forgo(split, error)
            if isinstance(error, GoQueueError):
                return
            raise
        measured = self._measured(split.topic, split.rest, published, split.started_s)
        split.deferred.follow(measured)
        self._given_up.pop((split.key, split.base_sequence), None)
        self._release(split.key)
        try:
            await split.partition.committed(published.placed.end_offset)
        except GoQueueError:
            delays.doubt(taken)
        else:
            delays.confirm(taken)

    def _store_rest_in_epoch(self, split: _Split) -> Published:
        """Store the rest, if this node still leads the partition in the same epoch."""
        partition = split.partition
        if not partition.is_leading or partition.leader_epoch != split.origin.leader_epoch:
            raise NotLeaderError(str(partition.id))
        return self._store_rest(split.topic, partition, split.rest, split.taken, split.started_s)

    def _forgo(self, split: _Split, error: BaseException) -> None:
        """The rest is not stored, and never will be: the delayed part is void."""
        batch = split.key, split.base_sequence
        self._given_up[batch] = split.origin.leader_epoch, split.origin.attempt + 1
        self._given_up.move_to_end(batch)
        if len(self._given_up) > _MAX_GIVEN_UP:
            self._given_up.popitem(last=False)
        self._void[split.taken.first_id] = None
        if len(self._void) > _MAX_VOID:
            self._void.popitem(last=False)
        self._required_delays().void(split.taken)
        refused = (
            error if isinstance(error, GoQueueError) else NotLeaderError(str(split.partition.id))
        )
        split.deferred.fail(refused)
        # Those behind would be out of order: the producer sends all of them once more.
        self._note_refused(split.partition.id)
        for _, deferred in self._splits.pop(split.key).behind:
            deferred.fail(refused)

    # --- What queues behind ----------------------------------------------------------------------

    def _release(self, key: _Key) -> None:
        """Store what has queued behind a batch, up to the next of which a part waits."""
        behind = self._splits.pop(key).behind
        while behind:
            request, deferred = behind.popleft()
            try:
                published = self.publish(request)
            except GoQueueError as error:
                deferred.fail(error)
                continue
            deferred.follow(published)
            if key in self._splits:
                self._splits[key].behind.extend(behind)
                return


def _producer_of(batch: memoryview) -> int:
    return int(_PRODUCER.unpack_from(batch, _PRODUCER_AT)[0]) if len(batch) >= 51 else -1
