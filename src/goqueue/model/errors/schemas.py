"""The schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors.base import GoQueueError
from goqueue.model.errors.storage import StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping


class SchemaError(GoQueueError):
    """The schema registry refuses a request."""


class SubjectNotFoundError(SchemaError):
    """There is no such subject."""


class SchemaVersionNotFoundError(SchemaError):
    """The subject has no such version."""


class SchemaNotFoundError(SchemaError):
    """There is no such schema, or none of that id."""


class SubjectSoftDeletedError(SchemaError):
    """The subject was deleted, and can be deleted for good."""


class SubjectNotSoftDeletedError(SchemaError):
    """A subject must be deleted before it can be deleted for good."""


class SchemaVersionSoftDeletedError(SchemaError):
    """The version was deleted, and can be deleted for good."""


class SchemaVersionNotSoftDeletedError(SchemaError):
    """A version must be deleted before it can be deleted for good."""


class CompatibilityNotConfiguredError(SchemaError):
    """The subject has no compatibility level of its own."""


class SchemaModeNotConfiguredError(SchemaError):
    """The subject has no mode of its own."""


class IncompatibleSchemaError(SchemaError):
    """A new version breaks the compatibility that its subject promises."""


class InvalidSchemaError(SchemaError):
    """The text is no schema of its type."""


class InvalidSchemaVersionError(SchemaError):
    """A version is neither a number from 1 on nor `latest`."""


class InvalidCompatibilityError(SchemaError):
    """There is no such compatibility level."""


class InvalidSchemaModeError(SchemaError):
    """There is no such mode."""


class SchemaOperationNotPermittedError(SchemaError):
    """The mode of the subject forbids what was asked."""


class SchemaReferencedError(SchemaError):
    """Other schemas refer to the version; delete them first."""


class SchemaIdMismatchError(SchemaError):
    """A schema cannot be imported under an id that another has."""


class InvalidSubjectError(SchemaError):
    """A subject cannot have that name."""


class SchemaTooLargeError(SchemaError):
    """The text of a schema is longer than the limit."""


class RegistryUnavailableError(SchemaError):
    """The registry's state could not be stored or read; try again."""

    retriable = True


class CorruptSchemaStateError(StorageError):
    """A stored entry of the schema registry does not decode."""


class SchemaValidationError(SchemaError):
    """Messages do not fit the schema of their topic; nothing of their batch was stored."""

    def __init__(self, message: str, refused: Mapping[int, str] | None = None) -> None:
        super().__init__(message)
        self.of_records(refused or {})
