"""What a job remembers: every offset is done once, wherever the job is killed."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from goqueue.spark.errors import DataLossError, OptionsError
from goqueue.spark.jobs.ledger import Entries, Ledger, Piece, open_ledger
from goqueue.spark.jobs.link import TopicRange
from goqueue.spark.jobs.messages import share_evenly, share_out
from goqueue.spark.jobs.moments import as_ms
from goqueue.spark.jobs.topics.copying import MessageSelection
from goqueue.spark.lake.disk import Disk

ranges = st.dictionaries(
    st.integers(0, 5), st.tuples(st.integers(0, 30), st.integers(0, 40)), min_size=1
).map(lambda found: [TopicRange(n, start, start + size) for n, (start, size) in found.items()])


def offsets(some):
    return [(each.partition, at) for each in some for at in range(each.start, each.end)]


class Taker:
    """Counts a number once, as a topic and a table do."""

    def __init__(self):
        self.numbers = {}

    def take(self, app, piece):
        return self.numbers.setdefault((app, piece.number), piece)


@given(ranges, st.integers(1, 25), st.lists(st.sampled_from(["begun", "taken", "done"])))
def test_wherever_it_is_killed_each_offset_is_taken_once(there, max_rows, fates):
    taker, stored = Taker(), Entries({})
    fates = iter([*fates, *["done"] * 1000])
    while True:
        ledger = Ledger(stored)  # what a new run finds
        piece, lost = ledger.next_piece(there, max_rows)
        assert not lost
        if piece is None:
            break
        assert 0 < piece.size <= max_rows
        ledger.begin(piece)
        fate = next(fates)
        if fate == "begun":
            continue
        assert taker.take(stored.app, piece) == piece  # the same rows each time
        if fate == "done":
            ledger.finish(piece.size, 1)
    taken = [each for piece in taker.numbers.values() for each in offsets(piece.ranges)]
    assert Counter(taken) == Counter(offsets(there))
    assert stored.rows == len(taken)
    assert ledger.left(there) == 0
    by_partition = {}
    for number, at in taken:
        assert by_partition.get(number, -1) < at  # in order
        by_partition[number] = at


@example([TopicRange(0, 0, 0), TopicRange(1, 0, 0)], 2)
@given(ranges, st.integers(1, 7))
def test_partitions_are_shared_out_whole(there, groups):
    found = share_out(there, groups)
    assert sorted(
        (each for group in found for each in group), key=lambda each: each.partition
    ) == sorted(there, key=lambda each: each.partition)
    assert all(found)
    assert len(found) <= groups


@example([TopicRange(0, 0, 1_000_000), *(TopicRange(n, 0, 1) for n in range(1, 16))], 16)
@given(ranges, st.integers(1, 16))
def test_no_group_with_a_share_of_a_rate_has_far_more_than_its_share(there, groups):
    found = share_evenly(there, groups)
    assert sorted((e for group in found for e in group), key=lambda e: e.partition) == sorted(
        there, key=lambda e: e.partition
    )
    sizes = [sum(each.size for each in group) for group in found]
    assert max(sizes) * len(found) <= 1.25 * sum(sizes)


def test_a_rate_is_shared_by_as_many_tasks_as_have_enough_to_do():
    even = [TopicRange(number, 0, 10) for number in range(8)]
    assert len(share_evenly(even, 4)) == 4
    assert len(share_evenly([TopicRange(0, 0, 10), TopicRange(1, 0, 1000)], 4)) == 1


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_MS = 1_769_860_800_000


def test_so_long_ago_is_the_same_moment_for_every_run_of_a_job(tmp_path):
    wanted = MessageSelection(start=timedelta(hours=6), keys=(b"k",))
    assert wanted.identity() == MessageSelection(start=timedelta(hours=6), keys=(b"k",)).identity()
    assert wanted.identity() != MessageSelection(start=timedelta(hours=5), keys=(b"k",)).identity()
    with open_ledger(tmp_path, wanted.identity()) as ledger:
        first = wanted.filters(ledger)
        noted: Any = ledger.entries.notes
        noted["times"][0] -= 1000  # as if it had been a second before
        ledger.store()
    with open_ledger(tmp_path, wanted.identity()) as ledger:
        assert wanted.filters(ledger).start_ms == first.start_ms - 1000
        assert (first.end_ms, first.keys) == (None, (b"k",))


@pytest.mark.parametrize(
    ("moment", "wanted_ms"),
    [
        (None, None),
        (17, 17),
        (NOON, NOON_MS),
        (datetime(2026, 1, 31, 13, tzinfo=timezone(timedelta(hours=1))), NOON_MS),
        (NOON + timedelta(microseconds=1), NOON_MS + 1),  # the message at noon is before it
        (NOON - timedelta(microseconds=1), NOON_MS),
        (timedelta(hours=1), NOON_MS - 3_600_000),
    ],
)
def test_a_moment_is_the_first_millisecond_from_then_on(moment, wanted_ms):
    assert as_ms(moment, now_ms=NOON_MS) == wanted_ms


def test_a_ledger_is_as_it_was_when_it_is_opened_again(tmp_path):
    with open_ledger(tmp_path, {"job": "one"}) as ledger:
        ledger.entries.settled = [TopicRange(0, 3, 9)]
        ledger.entries.notes["x"] = 1
        piece, _ = ledger.next_piece(ledger.entries.settled, 4)
        ledger.begin(piece)
    with open_ledger(tmp_path, {"job": "one"}) as again:
        assert again.entries == ledger.entries
        again.finish(4, 10)
    with open_ledger(tmp_path, {"job": "one"}) as third:
        assert third.entries.done == {0: 7}
        assert third.entries.under_way is None


class UnsyncedDisk(Disk):
    """Knows which folders have changed since they were synced: a loss of power takes that away."""

    def __init__(self):
        self.changed = set()

    def _rename(self, source, target):
        super()._rename(source, target)
        self.changed.add(target.parent)

    def sync_folder(self, folder):
        super().sync_folder(folder)
        self.changed.discard(folder)


def test_what_was_begun_or_finished_is_not_forgotten_when_power_is_lost(tmp_path):
    """Else its number would come again with other offsets, of which none would count."""
    disk = UnsyncedDisk()
    with open_ledger(tmp_path / "deep" / "checkpoint", {}, disk) as ledger:
        piece, _ = ledger.next_piece([TopicRange(0, 0, 5)], 10)
        ledger.begin(piece)
        assert not disk.changed
        ledger.finish(5, 50)
        assert not disk.changed


def test_offsets_that_are_gone_before_they_are_done_are_named():
    ledger = Ledger(Entries({}, done={0: 5, 1: 9}))
    there = [TopicRange(0, 8, 20), TopicRange(1, 9, 10)]
    with pytest.raises(DataLossError, match="offsets 5 to 7 of partition 0 were deleted"):
        ledger.next_piece(there, 100)
    piece, lost = ledger.next_piece(there, 100, fails_on_loss=False)
    assert piece.ranges == tuple(there)
    assert lost == ["offsets 5 to 7 of partition 0"]


def test_what_is_gone_of_a_piece_that_was_begun_is_named_and_the_rest_is_still_to_be_done():
    begun = Piece(3, (TopicRange(0, 0, 10), TopicRange(1, 0, 10)))
    ledger = Ledger(Entries({}, under_way=begun, done={1: 0}))
    there = [TopicRange(0, 4, 20), TopicRange(1, 0, 20)]
    with pytest.raises(DataLossError, match="offsets 0 to 3 of partition 0 were deleted"):
        ledger.next_piece(there, 100)
    assert ledger.next_piece(there, 100, fails_on_loss=False) == (
        begun,
        ["offsets 0 to 3 of partition 0"],
    )


def test_a_checkpoint_is_one_jobs_and_one_runs(tmp_path):
    with open_ledger(tmp_path, {"job": "one", "rate": 1}) as ledger:
        ledger.store()
        with (
            pytest.raises(OptionsError, match="another run is using"),
            open_ledger(tmp_path, {"job": "one", "rate": 1}),
        ):
            pass
    with (
        pytest.raises(OptionsError, match="another job: job was 'one' and is 'two'; rate was 1"),
        open_ledger(tmp_path, {"job": "two"}),
    ):
        pass
    for text in ("{", json.dumps({"format": 2})):
        (tmp_path / "ledger.json").write_text(text)
        with (
            pytest.raises(OptionsError, match=r"ledger\.json (cannot be read|was written by)"),
            open_ledger(tmp_path, {}),
        ):
            pass
