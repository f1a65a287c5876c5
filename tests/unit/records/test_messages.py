"""Fetched messages are the records that were stored, decoded when asked, in C and in Python."""

from __future__ import annotations

import copy
import pickle
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from goqueue.model.errors import BatchError, BatchTooLargeError, MalformedRecordError
from goqueue.records import (
    CONTROL,
    IMPLEMENTATION,
    TRANSACTIONAL,
    Compression,
    Message,
    Record,
    decode_messages,
    encode,
    walk,
)
from goqueue.records.committed import committed
from support.effort import examples
from unit.records.record_strategies import CODECS, NATIVE, REFERENCE, compressions, record_lists

if TYPE_CHECKING:
    from goqueue.records.codec import Codec
    from goqueue.records.messages import Messages

each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
FIELDS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")


@st.composite
def fetches(draw: Any) -> tuple[bytes, list[tuple[int, int]]]:
    """Batches of three producers with markers among them, and which transactions were aborted."""
    buffer, offset = b"", 0
    for _ in range(draw(st.integers(0, 5))):
        records = [
            record._replace(offset=offset + at)
            for at, record in enumerate(draw(record_lists(min_size=1)))
        ]
        attributes = draw(st.sampled_from([0, 0, TRANSACTIONAL, CONTROL | TRANSACTIONAL]))
        compression = draw(compressions)
        buffer += encode(
            records,
            attributes=attributes,
            compression=compression,
            producer_id=draw(st.integers(0, 2)),
            producer_epoch=0,
            base_sequence=0,
        )
        offset = records[-1].offset + draw(st.integers(1, 3))
    aborted = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, offset)), max_size=3))
    return buffer, sorted(aborted, key=lambda each: each[1])


def content(messages: Messages) -> list[Any]:
    """Everything that can be seen of them, in each of the ways."""
    rows = [tuple(message) for message in messages]
    assert [tuple(getattr(each, name) for name in FIELDS) for each in messages] == rows
    assert [each[4] for each in rows] == messages.keys()
    assert [each[5] for each in rows] == messages.values()
    assert [each[2] for each in rows] == messages.offsets()
    assert [each[3] for each in rows] == messages.timestamps_ms()
    return [rows, messages.next_offset, messages.remainder_bytes, messages.size_bytes]


def outcome(codec: Codec, *arguments: Any, **options: Any) -> Any:
    try:
        return content(codec.decode_messages(*arguments, **options))
    except BatchError as error:
        return type(error)


@given(
    fetches(), st.none() | st.integers(0, 20), st.none() | st.integers(0, 20), st.integers(0, 90)
)
def test_messages_are_what_is_visible_in_the_range(
    fetch: tuple[bytes, list[tuple[int, int]]], first: int | None, end: int | None, cut: int
) -> None:
    buffer, aborted = fetch
    wanted = [
        ("topic", 3, *record)
        for position, _ in committed(walk(buffer), aborted)
        for record in REFERENCE.decode_rows(buffer, position)
        if (first or 0) <= record.offset < (sys.maxsize if end is None else end)
    ]
    options: dict[str, Any] = {"from_offset": first, "until_offset": end, "aborted": aborted}
    for codec in CODECS:
        found = codec.decode_messages("topic", 3, buffer + buffer[:cut], **options)
        if cut < 61:  # not a whole batch
            assert [tuple(message) for message in found] == wanted
            assert found.remainder_bytes == min(cut, len(buffer))
        columns = codec.decode_columns(buffer, **options)
        assert columns.count == len(wanted)


@settings(max_examples=examples(300))
@given(
    fetches(),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3),
    st.data(),
)
def test_both_implementations_read_damaged_batches_alike(
    fetch: tuple[bytes, list[tuple[int, int]]], damage: list[tuple[int, int]], data: st.DataObject
) -> None:
    buffer, aborted = bytearray(fetch[0]), fetch[1]
    for position, byte in damage if buffer else ():
        buffer[position % len(buffer)] ^= byte
    options: dict[str, Any] = {
        "aborted": aborted,
        "check_crc": data.draw(st.booleans()),
        "limit_bytes": data.draw(st.sampled_from([2**31 - 1, 100])),
    }
    assert outcome(NATIVE, "topic", 0, buffer, **options) == outcome(
        REFERENCE, "topic", 0, buffer, **options
    )


def batches(*values: bytes, **options: Any) -> list[bytes]:
    return [
        bytes(encode([Record(offset, 7, b"k", value, (("h", b"x"),))], **options))
        for offset, value in enumerate(values)
    ]


@each_codec
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("check_crc", [True, False])
def test_a_damaged_batch_costs_nothing_that_is_before_it(
    codec: Codec, compression: Compression, check_crc: bool
) -> None:
    first, second, third = batches(b"one", b"two", b"three", compression=compression)
    damaged = second[:-3] + b"\xff\xff\xff"
    found = codec.decode_messages("t", 0, first + damaged + third, check_crc=check_crc)
    assert (found.values(), found.next_offset) == ([b"one"], 1)
    with pytest.raises(BatchError):
        codec.decode_messages("t", 0, damaged + third, from_offset=1, check_crc=check_crc)


@each_codec
def test_messages_end_before_the_batch_that_is_too_much_and_have_one_at_least(codec: Codec) -> None:
    buffer = b"".join(batches(b"1" * 100, b"2" * 100, b"3" * 100))
    found = codec.decode_messages("t", 0, buffer, limit_bytes=250)
    assert (len(found), found.next_offset) == (2, 2)
    assert len(codec.decode_messages("t", 0, buffer, limit_bytes=1)) == 1
    with pytest.raises(BatchTooLargeError):
        codec.decode_columns(buffer, limit_bytes=250)


@each_codec
def test_a_compressed_batch_among_plain_ones_keeps_its_place(codec: Codec) -> None:
    values = [b"%d" % number for number in range(6)]
    plain, packed = batches(*values), batches(*values, compression=Compression.ZSTD)
    buffer = plain[0] + plain[1] + packed[2] + plain[3] + packed[4] + plain[5]
    found = codec.decode_messages("t", 0, buffer + plain[0][:-1], from_offset=1)
    assert (found.values(), found.next_offset) == (values[1:], 6)
    assert found.remainder_bytes == len(plain[0]) - 1


@each_codec
def test_messages_are_a_sequence(codec: Codec) -> None:
    messages = codec.decode_messages("t", 0, b"".join(batches(b"a", b"b", b"c")))
    assert len(messages) == 3
    assert [each.value for each in messages[1:]] == [b"b", b"c"]
    assert [each.value for each in messages[::-2]] == [b"c", b"a"]
    assert messages[-1] == messages[2]
    assert messages[5:] == []
    assert [each.offset for each in reversed(messages)] == [2, 1, 0]
    assert messages.values(1) == [b"b", b"c"]
    assert messages.values(-2, -1) == [b"b"]
    assert messages.values(2, 1) == []
    assert messages.keys(None, 1) == [b"k"]
    fields = messages.offset(-1), messages.timestamp_ms(0), messages.key(0), messages.value(1)
    assert fields == (2, 7, b"k", b"b")
    assert messages.headers(2) == (("h", b"x"),)
    for index in 3, -4:
        with pytest.raises(IndexError, match=f"no message {index} among 3"):
            messages[index]
        with pytest.raises(IndexError, match="no message"):
            messages.value(index)


@each_codec
def test_a_message_behaves_like_the_tuple_of_its_fields(codec: Codec) -> None:
    (message,) = codec.decode_messages("t", 4, batches(b"v")[0])
    fields = ("t", 4, 0, 7, b"k", b"v", (("h", b"x"),))
    topic, partition, offset, timestamp_ms, key, value, headers = message
    assert (topic, partition, offset, timestamp_ms, key, value, headers) == fields
    assert message == fields
    assert fields == message
    assert message == codec.Message(*fields)
    assert message != codec.Message(*fields[:-1])
    assert message != "t"
    assert hash(message) == hash(fields)
    assert len(message) == 7
    assert (message[0], message[-2], message[1:3]) == ("t", b"v", (4, 0))
    assert message._asdict() == dict(zip(FIELDS, fields, strict=True))
    assert message._fields == FIELDS
    assert repr(message) == (
        "Message(topic='t', partition=4, offset=0, timestamp_ms=7, key=b'k', value=b'v', "
        "headers=(('h', b'x'),))"
    )
    assert message._replace(value=None).value is None
    assert sorted([message._replace(offset=1), message]) == [message, message._replace(offset=1)]
    match message:
        case codec.Message(topic, _, offset):
            assert (topic, offset) == ("t", 0)
    with pytest.raises(ValueError, match="no fields"):
        message._replace(colour="red")
    with pytest.raises(IndexError):
        message[7]
    with pytest.raises(AttributeError):
        message.value = b"another"  # type: ignore[misc]
    with pytest.raises(TypeError):
        codec.Message("t", 1)  # type: ignore[call-arg]


@each_codec
def test_rows_can_be_of_a_class_of_the_caller(codec: Codec) -> None:
    class Delivered(codec.Message):  # type: ignore[name-defined]
        __slots__ = ("is_settled",)

        def __init__(self, *_: Any) -> None:
            raise AssertionError("rows are made without it")

    messages = codec.decode_messages("t", 0, b"".join(batches(b"a", b"b", b"c")))
    rows = messages.rows(Delivered, 1)
    rows[0].is_settled = True
    assert [each.value for each in rows] == [b"b", b"c"]
    assert repr(rows[0]).startswith("Delivered(topic='t'")
    wrong: Any
    for wrong in int, Record:
        with pytest.raises(TypeError, match="derived from Message"):
            messages.rows(wrong)


def test_a_message_keeps_its_fetch_and_a_copy_does_not() -> None:
    buffer = b"".join(batches(b"a", b"b"))
    free = sys.getrefcount(buffer)
    messages = decode_messages("t", 0, buffer)
    kept = messages[1]
    del messages
    assert (sys.getrefcount(buffer) > free) == (IMPLEMENTATION == "native")
    copies = [
        copy.copy(kept),
        copy.deepcopy(kept),
        pickle.loads(pickle.dumps(kept)),
        kept._replace(),
    ]
    assert len(pickle.dumps(kept)) < 300
    del kept
    assert sys.getrefcount(buffer) == free
    for each in copies:
        assert type(each) is Message
        assert each == ("t", 0, 1, 7, b"k", b"b", (("h", b"x"),))


def test_nothing_is_kept_of_a_fetch_that_was_refused() -> None:
    (whole,) = batches(b"a" * 300)
    buffer = whole[:-3] + b"\xff\xff\xff"
    free = sys.getrefcount(buffer)
    for _ in range(20):
        with pytest.raises(BatchError):
            NATIVE.decode_messages("t", 0, buffer, check_crc=False)
    assert sys.getrefcount(buffer) == free


@given(st.binary(min_size=20, max_size=60), st.data())
def test_a_buffer_that_changes_under_the_messages_gives_anything_but_a_crash(
    noise: bytes, data: st.DataObject
) -> None:
    buffer = bytearray(b"".join(batches(b"v" * 50, b"w" * 50)))
    messages = NATIVE.decode_messages("t", 0, buffer)
    at = data.draw(st.integers(0, len(buffer) - len(noise)))
    buffer[at : at + len(noise)] = noise
    for message in messages:
        for name in FIELDS:
            with suppress(MalformedRecordError):
                getattr(message, name)


@each_codec
def test_the_constructor_takes_sections_alone(codec: Codec) -> None:
    with pytest.raises((TypeError, AttributeError)):
        codec.Messages(codec.Message, "t", 0, [5], 0, 10, None, 0)  # type: ignore[list-item]
