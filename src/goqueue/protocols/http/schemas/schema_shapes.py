"""Schemas, versions and settings of the registry as JSON shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from goqueue.model.errors import (
    InvalidCompatibilityError,
    InvalidSchemaError,
    InvalidSchemaModeError,
    InvalidSchemaVersionError,
    SchemaNotFoundError,
)
from goqueue.protocols.http.api.shapes import doc
from goqueue.schemas.limits import MAX_SUBJECT_CHARS, MAX_VERSION
from goqueue.schemas.model import Level, Mode, Reference, Schema, SchemaType
from goqueue.schemas.registry import LATEST, RegisteredVersion

if TYPE_CHECKING:
    from collections.abc import Sequence

    _T = TypeVar("_T")

_AVRO_EXAMPLE: Final = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
SubjectName: TypeAlias = Annotated[
    str,
    doc(
        "The subject; for values of a topic, `{topic}-value`.",
        "orders-value",
        extra_json_schema={"minLength": 1, "maxLength": MAX_SUBJECT_CHARS},
    ),
]
VersionText: TypeAlias = Annotated[
    str,
    doc(
        "A number from 1 on, or `latest`.",
        "latest",
        extra_json_schema={"pattern": r"^(latest|-1|[1-9][0-9]{0,9})$"},
    ),
]
Deleted: TypeAlias = Annotated[bool, doc("Include soft-deleted ones.")]
Offset: TypeAlias = Annotated[int, doc("Number to skip.", 0, ge=0, le=2**31 - 1)]
Limit: TypeAlias = Annotated[int, doc("Page size; -1 for all.", -1, ge=-1, le=2**31 - 1)]
Form: TypeAlias = Annotated[
    str, doc("`serialized` for a Protobuf descriptor in base64, `resolved` for Avro.", "")
]


class ReferenceShape(msgspec.Struct):
    """A part of a schema that is registered by itself."""

    name: Annotated[str, doc("The name used in the schema.", "customer.proto")]
    subject: SubjectName
    version: Annotated[int, doc("Its version; -1 is the latest.", 1, ge=-1, le=MAX_VERSION)]


class SchemaIn(msgspec.Struct, rename="camel"):
    """A schema to be registered, looked up or checked."""

    schema: Annotated[str, doc("The schema's text.", _AVRO_EXAMPLE)]
    schema_type: Annotated[
        str | None, doc("AVRO, JSON or PROTOBUF. Left out: AVRO, under `/schemas/` JSON.", "AVRO")
    ] = None
    references: list[ReferenceShape] | None = None
    metadata: Annotated[dict[str, Any] | None, doc("Metadata; part of the schema's identity.")] = (
        None
    )
    rule_set: Annotated[dict[str, Any] | None, doc("Rules for clients; stored, not executed.")] = (
        None
    )
    id: Annotated[int, doc("Import mode only.", ge=-1, le=MAX_VERSION)] | None = None
    version: Annotated[int, doc("Import mode only.", ge=-1, le=MAX_VERSION)] | None = None


class SchemaOut(msgspec.Struct, rename="camel", omit_defaults=True):
    """A schema by its id."""

    schema: Annotated[str, doc("Its text in canonical form.", _AVRO_EXAMPLE)]
    schema_type: Annotated[str, doc("Left out for AVRO.", "JSON")] = "AVRO"
    references: list[ReferenceShape] = []
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    guid: Annotated[str | None, doc("The same in every registry.")] = None
    max_id: Annotated[int | None, doc("The largest id, if requested.")] = None


class VersionOut(msgspec.Struct, rename="camel", omit_defaults=True):
    """A version of a subject with its schema."""

    subject: SubjectName
    id: Annotated[int, doc("The schema's id, the same in all subjects.", 1)]
    version: Annotated[int, doc("Counts within the subject.", 1)]
    schema: Annotated[str, doc("Its text in canonical form.", _AVRO_EXAMPLE)]
    schema_type: Annotated[str, doc("Left out for AVRO.", "JSON")] = "AVRO"
    references: list[ReferenceShape] = []
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    guid: Annotated[str | None, doc("The same in every registry.")] = None
    deleted: bool = False


class Registered(msgspec.Struct):
    """The ids of a registered schema."""

    id: Annotated[int, doc("The same in all subjects.", 1)]
    version: Annotated[int, doc("Counts within the subject.", 1)]
    guid: Annotated[str, doc("The same in every registry.")]


class SubjectVersion(msgspec.Struct):
    """Where a schema is used."""

    subject: SubjectName
    version: int


class Verdict(msgspec.Struct, omit_defaults=True):
    """The result of a compatibility check."""

    is_compatible: bool
    messages: Annotated[list[str], doc("The incompatibilities, with `verbose`.")] = []


class LevelIn(msgspec.Struct):
    """A compatibility level to be set."""

    compatibility: Annotated[str, doc(f"One of {', '.join(Level)}.", "FULL")]


class LevelSet(msgspec.Struct):
    """A compatibility level that was set."""

    compatibility: Level


class LevelOut(msgspec.Struct, rename="camel"):
    """A compatibility level."""

    compatibility_level: Level


class ModeIn(msgspec.Struct):
    """A mode to be set."""

    mode: Annotated[str, doc(f"One of {', '.join(Mode)}.", "READONLY")]


class ModeOut(msgspec.Struct):
    """A mode."""

    mode: Mode


class RegistryStats(msgspec.Struct):
    """Counts of the registry."""

    subjects: int
    versions: int
    schemas: int
    deleted_versions: Annotated[int, doc("Soft-deleted.")]
    by_type: Annotated[dict[str, int], doc("Schemas by their type.", {"AVRO": 3})]
    next_id: int


# --- From requests -------------------------------------------------------------------------------


def schema_of(given: SchemaIn, default: SchemaType) -> Schema:
    """The schema that a client means.

    Raises:
        InvalidSchemaError: there is no such type.
    """
    try:
        kind = SchemaType(given.schema_type.upper()) if given.schema_type else default
    except ValueError:
        raise InvalidSchemaError(
            f"Invalid schema type {given.schema_type[:60] if given.schema_type else ''}: "
            f"{', '.join(SchemaType)} are supported"
        ) from None
    return Schema(
        kind,
        given.schema,
        tuple(Reference(each.name, each.subject, each.version) for each in given.references or ()),
        _as_json(given.metadata),
        _as_json(given.rule_set),
    )


def version_of(text: str) -> int:
    """The number of a version, or `LATEST`.

    Raises:
        InvalidSchemaVersionError: it is none.
    """
    if text in {"latest", "-1"}:
        return LATEST
    if text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= MAX_VERSION:
        return int(text)
    raise InvalidSchemaVersionError(
        f"The specified version '{text[:40]}' is not a valid version id. Allowed values are "
        'between [1, 2^31-1] and the string "latest"'
    )


def id_of(text: str) -> int:
    """A schema's id.

    Raises:
        SchemaNotFoundError: no schema can have it.
    """
    if text.isascii() and text.isdigit() and len(text) <= 10:
        return int(text)
    raise SchemaNotFoundError(f"Schema {text[:40]} not found")


def level_of(text: str) -> Level:
    """A compatibility level.

    Raises:
        InvalidCompatibilityError: there is none of that name.
    """
    try:
        return Level(text.upper())
    except ValueError:
        raise InvalidCompatibilityError(
            f"Invalid compatibility level. Valid values are {', '.join(Level)}"
        ) from None


def mode_of(text: str) -> Mode:
    """A mode.

    Raises:
        InvalidSchemaModeError: there is none of that name.
    """
    try:
        return Mode(text.upper())
    except ValueError:
        raise InvalidSchemaModeError(f"Invalid mode. Valid values are {', '.join(Mode)}") from None


# --- To answers ----------------------------------------------------------------------------------


def schema_out(schema: Schema, text: str | None = None, max_id: int | None = None) -> SchemaOut:
    """A schema; `text` is its text in the form that was asked for."""
    return SchemaOut(
        schema.text if text is None else text,
        schema.type.value,
        [ReferenceShape(*each) for each in schema.references],
        _given(schema.metadata),
        _given(schema.rules),
        str(schema.guid),
        max_id,
    )


def version_out(found: RegisteredVersion, text: str | None = None) -> VersionOut:
    """A version; `text` is its schema's text in the form that was asked for."""
    schema = found.schema
    return VersionOut(
        found.subject,
        found.id,
        found.version.number,
        schema.text if text is None else text,
        schema.type.value,
        [ReferenceShape(*each) for each in schema.references],
        _given(schema.metadata),
        _given(schema.rules),
        str(schema.guid),
        found.version.is_deleted,
    )


def page(items: Sequence[_T], offset: int, limit: int) -> list[_T]:
    """Some of a list."""
    return list(items[offset : None if limit < 0 else offset + limit])


def _as_json(value: dict[str, Any] | None) -> str | None:
    return None if value is None else msgspec.json.encode(value, order="sorted").decode()


def _given(text: str | None) -> dict[str, Any] | None:
    return None if text is None else msgspec.json.decode(text)
