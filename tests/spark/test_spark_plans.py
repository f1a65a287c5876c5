"""What is read by whom, and how much at a time: plain functions, against dumb twins."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.errors import OffsetsError, TopicMissingError
from goqueue.spark.kafka.cluster import TopicView
from goqueue.spark.kafka.ranges import OffsetRange
from goqueue.spark.options.bounds import Bound
from goqueue.spark.options.read_options import Subscription
from goqueue.spark.reading.admission import admit_bytes, admit_offsets
from goqueue.spark.reading.resolving import Ends, checked, places_of
from goqueue.spark.reading.splits import SMALL_TASK_OFFSETS, cut, task_count
from goqueue.spark.reading.stream_offset import StreamOffset

sizes = st.integers(0, 60)
ranges = st.lists(st.tuples(st.integers(0, 1000), sizes), max_size=12).map(
    lambda pairs: [OffsetRange("t", "id", n, at, at + size) for n, (at, size) in enumerate(pairs)]
)


def offsets_of(some):
    return [(each.partition, offset) for each in some for offset in range(each.start, each.end)]


# --- Splits ------------------------------------------------------------------------------------


@given(ranges, st.integers(1, 20))
def test_pieces_hold_every_offset_exactly_once_and_in_order(some, parts):
    pieces = cut(some, parts)
    assert [place for piece in pieces for place in offsets_of(piece)] == offsets_of(some)


@given(ranges, st.integers(1, 20))
def test_pieces_are_even_and_never_empty(some, parts):
    counts = [sum(each.size for each in piece) for piece in cut(some, parts)]
    assert all(counts)
    assert max(counts, default=0) - min(counts, default=0) <= 1
    assert len(counts) == min(parts, len(offsets_of(some)))


@pytest.mark.parametrize(
    ("total", "wishes", "count"),
    [
        (0, {}, 0),
        (1, {}, 1),
        (SMALL_TASK_OFFSETS, {}, 1),
        (SMALL_TASK_OFFSETS + 1, {}, 2),
        (10**9, {}, 4),
        (10**7, {"max_records": 10**6}, 12),  # whole rounds of four
        (3, {"min_partitions": 10}, 3),
        (1000, {"min_partitions": 10}, 10),
        (1000, {"min_partitions": 2, "max_records": 100}, 10),
    ],
)
def test_how_many_tasks_there_are(total, wishes, count):
    assert task_count(total, cores=4, **wishes) == count


@given(st.integers(1, 10**9), st.integers(1, 64), st.integers(1, 10**7))
def test_no_task_has_more_than_it_may(total, cores, most):
    count = task_count(total, cores=cores, max_records=most)
    assert -(-total // count) <= most or count == total


# --- Admission ---------------------------------------------------------------------------------

backlogs = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 400)), min_size=1, max_size=10)


def as_offsets(pairs):
    start = {("t", n): at for n, (at, _) in enumerate(pairs)}
    return start, {("t", n): at + size for n, (at, size) in enumerate(pairs)}


@given(backlogs, st.integers(1, 1500))
def test_a_limit_is_used_up_and_never_exceeded(pairs, limit):
    start, end = as_offsets(pairs)
    found = admit_offsets(start, end, limit)
    assert all(start[place] <= found[place] <= end[place] for place in end)
    assert sum(found[place] - start[place] for place in end) == min(
        limit, sum(size for _, size in pairs)
    )


@given(backlogs, st.integers(10, 1500))
def test_no_partition_with_messages_is_left_out_when_there_is_enough_for_all(pairs, limit):
    start, end = as_offsets(pairs)
    found = admit_offsets(start, end, limit)
    assert all(found[place] > start[place] for place in end if end[place] > start[place])


@given(backlogs, st.integers(1, 9))
def test_everything_is_read_in_the_end_however_small_the_limit(pairs, limit):
    start, end = as_offsets(pairs)
    total = sum(size for _, size in pairs)
    for _ in range(-(-total // limit)):
        start = admit_offsets(start, end, limit)
    assert start == end


@given(backlogs, st.integers(1, 10**6), st.floats(1, 1000))
def test_bytes_are_kept_to_as_far_as_records_are_of_one_size(pairs, limit, record_bytes):
    start, end = as_offsets(pairs)
    found = admit_bytes(start, end, dict.fromkeys(end, record_bytes), limit)
    count = sum(found[place] - start[place] for place in end)
    total = sum(size for _, size in pairs)
    assert count * record_bytes <= max(limit, record_bytes)
    assert count == total or count >= max(1, int(limit / record_bytes) - 1)


# --- Offsets of a stream -----------------------------------------------------------------------


def test_offsets_are_the_same_text_in_whatever_order_they_were_found():
    one = StreamOffset(
        {"b": "2", "a": "1"},
        {TopicPartition("b", 0): 5, TopicPartition("a", 10): 7, TopicPartition("a", 9): 6},
    )
    two = StreamOffset(
        {"a": "1", "b": "2"},
        {TopicPartition("a", 9): 6, TopicPartition("a", 10): 7, TopicPartition("b", 0): 5},
    )
    text = json.dumps(one.to_json())
    assert text == json.dumps(two.to_json())
    assert text == (
        '{"a": {"id": "1", "offsets": {"9": 6, "10": 7}}, "b": {"id": "2", "offsets": {"0": 5}}}'
    )
    assert StreamOffset.from_json(json.loads(text)) == two


@pytest.mark.parametrize("tree", [{"a": {"0": 5}}, {"a": 3}, [1], {"a": {"id": "1"}}])
def test_a_checkpoint_of_another_source_is_refused(tree):
    with pytest.raises(OffsetsError, match="new checkpoint"):
        StreamOffset.from_json(tree)


# --- What the options name ---------------------------------------------------------------------

TOPICS = {"a": TopicView("a", "1", (0, 1)), "b": TopicView("b", "2", (0,))}


def test_partitions_of_what_is_subscribed_to():
    assert places_of(Subscription(("a", "b")), TOPICS) == [("a", 0), ("a", 1), ("b", 0)]
    assert places_of(Subscription(places=frozenset({TopicPartition("a", 1)})), TOPICS) == [("a", 1)]
    assert places_of(Subscription(pattern=".*"), {}) == []


def test_topics_and_partitions_that_are_missing_are_all_named():
    with pytest.raises(TopicMissingError, match="'c', no topic 'd'"):
        places_of(Subscription(("a", "c", "d")), TOPICS)
    with pytest.raises(TopicMissingError, match="'a' partition 7"):
        places_of(
            Subscription(places=frozenset({TopicPartition("a", 7), TopicPartition("a", 0)})), TOPICS
        )


def test_ranges_outside_of_what_is_there_are_all_named_or_clipped():
    ends = Ends(
        {TopicPartition("a", 0): 5, TopicPartition("a", 1): 0},
        {TopicPartition("a", 0): 10, TopicPartition("a", 1): 3},
    )
    some = [OffsetRange("a", "1", 0, 2, 8), OffsetRange("a", "1", 1, 0, 9)]
    with pytest.raises(OffsetsError, match=r"a-0 \[2, 8\).*\[5, 10\).*a-1 \[0, 9\).*\[0, 3\)"):
        checked(some, ends, clips=False)
    assert [each[3:] for each in checked(some, ends, clips=True)] == [(5, 8), (0, 3)]
    backwards = [OffsetRange("a", "1", 0, 8, 6)]
    with pytest.raises(OffsetsError, match="ends before it starts"):
        checked(backwards, ends, clips=False)
    assert checked(backwards, ends, clips=False, may_be_empty=True)[0].size == 0
    beyond = [OffsetRange("a", "1", 0, 99, 10)]
    with pytest.raises(OffsetsError, match=r"a-0 \[99, 10\) is not all there.*\[5, 10\).*false"):
        checked(beyond, ends, clips=False)
    assert checked(beyond, ends, clips=True)[0].size == 0


def test_a_bound_knows_which_partitions_it_names():
    assert Bound(everywhere=-1).places is None
    assert Bound(offsets={TopicPartition("a", 0): 1}).places == {TopicPartition("a", 0)}
    assert Bound(moments={TopicPartition("a", 0): 1}).is_by_time
