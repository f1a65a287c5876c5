"""Who gets how much of what: limits, back-pressure, order, fairness, and shares of lanes."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import count
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st

from goqueue.partitions.lane_index import LaneIndex
from goqueue.queues.delivery import decisions, operations as ops
from goqueue.queues.delivery.group import QueueGroup, Source
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.delivery.queue import PartitionQueue
from goqueue.queues.delivery.settings import Mode, QueueSettings
from support.alone import alone

ALL = 1_000_000

TOPIC = UUID(int=7)
WEIGHTS = (50, 25, 15, 7, 3)
AVAILABLE, IN_FLIGHT, WAITING, DOOMED, SETTLED = MessageState
lane_lists = st.lists(st.integers(0, 4), min_size=1, max_size=60)


class Bench:
    """A group with a few partitions, every message of which has a lane that we know."""

    def __init__(self, partitions, **changes):
        self.group = QueueGroup("g", QueueSettings(**changes))
        self.lanes = [list(each) for each in partitions]
        self.now_ms = 0
        self.seeds = count()
        for number, lanes in enumerate(self.lanes):
            index = LaneIndex()
            index.note(0, lanes)
            self.group.apply((TOPIC, number), ops.Opened(0))
            self.queue(number).follow(index)

    def queue(self, number):
        return self.group.queues[TOPIC, number]

    def take(self, member, limit, partitions=None):
        """Poll; returns partition and offset of each message, in the order of the poll."""
        numbers = range(len(self.lanes)) if partitions is None else partitions
        sources = [Source((TOPIC, number), len(self.lanes[number])) for number in numbers]
        before = self.group.unacked.get(member, 0)
        found = []
        for (_, number), operation in self.taken(member, sources, limit):
            window = self.queue(number).window
            for lane, first, end in operation.ranges:
                assert set(self.lanes[number][first:end]) == {lane}
                for offset in range(first, end):
                    assert window.state(offset) is IN_FLIGHT
                    assert next(window.flights(offset, offset + 1))[2] == operation.lease
                    found.append((number, offset))
        assert len(found) == len(set(found)) <= max(limit, 0)
        assert self.group.unacked.get(member, 0) == before + len(found)
        self.check()
        return found

    def taken(self, member, sources, limit):
        """Reserve, decide that all of it is handed out, and make that true."""
        before = self.group.unacked.get(member, 0)
        reserved = self.group.reserve(member, sources, limit, self.now_ms)
        assert self.group.unacked.get(member, 0) == before, "nothing is taken yet"
        done = []
        for key, queue, reservation in reserved:
            seed = next(self.seeds).to_bytes(8, "big")
            operation = queue.taken(
                reservation.ranges, member, self.now_ms, 1000, seed, lease=reservation.lease
            )
            queue.apply(operation)
            self.group.end_reservation(queue, reservation, ())
            done.append((key, operation))
        return done

    def settle(self, found):
        for number, offset in found:
            self.queue(number).apply(ops.Settled([(offset, offset + 1)]))

    def apply(self, number, operations):
        for operation in operations:
            self.queue(number).apply(operation)

    def release(self, member):
        """Let a member be gone."""
        changes = self.group.release_member(member, self.now_ms, ALL)
        for (_, number), operations in changes.items():
            self.apply(number, operations)
        return changes

    def in_state(self, *states):
        return [
            (number, offset)
            for number, lanes in enumerate(self.lanes)
            for offset in range(len(lanes))
            if self.queue(number).window.state(offset) in states
        ]

    def check(self):
        unacked: Counter[str] = Counter()
        for queue in self.group.queues.values():
            queue.check_invariants()
            for lease in queue.window.leases.values():
                unacked[lease.member] += lease.left
        assert self.group.unacked == unacked


# --- Reservations ---------------------------------------------------------------------------------


@given(
    lane_lists,
    st.lists(
        st.tuples(st.sampled_from(["reserve", "take", "give back", "settle"]), st.integers(1, 9)),
        max_size=30,
    ),
)
@settings(deadline=None)
def test_what_is_reserved_is_offered_to_one_and_changes_nothing_until_it_is_taken(lanes, steps):
    """Against a twin that knows of each message only who it is reserved for, if anybody."""
    bench = Bench([lanes], max_unacked=1000)
    queue, source = bench.queue(0), Source((TOPIC, 0), len(lanes))
    pending, free = [], set(range(len(lanes)))
    for step, number in steps:
        if step == "reserve":
            reserved = bench.group.reserve("ann", [source], number, 0)
            offered = [at for _, _, each in reserved for at in offsets_of(each)]
            assert len(offered) == len(set(offered)) == min(number, len(free))
            assert set(offered) <= free
            free -= set(offered)
            pending += [each for _, _, each in reserved]
        elif step == "settle" and number <= len(lanes):
            queue.apply(ops.Settled([(0, number)]))
            free -= set(range(number))
        elif pending:
            reservation = pending.pop(number % len(pending))
            those = offsets_of(reservation)
            if step == "take":
                operation = queue.taken(
                    reservation.ranges, "ann", 0, 1000, b"s", lease=reservation.lease
                )
                queue.apply(operation)
                bench.group.end_reservation(queue, reservation, ())
            else:
                back = [(first, end) for _, first, end in reservation.ranges]
                bench.group.end_reservation(queue, reservation, back)
                free |= {at for at in those if queue.window.state(at) is AVAILABLE}
        held = {at for each in pending for at in offsets_of(each)}
        dumped = PartitionQueue(0, {})
        for _ in dumped.restore(queue.dump()):
            pass
        dumped.follow(queue._lanes)
        assert everything_in(dumped, len(lanes)) == free | {
            at for at in held if queue.window.state(at) is AVAILABLE
        }
        bench.check()


def offsets_of(reservation):
    return [at for _, first, end in reservation.ranges for at in range(first, end)]


def everything_in(queue, end):
    """What a queue that was loaded from a snapshot has to offer."""
    found = []
    for lane in range(5):
        for first, upto in queue.line.choose(queue.window, lane, end, end):
            found += range(first, upto)
    assert len(found) == len(set(found))
    return set(found)


# --- Limits ---------------------------------------------------------------------------------------


@given(
    st.lists(lane_lists, min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 50), st.integers(0, 5)), max_size=12),
)
@settings(deadline=None)
def test_a_poll_gets_as_much_as_there_is_and_may_be(partitions, polls):
    bench = Bench(partitions, max_unacked=30)
    for member, limit, settled in polls:
        there = len(bench.in_state(AVAILABLE))
        room = 30 - bench.group.unacked.get(member, 0)
        found = bench.take(member, limit)
        assert len(found) == min(limit, there, room)
        bench.settle(found[:settled])
        for number, offset in found[settled : 2 * settled]:
            bench.apply(number, [ops.Released([(offset, offset + 1)])])
        for number, offset in found[settled : settled + 2]:
            bench.settle([(number, offset)])


def test_a_member_that_has_enough_gets_no_more_until_it_is_done_with_something():
    bench = Bench([[2] * 50, [2] * 50], max_unacked=10)
    first = bench.take("ann", 7)
    assert len(bench.take("ann", 7)) == 3
    assert bench.take("ann", 7) == []
    assert len(bench.take("bob", 7)) == 7
    bench.settle(first[:2])
    assert len(bench.take("ann", 7)) == 2


@pytest.mark.parametrize("limit", [0, -1])
def test_who_asks_for_nothing_gets_nothing(limit):
    bench = Bench([[2] * 5])
    assert bench.take("ann", limit) == []
    assert bench.take("ann", 3, partitions=[]) == []


def test_a_lane_that_only_seemed_to_have_something_does_not_hide_the_others():
    bench = Bench([[0, 0, 2, 2]])
    found = bench.take("ann", 2)
    assert found == [(0, 0), (0, 1)]
    bench.apply(0, [ops.Released([(0, 2)])])
    bench.settle(found)
    assert bench.take("ann", 1) == [(0, 2)]


def test_a_partition_that_is_closed_gives_back_what_it_counted():
    bench = Bench([[2] * 10, [2] * 10])
    bench.take("ann", 15)
    queue = bench.queue(0)
    held = bench.queue(1).total(IN_FLIGHT)
    bench.group.close((TOPIC, 0))
    assert bench.group.unacked == {"ann": held}
    queue.apply(ops.Untaken([(0, 10)]))
    assert bench.group.unacked == {"ann": held}
    bench.group.close((TOPIC, 1))
    assert bench.group.unacked == {}


def test_what_a_member_had_is_there_for_others_once_it_is_gone():
    bench = Bench([[2] * 10, [0] * 10])
    bench.take("ann", 15)
    bench.take("bob", 2)
    changes = bench.release("ann")
    assert len(changes) == 2
    assert "ann" not in bench.group.unacked
    assert len(bench.take("bob", 100)) == 18
    assert bench.group.release_member("ann", 5, ALL) == {}


def test_messages_in_flight_cost_a_few_bytes_each():
    alone(measure_messages_in_flight)


def measure_messages_in_flight():
    """Taken a hundred at a time by many members, and every second one acknowledged."""
    amount = 30_000
    bench = Bench([[2] * amount])
    tracemalloc.start()
    try:
        for number in range(amount // 100):
            assert len(bench_take(bench, f"member-{number}", 100)) == 100
        taken_bytes = tracemalloc.get_traced_memory()[0]
        for offset in range(0, amount, 2):
            bench.queue(0).apply(ops.Settled([(offset, offset + 1)]))
        half_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken_bytes / amount < 30
    assert half_bytes <= taken_bytes + 4096
    bench.check()


# --- Order ----------------------------------------------------------------------------------------


@given(
    st.lists(lane_lists, min_size=1, max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from(["take", "ack", "nack", "release", "expire", "wake", "move"]),
            st.integers(0, 10),
            st.integers(1, 20),
        ),
        max_size=40,
    ),
)
@settings(deadline=None)
def test_owners_get_nothing_of_a_lane_before_what_came_earlier(partitions, steps):
    bench = Bench(partitions, mode=Mode.EXCLUSIVE, max_deliveries=200)
    owners = dict.fromkeys(range(len(partitions)), "a")
    for what, which, amount in steps:
        number = which % len(partitions)
        member = "ab"[which % 2]
        queue = bench.queue(number)
        held = [at for first, end in queue.held_by(member) for at in range(first, end)][:amount]
        if what == "take":
            mine = [each for each, owner in owners.items() if owner == member]
            check_order(bench, member, bench.take(member, amount, mine))
        elif what == "ack":
            bench.settle([(number, at) for at in held])
        elif what == "nack":
            said = decisions.postpone(queue, held, bench.group.settings, bench.now_ms)
            bench.apply(number, said)
        elif what == "release":
            said = decisions.release(queue, ops.ranges_of(held), bench.group.settings, 0)
            bench.apply(number, said)
        elif what == "expire":
            bench.now_ms += 100 * amount
            for ranges in queue.overdue(bench.now_ms):
                bench.apply(number, decisions.release(queue, ranges, bench.group.settings, 0))
        elif what == "wake":
            queue.wake(bench.now_ms, ALL)
        else:
            owners[number] = member
        bench.check()


def check_order(bench, member, found):
    latest = {}
    for number, offset in found:
        lane = bench.lanes[number][offset]
        assert latest.get((number, lane), -1) < offset
        latest[number, lane] = offset
    for (number, lane), offset in latest.items():
        window = bench.queue(number).window
        for at in range(offset):
            if bench.lanes[number][at] != lane:
                continue
            state = window.state(at)
            assert state in (IN_FLIGHT, SETTLED, DOOMED)
            if state is IN_FLIGHT:
                assert window.leases[next(window.flights(at, at + 1))[2]].member == member


def test_an_owner_waits_for_what_the_last_owner_still_has():
    bench = Bench([[2] * 10], mode=Mode.EXCLUSIVE)
    bench.take("ann", 2)
    assert bench.take("bob", 2) == []
    bench.release("ann")
    assert bench.take("bob", 2) == [(0, 0), (0, 1)]
    assert bench.take("bob", 2) == [(0, 2), (0, 3)]


def test_a_message_that_waits_holds_up_its_lane_and_no_other():
    bench = Bench([[0, 2, 0, 2]], mode=Mode.EXCLUSIVE)
    assert bench.take("ann", 1) == [(0, 0)]
    bench.apply(0, decisions.postpone(bench.queue(0), [0], bench.group.settings, 0))
    assert bench.take("ann", 9) == [(0, 1), (0, 3)]
    bench.queue(0).wake(10_000, ALL)
    assert bench.take("ann", 9) == [(0, 0), (0, 2)]


# --- Fairness -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "readers",
    [
        {"ann": [0, 1, 2]},
        {"ann": [0, 1, 2], "bob": [0, 1, 2]},
        {"ann": [0, 1], "bob": [2, 3]},
        {"ann": [0, 1], "bob": [0, 1, 2]},
        {"ann": [0, 1, 2, 3], "bob": [1, 3], "cat": [0, 2]},
    ],
    ids=str,
)
@pytest.mark.parametrize("limit", [1, 7, 50])
def test_no_partition_is_forgotten_for_another(readers, limit):
    bench = Bench([[2] * 4000] * 4, max_unacked=10**6)
    got: Counter[int] = Counter()
    for _ in range(60):
        for member, partitions in readers.items():
            got.update(number for number, _ in bench.take(member, limit, partitions))
    read = {number for partitions in readers.values() for number in partitions}
    fair = sum(got.values()) / len(read)
    assert set(got) == read
    assert all(0.7 * fair <= got[number] <= 1.3 * fair for number in read), got


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_partitions_with_the_same_readers_get_the_same(limit):
    bench = Bench([[2] * 4000] * 4, max_unacked=10**6)
    got: Counter[int] = Counter()
    for number in range(60):
        found = bench.take("ann" if number % 2 else "bob", limit)
        got.update(number for number, _ in found)
    assert got == dict.fromkeys(range(4), 15 * limit)


def test_members_that_come_and_go_do_not_all_begin_with_the_same_partition():
    bench = Bench([[2] * 100] * 5)
    got = [bench.take(f"member-{number}", 10)[0][0] for number in range(10)]
    assert Counter(got) == dict.fromkeys(range(5), 2)


# --- Shares ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("limit", [1, 3, 10, 64, 100, 999])
def test_lanes_get_their_shares_whatever_the_poll_size(limit, partitions, mode):
    """All lanes have plenty; some of what is handed out comes back and is handed out again."""
    each = [lane for _ in range(5000 // partitions) for lane in range(5)]
    bench = Bench([each] * partitions, max_unacked=10**9, mode=mode, max_deliveries=250)
    got: Counter[int] = Counter()
    polls = -(-4000 // limit)
    for number in range(polls):
        found = bench_take(bench, "ann", limit)
        got.update(bench.lanes[number][offset] for number, offset in found)
        if number % 3 == 0:
            for number_, offset in found[:: max(limit // 3, 1)]:
                bench.apply(number_, [ops.Released([(offset, offset + 1)])])
        else:
            bench.settle(found[::2])
    total = sum(got.values())
    assert total == polls * limit
    for lane, weight in enumerate(WEIGHTS):
        assert abs(got[lane] / total - weight / 100) <= 0.05 * weight / 100 + 1 / total


def bench_take(bench, member, limit):
    """`Bench.take` without its checks."""
    sources = [Source((TOPIC, number), len(lanes)) for number, lanes in enumerate(bench.lanes)]
    return [
        (number, offset)
        for (_, number), operation in bench.taken(member, sources, limit)
        for _, first, end in operation.ranges
        for offset in range(first, end)
    ]


def test_members_of_a_shared_group_share_the_lanes_too():
    bench = Bench([[lane for _ in range(3000) for lane in range(5)]], max_unacked=10**6)
    got: Counter[int] = Counter()
    for _ in range(1000):
        for member, limit in (("ann", 1), ("bob", 4)):
            found = bench_take(bench, member, limit)
            got.update(bench.lanes[number][offset] for number, offset in found)
    assert [got[lane] for lane in range(5)] == [2500, 1250, 750, 350, 150]


def test_a_lane_without_a_weight_is_served_when_it_has_starved():
    lanes = [0] * 1000 + [4] * 10
    bench = Bench([lanes], weights=(50, 25, 15, 7, 0), starvation_ms=30_000)
    assert (0, 1000) not in bench.take("ann", 20)
    bench.now_ms = 29_999
    assert (0, 1000) not in bench.take("ann", 20)
    bench.now_ms = 30_000
    assert (0, 1000) in bench.take("ann", 1)


def test_other_weights_count_from_the_next_poll_on():
    bench = Bench([[lane for _ in range(300) for lane in range(5)]], max_unacked=10**6)
    bench.take("ann", 100)
    bench.group.configure(QueueSettings(weights=(0, 0, 0, 1, 1), max_unacked=10**6))
    found = bench.take("ann", 100)
    assert Counter(bench.lanes[0][at] for _, at in found) == {3: 50, 4: 50}
