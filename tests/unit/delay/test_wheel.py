"""The timing wheel against a sorted list: whatever happens, both fire the same timers in order."""

from __future__ import annotations

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.delays.due.wheel import AT_ONCE, SPAN_MS, TICK_MS, Wheel
from goqueue.model.errors import DelayError
from support.effort import examples

START_MS = 1_700_000_000_003
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
DELAYS = st.one_of(
    st.integers(-50, 3 * SECOND),
    st.integers(0, 4 * MINUTE),
    st.integers(0, 4 * HOUR),
    st.integers(0, 20 * DAY),
    st.sampled_from([2560, 2570, 163_840, 10_485_760, SPAN_MS, SPAN_MS + 1]),
)
IDS = st.integers(0, 12)


def fired(wheel, now_ms):
    """Everything that is due, as the wheel gives it."""
    return [timer_id for some in wheel.advance(now_ms) for timer_id in some]


class Twin:
    """The dumbest thing that does the same: a dictionary, sorted when time moves."""

    def __init__(self, now_ms):
        self.due, self.tick = {}, now_ms // TICK_MS

    def schedule(self, timer_id, due_ms):
        self.due[timer_id] = (due_ms, max(-(-due_ms // TICK_MS), self.tick + 1))

    def advance(self, now_ms):
        self.tick = max(self.tick, now_ms // TICK_MS)
        fired = sorted(
            (tick, due_ms, timer_id)
            for timer_id, (due_ms, tick) in self.due.items()
            if tick <= self.tick
        )
        for _, _, timer_id in fired:
            del self.due[timer_id]
        return [timer_id for _, _, timer_id in fired]


class WheelAndTwin(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now_ms = START_MS
        self.wheel, self.twin = Wheel(START_MS), Twin(START_MS)

    @rule(timer_id=IDS, delay_ms=DELAYS)
    def schedule(self, timer_id, delay_ms):
        self.wheel.schedule(timer_id, self.now_ms + delay_ms)
        self.twin.schedule(timer_id, self.now_ms + delay_ms)

    @rule(timer_id=IDS)
    def cancel(self, timer_id):
        assert self.wheel.cancel(timer_id) == (self.twin.due.pop(timer_id, None) is not None)

    @rule(timer_id=IDS, delay_ms=DELAYS)
    def reschedule(self, timer_id, delay_ms):
        if timer_id in self.twin.due:
            self.wheel.schedule(timer_id, self.now_ms + delay_ms)
            self.twin.schedule(timer_id, self.now_ms + delay_ms)

    @rule(timer_id=IDS)
    def reschedule_to_the_next_tick(self, timer_id):
        if timer_id in self.twin.due:
            self.wheel.schedule(timer_id, self.wheel.now_ms)
            self.twin.schedule(timer_id, self.twin.tick * TICK_MS)

    @rule(step_ms=DELAYS)
    def advance(self, step_ms):
        self.now_ms += step_ms
        assert fired(self.wheel, self.now_ms) == self.twin.advance(self.now_ms)

    @rule(after_ms=DELAYS, length_ms=DELAYS)
    def look_ahead(self, after_ms, length_ms):
        first, last = self.now_ms + after_ms, self.now_ms + after_ms + length_ms
        found = {each for some in self.wheel.due_between(first, last) for each in some}
        assert found == {
            timer_id for timer_id, (due_ms, _) in self.twin.due.items() if first < due_ms <= last
        }

    @invariant()
    def they_hold_the_same(self):
        self.wheel.check_invariants()
        assert dict(self.wheel) == {key: due_ms for key, (due_ms, _) in self.twin.due.items()}
        hint = self.wheel.next_due_hint()
        if self.twin.due:
            assert hint is not None
            assert self.wheel.now_ms < hint
            assert hint <= min(tick for _, tick in self.twin.due.values()) * TICK_MS
        else:
            assert hint is None


WheelAndTwin.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestWheelAndTwin = WheelAndTwin.TestCase


@pytest.mark.parametrize("delay_ms", [0, 1, 5, 9, 10, 11, 2559, 2560, 2561, 163_839, 10_485_761])
@pytest.mark.parametrize("start_ms", [0, 7, 2559, 2560, START_MS])
def test_a_timer_is_never_early_and_at_most_one_tick_late(start_ms, delay_ms):
    wheel = Wheel(start_ms)
    due_ms = start_ms + delay_ms
    wheel.schedule(1, due_ms)
    assert fired(wheel, due_ms - 1) == []
    late_ms = next(late for late in range(TICK_MS + 1) if fired(wheel, due_ms + late))
    assert late_ms <= TICK_MS


def test_a_delay_shorter_than_a_tick_does_not_wait_for_the_wheel_to_come_round():
    wheel = Wheel(1000)
    wheel.schedule(1, 1003)
    assert wheel.next_due_hint() == 1010
    assert fired(wheel, 1010) == [1]


def test_a_timer_taken_away_while_its_bucket_is_drained_neither_fires_nor_stays():
    wheel = Wheel(0)
    for timer_id in range(100):
        wheel.schedule(timer_id, 50)
    came = fired(wheel, 49)
    assert wheel.cancel(7)
    assert not wheel.cancel(7)
    came += fired(wheel, 50)
    assert 7 not in came
    assert len(came) == 99
    assert not wheel.cancel(8)  # it has fired: whoever takes it away learns so
    assert len(wheel) == 0
    wheel.check_invariants()
    assert sum(wheel.stats.per_level) == 0


def test_timers_come_down_through_every_level_and_keep_their_time():
    wheel = Wheel(0)
    delays = {level: width + 12_345 for level, width in enumerate((0, 2560, 163_840, 10_485_760))}
    for level, delay_ms in delays.items():
        wheel.schedule(level, delay_ms)
    assert wheel.stats.per_level == (0, 2, 1, 1)
    for level, delay_ms in delays.items():
        due_ms = -(-delay_ms // TICK_MS) * TICK_MS
        assert fired(wheel, due_ms - 1) == []
        assert fired(wheel, due_ms) == [level]
    assert wheel.stats.cascades >= 4


def test_a_timer_beyond_the_span_of_the_wheel_waits_for_it():
    wheel = Wheel(0)
    wheel.schedule(1, 30 * DAY)
    assert fired(wheel, 30 * DAY - TICK_MS) == []
    assert fired(wheel, 30 * DAY) == [1]


def test_what_is_left_behind_in_buckets_goes_when_its_time_comes():
    wheel = Wheel(0)
    for round_number in range(10_000):
        wheel.schedule(1, HOUR + round_number)
    assert fired(wheel, HOUR + 10_000) == [1]
    assert sum(wheel.stats.per_level) == 0


@pytest.mark.parametrize("delay_ms", [5 * SECOND, 4 * MINUTE, 4 * HOUR])
def test_many_timers_that_are_due_at_once_are_drawn_some_at_a_time_and_in_order(delay_ms):
    wheel, many = Wheel(0), 3 * AT_ONCE + 7
    for timer_id in reversed(range(many)):
        wheel.schedule(timer_id, delay_ms + timer_id % 3)
    drawn = []
    for some in wheel.advance(delay_ms + 10):
        assert len(some) <= AT_ONCE
        drawn += some
        if len(wheel):
            wheel.schedule(many, 2 * delay_ms)  # others have their turn
    assert drawn == sorted(range(many), key=lambda each: (each % 3, each))
    assert fired(wheel, 2 * delay_ms) == [many]


def test_a_long_sleep_costs_as_much_as_what_happened_in_it():
    wheel = Wheel(0)
    wheel.schedule(1, 7 * DAY)
    assert fired(wheel, 400 * DAY) == [1]
    wheel.schedule(2, 0)
    assert fired(wheel, 401 * DAY) == [2]


def test_time_that_goes_back_changes_nothing():
    wheel = Wheel(10_000)
    wheel.schedule(1, 10_500)
    assert fired(wheel, 10_200) == []
    assert fired(wheel, 5_000) == []
    assert wheel.now_ms == 10_200
    assert fired(wheel, 10_500) == [1]


def test_there_was_no_time_before_the_first():
    with pytest.raises(DelayError):
        Wheel(0).schedule(1, -1)
