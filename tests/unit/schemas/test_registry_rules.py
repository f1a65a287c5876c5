"""Levels, modes, imports and references of the registry."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from goqueue.model import errors
from goqueue.schemas import removing
from goqueue.schemas.engine import Message
from goqueue.schemas.formats import parse
from goqueue.schemas.limits import MAX_SUBJECT_CHARS
from goqueue.schemas.model import Level, Mode, Reference, Schema, SchemaType
from goqueue.schemas.registry import LATEST, Registry
from unit.schemas.schema_texts import avro_record, proto

ONE = avro_record(("a", "int"))
WITH_DEFAULT = avro_record(("a", "int"), ("b", "int", 0))
WITHOUT_DEFAULT = avro_record(("a", "int"), ("b", "int"))
OTHER = avro_record(("a", "string"))


def avro(text: str, *references: Reference) -> Schema:
    return Schema(SchemaType.AVRO, text, references)


def do(registry: Registry, decided: Any) -> Any:
    registry.apply(decided.entries)
    registry.contexts.check_invariants()
    return decided.result


def register(registry: Registry, subject: str, text: str, **options: Any) -> Any:
    return do(registry, registry.register(subject, avro(text), **options))


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.mark.parametrize(
    ("level", "taken"),
    [
        (Level.NONE, {ONE, WITH_DEFAULT, WITHOUT_DEFAULT, OTHER}),
        (Level.BACKWARD, {ONE, WITH_DEFAULT}),
        (Level.FORWARD, {ONE, WITH_DEFAULT, WITHOUT_DEFAULT}),
        (Level.FULL, {ONE, WITH_DEFAULT}),
        (Level.BACKWARD_TRANSITIVE, {ONE, WITH_DEFAULT}),
        (Level.FORWARD_TRANSITIVE, {ONE, WITH_DEFAULT, WITHOUT_DEFAULT}),
        (Level.FULL_TRANSITIVE, {ONE, WITH_DEFAULT}),
    ],
)
def test_a_level_says_what_may_come_next(registry: Registry, level: Level, taken: set[str]) -> None:
    register(registry, "s", ONE)
    do(registry, removing.set_level(registry, "s", level))
    for text in (ONE, WITH_DEFAULT, WITHOUT_DEFAULT, OTHER):
        problems = registry.compatibility("s", avro(text), None)
        assert (not problems) is (text in taken), problems
        if text in taken:
            registry.register("s", avro(text))
        else:
            with pytest.raises(errors.IncompatibleSchemaError):
                registry.register("s", avro(text))


def test_without_a_level_new_readers_must_understand_old_messages(registry: Registry) -> None:
    assert registry.level("s") is Level.BACKWARD


def test_a_transitive_level_looks_at_every_version(registry: Registry) -> None:
    texts = [avro_record(), avro_record(("a", "int", 0)), avro_record(("a", "int"))]
    for level, last_fits in ((Level.BACKWARD, True), (Level.BACKWARD_TRANSITIVE, False)):
        for text in texts[:2]:
            register(registry, level, text)
        do(registry, removing.set_level(registry, level, level))
        problems = registry.compatibility(level, avro(texts[2]), None)
        assert (not problems) is last_fits
        assert registry.compatibility(level, avro(texts[2]), 1)
        assert not registry.compatibility(level, avro(texts[2]), LATEST)


def test_deleted_versions_do_not_count(registry: Registry) -> None:
    register(registry, "s", ONE)
    with pytest.raises(errors.IncompatibleSchemaError):
        registry.register("s", avro(OTHER))
    do(registry, removing.delete_version(registry, "s", 1, permanent=False))
    assert register(registry, "s", OTHER).version.number == 2


def test_another_type_is_incompatible(registry: Registry) -> None:
    register(registry, "s", ONE)
    with pytest.raises(errors.IncompatibleSchemaError, match="is AVRO, the new one JSON"):
        registry.register("s", Schema(SchemaType.JSON, "{}"))


def test_a_subject_s_level_goes_before_everyone_s(registry: Registry) -> None:
    do(registry, removing.set_level(registry, None, Level.FULL))
    do(registry, removing.set_level(registry, "s", Level.NONE))
    assert (registry.level("s"), registry.level("other")) == (Level.NONE, Level.FULL)
    assert removing.own_level(registry, "s") is Level.NONE
    with pytest.raises(errors.CompatibilityNotConfiguredError):
        removing.own_level(registry, "other")
    assert do(registry, removing.clear_level(registry, "s")) is Level.NONE
    assert registry.level("s") is Level.FULL
    with pytest.raises(errors.SubjectNotFoundError):
        removing.clear_level(registry, "s")
    assert do(registry, removing.clear_level(registry, None)) is Level.FULL
    assert do(registry, removing.clear_level(registry, None)) is Level.BACKWARD


def test_a_deleted_subject_has_no_level_and_mode_of_its_own(registry: Registry) -> None:
    register(registry, "s", ONE)
    do(registry, removing.set_level(registry, "s", Level.NONE))
    do(registry, removing.set_mode(registry, "s", Mode.READWRITE))
    do(registry, removing.delete_subject(registry, "s", permanent=False))
    assert registry.level("s") is Level.BACKWARD
    with pytest.raises(errors.SchemaModeNotConfiguredError):
        removing.own_mode(registry, "s")


# --- Ids and numbers ------------------------------------------------------------------------------


def test_one_schema_has_one_id_in_all_subjects(registry: Registry) -> None:
    first = register(registry, "a", ONE)
    assert register(registry, "b", " " + ONE).id == first.id == 1
    assert register(registry, "b", WITH_DEFAULT).id == 2
    assert register(registry, "a", WITH_DEFAULT).version.number == 2
    assert registry.state.uses[2] == {("a", 2), ("b", 2)}


def test_a_number_that_was_deleted_for_ever_is_not_given_again(registry: Registry) -> None:
    register(registry, "s", ONE)
    register(registry, "s", WITH_DEFAULT)
    for permanent in (False, True):
        do(registry, removing.delete_version(registry, "s", 2, permanent=permanent))
    with pytest.raises(errors.SchemaNotFoundError):
        registry.schema(2)
    again = register(registry, "s", WITH_DEFAULT)
    assert (again.version.number, again.id) == (3, 3)


def test_a_deleted_schema_comes_back_with_its_id_and_a_new_number(registry: Registry) -> None:
    register(registry, "s", ONE)
    do(registry, removing.delete_version(registry, "s", LATEST, permanent=False))
    assert registry.schema(1).text
    again = register(registry, "s", ONE)
    assert (again.version.number, again.id) == (2, 1)


def test_a_schema_with_other_metadata_is_another_one(registry: Registry) -> None:
    plain = avro(ONE)
    noted = Schema(SchemaType.AVRO, ONE, metadata=json.dumps({"properties": {"owner": "us"}}))
    assert do(registry, registry.register("s", plain)).id == 1
    assert do(registry, registry.register("s", noted)).id == 2
    assert registry.lookup("s", noted).version.number == 2


def test_normalising_finds_what_differs_in_order_alone(registry: Registry) -> None:
    one, two = (Schema(SchemaType.JSON, text) for text in ('{"a":1,"b":2}', '{"b":2,"a":1}'))
    do(registry, registry.register("s", one, normalise=True))
    with pytest.raises(errors.SchemaNotFoundError):
        registry.lookup("s", two)
    assert registry.lookup("s", two, normalise=True).id == 1


# --- Modes ----------------------------------------------------------------------------------------


def test_nothing_changes_in_a_subject_that_is_read_only(registry: Registry) -> None:
    register(registry, "s", ONE)
    do(registry, removing.set_mode(registry, "s", Mode.READONLY))
    for refused in (
        lambda: registry.register("s", avro(WITH_DEFAULT)),
        lambda: removing.delete_subject(registry, "s", permanent=False),
        lambda: removing.delete_version(registry, "s", 1, permanent=False),
        lambda: removing.set_level(registry, "s", Level.NONE),
    ):
        with pytest.raises(errors.SchemaOperationNotPermittedError):
            refused()
    register(registry, "t", WITH_DEFAULT)
    assert do(registry, removing.clear_mode(registry, "s")) is Mode.READONLY
    register(registry, "s", WITH_DEFAULT)


def test_schemas_are_imported_with_their_ids_and_numbers(registry: Registry) -> None:
    with pytest.raises(errors.SchemaOperationNotPermittedError):
        registry.register("s", avro(ONE), schema_id=10)
    do(registry, removing.set_mode(registry, None, Mode.IMPORT))
    with pytest.raises(errors.SchemaOperationNotPermittedError):
        registry.register("s", avro(ONE))
    found = register(registry, "s", ONE, schema_id=10, number=3)
    assert (found.id, found.version.number) == (10, 3)
    assert register(registry, "s", OTHER, schema_id=20).version.number == 4
    with pytest.raises(errors.SchemaIdMismatchError):
        registry.register("t", avro(OTHER), schema_id=10)
    with pytest.raises(errors.InvalidSchemaError):
        registry.register("s", avro(WITH_DEFAULT), schema_id=30, number=3)
    do(registry, removing.set_mode(registry, None, Mode.READWRITE))
    assert register(registry, "t", WITH_DEFAULT).id == 21


def test_an_id_that_was_freed_may_be_imported_for_another_schema(registry: Registry) -> None:
    do(registry, removing.set_mode(registry, None, Mode.IMPORT))
    register(registry, "s", ONE, schema_id=7)
    registry.engine.texts(registry.whole(7))
    for permanent in (False, True):
        do(registry, removing.delete_subject(registry, "s", permanent=permanent))
    register(registry, "s", OTHER, schema_id=7)
    assert "string" in registry.engine.texts(registry.whole(7)).canonical


def test_nothing_is_imported_over_what_is_there_unless_forced(registry: Registry) -> None:
    register(registry, "s", ONE)
    for subject in (None, "s"):
        with pytest.raises(errors.SchemaOperationNotPermittedError):
            removing.set_mode(registry, subject, Mode.IMPORT)
    removing.set_mode(registry, "empty", Mode.IMPORT)
    do(registry, removing.set_mode(registry, "s", Mode.IMPORT, force=True))
    assert removing.own_mode(registry, "s") is Mode.IMPORT


# --- References -----------------------------------------------------------------------------------


def test_references_are_followed_as_far_as_they_lead(registry: Registry) -> None:
    register(registry, "c", avro_record(("x", "int"), name="C"))
    middle = avro(avro_record(("c", "C"), name="B"), Reference("C", "c", 1))
    do(registry, registry.register("b", middle))
    top = avro(avro_record(("b", "B"), ("c", "C"), name="A"), Reference("B", "b", LATEST))
    found = do(registry, registry.register("a", top))
    assert found.schema.references == (Reference("B", "b", 1),)
    names = [each.reference.name for each in registry.dependencies(found.schema)]
    assert names == ["C", "B"]
    assert registry.engine.check(registry.whole(found.id), [Message(b"\x02\x04")]) == [None]
    assert removing.referenced_by(registry, "b", 1, deleted=False) == [found.id]


def test_what_others_refer_to_stays(registry: Registry) -> None:
    register(registry, "c", avro_record(("x", "int"), name="C"))
    user = avro(avro_record(("c", "C"), name="B"), Reference("C", "c", 1))
    do(registry, registry.register("b", user))
    for refused in (
        lambda: removing.delete_subject(registry, "c", permanent=False),
        lambda: removing.delete_version(registry, "c", 1, permanent=False),
    ):
        with pytest.raises(errors.SchemaReferencedError):
            refused()
    do(registry, removing.delete_subject(registry, "b", permanent=False))
    do(registry, removing.delete_subject(registry, "c", permanent=False))
    with pytest.raises(errors.SchemaReferencedError):  # b can still be read, and needs it
        removing.delete_subject(registry, "c", permanent=True)
    do(registry, removing.delete_subject(registry, "b", permanent=True))
    do(registry, removing.delete_subject(registry, "c", permanent=True))
    assert not registry.state.schemas


def test_a_reference_that_leads_nowhere_is_refused(registry: Registry) -> None:
    schema = avro(avro_record(("c", "C")), Reference("C", "c", 1))
    with pytest.raises(errors.InvalidSchemaError, match="no version 1 of subject 'c'"):
        registry.register("s", schema)
    register(registry, "c", avro_record(("x", "int"), name="Other"))
    with pytest.raises(errors.InvalidSchemaError, match="no type 'C'"):
        registry.register("s", schema)


def test_protobuf_files_import_each_other_by_their_references(registry: Registry) -> None:
    other = Schema(SchemaType.PROTOBUF, proto("message O { int32 x = 1; }", "package o;"))
    do(registry, registry.register("other", other))
    user = Schema(
        SchemaType.PROTOBUF,
        proto('import "dir/o.proto"; message M { o.O o = 1; }'),
        (Reference("dir/o.proto", "other", 1),),
    )
    assert do(registry, registry.register("m", user)).id == 2


@pytest.mark.parametrize("subject", ["", "x" * (MAX_SUBJECT_CHARS + 1), "a\nb", "\0", "\ud800"])
def test_a_subject_needs_a_name_that_can_be_written(registry: Registry, subject: str) -> None:
    with pytest.raises(errors.InvalidSubjectError):
        registry.register(subject, avro(ONE))


# --- Texts that are made to hurt ------------------------------------------------------------------

SEEDS = {
    SchemaType.AVRO: avro_record(
        ("a", ["null", "int"], None),
        ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        ("m", {"type": "map", "values": "E"}),
        ("r", ["null", "R"]),
    ),
    SchemaType.JSON: json.dumps(
        {
            "type": ["object", "null"],
            "properties": {"a": {"$ref": "#/definitions/d"}, "b": {"items": [{"pattern": "a"}]}},
            "required": ["a"],
            "definitions": {"d": {"anyOf": [{"minimum": 1}, {"$ref": "#"}]}},
            "patternProperties": {"^x": {"not": {}}},
        }
    ),
    SchemaType.PROTOBUF: proto(
        "message M { reserved 5 to 9; int32 a = 1 [deprecated = true]; map<string, N> m = 2; "
        "oneof o { string s = 3; N n = 4; } enum E { A = 0; } E e = 10; optional bytes b = 11; "
        "message N { repeated M ms = 1; } } service S { rpc X (M) returns (stream M); }"
    ),
}
WORDS = [
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    ";",
    "=",
    "<",
    ">",
    "(",
    ")",
    ".",
    "-",
    "0",
    "1",
    "5",
    "-1",
    "null",
    "true",
    '"int"',
    '"R"',
    '"type"',
    '"$ref"',
    '"#"',
    '"items"',
    "message",
    "enum",
    "oneof",
    "N",
    "M",
    "repeated",
    "map",
    "option",
    "group",
    "extend",
    "reserved",
    "to",
    "max",
    "//",
    "/*",
    "\\x",
]


@given(
    kind=st.sampled_from(list(SEEDS)),
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(["", *WORDS])),
        min_size=1,
        max_size=4,
    ),
)
def test_no_text_makes_the_registry_fail(
    kind: SchemaType, edits: list[tuple[float, int, str]]
) -> None:
    text = SEEDS[kind]
    for where, cut, word in edits:
        at = int(where * len(text))
        text = text[:at] + word + text[at + cut :]
    known = Registry()
    register_seed = known.register("s", Schema(kind, SEEDS[kind]))
    do(known, register_seed)
    do(known, removing.set_level(known, None, Level.FULL))
    try:
        found = do(known, known.register("s", Schema(kind, text)))
    except errors.SchemaError:
        return
    understood = parse(found.schema, known.dependencies(found.schema))
    assert understood.normalised
    assert not understood.reads(understood)
    understood.validator().check(b"{}")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SchemaType.AVRO, '{"type":"array","items":' * 500 + '"int"' + "}" * 500),
        (SchemaType.JSON, '{"not":' * 500 + "{}" + "}" * 500),
        (SchemaType.JSON, '{"x":' + "[" * 900 + "]" * 900 + "}"),
        (SchemaType.PROTOBUF, proto("message M {" * 500 + "}" * 500)),
    ],
)
def test_what_is_nested_without_end_is_refused(
    registry: Registry, kind: SchemaType, text: str
) -> None:
    with pytest.raises(errors.InvalidSchemaError, match="deep"):
        registry.register("s", Schema(kind, text))


def test_what_would_take_for_ever_to_compare_is_refused(registry: Registry) -> None:
    for number in range(2):
        parts = [{"title": f"{at}", "minimum": at + number} for at in range(1000)]
        schema = Schema(SchemaType.JSON, json.dumps({"anyOf": parts}))
        if number == 0:
            do(registry, registry.register("s", schema))
    with pytest.raises(errors.InvalidSchemaError, match="too large to be compared"):
        registry.register("s", schema)
