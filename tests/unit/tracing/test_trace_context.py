"""Which trace a message belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from goqueue.tracing.context import (
    TraceContext,
    context_in,
    derived_context,
    derived_id,
    is_trace_id,
    offset_in,
    parse_traceparent,
    place_of,
    root_span,
)
from goqueue.tracing.sampling import Budget, Turns, is_sampled, threshold_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", True),
    ],
)
def test_a_traceparent_names_a_trace_and_says_whether_it_is_sampled(text, sampled):
    assert parse_traceparent(text.encode()) == (TraceContext(TRACE, SPAN), sampled)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"garbage",
        f"ff-{TRACE}-{SPAN}-01".encode(),
        f"00-{TRACE}-{SPAN}-01-more".encode(),
        f"00-{TRACE.upper()}-{SPAN}-01".encode(),
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE}-{SPAN}-1".encode(),
        f"00-{TRACE}-{SPAN}-01\n".encode(),
        f"00-{TRACE}-{SPAN}-01".encode() + b"\xff" * 600,
        "00-\u0664bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".encode(),
    ],
)
def test_what_is_no_traceparent_is_as_good_as_none(value):
    assert parse_traceparent(value) is None


@given(st.binary(max_size=80))
def test_no_header_breaks_the_parser(value):
    found = parse_traceparent(value)
    if found is not None:
        assert parse_traceparent(found[0].traceparent) == (found[0], True)


def test_the_first_header_that_is_one_counts():
    good = TraceContext(TRACE, SPAN).traceparent
    assert context_in([("a", b"1"), ("traceparent", b"?"), ("traceparent", good)]) == (
        TraceContext(TRACE, SPAN),
        True,
    )
    assert context_in([("Traceparent", good)]) is None


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_the_offset_is_found_again_in_the_trace_id(topic_id, partition, offset):
    place = place_of(topic_id, partition)
    trace_id = derived_id(place, offset)
    assert is_trace_id(trace_id)
    assert offset_in(place, trace_id) == offset
    assert offset_in(place_of(topic_id, partition + 1), trace_id) is None
    assert derived_context(place, offset) == TraceContext(trace_id, root_span(trace_id))


@given(st.integers(0, 2**63 - 1))
def test_nothing_is_sampled_at_a_rate_of_0_and_everything_at_1(offset):
    assert not is_sampled(threshold_of(0), offset)
    assert is_sampled(threshold_of(1), offset)


@given(st.floats(0, 1))
def test_batches_one_behind_the_other_are_sampled_as_often_as_the_rate_says(rate):
    count = sum(is_sampled(threshold_of(rate), at) for at in range(1000))
    assert abs(count - 1000 * rate) <= 10


def test_one_in_a_hundred_batches_is_sampled():
    threshold = threshold_of(0.01)
    for step in (1, 7, 100, 1000):
        count = sum(is_sampled(threshold, at * step) for at in range(100_000))
        assert 900 <= count <= 1100


@given(st.floats(0, 1), st.integers(0, 500))
def test_turns_come_as_often_as_the_rate_says(rate, count):
    turns, threshold = Turns(), threshold_of(rate)
    assert abs(sum(turns.draw(threshold) for _ in range(count)) - rate * count) <= 1


def test_a_budget_is_spent_and_comes_anew_each_second():
    budget = Budget(3)
    assert [budget.take(10.0 + at / 10) for at in range(9)] == [True] * 3 + [False] * 6
    assert budget.take(11.0)
    unbounded = Budget(0)
    assert all(unbounded.take(0.0) for _ in range(1000))
