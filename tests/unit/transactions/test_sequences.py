"""The sequences of idempotent producers, held against a list of everything ever written."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.model.errors import FencedProducerError, OutOfOrderSequenceError
from goqueue.partitions import sequences
from goqueue.partitions.sequences import ProducerSequences, SequencedBatch
from goqueue.records import Record, encode
from goqueue.records.batch import CONTROL, peek
from support.effort import examples

LARGEST = (1 << 31) - 1
REMEMBERED = 5


def info(producer_id, epoch, sequence, count=1, *, timestamp=1000, attributes=0):
    records = [Record(number, timestamp, None, b"v") for number in range(count)]
    batch = encode(
        records,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=attributes,
    )
    return peek(batch)


class Written(NamedTuple):
    """One batch in the twin: every sequence number in it, and where it is."""

    numbers: tuple[int, ...]
    offset: int


class Twin:
    """Remembers all batches of the newest epoch of each producer, and judges by looking at them."""

    def __init__(self):
        self.epochs: dict[int, int] = {}
        self.batches: dict[int, list[Written]] = {}

    def judge(self, producer_id, epoch, numbers):
        """What must happen: None to take it, an offset, or the error to raise."""
        if producer_id not in self.epochs:
            return None
        if epoch != self.epochs[producer_id]:
            if epoch < self.epochs[producer_id]:
                return FencedProducerError
            return None if numbers[0] == 0 else OutOfOrderSequenceError
        written = self.batches[producer_id]
        for earlier in written[-REMEMBERED:]:
            if earlier.numbers == numbers:
                return earlier.offset
        following = written[-1].numbers[-1] + 1
        return None if numbers[0] == following % (LARGEST + 1) else OutOfOrderSequenceError

    def expects(self, producer_id, epoch, first):
        """Whether this is what follows what the producer has written."""
        if self.epochs.get(producer_id) != epoch:
            return False
        return first == (self.batches[producer_id][-1].numbers[-1] + 1) % (LARGEST + 1)

    def take(self, producer_id, epoch, numbers, offset):
        if self.epochs.get(producer_id) != epoch:
            self.epochs[producer_id] = epoch
            self.batches[producer_id] = []
        self.batches[producer_id].append(Written(numbers, offset))


class SequencesMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.sequences = ProducerSequences()
        self.twin = Twin()
        self.end = 0

    def _send(self, producer_id, epoch, first, count):
        numbers = tuple((first + step) % (LARGEST + 1) for step in range(count))
        expected = self.twin.judge(producer_id, epoch, numbers)
        batch = info(producer_id, epoch, first, count)
        assert self.sequences.expects(batch) == self.twin.expects(producer_id, epoch, first)
        if isinstance(expected, type):
            with pytest.raises(expected):
                self.sequences.check(batch)
            return
        found = self.sequences.check(batch)
        if expected is not None:
            assert found is not None
            assert (found.first_offset, found.end_offset) == (expected, expected + count)
            return
        assert found is None
        self.sequences.note(batch, self.end, now_ms=1)
        self.twin.take(producer_id, epoch, numbers, self.end)
        self.end += count

    @rule(
        producer_id=st.integers(0, 2),
        epoch=st.integers(0, 2),
        first=st.sampled_from([0, 1, 2, 5, LARGEST - 1, LARGEST]),
        count=st.integers(1, 3),
    )
    def sends_anything(self, producer_id, epoch, first, count):
        self._send(producer_id, epoch, first, count)

    @rule(producer_id=st.integers(0, 2), count=st.integers(1, 3))
    def goes_on(self, producer_id, count):
        written = self.twin.batches.get(producer_id)
        first = (written[-1].numbers[-1] + 1) % (LARGEST + 1) if written else 0
        self._send(producer_id, self.twin.epochs.get(producer_id, 0), first, count)

    @rule(producer_id=st.integers(0, 2), back=st.integers(1, REMEMBERED + 2))
    def repeats(self, producer_id, back):
        written = self.twin.batches.get(producer_id, [])
        if back <= len(written):
            numbers = written[-back].numbers
            self._send(producer_id, self.twin.epochs[producer_id], numbers[0], len(numbers))

    @rule()
    def is_kept_and_loaded(self):
        loaded = ProducerSequences()
        loaded.load(list(self.sequences.dump()), now_ms=2)
        assert list(loaded.dump()) == list(self.sequences.dump())
        self.sequences = loaded

    @invariant()
    def holds_together(self):
        self.sequences.check_invariants()
        assert len(self.sequences) == len(self.twin.epochs)


TestSequencesAgainstTheirTwin = SequencesMachine.TestCase
TestSequencesAgainstTheirTwin.settings = settings(max_examples=examples(60), stateful_step_count=30)


def test_a_marker_brings_a_newer_epoch_but_no_sequence():
    state = ProducerSequences()
    state.note(info(1, 0, 0), 0, now_ms=1)
    state.note(info(1, 1, -1, attributes=CONTROL), 0, now_ms=1)
    with pytest.raises(FencedProducerError):
        state.check(info(1, 0, 1))
    assert state.check(info(1, 1, 0)) is None


def test_the_time_of_a_producer_is_that_of_its_newest_record():
    state = ProducerSequences()
    state.note(info(1, 0, 0, timestamp=500), 0, now_ms=1)
    state.note(info(1, 0, 1, timestamp=200), 0, now_ms=2)
    ((_, producer),) = state
    assert (producer.last_timestamp_ms, producer.heard_ms, producer.last_sequence) == (500, 2, 1)


def test_the_producer_that_was_silent_longest_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(sequences, "_MAX_PRODUCERS", 3)
    state = ProducerSequences()
    for producer_id in (1, 2, 3):
        state.note(info(producer_id, 0, 0), 0, now_ms=producer_id)
    state.note(info(1, 0, 1), 0, now_ms=4)
    state.note(info(4, 0, 0), 0, now_ms=5)
    assert [producer_id for producer_id, _ in state] == [3, 1, 4]


def test_idle_producers_are_forgotten_and_the_others_kept():
    state = ProducerSequences()
    for producer_id in (1, 2, 3):
        state.note(info(producer_id, 0, 0), 0, now_ms=producer_id * 100)
    assert state.forget_idle(before_ms=250) == 2
    assert [producer_id for producer_id, _ in state] == [3]
    assert state.check(info(1, 0, 7)) is None


def test_only_the_last_five_batches_are_answered_again():
    state = ProducerSequences()
    for number in range(7):
        state.note(info(1, 0, number), number, now_ms=1)
    assert state.check(info(1, 0, 2)) == SequencedBatch(2, 2, 2, 3)
    with pytest.raises(OutOfOrderSequenceError):
        state.check(info(1, 0, 1))
