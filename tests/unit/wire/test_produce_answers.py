"""Answers to Produce between nodes: what the leader writes is what the other node reads."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.frames import parse_response as parse_by_schema
from goqueue.wire.kafka.produce import DELAYED, PartitionResult, TopicResult, encode_response
from goqueue.wire.kafka.produce_answers import parse_response

INT64 = st.integers(-1, 2**62)
RESULTS = st.builds(
    PartitionResult,
    st.integers(0, 2**31 - 1),
    st.sampled_from([0, 6, 87]),
    INT64,
    INT64,
    INT64,
    error_message=st.none() | st.text(max_size=20),
    record_errors=st.lists(st.tuples(st.integers(0, 1000), st.text(max_size=10)), max_size=3),
    delayed=st.lists(st.tuples(st.integers(0, 1000), INT64, INT64), max_size=3),
    error_name=st.none() | st.sampled_from(["NotLeaderError", "DelayTooLongError"]),
    is_duplicate=st.booleans(),
)
TOPICS = st.lists(
    st.builds(TopicResult, st.text(min_size=1, max_size=9), st.none(), st.lists(RESULTS)),
    max_size=3,
)


def _frame(topics: list[TopicResult], *, to_node: bool) -> memoryview:
    body = encode_response(11, topics, to_node=to_node)
    return memoryview(b"\0\0\0\7\0" + b"".join(body.parts))


@given(TOPICS)
def test_a_node_reads_what_another_has_written(topics: list[TopicResult]) -> None:
    assert parse_response(_frame(topics, to_node=True)) == topics


@given(TOPICS)
def test_the_schema_reads_the_same(topics: list[TopicResult]) -> None:
    _, answer = parse_by_schema(_frame(topics, to_node=True), ApiKey.PRODUCE, 11)
    found: list[Any] = [each for topic in answer.responses for each in topic.partition_responses]
    told = [each for topic in topics for each in topic.partitions]
    assert [each.error_name for each in found] == [each.error_name for each in told]
    assert [each.is_duplicate for each in found] == [each.is_duplicate for each in told]
    assert [list(DELAYED.iter_unpack(each.delayed)) for each in found] == [
        list(each.delayed) for each in told
    ]


@given(TOPICS)
def test_a_client_is_not_told_what_is_for_nodes(topics: list[TopicResult]) -> None:
    for topic in parse_response(_frame(topics, to_node=False)):
        for each in topic.partitions:
            assert each.error_name is None
            assert not each.is_duplicate
