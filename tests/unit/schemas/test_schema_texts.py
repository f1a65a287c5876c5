"""What is a schema, and which texts are the same one."""

from __future__ import annotations

import json

import pytest

from goqueue.model.errors import InvalidSchemaError, SchemaTooLargeError
from goqueue.schemas.limits import MAX_SCHEMA_BYTES
from unit.schemas.schema_texts import avro_record, json_object, parsed

AVRO_TWINS = {
    "white space": (' { "type" : "string" } ', '"string"'),
    "the order of attributes": (
        '{"name":"R","fields":[{"type":"int","name":"a"}],"type":"record"}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}',
    ),
    "a namespace in the name": (
        '{"type":"enum","name":"n.E","symbols":["A"]}',
        '{"type":"enum","name":"E","namespace":"n","symbols":["A"]}',
    ),
    "a namespace that is inherited": (
        (
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"e","type":'
            '{"type":"enum","name":"E","namespace":"n","symbols":["A"]}},{"name":"f","type":"n.E"}]}'
        ),
        (
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"e","type":'
            '{"type":"enum","name":"E","symbols":["A"]}},{"name":"f","type":"E"}]}'
        ),
    ),
    "the usual order of a field": (
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int","order":"ascending"}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}',
    ),
}


@pytest.mark.parametrize("name", AVRO_TWINS)
def test_avro_texts_that_differ_in_nothing_that_counts_are_one(name: str) -> None:
    one, two = AVRO_TWINS[name]
    assert parsed("AVRO", one).canonical == parsed("AVRO", two).canonical


def test_a_canonical_avro_text_is_its_own_canonical_text() -> None:
    text = avro_record(
        ("a", ["null", {"type": "array", "items": "n.F"}], None),
        ("b", {"type": "map", "values": {"type": "bytes", "logicalType": "decimal"}}),
        name="n.R",
        doc="words",
        aliases=["Old", "m.Older"],
        owner="us",
    )
    fixed = '{"type":"fixed","name":"F","namespace":"n","size":4}'
    once = parsed("AVRO", text, ("n.F", fixed))
    assert parsed("AVRO", once.canonical, ("n.F", fixed)).canonical == once.canonical
    assert '"items":"F"' in once.canonical
    assert '"size":4' in once.formatted("resolved")


def test_attributes_that_avro_does_not_know_have_no_order_once_normalised() -> None:
    one = parsed("AVRO", '{"type":"string","x":1,"y":2}')
    two = parsed("AVRO", '{"type":"string","y":2,"x":1}')
    assert one.canonical != two.canonical
    assert one.normalised == two.normalised


def test_a_json_schema_keeps_its_order_until_it_is_normalised() -> None:
    one, two = (
        parsed("JSON", '{ "type":"string", "title":"a" }'),
        parsed("JSON", '{"title":"a","type":"string"}'),
    )
    assert one.canonical == '{"type":"string","title":"a"}'
    assert one.canonical != two.canonical
    assert one.normalised == two.normalised


BAD_AVRO = {
    "no JSON": "{",
    "no type": "{}",
    "a number": "5",
    "an unknown type": '"nope"',
    "no name": '{"type":"record","fields":[]}',
    "a bad name": '{"type":"record","name":"1x","fields":[]}',
    "the name of a primitive": '{"type":"record","name":"int","fields":[]}',
    "a bad field name": avro_record(("a b", "int")),
    "a field without a type": '{"type":"record","name":"R","fields":[{"name":"a"}]}',
    "a field twice": avro_record(("a", "int"), ("a", "int")),
    "fields that are none": '{"type":"record","name":"R","fields":5}',
    "a default of another type": avro_record(("a", "int", "x")),
    "a type twice": avro_record(
        ("a", {"type": "fixed", "name": "F", "size": 1}),
        ("b", {"type": "fixed", "name": "F", "size": 1}),
    ),
    "a branch twice": '["null","null"]',
    "a union in a union": '[["null"],"int"]',
    "symbols twice": '{"type":"enum","name":"E","symbols":["A","A"]}',
    "symbols that are none": '{"type":"enum","name":"E","symbols":"A"}',
    "a default that is no symbol": '{"type":"enum","name":"E","symbols":["A"],"default":"B"}',
    "a negative size": '{"type":"fixed","name":"F","size":-1}',
    "no items": '{"type":"array"}',
    "too deep": '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000,
    "half a surrogate pair": '"\ud800"',
    "nothing": " ",
}
BAD_JSON = {
    "no JSON": "{",
    "a list": "[]",
    "an unknown type": '{"type":"nope"}',
    "a bound that is no number": '{"type":"string","maxLength":"x"}',
    "a reference to nowhere": '{"$ref":"#/definitions/gone"}',
    "a reference to another host": '{"$ref":"http://example.com/schema.json"}',
    "a reference to a file": '{"$ref":"file:///etc/passwd"}',
    "a pattern that is none": '{"type":"string","pattern":"("}',
    "a draft that does not exist": '{"$schema":"http://example.com/draft"}',
    "NaN": '{"maximum":NaN}',
    "too deep": '{"not":' * 5000 + "{}" + "}" * 5000,
    "nothing": "",
}


@pytest.mark.parametrize("name", BAD_AVRO)
def test_what_is_no_avro_schema_is_refused(name: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parsed("AVRO", BAD_AVRO[name])


@pytest.mark.parametrize("name", BAD_JSON)
def test_what_is_no_json_schema_is_refused(name: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parsed("JSON", BAD_JSON[name])


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_a_schema_that_is_too_long_is_refused_before_it_is_read(kind: str) -> None:
    with pytest.raises(SchemaTooLargeError):
        parsed(kind, "x" * (MAX_SCHEMA_BYTES + 1))


@pytest.mark.parametrize(
    "draft",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_every_draft_is_understood(draft: str) -> None:
    schema = parsed("JSON", json.dumps({"$schema": draft, "type": "integer"}))
    assert schema.validator().check(b"1") is None
    assert schema.validator().check(b'"x"') is not None


def test_a_json_schema_may_refer_to_registered_ones_by_their_own_addresses() -> None:
    address = "https://example.com/order.json"
    schema = parsed(
        "JSON",
        json_object(o={"$ref": address}),
        ("order", json.dumps({"$id": address, "type": "integer"})),
    )
    assert schema.validator().check(b'{"o": 1}') is None
    assert schema.validator().check(b'{"o": "x"}') == '/o: "x" is not of type "integer"'
