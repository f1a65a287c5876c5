"""What the registry decides. Nothing changes until what was decided is stored and applied.

    decided = registry.register("orders-value", schema)
    ...store decided.entries...
    registry.apply(decided.entries)
    ...tell decided.result...

The rules, and the codes of refusals, are those of Confluent's registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    InvalidSubjectError,
    SchemaIdMismatchError,
    SchemaNotFoundError,
    SchemaOperationNotPermittedError,
    SchemaVersionNotFoundError,
    SubjectNotFoundError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.schemas.contexts import ContextStates, Qualified, in_context
from goqueue.schemas.engine import Engine, LocalEngine, WholeSchema
from goqueue.schemas.limits import (
    MAX_CONTEXTS,
    MAX_DEPENDENCIES,
    MAX_SUBJECT_CHARS,
    MAX_VERSION,
    MAX_VERSIONS,
)
from goqueue.schemas.model import Dependency, Level, Mode, Reference, Schema
from goqueue.schemas.state import (
    DEFAULT_CONTEXT,
    Entry,
    RegistryState,
    Version,
    ids_entry,
    schema_entry,
    subject_entry,
    version_entry,
)
from goqueue.state.serial import Decided

if TYPE_CHECKING:
    from collections.abc import Iterable


LATEST: Final = -1


class RegisteredVersion(NamedTuple):
    """A version of a subject with its schema."""

    subject: str
    version: Version
    schema: Schema

    @property
    def id(self) -> int:
        """The schema's id."""
        return self.version.schema_id


class Registry:
    """Subjects, versions and schemas: finding, checking and registering them."""

    def __init__(self, engine: Engine | None = None) -> None:
        """Let an engine understand schemas; without one they are understood in this process."""
        self.contexts = ContextStates()
        self.engine = LocalEngine() if engine is None else engine
        self.generation = 0
        """Counts changes: what was made of one generation's schemas holds for that one."""

    @property
    def state(self) -> RegistryState:
        """Of the default context, which the subjects of topics are in."""
        return self.contexts.by_context[DEFAULT_CONTEXT]

    def apply(self, entries: Iterable[Entry]) -> None:
        """Take in what was stored."""
        self.contexts.apply(entries)
        self.generation += 1

    # --- Finding ---------------------------------------------------------------------------------

    def versions(self, subject: str, *, deleted: bool = False) -> list[RegisteredVersion]:
        """The versions of a subject, oldest first.

        Raises:
            SubjectNotFoundError: it has none that may be seen.
        """
        known = self.contexts.of(subject).subjects.get(subject, {}).values()
        found = [self._found(subject, each) for each in known if deleted or not each.is_deleted]
        if not found:
            raise SubjectNotFoundError(f"Subject '{subject}' not found.")
        return found

    def version(self, subject: str, number: int, *, deleted: bool = False) -> RegisteredVersion:
        """One version of a subject, or its `LATEST`.

        Raises:
            SubjectNotFoundError, SchemaVersionNotFoundError: there is none.
        """
        versions = self.versions(subject, deleted=deleted)
        if number == LATEST:
            return versions[-1]
        for each in versions:
            if each.version.number == number:
                return each
        raise SchemaVersionNotFoundError(f"Version {number} not found.")

    def schema(self, schema_id: int, context: str = DEFAULT_CONTEXT) -> Schema:
        """A schema by its id, also one whose versions are all deleted but not for ever.

        Raises:
            SchemaNotFoundError: no version has it.
        """
        try:
            return self.contexts.of_context(context).schemas[schema_id]
        except KeyError:
            raise SchemaNotFoundError(f"Schema {schema_id} not found") from None

    def lookup(
        self, subject: str, schema: Schema, *, deleted: bool = False, normalise: bool = False
    ) -> RegisteredVersion:
        """The newest version of a subject that has this schema.

        Raises:
            SubjectNotFoundError, SchemaNotFoundError: there is none.
            InvalidSchemaError: it is no schema.
        """
        versions = self.versions(subject, deleted=deleted)
        canonical = self._canonical(subject, schema, normalise=normalise)
        for each in reversed(versions):
            if each.schema.fingerprint == canonical.fingerprint:
                return each
        raise SchemaNotFoundError("Schema not found")

    def _found(self, subject: str, version: Version) -> RegisteredVersion:
        state = self.contexts.of(subject)
        return RegisteredVersion(subject, version, state.schemas[version.schema_id])

    # --- Levels and modes ------------------------------------------------------------------------

    def level(self, subject: str) -> Level:
        """The compatibility level that counts for a subject."""
        levels = self.contexts.of(subject).levels
        return levels.get(subject) or levels.get(None) or Level.BACKWARD

    def mode(self, subject: str) -> Mode:
        """The mode that counts for a subject; nothing can be changed where everything is locked."""
        modes = self.contexts.of(subject).modes
        return modes.get(subject) or modes.get(None) or Mode.READWRITE

    # --- Understanding ---------------------------------------------------------------------------

    def whole(self, schema_id: int, context: str = DEFAULT_CONTEXT) -> WholeSchema:
        """A registered schema with all that it stands on.

        Raises:
            SchemaNotFoundError: there is none.
            InvalidSchemaError: it stands on what is not there.
        """
        return self.with_dependencies(self.schema(schema_id, context))

    def with_dependencies(self, schema: Schema) -> WholeSchema:
        """A schema with all that it stands on. Raises `InvalidSchemaError` if that is not there."""
        return WholeSchema(schema, tuple(self.dependencies(schema)))

    def dependencies(self, schema: Schema) -> list[Dependency]:
        """All that a schema stands on, each before whatever stands on it.

        Raises:
            InvalidSchemaError: a reference leads nowhere, or there are too many.
        """
        found: list[Dependency] = []
        seen: set[Reference] = set()

        def visit(references: tuple[Reference, ...]) -> None:
            for reference in references:
                if reference in seen:
                    continue
                seen.add(reference)
                if len(seen) > MAX_DEPENDENCIES:
                    raise InvalidSchemaError(
                        f"the schema stands on more than {MAX_DEPENDENCIES} others"
                    )
                target = self._referred(reference).schema
                visit(target.references)
                found.append(Dependency(reference, target))

        visit(schema.references)
        return found

    def _referred(self, reference: Reference) -> RegisteredVersion:
        try:
            return self.version(reference.subject, reference.version, deleted=True)
        except (SubjectNotFoundError, SchemaVersionNotFoundError):
            raise InvalidSchemaError(
                f"reference {reference.name!r}: there is no version {reference.version} of subject "
                f"{reference.subject!r}"
            ) from None

    def _canonical(self, subject: str, schema: Schema, *, normalise: bool) -> Schema:
        """A schema as it is stored."""
        qualified = [
            reference._replace(subject=in_context(reference.subject, subject))
            for reference in schema.references
        ]
        references = tuple(
            reference._replace(version=self._referred(reference).version.number)
            for reference in qualified
        )
        schema = Schema(schema.type, schema.text, references, schema.metadata, schema.rules)
        texts = self.engine.texts(self.with_dependencies(schema))
        text = texts.normalised if normalise else texts.canonical
        if normalise:
            references = tuple(sorted(references))
        return Schema(schema.type, text, references, schema.metadata, schema.rules)

    # --- Compatibility ---------------------------------------------------------------------------

    def compatibility(
        self, subject: str, schema: Schema, number: int | None, *, normalise: bool = False
    ) -> list[str]:
        """Why a schema could not be a subject's next one; nothing where it could.

        It is held against the version of this number, or without one against all that the
        subject's level says.

        Raises:
            SubjectNotFoundError, SchemaVersionNotFoundError: there is no such version.
            InvalidSchemaError: it is no schema.
        """
        canonical = self._canonical(subject, schema, normalise=normalise)
        level = self.level(subject)
        try:
            if number is None:
                against = self._counted(self.versions(subject), level)
            else:
                against = [self.version(subject, number)]
        except SubjectNotFoundError:
            if number not in {None, LATEST}:
                raise
            return []  # the first schema of a subject fits
        return self._problems(canonical, against, level)

    def _problems(
        self, schema: Schema, against: Iterable[RegisteredVersion], level: Level
    ) -> list[str]:
        problems: list[str] = []
        new = self.with_dependencies(schema)
        if level is Level.NONE:
            return problems
        for old in against:
            if old.schema.type is not schema.type:
                problems.append(
                    f"version {old.version.number} is {old.schema.type}, the new one {schema.type}"
                )
                continue
            said = self.engine.differences(self.with_dependencies(old.schema), new, level)
            problems += [f"version {old.version.number}: {each}" for each in said]
        return problems

    @staticmethod
    def _counted(versions: list[RegisteredVersion], level: Level) -> list[RegisteredVersion]:
        """The versions that a level is about, newest first."""
        return versions[::-1] if level.is_transitive else versions[-1:]

    # --- Registering -----------------------------------------------------------------------------

    def register(
        self,
        subject: str,
        schema: Schema,
        *,
        schema_id: int | None = None,
        number: int | None = None,
        normalise: bool = False,
    ) -> Decided[RegisteredVersion]:
        """Make a schema a version of a subject, unless it is one already.

        `schema_id` and `number` are given where schemas are imported.

        Raises:
            InvalidSubjectError, InvalidSchemaError, SchemaTooLargeError: it cannot be one.
            IncompatibleSchemaError: the subject's level forbids it.
            SchemaOperationNotPermittedError: the subject's mode, or a limit, does.
            SchemaIdMismatchError: the id is another schema's.
        """
        check_subject(subject)
        mode = self._check_mode(subject, schema_id)
        canonical = self._canonical(subject, schema, normalise=normalise)
        versions = [each for each in self._all(subject) if not each.version.is_deleted]
        if number is None:
            for each in reversed(versions):
                if each.schema.fingerprint == canonical.fingerprint and schema_id in {
                    None,
                    each.id,
                }:
                    return Decided([], each)
        if mode is not Mode.IMPORT:
            level = self.level(subject)
            problems = self._problems(canonical, self._counted(versions, level), level)
            if problems:
                raise IncompatibleSchemaError(
                    "Schema being registered is incompatible with an earlier schema for subject "
                    f'"{subject}" under {level}: {"; ".join(problems)}'
                )
        return self._add(subject, canonical, schema_id, self._next_number(subject, number, mode))

    def _all(self, subject: str) -> list[RegisteredVersion]:
        known = self.contexts.of(subject).subjects.get(subject, {}).values()
        return [self._found(subject, each) for each in known]

    def _check_mode(self, subject: str, schema_id: int | None) -> Mode:
        mode = self.mode(subject)
        if mode is Mode.READONLY:
            raise SchemaOperationNotPermittedError(f"Subject {subject} is in read-only mode")
        if schema_id is not None and mode is not Mode.IMPORT:
            raise SchemaOperationNotPermittedError(f"Subject {subject} is not in import mode")
        if schema_id is None and mode is Mode.IMPORT:
            raise SchemaOperationNotPermittedError(
                f"Subject {subject} is in import mode: schemas need their ids"
            )
        if self.contexts.version_count >= MAX_VERSIONS:
            raise SchemaOperationNotPermittedError(
                f"the registry holds {MAX_VERSIONS} versions, which is the limit: hard-delete some"
            )
        self.check_context(subject)
        return mode

    def check_context(self, subject: str) -> None:
        """Refuse one context too many.

        Raises:
            SchemaOperationNotPermittedError: the subject's would be that.
        """
        known = self.contexts.by_context
        if Qualified.of(subject).context not in known and len(known) >= MAX_CONTEXTS:
            raise SchemaOperationNotPermittedError(
                f"the registry holds {MAX_CONTEXTS} contexts, which is the limit: use one of them"
            )

    def _next_number(self, subject: str, given: int | None, mode: Mode) -> int:
        state = self.contexts.of(subject)
        following = state.next_versions.get(subject, 1)
        if given is None or given == following:
            return following
        taken = given in state.subjects.get(subject, {})
        if mode is not Mode.IMPORT or taken or not 1 <= given < MAX_VERSION:
            raise InvalidSchemaError(f"version {given} cannot be given: the next is {following}")
        return given

    def _add(
        self, subject: str, schema: Schema, schema_id: int | None, number: int
    ) -> Decided[RegisteredVersion]:
        state = self.contexts.of(subject)
        entries: list[Entry] = []
        if schema_id is None:
            schema_id = min(state.ids.get(schema.fingerprint, ()), default=state.next_id)
        if schema_id not in state.schemas:
            entries.append(schema_entry(schema_id, schema, state.context))
        elif state.schemas[schema_id].fingerprint != schema.fingerprint:
            raise SchemaIdMismatchError(f"id {schema_id} belongs to another schema")
        if schema_id >= state.next_id:
            entries.append(ids_entry(schema_id + 1, state.context))
        version = Version(number, schema_id)
        following = max(state.next_versions.get(subject, 1), number + 1)
        entries += [subject_entry(subject, following), version_entry(subject, version)]
        return Decided(entries, RegisteredVersion(subject, version, schema))


def check_subject(subject: str) -> None:
    """Refuse a name that no subject may have.

    Raises:
        InvalidSubjectError: it is empty, too long, or holds what cannot be written.
    """
    is_named = bool(Qualified.of(subject).name)
    if not is_named or len(subject) > MAX_SUBJECT_CHARS or not subject.isprintable():
        raise InvalidSubjectError(
            f"The specified subject '{subject[:80]}' is not valid: 1 to {MAX_SUBJECT_CHARS} "
            "printable characters"
        )
