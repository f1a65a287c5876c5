"""Evolution cases of JSON Schema with the verdicts of Confluent's registry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unit.schemas.schema_texts import json_object, parsed

STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
OPEN = json_object(a=STRING)
CLOSED = json_object(open_=False, a=STRING)


def obj(**schema: Any) -> str:
    return json.dumps({"type": "object", **schema})


def prop(schema: Any) -> str:
    return json_object(p=schema)


CASES = {
    # name: (old, new, whether readers with the new one take what the old one allows)
    "nothing changes": (OPEN, OPEN, True),
    "anything becomes nothing but an object": ({}, {"type": "object"}, False),
    "an object becomes anything": ({"type": "object"}, {}, True),
    "the title and the description change": ({"title": "a"}, {"title": "b"}, True),
    "the type changes": ({"type": "object"}, {"type": "array"}, False),
    "integer becomes number": (INTEGER, NUMBER, True),
    "number becomes integer": (NUMBER, INTEGER, False),
    "string becomes integer": (STRING, INTEGER, False),
    # properties
    "add a property to an open object": (OPEN, json_object(a=STRING, b=INTEGER), False),
    "add a property that may be anything to an open object": (
        OPEN,
        json_object(a=STRING, b={}),
        True,
    ),
    "add an optional property to a closed object": (
        CLOSED,
        json_object(open_=False, a=STRING, b=INTEGER),
        True,
    ),
    "add a required property to a closed object": (
        CLOSED,
        json_object(open_=False, required=("b",), a=STRING, b=INTEGER),
        False,
    ),
    "add a required property with a default to a closed object": (
        CLOSED,
        json_object(open_=False, required=("b",), a=STRING, b={**INTEGER, "default": 0}),
        True,
    ),
    "remove a property from an open object": (json_object(a=STRING, b=INTEGER), OPEN, True),
    "remove a property from a closed object": (
        json_object(open_=False, a=STRING, b=INTEGER),
        CLOSED,
        False,
    ),
    "remove a property that could not be there": (
        json_object(open_=False, a=STRING, b=False),
        CLOSED,
        True,
    ),
    "rename a property of an open object": (OPEN, json_object(b=STRING), False),
    "rename a property of a closed object": (CLOSED, json_object(open_=False, b=STRING), False),
    "retype a property": (OPEN, json_object(a=INTEGER), False),
    "optional becomes required": (OPEN, json_object(required=("a",), a=STRING), False),
    "optional becomes required with a default": (
        OPEN,
        json_object(required=("a",), a={**STRING, "default": ""}),
        True,
    ),
    "required becomes optional": (json_object(required=("a",), a=STRING), OPEN, True),
    "an object opens": (CLOSED, OPEN, True),
    "an object closes": (OPEN, CLOSED, False),
    "further properties are narrowed": (OPEN, obj(additionalProperties=STRING), False),
    "further properties are extended": (
        obj(properties={"a": STRING}, additionalProperties=STRING),
        OPEN,
        True,
    ),
    "add a property that a pattern covered": (
        obj(additionalProperties=False, patternProperties={"^i_": INTEGER}),
        obj(
            properties={"i_1": NUMBER},
            additionalProperties=False,
            patternProperties={"^i_": INTEGER},
        ),
        True,
    ),
    "add a property that further ones were not like": (
        obj(additionalProperties=STRING),
        obj(properties={"b": NUMBER}, additionalProperties=STRING),
        False,
    ),
    "remove a property that further ones are like": (
        json_object(open_=False, b=STRING),
        obj(additionalProperties=STRING),
        True,
    ),
    "remove a property that further ones are not like": (
        json_object(open_=False, b=NUMBER),
        obj(additionalProperties=STRING),
        False,
    ),
    "a nested property is retyped": (
        prop({"type": "object", "properties": {"x": STRING}}),
        prop({"type": "object", "properties": {"x": NUMBER}}),
        False,
    ),
    "a nested property becomes optional": (
        prop({"type": "object", "properties": {"x": STRING}, "required": ["x"]}),
        prop({"type": "object", "properties": {"x": STRING}}),
        True,
    ),
    "one property needs another": (obj(), obj(dependencies={"a": ["b"]}), False),
    "one property does not need another any more": (obj(dependencies={"a": ["b"]}), obj(), True),
    "fewer properties are enough": (obj(minProperties=2), obj(minProperties=1), True),
    "fewer properties are allowed": (obj(maxProperties=5), obj(maxProperties=4), False),
    # values
    "a longer text is allowed": ({**STRING, "maxLength": 5}, {**STRING, "maxLength": 6}, True),
    "a shorter text is demanded": ({**STRING, "maxLength": 6}, {**STRING, "maxLength": 5}, False),
    "a text gets a bound": (STRING, {**STRING, "minLength": 1}, False),
    "a pattern goes": ({**STRING, "pattern": "x"}, STRING, True),
    "a pattern comes": (STRING, {**STRING, "pattern": "x"}, False),
    "a pattern changes": ({**STRING, "pattern": "x"}, {**STRING, "pattern": "y"}, False),
    "a maximum grows": ({**NUMBER, "maximum": 1}, {**NUMBER, "maximum": 2}, True),
    "a minimum grows": ({**NUMBER, "minimum": 1}, {**NUMBER, "minimum": 2}, False),
    "an exclusive maximum shrinks": (
        {**NUMBER, "exclusiveMaximum": 2},
        {**NUMBER, "exclusiveMaximum": 1},
        False,
    ),
    "a multiple is divided": ({**NUMBER, "multipleOf": 10}, {**NUMBER, "multipleOf": 5}, True),
    "a multiple is multiplied": ({**NUMBER, "multipleOf": 5}, {**NUMBER, "multipleOf": 10}, False),
    "a multiple changes": ({**NUMBER, "multipleOf": 10}, {**NUMBER, "multipleOf": 11}, False),
    # enums
    "an enum gets a value": ({"enum": ["a"]}, {"enum": ["a", "b"]}, True),
    "an enum loses a value": ({"enum": ["a", "b"]}, {"enum": ["a"]}, False),
    "the values of an enum change": ({"enum": ["a"]}, {"enum": ["b"]}, False),
    "an enum with a type goes": ({**STRING, "enum": ["a"]}, STRING, True),
    "an enum comes to a type": (STRING, {**STRING, "enum": ["a"]}, False),
    # unions
    "a type gets another": ({"type": ["string"]}, {"type": ["string", "null"]}, True),
    "a type loses another": ({"type": ["string", "null"]}, {"type": ["string"]}, False),
    "a type becomes one of several": (STRING, {"oneOf": [STRING, INTEGER]}, True),
    "one of several becomes the only one": ({"oneOf": [STRING, INTEGER]}, STRING, False),
    "oneOf gets an alternative": ({"oneOf": [STRING]}, {"oneOf": [INTEGER, STRING]}, True),
    "oneOf loses an alternative": ({"oneOf": [INTEGER, STRING]}, {"oneOf": [STRING]}, False),
    "the only alternative changes": ({"oneOf": [STRING]}, {"oneOf": [NUMBER]}, False),
    "oneOf becomes anyOf": ({"oneOf": [STRING, INTEGER]}, {"anyOf": [STRING, INTEGER]}, True),
    "anyOf of several becomes oneOf": (
        {"anyOf": [STRING, NUMBER]},
        {"oneOf": [STRING, NUMBER]},
        False,
    ),
    "anyOf of one becomes oneOf": ({"anyOf": [STRING]}, {"oneOf": [STRING, NUMBER]}, True),
    "anyOf becomes allOf": ({"anyOf": [STRING]}, {"allOf": [STRING, NUMBER]}, False),
    "allOf loses a part": ({"allOf": [STRING, {"maxLength": 3}]}, {"allOf": [STRING]}, True),
    "allOf gets a part": ({"allOf": [STRING]}, {"allOf": [STRING, {"maxLength": 3}]}, False),
    "the parts of allOf change places": (
        {"allOf": [STRING, {"enum": ["a"]}]},
        {"allOf": [{"enum": ["a", "b"]}, STRING]},
        True,
    ),
    "not is narrowed": ({"not": NUMBER}, {"not": INTEGER}, True),
    "not is extended": ({"not": INTEGER}, {"not": NUMBER}, False),
    # arrays
    "the items widen": (
        {"type": "array", "items": INTEGER},
        {"type": "array", "items": NUMBER},
        True,
    ),
    "the items are retyped": (
        {"type": "array", "items": STRING},
        {"type": "array", "items": NUMBER},
        False,
    ),
    "items must be unique": ({"type": "array"}, {"type": "array", "uniqueItems": True}, False),
    "more items are allowed": (
        {"type": "array", "maxItems": 1},
        {"type": "array", "maxItems": 2},
        True,
    ),
    "a place is added to an open tuple": (
        {"type": "array", "items": [STRING]},
        {"type": "array", "items": [STRING, NUMBER]},
        False,
    ),
    "a place is added to a closed tuple": (
        {"type": "array", "items": [STRING], "additionalItems": False},
        {"type": "array", "items": [STRING, NUMBER], "additionalItems": False},
        True,
    ),
    "a place is removed from a closed tuple": (
        {"type": "array", "items": [STRING, NUMBER], "additionalItems": False},
        {"type": "array", "items": [STRING], "additionalItems": False},
        False,
    ),
    # references
    "a definition gets a name": (
        prop(STRING),
        obj(properties={"p": {"$ref": "#/definitions/s"}}, definitions={"s": STRING}),
        True,
    ),
    "a definition is retyped": (
        obj(properties={"p": {"$ref": "#/definitions/s"}}, definitions={"s": STRING}),
        obj(properties={"p": {"$ref": "#/definitions/s"}}, definitions={"s": NUMBER}),
        False,
    ),
    "a schema that holds itself is retyped": (
        obj(properties={"v": INTEGER, "next": {"$ref": "#"}}),
        obj(properties={"v": STRING, "next": {"$ref": "#"}}),
        False,
    ),
    "a schema that holds itself widens": (
        obj(properties={"v": INTEGER, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}),
        obj(properties={"v": NUMBER, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}),
        True,
    ),
}


def text(schema: Any) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


@pytest.mark.parametrize("name", CASES)
def test_json_verdict(name: str) -> None:
    old, new, compatible = CASES[name]
    before, after = parsed("JSON", text(old)), parsed("JSON", text(new))
    assert (not after.reads(before)) is compatible, after.reads(before)


def test_prefix_items_of_the_newest_draft_are_what_items_were() -> None:
    def tuple_of(*items: Any) -> str:
        return json.dumps(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "array",
                "prefixItems": items,
                "items": False,
            }
        )

    old, new = parsed("JSON", tuple_of(STRING)), parsed("JSON", tuple_of(STRING, NUMBER))
    assert not new.reads(old)
    assert old.reads(new)


def test_a_schema_in_another_file_counts_with_all_that_is_in_it() -> None:
    using = json_object(p={"$ref": "other.json#/definitions/x"})
    old = parsed("JSON", using, ("other.json", json.dumps({"definitions": {"x": INTEGER}})))
    new = parsed("JSON", using, ("other.json", json.dumps({"definitions": {"x": STRING}})))
    assert new.reads(old)[0].startswith("TYPE_CHANGED at #/properties/p")


def test_a_verdict_says_where() -> None:
    old, new = parsed("JSON", OPEN), parsed("JSON", json_object(a=INTEGER))
    assert new.reads(old) == ["TYPE_CHANGED at #/properties/a: string became integer"]
