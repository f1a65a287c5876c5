"""Our own fields in Kafka's messages: they come through, others skip them, garbage is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import InvalidGroupRequestError
from goqueue.protocols.kafka.share.queue_settlements import settlement_of
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.errors import RequestError
from goqueue.wire.kafka.kafka_schemas import kafka_schema
from goqueue.wire.kafka.own_fields import FIRST_TAG
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.reading import Struct, reader_of
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.share_fetch import RANGE
from goqueue.wire.kafka.writing import writer_of

SHARE = [
    (ApiKey.SHARE_GROUP_HEARTBEAT, 1),
    *(
        (key, version)
        for key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)
        for version in (1, 2)
    ),
]
LONG = st.integers(-(2**63), 2**63 - 1)
SETTLEMENTS = st.fixed_dictionaries(
    {
        "acknowledge_type": st.integers(-128, 127),
        "ranges": st.binary(max_size=40),
        "nonces": st.binary(max_size=40),
    },
    optional={"delay_ms": LONG, "reason": st.none() | st.text(max_size=20)},
)
QUEUES = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.integers(-128, 127),
        "visibility_ms": LONG,
        "max_deliveries": st.integers(-(2**31), 2**31 - 1),
        "start_at_latest": st.booleans(),
    },
)


def acknowledge_fields(settlements: list[dict[str, Any]]) -> dict[str, Any]:
    partition = {"partition_index": 3, "acknowledgement_batches": [], "settlements": settlements}
    return {
        "group_id": "g",
        "member_id": "m",
        "share_session_epoch": 0,
        "is_renew_ack": False,
        "topics": [{"topic_id": UUID(int=7), "partitions": [partition]}],
    }


def heartbeat_fields(**own: Any) -> dict[str, Any]:
    return {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rack_id": None,
        "subscribed_topic_names": ["t"],
        **own,
    }


def written(key: int, version: int, fields: dict[str, Any]) -> bytes:
    out = bytearray()
    writer_of(schema_of(key, version, "request"))(out, fields)
    return bytes(out)


def read(key: int, version: int, data: bytes) -> Struct:
    return reader_of(schema_of(key, version, "request"))(Cursor(memoryview(data)))


@given(st.lists(SETTLEMENTS, max_size=3))
def test_settlements_come_through_as_they_were_said(said: list[dict[str, Any]]) -> None:
    data = written(ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledge_fields(said))
    request = read(ApiKey.SHARE_ACKNOWLEDGE, 2, data)
    found = [each.as_dict() for each in request.topics[0].partitions[0].settlements]
    assert found == [{"delay_ms": -1, "reason": None, **each} for each in said]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), min_size=1))
def test_neighbours_are_one_range_and_the_order_stays(said: list[tuple[int, int]]) -> None:
    offsets = [at for first, size in said for at in range(first, first + size)]
    ranges = b"".join(RANGE.pack(*each) for each in said)
    fields = {"acknowledge_type": 1, "ranges": ranges, "nonces": bytes(8 * len(offsets))}
    data = written(ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledge_fields([fields]))
    request = read(ApiKey.SHARE_ACKNOWLEDGE, 2, data)
    found = settlement_of(request.topics[0].partitions[0].settlements[0]).ranges
    assert [at for first, end in found for at in range(first, end)] == offsets
    assert all(one[1] != two[0] for one, two in pairwise(found))


@given(QUEUES)
def test_what_a_member_wants_comes_through(queue: dict[str, Any]) -> None:
    data = written(ApiKey.SHARE_GROUP_HEARTBEAT, 1, heartbeat_fields(queue=queue))
    found = read(ApiKey.SHARE_GROUP_HEARTBEAT, 1, data).queue
    assert {name: getattr(found, name) for name in queue} == queue
    assert found.is_draining is False


def test_who_does_not_send_them_has_none() -> None:
    data = written(ApiKey.SHARE_GROUP_HEARTBEAT, 1, heartbeat_fields())
    assert read(ApiKey.SHARE_GROUP_HEARTBEAT, 1, data).queue is None
    data = written(ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledge_fields([]))
    assert read(ApiKey.SHARE_ACKNOWLEDGE, 2, data).topics[0].partitions[0].settlements == ()


@given(st.lists(SETTLEMENTS, min_size=1, max_size=3))
def test_a_reader_that_does_not_know_them_skips_them(said: list[dict[str, Any]]) -> None:
    data = written(ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledge_fields(said))
    cursor = Cursor(memoryview(data))
    plain = reader_of(kafka_schema(ApiKey.SHARE_ACKNOWLEDGE, 2, "request"))(cursor)
    assert cursor.position == len(data)
    assert plain.topics[0].partitions[0].partition_index == 3


@pytest.mark.parametrize(("key", "version"), SHARE)
@pytest.mark.parametrize("direction", ["request", "response"])
def test_kafka_s_own_fields_stay_as_they_are(key: int, version: int, direction: Any) -> None:
    def shape(schema: Any) -> list[Any]:
        return [
            (each.name, each.kind, each.tag, each.default, each.schema and shape(each.schema))
            for each in schema.fields
            if (each.tag or 0) < FIRST_TAG
        ]

    assert shape(schema_of(key, version, direction)) == shape(kafka_schema(key, version, direction))


@given(st.lists(SETTLEMENTS, min_size=1, max_size=3), st.data())
def test_damaged_settlements_are_refused_and_nothing_else_happens(
    said: list[dict[str, Any]], data: st.DataObject
) -> None:
    raw = bytearray(written(ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledge_fields(said)))
    for _ in range(data.draw(st.integers(0, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    try:
        request = read(ApiKey.SHARE_ACKNOWLEDGE, 2, bytes(raw))
    except RequestError:
        return
    for topic in request.topics:
        for partition in topic.partitions:
            for each in partition.settlements:
                try:
                    settlement = settlement_of(each)
                except InvalidGroupRequestError:
                    continue
                count = sum(end - first for first, end in settlement.ranges)
                assert len(settlement.nonces) == 8 * count
