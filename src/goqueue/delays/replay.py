"""What the logs say about delayed messages: who waits, since when, and who was on the way."""

from __future__ import annotations

import logging
from array import array
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from goqueue.delays.book import SNAPSHOT, DelayBook
from goqueue.delays.confirming import Unconfirmed, UnconfirmedBatch
from goqueue.delays.deltas import Cut, Delta, Ended, Intent, Released, decode_delta, without_lost
from goqueue.delays.entries import CLASSES, Waiting, make_id, public_id, split_id
from goqueue.model.errors import CorruptDelayStateError
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.delayed import Origin, SplitBatch
from goqueue.state.log import BEGIN, END, StateEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from goqueue.delays.due.slot_index import Indexed
    from goqueue.delays.intake import DelayIntake
    from goqueue.delays.repeats import RepeatedBatches
    from goqueue.delays.store import DelayStore
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.topics.catalogue import Topics

logger = logging.getLogger(__name__)

LOOK_BACK: Final = 20_000
"""Messages before the last snapshot that are looked at once more for batches that may be repeated:
a producer whose batch was not stored whole sends it again soon, or never."""


class DelayReplay:
    """The entries of the log of changes, as they are read."""

    def __init__(self) -> None:
        self.snapshot: list[tuple[bytes, bytes]] = []
        """The newest that is whole. It says what was true where it begins."""
        self.changes: list[tuple[bytes, bytes]] = []
        """Stored since then."""
        self._unfinished: list[tuple[bytes, bytes]] | None = None
        self._begins_at = self._lost_before = 0

    def take(self, entries: Sequence[StateEntry], lost_count: int) -> None:
        """Go on reading; so many entries before these are damaged."""
        for key, value in entries:
            if key == BEGIN:
                self._unfinished, self._begins_at = [], len(self.changes)
                self._lost_before = lost_count
            elif key == END:
                if self._unfinished is not None and lost_count == self._lost_before:
                    self.snapshot, self.changes = self._unfinished, self.changes[self._begins_at :]
                self._unfinished = None
            elif value is None:
                continue
            elif not key.startswith(SNAPSHOT):
                self.changes.append((key, value))
            elif self._unfinished is not None:
                self._unfinished.append((key, value))
            elif not self.changes and not lost_count:  # from a file of an earlier version
                self.snapshot.append((key, value))


class Recovered(msgspec.Struct):
    """What the logs say."""

    book: DelayBook = msgspec.field(default_factory=DelayBook)
    unsaved: array[int] = msgspec.field(default_factory=lambda: array("q"))
    """Due times and ids in turn of messages that are in no slot file yet."""
    again: list[int] = msgspec.field(default_factory=list)
    """Messages that wait again; when they were due may be in no slot file."""
    cuts: list[Cut] = msgspec.field(default_factory=list)
    """To be stored before anything new comes."""


def recover(store: DelayStore, replay: DelayReplay, indexed: Indexed | None = None) -> Recovered:
    """Build everything from the logs: first the messages, then what became of them. Reads.

    In a cluster the slot files that the logs speak of are those of another node: `indexed` says
    what is here.
    """
    found = Recovered()
    book = found.book
    book.load(replay.snapshot)
    if indexed is not None:
        book.saved_ends, book.slot_sizes = indexed
    deltas = list(_decoded(replay.changes))
    for class_number in range(CLASSES):
        _add_messages(store, class_number, found)
    found.cuts = _cuts(book, deltas)
    for delta in _with_lost_releases(book, without_lost([*deltas, *found.cuts])):
        if isinstance(delta, Released):
            known = (book.intents.get(number) for number in delta.numbers)
            found.again += [each for intent in known if intent is not None for each in intent.ids]
        book.apply(delta)
    for class_number, partition in enumerate(store.partitions):
        book.forget_before(class_number, partition.log_start)
    return found


def _decoded(changes: Iterable[tuple[bytes, bytes]]) -> Iterator[Delta]:
    for key, value in changes:
        try:
            yield decode_delta(key, value)
        except CorruptDelayStateError:
            logger.exception("a change of delayed messages was skipped")


def _with_lost_releases(book: DelayBook, deltas: Iterable[Delta]) -> Iterator[Delta]:
    """Changes in their order, and before an intention the release of one that had its sequence.

    A sequence is given again only when the batch that had it was not appended. If the entry that
    says so is damaged, the messages of that batch would be taken for delivered.
    """
    numbers = {_sequence_of(intent): intent.number for intent in book.intents.values()}
    for delta in deltas:
        if isinstance(delta, Intent):
            number = numbers.get(_sequence_of(delta))
            if number in book.intents and number is not None:
                yield Released((number,))
            numbers[_sequence_of(delta)] = delta.number
        yield delta


def _sequence_of(intent: Intent) -> tuple[bytes, int, int, int]:
    return intent.topic_id, intent.partition, intent.epoch, intent.base_sequence


def _add_messages(store: DelayStore, class_number: int, found: Recovered) -> None:
    """The messages that the snapshot does not know, in runs of one topic, and when they are due."""
    book, log_start = found.book, store.partitions[class_number].log_start
    start = max(book.classes[class_number].end, log_start)
    first, count, topic_id = start, 0, b""
    unsaved = found.unsaved
    since = max(book.saved_ends[class_number], log_start)
    for offset, its_topic_id, due_ms in store.places(class_number, min(since, start)):
        unsaved.append(due_ms)
        unsaved.append(make_id(class_number, offset))
        if offset < start:
            continue
        if its_topic_id != topic_id or offset != first + count:
            if count:
                book.add(class_number, first, count, topic_id)
            first, count, topic_id = offset, 0, its_topic_id
        count += 1
    if count:
        book.add(class_number, first, count, topic_id)


def _cuts(book: DelayBook, deltas: list[Delta]) -> list[Cut]:
    """For each class whose log has lost messages of which something was said, where it ends."""
    lost = set()
    for delta in without_lost(deltas):
        if isinstance(delta, Intent | Ended):
            for delayed_id in delta.ids:
                class_number, offset = split_id(delayed_id)
                if offset >= book.classes[class_number].end:
                    lost.add(class_number)
    return [Cut(class_number, book.classes[class_number].end) for class_number in sorted(lost)]


class Targets:
    """Where messages were to go, as far as it is still there."""

    def __init__(self, topics: Topics, partitions: Partitions) -> None:
        self._topics = topics
        self._partitions = partitions

    def partition(self, topic_id: bytes, number: int) -> Partition | None:
        """The partition, led here or not; None when its topic is gone."""
        topic = self._topics.catalogue.by_id.get(UUID(bytes=topic_id))
        return None if topic is None else self._partitions.find(TopicPartition(topic.name, number))


def restore_half_done(
    store: DelayStore,
    book: DelayBook,
    intake: DelayIntake,
    repeats: RepeatedBatches,
    targets: Targets,
) -> None:
    """Recognise batches of which only the delayed messages were stored, should they be repeated."""
    for class_number, partition in enumerate(store.partitions):
        start = max(book.classes[class_number].end - LOOK_BACK, partition.log_start)
        for record, waiting in store.scan(class_number, start):
            if waiting.producer is not None:
                last = _last_sequence(waiting, targets)
                intake.restore(waiting, make_id(class_number, record.offset), last)
                repeats.note(waiting)


def restore_unconfirmed(
    store: DelayStore, book: DelayBook, unconfirmed: Unconfirmed, unit: int
) -> None:
    """Find the messages of which it is not known whether the rest of their batch was stored."""
    batches: dict[tuple[object, ...], UnconfirmedBatch] = {}
    firsts: dict[tuple[object, ...], int] = {}
    for class_number, partition in enumerate(store.partitions):
        start = max(book.confirmed[class_number], partition.log_start)
        for record, waiting in store.scan(class_number, start):
            delayed_id, producer = make_id(class_number, record.offset), waiting.producer
            if producer is None or producer.leader_epoch < 0 or not book.is_pending(delayed_id):
                continue
            number, origin = producer.number, Origin(producer.leader_epoch, producer.end_offset)
            place = waiting.topic_id, waiting.partition
            key = place, producer[:3], origin
            batch = batches.get(key)
            if batch is None:
                batch = batches[key] = UnconfirmedBatch(place, SplitBatch(*producer[:3], origin, 0))
            unconfirmed.add(batch, (delayed_id,))
            if number <= firsts.get(key, number):
                firsts[key] = number
                batch.split = batch.split._replace(first_id=public_id(unit, delayed_id))


def _last_sequence(waiting: Waiting, targets: Targets) -> int:
    partition = targets.partition(waiting.topic_id, waiting.partition)
    if partition is None or waiting.producer is None:
        return -1
    return partition.sequences.last_sequence(waiting.producer.producer_id, waiting.producer.epoch)
