"""Publishing: the one way into a partition, whichever protocol a batch came by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.errors import (
    BatchError,
    DelayError,
    DelaysUnavailableError,
    DeliveryHeaderError,
    DiskFullError,
    GoQueueError,
    InternalTopicError,
    InvalidTimestampError,
    PriorityError,
    RegistryUnavailableError,
    SchemaError,
    TopicError,
    TransactionCoordinatorUnavailableError,
)
from goqueue.partitions.partition import Partition, Placed
from goqueue.publishing.admission import admit_batch, check_size, check_timestamps, count_of
from goqueue.publishing.deferred import DeferredPublish
from goqueue.publishing.delivery_headers import (
    Delayed,
    Opened,
    check_delayable,
    delayable,
    marked,
    may_have_delivery_headers,
    opened,
    without_delayed,
)
from goqueue.publishing.requests import Acks, Published, PublishRequest, SchemaVerdict
from goqueue.publishing.rewrite import records_of, rewritten
from goqueue.publishing.straight import StraightPublisher, waits_for
from goqueue.records.batch import BatchInfo, peek
from goqueue.storage.config import Fsync

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.sequences import SequencedBatch
    from goqueue.publishing.delayed import DelayedMessages, Origin, SplitBatch, TakenIn
    from goqueue.publishing.traces import PublishTraces
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Bytes
    from goqueue.topics.catalogue import Topic

    SchemaCheck: TypeAlias = Callable[[Topic, "PublishRequest"], Awaitable[GoQueueError | None]]

_REFUSALS: Final = (
    SchemaError,
    DelayError,
    DeliveryHeaderError,
    InvalidTimestampError,
    PriorityError,
)
"""What a topic has against messages, rather than against a batch."""


async def _no_schemas(topic: Topic, request: PublishRequest) -> GoQueueError | None:
    """A publisher without a registry takes everything."""
    del topic, request
    return None


def _no_transactions(info: BatchInfo, partition: TopicPartition) -> None:
    raise TransactionCoordinatorUnavailableError(
        f"the transaction of producer {info.producer_id} in {partition} cannot be verified before "
        "the transaction coordinator has started; try again"
    )


class Publisher(StraightPublisher):
    """Takes batches in: check, rewrite if the topic asks for it, deduplicate, append, measure."""

    def __init__(
        self, partitions: Partitions, clock: Clock, measures: Measures, traces: PublishTraces
    ) -> None:
        super().__init__(partitions, clock, measures, traces)
        self.check_schemas: SchemaCheck = _no_schemas
        """Finds what is to be said against a batch by the schemas of its topic; set by the
        broker."""
        self.steady_ms: Callable[[], int] = clock.now_ms
        """The time that the wall clock would tell without a jump of it; set by the broker."""
        self.verify_transaction: Callable[[BatchInfo, TopicPartition], None] = _no_transactions
        """Refuses a transactional batch that belongs to no open transaction; set by whoever
        coordinates them."""
        self.delays: DelayedMessages | None = None
        """Who takes what is due later; set by the broker."""

    async def checked(self, request: PublishRequest) -> PublishRequest:
        """A batch with the verdict that its topic asks for, to be published at once.

        What is wrong with it otherwise, `publish` says.
        """
        try:
            topic, partition = self._partitions.resolve(request.partition)
            if not topic.settings.validates or request.verdict is not None:
                return request
            if _is_stored(partition, admit_batch(topic, request.batch)):
                return request
            error = await self.check_schemas(topic, request)
        except TopicError:
            return request
        except BatchError as unreadable:
            return request._replace(verdict=SchemaVerdict(unreadable))
        return request._replace(verdict=SchemaVerdict(error))

    def publish(self, request: PublishRequest) -> Published | DeferredPublish:
        """Store a batch. It is in the log when this returns, durable when `durable` has been.

        Raises:
            TopicError: there is no such partition, or it is not the caller's to write.
            BatchError: the batch is damaged, malformed or too large.
            ProducerError: an idempotent producer's batch is out of order or fenced.
            DiskError, LogFailedError: the disk refused.
        """
        started_s = self._clock.monotonic_s()
        topic, partition = self._partitions.resolve(request.partition)
        try:
            published = self._store(topic, partition, request)
        except GoQueueError as error:
            self._measures.refused(topic.name, error, count_of(request.batch))
            if isinstance(error, _REFUSALS) and self._traces.is_on:
                self._traces.refused(topic, request, error)
            raise
        if isinstance(published, DeferredPublish):
            return published
        return self._measured(topic, request, published, started_s)

    def _measured(
        self, topic: Topic, request: PublishRequest, published: Published, started_s: float
    ) -> Published:
        """What became of a batch; its measures and traces follow."""
        measures = self._measures.topic(topic.name)
        placed = published.placed
        if not placed.duplicate:
            measures.messages_published.add(published.stored_count)
            measures.bytes_published.add(len(request.batch))
        traced = None
        if self._traces.is_on and not published.delayed:
            place = self._traces.place(topic, request.partition.partition)
            traced = self._traces.published(
                place, request.batch, placed, started_s, was_traced=request.traced
            )
        if published.durable is None:
            self._acknowledged(measures, started_s, traced)
            return published
        durable = self._timed(published.durable, measures, started_s, traced)
        return published._replace(durable=durable)

    def _store(
        self, topic: Topic, partition: Partition, request: PublishRequest
    ) -> Published | DeferredPublish:
        if topic.is_internal and not request.internal:
            raise InternalTopicError(
                f"{topic.name} is an internal topic: clients cannot write to it"
            )
        self._check_open(partition, request)
        info = admit_batch(topic, request.batch)
        if not request.internal:
            self._check_quota(topic, info.size_bytes)
        limits = topic.settings.timestamp_limits
        if limits is not None and not request.internal:
            now_ms = self._clock.now_ms()
            if not limits.hold_by_header(info, now_ms):
                check_timestamps(
                    limits, request.batch, info, now_ms, self.steady_ms, known=request.records
                )
        if info.is_transactional:
            self.verify_transaction(info, request.partition)
        if topic.settings.validates and not (info.has_producer and partition.earlier_append(info)):
            _obey(topic, request.verdict)  # not of what is stored already
        if may_have_delivery_headers(topic.settings, request.batch, info):
            return self._store_opened(topic, partition, request, info)
        return self._append(topic, partition, request, info)

    def _check_open(self, partition: Partition, request: PublishRequest) -> None:
        """Refuse a batch while its partition takes none."""
        if self.disk_full is not None:
            raise DiskFullError(self.disk_full)
        if partition.isolated is not None:
            raise partition.isolated.with_traceback(None)
        if partition.not_enough is not None and request.acks is Acks.ALL:
            raise partition.not_enough.with_traceback(None)

    def _check_quota(self, topic: Topic, size_bytes: int) -> None:
        """Hold a batch to what the tenant of a topic may store."""
        quota = self._measures.topic(topic.name).quota
        if quota is not None:
            quota.check_batch(size_bytes)

    def _append(
        self, topic: Topic, partition: Partition, request: PublishRequest, info: BatchInfo
    ) -> Published:
        batch: Bytes = request.batch
        append_time_ms = -1
        if topic.settings.rewrites:
            batch, append_time_ms = rewritten(
                topic.settings, request.batch, info, self._clock, request.records
            )
            if batch is not request.batch:
                info = peek(batch)
                # Compressed anew it may be larger, or not compressed at all.
                check_size(topic, info.size_bytes)
        placed = partition.append(batch, info)
        if info.has_delivery_headers and not placed.duplicate:
            lanes = partition.lanes.counts(placed.first_offset, placed.end_offset)
            self._measures.prioritised(topic.name, lanes, info.count)
        return Published(
            placed,
            partition.log_start,
            append_time_ms,
            waits_for(partition, placed.end_offset, request.acks),
            stored_count=info.count,
        )

    def is_under_way(self, partition_id: TopicPartition, batch: SplitBatch) -> bool:
        """Whether the rest of a batch of which a part waits may still be stored: not here."""
        del partition_id, batch
        return False

    def is_void(self, batch: SplitBatch) -> bool:
        """Whether a delayed part is known not to count, whatever the log has by now: not here."""
        del batch
        return False

    # --- Records that say how they are to be delivered -------------------------------------------

    def _store_opened(
        self, topic: Topic, partition: Partition, request: PublishRequest, info: BatchInfo
    ) -> Published | DeferredPublish:
        """Take out what is due later; the rest is stored like any batch, marked as speaking."""
        found = request.opened
        if found is None:
            records = records_of(request.batch, request.records)
            found = opened(topic.settings, records, self._clock.now_ms())
        known = partition.earlier_append(info)
        if known is not None and (found.later or delayable(found.records)):
            return self._repeated(topic, partition, request, info, found, known=known)
        if found.later:
            check_delayable(topic.settings, info, found)
            quota = self._measures.topic(topic.name).quota
            if quota is not None:
                latest_ms = max(due_ms for _, due_ms in found.later)
                quota.check_delay(latest_ms - self._clock.now_ms())
            return self._store_apart(topic, partition, request, info, found)
        if found.says_something:
            batch = marked(request.batch, info)
            request, info = request._replace(batch=batch), peek(batch)
        return self._append(topic, partition, request, info)

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
        """Answer a batch that is stored already; from before the start, perhaps not all of it."""
        if self.delays is None:
            raise DelaysUnavailableError("delayed messages are being loaded; try again")
        always = partition.fsync is Fsync.ALWAYS and request.acks is not Acks.NONE
        again: list[Delayed] = [(number, None, due_ms) for number, due_ms in found.later]
        placed = Placed(known.first_offset, known.end_offset, duplicate=True)
        durable = (
            both(self.delays.durable(), partition.committed(placed.end_offset)) if always else None
        )
        if known.first_offset < partition.opened_at:
            restored = self.delays.restore(topic, partition, info, found.records, known)
            durable = both(restored, durable)
        return Published(placed, partition.log_start, durable=durable, delayed=again)

    def _store_apart(
        self,
        topic: Topic,
        partition: Partition,
        request: PublishRequest,
        info: BatchInfo,
        found: Opened,
    ) -> Published | DeferredPublish:
        """Store what is due later, then the rest.

        In this order: a producer that gets no answer sends the batch again, and the partition
        knows it again only by what it has stored. What is delayed already is known to the intake.
        """
        always = partition.fsync is Fsync.ALWAYS and request.acks is not Acks.NONE
        started_s = self._clock.monotonic_s()
        delays = self._required_delays()
        taken, rest = self._split(topic, request, info, found)
        published = self._store_rest(topic, partition, rest, taken, started_s)
        delays.finish(topic, request.partition.partition, info)
        if not always:
            return published
        return published._replace(durable=both(delays.durable(taken), published.durable))

    def _required_delays(self) -> DelayedMessages:
        if self.delays is None:
            raise DelaysUnavailableError("delayed messages are being loaded; try again")
        return self.delays

    def _split(
        self,
        topic: Topic,
        request: PublishRequest,
        info: BatchInfo,
        found: Opened,
        origin: Origin | None = None,
    ) -> tuple[TakenIn, PublishRequest | None]:
        """Store what is due later; returns it and what is left of the batch, if that is needed."""
        started_s, number = self._clock.monotonic_s(), request.partition.partition
        taken = self._required_delays().take(topic, number, info, found, origin)
        if self._traces.is_on:
            self._traces.scheduled(topic, number, found, taken.messages, started_s)
        later = {number for number, _, _ in taken.messages}
        rest = [record for at, record in enumerate(found.records) if at not in later]
        keeps_places = info.has_producer or not request.delivery
        if not rest and not keeps_places:
            return taken, None
        attempt = 0 if origin is None else origin.attempt
        left = without_delayed(info, rest, keeps_places=keeps_places, attempt=attempt)
        batch = memoryview(left)
        return taken, request._replace(batch=batch, records=rest if keeps_places else None)

    def _store_rest(
        self,
        topic: Topic,
        partition: Partition,
        request: PublishRequest | None,
        taken: TakenIn,
        started_s: float,
    ) -> Published:
        published = Published(Placed(partition.log_end, partition.log_end), partition.log_start)
        if request is not None:
            published = self._append(topic, partition, request, peek(request.batch))
            self._trace_rest(topic, request, published.placed, started_s)
        return published._replace(delayed=taken.messages)

    def _trace_rest(
        self, topic: Topic, request: PublishRequest, placed: Placed, started_s: float
    ) -> None:
        """Note what did not wait of a batch of which something does."""
        if not self._traces.is_on:
            return
        place = self._traces.place(topic, request.partition.partition)
        traced = self._traces.published(
            place, request.batch, placed, started_s, was_traced=request.traced
        )
        if traced is not None:
            self._traces.persisted(traced)


def _is_stored(partition: Partition, info: BatchInfo) -> bool:
    """Whether a producer sends a batch again; one that is refused is not stored."""
    try:
        return info.has_producer and partition.earlier_append(info) is not None
    except GoQueueError:
        return False


def _obey(topic: Topic, verdict: SchemaVerdict | None) -> None:
    if verdict is None:
        raise RegistryUnavailableError(
            f"topic {topic.name!r} began to hold messages against schemas while these were on "
            "their way; send them again"
        )
    if verdict.error is not None:
        raise verdict.error


async def both(first: Awaitable[None], second: Awaitable[None] | None) -> None:
    """Return when both have."""
    await first
    if second is not None:
        await second
