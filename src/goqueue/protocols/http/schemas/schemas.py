"""The schema registry, as Confluent's clients use it: schemas by id, levels, modes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import msgspec

from goqueue.model.errors import SchemaNotFoundError
from goqueue.protocols.http.api.responses import Response
from goqueue.protocols.http.api.rights import (
    ALTER_CONFIGS,
    ANYONE,
    DESCRIBE,
    TOPIC_DESCRIBE,
    on_cluster,
)
from goqueue.protocols.http.api.shapes import doc
from goqueue.protocols.http.schemas.dialect import REGISTRY_JSON
from goqueue.protocols.http.schemas.rights import (
    BY_ID,
    LISTED,
    on_subject,
    visible_subjects,
)
from goqueue.protocols.http.schemas.schema_shapes import (
    Deleted,
    Form,
    LevelIn,
    LevelOut,
    LevelSet,
    Limit,
    ModeIn,
    ModeOut,
    Offset,
    RegistryStats,
    SchemaOut,
    SubjectVersion,
    VersionOut,
    id_of,
    level_of,
    mode_of,
    page,
    schema_out,
    version_out,
)
from goqueue.protocols.http.schemas.subjects import SubjectPath, registry
from goqueue.protocols.permissions import Permissions
from goqueue.schemas import removing
from goqueue.schemas.contexts import Qualified, subject_of, topic_of
from goqueue.schemas.model import Level, Mode, Schema, SchemaType

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.schemas.registry import Registry
    from goqueue.schemas.state import RegistryState


class IdPath(msgspec.Struct, frozen=True):
    """A schema's id in the path."""

    id: Annotated[str, doc("The schema's id.", "1", extra_json_schema={"pattern": "^[0-9]{1,10}$"})]


class GuidPath(msgspec.Struct, frozen=True):
    """A schema's global id in the path."""

    guid: Annotated[
        str,
        doc(
            "From the response to the registration.",
            "89791762-2336-4186-9674-299b90a802e2",
            extra_json_schema={"format": "uuid"},
        ),
    ]


class ReadSchema(msgspec.Struct, rename="camel"):
    """How to read a schema."""

    format: Form = ""
    subject: Annotated[
        str, doc("Only if this subject has it; `:.context:` for an id of a context.", "")
    ] = ""
    fetch_max_id: Annotated[bool, doc("Include the largest id.")] = False


class UsesQuery(msgspec.Struct):
    """Which uses of a schema to list."""

    subject: Annotated[
        str, doc("Only this subject's; `:.context:` for an id of a context.", "")
    ] = ""
    deleted: Deleted = False
    offset: Offset = 0
    limit: Limit = -1


class ListSchemas(msgspec.Struct, rename="camel"):
    """Which schemas to list."""

    subject_prefix: Annotated[str, doc("Prefix of the subjects.", "orders")] = ""
    deleted: Deleted = False
    latest_only: Annotated[bool, doc("Only the latest of each subject.")] = False
    offset: Offset = 0
    limit: Limit = 1000


class ScopeQuery(msgspec.Struct, rename="camel"):
    """Fallback for subjects without a setting of their own."""

    default_to_global: Annotated[bool, doc("Return the global setting instead.")] = False


class ModeQuery(msgspec.Struct):
    """How to set a mode."""

    force: Annotated[bool, doc("Allow import mode while schemas exist.")] = False


class SchemaRoutes:
    """Schemas by their ids, levels and modes."""

    def __init__(self, broker: Broker) -> None:
        self.schemas = broker.schemas

    @property
    def _registry(self) -> Registry:
        return self.schemas.registry

    # --- Schemas ---------------------------------------------------------------------------------

    @registry("GET", "/schemas", right=LISTED)
    async def list_all(self, query: ListSchemas, may: Permissions) -> list[VersionOut]:
        """Versions of all subjects, with their schemas."""
        found: list[VersionOut] = []
        subjects = dict(self._registry.contexts.subjects(query.subject_prefix))
        for name in sorted(visible_subjects(may, subjects)):
            versions = subjects[name]
            if query.deleted or any(not each.is_deleted for each in versions.values()):
                seen = self._registry.versions(name, deleted=query.deleted)
                found += [version_out(each) for each in (seen[-1:] if query.latest_only else seen)]
        return page(found, query.offset, query.limit)

    @registry("GET", "/schemas/types", right=ANYONE)
    async def types(self) -> list[str]:
        """The types that schemas may have."""
        return [SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.AVRO]

    @registry("GET", "/schemas/stats", right=on_cluster(DESCRIBE))
    async def stats(self) -> RegistryStats:
        """Counts of the registry."""
        states = self._registry.contexts.by_context.values()
        subjects = [known for state in states for known in state.subjects.values()]
        versions = [each for known in subjects for each in known.values()]
        schemas = [schema for state in states for schema in state.schemas.values()]
        return RegistryStats(
            len(subjects),
            len(versions),
            len(schemas),
            sum(each.is_deleted for each in versions),
            dict(Counter(schema.type.value for schema in schemas)),
            self._registry.state.next_id,
        )

    @registry("GET", "/schemas/ids/{id}", right=BY_ID)
    async def schema(self, path: IdPath, query: ReadSchema, may: Permissions) -> SchemaOut:
        """A schema by its id."""
        schema_id = id_of(path.id)
        context, name = Qualified.of(query.subject)
        schema = self._registry.schema(schema_id, context)
        state = self._registry.contexts.of_context(context)
        if not self._is_visible(may, state, schema_id):
            raise SchemaNotFoundError(f"Schema {schema_id} not found")
        if name and all(subject_of(query.subject) != each for each, _ in state.uses[schema_id]):
            raise SchemaNotFoundError(f"Schema {schema_id} not found in '{query.subject}'")
        max_id = state.next_id - 1 if query.fetch_max_id else None
        text = await self._formatted(schema, query.format)
        return schema_out(schema, text, max_id)

    @staticmethod
    def _is_visible(may: Permissions, state: RegistryState, schema_id: int) -> bool:
        """A schema of nothing that the client may see is as if it did not exist."""
        uses = state.uses[schema_id]
        return may.is_open or bool(visible_subjects(may, {subject for subject, _ in uses}))

    async def _formatted(self, schema: Schema, form: str) -> str | None:
        """The text in the form that was asked for; None where none was."""
        if not form:
            return None
        return await self.schemas.ask(
            lambda known: known.engine.formatted(known.with_dependencies(schema), form)
        )

    @registry("GET", "/schemas/ids/{id}/schema", right=BY_ID, answers={200: REGISTRY_JSON})
    async def text(self, path: IdPath, query: ReadSchema, may: Permissions) -> Response:
        """The text of a schema, by its id."""
        found = await self.schema(path, query, may)
        return Response(200, found.schema.encode(), REGISTRY_JSON)

    @registry("GET", "/schemas/ids/{id}/subjects", right=BY_ID)
    async def subjects(self, path: IdPath, query: UsesQuery, may: Permissions) -> list[str]:
        """The subjects that have a schema."""
        names = sorted({each.subject for each in self._uses(may, path, query)})
        return page(names, query.offset, query.limit)

    @registry("GET", "/schemas/ids/{id}/versions", right=BY_ID)
    async def versions(
        self, path: IdPath, query: UsesQuery, may: Permissions
    ) -> list[SubjectVersion]:
        """The versions that have a schema."""
        return page(self._uses(may, path, query), query.offset, query.limit)

    def _uses(self, may: Permissions, path: IdPath, query: UsesQuery) -> list[SubjectVersion]:
        schema_id = id_of(path.id)
        context, name = Qualified.of(query.subject)
        self._registry.schema(schema_id, context)
        state = self._registry.contexts.of_context(context)
        if not self._is_visible(may, state, schema_id):
            raise SchemaNotFoundError(f"Schema {schema_id} not found")
        return [
            SubjectVersion(subject, number)
            for subject, number in sorted(state.uses[schema_id])
            if (query.deleted or not state.subjects[subject][number].is_deleted)
            and (not name or subject == subject_of(query.subject))
            and may.allows(TOPIC_DESCRIBE, topic_of(subject))
        ]

    @registry("GET", "/schemas/guids/{guid}", right=BY_ID)
    async def schema_by_guid(
        self, path: GuidPath, query: ReadSchema, may: Permissions
    ) -> SchemaOut:
        """A schema by the id that it has in every registry."""
        try:
            guid = UUID(path.guid)
        except ValueError:
            raise SchemaNotFoundError(f"Schema {path.guid[:60]} not found") from None
        for state in self._registry.contexts.by_context.values():
            schema_id = state.guids.get(guid)
            if schema_id is not None and self._is_visible(may, state, schema_id):
                schema = state.schemas[schema_id]
                return schema_out(schema, await self._formatted(schema, query.format))
        raise SchemaNotFoundError(f"Schema {guid} not found")

    @registry("GET", "/contexts", right=ANYONE)
    async def contexts(self) -> list[str]:
        """The contexts that have subjects, and the default one, `.`.

        Every path of the registry also exists for each context, below `/contexts/{context}`.
        """
        return self._registry.contexts.used

    # --- Levels ----------------------------------------------------------------------------------

    @registry("GET", "/config", right=ANYONE)
    async def level(self) -> LevelOut:
        """The compatibility level of subjects that have none of their own."""
        return LevelOut(self._registry.state.levels.get(None, Level.BACKWARD))

    @registry("PUT", "/config", right=on_cluster(ALTER_CONFIGS))
    async def set_level(self, body: LevelIn) -> LevelSet:
        """Set the compatibility level of subjects that have none of their own."""
        return await self._set_level(None, body)

    @registry("DELETE", "/config", right=on_cluster(ALTER_CONFIGS))
    async def clear_level(self) -> LevelOut:
        """Reset to BACKWARD; returns the old level."""
        found = await self.schemas.change(lambda known: removing.clear_level(known, None))
        return LevelOut(found)

    @registry("GET", "/config/{subject}", right=on_subject(DESCRIBE))
    async def subject_level(self, path: SubjectPath, query: ScopeQuery) -> LevelOut:
        """The compatibility level of a subject."""
        if query.default_to_global:
            return LevelOut(self._registry.level(path.name))
        return LevelOut(removing.own_level(self._registry, path.name))

    @registry("PUT", "/config/{subject}", right=on_subject(ALTER_CONFIGS))
    async def set_subject_level(self, path: SubjectPath, body: LevelIn) -> LevelSet:
        """Set the compatibility level of a subject, whether it has versions yet or not."""
        return await self._set_level(path.name, body)

    @registry("DELETE", "/config/{subject}", right=on_subject(ALTER_CONFIGS))
    async def clear_subject_level(self, path: SubjectPath) -> LevelOut:
        """Remove the level of a subject; returns the old level."""
        found = await self.schemas.change(lambda known: removing.clear_level(known, path.name))
        return LevelOut(found)

    async def _set_level(self, subject: str | None, body: LevelIn) -> LevelSet:
        level = level_of(body.compatibility)
        await self.schemas.change(lambda known: removing.set_level(known, subject, level))
        return LevelSet(level)

    # --- Modes -----------------------------------------------------------------------------------

    @registry("GET", "/mode", right=ANYONE)
    async def mode(self) -> ModeOut:
        """The mode of subjects that have none of their own."""
        return ModeOut(self._registry.state.modes.get(None, Mode.READWRITE))

    @registry("PUT", "/mode", right=on_cluster(ALTER_CONFIGS))
    async def set_mode(self, query: ModeQuery, body: ModeIn) -> ModeOut:
        """Set the mode of subjects that have none of their own."""
        return await self._set_mode(None, query, body)

    @registry("DELETE", "/mode", right=on_cluster(ALTER_CONFIGS))
    async def clear_mode(self) -> ModeOut:
        """Reset to READWRITE; returns the old mode."""
        return ModeOut(await self.schemas.change(lambda known: removing.clear_mode(known, None)))

    @registry("GET", "/mode/{subject}", right=on_subject(DESCRIBE))
    async def subject_mode(self, path: SubjectPath, query: ScopeQuery) -> ModeOut:
        """The mode of a subject."""
        if query.default_to_global:
            return ModeOut(self._registry.mode(path.name))
        return ModeOut(removing.own_mode(self._registry, path.name))

    @registry("PUT", "/mode/{subject}", right=on_subject(ALTER_CONFIGS))
    async def set_subject_mode(self, path: SubjectPath, query: ModeQuery, body: ModeIn) -> ModeOut:
        """Set the mode of a subject."""
        return await self._set_mode(path.name, query, body)

    @registry("DELETE", "/mode/{subject}", right=on_subject(ALTER_CONFIGS))
    async def clear_subject_mode(self, path: SubjectPath) -> ModeOut:
        """Remove the mode of a subject; returns the old mode."""
        return ModeOut(
            await self.schemas.change(lambda known: removing.clear_mode(known, path.name))
        )

    async def _set_mode(self, subject: str | None, query: ModeQuery, body: ModeIn) -> ModeOut:
        mode = mode_of(body.mode)
        await self.schemas.change(
            lambda known: removing.set_mode(known, subject, mode, force=query.force)
        )
        return ModeOut(mode)
