"""Messages that fit, and where those that do not are wrong."""

from __future__ import annotations

import io
import json
import os
from typing import Any

import fastavro
import pytest
from hypothesis import given, strategies as st

from goqueue.schemas.avro.tree import AvroNames
from goqueue.schemas.avro.walk import fault_in
from goqueue.schemas.frames import FrameFault, frame_of, indexes_of
from unit.schemas.schema_texts import avro_record, json_object, parsed, proto

PERSON = avro_record(
    ("name", "string"),
    ("age", "int"),
    ("tags", {"type": "array", "items": "string"}),
    (
        "home",
        ["null", {"type": "record", "name": "H", "fields": [{"name": "zip", "type": "long"}]}],
    ),
    ("kind", {"type": "enum", "name": "K", "symbols": ["A", "B"]}),
    ("extra", {"type": "map", "values": "double"}),
)
PEOPLE = st.fixed_dictionaries(
    {
        "name": st.text(max_size=20),
        "age": st.integers(-(2**31), 2**31 - 1),
        "tags": st.lists(st.text(max_size=5), max_size=3),
        "home": st.none() | st.fixed_dictionaries({"zip": st.integers(-(2**63), 2**63 - 1)}),
        "kind": st.sampled_from(["A", "B"]),
        "extra": st.dictionaries(st.text(max_size=4), st.floats(allow_nan=False), max_size=3),
    }
)


def encoded(person: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(PERSON)), person)
    return out.getvalue()


ADA = {"name": "ada", "age": 1, "tags": ["x"], "home": {"zip": 5}, "kind": "A", "extra": {"e": 1.5}}


@given(PEOPLE)
def test_what_avro_encodes_fits(person: Any) -> None:
    data = encoded(person)
    assert parsed("AVRO", PERSON).validator().check(data) is None
    assert fault_in(AvroNames().node(json.loads(PERSON)), data) is None


@given(PEOPLE, st.data())
def test_a_message_cut_short_fits_nowhere(person: Any, data: Any) -> None:
    whole = encoded(person)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert parsed("AVRO", PERSON).validator().check(cut) is not None


@given(st.binary(max_size=60))
def test_the_walk_and_the_library_agree_on_any_bytes(data: bytes) -> None:
    """The walk may be stricter, where a library reads a boolean out of any byte."""
    says = parsed("AVRO", PERSON).validator().check(data)
    walked = fault_in(AvroNames().node(json.loads(PERSON)), data)
    assert (says is None) == (walked is None)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "/name: needs 1 bytes, and 0 are left"),
        (encoded(ADA)[:6], "/tags/0"),
        (encoded(ADA) + b"!!", "/: 2 bytes follow the end of the value"),
        (encoded(ADA).replace(b"ada", b"\xff\xff\xff"), "/name: a string that is not UTF-8"),
        (b"\x02x\x02\x00\x06", "/home: there is no branch of the union with the number 3"),
        (b"\x02x\x02\x00\x00\x08", "/kind: there is no symbol of the enum with the number 4"),
    ],
)
def test_where_an_avro_message_is_wrong(data: bytes, said: str) -> None:
    told = parsed("AVRO", PERSON).validator().check(data)
    assert told is not None
    assert told.startswith(said)


def test_an_array_of_nothing_cannot_keep_the_broker_busy() -> None:
    checked = parsed("AVRO", avro_record(("a", {"type": "array", "items": "null"}))).validator()
    assert checked.check(b"\x06\x00") is None
    many = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00"
    assert checked.check(many) == "/a: more than 100000 items without bytes"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"id": 1, "at": {"x": 1}}', None),
        (b'{"id": "1"}', '/id: "1" is not of type "integer"'),
        (b'{"id": 1, "at": {"x": "y"}}', '/at/x: "y" is not of type "integer"'),
        (b"{}", '/: "id" is a required property'),
        (b"{", "/: not JSON: Input data was truncated"),
        (b"\xff", "/: not JSON"),
        (b"[" * 100_000, "/: "),
    ],
)
def test_where_a_json_message_is_wrong(data: bytes, said: str | None) -> None:
    schema = json_object(
        required=("id",),
        id={"type": "integer"},
        at={"type": "object", "properties": {"x": {"type": "integer"}}},
    )
    told = parsed("JSON", schema).validator().check(data)
    assert told == said or (told is not None and said is not None and told.startswith(said))


def test_a_pattern_cannot_keep_the_broker_busy() -> None:
    schema = parsed("JSON", json.dumps({"type": "string", "pattern": r"^(a|aa)+(?<!b)$"}))
    told = schema.validator().check(json.dumps("a" * 5000 + "!").encode())
    assert told is not None


PROTO = proto(
    "message Order { int64 id = 1; string who = 2; Item item = 3; repeated Item items = 4;"
    " map<string, Item> by = 5; message Item { int32 n = 1; } } message Other { bool b = 1; }"
)


@pytest.mark.parametrize(
    ("data", "indexes", "said"),
    [
        (b"", (0,), None),
        (b"\x08\x01\x12\x01x\x1a\x02\x08\x05\x22\x00", (0,), None),
        (b"\x08\x01", (0, 1), None),
        (b"\x08\x01", (1,), None),
        (b"\x08\x01", (2,), "/: the schema has no message with the indexes [2]"),
        (b"\x08\x01", (0, 7), "/: the schema has no message with the indexes [0, 7]"),
        (b"\x12\x05x", (0,), "/who: needs 5 bytes, and 1 are left"),
        (b"\x12\x01\xff", (0,), "/who: a string that is not UTF-8"),
        (b"\x3a\x00", (0,), "/: field number 7 is not in Order"),
        (b"\x1a\x02\x10\x01", (0,), "/item: field number 2 is not in Order.Item"),
        (b"\x22\x02\x10\x01", (0,), "/items: field number 2 is not in Order.Item"),
        (b"\x2a\x07\x0a\x01k\x12\x02\x10\x01", (0,), "/by/value: field number 2"),
        (b"\x0a\x01x", (0,), "/id: bytes where a varint belong"),
        (b"\x07", (0,), "/: byte 0 begins no field"),
        (b"\x08\xff", (0,), "/id: the bytes end within a number"),
    ],
)
def test_where_a_protobuf_message_is_wrong(
    data: bytes, indexes: tuple[int, ...], said: str | None
) -> None:
    told = parsed("PROTOBUF", PROTO).validator().check(data, indexes)
    assert told == said or (told is not None and said is not None and told.startswith(said)), told


def test_a_required_field_that_is_missing_is_named() -> None:
    schema = parsed("PROTOBUF", proto("message M { required int32 a = 1; }", syntax="proto2"))
    assert schema.validator().check(b"") == "/a: required, and not there"


@given(st.binary(max_size=40))
def test_no_bytes_make_a_validator_fail(data: bytes) -> None:
    for kind, text in (("AVRO", PERSON), ("PROTOBUF", PROTO), ("JSON", '{"type":"object"}')):
        parsed(kind, text).validator().check(data)


# --- Which schema a message names -----------------------------------------------------------------


def test_a_frame_names_its_schema() -> None:
    assert frame_of(b"\0\0\0\0\x07rest", ()).schema_id == 7
    assert frame_of(b"{}", ()).schema_id is None
    assert frame_of(b"\0\0\0", ()).schema_id is None
    assert frame_of(b"rest", (("schema-id", b"12"),)).schema_id == 12
    assert frame_of(b"\0\0\0\0\x0crest", (("schema-id", b"12"),)).begin == 5
    assert frame_of(b"\0\0\0\0\x0drest", (("schema-id", b"12"),)).begin == 0
    assert frame_of(b"rest", (("__value_schema_id", b"\0\0\0\0\x03"),)).schema_id == 3
    guid = os.urandom(16)
    found = frame_of(b"rest", (("__value_schema_id", b"\1" + guid),)).guid
    assert found is not None
    assert found.bytes == guid


@pytest.mark.parametrize(
    "header", [("schema-id", b"x"), ("schema-id", None), ("__value_schema_id", b"\5rest")]
)
def test_a_header_that_names_nothing_is_refused(header: tuple[str, bytes | None]) -> None:
    with pytest.raises(FrameFault):
        frame_of(b"rest", (header,))


def test_the_place_of_a_protobuf_type_is_read() -> None:
    assert indexes_of(b"\x00rest", 0) == ([0], 1)
    assert indexes_of(b"xx\x04\x02\x06rest", 2) == ([1, 3], 5)
    for bad in (b"", b"\x03", b"\xff\xff\xff\xff\xff\xff", b"\x04\x02"):
        with pytest.raises(FrameFault):
            indexes_of(bad, 0)
