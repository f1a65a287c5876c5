"""Which messages are next: the oldest of each lane that may be handed out."""

from __future__ import annotations

from array import array

from hypothesis import given, settings, strategies as st

from goqueue.partitions.lane_index import LaneIndex
from goqueue.queues.delivery.leases import Lease
from goqueue.queues.delivery.line import LANES, Line
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.delivery.window import Window

NORMAL = 2


def line_of(lanes=(), end=1000, start=0):
    index = LaneIndex()
    index.note(0, list(lanes))
    index.advance_to(end)
    return Line(start, index), Window(start, {})


def take(line, window, lane, count, until):
    """Choose and take; returns the offsets."""
    ranges = line.choose(window, lane, count, until)
    if ranges:
        (number,) = window.unused_leases(1, 1)
        window.add_lease(number, Lease("ann", 0, 0))
        for first, end in ranges:
            window.take(first, end, number, array("Q", bytes(8 * (end - first))))
            line.taken(window, lane, first, end)
    return [at for first, end in ranges for at in range(first, end)]


def give_back(line, window, first, end):
    window.put(first, end, MessageState.AVAILABLE)
    line.put_back(first, end)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 4), st.integers(1, 30)),
        st.tuples(st.just("back"), st.integers(0, 119), st.integers(1, 20)),
        st.tuples(st.just("settle"), st.integers(0, 119), st.integers(1, 20)),
        st.tuples(st.just("publish"), st.integers(1, 20), st.just(0)),
    ),
    max_size=40,
)


@given(st.lists(st.integers(0, 4), min_size=120, max_size=120), steps)
@settings(deadline=None)
def test_the_oldest_of_a_lane_that_are_there_are_chosen(lanes, steps):
    line, window = line_of(lanes)
    available, flying = set(range(120)), set()
    until = 40
    for what, one, two in steps:
        these = set(range(one, one + two))
        if what == "take":
            mine = sorted(at for at in available if lanes[at] == one and at < until)[:two]
            assert line.ready(until, two)[one] >= len(mine)
            assert take(line, window, one, two, until) == mine
            available -= set(mine)
            flying |= set(mine)
        elif what == "back":
            for at in these & flying:
                give_back(line, window, at, at + 1)
            available |= these & flying
            flying -= these
        elif what == "settle":
            window.put(one, one + two, MessageState.SETTLED)
            available -= these
            flying -= these
        else:
            until = min(until + one, 120)
        line.check_invariants()
    for lane in range(LANES):
        left = sorted(at for at in available if lanes[at] == lane)
        assert take(line, window, lane, 1000, 120) == left
        assert line.ready(120, 1000)[lane] == 0


def test_what_was_never_handed_out_is_counted_without_looking_at_all_of_it():
    line, _ = line_of(end=10**12)
    assert line.ready(10**12, 100) == [0, 0, 100, 0, 0]


def test_what_came_back_goes_first():
    line, window = line_of()
    assert take(line, window, NORMAL, 10, 1000) == list(range(10))
    give_back(line, window, 7, 9)
    give_back(line, window, 2, 4)
    assert take(line, window, NORMAL, 3, 1000) == [2, 3, 7]
    assert take(line, window, NORMAL, 3, 1000) == [8, 10, 11]


def test_neighbours_are_one_range():
    line, window = line_of()
    take(line, window, NORMAL, 10, 1000)
    for at in (5, 3, 4):
        give_back(line, window, at, at + 1)
    assert line.choose(window, NORMAL, 3, 1000) == [(3, 6)]


def test_each_message_comes_back_in_its_lane():
    line, window = line_of([0, 4, 0, 4, 2, 2])
    assert take(line, window, 0, 9, 6) == [0, 2]
    assert take(line, window, 4, 9, 6) == [1, 3]
    give_back(line, window, 0, 4)
    assert line.ready(6, 9) == [2, 0, 2, 0, 2]
    assert take(line, window, 4, 9, 6) == [1, 3]


def test_a_long_gap_of_settled_messages_is_passed_over():
    line, window = line_of(end=10_000_000)
    window.put(1, 9_000_000, MessageState.SETTLED)
    assert take(line, window, NORMAL, 2, 10_000_000) == [0, 9_000_000]


def test_a_settled_beginning_is_not_looked_at():
    line, window = line_of(end=10**12)
    window.put(0, 10**11, MessageState.SETTLED)
    assert take(line, window, NORMAL, 1, 10**12) == [10**11]


def test_what_came_back_and_was_settled_is_not_chosen():
    line, window = line_of()
    take(line, window, NORMAL, 10, 1000)
    give_back(line, window, 0, 10)
    window.put(0, 5, MessageState.SETTLED)
    window.put(6, 7, MessageState.SETTLED)
    assert line.choose(window, NORMAL, 3, 10) == [(5, 6), (7, 9)]


def test_a_line_that_only_hears_of_takes_knows_what_is_left():
    line, window = line_of()
    take(line, window, NORMAL, 20, 1000)
    give_back(line, window, 0, 20)
    follower, _ = line_of()
    follower.load(line.dump(window)[0])
    follower.follow(follower._lanes, window, ())
    window.add_lease(99, Lease("bob", 0, 0))
    window.take(5, 8, 99, array("Q", bytes(24)))
    follower.taken(window, NORMAL, 5, 8)
    follower.check_invariants()
    assert follower.ready(20, 100)[NORMAL] == 17
    assert follower.choose(window, NORMAL, 100, 20) == [(0, 5), (8, 20)]


def test_what_was_reserved_before_others_were_handed_out_is_offered_after_a_replay():
    """A replay learns of messages that were handed out, not of those reserved before them."""
    line, window = line_of([2] * 120)
    window.add_lease(1, Lease("ann", 0, 0))
    window.take(10, 20, 1, array("Q", bytes(80)))
    line.taken(window, NORMAL, 10, 20)
    assert take(line, window, NORMAL, 15, 120) == [*range(10), *range(20, 25)]


@given(
    st.lists(st.integers(0, 4), min_size=60, max_size=60),
    st.lists(st.integers(0, 4), min_size=60, max_size=60),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 30)), max_size=12),
    st.lists(st.integers(0, 59), max_size=20),
)
@settings(deadline=None)
def test_nothing_is_lost_between_indexes_that_do_not_agree(before, after, takes, back):
    """Replicas may know the lane of a message differently: one has forgotten more runs."""
    line, window = line_of(before, end=60)
    flying = {at for lane, count in takes for at in take(line, window, lane, count, 60)}
    for at in flying.intersection(back):
        give_back(line, window, at, at + 1)
    other = LaneIndex()
    other.note(0, after)
    line.follow(other, window, ())
    line.check_invariants()
    left = set(range(60)) - flying.difference(back)
    found = [at for lane in range(LANES) for at in take(line, window, lane, 60, 60)]
    assert sorted(found) == sorted(left)


def test_what_is_reserved_is_not_offered_to_others_by_another_index():
    line, window = line_of()
    line.choose(window, NORMAL, 10, 1000)
    other = LaneIndex()
    other.advance_to(1000)
    line.follow(other, window, [(2, 5), (0, 1)])
    assert take(line, window, NORMAL, 12, 1000) == [1, *range(5, 16)]
