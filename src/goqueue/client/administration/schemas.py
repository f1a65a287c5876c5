"""`client.schemas`: the schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from goqueue.client.administration.calls import Calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.client.link.link import Link

SchemaType: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]
Level: TypeAlias = Literal[
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
]
Mode: TypeAlias = Literal["READWRITE", "READONLY", "IMPORT"]


class Reference(msgspec.Struct, frozen=True):
    """A part of a schema that is registered by itself."""

    name: str
    """As the schema calls it."""
    subject: str
    version: int


class Schema(msgspec.Struct, frozen=True, rename="camel"):
    """A schema by its id."""

    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    guid: str | None = None


class SchemaVersion(msgspec.Struct, frozen=True, rename="camel"):
    """A version of a subject with its schema."""

    subject: str
    id: int
    """Of the schema; the same in all subjects."""
    version: int
    """Counts within the subject."""
    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    guid: str | None = None
    is_deleted: bool = msgspec.field(default=False, name="deleted")


class RegisteredSchema(msgspec.Struct, frozen=True):
    """What a schema was registered as."""

    id: int
    version: int
    guid: str


class Compatibility(msgspec.Struct, frozen=True):
    """Whether a schema may follow others, and why not."""

    is_compatible: bool
    messages: tuple[str, ...] = ()


class RegistryStats(msgspec.Struct, frozen=True):
    """What the registry has."""

    subjects: int
    versions: int
    schemas: int
    deleted_versions: int
    by_type: dict[str, int]
    next_id: int


class _LevelSet(msgspec.Struct):
    compatibility: Level


class _Level(msgspec.Struct, rename="camel"):
    compatibility_level: Level


class _Mode(msgspec.Struct):
    mode: Mode


class AsyncSchemas:
    """`client.schemas`."""

    def __init__(self, link: Link) -> None:
        self._calls = Calls(link)

    # --- Subjects and their versions -------------------------------------------------------------

    async def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """The names of all subjects; `deleted` ones too if told."""
        path = "/subjects"
        return await self._calls.get(list[str], path, subjectPrefix=prefix, deleted=deleted)

    async def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The versions that a subject has."""
        return await self._calls.get(list[int], "/subjects/{}/versions", subject, deleted=deleted)

    async def get(
        self, subject: str, version: int | Literal["latest"] = "latest", *, deleted: bool = False
    ) -> SchemaVersion:
        """One version of a subject."""
        path = "/subjects/{}/versions/{}"
        return await self._calls.get(SchemaVersion, path, subject, version, deleted=deleted)

    async def by_id(self, schema_id: int) -> Schema:
        """A schema by its id."""
        return await self._calls.get(Schema, "/schemas/ids/{}", schema_id)

    async def register(
        self,
        subject: str,
        schema: str,
        *,
        schema_type: SchemaType = "AVRO",
        references: Sequence[Reference] = (),
        normalize: bool = False,
    ) -> RegisteredSchema:
        """Register a schema as the next version of a subject, unless it has it already.

        Args:
            subject: The subject; for values of a topic, `{topic}-value`.
            schema: The schema's text.
            schema_type: What it is written in.
            references: Parts of it that are registered by themselves.
            normalize: Compare it in its normal form.

        Raises:
            InvalidSchemaError: the text is not a schema.
            IncompatibleSchemaError: the subject's level does not allow it.
        """
        return await self._calls.post(
            RegisteredSchema,
            "/subjects/{}/versions",
            subject,
            body=_body(schema, schema_type, references),
            again=True,
            normalize=normalize,
        )

    async def look_up(
        self,
        subject: str,
        schema: str,
        *,
        schema_type: SchemaType = "AVRO",
        references: Sequence[Reference] = (),
        normalize: bool = False,
    ) -> SchemaVersion:
        """The version of a subject that has this schema.

        Raises:
            SubjectNotFoundError, SchemaNotFoundError: there is none.
        """
        return await self._calls.post(
            SchemaVersion,
            "/subjects/{}",
            subject,
            body=_body(schema, schema_type, references),
            again=True,
            normalize=normalize,
        )

    async def check(
        self,
        subject: str,
        schema: str,
        *,
        version: int | Literal["latest"] | None = None,
        schema_type: SchemaType = "AVRO",
        references: Sequence[Reference] = (),
        normalize: bool = False,
    ) -> Compatibility:
        """Whether a schema could be the next version of a subject, by the subject's level.

        Args:
            subject: The subject.
            schema: The schema's text.
            version: Compare it with this version alone.
            schema_type: What it is written in.
            references: Parts of it that are registered by themselves.
            normalize: Compare it in its normal form.
        """
        names: tuple[object, ...] = (subject,)
        path = "/compatibility/subjects/{}/versions"
        if version is not None:
            path, names = path + "/{}", (subject, version)
        return await self._calls.post(
            Compatibility,
            path,
            *names,
            body=_body(schema, schema_type, references),
            again=True,
            verbose=True,
            normalize=normalize,
        )

    async def delete(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject; for good only after they were deleted before."""
        return await self._calls.delete(list[int], "/subjects/{}", subject, permanent=permanent)

    async def delete_version(
        self, subject: str, version: int | Literal["latest"], *, permanent: bool = False
    ) -> int:
        """Delete a version of a subject; for good only after it was deleted before."""
        path = "/subjects/{}/versions/{}"
        return await self._calls.delete(int, path, subject, version, permanent=permanent)

    # --- Levels and modes ------------------------------------------------------------------------

    async def level(self, subject: str | None = None) -> Level:
        """The compatibility level that counts for a subject, or for those without their own."""
        if subject is None:
            return (await self._calls.get(_Level, "/config")).compatibility_level
        found = await self._calls.get(_Level, "/config/{}", subject, defaultToGlobal=True)
        return found.compatibility_level

    async def set_level(self, level: Level, subject: str | None = None) -> None:
        """Set the compatibility level of a subject, or of those without their own."""
        path, names = _scope("/config", subject)
        await self._calls.put(_LevelSet, path, *names, body={"compatibility": level})

    async def clear_level(self, subject: str | None = None) -> None:
        """Take the level of a subject back, or that of all."""
        path, names = _scope("/config", subject)
        await self._calls.delete(_Level, path, *names)

    async def mode(self, subject: str | None = None) -> Mode:
        """The mode that counts for a subject, or for those without their own."""
        if subject is None:
            return (await self._calls.get(_Mode, "/mode")).mode
        return (await self._calls.get(_Mode, "/mode/{}", subject, defaultToGlobal=True)).mode

    async def set_mode(
        self, mode: Mode, subject: str | None = None, *, force: bool = False
    ) -> None:
        """Set the mode of a subject, or of those without their own.

        IMPORT is refused while there are schemas, unless told to `force` it.
        """
        path, names = _scope("/mode", subject)
        await self._calls.put(_Mode, path, *names, body={"mode": mode}, force=force)

    async def clear_mode(self, subject: str | None = None) -> None:
        """Take the mode of a subject back, or that of all."""
        path, names = _scope("/mode", subject)
        await self._calls.delete(_Mode, path, *names)

    async def stats(self) -> RegistryStats:
        """What the registry has."""
        return await self._calls.get(RegistryStats, "/schemas/stats")


def _body(schema: str, schema_type: str, references: Sequence[Reference]) -> dict[str, Any]:
    return {"schema": schema, "schemaType": schema_type, "references": [*references]}


def _scope(path: str, subject: str | None) -> tuple[str, tuple[str, ...]]:
    return (path, ()) if subject is None else (path + "/{}", (subject,))
