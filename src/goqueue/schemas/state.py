"""Everything that one context of the registry knows, as entries of keys and values.

`change` is the only thing that changes it, at a start as at any other time: what a restart finds is
what was there before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.model.errors import InvariantError
from goqueue.model.tuples import NamedTuple
from goqueue.schemas.model import Level, Mode, Reference, Schema, SchemaType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from uuid import UUID

Entry: TypeAlias = "tuple[bytes, bytes | None]"
DEFAULT_CONTEXT: Final = "."


class Version(NamedTuple):
    """One version of a subject."""

    number: int
    schema_id: int
    is_deleted: bool = False
    """It was deleted and can still be read; deleted for ever, it would not be here."""


class RegistryState:
    """Schemas by id, subjects by their full names with their versions, levels and modes."""

    def __init__(self, context: str = DEFAULT_CONTEXT) -> None:
        self.context = context
        self.schemas: dict[int, Schema] = {}
        self.ids: dict[bytes, set[int]] = {}
        """By a schema's fingerprint. More than one only where schemas were imported so."""
        self.guids: dict[UUID, int] = {}
        """The smallest id of each schema, by the one that it has in every registry."""
        self.subjects: dict[str, dict[int, Version]] = {}
        self.uses: dict[int, set[tuple[str, int]]] = {}
        """The versions that have a schema, by its id."""
        self.referrers: dict[tuple[str, int], set[int]] = {}
        """The schemas that refer to a version. Inverse of their references."""
        self.next_versions: dict[str, int] = {}
        """The number that a subject's next version gets; never goes back while the subject has
        any version."""
        self.levels: dict[str | None, Level] = {}
        """By subject; None is everyone's of this context."""
        self.modes: dict[str | None, Mode] = {}
        self.next_id = 1
        """Never goes back: an id means one schema for ever."""

    # --- Changes ---------------------------------------------------------------------------------

    def change(self, kind: str, names: list[Any], value: Any) -> None:
        """Take in one entry that was stored: its kind, the rest of its key, and its value."""
        getattr(self, f"_apply_{kind}")(*names, value)

    def _apply_schema(self, schema_id: int, value: dict[str, Any] | None) -> None:
        old = self.schemas.pop(schema_id, None)
        if old is not None:
            self._forget(schema_id, old)
        if value is None:
            return
        references = tuple(Reference(*each) for each in value.get("references", ()))
        schema = Schema(
            SchemaType(value["type"]),
            value["text"],
            references,
            value.get("metadata"),
            value.get("rules"),
        )
        self.schemas[schema_id] = schema
        known = self.ids.setdefault(schema.fingerprint, set())
        known.add(schema_id)
        self.guids[schema.guid] = min(known)
        for _, subject, version in references:
            self.referrers.setdefault((subject, version), set()).add(schema_id)

    def _forget(self, schema_id: int, schema: Schema) -> None:
        known = self.ids[schema.fingerprint]
        known.discard(schema_id)
        if known:
            self.guids[schema.guid] = min(known)
        else:
            del self.ids[schema.fingerprint]
            del self.guids[schema.guid]
        for _, subject, version in schema.references:
            referrers = self.referrers[subject, version]
            referrers.discard(schema_id)
            if not referrers:
                del self.referrers[subject, version]

    def _apply_version(self, subject: str, number: int, value: dict[str, Any] | None) -> None:
        versions = self.subjects.get(subject, {})
        old = versions.pop(number, None)
        if old is not None:
            uses = self.uses[old.schema_id]
            uses.discard((subject, number))
            if not uses:
                del self.uses[old.schema_id]
        if value is not None:
            version = Version(number, value["id"], value.get("deleted", False))
            versions[number] = version
            self.uses.setdefault(version.schema_id, set()).add((subject, number))
            self.subjects[subject] = dict(sorted(versions.items()))
        elif not versions:
            self.subjects.pop(subject, None)

    def _apply_subject(self, subject: str, value: dict[str, Any] | None) -> None:
        if value is None:
            self.next_versions.pop(subject, None)
        else:
            self.next_versions[subject] = value["next"]

    def _apply_level(self, subject: str | None, value: str | None) -> None:
        if value is None:
            self.levels.pop(subject, None)
        else:
            self.levels[subject] = Level(value)

    def _apply_mode(self, subject: str | None, value: str | None) -> None:
        if value is None:
            self.modes.pop(subject, None)
        else:
            self.modes[subject] = Mode(value)

    def _apply_ids(self, value: dict[str, Any] | None) -> None:
        if value is not None:
            self.next_id = value["next"]

    def after_loss(self, lost_count: int) -> list[str]:
        """Go on without so many entries that could not be read; says what is lost with them.

        A version whose schema is lost is gone. Each lost entry may have been a schema: its id is
        not given again, because messages name it.
        """
        lost: list[str] = []
        highest = max([*self.schemas, *self.uses], default=0)
        self.next_id = max(self.next_id, highest + 1) + lost_count
        for subject, versions in list(self.subjects.items()):
            following = max(versions) + 1
            self.next_versions[subject] = max(self.next_versions.get(subject, 1), following)
            for number, version in list(versions.items()):
                if version.schema_id not in self.schemas:
                    lost.append(f"version {number} of subject {subject!r}")
                    self._apply_version(subject, number, None)
        return lost

    def dump(self) -> Iterator[Entry]:
        """Everything, as entries that `apply` would make it of again."""
        yield ids_entry(self.next_id, self.context)
        for schema_id, schema in self.schemas.items():
            yield schema_entry(schema_id, schema, self.context)
        for subject, versions in self.subjects.items():
            yield subject_entry(subject, self.next_versions[subject])
            for version in versions.values():
                yield version_entry(subject, version)
        for owner, level in self.levels.items():
            yield level_entry(self.owner(owner), level)
        for owner, mode in self.modes.items():
            yield mode_entry(self.owner(owner), mode)

    def owner(self, subject: str | None) -> str | None:
        """How the owner of a setting is stored: the context itself is a subject without a name."""
        if subject is None and self.context != DEFAULT_CONTEXT:
            return f":{self.context}:"
        return subject

    def check_invariants(self, versions_of: Callable[[str], Mapping[str, Any]]) -> None:
        """Raise `InvariantError` when the parts contradict each other.

        `versions_of` are the subjects of the context that a subject is of, with their versions.
        """
        for subject, versions in self.subjects.items():
            if not versions or max(versions) >= self.next_versions.get(subject, 0):
                raise InvariantError(f"subject {subject!r} could assign a version number twice")
            for version in versions.values():
                if version.schema_id not in self.schemas:
                    raise InvariantError(f"version {version} of {subject!r} has no schema")
        used = {each.schema_id for all_ in self.subjects.values() for each in all_.values()}
        if used != self.schemas.keys() or used != self.uses.keys():
            raise InvariantError("schemas without a version")
        if max(self.schemas, default=0) >= self.next_id:
            raise InvariantError("an id could be assigned twice")
        for subject, number in self.referrers:
            if number not in versions_of(subject).get(subject, {}):
                raise InvariantError(
                    f"version {number} of {subject!r} is referenced and does not exist"
                )


# --- Entries -------------------------------------------------------------------------------------


def schema_entry(schema_id: int, schema: Schema, context: str = DEFAULT_CONTEXT) -> Entry:
    """A schema by its id in a context."""
    value: dict[str, Any] = {"type": schema.type, "text": schema.text}
    if schema.references:
        value["references"] = schema.references
    if schema.metadata is not None:
        value["metadata"] = schema.metadata
    if schema.rules is not None:
        value["rules"] = schema.rules
    return _key("schema", schema_id, *_unless_default(context)), _json(value)


def schema_tombstone(schema_id: int, context: str) -> Entry:
    """A schema that is there no more."""
    return tombstone("schema", schema_id, *_unless_default(context))


def version_entry(subject: str, version: Version) -> Entry:
    """A version of a subject."""
    value: dict[str, Any] = {"id": version.schema_id}
    if version.is_deleted:
        value["deleted"] = True
    return _key("version", subject, version.number), _json(value)


def subject_entry(subject: str, next_version: int) -> Entry:
    """The number that a subject's next version gets."""
    return _key("subject", subject), _json({"next": next_version})


def level_entry(subject: str | None, level: Level) -> Entry:
    """A compatibility level."""
    return _key("level", subject), _json(level)


def mode_entry(subject: str | None, mode: Mode) -> Entry:
    """A mode."""
    return _key("mode", subject), _json(mode)


def ids_entry(next_id: int, context: str = DEFAULT_CONTEXT) -> Entry:
    """The id that the next schema of a context gets."""
    return _key("ids", *_unless_default(context)), _json({"next": next_id})


def _unless_default(context: str) -> list[str]:
    return [] if context == DEFAULT_CONTEXT else [context]


def tombstone(kind: str, *names: object) -> Entry:
    """Something that is there no more."""
    return _key(kind, *names), None


def _key(*parts: object) -> bytes:
    return _json(parts)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
