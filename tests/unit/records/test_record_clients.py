"""Batches are what aiokafka and kafka-python write and read, bit for bit where they can be."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.record.default_records import (
    DefaultRecordBatch as AiokafkaBatch,
    DefaultRecordBatchBuilder as AiokafkaBuilder,
)
from hypothesis import given, strategies as st

from goqueue.records import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Compression,
    Record,
    peek,
    stamp,
    validate,
)
from unit.records.record_strategies import CODECS, compressions, record_lists

if TYPE_CHECKING:
    from goqueue.records.codec import Codec

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # kafka-python reads its schemas the old way
    from kafka.record.default_records import (
        DefaultRecordBatch as KafkaPythonBatch,
        DefaultRecordBatchBuilder as KafkaPythonBuilder,
    )

each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
each_builder = pytest.mark.parametrize("builder", [AiokafkaBuilder, KafkaPythonBuilder])
each_reader = pytest.mark.parametrize("reader", [AiokafkaBatch, KafkaPythonBatch])


@st.composite
def client_records(draw: Any) -> list[Record]:
    """What those clients can build: dense offsets, names in UTF-8, and times but -1 (aiokafka)."""
    records: list[Record] = draw(record_lists(min_size=1, dense=True))
    return [
        record._replace(
            timestamp_ms=0 if record.timestamp_ms == -1 else record.timestamp_ms,
            headers=tuple(
                (name.encode("utf-8", "replace").decode(), value) for name, value in record.headers
            ),
        )
        for record in records
    ]


def build(
    builder: Any, records: list[Record], compression: int, *, is_transactional: bool = False
) -> bytearray:
    """A batch as that client builds it, but for the leader epoch, which they do not agree on."""
    under_way = builder(2, int(compression), is_transactional, 5, 1, 9, 2**30)
    for record in records:
        offset, timestamp_ms, key, value, headers = record
        added = under_way.append(offset, timestamp_ms, key, value, list(headers))
        assert added is not None
    batch = bytearray(under_way.build())
    stamp(batch, 0, 0, 0)
    return batch


def read(reader: Any, batch: bytearray) -> list[Record]:
    opened = reader(bytes(batch))
    assert opened.validate_crc()
    return [
        Record(row.offset, row.timestamp, row.key, row.value, tuple(row.headers)) for row in opened
    ]


@each_codec
@each_builder
@given(records=client_records(), is_transactional=st.booleans())
def test_an_uncompressed_batch_is_the_client_s_to_the_bit(
    codec: Codec, builder: Any, records: list[Record], is_transactional: bool
) -> None:
    ours = codec.encode(
        records,
        leader_epoch=0,
        producer_id=5,
        producer_epoch=1,
        base_sequence=9,
        attributes=TRANSACTIONAL if is_transactional else 0,
    )
    assert ours == build(builder, records, 0, is_transactional=is_transactional)


@each_codec
@each_builder
@given(records=client_records(), compression=compressions)
def test_a_client_s_batch_decodes_to_what_it_was_given(
    codec: Codec, builder: Any, records: list[Record], compression: Compression
) -> None:
    batch = build(builder, records, compression)
    assert peek(batch).compression in {compression, Compression.NONE}  # where it pays
    validate(batch, 0, peek(batch))
    assert codec.decode_rows(batch) == records


@each_codec
@each_reader
@given(records=client_records(), compression=compressions)
def test_a_client_reads_our_batch(
    codec: Codec, reader: Any, records: list[Record], compression: Compression
) -> None:
    assert read(reader, codec.encode(records, compression=compression)) == records


@each_codec
@each_reader
@pytest.mark.parametrize("compression", Compression)
def test_a_client_reads_our_batch_of_large_values(
    codec: Codec, reader: Any, compression: Compression
) -> None:
    records = [Record(i, i, b"%d" % i, bytes(range(256)) * 1000 * i) for i in range(5)]
    assert read(reader, codec.encode(records, compression=compression)) == records


@each_codec
@each_builder
@pytest.mark.parametrize("compression", Compression)
def test_a_client_s_batch_of_large_values_decodes(
    codec: Codec, builder: Any, compression: Compression
) -> None:
    records = [Record(i, i, b"%d" % i, bytes(range(256)) * 1000 * i) for i in range(5)]
    assert codec.decode_rows(build(builder, records, compression)) == records


@each_codec
@each_reader
def test_a_client_sees_log_append_time_and_gaps_as_we_do(codec: Codec, reader: Any) -> None:
    batch = codec.encode(
        [Record(107, 30, None, b"a"), Record(109, 20, b"k", None)],
        base_offset=100,
        last_offset_delta=12,
        attributes=LOG_APPEND_TIME,
        max_timestamp=900,
    )
    assert read(reader, batch) == codec.decode_rows(batch)
    assert [row.timestamp_ms for row in codec.decode_rows(batch)] == [900, 900]


@each_codec
@each_reader
def test_a_client_sees_the_flags(codec: Codec, reader: Any) -> None:
    marker = Record(0, 1, b"\x00\x00\x00\x01", bytes(6))
    batch = reader(bytes(codec.encode([marker], attributes=CONTROL | TRANSACTIONAL)))
    assert batch.is_control_batch
    assert batch.is_transactional
    plain = reader(bytes(codec.encode([marker])))
    assert not plain.is_control_batch
    assert not plain.is_transactional
