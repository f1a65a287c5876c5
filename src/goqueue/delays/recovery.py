"""What a start finds out about delayed messages: who waits, since when, and who was on the way."""

from __future__ import annotations

import logging
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

from goqueue.delays.book import SNAPSHOT, DelayBook, slot_sizes
from goqueue.delays.deltas import Cut, Ended, Intent, Released, decode_delta, without_lost
from goqueue.delays.entries import CLASSES, make_id, split_id
from goqueue.model.errors import CorruptDelayStateError, TopicError
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.delays.deltas import Delta
    from goqueue.delays.entries import Waiting
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


@dataclass(slots=True)
class Recovered:
    """What the logs say."""

    book: DelayBook = field(default_factory=DelayBook)
    unsaved: array[int] = field(default_factory=lambda: array("q"))
    """Due times and ids in turn of messages that came after the last snapshot."""
    again: list[int] = field(default_factory=list)
    """Messages that wait again; when they were due may be in no slot file."""
    cuts: list[Cut] = field(default_factory=list)
    """To be stored before anything new comes."""
    saved_ends: tuple[int, ...] = (0,) * CLASSES
    """Where the logs ended at the last snapshot."""
    slot_sizes: dict[int, int] = field(default_factory=dict)
    """How many bytes each slot had then."""


def recover(store: DelayStore, entries: Iterable[tuple[bytes, bytes | None]]) -> Recovered:
    """Build everything from the logs: first the messages, then what became of them."""
    found = Recovered()
    book = found.book
    snapshot, deltas = _split(entries)
    book.load(snapshot)
    found.slot_sizes = slot_sizes(snapshot)
    found.saved_ends = tuple(states.end for states in book.classes)
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


def _split(
    entries: Iterable[tuple[bytes, bytes | None]],
) -> tuple[list[tuple[bytes, bytes]], list[Delta]]:
    snapshot: list[tuple[bytes, bytes]] = []
    deltas: list[Delta] = []
    for key, value in entries:
        if value is None:
            continue
        if key.startswith(SNAPSHOT):
            snapshot.append((key, value))
            continue
        try:
            deltas.append(decode_delta(key, value))
        except CorruptDelayStateError:
            logger.exception("a change of delayed messages is left out")
    return snapshot, deltas


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


def _sequence_of(intent: Intent) -> tuple[bytes, int, int]:
    return intent.topic_id, intent.partition, intent.base_sequence


def _add_messages(store: DelayStore, class_number: int, found: Recovered) -> None:
    """The messages behind the snapshot, in runs of one topic."""
    start = max(found.book.classes[class_number].end, store.partitions[class_number].log_start)
    first, count, topic_id = start, 0, b""
    unsaved = found.unsaved
    for offset, its_topic_id, due_ms in store.places(class_number, start):
        if its_topic_id != topic_id or offset != first + count:
            if count:
                found.book.add(class_number, first, count, topic_id)
            first, count, topic_id = offset, 0, its_topic_id
        count += 1
        unsaved.append(due_ms)
        unsaved.append(make_id(class_number, offset))
    if count:
        found.book.add(class_number, first, count, topic_id)


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
        """The partition; None when its topic is gone."""
        try:
            topic = self._topics.catalogue.topic_with_id(UUID(bytes=topic_id))
            return self._partitions.partition(TopicPartition(topic.name, number))
        except TopicError:
            return None


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


def _last_sequence(waiting: Waiting, targets: Targets) -> int:
    partition = targets.partition(waiting.topic_id, waiting.partition)
    if partition is None or waiting.producer is None:
        return -1
    return partition.sequences.last_sequence(waiting.producer.producer_id, waiting.producer.epoch)
