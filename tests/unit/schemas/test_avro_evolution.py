"""Evolution cases of Avro with the verdicts of Confluent's registry, which are Avro's own."""

from __future__ import annotations

import json

import pytest

from unit.schemas.schema_texts import avro_record, parsed

BASE = avro_record(("a", "string"))
NULLABLE = ["null", "string"]
ENUM = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
WIDER_ENUM = {**ENUM, "symbols": ["X", "Y", "Z"]}
FIXED = {"type": "fixed", "name": "F", "size": 4}
INNER = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}
INNER_WIDER = {
    "type": "record",
    "name": "I",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}],
}
INNER_DEFAULT = {
    "type": "record",
    "name": "I",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 0}],
}
TREE = avro_record(("v", "int"), ("next", ["null", "R"]))
TREE_WIDER = avro_record(("v", "long"), ("next", ["null", "R"]))
ALIASED = json.dumps(
    {"type": "record", "name": "R", "fields": [{"name": "b", "aliases": ["a"], "type": "string"}]}
)
RENAMED_RECORD = avro_record(("a", "string"), name="S")
RENAMED_WITH_ALIAS = avro_record(("a", "string"), name="S", aliases=["R"])

CASES = {
    # the old and the new one, then whether new readers and whether old readers understand
    "nothing changes": (BASE, BASE, True, True),
    "add a field with a default": (BASE, avro_record(("a", "string"), ("b", "int", 0)), True, True),
    "add a field without a default": (
        BASE,
        avro_record(("a", "string"), ("b", "int")),
        False,
        True,
    ),
    "add an optional field": (
        BASE,
        avro_record(("a", "string"), ("b", NULLABLE, None)),
        True,
        True,
    ),
    "add a nullable field without a default": (
        BASE,
        avro_record(("a", "string"), ("b", NULLABLE)),
        False,
        True,
    ),
    "remove a field without a default": (
        avro_record(("a", "string"), ("b", "int")),
        BASE,
        True,
        False,
    ),
    "remove a field with a default": (
        avro_record(("a", "string"), ("b", "int", 0)),
        BASE,
        True,
        True,
    ),
    "rename a field": (BASE, avro_record(("b", "string")), False, False),
    "rename a field and keep an alias": (BASE, ALIASED, True, False),
    "rename a record": (BASE, RENAMED_RECORD, False, False),
    "rename a record and keep an alias": (BASE, RENAMED_WITH_ALIAS, True, False),
    "move a record to a namespace": (BASE, avro_record(("a", "string"), namespace="n"), True, True),
    "int becomes long": (avro_record(("a", "int")), avro_record(("a", "long")), True, False),
    "long becomes double": (avro_record(("a", "long")), avro_record(("a", "double")), True, False),
    "float becomes long": (avro_record(("a", "float")), avro_record(("a", "long")), False, True),
    "string becomes bytes": (avro_record(("a", "string")), avro_record(("a", "bytes")), True, True),
    "string becomes int": (BASE, avro_record(("a", "int")), False, False),
    "a field becomes nullable": (BASE, avro_record(("a", NULLABLE)), True, False),
    "a nullable field becomes required": (avro_record(("a", NULLABLE)), BASE, False, True),
    "a union gets a branch": (
        avro_record(("a", ["null", "int"])),
        avro_record(("a", ["null", "int", "string"])),
        True,
        False,
    ),
    "a union loses a branch": (
        avro_record(("a", ["null", "int", "string"])),
        avro_record(("a", ["null", "int"])),
        False,
        True,
    ),
    "branches of a union change places": (
        avro_record(("a", ["null", "int"])),
        avro_record(("a", ["int", "null"])),
        True,
        True,
    ),
    "an enum gets a symbol": (
        avro_record(("e", ENUM)),
        avro_record(("e", WIDER_ENUM)),
        True,
        False,
    ),
    "an enum loses a symbol": (
        avro_record(("e", WIDER_ENUM)),
        avro_record(("e", ENUM)),
        False,
        True,
    ),
    "an enum with a default loses a symbol": (
        avro_record(("e", WIDER_ENUM)),
        avro_record(("e", {**ENUM, "default": "X"})),
        True,
        True,
    ),
    "an enum is renamed": (
        avro_record(("e", ENUM)),
        avro_record(("e", {**ENUM, "name": "G"})),
        False,
        False,
    ),
    "a fixed grows": (
        avro_record(("f", FIXED)),
        avro_record(("f", {**FIXED, "size": 8})),
        False,
        False,
    ),
    "an array's items widen": (
        avro_record(("a", {"type": "array", "items": "int"})),
        avro_record(("a", {"type": "array", "items": "long"})),
        True,
        False,
    ),
    "a map's values change": (
        avro_record(("m", {"type": "map", "values": "int"})),
        avro_record(("m", {"type": "map", "values": "string"})),
        False,
        False,
    ),
    "an array becomes a map": (
        avro_record(("a", {"type": "array", "items": "int"})),
        avro_record(("a", {"type": "map", "values": "int"})),
        False,
        False,
    ),
    "a nested record gets a field": (
        avro_record(("i", INNER)),
        avro_record(("i", INNER_WIDER)),
        False,
        True,
    ),
    "a nested record gets a field with a default": (
        avro_record(("i", INNER)),
        avro_record(("i", INNER_DEFAULT)),
        True,
        True,
    ),
    "a record that holds itself widens": (TREE, TREE_WIDER, True, False),
    "a record becomes a primitive": (BASE, '"string"', False, False),
    "the documentation changes": (BASE, avro_record(("a", "string"), doc="new"), True, True),
    "a default changes": (
        avro_record(("a", "int", 1)),
        avro_record(("a", "int", 2)),
        True,
        True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_avro_verdict(name: str) -> None:
    old, new, backward, forward = CASES[name]
    before, after = parsed("AVRO", old), parsed("AVRO", new)
    assert (not after.reads(before)) is backward, after.reads(before)
    assert (not before.reads(after)) is forward, before.reads(after)


def test_a_type_of_another_schema_counts_with_all_that_is_in_it() -> None:
    using = avro_record(("i", "I"))
    old = parsed("AVRO", using, ("I", json.dumps(INNER)))
    wider = parsed("AVRO", using, ("I", json.dumps(INNER_WIDER)))
    assert not old.reads(wider)
    assert "/fields/0/type/fields/1" in wider.reads(old)[0]


def test_a_verdict_says_where() -> None:
    old, new = parsed("AVRO", BASE), parsed("AVRO", avro_record(("a", "int")))
    (said,) = new.reads(old)
    assert said == "TYPE_MISMATCH at /fields/0/type: int does not read string"
