"""The registry against a twin that remembers everything in lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.model import errors
from goqueue.model.errors import SchemaError
from goqueue.schemas import removing
from goqueue.schemas.contexts import ContextStates
from goqueue.schemas.model import Level, Mode, Reference, Schema, SchemaType
from goqueue.schemas.registry import LATEST, Registry
from support.effort import examples
from unit.schemas.schema_texts import avro_record

if TYPE_CHECKING:
    from collections.abc import Callable

SUBJECTS = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(1, 5)
PLAIN = [avro_record((f"f{number}", "int", 0)) for number in range(4)]
TEXTS = st.sampled_from(PLAIN)
USER = avro_record(("r", "R"), name="User")


@dataclass
class TwinVersion:
    subject: str
    number: int
    schema: Schema
    schema_id: int
    deleted: bool = False
    gone: bool = False


@dataclass
class Twin:
    """Every version that there ever was, in the order in which they came."""

    all: list[TwinVersion] = field(default_factory=list)
    mode: Mode = Mode.READWRITE

    def of(self, subject: str, *, deleted: bool) -> list[TwinVersion]:
        return [
            each
            for each in self.all
            if each.subject == subject and not each.gone and (deleted or not each.deleted)
        ]

    def next_number(self, subject: str) -> int:
        """One more than the last, unless the subject was gone meanwhile."""
        if not self.of(subject, deleted=True):
            return 1
        last = 0
        for each in self.all:
            if each.subject == subject:
                last = each.number
        return last + 1

    def id_of(self, schema: Schema) -> int:
        known = [each.schema_id for each in self.all if not each.gone and each.schema == schema]
        return known[0] if known else max((each.schema_id for each in self.all), default=0) + 1

    def referrers(self, subject: str, number: int, *, deleted: bool) -> list[TwinVersion]:
        return [
            each
            for each in self.all
            if not each.gone
            and (deleted or not each.deleted)
            and any(
                (ref.subject, ref.version) == (subject, number) for ref in each.schema.references
            )
        ]


class RegistryAgainstTwin(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.registry.apply(removing.set_level(self.registry, None, Level.NONE).entries)
        self.twin = Twin()

    def outcome(self, act: Callable[[], Any]) -> Any:
        """What was decided, applied at once; or the class of the refusal."""
        try:
            decided = act()
        except SchemaError as error:
            return type(error)
        self.registry.apply(decided.entries)
        return decided.result

    @rule(subject=SUBJECTS, text=TEXTS)
    def register(self, subject: str, text: str) -> None:
        self.register_schema(subject, Schema(SchemaType.AVRO, _canonical(text)))

    @rule(subject=SUBJECTS, of=SUBJECTS, number=NUMBERS)
    def register_referring(self, subject: str, of: str, number: int) -> None:
        reference = Reference("R", of, number)
        self.register_schema(subject, Schema(SchemaType.AVRO, _user(), (reference,)))

    def register_schema(self, subject: str, schema: Schema) -> None:
        got = self.outcome(lambda: self.registry.register(subject, schema))
        if self.twin.mode is Mode.READONLY:
            assert got is errors.SchemaOperationNotPermittedError
            return
        for reference in schema.references:
            known = self.twin.of(reference.subject, deleted=True)
            target = [each for each in known if each.number == reference.version]
            if not target or "R" not in target[0].schema.text or target[0].schema.references:
                assert got is errors.InvalidSchemaError
                return
        for each in reversed(self.twin.of(subject, deleted=False)):
            if each.schema == schema:
                assert (got.version.number, got.id) == (each.number, each.schema_id)
                return
        number, schema_id = self.twin.next_number(subject), self.twin.id_of(schema)
        assert (got.version.number, got.id) == (number, schema_id)
        self.twin.all.append(TwinVersion(subject, number, schema, schema_id))

    @rule(subject=SUBJECTS, text=TEXTS, deleted=st.booleans())
    def look_up(self, subject: str, text: str, deleted: bool) -> None:
        schema = Schema(SchemaType.AVRO, _canonical(text))
        known = self.twin.of(subject, deleted=deleted)
        try:
            found: Any = self.registry.lookup(subject, schema, deleted=deleted).version.number
        except SchemaError as error:
            found = type(error)
        numbers = [each.number for each in known if each.schema == schema]
        missing = errors.SchemaNotFoundError if known else errors.SubjectNotFoundError
        assert found == (numbers[-1] if numbers else missing)

    @rule(subject=SUBJECTS, permanent=st.booleans())
    def delete_subject(self, subject: str, permanent: bool) -> None:
        got = self.outcome(
            lambda: removing.delete_subject(self.registry, subject, permanent=permanent)
        )
        all_, living = (self.twin.of(subject, deleted=each) for each in (True, False))
        doomed = all_ if permanent else living
        if self.twin.mode is Mode.READONLY:
            assert got is errors.SchemaOperationNotPermittedError
        elif not all_:
            assert got is errors.SubjectNotFoundError
        elif permanent and living:
            assert got is errors.SubjectNotSoftDeletedError
        elif not permanent and not living:
            assert got is errors.SubjectSoftDeletedError
        elif any(self.twin.referrers(subject, v.number, deleted=permanent) for v in doomed):
            assert got is errors.SchemaReferencedError
        else:
            assert got == [each.number for each in doomed]
            for each in doomed:
                each.deleted, each.gone = True, permanent

    @rule(subject=SUBJECTS, number=NUMBERS, permanent=st.booleans())
    def delete_version(self, subject: str, number: int, permanent: bool) -> None:
        got = self.outcome(
            lambda: removing.delete_version(self.registry, subject, number, permanent=permanent)
        )
        known = self.twin.of(subject, deleted=True)
        version = next((each for each in known if each.number == number), None)
        if self.twin.mode is Mode.READONLY:
            assert got is errors.SchemaOperationNotPermittedError
        elif not known:
            assert got is errors.SubjectNotFoundError
        elif version is None:
            assert got is errors.SchemaVersionNotFoundError
        elif permanent and not version.deleted:
            assert got is errors.SchemaVersionNotSoftDeletedError
        elif not permanent and version.deleted:
            assert got is errors.SchemaVersionSoftDeletedError
        elif self.twin.referrers(subject, number, deleted=permanent):
            assert got is errors.SchemaReferencedError
        else:
            assert got == number
            version.deleted, version.gone = True, permanent

    @rule(mode=st.sampled_from([Mode.READWRITE, Mode.READONLY]))
    def set_mode(self, mode: Mode) -> None:
        assert self.outcome(lambda: removing.set_mode(self.registry, None, mode)) is mode
        self.twin.mode = mode

    @rule()
    def restart(self) -> None:
        """What is dumped is all there is."""
        again = Registry()
        again.apply(self.registry.contexts.dump())
        self.registry = again

    @invariant()
    def versions_are_the_twin_s(self) -> None:
        for subject in ("a", "b", "c"):
            for deleted in (False, True):
                twins = [
                    (each.number, each.schema_id, each.deleted)
                    for each in self.twin.of(subject, deleted=deleted)
                ]
                try:
                    found = self.registry.versions(subject, deleted=deleted)
                except errors.SubjectNotFoundError:
                    found = []
                assert [tuple(each.version) for each in found] == twins
                if twins:
                    latest = self.registry.version(subject, LATEST, deleted=deleted)
                    assert latest.version.number == twins[-1][0]

    @invariant()
    def ids_are_the_twin_s(self) -> None:
        self.registry.contexts.check_invariants()
        known = {each.schema_id: each.schema for each in self.twin.all if not each.gone}
        assert self.registry.state.schemas == known


def _canonical(text: str) -> str:
    decided = Registry().register("x", Schema(SchemaType.AVRO, text))
    return decided.result.schema.text


def _user() -> str:
    return '{"type":"record","name":"User","fields":[{"name":"r","type":"R"}]}'


TestRegistryAgainstTwin = RegistryAgainstTwin.TestCase
TestRegistryAgainstTwin.settings = settings(max_examples=examples(60), stateful_step_count=30)


def test_what_was_stored_in_pieces_is_what_is_dumped() -> None:
    registry = Registry()
    pieces = []
    for number, text in enumerate(PLAIN):
        decided = registry.register(f"s{number % 2}", Schema(SchemaType.AVRO, text))
        pieces += decided.entries
        registry.apply(decided.entries)
    replayed, dumped = ContextStates(), ContextStates()
    replayed.apply(pieces)
    dumped.apply(registry.contexts.dump())
    for states in (replayed, dumped):
        assert vars(states.of("s0")) == vars(registry.state)
