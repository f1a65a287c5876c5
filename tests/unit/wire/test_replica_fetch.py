from __future__ import annotations

from uuid import UUID

from hypothesis import given, strategies as st

from goqueue.wire.kafka import fetch
from goqueue.wire.kafka.errors import MalformedRequestError
from goqueue.wire.kafka.frames import assemble
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.replica_fetch import (
    VERSION,
    ReplicaFetch,
    encode_request,
    encode_response,
    parse_request,
    parse_response,
)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
ids = st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number))
wanted = st.builds(fetch.FetchPartition, int32, int32, int64, int32, int64, int32)
topics = st.lists(
    st.builds(fetch.FetchTopic, st.none(), ids, st.lists(wanted, max_size=3)), max_size=3
)
forgotten = st.lists(
    st.builds(fetch.ForgottenTopic, st.none(), ids, st.lists(int32, max_size=3)), max_size=3
)
pairs32 = st.none() | st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
pairs64 = st.none() | st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
results = st.builds(
    fetch.FetchedPartition,
    int32,
    st.integers(-(2**15), 2**15 - 1),
    int64,
    int64,
    int64,
    st.sampled_from(((), (b"batch",), (b"x" * 2000,))),
    aborted_transactions=st.none() | st.lists(st.tuples(int64, int64), max_size=2),
    diverging_epoch=pairs64,
    leader=pairs32,
)
answers = st.lists(
    st.builds(fetch.FetchedTopic, st.none(), ids, st.lists(results, max_size=3)), max_size=3
)


@given(st.builds(ReplicaFetch, int32, int64, int32, int32, int32, topics, forgotten))
def test_a_leader_reads_the_request_that_a_follower_wrote(asked):
    body = encode_request(asked)
    node_id, incarnation, wait_ms, max_bytes, epoch, wanted_topics, gone = asked
    cursor = Cursor(memoryview(body))
    assert fetch.parse_request(cursor, VERSION) == fetch.FetchRequest(
        node_id, wait_ms, 1, max_bytes, 0, 0, epoch, wanted_topics, gone, "", incarnation
    )
    assert cursor.position == len(body)
    assert parse_request(memoryview(b"abc" + body), 3) == asked


@given(st.builds(ReplicaFetch, int32, int64, int32, int32, int32, topics, forgotten), st.data())
def test_a_request_that_is_cut_off_or_changed_is_read_or_refused(asked, data):
    body = encode_request(asked)
    size = data.draw(st.integers(0, len(body)))
    at = data.draw(st.integers(0, len(body) - 1))
    damaged = body[:at] + bytes([body[at] ^ data.draw(st.integers(1, 255))]) + body[at + 1 :]
    for each in (body[:size], damaged):
        try:
            parse_request(memoryview(each), 0)
        except MalformedRequestError:
            continue


@given(answers, st.data())
def test_an_answer_that_is_cut_off_or_changed_is_read_or_refused(told, data):
    body = fetch.encode_response(VERSION, told)
    frame = b"".join(assemble(7, body.parts, flexible=True))[4:]
    size = data.draw(st.integers(0, len(frame)))
    at = data.draw(st.integers(0, len(frame) - 1))
    damaged = frame[:at] + bytes([frame[at] ^ data.draw(st.integers(1, 255))]) + frame[at + 1 :]
    for each in (frame[:size], damaged):
        try:
            parse_response(memoryview(each))
        except MalformedRequestError:
            continue


@given(answers, st.sampled_from((0, 77)))
def test_a_follower_reads_the_answer_that_a_leader_wrote(told, error_code):
    body = encode_response(told, error_code)
    whole = [
        topic._replace(
            partitions=[each._replace(aborted_transactions=None) for each in topic.partitions]
        )
        for topic in told
    ]
    generic = fetch.encode_response(VERSION, whole, error_code=error_code)
    assert b"".join(body.parts) == b"".join(generic.parts)
    frame = b"".join(assemble(7, body.parts, flexible=True))[4:]
    read = parse_response(memoryview(frame))
    assert read.error_code == error_code
    assert [(topic.topic_id, list(topic.partitions)) for topic in read.topics] == [
        (
            topic.topic_id,
            [each._replace(aborted_transactions=None) for each in topic.partitions],
        )
        for topic in told
    ]
