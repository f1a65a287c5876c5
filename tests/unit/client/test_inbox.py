"""The inbox of a member against one that keeps a note for every message."""

from __future__ import annotations

import sys
import threading
from collections import deque
from operator import length_hint

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.client.consuming.decoding import Chunk
from goqueue.client.consuming.inbox import Inbox
from goqueue.client.types import Message
from goqueue.model.topic_partition import TopicPartition
from support.effort import examples

A, B, C = (TopicPartition("t", number) for number in range(3))
PLACES = st.sampled_from([A, B, C])
SETS = st.sets(PLACES)


def message(place: TopicPartition, offset: int) -> Message:
    return Message(*place, offset, 0, None, b"v")


def chunk(place: TopicPartition, offsets: list[int], next_offset: int) -> Chunk:
    messages = [message(place, offset) for offset in offsets]
    return Chunk(place, messages, len(messages), next_offset, 10 * len(messages))


class Twin:
    """One message at a time; a chunk ends with a mark that moves the position alone."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[TopicPartition, int, int, bool]] = deque()
        """Place, offset, position after it, and whether it is a message."""
        self.in_hand: list[tuple[TopicPartition, int, int]] = []
        self.handed: dict[TopicPartition, int] = {}
        self.finished: dict[TopicPartition, int] = {}

    def put(self, place, offsets, next_offset):
        ends = [offset + 1 for offset in offsets[:-1]] + [next_offset]
        if not offsets:
            self.waiting.append((place, -1, next_offset, False))
        for offset, end in zip(offsets, ends, strict=False):
            self.waiting.append((place, offset, end, True))

    def finish(self):
        for place, _, end in self.in_hand:
            self.finished[place] = self.handed[place] = end
        self.in_hand = []

    def take(self, size):
        """As many as wait of one chunk are no more than what waits of one place in a row."""
        self.finish()
        while self.waiting and not self.waiting[0][3]:
            place, _, end, _ = self.waiting.popleft()
            self.finished[place] = self.handed[place] = end
        taken = []
        while self.waiting and len(taken) < size:
            place, offset, end, _ = self.waiting.popleft()
            self.in_hand.append((place, offset, end))
            self.handed[place] = end
            taken.append((place, offset))
        return taken

    def positions(self, *, finished_only):
        return dict(self.finished if finished_only else self.handed)


class InboxMachine(RuleBasedStateMachine):
    """Offsets without gaps: then both know positions the same way."""

    def __init__(self) -> None:
        super().__init__()
        self.told = 0
        self.inbox = Inbox(self.tell)
        self.twin = Twin()
        self.next = dict.fromkeys((A, B, C), 0)

    def tell(self):
        self.told += 1

    @rule(place=PLACES, count=st.integers(0, 4), markers=st.integers(0, 2))
    def put(self, place, count, markers):
        markers = markers or not count  # an empty chunk moves the position all the same
        offsets = list(range(self.next[place], self.next[place] + count))
        self.next[place] += count + markers
        before = self.told
        self.inbox.put(chunk(place, offsets, self.next[place]))
        self.twin.put(place, offsets, self.next[place])
        assert self.told == before + 1

    @rule()
    def take(self):
        ours = next(self.inbox.rows, None)
        if ours is None:
            ours = next(self.inbox.rows) if self.inbox.advance() else None
        theirs = self.twin.take(1)
        assert ([] if ours is None else [((ours.topic, ours.partition), ours.offset)]) == theirs

    @rule(size=st.integers(1, 5))
    def take_batch(self, size):
        ours = self.inbox.take_batch(size)
        if not ours and self.inbox.advance():
            ours = self.inbox.take_batch(size)
        theirs = self.twin.take(max(len(ours), 1))
        assert [((m.topic, m.partition), m.offset) for m in ours] == theirs
        assert len(ours) <= size

    @rule(places=SETS)
    def drop(self, places):
        self.inbox.drop(places)
        self.twin.waiting = deque(each for each in self.twin.waiting if each[0] not in places)

    @rule()
    def clear(self):
        self.inbox.clear()
        self.twin.waiting.clear()

    @rule(places=SETS)
    def give_up(self, places):
        """As a member does it: drop, wait until it is not in hand, forget."""
        self.drop(places)
        if self.inbox.holds_any(places):
            return
        self.inbox.keep_only({A, B, C} - places)
        for positions in (self.twin.handed, self.twin.finished):
            for place in places:
                positions.pop(place, None)

    @rule()
    def finish(self):
        """Whoever leaves takes nothing more of what it was taking from."""
        left = length_hint(self.inbox.rows)
        self.inbox.finish()
        self.twin.finish()
        for _ in range(left):
            self.twin.waiting.popleft()

    @invariant()
    def both_know_the_same(self):
        for finished_only in (True, False):
            ours = self.inbox.positions(finished_only=finished_only)
            assert ours == self.twin.positions(finished_only=finished_only)
        held = {place for place, _, _ in self.twin.in_hand}
        for place in (A, B, C):
            assert self.inbox.holds_any({place}) == (place in held)


TestInbox = InboxMachine.TestCase
TestInbox.settings = settings(max_examples=examples(200), stateful_step_count=40)


def test_a_partition_is_dropped_while_another_thread_takes():
    """Each message is taken once or dropped, and what counts as in hand was taken."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(300):
            _drop_while_taking()
    finally:
        sys.setswitchinterval(interval_s)


def _drop_while_taking():
    inbox = Inbox(lambda: None)
    inbox.put(chunk(A, list(range(200)), 200))
    assert inbox.advance()
    taken = []
    may_start = threading.Event()

    def take():
        may_start.set()
        taken.extend(m.offset for m in inbox.rows)

    thread = threading.Thread(target=take)
    thread.start()
    may_start.wait()
    inbox.drop({A})
    position = inbox.positions(finished_only=False).get(A, 0)
    thread.join()
    assert taken == list(range(position))
    assert inbox.positions(finished_only=False).get(A, 0) == position
    assert inbox.holds_any({A}) == bool(position)


def test_nothing_more_is_fetched_when_it_is_full():
    inbox = Inbox(lambda: None)
    assert inbox.has_room
    inbox.put(Chunk(A, [message(A, 0)], 1, 1, 1 << 30))
    assert not inbox.has_room
    inbox.put(Chunk(B, [message(B, 0)], 1, 1, 1 << 30))
    inbox.drop({A})
    assert not inbox.has_room
    assert inbox.advance()
    assert inbox.has_room


def test_two_threads_may_ask_for_more_at_once():
    inbox = Inbox(lambda: None)
    inbox.put(chunk(A, [0, 1], 2))
    inbox.put(chunk(B, [0], 1))
    assert inbox.advance()
    assert inbox.advance()  # the second one too late: there is still something
    assert [m.offset for m in inbox.rows] == [0, 1]
