"""Traces out of entries, against a slow filter over every message."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from goqueue.tracing.context import derived_id, place_of, root_span
from goqueue.tracing.events import Entry, Event, span_of
from goqueue.tracing.search import TraceQuery, search, trace_at
from goqueue.tracing.views import Status, assemble, trace_of
from support.effort import examples

PLACES = {
    (topic, number): place_of(topic.encode() * 16, number) for topic in "ab" for number in (0, 1)
}
OWN = ["1" * 32, "2" * 32, derived_id(PLACES["a", 0], 3)]


@st.composite
def entries(draw):
    found = []
    for at in range(draw(st.integers(0, 25))):
        topic, number = draw(st.sampled_from(sorted(PLACES)))
        event = draw(st.sampled_from([*Event]))
        group = draw(st.sampled_from(["", "g", "h"]))
        trace = draw(st.sampled_from(["", "", *OWN]))
        common = {
            "topic": topic,
            "partition": number,
            "group": group,
            "duration_ns": draw(st.integers(0, 5)),
        }
        if trace:
            offset = draw(st.integers(-1, 6))
            found.append(Entry(event, 100 + at, offset=offset, trace=trace, **common))
        else:
            offset, count = draw(st.integers(0, 5)), draw(st.integers(1, 4))
            found.append(
                Entry(
                    event,
                    100 + at,
                    offset=offset,
                    count=count,
                    place=PLACES[topic, number],
                    **common,
                )
            )
    return found


queries = st.builds(
    TraceQuery,
    topic=st.sampled_from([None, "a", "b", "c"]),
    partition=st.sampled_from([None, 0, 1]),
    group=st.sampled_from([None, "g", "nobody"]),
    start_ns=st.none() | st.integers(95, 130),
    end_ns=st.none() | st.integers(95, 130),
    status=st.none() | st.sampled_from([*Status]),
    min_duration_ns=st.none() | st.integers(0, 20),
    max_duration_ns=st.none() | st.integers(0, 20),
    limit=st.integers(1, 1000),
)


def every_trace(found):
    spans = {}
    for entry in found:
        for trace_id, offset in entry.traces():
            spans.setdefault(trace_id, []).append(span_of(entry, offset))
    return {trace_id: trace_of(each) for trace_id, each in spans.items()}


@settings(max_examples=examples(200))
@given(entries(), queries)
def test_a_search_finds_what_a_slow_filter_finds(found, query):
    expected = {trace_id for trace_id, trace in every_trace(found).items() if query.matches(trace)}
    traces, is_complete = search(found, query)
    ids = [trace.trace_id for trace in traces]
    assert is_complete
    assert len(set(ids)) == len(ids) == min(len(expected), query.limit)
    assert set(ids) <= expected
    assert [trace.end_ns for trace in traces] == sorted((t.end_ns for t in traces), reverse=True)


@given(entries())
def test_traces_are_assembled_like_one_by_one(found):
    expected = every_trace(found)
    assert assemble(found, expected) == expected
    for trace_id, trace in expected.items():
        assert assemble(found, [trace_id, "3" * 32]) == {trace_id: trace}


@given(entries(), st.integers(0, 8))
def test_a_message_leads_to_its_newest_trace(found, offset):
    expected = None
    for entry in found:
        if entry.topic == "a" and entry.partition == 0 and entry.holds(offset):
            expected = entry.trace_at(offset)
    assert trace_at(found, "a", 0, offset) == expected


def test_a_search_that_cannot_look_at_all_says_so():
    many = [Entry(Event.PERSISTED, 1, "a", 0, 0, 1000, PLACES["a", 0])]
    traces, is_complete = search(many, TraceQuery(min_duration_ns=5), examined=100)
    assert traces == []
    assert not is_complete


def test_a_search_by_time_looks_at_what_happened_then_and_not_at_all_that_came_later():
    old = Entry(Event.PERSISTED, 10, "a", 0, 0, 3, PLACES["a", 0])
    many = [Entry(Event.PERSISTED, 100, "a", 0, 1000, 5000, PLACES["a", 0])]
    traces, is_complete = search([old, *many], TraceQuery(end_ns=50), examined=100)
    assert [trace.offset for trace in traces] == [2, 1, 0]
    assert is_complete


def status(*events):
    place = PLACES["a", 0]
    found = [
        Entry(event, at, "a", 0, 7, place=place, group=group)
        for at, (event, group) in enumerate(events)
    ]
    (trace,) = every_trace(found).values()
    return trace.status


def test_a_message_is_as_far_as_the_group_that_is_least_far():
    published = [(Event.RECEIVED, ""), (Event.PERSISTED, "")]
    assert status(*published) is Status.PENDING
    assert status(*published, (Event.FETCHED, "g")) is Status.IN_PROGRESS
    assert status(*published, (Event.FETCHED, "")) is Status.PENDING
    both = [*published, (Event.FETCHED, "g"), (Event.FETCHED, "h"), (Event.ACKED, "g")]
    assert status(*both) is Status.IN_PROGRESS
    assert status(*both, (Event.TIMED_OUT, "h")) is Status.RETRYING
    assert status(*both, (Event.REJECTED, "h")) is Status.FAILED
    assert status(*both, (Event.ACKED, "h")) is Status.COMPLETED


def test_a_redriven_message_begins_anew():
    dead = [(Event.RECEIVED, ""), (Event.FETCHED, "g"), (Event.DEAD_LETTERED, "g")]
    assert status(*dead) is Status.FAILED
    assert status(*dead, (Event.RECEIVED, "")) is Status.PENDING
    assert status(*dead, (Event.RECEIVED, ""), (Event.ACKED, "g")) is Status.COMPLETED


def test_a_trace_of_several_messages_is_as_far_as_the_one_that_is_least_far():
    def of(*events):
        found = [
            Entry(event, at, "a", 0, offset, trace="1" * 32, group=group, attributes=said)
            for at, (event, offset, group, said) in enumerate(events)
        ]
        (trace,) = every_trace(found).values()
        return trace.status

    both = [
        (Event.RECEIVED, 1, "", {}),
        (Event.FETCHED, 1, "g", {}),
        (Event.RECEIVED, 2, "", {}),
    ]
    assert of(*both) is Status.IN_PROGRESS
    assert of(*both, (Event.ACKED, 1, "g", {})) is Status.PENDING
    fetched = [*both, (Event.FETCHED, 2, "g", {}), (Event.ACKED, 1, "g", {})]
    assert of(*fetched) is Status.IN_PROGRESS
    assert of(*fetched, (Event.ACKED, 2, "g", {})) is Status.COMPLETED
    dead = [*fetched, (Event.DEAD_LETTERED, 2, "g", {})]
    assert of(*dead) is Status.FAILED
    back = [*dead, (Event.RECEIVED, 3, "", {"redriven": "true"})]
    assert of(*back) is Status.PENDING
    assert of(*back, (Event.ACKED, 3, "g", {})) is Status.COMPLETED
    first, second = {"delayed_id": "7"}, {"delayed_id": "8"}
    late = [(Event.DELAY_SCHEDULED, -1, "", first), (Event.DELAY_SCHEDULED, -1, "", second)]
    one = [*late, (Event.DELAY_READY, 4, "", {}), (Event.ACKED, 4, "g", {})]
    assert of(*one) is Status.DELAYED
    assert of(*one, (Event.DELAY_CANCELLED, -1, "", second)) is Status.COMPLETED


def test_what_only_readers_of_the_log_have_touched_is_pending_and_found_so():
    read = [Entry(Event.FETCHED, 1, "a", 0, 1, place=PLACES["a", 0])]
    (trace,) = search(read, TraceQuery(status=Status.PENDING)).traces
    assert trace.status is Status.PENDING


def test_a_delayed_message_waits_until_it_is_ready():
    waits = [(Event.RECEIVED, ""), (Event.DELAY_SCHEDULED, "")]
    assert status(*waits) is Status.DELAYED
    assert status(*waits, (Event.DELAY_READY, "")) is Status.PENDING
    assert status(*waits, (Event.DELAY_CANCELLED, "")) is Status.CANCELLED
    assert status(*waits, (Event.DELAY_EXPIRED, "")) is Status.EXPIRED


def test_a_trace_that_begins_here_has_one_root_and_a_continued_one_has_none():
    place = PLACES["a", 0]
    trace_id = derived_id(place, 7)
    received = span_of(Entry(Event.RECEIVED, 1, "a", 0, 7, place=place), 7)
    persisted = span_of(Entry(Event.PERSISTED, 2, "a", 0, 7, place=place), 7)
    assert (received.span_id, received.parent_id) == (root_span(trace_id), "")
    assert persisted.parent_id == received.span_id
    continued = span_of(Entry(Event.RECEIVED, 1, "a", 0, 7, trace="1" * 32, parent="2" * 16), 7)
    assert continued.parent_id == "2" * 16
    assert continued.span_id != root_span("1" * 32)
