"""How Confluent's registry answers: its media type, its numbers for what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model import errors as model
from goqueue.protocols.http.api import errors as http
from goqueue.protocols.http.api.dialects import Dialect
from goqueue.protocols.http.api.problems import kind_of, problem_of
from goqueue.protocols.http.api.responses import JSON, Response

if TYPE_CHECKING:
    from goqueue.model.errors import GoQueueError
    from goqueue.protocols.http.api.requests import Request

REGISTRY_JSON: Final = "application/vnd.schemaregistry.v1+json"

INVALID_SCHEMA: Final = "Invalid schema"
"""What Confluent's registry says first of a text that is no schema. Its clients look for it."""

REGISTRY_CODES: Final[dict[type[GoQueueError], int]] = {
    model.SubjectNotFoundError: 40401,
    model.SchemaVersionNotFoundError: 40402,
    model.SchemaNotFoundError: 40403,
    model.SubjectSoftDeletedError: 40404,
    model.SubjectNotSoftDeletedError: 40405,
    model.SchemaVersionSoftDeletedError: 40406,
    model.SchemaVersionNotSoftDeletedError: 40407,
    model.CompatibilityNotConfiguredError: 40408,
    model.SchemaModeNotConfiguredError: 40409,
    model.IncompatibleSchemaError: 409,
    model.InvalidSchemaError: 42201,
    model.InvalidSchemaVersionError: 42202,
    model.InvalidCompatibilityError: 42203,
    model.InvalidSchemaModeError: 42204,
    model.SchemaOperationNotPermittedError: 42205,
    model.SchemaReferencedError: 42206,
    model.SchemaIdMismatchError: 42207,
    model.InvalidSubjectError: 42208,
    model.SchemaTooLargeError: 42209,
    model.RegistryUnavailableError: 50001,
    http.FieldError: 422,
}
"""Its first three digits are the status, where there are more. What is not here has its status."""


class RegistryError(msgspec.Struct, frozen=True):
    """An error in the format of Confluent's registry."""

    error_code: int
    message: str


def error_code_of(error: GoQueueError | type[GoQueueError]) -> int:
    """The number that Confluent's clients know this error by."""
    kind = error if isinstance(error, type) else type(error)
    for ancestor in kind.__mro__:
        if ancestor in REGISTRY_CODES:
            return REGISTRY_CODES[ancestor]
    return kind_of(error).status


def _refusal(request: Request, error: GoQueueError) -> Response:
    code = error_code_of(error)
    problem = problem_of(error, request.request_id)
    status = code if code < 1000 else code // 100
    if isinstance(error, model.RegistryUnavailableError):
        status = problem.status  # clients try again after a 503
    detail = msgspec.json.decode(problem.body)["detail"]
    if isinstance(error, model.InvalidSchemaError) and not detail.startswith(INVALID_SCHEMA):
        detail = f"{INVALID_SCHEMA}, details: {detail}"
    body = msgspec.json.encode(RegistryError(code, detail))
    return Response(status, body, _media_type(request), problem.headers)


def _answer(request: Request, status: int, body: bytes) -> Response:
    return Response(status, body, _media_type(request))


def _media_type(request: Request) -> str:
    """Plain JSON for those who ask for it alone."""
    accepted = request.header(b"accept")
    plain = JSON in accepted and "schemaregistry" not in accepted
    return JSON if plain else REGISTRY_JSON


REGISTRY: Final = Dialect("RegistryError", (REGISTRY_JSON, JSON), RegistryError, _answer, _refusal)
