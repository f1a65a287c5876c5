"""The lanes of a partition, held against a dictionary from offset to priority."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.model.delivery import PRIORITY_HEADER, Priority
from goqueue.model.errors import CorruptQueueStateError, InvariantError
from goqueue.partitions.lane_index import LaneIndex, priorities_of, priority_of
from goqueue.records import Record
from support.effort import examples

CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = (int(each) for each in Priority)
EVERY_LANE = range(5)

priorities = st.lists(st.sampled_from([0, 1, 2, 2, 2, 3, 4]), max_size=12)


def described(*noted):
    index = LaneIndex()
    for first, lanes in noted:
        index.note(first, lanes)
    return index


class Twin:
    """Remembers each offset on its own."""

    def __init__(self):
        self.start = 0
        self.end = 0
        self.lanes: dict[int, int] = {}

    def note(self, first, lanes):
        """What is said of known offsets must be what is known of them; False when it is not."""
        said = dict(enumerate(lanes, first))
        known = {at: self.lanes.get(at, NORMAL) for at in said if self.start <= at < self.end}
        if any(said[at] != lane for at, lane in known.items()):
            return False
        self.lanes |= {at: lane for at, lane in said.items() if at >= self.end}
        self.end = max(self.end, first + len(lanes)) if lanes else self.end
        return True

    def keep(self, start, end):
        self.lanes = {at: lane for at, lane in self.lanes.items() if start <= at < end}

    def ranges(self, lane, start, until):
        found: list[tuple[int, int]] = []
        for at in range(start, until):
            if self.lanes.get(at, NORMAL) != lane:
                continue
            if found and found[-1][1] == at:
                found[-1] = (found[-1][0], at + 1)
            else:
                found.append((at, at + 1))
        return found


class LaneIndexMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.index = LaneIndex()
        self.twin = Twin()

    @rule(gap=st.integers(0, 3), lanes=priorities)
    def note_what_was_appended(self, gap, lanes):
        first = self.twin.end + gap
        assert self.twin.note(first, lanes)
        self.index.note(first, lanes)

    @rule(gap=st.integers(0, 3), lane=st.sampled_from(EVERY_LANE))
    def note_one(self, gap, lane):
        assert self.twin.note(self.twin.end + gap, [lane])
        self.index.note_at(self.twin.end - 1, lane)

    @rule(back=st.integers(1, 20), lanes=priorities)
    def read_a_part_of_the_log_again(self, back, lanes):
        first = max(self.twin.end - back, 0)
        known = [self.twin.lanes.get(at, NORMAL) for at in range(first, self.twin.end)]
        assert self.twin.note(first, known + lanes)
        self.index.note(first, known + lanes)

    @rule(back=st.integers(1, 20), lanes=priorities)
    def note_something_late(self, back, lanes):
        first = max(self.twin.end - back, 0)
        if self.twin.note(first, lanes):
            self.index.note(first, lanes)
        else:
            with pytest.raises(InvariantError):
                self.index.note(first, lanes)

    @rule(ahead=st.integers(-5, 5))
    def read_batches_without_priorities(self, ahead):
        self.twin.end = max(self.twin.end, self.twin.end + ahead)
        self.index.advance_to(self.twin.end)

    @rule(back=st.integers(-2, 15))
    def lose_the_tail(self, back):
        end = max(self.twin.end - back, 0)
        self.index.truncate_to(end)
        self.twin.end = min(self.twin.end, end)
        self.twin.start = min(self.twin.start, end)
        self.twin.keep(0, end)

    @rule(ahead=st.integers(-3, 15))
    def retain_less(self, ahead):
        start = max(self.twin.start + ahead, 0)
        self.index.forget_before(start)
        self.twin.start = max(self.twin.start, start)
        self.twin.end = max(self.twin.end, self.twin.start)
        self.twin.keep(self.twin.start, self.twin.end)

    @rule()
    def restart(self):
        dumped, self.index = self.index.dump(), LaneIndex()
        self.index.load(dumped)
        assert self.index.dump() == dumped

    @rule(low=st.integers(0, 150), length=st.integers(-3, 60))
    def ask_for_a_part(self, low, length):
        self._compare_part(low, low + length)

    @invariant()
    def everything_is_as_the_twin_has_it(self):
        self.index.check_invariants()
        assert (self.index.start, self.index.end) == (self.twin.start, self.twin.end)
        top = self.twin.end + 3
        assert [self.index.lane_of(at) for at in range(top)] == [
            self.twin.lanes.get(at, NORMAL) for at in range(top)
        ]
        self._compare_part(0, top)

    @invariant()
    def memory_is_per_run(self):
        runs = [self.twin.ranges(lane, 0, self.twin.end) for lane in EVERY_LANE if lane != NORMAL]
        assert len(self.index) == sum(map(len, runs))

    def _compare_part(self, start, until):
        for lane in EVERY_LANE:
            expected = self.twin.ranges(lane, start, until)
            assert list(self.index.runs(lane, start, until)) == expected
            assert self._walked(lane, start, until) == expected
        assert self.index.counts(start, until) == tuple(
            sum(end - first for first, end in self.twin.ranges(lane, start, until))
            for lane in EVERY_LANE
        )

    def _walked(self, lane, start, until):
        found = []
        while (run := self.index.next_run(lane, start, until)) is not None:
            assert start <= run[0] < run[1] <= until  # or this would be endless
            found.append(run)
            start = run[1]
        return found


TestLaneIndexMachine = LaneIndexMachine.TestCase
TestLaneIndexMachine.settings = settings(max_examples=examples(80), stateful_step_count=30)


def test_a_topic_without_priorities_costs_nothing():
    index = described((0, [NORMAL] * 5000))

    assert len(index) == 0
    assert list(index.runs(NORMAL, 10, 4000)) == [(10, 4000)]
    assert len(index.dump()) < 100


def test_equal_priorities_of_neighbouring_batches_are_one_run():
    index = described((0, [HIGH] * 100), (100, [HIGH] * 100), (200, [LOW]))

    assert len(index) == 2
    assert list(index.runs(HIGH, 0, 201)) == [(0, 200)]


def test_an_offset_that_was_left_out_is_normal():
    index = described((5, [CRITICAL]), (9, [CRITICAL]))

    assert list(index.runs(NORMAL, 0, 12)) == [(0, 5), (6, 9), (10, 12)]


def test_reading_a_batch_again_changes_nothing():
    index = described((0, [HIGH, NORMAL, LOW]))
    before = index.dump()

    index.note(0, [HIGH, NORMAL, LOW])

    assert index.dump() == before


def test_a_batch_that_reaches_past_what_is_known_is_taken_down_from_there():
    index = described((0, [HIGH, NORMAL]))

    index.note(1, [NORMAL, HIGH, HIGH])

    assert list(index.runs(HIGH, 0, 10)) == [(0, 1), (2, 4)]


def test_another_lane_for_a_known_offset_is_refused_and_changes_nothing():
    index = described((0, [HIGH, NORMAL, LOW]))
    before = index.dump()

    with pytest.raises(InvariantError, match="offset 1"):
        index.note(0, [HIGH, CRITICAL, LOW, LOW])

    assert index.dump() == before


def test_a_batch_noted_after_its_successor_is_noticed_and_its_messages_stay_normal():
    index = described((10, [HIGH] * 5))

    with pytest.raises(InvariantError):
        index.note(0, [HIGH] * 10)

    assert sum(index.counts(0, 15)) == 15
    assert index.counts(0, 15)[NORMAL] == 10


@pytest.mark.parametrize(("first", "lane"), [(0, 5), (0, -1), (-1, 0)])
def test_what_is_no_lane_or_no_offset_is_refused(first, lane):
    index = LaneIndex()

    with pytest.raises(InvariantError):
        index.note(first, [HIGH, lane])

    assert len(index) == 0


def test_a_log_that_lost_its_tail_can_give_its_offsets_other_lanes():
    index = described((0, [HIGH] * 10))

    index.truncate_to(4)
    index.note(4, [LOW] * 3)

    assert [index.lane_of(at) for at in range(8)] == [HIGH] * 4 + [LOW] * 3 + [NORMAL]


def test_beyond_the_limit_messages_wait_in_the_normal_lane_and_are_counted():
    index = LaneIndex(max_runs=2)

    index.note(0, [HIGH, NORMAL, HIGH, HIGH, NORMAL, LOW, LOW, NORMAL])
    index.note(0, [HIGH, NORMAL, HIGH, HIGH, NORMAL, LOW, LOW, NORMAL])

    index.check_invariants()
    assert index.counts(0, 8) == (0, 3, 5, 0, 0)
    assert index.demoted == 2
    reloaded = LaneIndex()
    reloaded.load(index.dump())
    assert reloaded.demoted == 2


def test_at_the_limit_a_run_can_still_grow():
    index = LaneIndex(max_runs=1)

    index.note(0, [HIGH])
    index.note(1, [HIGH])

    assert index.counts(0, 2)[HIGH] == 2


def test_a_run_is_found_at_once_behind_a_hundred_thousand_of_another_lane():
    index = described((0, [HIGH, NORMAL, LOW, NORMAL] * 50_000), (200_000, [BACKGROUND]))
    looks = CountingArray.install(index, BACKGROUND)

    assert index.next_run(BACKGROUND, 0, 300_000) == (200_000, 200_001)
    assert looks.count < 40
    assert index.next_run(NORMAL, 150_002, 300_000) == (150_003, 150_004)


def test_the_next_normal_message_is_found_at_once_behind_runs_that_touch():
    index = described((0, [HIGH, LOW] * 100_000))

    assert len(index._covered) == 1
    assert index.next_run(NORMAL, 0, 300_000) == (200_000, 300_000)


class CountingArray:
    """Stands where the ends of a lane's runs are, and counts how often they are looked at."""

    def __init__(self, values):
        self.values = values
        self.count = 0

    def __len__(self):
        return len(self.values)

    def __getitem__(self, at):
        self.count += 1
        return self.values[at]

    @classmethod
    def install(cls, index, lane):
        runs = index._lanes[lane]
        runs._ends = cls(runs._ends)
        return runs._ends


def test_a_run_costs_at_most_32_bytes_of_memory_and_a_few_in_a_snapshot():
    index = described((0, [HIGH, NORMAL] * 50_000))

    arrays = [each for runs in index._all_runs() for each in (runs._firsts, runs._ends)]
    assert sum(each.itemsize * len(each) for each in arrays) <= 32 * len(index)
    assert len(index.dump()) < 5 * len(index)


def test_a_snapshot_holds_offsets_and_runs_of_any_size():
    index = described((2**40, [HIGH] * 300), (2**62, [LOW, HIGH]))
    loaded = LaneIndex()

    loaded.load(index.dump())

    assert list(loaded.runs(HIGH, 0, 2**63)) == [(2**40, 2**40 + 300), (2**62 + 1, 2**62 + 2)]
    loaded.check_invariants()


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7), cut=st.integers(0, 50))
def test_a_damaged_snapshot_is_refused_and_nothing_changes(at, bit, cut):
    dumped = bytearray(described((0, [HIGH, LOW, NORMAL, CRITICAL] * 5)).dump())
    dumped[at % len(dumped)] ^= 1 << bit
    index = described((0, [BACKGROUND]))

    with pytest.raises(CorruptQueueStateError):
        index.load(bytes(dumped[: len(dumped) - cut]))

    assert index.counts(0, 1)[BACKGROUND] == 1


def record(*texts: bytes | None) -> Record:
    return Record(0, 0, None, b"v", tuple((PRIORITY_HEADER, text) for text in texts))


@pytest.mark.parametrize(
    ("texts", "lane"),
    [
        ([], NORMAL),
        ([b"high"], HIGH),
        ([b" Critical "], CRITICAL),
        ([b"4"], BACKGROUND),
        ([b"high", b"low"], LOW),
        ([b"low", b"nonsense"], NORMAL),
        ([b"\xff\xfe"], NORMAL),
        ([None], NORMAL),
        ([b""], NORMAL),
        ([b"7"], NORMAL),
    ],
)
def test_the_last_header_says_the_priority_and_nonsense_is_normal(texts, lane):
    assert priority_of(record(*texts).headers) == lane
    assert priorities_of([record(b"low"), record(*texts)]) == [LOW, lane]


def test_other_headers_say_nothing_about_the_priority():
    assert priority_of((("priority", b"high"), (PRIORITY_HEADER, b"low"), ("x", b"0"))) == LOW
