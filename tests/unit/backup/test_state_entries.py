"""The state of coordinators in a backup, read as the shards of another broker store it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.backup.manifest import Part, PartitionCopy
from goqueue.backup.repository import Repository
from goqueue.backup.state_entries import entries_in, routed
from goqueue.delays.book import DelayBook
from goqueue.delays.deltas import Ended, ProducerGiven, encode_delta
from goqueue.delays.entries import DelayedState, make_id
from goqueue.delays.replay import DelayReplay
from goqueue.model.internal_topics import DELAY_STATE, QUEUE_STATE
from goqueue.records import Record, encode
from goqueue.state.log import BEGIN, END

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.state.log import StateEntry

TOPIC_ID = b"t" * 16
CHANGE = encode_delta(Ended(TOPIC_ID, DelayedState.CANCELLED, (make_id(0, 1),)))


def _copied(tmp_path: Path, entries: list[StateEntry]) -> tuple[Repository, PartitionCopy]:
    """The copy of a partition that holds these entries."""
    repository = Repository.open(str(tmp_path / "backups"), tmp_path / "data", makes=True)
    records = [Record(number, 0, *entry) for number, entry in enumerate(entries)]
    data = bytes(encode(records))
    file = repository.write("parts/of-a-test", [data])
    part = Part(file, 0, len(entries), len(data), 0, 0, 0, 0)
    return repository, PartitionCopy(0, 0, len(entries), (part,))


def _snapshot() -> list[StateEntry]:
    book = DelayBook()
    book.add(0, 0, 3, TOPIC_ID)
    book.saved_ends, book.slot_sizes = (3, 0, 0), {7: 96}
    return list(book.dump())


def _replayed(entries: list[StateEntry]) -> DelayReplay:
    replay = DelayReplay()
    route = routed(DELAY_STATE)
    replay.take([found[1] for each in entries if (found := route(each)) is not None], 0)
    return replay


def test_a_change_among_the_entries_of_a_snapshot_loses_none_of_them(tmp_path: Path) -> None:
    first, *others = _snapshot()
    stored = [encode_delta(ProducerGiven(5)), (BEGIN, b""), first, CHANGE, *others, (END, b"")]
    replay = _replayed(entries_in(*_with_topic(DELAY_STATE, _copied(tmp_path, stored))))
    assert replay.changes == [CHANGE]
    book = DelayBook()
    book.load(replay.snapshot)
    assert book.pending(TOPIC_ID) == 3


def test_a_restored_broker_reads_due_times_from_the_logs_and_misses_no_slot_file(
    tmp_path: Path,
) -> None:
    stored = [(BEGIN, b""), *_snapshot(), (END, b"")]
    replay = _replayed(entries_in(*_with_topic(DELAY_STATE, _copied(tmp_path, stored))))
    book = DelayBook()
    book.load(replay.snapshot)
    assert (book.saved_ends, book.slot_sizes) == ((0, 0, 0), {})


def test_what_lies_before_the_last_whole_snapshot_is_left_out(tmp_path: Path) -> None:
    one, two, three = [(name, b"") for name in (b"gone", b"gtwo", b"gthree")]
    stored = [one, (BEGIN, b""), two, (END, b""), (BEGIN, b""), three]
    found = entries_in(*_with_topic(QUEUE_STATE, _copied(tmp_path, stored)))
    assert found == [two, three]


def _with_topic(
    topic: str, copied: tuple[Repository, PartitionCopy]
) -> tuple[Repository, str, PartitionCopy]:
    return copied[0], topic, copied[1]
