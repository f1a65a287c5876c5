"""The inbox alone: what is in hand, what is finished, and what may be committed."""

from __future__ import annotations

from goqueue.client.inbox import Inbox
from goqueue.client.types import Message
from goqueue.model.topic_partition import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def message(place: TopicPartition, offset: int) -> Message:
    return Message(*place, offset, 0, None, b"v")


def full() -> Inbox:
    inbox = Inbox()
    inbox.put([message(A, 0), message(B, 5), message(A, 1)])
    return inbox


def test_messages_are_taken_in_the_order_they_came():
    inbox = full()
    taken = [inbox.take() for _ in range(4)]
    assert [each and each.offset for each in taken] == [0, 5, 1, None]


def test_a_message_in_hand_is_not_finished_until_the_next_is_asked_for():
    inbox = full()
    inbox.take()
    assert inbox.positions(finished_only=True) == {}
    assert inbox.positions(finished_only=False) == {A: 1}
    inbox.take()
    assert inbox.positions(finished_only=True) == {A: 1}
    assert inbox.positions(finished_only=False) == {A: 1, B: 6}


def test_asking_in_vain_finishes_the_last_one_too():
    inbox = Inbox()
    inbox.put([message(A, 3)])
    inbox.take()
    assert inbox.take() is None
    assert inbox.positions(finished_only=True) == {A: 4}


def test_a_dropped_partition_is_not_handed_out_and_makes_room():
    inbox = full()
    inbox.drop({A})
    assert inbox.take_freed(3) == 0
    assert inbox.take() == message(B, 5)
    assert inbox.take() is None
    assert inbox.take_freed(3) == 3
    assert inbox.take_freed(1) == 0


def test_it_is_known_which_partition_is_in_hand():
    inbox = full()
    assert not inbox.holds_any({A})
    inbox.take()
    assert inbox.holds_any({A})
    assert not inbox.holds_any({B})
    inbox.finish()
    assert not inbox.holds_any({A})


def test_positions_of_partitions_that_are_gone_are_forgotten():
    inbox = full()
    for _ in range(4):
        inbox.take()
    inbox.keep_only({B})
    assert inbox.positions(finished_only=True) == {B: 6}


def test_a_new_session_begins_with_nothing_in_it():
    inbox = full()
    inbox.take()
    inbox.clear()
    assert inbox.take() is None
    assert inbox.take_freed(1) == 0
