"""The fair choice among lanes, held against a slow scheduler that serves one message at a time."""

from __future__ import annotations

import copy
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.model.errors import InvalidGroupRequestError, InvariantError
from goqueue.model.limits import MAX_LANE_WEIGHT
from goqueue.queues.delivery.scheduler import Scheduler, Weights
from support.effort import examples

CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(5)
EVERY_LANE = range(5)
WEIGHTS = (50, 25, 15, 7, 3)
POLL_SIZES = (1, 2, 3, 7, 10, 64, 100, 1000)
PLENTY = (10**9,) * 5
ROUND = sum(WEIGHTS)

some_weights = st.one_of(
    st.just(WEIGHTS),
    st.tuples(*[st.integers(0, 9)] * 5).filter(any),
    st.tuples(*[st.sampled_from([0, 0, 1, 2, MAX_LANE_WEIGHT])] * 5).filter(any),
)
some_ready = st.tuples(*[st.one_of(st.just(0), st.integers(0, 5), st.integers(0, 150))] * 5)


def flat(plan):
    return [lane for lane, count in plan for _ in range(count)]


def drawn(scheduler, limits, ready=PLENTY, now_ms=0):
    """The lanes of the messages of polls of those sizes, one after the other."""
    return [lane for limit in limits for lane in flat(scheduler.plan(ready, limit, now_ms))]


def shares(lanes):
    return [lanes.count(lane) for lane in EVERY_LANE]


class SlowScheduler:
    """A deficit for each lane, as the textbook has it, and one decision a message."""

    def __init__(self, weights, starvation_ms):
        self.configure(weights, starvation_ms)
        self.since: list[Any] = [None] * 5
        self.served = [0] * 5
        self.last_served = [None] * 5
        self.boosts = [0] * 5

    def configure(self, weights, starvation_ms):
        self.weights = weights
        self.starvation_ms = starvation_ms
        self.begin_a_round()

    def begin_a_round(self):
        self.deficits = [Fraction(0)] * 5
        self.visited = None

    def plan(self, ready, limit, now_ms):
        if limit == 0:
            return []
        left = list(ready)
        self.look(left, now_ms)
        waiting = sorted((self.since[lane], lane) for lane in EVERY_LANE if left[lane])
        too_long = now_ms - self.starvation_ms
        starving = [lane for since, lane in waiting if self.starvation_ms and since <= too_long]
        if len(waiting) < 2:
            starving = []
        if not waiting:
            self.begin_a_round()
        chosen = []
        while any(left) and len(chosen) < limit:
            lane = self.boost(starving.pop(0)) if starving else self.choose(left)
            left[lane] -= 1
            chosen.append(lane)
        for lane in set(chosen):
            self.served[lane] += chosen.count(lane)
            self.last_served[lane] = now_ms
            self.since[lane] = now_ms if left[lane] else None
        return chosen

    def look(self, ready, now_ms):
        for lane in EVERY_LANE:
            if not ready[lane]:
                self.since[lane] = None
            elif self.since[lane] is None:
                self.since[lane] = now_ms

    def boost(self, lane):
        self.boosts[lane] += 1
        return lane

    def choose(self, left):
        contenders = [lane for lane in EVERY_LANE if left[lane] and self.weights[lane]]
        if len(contenders) < 2:
            self.begin_a_round()
            return (contenders or [lane for lane in EVERY_LANE if left[lane]])[0]
        for lane in EVERY_LANE:
            if not left[lane]:
                self.deficits[lane] = Fraction(0)
        while self.visited is None or self.deficits[self.visited] <= 0:
            self.visited = 0 if self.visited is None else (self.visited + 1) % 5
            if left[self.visited]:
                self.deficits[self.visited] += self.weights[self.visited]
        self.deficits[self.visited] -= 1
        return self.visited


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now_ms = 0
        self.fast = Scheduler(WEIGHTS, 1000)
        self.slow = SlowScheduler(WEIGHTS, 1000)

    @rule(
        ready=some_ready,
        limit=st.one_of(st.integers(0, 5), st.integers(0, 400)),
        passed_ms=st.sampled_from([0, 1, 400, 1000]),
        capped=st.booleans(),
    )
    def poll(self, ready, limit, passed_ms, capped):
        self.now_ms += passed_ms
        self._both(ready, limit, capped)

    @rule(ready=some_ready, limit=st.integers(1, 300), part=st.fractions(0, 1))
    def poll_and_take_only_a_part(self, ready, limit, part):
        before = copy.deepcopy(self.slow)
        count = len(self._both(ready, limit, False))
        taken = int(count * part)
        self.fast.took(taken)
        if taken < count:
            self.slow = before
            if not self.slow.plan(ready, taken, self.now_ms):
                self.slow.look(ready, self.now_ms)

    @rule(weights=some_weights, starvation_ms=st.sampled_from([0, 500, 1000]))
    def configure(self, weights, starvation_ms):
        self.fast.configure(weights, starvation_ms)
        self.slow.configure(weights, starvation_ms)

    @invariant()
    def state_is_the_same(self):
        self.fast.check_invariants()
        stats = self.fast.stats()
        assert [each.served for each in stats] == self.slow.served
        assert [each.boosts for each in stats] == self.slow.boosts
        assert [each.last_served_ms for each in stats] == self.slow.last_served
        assert [each.waiting_since_ms for each in stats] == self.slow.since

    def _both(self, ready, limit, capped):
        if capped:
            ready = tuple(min(count, limit) for count in ready)
        plan = self.fast.plan(ready, limit, self.now_ms)
        chosen = self.slow.plan(ready, limit, self.now_ms)
        assert flat(plan) == chosen
        assert len(chosen) == min(limit, sum(ready))
        assert all(count <= there for count, there in zip(shares(chosen), ready, strict=True))
        assert all(count > 0 for _, count in plan)
        assert all(one[0] != other[0] for one, other in pairwise(plan))
        return chosen


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(max_examples=examples(150), stateful_step_count=25)


# --- Shares -------------------------------------------------------------------------------------


def assert_fair(lanes, weights):
    """At no moment has a lane got more than one turn more or less than its exact share."""
    total = sum(weights)
    got = [0] * 5
    for number, lane in enumerate(lanes, 1):
        got[lane] += 1
        off = abs(got[lane] - Fraction(number * weights[lane], total))
        assert off <= weights[lane]
    for lane in EVERY_LANE:
        exact = Fraction(len(lanes) * weights[lane], total)
        assert abs(got[lane] - exact) <= exact / 20


@pytest.mark.parametrize("size", POLL_SIZES)
@pytest.mark.parametrize("capped", [False, True])
def test_shares_follow_the_weights_whatever_the_poll_size(size, capped):
    ready = (size,) * 5 if capped else PLENTY

    lanes = drawn(Scheduler(), [size] * (8000 // size), ready)

    assert_fair(lanes, WEIGHTS)


@given(limits=st.lists(st.sampled_from(POLL_SIZES), min_size=20, max_size=60))
@settings(max_examples=20, deadline=None)
def test_shares_follow_the_weights_under_any_mixture_of_poll_sizes(limits):
    while sum(limits) < 4000:
        limits = limits + limits
    assert_fair(drawn(Scheduler(), limits), WEIGHTS)


@given(weights=some_weights, limits=st.lists(st.integers(1, 200), max_size=12))
def test_the_order_does_not_depend_on_how_it_is_split_into_polls(weights, limits):
    in_parts = drawn(Scheduler(weights, 0), limits)
    in_one = drawn(Scheduler(weights, 0), [sum(limits)])
    one_by_one = drawn(Scheduler(weights, 0), [1] * sum(limits))

    assert in_parts == in_one == one_by_one


def test_lanes_that_are_empty_leave_their_share_to_the_others_by_weight():
    lanes = drawn(Scheduler(), [7] * 1000, (0, 10**9, 0, 10**9, 0))

    assert_fair(lanes, (0, 25, 0, 7, 0))


def test_the_most_urgent_lane_comes_first_in_each_round():
    lanes = drawn(Scheduler(), [3 * ROUND])

    assert all(lanes[start : start + 50] == [CRITICAL] * 50 for start in (0, ROUND, 2 * ROUND))


def test_a_more_urgent_lane_is_served_first_when_both_have_little():
    assert Scheduler().plan((0, 2, 3, 0, 1), 10, 0) == [(HIGH, 2), (NORMAL, 3), (BACKGROUND, 1)]


def test_an_empty_lane_saves_nothing_up():
    scheduler = Scheduler()
    drawn(scheduler, [10], PLENTY)
    drawn(scheduler, [10] * 500, (0, 10**9, 10**9, 10**9, 10**9))

    lanes = drawn(scheduler, [1] * 4 * ROUND)

    assert abs(shares(lanes)[CRITICAL] - 4 * 50) <= 50
    assert longest_streak(lanes, CRITICAL) == 50


def longest_streak(lanes, wanted):
    longest = streak = 0
    for lane in lanes:
        streak = streak + 1 if lane == wanted else 0
        longest = max(longest, streak)
    return longest


# --- One lane -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", EVERY_LANE)
@pytest.mark.parametrize("weights", [WEIGHTS, (1, 0, 0, 0, 0)])
def test_a_lane_that_is_alone_gets_everything_whatever_its_weight(lane, weights):
    ready = [0] * 5
    ready[lane] = 700

    scheduler = Scheduler(weights)

    assert scheduler.plan(ready, 1000, 0) == [(lane, 700)]
    assert scheduler.plan(ready, 300, 10**6) == [(lane, 300)]
    assert scheduler.stats()[lane].boosts == 0


def test_something_urgent_is_next_after_a_lane_was_alone():
    scheduler = Scheduler()
    drawn(scheduler, [1, 9, 30], (0, 0, 100, 0, 0))

    assert scheduler.plan((1, 0, 100, 0, 0), 5, 0) == [(CRITICAL, 1), (NORMAL, 4)]


def test_nothing_ready_is_nothing_planned():
    scheduler = Scheduler()

    assert scheduler.plan((0,) * 5, 100, 0) == []
    assert scheduler.plan(PLENTY, 0, 0) == []
    scheduler.took(0)


# --- Starvation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", POLL_SIZES)
@pytest.mark.parametrize("every_ms", [50, 250, 7000, 45_000])
@pytest.mark.parametrize("weight", [0, 3])
def test_a_lane_behind_a_saturated_one_is_served_within_the_bound(size, every_ms, weight):
    scheduler = Scheduler((1000, 0, 0, 0, weight), 30_000)
    waits_since = 0
    for now_ms in range(0, 100_000, every_ms):
        if BACKGROUND in dict(scheduler.plan((size, 0, 0, 0, size), size, now_ms)):
            waits_since = now_ms
        # It can be noticed and served at a poll only, and its clock starts at one.
        assert now_ms - waits_since < 30_000 + 2 * every_ms


def test_a_boost_is_one_message_before_everything_else():
    scheduler = Scheduler((50, 0, 0, 0, 0), 30_000)
    scheduler.plan(PLENTY, 1, 0)

    assert BACKGROUND not in drawn(scheduler, [5], now_ms=29_999)
    assert scheduler.plan((9, 0, 0, 0, 9), 5, 30_000) == [(BACKGROUND, 1), (CRITICAL, 4)]
    assert scheduler.plan((9, 0, 0, 0, 9), 5, 59_999) == [(CRITICAL, 5)]
    assert scheduler.stats()[BACKGROUND].boosts == 1


def test_a_boost_costs_the_lane_nothing_of_its_share():
    scheduler = Scheduler(WEIGHTS, 30_000)
    scheduler.plan(PLENTY, 1, 0)

    lanes = drawn(scheduler, [5 + ROUND], now_ms=30_000)

    assert lanes[:5] == [CRITICAL, HIGH, NORMAL, LOW, BACKGROUND]
    assert shares(lanes) == [weight + 1 for weight in WEIGHTS]


def test_of_several_starving_lanes_the_longest_waiting_is_first_so_that_none_starves():
    scheduler = Scheduler((1, 0, 0, 0, 0), 100)
    lanes = [flat(scheduler.plan((1,) * 5, 1, now_ms))[0] for now_ms in range(0, 50_000, 1000)]

    assert all(set(lanes[at : at + 10]) == set(EVERY_LANE) for at in range(40))


def test_a_lane_with_nothing_ready_is_not_starving():
    scheduler = Scheduler((1, 0, 0, 0, 0), 30_000)
    scheduler.plan((9, 0, 0, 0, 9), 1, 0)
    scheduler.plan((9, 0, 0, 0, 0), 1, 10_000)

    assert scheduler.plan((9, 0, 0, 0, 9), 1, 35_000) == [(CRITICAL, 1)]
    assert scheduler.plan((9, 0, 0, 0, 9), 1, 64_999) == [(CRITICAL, 1)]
    assert scheduler.plan((9, 0, 0, 0, 9), 1, 65_000) == [(BACKGROUND, 1)]


def test_a_lane_waits_from_when_it_is_first_seen_to_be_ready():
    scheduler = Scheduler((1, 0, 0, 0, 0), 30_000)
    scheduler.plan((9, 0, 0, 0, 9), 1, 1000)
    scheduler.plan((9, 0, 0, 0, 9), 1, 2000)

    assert scheduler.plan((9, 0, 0, 0, 9), 1, 31_000) == [(BACKGROUND, 1)]


def test_without_the_guard_a_lane_of_weight_zero_waits_for_the_others_to_be_empty():
    scheduler = Scheduler((1, 1, 0, 0, 0), 0)

    assert set(drawn(scheduler, [100] * 10, now_ms=10**9)) == {CRITICAL, HIGH}
    assert scheduler.plan((1, 2, 3, 4, 0), 9, 0) == [
        (CRITICAL, 1),
        (HIGH, 2),
        (NORMAL, 3),
        (LOW, 3),
    ]


def test_a_clock_that_falls_back_stops_nobody():
    scheduler = Scheduler((1, 0, 0, 0, 0), 30_000)
    scheduler.plan((9, 0, 0, 0, 9), 1, 10**9)

    assert scheduler.plan((9, 0, 0, 0, 9), 1, 0) == [(CRITICAL, 1)]
    assert scheduler.plan((9, 0, 0, 0, 9), 1, 29_999) == [(CRITICAL, 1)]
    assert scheduler.plan((9, 0, 0, 0, 9), 1, 30_000) == [(BACKGROUND, 1)]


# --- Handing out less than was planned ------------------------------------------------------------


@given(parts=st.lists(st.tuples(st.integers(1, 300), st.integers(0, 300)), max_size=30))
@example(parts=[(300, 1)] * 30)
def test_what_was_not_taken_is_planned_again_in_the_same_order(parts):
    scheduler, got = Scheduler(), []
    for limit, taken in parts:
        planned = drawn(scheduler, [limit])[:taken]
        scheduler.took(len(planned))
        got += planned

    assert got == drawn(Scheduler(), [len(got)])
    assert [each.served for each in scheduler.stats()] == shares(got)


def test_a_lane_that_got_nothing_after_all_goes_on_starving():
    scheduler = Scheduler((1, 0, 0, 0, 0), 30_000)
    scheduler.plan((9, 0, 0, 0, 9), 1, 0)
    scheduler.plan((9, 0, 0, 0, 9), 1, 29_999)

    for _ in range(3):
        assert scheduler.plan((9, 0, 0, 0, 9), 2, 30_000)[0] == (BACKGROUND, 1)
        scheduler.took(0)

    assert scheduler.stats()[BACKGROUND] == (0, 0, None, 0)


def test_a_list_that_changes_after_the_plan_does_not_disturb_it():
    scheduler, ready = Scheduler(), [60, 60, 0, 0, 0]
    scheduler.plan(ready, 100, 0)
    ready[CRITICAL] = 0

    scheduler.took(60)

    assert [each.served for each in scheduler.stats()] == [50, 10, 0, 0, 0]


@pytest.mark.parametrize("count", [-1, 11])
def test_more_than_was_planned_cannot_have_been_taken(count):
    scheduler = Scheduler()
    scheduler.plan(PLENTY, 10, 0)

    with pytest.raises(InvariantError):
        scheduler.took(count)


# --- Settings, statistics, ends -----------------------------------------------------------------


@pytest.mark.parametrize(
    "weights",
    [
        (),
        (1,) * 4,
        (1,) * 6,
        (0,) * 5,
        (1, 1, 1, 1, -1),
        (MAX_LANE_WEIGHT + 1, 1, 1, 1, 1),
        (1.5,) * 5,
    ],
)
def test_weights_that_make_no_sense_are_refused(weights):
    scheduler = Scheduler()

    with pytest.raises(InvalidGroupRequestError, match="weights"):
        scheduler.configure(weights, 0)

    assert scheduler._weights == Weights(*WEIGHTS)


def test_a_negative_starvation_time_is_refused():
    with pytest.raises(InvalidGroupRequestError, match="starvation_ms"):
        Scheduler(WEIGHTS, -1)


@pytest.mark.parametrize("ready", [(1, 2), (1, 2, 0, 0, -1), (0, 0, 0, 0, -1), (1,) * 6])
def test_counts_that_make_no_sense_are_noticed(ready):
    with pytest.raises(InvariantError):
        Scheduler().plan(ready, 10, 0)


def test_new_weights_hold_at_once():
    scheduler = Scheduler()
    drawn(scheduler, [30])

    scheduler.configure((1, 1, 1, 1, 1), 500)

    assert drawn(scheduler, [5]) == [0, 1, 2, 3, 4]
    assert scheduler._starvation_ms == 500


def test_statistics_say_what_each_lane_got_and_since_when_it_waits():
    scheduler = Scheduler()
    scheduler.plan((10, 0, 5, 0, 0), 12, 100)
    scheduler.plan((0, 0, 3, 0, 0), 1, 250)

    stats = scheduler.stats()

    assert [each.served for each in stats] == [10, 0, 3, 0, 0]
    assert [each.last_served_ms for each in stats] == [100, None, 250, None, None]
    assert [each.waiting_since_ms for each in stats] == [None, None, 250, None, None]


def test_no_counter_wraps_around_and_no_plan_is_endless():
    scheduler = Scheduler((1, 1, 1, 1, 1), 1)
    for now_ms in range(2000):
        scheduler.plan((2**70,) * 5, 7, now_ms)
        scheduler.check_invariants()
    alone = scheduler.plan((0, 0, 2**70, 0, 0), 2**64, 0)

    assert alone == [(NORMAL, 2**64)]
    assert scheduler.stats()[NORMAL].served > 2**64


@pytest.mark.parametrize("lane", EVERY_LANE)
def test_the_only_lane_with_a_weight_being_empty_stops_nobody(lane):
    weights = [0] * 5
    weights[lane] = MAX_LANE_WEIGHT
    ready = [10**12] * 5
    ready[lane] = 0

    plan = Scheduler(weights, 0).plan(ready, 10**12, 0)

    assert sum(count for _, count in plan) == 10**12
    assert len(plan) == 1
