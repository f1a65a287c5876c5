"""A batch filled message by message is the batch that `encode` makes, in C and in Python."""

from __future__ import annotations

import sys
from array import array
from collections import UserDict, deque
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from goqueue.model.errors import BatchTooLargeError, MalformedRecordError
from goqueue.model.limits import FREE_BATCH_ITEMS, MAX_BATCH_BYTES
from goqueue.records import BinaryView, Compression, Record, peek, restamp, validate
from goqueue.records.arrow import to_view
from support.effort import examples
from unit.records.record_strategies import (
    CODECS,
    NATIVE,
    REFERENCE,
    compressions,
    headers,
    payloads,
    record_lists,
    timestamps,
)

if TYPE_CHECKING:
    from goqueue.records.codec import Codec

each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)


class Bytes(bytes):
    """Says nothing true of itself."""

    def __len__(self) -> int:
        return 10**9

    def __bytes__(self) -> bytes:
        return b"something else"


class Text(str):
    __slots__ = ()

    def encode(self, *_: Any) -> bytes:
        return b"something else"


contents = (
    payloads
    | st.text(max_size=8)
    | st.text(st.characters(codec=None), max_size=3)  # surrogates too
    | st.sampled_from(
        [bytearray(b"xyz"), memoryview(b"abcdef")[::2], memoryview(array("i", [1]).tobytes())]
    )
    | st.sampled_from([Bytes(b"ab"), Text("cd"), 5, 1.5, [b"x"], object])
)
any_headers = (
    headers
    | st.lists(st.tuples(st.text(max_size=5), contents), max_size=12)
    | st.dictionaries(st.text(max_size=5), contents, max_size=4)
    | st.sampled_from(
        [None, UserDict(a=b"b"), deque([("a", b"b")]), "ab", b"ab", 7, [b"a"], [("a",)]]
    )
    | st.sampled_from([[("a", b"b", 1)], [(b"a", b"b")], [["a", "b"]], ["ab"], {5: b""}, {"a"}])
)
any_timestamps = timestamps | st.sampled_from([2**63 - 1, -(2**63), 2**63, 1.5, None, True])
single = st.tuples(st.just("add"), contents, contents, any_headers, any_timestamps)


@st.composite
def many(draw: Any) -> tuple[Any, ...]:
    count = draw(st.integers(0, 6))
    bulk = payloads if draw(st.booleans()) else contents

    def column(size: int) -> Any:
        values = draw(st.lists(bulk, min_size=size, max_size=size))
        if bulk is payloads and draw(st.booleans()):
            kind = draw(st.sampled_from([pa.binary(), pa.large_binary()]))
            return to_view(pa.array([b"before", *values], kind)[1:])
        return draw(st.sampled_from([list, tuple]))(values)

    keys = draw(st.none() | st.sampled_from([count, count, count + 1]).map(column))
    times = draw(
        any_timestamps
        | st.lists(timestamps, min_size=count, max_size=count).map(lambda each: array("q", each))
        | st.just(bytes(8))
    )
    rows = draw(
        st.none()
        | st.lists(st.integers(0, max(count - 1, 0)), max_size=6).map(lambda each: array("i", each))
        | st.sampled_from([array("i", [-1]), array("i", [count]), b"123"])
    )
    return "add_many", column(count), keys, times, rows, draw(st.integers(-1, 4))


def replay(codec: Codec, limit_bytes: int, steps: list[tuple[Any, ...]]) -> list[Any]:
    """What each step answered and left behind, and the finished batch."""
    builder = codec.BatchBuilder(limit_bytes)
    seen: list[Any] = []
    for name, *arguments in steps:
        try:
            answer = getattr(builder, name)(*arguments)
        except (TypeError, ValueError, IndexError, MalformedRecordError) as error:
            answer = type(error), str(error) if type(error) is TypeError else ""
        seen.append((answer, builder.count, builder.size_bytes, builder.is_full))
    if builder.count:
        seen.append(builder.finish(producer_id=7, producer_epoch=1, base_sequence=3))
        seen.append((builder.add(b"late", None, (), 0), builder.is_full))
    return seen


@settings(max_examples=examples(300))
@given(st.integers(0, 400), st.lists(single | many(), max_size=6))
def test_both_builders_answer_alike_and_build_the_same_bytes(
    limit_bytes: int, steps: list[tuple[Any, ...]]
) -> None:
    assert replay(NATIVE, limit_bytes, steps) == replay(REFERENCE, limit_bytes, steps)


@each_codec
@given(records=record_lists(min_size=1, dense=True), compression=compressions)
def test_a_built_batch_is_the_batch_that_encoding_its_records_gives(
    codec: Codec, records: list[Record], compression: Compression
) -> None:
    builder = codec.BatchBuilder(1 << 20)
    for index, record in enumerate(records):
        assert builder.add(record.value, record.key, record.headers, record.timestamp_ms) == index
    size_bytes = builder.size_bytes
    batch = builder.finish(compression=compression)
    assert batch == codec.encode(records, compression=compression)
    assert len(codec.encode(records)) == size_bytes


@each_codec
def test_many_messages_go_on_in_the_next_batch(codec: Codec) -> None:
    values = [b"%03d" % number for number in range(100)]
    keys = [None if number % 3 else f"é{number}" for number in range(100)]
    seen: list[tuple[bytes | None, bytes | None]] = []
    start = 0
    while start < len(values):
        builder = codec.BatchBuilder(300)
        start += builder.add_many(values, keys, 5, None, start)
        assert builder.size_bytes <= 300
        seen += [(row.value, row.key) for row in codec.decode_rows(builder.finish())]
    assert seen == [(value, key and key.encode()) for value, key in zip(values, keys, strict=True)]


@each_codec
def test_the_rows_of_a_partition_are_added_alone(codec: Codec) -> None:
    values = to_view(pa.array([f"value {number}" for number in range(9)]))
    keys = [b"k%d" % number if number % 4 else None for number in range(9)]
    found: list[int] = []
    for partition, rows in enumerate(codec.split_rows(keys, 3, 1)):
        if rows:
            builder = codec.BatchBuilder(10_000)
            taken = builder.add_many(values, keys, array("q", range(100, 109)), rows)
            decoded = codec.decode_rows(builder.finish())
            assert taken == len(decoded)
            found += [row.timestamp_ms - 100 for row in decoded]
            for row in decoded:
                assert row.value == b"value %d" % (row.timestamp_ms - 100)
                assert partition == (1 if row.key is None else codec.key_hash(row.key) % 3)
    assert sorted(found) == list(range(9))


@each_codec
def test_the_first_record_fits_whatever_the_limit_and_the_second_does_not(codec: Codec) -> None:
    builder = codec.BatchBuilder(0)
    assert builder.add(bytes(1000), None, (), 1) == 0
    assert not builder.is_full
    assert builder.add(b"", None, (), 1) == -1
    assert builder.is_full
    assert len(codec.decode_rows(builder.finish())) == 1


@each_codec
def test_a_batch_is_filled_to_the_last_byte_of_its_limit(codec: Codec) -> None:
    builder = codec.BatchBuilder(
        len(codec.encode([Record(0, 0, None, b"a"), Record(1, 0, None, b"b")]))
    )
    assert [builder.add(value, None, (), 0) for value in (b"a", b"bc", b"b", b"")] == [0, -1, 1, -1]


@each_codec
def test_a_batch_has_no_more_records_and_headers_than_a_broker_opens(codec: Codec) -> None:
    builder = codec.BatchBuilder(MAX_BATCH_BYTES)
    builder.add(b"", None, (("name", b""),) * 10, 0)
    assert builder.add_many([b""] * FREE_BATCH_ITEMS, None, 0) == FREE_BATCH_ITEMS - 11
    assert builder.is_full


@each_codec
def test_a_record_that_no_batch_can_hold_is_refused_and_leaves_the_batch_as_it_was(
    codec: Codec,
) -> None:
    builder = codec.BatchBuilder(1 << 40)
    with pytest.raises(BatchTooLargeError, match=str(MAX_BATCH_BYTES)):
        builder.add(bytes(MAX_BATCH_BYTES), None, (), 0)
    assert (builder.add(b"small", None, (), 0), builder.count) == (0, 1)


@each_codec
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((5, None, (), 0), "a value must be bytes, str or None, not int"),
        ((b"", 1.5, (), 0), "a key must be bytes, str or None, not float"),
        ((b"", b"", (("a", 5),), 0), "a header value must be bytes, str or None, not int"),
        ((b"", b"", ((b"a", b""),), 0), "the name of a header must be a str, not bytes"),
        ((b"", b"", 5, 0), "headers must be a mapping or a sequence of pairs, not int"),
        ((b"", b"", (), "now"), "a timestamp must be an int of milliseconds, not str"),
    ],
)
def test_an_argument_of_another_type_is_named(
    codec: Codec, arguments: tuple[Any, Any, Any, Any], text: str
) -> None:
    with pytest.raises(TypeError, match=text):
        codec.BatchBuilder(100).add(*arguments)


@each_codec
def test_text_that_is_no_utf8_is_refused(codec: Codec) -> None:
    with pytest.raises(UnicodeEncodeError):
        codec.BatchBuilder(100).add("\ud800", None, (), 0)


@each_codec
def test_a_batch_is_finished_once_and_not_without_records(codec: Codec) -> None:
    builder = codec.BatchBuilder(100)
    with pytest.raises(ValueError, match="without records"):
        builder.finish()
    builder.add(b"value", None, (), 0)
    builder.finish()
    with pytest.raises(RuntimeError, match="finished before"):
        builder.finish()


@each_codec
@given(compression=compressions)
def test_a_batch_is_restamped_for_another_producer(codec: Codec, compression: Compression) -> None:
    batches = []
    for producer in (-1, -1, -1), (2**40, 30_000, 2**31 - 1):
        builder = codec.BatchBuilder(1000)
        builder.add(b"value", b"key", (), 17)
        producer_id, producer_epoch, base_sequence = producer
        batches.append(
            builder.finish(
                compression=compression,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
            )
        )
    restamp(batches[0], 2**40, 30_000, 2**31 - 1)
    assert batches[0] == batches[1]
    validate(batches[0], 0, peek(batches[0]))


@given(
    st.lists(st.none() | st.binary(max_size=12) | st.text(max_size=4), max_size=20),
    st.integers(1, 7),
    st.sampled_from(["mmh3", "murmur2"]),
    st.data(),
)
def test_both_implementations_split_rows_alike(
    keys: list[Any], count: int, partitioner: str, data: st.DataObject
) -> None:
    unkeyed = data.draw(st.integers(0, count - 1))
    split = REFERENCE.split_rows(keys, count, unkeyed, partitioner)
    assert NATIVE.split_rows(keys, count, unkeyed, partitioner) == split
    view = to_view(
        pa.array([key.encode() if isinstance(key, str) else key for key in keys], pa.binary())
    )
    assert NATIVE.split_rows(view, count, unkeyed, partitioner) == split
    assert REFERENCE.split_rows(view, count, unkeyed, partitioner) == split


@given(st.binary(max_size=40))
def test_both_implementations_hash_alike(key: bytes) -> None:
    assert NATIVE.key_hash(key) == REFERENCE.key_hash(key)


@each_codec
@pytest.mark.parametrize(
    "arguments", [([], 0, 0), ([], 3, 3), ([], 3, -1), ([], 2**31, 0), ([], 3, 0, "crc")]
)
def test_rows_are_split_over_partitions_that_there_are(codec: Codec, arguments: Any) -> None:
    with pytest.raises(ValueError, match="there is no partition"):
        codec.split_rows(*arguments)


@each_codec
@pytest.mark.parametrize(
    "view",
    [
        BinaryView(b"", b"", None, 0, 1, is_large=False),
        BinaryView(bytes(8), b"", None, 1, 1, is_large=False),
        BinaryView(bytes(8), b"", None, 0, 1, is_large=True),
        BinaryView(bytes(80), b"", b"", 0, 1, is_large=True),
        BinaryView(bytes(80), b"", None, -1, 1, is_large=True),
        BinaryView(bytes(80), b"", None, 0, -1, is_large=True),
        BinaryView(bytes(80), b"", None, 2**62, 2**62, is_large=True),
        BinaryView(array("i", [0, 5]), b"1234", None, 0, 1, is_large=False),
        BinaryView(array("i", [4, 3]), b"1234", None, 0, 1, is_large=False),
        BinaryView(array("i", [-1, 3]), b"1234", None, 0, 1, is_large=False),
    ],
)
def test_a_column_that_contradicts_itself_is_refused(codec: Codec, view: BinaryView) -> None:
    with pytest.raises(ValueError, match="column"):
        codec.BatchBuilder(1000).add_many(view, None, 0)
    with pytest.raises(ValueError, match="column"):
        codec.split_rows(view, 3, 0)


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.string_view(),
        pa.binary_view(),
    ],
    ids=str,
)
def test_every_arrow_type_of_text_and_bytes_can_be_published(kind: pa.DataType) -> None:
    values = pa.array(["never", "a", None, "", "é"]).cast(kind)[1:]
    for codec in CODECS:
        builder = codec.BatchBuilder(1000)
        assert builder.add_many(to_view(values), to_view(values), 0) == 4
        rows = codec.decode_rows(builder.finish())
        assert [row.value for row in rows] == [b"a", None, b"", "é".encode()]
        assert [row.key for row in rows] == [b"a", None, b"", "é".encode()]


@pytest.mark.parametrize("values", [pa.array([], pa.string()), pa.nulls(0, pa.binary())])
def test_an_empty_arrow_array_adds_nothing(values: Any) -> None:
    for codec in CODECS:
        assert codec.BatchBuilder(1000).add_many(to_view(values), None, 0) == 0


def test_nulls_and_fixed_sizes_can_be_published_and_numbers_cannot() -> None:
    builder = NATIVE.BatchBuilder(1000)
    assert (
        builder.add_many(to_view(pa.nulls(2)), to_view(pa.array([b"ab", b"cd"], pa.binary(2))), 0)
        == 2
    )
    assert [row.key for row in NATIVE.decode_rows(builder.finish())] == [b"ab", b"cd"]
    with pytest.raises(TypeError, match="must be binary or string, not int64"):
        to_view(pa.array([1, 2]))


def test_no_reference_is_kept_to_what_was_added_or_refused() -> None:
    value, key, name = bytes(300), bytes(301), "name" * 20
    values = [value, key]
    before = [sys.getrefcount(each) for each in (value, key, name)]
    for _ in range(50):
        builder = NATIVE.BatchBuilder(2000)
        pairs: Any
        for pairs in ((name, value),), ((name, value),) * 12, ((name, value), (name, 5)):
            try:
                builder.add(value, key, pairs, 0)
            except TypeError:
                builder.add_many(values, values, 0)
        with pytest.raises(ValueError, match="keys for"):
            builder.add_many(values, [key], 0)
        builder.finish()
    del pairs
    assert [sys.getrefcount(each) for each in (value, key, name)] == before


def test_a_builder_that_is_finished_by_what_it_is_given_takes_nothing_more() -> None:
    builder = NATIVE.BatchBuilder(1000)
    builder.add(b"first", None, (), 0)
    finished: list[bytearray] = []

    class Finishing(dict[str, bytes]):
        def items(self) -> Any:
            finished.append(builder.finish())
            return [("a", b"b")]

    assert builder.add(b"second", None, Finishing(), 0) == -1
    assert len(NATIVE.decode_rows(finished[0])) == 1
