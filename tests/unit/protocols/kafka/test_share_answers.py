"""ShareFetch answers by hand, held against the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from goqueue.protocols.kafka.share.acknowledged import acknowledged_offsets
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.frames import encode_body
from goqueue.wire.kafka.share_fetch import SharedPartition, encode_response

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OFFSETS = st.integers(0, 2**63 - 1)
TEXTS = st.none() | st.text(max_size=20)
CODES = st.integers(-1, 133)
FAILURES = st.fixed_dictionaries(
    {
        "offset": OFFSETS,
        "nonce": st.integers(0, 2**64 - 1),
        "error_name": st.text(max_size=9),
        "message": st.text(max_size=20),
        "is_done": st.integers(0, 1),
    }
)
OWN = st.fixed_dictionaries(
    {},
    optional={
        "nonces": st.binary(max_size=300),
        "lanes": st.binary(max_size=5),
        "visible_until_ms": OFFSETS,
        "failures": st.lists(FAILURES, max_size=3),
        "error_name": TEXTS,
    },
)
PARTITIONS = st.builds(
    SharedPartition,
    partition=st.integers(0, 2**31 - 1),
    error_code=CODES,
    error_message=TEXTS,
    acknowledge_error_code=CODES,
    acknowledge_error_message=TEXTS,
    leader=st.tuples(st.integers(-1, 5), st.integers(-1, 5)),
    records=st.lists(st.sampled_from([b"", b"small", bytes(600)]), max_size=3),
    acquired=st.lists(st.tuples(OFFSETS, OFFSETS, st.integers(1, 250)), max_size=3),
    own=OWN,
)
TOPICS = st.dictionaries(
    st.integers(1, 2**64).map(lambda number: UUID(int=number)),
    st.lists(PARTITIONS, max_size=3),
    max_size=3,
)


def by_schema(
    version: int, lock_ms: int, topics: Mapping[UUID, Sequence[SharedPartition]]
) -> bytes:
    fields: dict[str, Any] = {
        "error_code": 0,
        "error_message": None,
        "acquisition_lock_timeout_ms": lock_ms,
        "responses": [
            {"topic_id": topic_id, "partitions": [_partition(each) for each in partitions]}
            for topic_id, partitions in topics.items()
        ],
        "node_endpoints": [],
    }
    return bytes(encode_body(ApiKey.SHARE_FETCH, version, fields))


def _partition(shared: SharedPartition) -> dict[str, Any]:
    return {
        "partition_index": shared.partition,
        "error_code": shared.error_code,
        "error_message": shared.error_message,
        "acknowledge_error_code": shared.acknowledge_error_code,
        "acknowledge_error_message": shared.acknowledge_error_message,
        "current_leader": {"leader_id": shared.leader[0], "leader_epoch": shared.leader[1]},
        "records": b"".join(shared.records),
        "acquired_records": [
            {"first_offset": first, "last_offset": last, "delivery_count": count}
            for first, last, count in shared.acquired
        ],
        **shared.own,
    }


@pytest.mark.parametrize("version", [1, 2])
@given(lock_ms=st.integers(0, 2**31 - 1), topics=TOPICS)
def test_answers_are_those_of_the_schema(
    version: int, lock_ms: int, topics: dict[UUID, list[SharedPartition]]
) -> None:
    assert b"".join(encode_response(lock_ms, topics).parts) == by_schema(version, lock_ms, topics)


def test_a_large_batch_is_not_copied() -> None:
    batch = memoryview(bytes(1000))
    answer = encode_response(1, {UUID(int=1): [SharedPartition(0, records=[batch])]})
    assert any(part is batch for part in answer.parts)


class Said:
    def __init__(self, first: int, last: int, types: list[int]) -> None:
        self.first_offset = first
        self.last_offset = last
        self.acknowledge_types = types


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), max_size=5))
def test_a_type_for_each_offset_says_the_same_as_runs_of_them(kinds: list[list[int]]) -> None:
    said: Any = []
    expected: dict[int, int] = {}
    first = 3
    for types in kinds:
        said.append(Said(first, first + len(types) - 1, types))
        expected.update(enumerate(types, first))
        first += len(types) + 1
    found = {
        offset: each.verdict
        for each in acknowledged_offsets(said, can_renew=False)
        for offset in range(each.first, each.last + 1)
    }
    names = {0: "ack", 1: "ack", 2: "release", 3: "reject"}
    assert found == {offset: names[kind] for offset, kind in expected.items()}
