"""When what waits will come: no message is left out of the counts."""

from __future__ import annotations

from hypothesis import given, strategies as st

from goqueue.delays.due.slots import SLOT_MS
from goqueue.delays.due.timeline import STEPS_MS, timeline

NOW = 1_767_225_600_000


@given(
    st.lists(st.integers(NOW - 10**6, NOW + 10**11)),
    st.dictionaries(st.integers(NOW // SLOT_MS, NOW // SLOT_MS + 500), st.integers(0, 1000)),
    st.integers(1, 100),
)
def test_every_message_is_in_one_step(dues, slots, steps):
    found = timeline(NOW, dues, slots, steps)
    assert sum(found.counts) + found.later == len(dues) + sum(slots.values())
    assert len(found.counts) == steps
    for at, count in enumerate(found.counts):
        begin = NOW + at * found.step_ms
        exact = sum(begin <= max(due, NOW) < begin + found.step_ms for due in dues)
        assert count >= exact
        if not slots:
            assert count == exact
    assert found.is_approximate == bool(slots)


@given(st.lists(st.integers(NOW, NOW + 10**10), min_size=1), st.integers(1, 100))
def test_steps_are_the_shortest_that_reach_the_last_message(dues, steps):
    found = timeline(NOW, dues, {}, steps)
    shorter = [each for each in STEPS_MS if each < found.step_ms]
    assert not found.later or found.step_ms == STEPS_MS[-1]
    assert all(NOW + each * steps <= max(dues) for each in shorter)
