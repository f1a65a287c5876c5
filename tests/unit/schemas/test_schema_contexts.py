"""Contexts of the registry: registries within the registry."""

from __future__ import annotations

from typing import Any

import pytest

from goqueue.model import errors
from goqueue.schemas import contexts, removing
from goqueue.schemas.contexts import ContextStates, Qualified, in_context, subject_of
from goqueue.schemas.model import Level, Mode, Reference, Schema, SchemaType
from goqueue.schemas.registry import Registry
from unit.schemas.schema_texts import avro_record

ONE, OTHER = avro_record(("a", "int")), avro_record(("a", "string"))
USER = avro_record(("r", "R"), name="User")


def register(registry: Registry, subject: str, text: str, *references: Reference) -> Any:
    return do(registry, registry.register(subject, Schema(SchemaType.AVRO, text, references)))


def do(registry: Registry, decided: Any) -> Any:
    registry.apply(decided.entries)
    registry.contexts.check_invariants()
    return decided.result


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.mark.parametrize(
    ("subject", "parts", "full"),
    [
        ("orders", (".", "orders"), "orders"),
        (":.:orders", (".", "orders"), "orders"),
        (":.x:orders", (".x", "orders"), ":.x:orders"),
        (":.x:", (".x", ""), ":.x:"),
        (":.x:a:b", (".x", "a:b"), ":.x:a:b"),
        (":orders", (".", ":orders"), ":orders"),
        (":x:orders", (".", ":x:orders"), ":x:orders"),
        (":.orders", (".", ":.orders"), ":.orders"),
    ],
)
def test_a_subject_is_taken_apart(subject: str, parts: tuple[str, str], full: str) -> None:
    assert Qualified.of(subject) == parts
    assert subject_of(subject) == full


def test_ids_and_versions_count_in_each_context(registry: Registry) -> None:
    assert register(registry, "s", ONE).id == 1
    assert register(registry, "t", OTHER).id == 2
    found = register(registry, ":.x:s", OTHER)
    assert (found.id, found.version.number) == (1, 1)
    assert registry.schema(1).text != registry.schema(1, ".x").text
    assert registry.contexts.used == [".", ".x"]
    with pytest.raises(errors.SchemaNotFoundError):
        registry.schema(2, ".x")
    with pytest.raises(errors.SubjectNotFoundError):
        registry.versions(":.x:t")


def test_subjects_are_listed_by_context(registry: Registry) -> None:
    for subject in ("one", "two", ":.x:one", ":.y:two"):
        register(registry, subject, ONE)

    def listed(prefix: str) -> list[str]:
        return sorted(name for name, _ in registry.contexts.subjects(prefix))

    assert listed("") == listed(":*:") == [":.x:one", ":.y:two", "one", "two"]
    assert listed(":*:o") == [":.x:one", "one"]
    assert listed("t") == ["two"]
    assert listed(":.x:") == [":.x:one"]
    assert listed(":.:") == ["one", "two"]


def test_levels_and_modes_of_a_context_are_its_own(registry: Registry) -> None:
    do(registry, removing.set_level(registry, ":.x:", Level.NONE))
    do(registry, removing.set_mode(registry, ":.y:", Mode.READONLY))
    assert registry.level(":.x:s") is Level.NONE
    assert registry.level("s") is registry.level(":.y:s") is Level.BACKWARD
    register(registry, "s", ONE)
    with pytest.raises(errors.SchemaOperationNotPermittedError):
        register(registry, ":.y:s", ONE)
    do(registry, removing.set_level(registry, ":.x:s", Level.FULL))
    assert removing.own_level(registry, ":.x:s") is Level.FULL
    assert removing.own_level(registry, ":.z:") is Level.BACKWARD
    assert do(registry, removing.clear_level(registry, ":.x:")) is Level.NONE
    assert registry.level(":.x:t") is Level.BACKWARD


def test_a_reference_is_of_the_context_of_its_schema_unless_it_says_another(
    registry: Registry,
) -> None:
    register(registry, ":.x:r", ONE)
    inside = register(registry, ":.x:user", USER, Reference("R", "r", 1))
    assert inside.schema.references == (Reference("R", ":.x:r", 1),)
    with pytest.raises(errors.InvalidSchemaError):
        register(registry, "user", USER, Reference("R", "r", 1))
    register(registry, "user", USER, Reference("R", ":.x:r", 1))
    assert removing.referenced_by(registry, ":.x:r", 1, deleted=False) == [1, 2]
    assert in_context("r", "user") == "r"
    do(registry, removing.delete_subject(registry, ":.x:user", permanent=False))
    with pytest.raises(errors.SchemaReferencedError):
        removing.delete_subject(registry, ":.x:r", permanent=False)


def test_deleting_for_ever_leaves_other_contexts_alone(registry: Registry) -> None:
    register(registry, "s", ONE)
    register(registry, ":.x:s", ONE)
    for permanent in (False, True):
        do(registry, removing.delete_subject(registry, ":.x:s", permanent=permanent))
    assert registry.contexts.used == ["."]
    assert registry.schema(1).text
    assert register(registry, ":.x:s", OTHER).id == 2


def test_what_is_dumped_is_what_there_was(registry: Registry) -> None:
    for subject in ("s", ":.x:s", ":.x:t"):
        register(registry, subject, ONE)
    do(registry, removing.set_level(registry, ":.x:", Level.FULL))
    do(registry, removing.set_mode(registry, ":.x:t", Mode.READONLY))
    do(registry, removing.set_level(registry, None, Level.NONE))
    again = ContextStates()
    again.apply(registry.contexts.dump())
    for context, state in registry.contexts.by_context.items():
        assert vars(again.of_context(context)) == vars(state)


def test_contexts_are_bounded(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.schemas.registry.MAX_CONTEXTS", 2)
    register(registry, ":.x:s", ONE)
    with pytest.raises(errors.SchemaOperationNotPermittedError, match="2 contexts"):
        register(registry, ":.y:s", ONE)
    with pytest.raises(errors.SchemaOperationNotPermittedError):
        removing.set_level(registry, ":.y:", Level.FULL)
    register(registry, ":.x:t", ONE)


@pytest.mark.parametrize("subject", [":.x:", ""])
def test_a_context_is_no_subject(registry: Registry, subject: str) -> None:
    with pytest.raises(errors.InvalidSubjectError):
        register(registry, subject, ONE)


def test_a_context_may_be_written_in_three_ways() -> None:
    assert {contexts.context_of(each) for each in (".x", ":.x:", "x")} == {".x"}
    with pytest.raises(errors.InvalidSubjectError):
        contexts.context_of("a:b")
