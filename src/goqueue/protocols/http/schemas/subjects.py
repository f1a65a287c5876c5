"""The schema registry, as Confluent's clients use it: subjects and their versions.

Every path is there twice: as Confluent has it, and under `/schemas`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast

import msgspec

from goqueue.model.errors import (
    SchemaNotFoundError,
    SchemaVersionNotFoundError,
    SubjectNotFoundError,
)
from goqueue.model.internal_topics import SCHEMAS
from goqueue.protocols.http.api.places import writer
from goqueue.protocols.http.api.requests import Request
from goqueue.protocols.http.api.responses import Response
from goqueue.protocols.http.api.rights import DELETE, DESCRIBE, WRITE
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import doc
from goqueue.protocols.http.schemas.dialect import REGISTRY, REGISTRY_JSON
from goqueue.protocols.http.schemas.rights import LISTED, on_subject, visible_subjects, with_schema
from goqueue.protocols.http.schemas.schema_shapes import (
    Deleted,
    Form,
    Limit,
    Offset,
    Registered,
    SchemaIn,
    SubjectName,
    Verdict,
    VersionOut,
    VersionText,
    page,
    schema_of,
    version_of,
    version_out,
)
from goqueue.protocols.permissions import Permissions
from goqueue.schemas import removing
from goqueue.schemas.contexts import subject_of
from goqueue.schemas.model import SchemaType

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.schemas.registry import RegisteredVersion, Registry

TAG: Final = "schemas"
BODY_BYTES: Final = 4 << 20
_MISSING: Final = (SchemaNotFoundError, SchemaVersionNotFoundError, SubjectNotFoundError)
_F = TypeVar("_F", bound=Callable[..., Any])


def registry(method: str, path: str, **options: Any) -> Callable[[_F], _F]:
    """Declare a route of the registry, where Confluent's clients and where ours look for it."""
    options = {
        "tag": TAG,
        "dialect": REGISTRY,
        "max_body_bytes": BODY_BYTES,
        "place": writer(SCHEMAS),
        **options,
    }

    def declare(function: _F) -> _F:
        if method == "GET":
            function = _surely(function)
        if not path.startswith("/schemas"):
            function = route(method, f"/schemas{path}", **options)(function)
        return route(method, path, **options)(function)

    return declare


def _surely(function: _F) -> _F:
    """A question whose answer is that something is not there only if that is certain."""

    @wraps(function)
    async def ask(routes: Any, *asked: Any, **more: Any) -> Any:
        generation = routes.schemas.registry.generation
        try:
            return await function(routes, *asked, **more)
        except _MISSING:
            if not await routes.schemas.may_be_stale(generation):
                raise
        return await function(routes, *asked, **more)

    return cast("_F", ask)


def default_type(request: Request) -> SchemaType:
    """The type of a schema that does not say it: Confluent's is AVRO, ours JSON."""
    path = request.raw_path.removeprefix(b"/v1")
    return SchemaType.JSON if path.startswith(b"/schemas/") else SchemaType.AVRO


class SubjectPath(msgspec.Struct, frozen=True):
    """A subject in the path."""

    subject: SubjectName

    @property
    def name(self) -> str:
        """The subject, written in the one way."""
        return subject_of(self.subject)


class VersionPath(SubjectPath, frozen=True):
    """A version of a subject in the path."""

    version: VersionText


class ListSubjects(msgspec.Struct, rename="camel"):
    """Which subjects to list."""

    subject_prefix: Annotated[
        str, doc("Prefix of the names; `:.context:` for a context.", "orders")
    ] = ""
    deleted: Deleted = False
    deleted_only: Annotated[bool, doc("Soft-deleted ones only.")] = False
    offset: Offset = 0
    limit: Limit = -1


class ListVersions(msgspec.Struct, rename="camel"):
    """Which versions to list."""

    deleted: Deleted = False
    deleted_only: Annotated[bool, doc("Soft-deleted ones only.")] = False
    offset: Offset = 0
    limit: Limit = -1


class ReadVersion(msgspec.Struct):
    """How to read a version."""

    deleted: Deleted = False
    format: Form = ""


class RegisterQuery(msgspec.Struct):
    """How to register a schema."""

    normalize: Annotated[bool, doc("Normalise the schema before comparing it.")] = False


class LookupQuery(RegisterQuery):
    """How to look a schema up."""

    deleted: Deleted = False
    format: Form = ""


class DeleteQuery(msgspec.Struct):
    """How to delete."""

    permanent: Annotated[bool, doc("Hard delete; only after a soft delete.")] = False


class CheckQuery(RegisterQuery):
    """How to check a schema."""

    verbose: Annotated[bool, doc("Include the incompatibilities.")] = False


class ReferrersQuery(msgspec.Struct):
    """Which referrers to list."""

    deleted: Deleted = False
    offset: Offset = 0
    limit: Limit = -1


class SubjectRoutes:
    """Subjects and their versions."""

    def __init__(self, broker: Broker) -> None:
        self.schemas = broker.schemas
        self._limits = broker.tenant_limits

    @property
    def _registry(self) -> Registry:
        return self.schemas.registry

    @registry("GET", "/subjects", right=LISTED)
    async def list_all(self, query: ListSubjects, may: Permissions) -> list[str]:
        """The names of all subjects."""
        found = []
        for name, versions in self._registry.contexts.subjects(query.subject_prefix):
            living = any(not each.is_deleted for each in versions.values())
            if not living if query.deleted_only else living or query.deleted:
                found.append(name)
        return page(sorted(visible_subjects(may, found)), query.offset, query.limit)

    @registry("POST", "/subjects/{subject}", right=with_schema(DESCRIBE))
    async def look_up(
        self, path: SubjectPath, query: LookupQuery, body: SchemaIn, request: Request
    ) -> VersionOut:
        """The version of a subject that has this schema, if there is one."""
        schema = schema_of(body, default_type(request))

        def find(known: Registry) -> VersionOut:
            found = known.lookup(
                path.name, schema, deleted=query.deleted, normalise=query.normalize
            )
            return _formatted(found, query.format, known)

        return await self.schemas.ask(find)

    @registry("DELETE", "/subjects/{subject}", right=on_subject(DELETE))
    async def delete(self, path: SubjectPath, query: DeleteQuery) -> list[int]:
        """Delete all versions of a subject; returns their numbers."""
        return await self.schemas.change(
            partial(removing.delete_subject, subject=path.name, permanent=query.permanent)
        )

    @registry("GET", "/subjects/{subject}/versions", right=on_subject(DESCRIBE))
    async def versions(self, path: SubjectPath, query: ListVersions) -> list[int]:
        """The numbers of a subject's versions."""
        found = self._registry.versions(path.name, deleted=query.deleted or query.deleted_only)
        numbers = [
            each.version.number
            for each in found
            if each.version.is_deleted or not query.deleted_only
        ]
        return page(numbers, query.offset, query.limit)

    @registry("POST", "/subjects/{subject}/versions", right=with_schema(WRITE))
    async def register(
        self, path: SubjectPath, query: RegisterQuery, body: SchemaIn, request: Request
    ) -> Registered:
        """Register a schema as the next version of a subject, unless it is registered already.

        It must be compatible with earlier versions, by the level of the subject.
        """
        schema = schema_of(body, default_type(request))
        self._limits.admit_subject(path.name)
        found = await self.schemas.change(
            lambda known: known.register(
                path.name,
                schema,
                schema_id=_positive(body.id),
                number=_positive(body.version),
                normalise=query.normalize,
            )
        )
        return Registered(found.id, found.version.number, str(found.schema.guid))

    @registry("GET", "/subjects/{subject}/versions/{version}", right=on_subject(DESCRIBE))
    async def version(self, path: VersionPath, query: ReadVersion) -> VersionOut:
        """One version of a subject, with its schema."""
        number = version_of(path.version)
        if not query.format:
            return version_out(self._registry.version(path.name, number, deleted=query.deleted))
        return await self.schemas.ask(
            lambda known: _formatted(
                known.version(path.name, number, deleted=query.deleted), query.format, known
            )
        )

    @registry(
        "GET",
        "/subjects/{subject}/versions/{version}/schema",
        right=on_subject(DESCRIBE),
        answers={200: REGISTRY_JSON},
    )
    async def text(self, path: VersionPath, query: ReadVersion) -> Response:
        """The text of the schema of a version."""
        found = await self.version(path, query)
        return Response(200, found.schema.encode(), REGISTRY_JSON)

    @registry(
        "GET",
        "/subjects/{subject}/versions/{version}/referencedby",
        right=on_subject(DESCRIBE),
    )
    async def referenced_by(self, path: VersionPath, query: ReferrersQuery) -> list[int]:
        """The ids of schemas that refer to a version."""
        found = self._registry.version(path.name, version_of(path.version), deleted=True)
        ids = removing.referenced_by(
            self._registry, path.name, found.version.number, deleted=query.deleted
        )
        return page(ids, query.offset, query.limit)

    @registry("DELETE", "/subjects/{subject}/versions/{version}", right=on_subject(DELETE))
    async def delete_version(self, path: VersionPath, query: DeleteQuery) -> int:
        """Delete a version; returns its number."""
        number = version_of(path.version)
        return await self.schemas.change(
            lambda known: removing.delete_version(
                known, path.name, number, permanent=query.permanent
            )
        )

    # --- Compatibility ---------------------------------------------------------------------------

    @registry(
        "POST",
        "/compatibility/subjects/{subject}/versions/{version}",
        right=with_schema(DESCRIBE),
    )
    async def check(
        self, path: VersionPath, query: CheckQuery, body: SchemaIn, request: Request
    ) -> Verdict:
        """Whether a schema is compatible with one version, by the subject's level."""
        return await self._check(path.name, version_of(path.version), query, body, request)

    @registry("POST", "/compatibility/subjects/{subject}/versions", right=with_schema(DESCRIBE))
    async def check_all(
        self, path: SubjectPath, query: CheckQuery, body: SchemaIn, request: Request
    ) -> Verdict:
        """Whether a schema could be registered as the subject's next version."""
        return await self._check(path.name, None, query, body, request)

    async def _check(
        self, subject: str, number: int | None, query: CheckQuery, body: SchemaIn, request: Request
    ) -> Verdict:
        schema = schema_of(body, default_type(request))
        problems = await self.schemas.ask(
            lambda known: known.compatibility(subject, schema, number, normalise=query.normalize)
        )
        return Verdict(not problems, problems if query.verbose else [])


def _formatted(found: RegisteredVersion, form: str, known: Registry) -> VersionOut:
    if not form:
        return version_out(found)
    whole = known.with_dependencies(found.schema)
    return version_out(found, known.engine.formatted(whole, form))


def _positive(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None
