"""Values as typed columns: parsed all at once where that is safe, never in another row's place."""

from __future__ import annotations

import io
import json
import struct
import urllib.request
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from goqueue.schemas.model import Dependency, Reference, Schema, SchemaType
from goqueue.spark.errors import BrokerAwayError, ColumnsError, ValueFormatError
from goqueue.spark.http_client import Http
from goqueue.spark.kafka.ranges import OffsetRange
from goqueue.spark.options.read_options import parse_read_options
from goqueue.spark.reading.shape import default_schema, shape_of
from goqueue.spark.values import registry as registry_module
from goqueue.spark.values.json_values import _loads, loads, one_by_one, parse_json
from goqueue.spark.values.parsing import parser_of
from goqueue.spark.values.protobuf_values import message_of
from goqueue.spark.values.registry import RegisteredSchema, SchemaRegistry
from goqueue.spark.values.value_types import avro_type, json_type
from goqueue.testing import Broker

KIND = pa.struct(
    [
        pa.field("a", pa.int64()),
        pa.field("b", pa.list_(pa.field("element", pa.string()))),
        pa.field("c", pa.struct([pa.field("d", pa.float64())])),
    ]
)
SOURCE = OffsetRange("orders", "id", 0, 0, 100)


def value_in(schema: StructType | str) -> Any:
    assert isinstance(schema, StructType)
    return schema["value"]


def options(**given):
    named = {name.replace("__", "."): value for name, value in given.items()}
    return parse_read_options({"bootstrap.servers": "x", "subscribe": "orders"} | named, "batch")


# --- JSON --------------------------------------------------------------------------------------

documents = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "a": st.one_of(st.integers(-(2**70), 2**70), st.none(), st.text(max_size=3)),
            "b": st.lists(st.text(max_size=3), max_size=3),
            "c": st.fixed_dictionaries({}, optional={"d": st.floats(-1e9, 1e9)}),
            "z": st.booleans(),
        },
    ).map(lambda tree: json.dumps(tree).encode()),
    st.sampled_from(
        [b"", b"{", b"}", b'{"a":1}{"a":2}', b'{"a":', b'{"a":{}', b'{"a":"}', b"[1]", b"1",
         b"{}\n", b'{"a":\n1}', b" {}", b'{"b":["x\\n"]}', b'{"a":[{}', b'{"a":1,"a":2}',
         b"\xff{}", b'{"b":["\xff"]}']
    ),
)  # fmt: skip


@given(st.lists(documents, max_size=12))
def test_all_at_once_gives_what_one_by_one_does(values):
    array = pa.array(values, pa.binary())
    found, bad = parse_json(array, KIND)
    found.validate(full=True)
    expected, expected_bad = one_by_one(values, KIND, _loads)
    assert found.to_pylist() == expected.to_pylist()
    assert bad == expected_bad


def test_good_values_are_parsed_all_at_once(monkeypatch):
    monkeypatch.setattr("goqueue.spark.values.json_values.one_by_one", None)
    values = pa.array([b'{"a": %d, "b": ["x"]}' % n for n in range(1000)], pa.binary())
    found, bad = parse_json(values, KIND)
    assert found.field("a").to_pylist() == list(range(1000))
    assert not bad


def parse_column(values, **given):
    shape = shape_of(StructType([StructField("value", SIMPLE)]), options(**given))
    parse = shape.value_parser(options(**given))
    offsets = pa.array(range(50, 50 + len(values)), pa.int64())
    return parse(pa.array(values, pa.binary()), SOURCE, offsets).to_pylist()


SIMPLE = StructType([StructField("a", LongType())])


def test_what_does_not_parse_is_null_or_ends_the_query():
    values = [b'{"a": 1}', None, b"nonsense", b'{"a": 2}', b'{"a": "x"}']
    json_options = {"valueFormat": "json", "valueSchema": "a bigint"}
    assert parse_column(values, **json_options) == [{"a": 1}, None, None, {"a": 2}, None]
    with pytest.raises(ValueFormatError, match=r"2 values of orders-0 .* offsets \[52, 54\]"):
        parse_column(values, **json_options, valueMode="failfast")


def test_types_that_json_has_no_values_of_are_refused():
    kind = StructType([StructField("at", ArrayType(BinaryType()))])
    with pytest.raises(ValueFormatError, match=r"value.at\[\] cannot be binary"):
        shape_of(
            StructType([StructField("value", kind)]), options(valueFormat="json", valueSchema="x")
        )
    with pytest.raises(ColumnsError, match="value is a struct"):
        shape_of(
            StructType([StructField("value", StringType())]),
            options(valueFormat="json", valueSchema="x"),
        )


def test_what_messages_may_lack_cannot_be_asked_for_as_not_null():
    line = StructType([StructField("n", LongType(), nullable=False)])
    value = StructType([StructField("a", LongType(), nullable=False), StructField("b", line)])
    value.add("c", ArrayType(line, containsNull=False)).add("d", MapType(StringType(), line))
    wanted = StructType([StructField("offset", LongType(), nullable=False)])
    wanted.add("value", value).add("key", BinaryType(), nullable=False)
    with pytest.raises(ColumnsError) as caught:
        shape_of(wanted, options(valueFormat="avro", valueSchema="x"))
    assert str(caught.value).startswith(
        "NOT NULL: messages may lack value.a, value.b.n, value.c[], value.c[].n, value.d{}.n, key."
    )
    shape_of(StructType([wanted["offset"]]), options())


TIMED = pa.struct(
    [
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("day", pa.date32()),
        pa.field("price", pa.decimal128(8, 2)),
        pa.field("all", pa.list_(pa.field("element", pa.timestamp("us", tz="UTC")))),
        pa.field("in", pa.struct([pa.field("at", pa.timestamp("us", tz="UTC"))])),
    ]
)
moments = st.one_of(
    st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)).map(datetime.isoformat),  # noqa: DTZ001 - without a zone, on purpose
    st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)).map(str),  # noqa: DTZ001 - as above
    st.sampled_from(["2026-01-31", "2026-01-31T12:00:00+02:00", "2026-01-31 12:00:00", "soon", ""]),
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "at": st.one_of(moments, st.none(), st.integers(0, 9)),
                "day": st.sampled_from(["2026-02-28", "2026-02-30", None]),
                "price": st.sampled_from(["12.50", 12.5, 3, "x", True, 1e400]),
                "all": st.lists(moments, max_size=2),
                "in": st.fixed_dictionaries({"at": moments}),
            },
        ),
        max_size=6,
    )
)
def test_times_in_json_are_the_same_all_at_once_and_one_by_one(trees):
    values = [json.dumps(tree).encode() for tree in trees]
    found, bad = parse_json(pa.array(values, pa.binary()), TIMED)
    found.validate(full=True)
    expected, expected_bad = one_by_one(values, TIMED, loads(TIMED))
    assert found.to_pylist() == expected.to_pylist()
    assert bad == expected_bad


def test_times_in_json_become_times(monkeypatch):
    monkeypatch.setattr("goqueue.spark.values.json_values.one_by_one", None)
    values = [
        b'{"at": "2026-01-31T12:00:00.25Z", "day": "2026-01-31", "price": "12.5"}',
        b'{"at": "2026-01-31T14:00:00+02:00"}',
        b'{"at": "2026-01-31 12:00:00", "all": ["2026-01-31T12:00:00"], "in": {}}',
    ]
    found, bad = parse_json(pa.array(values, pa.binary()), TIMED)
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    rows = found.to_pylist()
    assert not bad
    assert [row["at"] for row in rows] == [noon.replace(microsecond=250_000), noon, noon]
    assert (rows[0]["day"], rows[0]["price"]) == (date(2026, 1, 31), Decimal("12.50"))
    assert rows[2]["all"] == [noon]
    assert rows[2]["in"] == {"at": None}


def test_decimals_in_json_keep_all_their_digits():
    kind = pa.struct([pa.field("p", pa.decimal128(30, 2)), pa.field("d", pa.float64())])
    values = pa.array([b'{"p": 12345678901234567890.12, "d": 0.25}'], pa.binary())
    found, bad = parse_json(values, kind)
    assert found.to_pylist() == [{"p": Decimal("12345678901234567890.12"), "d": 0.25}]
    assert not bad


def test_the_type_comes_from_a_ddl_or_a_json_schema():
    assert "value struct<a int, b string>" in default_schema(
        options(valueFormat="json", valueSchema="a int, b string")
    )
    text = json.dumps(
        {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "price": {"type": ["null", "number"]},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
        }
    )
    assert json_type(text) == StructType(
        [
            StructField("id", LongType()),
            StructField("price", DoubleType()),
            StructField("tags", ArrayType(StringType())),
        ]
    )
    for open_ended in ({}, {"type": "object"}, {"type": "string"}):
        with pytest.raises(ValueFormatError):
            json_type(json.dumps(open_ended))
    with pytest.raises(ValueFormatError, match="no JSON Schema: Expecting"):
        default_schema(options(valueFormat="json", valueSchema='{"type": '))
    with pytest.raises(ValueFormatError, match=r"valueSchema: column id: 'bigit' .*mean bigint"):
        default_schema(options(valueFormat="json", valueSchema="id bigit, name string"))


# --- Avro --------------------------------------------------------------------------------------

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
        {"name": "other", "type": ["null", "Colour"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        },
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "lines", "type": {"type": "array", "items": "int"}},
    ],
}
ORDER = {
    "id": 7,
    "colour": "RED",
    "other": None,
    "day": date(2026, 1, 2),
    "at": datetime(2026, 1, 2, tzinfo=UTC),
    "price": Decimal("12.50"),
    "tags": {"a": "b"},
    "lines": [1, 2],
}


def as_avro(tree, schema):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), tree)
    return out.getvalue()


def test_avro_records_become_rows():
    given = {"valueFormat": "avro", "valueSchema": json.dumps(AVRO)}
    schema = default_schema(options(**given))
    kind = value_in(schema).dataType
    assert kind == avro_type(json.dumps(AVRO))
    assert kind["day"].dataType == DateType()
    assert kind["lines"].dataType == ArrayType(IntegerType())
    shape = shape_of(StructType([value_in(schema)]), options(**given))
    parse = shape.value_parser(options(**given))
    good = as_avro(ORDER, AVRO)
    values = pa.array([good, good[:-2], good + b"x", None, b""], pa.binary())
    found = parse(values, SOURCE, pa.array(range(5)))
    row, *others = found.to_pylist()
    assert row == ORDER | {"tags": [("a", "b")]}
    assert others == [None] * 4


def parse_avro(fields, *values, written_by=None):
    """The rows of records with these fields, and the type that they have."""
    schema = {"type": "record", "name": "R", "namespace": "shop", "fields": fields}
    given = {"valueFormat": "avro", "valueSchema": json.dumps(schema)}
    made = value_in(default_schema(options(**given)))
    parse = shape_of(StructType([made]), options(**given)).value_parser(options(**given))
    stored = [
        each if isinstance(each, bytes) else as_avro(each, written_by or schema) for each in values
    ]
    found = parse(pa.array(stored, pa.binary()), SOURCE, pa.array(range(len(stored))))
    return found.to_pylist(), made.dataType.simpleString()


def logical(name, kind, logical_type):
    return {"name": name, "type": {"type": kind, "logicalType": logical_type}}


def test_logical_types_that_no_column_has_are_what_is_stored():
    at, number = datetime(2026, 1, 2), UUID(int=7)  # noqa: DTZ001 - of no zone, as Avro has it
    rows, kind = parse_avro(
        [
            logical("id", "string", "uuid"),
            logical("millis", "int", "time-millis"),
            logical("micros", "long", "time-micros"),
            logical("at", "long", "local-timestamp-millis"),
        ],
        {"id": number, "millis": time(0, 0, 1), "micros": time(0, 0, 1), "at": at},
    )
    assert kind == "struct<id:string,millis:int,micros:bigint,at:timestamp_ntz>"
    assert rows == [{"id": str(number), "millis": 1000, "micros": 1_000_000, "at": at}]


def test_types_may_be_named_in_full():
    address = {"type": "record", "name": "Address", "fields": [{"name": "town", "type": "string"}]}
    rows, kind = parse_avro(
        [{"name": "home", "type": address}, {"name": "work", "type": ["null", "shop.Address"]}],
        {"home": {"town": "a"}, "work": {"town": "b"}},
    )
    assert kind == "struct<home:struct<town:string>,work:struct<town:string>>"
    assert rows == [{"home": {"town": "a"}, "work": {"town": "b"}}]


def test_a_time_that_is_out_of_reach_is_a_value_that_does_not_parse():
    long = {"type": "record", "name": "R", "fields": [{"name": "at", "type": "long"}]}
    fields = [logical("at", "long", "timestamp-micros")]
    moments = [{"at": 2**62}, {"at": 0}]
    rows, _ = parse_avro(fields, *moments, written_by=long)
    assert rows == [None, {"at": datetime(1970, 1, 1, tzinfo=UTC)}]


def test_avro_that_cannot_be_a_column_is_refused():
    nothing = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["null"]}]}
    for schema in (nothing, "int", {"type": "array", "items": "int"}):
        with pytest.raises(ValueFormatError):
            avro_type(json.dumps(schema))
    with pytest.raises(ValueFormatError, match="no Avro schema"):
        default_schema(options(valueFormat="avro", valueSchema="{nonsense"))
    with pytest.raises(ValueFormatError, match="no Avro schema"):
        parser_of(options(valueFormat="avro", valueSchema='{"type": "nope"}'), KIND)


def test_a_union_of_several_types_is_a_struct_with_one_field_set():
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "u", "type": ["null", "int", "string", {"type": "array", "items": "string"}]},
            {"name": "n", "type": ["long", "int"]},
            {"name": "m", "type": {"type": "map", "values": ["int", "string"]}},
        ],
    }
    given = {"valueFormat": "avro", "valueSchema": json.dumps(schema)}
    made = default_schema(options(**given))
    assert value_in(made).dataType.simpleString() == (
        "struct<u:struct<member0:int,member1:string,member2:array<string>>,n:bigint,"
        "m:map<string,struct<member0:int,member1:string>>>"
    )
    parse = shape_of(StructType([value_in(made)]), options(**given)).value_parser(options(**given))
    rows = [
        {"u": None, "n": 1, "m": {"a": 1, "b": "x"}},
        {"u": 5, "n": 2, "m": {}},
        {"u": "x", "n": 3, "m": {}},
        {"u": ["x", "y"], "n": 4, "m": {}},
    ]
    values = pa.array([as_avro(each, schema) for each in rows], pa.binary())
    found = parse(values, SOURCE, pa.array(range(4))).to_pylist()
    empty = {"member0": None, "member1": None}
    assert [row["u"] for row in found] == [
        None,
        empty | {"member0": 5, "member2": None},
        empty | {"member1": "x", "member2": None},
        empty | {"member2": ["x", "y"]},
    ]
    assert found[0]["m"] == [("a", empty | {"member0": 1}), ("b", empty | {"member1": "x"})]
    assert [row["n"] for row in found] == [1, 2, 3, 4]


def test_each_value_of_a_union_is_in_the_field_of_the_type_it_was_written_as():
    placed = {"type": "record", "name": "Placed", "fields": [{"name": "id", "type": "int"}]}
    cancelled = {
        "type": "record",
        "name": "Cancelled",
        "fields": [{"name": "id", "type": "int"}, {"name": "why", "type": ["null", "Colour"]}],
    }
    colour = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
    fields = [
        {"name": "event", "type": [placed, "string", colour, cancelled]},
        {"name": "rest", "type": {"type": "array", "items": ["double", "long"]}},
    ]
    named = {"id": 1, "why": "RED"}
    rows, _ = parse_avro(
        fields,
        {"event": ("shop.Cancelled", named), "rest": []},
        {"event": ("shop.Placed", {"id": 2}), "rest": []},
        {"event": ("shop.Colour", "RED"), "rest": []},
        {"event": "RED", "rest": []},
        b"\x02\x06RED" + b"\x04\x02\x0a" + bytes([0, *struct.pack("<d", 2.0), 0]),  # 5, 2.0
    )
    empty = dict.fromkeys([f"member{number}" for number in range(4)])
    assert [row["event"] for row in rows] == [
        empty | {"member3": named},
        empty | {"member0": {"id": 2}},
        empty | {"member2": "RED"},
        empty | {"member1": "RED"},
        empty | {"member1": "RED"},
    ]
    assert rows[-1]["rest"] == [
        {"member0": None, "member1": 5},
        {"member0": 2.0, "member1": None},
    ]


# --- Protobuf ----------------------------------------------------------------------------------

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "money.proto";
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated int32 lines = 3;
  map<string, Money> prices = 4;
  google.protobuf.Timestamp at = 5;
  google.protobuf.StringValue tag = 6;
  Colour colour = 7;
  uint64 big = 8;
  oneof payment { string card = 9; bytes cash = 10; }
  enum Colour { RED = 0; BLUE = 1; }
  message Line { int32 n = 1; }
}
message Other { int32 id = 1; }
"""
MONEY = 'syntax = "proto3"; package shop; message Money { double amount = 1; }'


def proto_class(name):
    from google.protobuf import message_factory  # noqa: PLC0415 - only here

    money = Dependency(Reference("money.proto", "money", 1), Schema(SchemaType.PROTOBUF, MONEY))
    schema = RegisteredSchema(Schema(SchemaType.PROTOBUF, PROTO), (money,))
    return message_factory.GetMessageClass(message_of(schema, name))


def test_protobuf_messages_become_rows(registry_url):
    register(registry_url, "money", MONEY, "PROTOBUF")
    references = [{"name": "money.proto", "subject": "money", "version": 1}]
    number = register(registry_url, "shop-value", PROTO, "PROTOBUF", references)
    given = {
        "valueFormat": "confluent",
        "schema__registry__url": registry_url,
        "valueSubject": "shop-value",
    }
    made = default_schema(options(**given))
    assert value_in(made).dataType.simpleString() == (
        "struct<id:bigint,note:string,lines:array<int>,prices:map<string,struct<amount:double>>,"
        "at:timestamp,tag:string,colour:string,big:decimal(20,0),card:string,cash:binary>"
    )
    order_class = proto_class("Order")
    order = order_class(id=7, lines=[1, 2], colour=1, big=2**64 - 1, card="4711")
    order.prices["a"].amount = 1.5
    order.at.FromDatetime(datetime(2026, 1, 2))  # noqa: DTZ001 - Protobuf's own way
    order.tag.value = "x"
    body = order.SerializeToString()
    other = proto_class("shop.Other")(id=1).SerializeToString()
    endless = order_class()
    endless.at.seconds = 2**60
    values = [
        framed(number, b"\0" + body),
        framed(number, b"\2\0" + body),
        framed(number, b"\2\2" + other),
        framed(number, b""),
        b"\xff",
        framed(number, b"\0\xff\xff"),
        framed(number + 1000, b"\0" + body),
        framed(number, b"\0" + endless.SerializeToString()),
    ]
    parse = shape_of(StructType([value_in(made)]), options(**given)).value_parser(options(**given))
    first, second, *others = parse(
        pa.array(values, pa.binary()), SOURCE, pa.array(range(8))
    ).to_pylist()
    assert first == second
    assert first == {
        "id": 7,
        "note": None,
        "lines": [1, 2],
        "prices": [("a", {"amount": 1.5})],
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "tag": "x",
        "colour": "BLUE",
        "big": Decimal(2**64 - 1),
        "card": "4711",
        "cash": None,
    }
    assert others == [None] * 6


def test_bare_protobuf_messages_are_read_by_a_schema_that_is_given():
    text = PROTO.replace('import "money.proto";', "").replace("map<string, Money> prices = 4;", "")
    given = {"valueFormat": "protobuf", "valueSchema": text, "valueMessage": "shop.Other"}
    made = default_schema(options(**given))
    parse = shape_of(StructType([value_in(made)]), options(**given)).value_parser(options(**given))
    values = pa.array([proto_class("Other")(id=3).SerializeToString(), b"\x08"], pa.binary())
    assert parse(values, SOURCE, pa.array(range(2))).to_pylist() == [{"id": 3}, None]
    with pytest.raises(ValueFormatError, match=r"no message 'Nope'; it has shop.Order, shop.Order"):
        default_schema(options(**given | {"valueMessage": "Nope"}))
    with pytest.raises(ValueFormatError, match="no Protobuf schema"):
        default_schema(options(**given | {"valueSchema": "message {"}))
    endless = 'syntax = "proto3"; message A { A again = 1; }'
    with pytest.raises(ValueFormatError, match="holds itself"):
        default_schema(options(valueFormat="protobuf", valueSchema=endless))


# --- A registry --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def registry_url():
    with Broker() as broker:
        yield broker.http_url


def register(url, subject, schema, kind="AVRO", references=()):
    text = schema if isinstance(schema, str) else json.dumps(schema)
    asked = {"schema": text, "schemaType": kind, "references": list(references)}
    body = json.dumps(asked).encode()
    request = urllib.request.Request(
        f"{url}/subjects/{subject}/versions", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["id"]


def framed(schema_id, body):
    return struct.pack(">bi", 0, schema_id) + body


def test_values_are_read_by_the_schema_they_were_written_with(registry_url):
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    new = {
        "type": "record",
        "name": "R",
        "fields": [*old["fields"], {"name": "b", "type": "string", "default": "none"}],
    }
    first = register(registry_url, "orders-value", old)
    second = register(registry_url, "orders-value", new)
    given = {"valueFormat": "confluent", "schema__registry__url": registry_url}
    schema = default_schema(options(**given))
    assert value_in(schema).dataType.names == ["a", "b"]
    parse = shape_of(StructType([value_in(schema)]), options(**given)).value_parser(
        options(**given)
    )
    values = [
        framed(first, as_avro({"a": 1}, old)),
        framed(second, as_avro({"a": 2, "b": "x"}, new)),
        as_avro({"a": 1}, old),
        b"",
        framed(2_000_000_000, as_avro({"a": 1}, old)),
        framed(register(registry_url, "odd-value", {"type": "object"}, "JSON"), b"{}"),
    ]
    found = parse(pa.array(values, pa.binary()), SOURCE, pa.array(range(6)))
    assert found.to_pylist() == [{"a": 1, "b": "none"}, {"a": 2, "b": "x"}, *[None] * 4]


def test_json_with_an_id_in_front(registry_url):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    number = register(registry_url, "events-value", schema, "JSON")
    given = {
        "valueFormat": "confluent",
        "schema__registry__url": registry_url,
        "valueSubject": "events-value",
    }
    made = default_schema(options(**given))
    parse = shape_of(StructType([value_in(made)]), options(**given)).value_parser(options(**given))
    values = pa.array([framed(number, b'{"a": 5}'), b'{"a": 5}', b""], pa.binary())
    assert parse(values, SOURCE, pa.array(range(3))).to_pylist() == [{"a": 5}, None, None]


def test_a_subject_that_is_not_there_is_named(registry_url):
    given = {"valueFormat": "confluent", "schema__registry__url": registry_url}
    with pytest.raises(ValueFormatError, match="no subject 'nothing'"):
        default_schema(options(**given, valueSubject="nothing"))
    with pytest.raises(ValueFormatError, match="valueSubject is needed"):
        default_schema(options(**given, subscribe="a,b"))


def test_something_that_is_no_registry_is_named(registry_url):
    with pytest.raises(BrokerAwayError, match="does not answer as a schema registry does"):
        SchemaRegistry(Http(f"{registry_url}/healthz?")).latest("x")


def test_a_registry_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(registry_module, "_FIRST_PAUSE_S", 0.001)
    with pytest.raises(BrokerAwayError, match=r"127\.0\.0\.1:9 does not answer"):
        SchemaRegistry(Http("http://127.0.0.1:9")).latest("x")
