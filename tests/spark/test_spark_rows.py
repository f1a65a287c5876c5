"""Fetched batches as Arrow: every column, against records decoded one by one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from goqueue.records import (
    CONTROL,
    DELIVERY,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Compression,
    Record,
    decode_rows,
    encode,
    stamp,
)
from goqueue.spark.errors import DataLossError
from goqueue.spark.kafka.fetching import Chunk, whole_batches
from goqueue.spark.kafka.ranges import OffsetRange
from goqueue.spark.reading.columns import ARROW_TYPES, RowBuilder, default_columns, runs_of
from support.batches import garbage_batch
from support.bombs import header_bomb, value_bomb

NAMES = list(ARROW_TYPES)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def chunk_of(batches, *, position=0, end=1 << 40, aborted=()):
    data = memoryview(b"".join(batches))
    source = OffsetRange("orders", "id", 3, position, end)
    return Chunk(source, position, data, list(whole_batches(data)), aborted)


def rows_of(chunk, names=NAMES):
    schema = pa.schema([pa.field(name, ARROW_TYPES[name]) for name in names])
    found = []
    for batch in RowBuilder(schema, names).batches(chunk):
        batch.validate(full=True)
        assert batch.num_rows
        found += batch.to_pylist()
    return found


def batch(first, *values, headers=(), **options):
    records = [
        Record(first + n, 1000 + first + n, b"k%d" % n, value, headers)
        for n, value in enumerate(values)
    ]
    return encode(records, **options)


def test_every_column_of_a_message():
    headers = (("a", b"1"), ("a", None))
    made = encode([Record(7, 1_700_000_000_123, b"k", None, headers)])
    (row,) = rows_of(chunk_of([made]))
    assert row == {
        "key": b"k",
        "value": None,
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp": EPOCH + timedelta(milliseconds=1_700_000_000_123),
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        "priority": "normal",
        "rawValue": None,
    }


def test_a_message_without_headers_has_null_as_with_sparks_kafka_connector():
    mixed = encode([Record(0, 1, None, b"", ()), Record(1, 1, None, b"", (("h", b""),))])
    assert [row["headers"] for row in rows_of(chunk_of([mixed]))] == [
        None,
        [{"key": "h", "value": b""}],
    ]


def test_columns_come_in_the_order_asked_for_and_no_others():
    rows = rows_of(chunk_of([batch(0, b"a", b"b")]), ["offset", "value"])
    assert rows == [{"offset": 0, "value": b"a"}, {"offset": 1, "value": b"b"}]
    assert default_columns(include_headers=True)[:8] == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip


def test_the_kind_of_a_time_stamp_changes_from_batch_to_batch():
    given_by_log = batch(2, b"c", attributes=LOG_APPEND_TIME, max_timestamp=5000)
    rows = rows_of(chunk_of([batch(0, b"a", b"b"), given_by_log, batch(3, b"d")]))
    assert [row["timestampType"] for row in rows] == [0, 0, 1, 0]
    assert rows[2]["timestamp"] == EPOCH + timedelta(seconds=5)


def test_a_time_stamp_beyond_what_spark_can_hold_does_not_end_the_query():
    (row,) = rows_of(chunk_of([encode([Record(0, 2**62, None, b"")])]), ["offset", "timestamp"][:1])
    assert row == {"offset": 0}
    schema = pa.schema([pa.field("timestamp", ARROW_TYPES["timestamp"])])
    chunk = chunk_of([encode([Record(0, 2**62, None, b""), Record(1, 7, None, b"")])])
    (made,) = RowBuilder(schema, ["timestamp"]).batches(chunk)
    assert made.column(0).cast(pa.int64()).to_pylist() == [(2**63 - 1) // 1000 * 1000, 7000]


def test_a_priority_counts_only_in_batches_that_the_broker_has_flagged():
    headers = (("goqueue-priority", b"HIGH"),)
    flagged = encode(
        [
            Record(0, 1, None, b"", headers),
            Record(1, 1, None, b"", ()),
            Record(2, 1, None, b"", (("goqueue-priority", b"0"), ("x", b"y"))),
            Record(3, 1, None, b"", (("goqueue-priority", b"nonsense"),)),
            Record(4, 1, None, b"", (("goqueue-priority", b"low"), *headers)),
        ],
        attributes=DELIVERY,
    )
    rows = rows_of(chunk_of([flagged, batch(5, b"", headers=headers)]))
    assert [row["priority"] for row in rows] == [
        "high", "normal", "critical", "normal", "high", "normal",
    ]  # fmt: skip


def test_rows_outside_of_the_range_are_left_out():
    chunk = chunk_of([batch(0, *[b"x"] * 5), batch(5, *[b"y"] * 5)], position=3, end=7)
    assert [row["offset"] for row in rows_of(chunk)] == [3, 4, 5, 6]


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch():
    whole = batch(0, b"a")
    data = memoryview(bytes(whole) + bytes(batch(1, b"b"))[:-1])
    assert [info.base_offset for _, info in whole_batches(data)] == [0]
    assert list(whole_batches(memoryview(bytes(whole)[:40]))) == []


@pytest.mark.parametrize("compression", list(Compression))
def test_every_compression(compression):
    made = batch(0, *[b"%d" % n for n in range(50)], compression=compression)
    assert [row["value"] for row in rows_of(chunk_of([made]))] == [b"%d" % n for n in range(50)]


def test_what_is_compressed_is_opened_a_piece_at_a_time():
    big = [batch(n, bytes(600_000), compression=Compression.NONE) for n in range(4)]
    assert len(list(runs_of(*chunk_of(big)[2:]))) == 1
    import random  # noqa: PLC0415 - bytes that stay long when they are compressed

    noise = random.Random(1).randbytes(600_000)
    packed = [batch(n, noise, compression=Compression.ZSTD) for n in range(4)]
    assert len(list(runs_of(*chunk_of(packed)[2:]))) == 2


# --- Transactions ------------------------------------------------------------------------------


@st.composite
def transactional_logs(draw):
    """A log of three producers, and what a reader of committed records must see of it."""
    open_since: dict[int, int] = {}
    pending: dict[int, list[int]] = {}
    log, seen, aborted, offset = [], [], [], 0
    for _ in range(draw(st.integers(0, 25))):
        producer = draw(st.integers(0, 3))
        options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
        if producer == 0:  # writes outside of any transaction
            log.append(batch(offset, b"p", **options))
            seen.append(offset)
        elif producer in open_since and draw(st.booleans()):
            commits = draw(st.booleans())
            marker = [Record(offset, 0, b"\0\0" + bytes([0, commits]), b"\0\0\0\0\0\0")]
            log.append(encode(marker, attributes=TRANSACTIONAL | CONTROL, **options))
            first = open_since.pop(producer)
            if commits:
                seen += pending.pop(producer)
            else:
                aborted.append((producer, first))
                pending.pop(producer)
        else:
            open_since.setdefault(producer, offset)
            log.append(batch(offset, b"t", attributes=TRANSACTIONAL, **options))
            pending.setdefault(producer, []).append(offset)
        offset += 1
    stable = min(open_since.values(), default=offset)
    return log, sorted(at for at in seen if at < stable), aborted, stable


@given(transactional_logs(), st.integers(0, 25))
def test_aborted_records_and_markers_are_never_seen(made, position):
    log, seen, aborted, stable = made
    batches = [each for number, each in enumerate(log) if position <= number < stable]
    # As a broker answers: aborted transactions that reach into what was fetched.
    known = sorted(aborted, key=lambda each: each[1])
    chunk = chunk_of(batches, position=position, aborted=_overlapping(known, log, position))
    found = [row["offset"] for row in rows_of(chunk, ["offset"])]
    assert found == [at for at in seen if at >= position]


def _overlapping(aborted, log, position):
    """Those whose marker is not before the position."""
    found = []
    for producer, first in aborted:
        for number in range(first, len(log)):
            _, info = next(whole_batches(memoryview(bytes(log[number]))))
            if info.is_control and info.producer_id == producer:
                if number >= position:
                    found.append((producer, first))
                break
    return found


@given(st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=6), max_size=6))
def test_rows_are_the_records_whatever_the_batches(groups):
    made, offset = [], 0
    for group in groups:
        made.append(batch(offset, *group))
        offset += len(group)
    expected = [record for each in made for record in decode_rows(each)]
    rows = rows_of(chunk_of(made), ["offset", "key", "value"])
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
        (record.offset, record.key, record.value) for record in expected
    ]


def test_records_that_do_not_decode_are_named_or_left_out(caplog):
    made = [batch(0, b"before"), _at(1, garbage_batch(5, good=2)), batch(6, b"after")]
    with pytest.raises(DataLossError, match="orders/3: records at offsets 3 to 5 do not decode"):
        rows_of(chunk_of(made))
    assert [row["offset"] for row in rows_of(chunk_of(made, position=6))] == [6]
    schema = pa.schema([pa.field("offset", ARROW_TYPES["offset"])])
    builder = RowBuilder(schema, ["offset"], fail_on_data_loss=False)
    found = [row["offset"] for each in builder.batches(chunk_of(made)) for row in each.to_pylist()]
    assert found == [0, 1, 2, 6]
    assert "offsets 3 to 5" in caplog.text


def test_a_bomb_is_left_out_and_its_neighbours_are_rows():
    made = [batch(0, b"before"), _at(1, header_bomb()), _at(2, value_bomb()), batch(3, b"after")]
    with pytest.raises(DataLossError, match="offsets 1 to 1 do not decode"):
        rows_of(chunk_of(made))
    schema = pa.schema([pa.field("offset", ARROW_TYPES["offset"])])
    builder = RowBuilder(schema, ["offset"], fail_on_data_loss=False)
    found = [row["offset"] for each in builder.batches(chunk_of(made)) for row in each.to_pylist()]
    assert found == [0, 3]


def test_batches_that_are_too_large_together_become_rows_one_by_one():
    large = [batch(number, bytes(16 << 20), compression=Compression.ZSTD) for number in range(10)]
    names = ["offset"]
    schema = pa.schema([pa.field("offset", ARROW_TYPES["offset"])])
    found = list(RowBuilder(schema, names).batches(chunk_of(large)))
    assert [row["offset"] for each in found for row in each.to_pylist()] == list(range(10))
    assert len(found) == 10


def _at(offset, made):
    data = bytearray(made)
    stamp(data, 0, offset, 0)
    return data
