"""What becomes of messages that were not acknowledged."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, strategies as st

from goqueue.model.dead_letters import Reason
from goqueue.model.errors import CorruptQueueStateError
from goqueue.partitions.lane_index import LaneIndex
from goqueue.queues.delivery import decisions, operations as ops
from goqueue.queues.delivery.queue import PartitionQueue
from goqueue.queues.delivery.settings import QueueSettings

SETTINGS = QueueSettings(max_deliveries=3, backoff_ms=1000, max_backoff_ms=60_000, max_waiting=10)


def queue_of(count=100, deliveries=1):
    """Everything is with ann, in the delivery of that number."""
    lanes = LaneIndex()
    lanes.advance_to(count)
    queue = PartitionQueue(0, {})
    queue.follow(lanes)
    for number in range(deliveries):
        if number:
            queue.apply(ops.Released([(0, count)]))
        queue.apply(queue.taken([(2, 0, count)], "ann", 0, 1000, b"seed"))
    return queue


@pytest.mark.parametrize(
    ("deliveries", "wait_ms"),
    [(0, 1000), (1, 1000), (2, 2000), (3, 4000), (6, 32_000), (7, 60_000), (250, 60_000)],
)
def test_the_wait_doubles_up_to_its_longest(deliveries, wait_ms):
    assert SETTINGS.backoff(deliveries) == wait_ms


def test_a_message_waits_the_longer_the_more_often_it_was_delivered():
    assert decisions.postpone(queue_of(), [4], SETTINGS, 50) == [ops.Postponed([(4, 1050)])]
    twice = queue_of(deliveries=2)
    assert decisions.postpone(twice, [4], SETTINGS, 50) == [ops.Postponed([(4, 2050)])]


def test_a_member_may_say_how_long_a_message_is_to_wait():
    found = decisions.postpone(queue_of(), [4], SETTINGS, 50, delay_ms=0, error="busy")
    assert found == [ops.Postponed([(4, 50)], "busy")]


def test_the_last_delivery_was_the_last():
    queue = queue_of(deliveries=3)
    dead = ops.Doomed([(4, 6)], Reason.MAX_RETRIES_EXCEEDED, 50, "no")
    assert decisions.postpone(queue, [5, 4], SETTINGS, 50, error="no") == [dead]
    assert decisions.release(queue, [(4, 6)], SETTINGS, 50, "no") == [dead]


def test_more_than_may_wait_is_dead_at_once():
    queue = queue_of()
    for operation in decisions.postpone(queue, range(8), SETTINGS, 0):
        queue.apply(operation)
    waiting, dead = decisions.postpone(queue, [10, 11, 12], SETTINGS, 0)
    assert isinstance(waiting, ops.Postponed)
    assert [offset for offset, _ in waiting.due] == [10, 11]
    assert dead == ops.Doomed([(12, 13)], Reason.BACKPRESSURE, 0)


def test_a_group_that_wants_no_dead_letters_is_done_with_its_dead():
    settings = msgspec.structs.replace(SETTINGS, dead_letters=False)
    assert decisions.doom([3, 2], Reason.REJECTED, settings, 0) == [ops.Settled([(2, 4)])]


def test_nothing_happens_to_nothing():
    queue = queue_of()
    assert decisions.doom([], Reason.REJECTED, SETTINGS, 0) == []
    assert decisions.postpone(queue, [], SETTINGS, 0) == []
    assert decisions.release(queue, [], SETTINGS, 0) == []
    assert decisions.extend(queue, [], 0) == []


def test_only_what_is_in_flight_is_released():
    queue = queue_of(20)
    queue.apply(ops.Settled([(3, 6)]))
    for operation in decisions.postpone(queue, [8], SETTINGS, 0):
        queue.apply(operation)
    (released,) = decisions.release(queue, [(0, 50)], SETTINGS, 0)
    assert released == ops.Released([(0, 3), (6, 8), (9, 20)])


def test_what_is_released_together_may_be_partly_spent():
    queue = queue_of(20)
    queue.apply(ops.Released([(5, 10)]))
    queue.apply(queue.taken([(2, 5, 10)], "ann", 0, 1000, b"seed"))
    once = msgspec.structs.replace(SETTINGS, max_deliveries=2)
    back, dead = decisions.release(queue, [(0, 20)], once, 7)
    assert back == ops.Released([(0, 5), (10, 20)])
    assert dead == ops.Doomed([(5, 10)], Reason.MAX_RETRIES_EXCEEDED, 7)


def test_messages_of_several_leases_are_extended_under_as_many():
    queue = queue_of(10)
    queue.apply(ops.Released([(4, 6)]))
    queue.apply(queue.taken([(2, 4, 6)], "bob", 20, 1000, b"other"))
    for operation in decisions.extend(queue, [(3, 7)], 9000):
        queue.apply(operation)
    queue.check_invariants()
    leases = {
        at: queue.window.leases[next(queue.window.flights(at, at + 1))[2]] for at in range(10)
    }
    assert [leases[at].deadline_ms for at in range(2, 8)] == [1000, *[9000] * 4, 1000]
    assert [leases[at].member for at in range(3, 7)] == ["ann", "bob", "bob", "ann"]
    assert [leases[at].at_ms for at in range(3, 7)] == [0, 20, 20, 0]


def test_a_shorter_time_is_kept_too():
    queue = queue_of(10)
    for operation in decisions.extend(queue, [(3, 4)], 5):
        queue.apply(operation)
    assert queue.next_deadline_ms() == 5
    assert list(queue.overdue(5)) == [[(3, 4)]]


offsets = st.lists(st.integers(0, 40))


@given(offsets)
def test_offsets_in_any_order_become_the_fewest_ranges(offsets):
    ranges = ops.ranges_of(offsets)
    assert [at for first, end in ranges for at in range(first, end)] == sorted(set(offsets))
    assert all(first < end for first, end in ranges)
    assert all(one[1] < two[0] for one, two in pairwise(ranges))


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda x: (x[0], sum(x)))))
def test_ranges_in_any_order_become_the_fewest(ranges):
    said = [at for first, end in ranges for at in range(first, end)]
    assert ops.joined(ranges) == ops.ranges_of(said)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_operations_are_corrupt_and_nothing_else(data):
    try:
        decoded = ops.decode(data)
    except CorruptQueueStateError:
        return
    assert ops.decode(ops.encode(decoded)) == decoded


def test_an_operation_stored_before_it_had_all_its_fields_is_understood():
    old = msgspec.msgpack.encode([["u", [[3, 5]]], ["w", [[7, 99]]]])
    assert ops.decode(old) == [ops.Untaken([(3, 5)]), ops.Postponed([(7, 99)])]
