from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.wire.kafka import fetch as fetch_wire, produce as produce_wire
from goqueue.wire.kafka.errors import MalformedRequestError
from goqueue.wire.kafka.primitives import Cursor
from support.kio_twin import kio_bytes, random_message

if TYPE_CHECKING:
    from goqueue.wire.kafka.frames import Encoded

PRODUCE, FETCH = 0, 1
PRODUCE_VERSIONS = range(produce_wire.FIRST_VERSION, produce_wire.LAST_VERSION + 1)
FETCH_VERSIONS = range(fetch_wire.FIRST_VERSION, fetch_wire.LAST_VERSION + 1)
ROUNDS = 60


def joined(body: Encoded) -> bytes:
    return b"".join(body.parts)


def ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def of(entity: Any, name: str, default: Any) -> Any:
    return getattr(entity, name, default)


# --- Produce ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_requests_are_read_as_kio_wrote_them(version):
    rng = random.Random(version)
    for _ in range(ROUNDS):
        kio = random_message(rng, PRODUCE, version, "request")
        ours = produce_wire.parse_request(Cursor(memoryview(kio_bytes(kio))), version)
        assert ours == produce_wire.ProduceRequest(
            kio.transactional_id,
            kio.acks,
            ms(kio.timeout),
            [
                produce_wire.TopicData(
                    of(topic, "name", None),
                    of(topic, "topic_id", None),
                    [
                        produce_wire.PartitionData(part.index, part.records)
                        for part in topic.partition_data
                    ],
                )
                for topic in kio.topic_data
            ],
        )


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_records_are_views_of_the_frame_that_may_be_stamped(version):
    kio = random_message(random.Random(4), PRODUCE, version, "request")
    while not any(p.records for t in kio.topic_data for p in t.partition_data):
        kio = random_message(random.Random(), PRODUCE, version, "request")
    frame = bytearray(kio_bytes(kio))
    request = produce_wire.parse_request(Cursor(memoryview(frame)), version)
    records = next(p.records for t in request.topics for p in t.partitions if p.records)
    assert records.obj is frame
    assert not records.readonly


def produce_result(part: Any) -> produce_wire.PartitionResult:
    append_time = part.log_append_time
    leader = of(part, "current_leader", None)
    return produce_wire.PartitionResult(
        partition=part.index,
        error_code=part.error_code,
        base_offset=part.base_offset,
        log_append_time_ms=-1 if append_time is None else round(append_time.timestamp() * 1000),
        log_start_offset=of(part, "log_start_offset", -1),
        error_message=of(part, "error_message", None),
        record_errors=[
            (error.batch_index, error.batch_index_error_message)
            for error in of(part, "record_errors", ())
        ],
        leader=leader and (leader.leader_id, leader.leader_epoch),
    )


def endpoints_of(kio: Any) -> list[produce_wire.NodeEndpoint]:
    return [
        produce_wire.NodeEndpoint(node.node_id, node.host, node.port, node.rack)
        for node in of(kio, "node_endpoints", ())
    ]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_responses_are_written_as_kio_writes_them(version):
    rng = random.Random(version)
    for _ in range(ROUNDS):
        kio = random_message(rng, PRODUCE, version, "response")
        topics = [
            produce_wire.TopicResult(
                of(topic, "name", None),
                of(topic, "topic_id", None),
                [produce_result(part) for part in topic.partition_responses],
            )
            for topic in kio.responses
        ]
        body = produce_wire.encode_response(
            version,
            topics,
            throttle_time_ms=ms(kio.throttle_time),
            endpoints=endpoints_of(kio),
        )
        assert joined(body) == kio_bytes(kio)


def test_what_a_produce_version_lacks_is_left_out():
    result = produce_wire.PartitionResult(1, 6, 7, 8, 9, "why", [(0, "bad")], leader=(3, 4))
    endpoints = [produce_wire.NodeEndpoint(3, "h", 9092)]
    topic = produce_wire.TopicResult("t", None, [result])
    for version in PRODUCE_VERSIONS:
        body = joined(produce_wire.encode_response(version, [topic], endpoints=endpoints))
        assert (b"why" in body) == (version >= 8)
        assert (b"\x02h" in body) == (version >= 10)


# --- Fetch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_requests_are_read_as_kio_wrote_them(version):
    rng = random.Random(version)
    for _ in range(ROUNDS):
        kio = random_message(rng, FETCH, version, "request")
        ours = fetch_wire.parse_request(Cursor(memoryview(kio_bytes(kio))), version)
        state = of(kio, "replica_state", None)
        assert ours == fetch_wire.FetchRequest(
            state.replica_id if state else kio.replica_id,
            ms(kio.max_wait),
            kio.min_bytes,
            kio.max_bytes,
            kio.isolation_level,
            of(kio, "session_id", 0),
            of(kio, "session_epoch", -1),
            [
                fetch_wire.FetchTopic(
                    of(topic, "topic", None),
                    of(topic, "topic_id", None),
                    [
                        fetch_wire.FetchPartition(
                            part.partition,
                            of(part, "current_leader_epoch", -1),
                            part.fetch_offset,
                            of(part, "last_fetched_epoch", -1),
                            of(part, "log_start_offset", -1),
                            part.partition_max_bytes,
                        )
                        for part in topic.partitions
                    ],
                )
                for topic in kio.topics
            ],
            [
                fetch_wire.ForgottenTopic(
                    of(topic, "topic", None), of(topic, "topic_id", None), list(topic.partitions)
                )
                for topic in of(kio, "forgotten_topics_data", ())
            ],
            of(kio, "rack_id", ""),
            state.replica_epoch if state else -1,
        )


def fetched(rng: random.Random, part: Any) -> fetch_wire.FetchedPartition:
    diverging = of(part, "diverging_epoch", None)
    leader = of(part, "current_leader", None)
    snapshot = of(part, "snapshot_id", None)
    records = part.records or b""
    cut = rng.randrange(len(records) + 1)
    return fetch_wire.FetchedPartition(
        partition=part.partition_index,
        error_code=part.error_code,
        high_watermark=part.high_watermark,
        last_stable_offset=part.last_stable_offset,
        log_start_offset=of(part, "log_start_offset", -1),
        records=[records[:cut], memoryview(records)[cut:]],
        aborted_transactions=None
        if part.aborted_transactions is None
        else [(aborted.producer_id, aborted.first_offset) for aborted in part.aborted_transactions],
        preferred_read_replica=of(part, "preferred_read_replica", -1),
        diverging_epoch=diverging and (diverging.epoch, diverging.end_offset),
        leader=leader and (leader.leader_id, leader.leader_epoch),
        snapshot=snapshot and (snapshot.end_offset, snapshot.epoch),
    )


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_responses_are_written_as_kio_writes_them(version):
    rng = random.Random(version)
    for _ in range(ROUNDS):
        kio = random_message(rng, FETCH, version, "response")
        topics = [
            fetch_wire.FetchedTopic(
                of(topic, "topic", None),
                of(topic, "topic_id", None),
                [fetched(rng, part) for part in topic.partitions],
            )
            for topic in kio.responses
        ]
        body = fetch_wire.encode_response(
            version,
            topics,
            error_code=of(kio, "error_code", 0),
            session_id=of(kio, "session_id", 0),
            throttle_time_ms=ms(kio.throttle_time),
            endpoints=endpoints_of(kio),
        )
        # Kafka writes no records as an empty blob; kio can also say null.
        assert joined(body) == kio_bytes(without_null_records(kio))


def without_null_records(kio: Any) -> Any:
    for topic in kio.responses:
        for part in topic.partitions:
            if part.records is None:
                object.__setattr__(part, "records", b"")
    return kio


def test_record_blobs_reach_the_socket_uncopied():
    blob = memoryview(bytearray(100_000))
    part = fetch_wire.FetchedPartition(0, records=[blob[:60_000], blob[60_000:]])
    topic = fetch_wire.FetchedTopic("t", None, [part, part._replace(records=[blob])])
    parts = fetch_wire.encode_response(11, [topic]).parts
    assert sum(isinstance(p, memoryview) and p.obj is blob.obj for p in parts) == 3


# --- Hostile bytes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parse", "key", "versions"),
    [
        (produce_wire.parse_request, PRODUCE, PRODUCE_VERSIONS),
        (fetch_wire.parse_request, FETCH, FETCH_VERSIONS),
    ],
    ids=["produce", "fetch"],
)
def test_mutated_and_truncated_requests_are_read_or_refused_never_worse(parse, key, versions):
    rng = random.Random(5)
    refused = 0
    for round_number in range(4000):
        version = rng.choice(versions)
        wire = bytearray(kio_bytes(random_message(rng, key, version, "request"))[:3000])
        if round_number % 2:
            del wire[rng.randrange(len(wire)) :]
        for _ in range(rng.randrange(4)):
            if wire:
                wire[rng.randrange(len(wire))] = rng.choice((0, 0x7F, 0x80, 0xFF))
        try:
            parse(Cursor(memoryview(wire)), version)
        except MalformedRequestError:
            refused += 1
    assert refused > 1000
