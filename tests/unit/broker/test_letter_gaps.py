"""Offsets that hold no letter, against a set of them."""

from __future__ import annotations

from hypothesis import given, strategies as st

from goqueue.queues.dead_letters import letter_gaps
from goqueue.queues.dead_letters.letter_gaps import Gaps

SPANS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=20)
OFFSETS = st.integers(0, 120)


@given(SPANS, OFFSETS, OFFSETS, OFFSETS)
def test_gaps_say_what_a_set_of_offsets_says(
    spans: list[tuple[int, int]], log_start: int, first: int, end: int
) -> None:
    gaps, twin = Gaps(), set[int]()
    at = 0
    for before, length in spans:
        gaps.add(at + before, at + before + length)
        twin |= set(range(at + before, at + before + length))
        at += before + length
    gaps.forget_before(log_start)
    asked = range(max(first, log_start), end)
    assert gaps.covered(asked.start, asked.stop) == len(twin & set(asked))
    outside = [each for each in asked if each not in twin]
    assert gaps.last_outside(asked.start, asked.stop) == max(outside, default=None)


def test_a_gap_within_another_adds_nothing() -> None:
    gaps = Gaps()
    gaps.add(3, 9)
    gaps.add(4, 6)
    gaps.add(8, 11)
    assert (len(gaps), gaps.covered(0, 20)) == (1, 8)


def test_gaps_beyond_the_bound_are_not_kept(monkeypatch) -> None:
    monkeypatch.setattr(letter_gaps, "_MAX_GAPS", 2)
    gaps = Gaps()
    for at in (1, 3, 5):
        gaps.add(at, at + 1)
    assert (len(gaps), gaps.covered(0, 10)) == (2, 2)
