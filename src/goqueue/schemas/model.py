"""What the registry speaks of. The words are those of Confluent's registry."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

import msgspec

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class SchemaType(StrEnum):
    """How a schema is written."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Mode(StrEnum):
    """What may be changed in a subject."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    IMPORT = "IMPORT"
    """Schemas come with their ids and versions, and nothing is checked against anything."""


class Level(StrEnum):
    """Which old and new schemas of a subject must understand each other."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    """Readers with the new schema understand what was written with the one before."""
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    """Readers with the schema before understand what is written with the new one."""
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    """Both."""
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """All earlier versions count, not the last one alone."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """New readers must understand old messages."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Old readers must understand new messages."""
        return self.value.startswith(("FORWARD", "FULL"))


class Reference(NamedTuple):
    """A part of a schema that is registered by itself."""

    name: str
    """As the schema calls it: a type's full name, a `$ref`, an imported file."""
    subject: str
    version: int


class Schema(msgspec.Struct, frozen=True, dict=True):
    """A schema as somebody has given it, or in its canonical form."""

    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    """What its owner keeps with it, as canonical JSON; a schema with another is another schema."""
    rules: str | None = None
    """Rules for clients to follow, as canonical JSON. The broker keeps and does not run them."""

    @cached_property
    def fingerprint(self) -> bytes:
        """The same for schemas that are the same in everything."""
        known = [self.type, self.text, list(self.references), self.metadata, self.rules]
        return hashlib.sha256(json.dumps(known).encode("utf-8", "surrogatepass")).digest()

    @cached_property
    def guid(self) -> UUID:
        """An id that is the same in every registry."""
        return UUID(bytes=self.fingerprint[:16])


class Dependency(NamedTuple):
    """A schema that another stands on, and what that one calls it."""

    reference: Reference
    schema: Schema


class Validator(Protocol):
    """Checks encoded messages against one schema."""

    def check(self, payload: bytes | memoryview, indexes: Sequence[int] = (0,), /) -> str | None:
        """What is wrong with a message and where; None when it fits.

        `indexes` choose the message type of a Protobuf schema.
        """

    def field_names(self, indexes: Sequence[int] = (0,), /) -> tuple[str, ...]:
        """The fields on the highest level; none where there is no such thing."""

    def present(self, payload: bytes | memoryview, indexes: Sequence[int] = (0,), /) -> list[str]:
        """Which of them say something in a message that fits."""


class Parsed(Protocol):
    """A schema that was understood."""

    @property
    def canonical(self) -> str:
        """The text that is stored: the same for texts that differ in nothing that counts."""

    @property
    def normalised(self) -> str:
        """The same for more of them: the order of what has none does not count either."""

    def reads(self, writer: Any) -> list[str]:
        """Why readers with this schema would not understand a writer with the other.

        Nothing where they do. Both are of the same type.
        """

    def validator(self) -> Validator:
        """A check for encoded messages; expensive to make, cheap to use."""

    def decoded(self, payload: bytes, indexes: Sequence[int] = (0,), /) -> str:
        """A message as JSON text, for people to read. Raises `DecodeFault`."""

    def formatted(self, form: str, /) -> str:
        """The text in another form of the same, as clients may ask for; or as it is."""
