"""Taking delayed messages in: store them, count them, and know when they are due."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from goqueue.delays.confirming import Unconfirmed, UnconfirmedBatch
from goqueue.delays.entries import (
    NEAR_MS,
    WAITING_HEADER,
    Producer,
    Waiting,
    class_for,
    encode_waiting,
    make_id,
    public_id,
    waiting_encoder,
)
from goqueue.model.errors import TooManyDelayedError
from goqueue.publishing.delayed import Origin, SplitBatch, TakenIn
from goqueue.records import BatchInfo, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.delays.book import DelayBook
    from goqueue.delays.due.due_index import DueIndex
    from goqueue.delays.store import DelayStore
    from goqueue.publishing.delivery_headers import Delayed, Later
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topic

_MAX_HALF_DONE: Final = 10_000
"""Batches of which only the delayed messages are known to be stored. Of more, the oldest is
forgotten; should its producer send it again after all, its delayed messages come twice."""
_SEQUENCES: Final = 1 << 31

BatchKey = tuple[bytes, int, int, int, int]
"""Topic id, partition, producer id, epoch, first sequence."""


class DelayIntake:
    """The way in."""

    def __init__(
        self, store: DelayStore, book: DelayBook, index: DueIndex, clock: Clock, unit: int = 0
    ) -> None:
        self._store = store
        self._unit = unit
        self.is_one_of_many = False
        """There are other units, which count their own messages against limits."""
        self.unconfirmed = Unconfirmed()
        self._book = book
        self._index = index
        self._clock = clock
        self._half_done: OrderedDict[BatchKey, dict[int, tuple[int, int]]] = OrderedDict()
        """By the place in the batch, the id and the due time of what is stored already."""
        self.keep: Callable[[int, Record], None] = _keep_nothing
        """Told of messages that are due until `keep_until_ms`: nobody need read them again."""
        self.keep_until_ms = 0

    def take(
        self,
        topic: Topic,
        partition: int,
        info: BatchInfo,
        records: Sequence[Record],
        later: Sequence[Later],
        *,
        origin: Origin | None = None,
    ) -> TakenIn:
        """Store those records of a batch that are due later.

        With a producer, `finish` must follow once the rest of the batch is stored. Should it not,
        and the producer send the batch again, what is stored already is not stored again. With an
        `origin`, the messages are unconfirmed until somebody has decided what became of the rest.

        Raises:
            TooManyDelayedError: the topic has as many as it may.
            BatchError, DiskError, LogFailedError: not all were stored.
        """
        topic_id = topic.topic_id.bytes
        key = _key(topic_id, partition, info)
        known = self._half_done.get(key, {})
        batch = None
        if origin is not None:
            split = SplitBatch(*key[2:], origin, -1)
            batch = UnconfirmedBatch((topic_id, partition), split)
        self._check_room(topic, len(later) - len(known))
        now_ms = self._clock.now_ms()
        classes: defaultdict[int, list[Later]] = defaultdict(list)
        near_ms = now_ms + NEAR_MS
        for each in later:
            if each[0] not in known:
                classes[0 if each[1] < near_ms else class_for(each[1] - now_ms)].append(each)
        messages: list[Delayed] = [(number, *place) for number, place in known.items()]
        for class_number, portion in classes.items():
            stored = _stored(topic_id, partition, info, records, portion, origin=origin)
            first = self._store.append(class_number, stored)
            self._book.add(class_number, first, len(stored), topic_id)
            placed = [
                (number, make_id(class_number, first + at), due_ms)
                for at, (number, due_ms) in enumerate(portion)
            ]
            self._index.add_all([part for each in placed for part in (each[2], each[1])])
            self._keep(placed, stored)
            if batch is not None:
                self.unconfirmed.add(batch, (each[1] for each in placed))
            elif info.has_producer:
                for number, delayed_id, due_ms in placed:
                    self.note_half_done(key, number, delayed_id, due_ms)
            messages += placed
        messages.sort(key=itemgetter(0))
        ends = [end if at in classes else None for at, end in enumerate(self._store.ends())]
        if batch is not None:
            batch.split = batch.split._replace(first_id=public_id(self._unit, messages[0][1] or 0))
        if self._unit:
            messages = [
                (number, public_id(self._unit, each or 0), due) for number, each, due in messages
            ]
        return TakenIn(messages, ends, self._unit, batch)

    def _keep(self, placed: Sequence[tuple[int, int, int]], stored: list[Record]) -> None:
        until_ms = self.keep_until_ms
        if min(due_ms for _, _, due_ms in placed) <= until_ms:
            for (_, delayed_id, due_ms), record in zip(placed, stored, strict=True):
                if due_ms <= until_ms:
                    self.keep(delayed_id, record)

    def _check_room(self, topic: Topic, count: int) -> None:
        limit = topic.settings.max_pending
        pending = self._book.pending(topic.topic_id.bytes)
        if limit is not None and pending + count > limit:
            each_unit = f" in unit {self._unit}, each counts its own" if self.is_one_of_many else ""
            raise TooManyDelayedError(
                f"{pending} delayed messages of topic {topic.name!r} wait, {count} more would be "
                f"over the limit of {limit} (goqueue.delay.max.pending){each_unit}"
            )

    # --- Batches that may be repeated ------------------------------------------------------------

    def finish(self, topic: Topic, partition: int, info: BatchInfo) -> None:
        """The rest of a batch is stored too: the partition knows the producer's sequence now."""
        self._half_done.pop(_key(topic.topic_id.bytes, partition, info), None)

    @staticmethod
    def key(topic: Topic, partition: int, info: BatchInfo) -> BatchKey:
        """What a batch is known by."""
        return _key(topic.topic_id.bytes, partition, info)

    def note_half_done(self, key: BatchKey, number: int, delayed_id: int, due_ms: int) -> None:
        """A delayed message is stored whose batch may not be."""
        self._half_done.setdefault(key, {})[number] = (delayed_id, due_ms)
        self._half_done.move_to_end(key)
        while len(self._half_done) > _MAX_HALF_DONE:
            self._half_done.popitem(last=False)

    def restore(self, waiting: Waiting, delayed_id: int, last_sequence: int) -> None:
        """A start has found a message whose producer has this last sequence in the partition."""
        producer = waiting.producer
        if producer is None:
            return
        ahead = (producer.first_sequence - last_sequence - 1) % _SEQUENCES
        if ahead < _SEQUENCES // 2:
            key = (waiting.topic_id, waiting.partition, *producer[:3])
            self.note_half_done(key, producer.number, delayed_id, waiting.due_ms)


def _keep_nothing(delayed_id: int, record: Record) -> None:
    """Nobody wants it."""


def _key(topic_id: bytes, partition: int, info: BatchInfo) -> BatchKey:
    return topic_id, partition, info.producer_id, info.producer_epoch, info.base_sequence


def _stored(
    topic_id: bytes,
    partition: int,
    info: BatchInfo,
    records: Sequence[Record],
    portion: Sequence[Later],
    *,
    origin: Origin | None = None,
) -> list[Record]:
    """Records as they wait, each saying where it is to go."""
    encoded = waiting_encoder(topic_id, partition)
    has_producer = info.has_producer
    stored = []
    for at, (number, due_ms) in enumerate(portion):
        _, timestamp_ms, key, value, headers = records[number]
        waiting = encoded(due_ms)
        if has_producer:
            whose = info.producer_id, info.producer_epoch, info.base_sequence, number
            producer = Producer(*whose) if origin is None else Producer(*whose, *origin)
            waiting = encode_waiting(Waiting(topic_id, partition, due_ms, producer))
        stored.append(Record(at, timestamp_ms, key, value, ((WAITING_HEADER, waiting), *headers)))
    return stored
