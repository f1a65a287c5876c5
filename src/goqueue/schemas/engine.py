"""What the libraries of the schema languages are asked, wherever they run.

A broker asks a process of its own (`broker.schema_process`), since the libraries can be made to run
for ever or to crash. Tests and tools ask `LocalEngine`.
"""

# ruff: noqa: D102 - `Engine` says what the methods do

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from goqueue.model.errors import InvalidSchemaError
from goqueue.model.tuples import NamedTuple
from goqueue.schemas import formats
from goqueue.schemas.model import Dependency, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.schemas.model import Level, Parsed, Validator

KEPT_SCHEMAS: Final = 1000
"""That are kept understood; of more, the one not used for the longest is understood again."""


class WholeSchema(msgspec.Struct, frozen=True, dict=True):
    """A schema with all that it stands on, each before its users."""

    schema: Schema
    dependencies: tuple[Dependency, ...] = ()

    @cached_property
    def key(self) -> bytes:
        """The same for the same texts, whatever else is kept with them."""
        digest = hashlib.sha256()
        for name, schema in self.parts:
            said = f"{len(name)}:{len(schema.text)}:{name}{schema.type}{schema.text}"
            digest.update(said.encode("utf-8", "surrogatepass"))
        return digest.digest()

    @property
    def parts(self) -> list[tuple[str, Schema]]:
        """The schema, and behind it its dependencies with what they are called."""
        return [
            ("", self.schema),
            *((each.reference.name, each.schema) for each in self.dependencies),
        ]


class Texts(NamedTuple):
    """A schema in the two forms that are stored."""

    canonical: str
    normalised: str


class Message(NamedTuple):
    """An encoded message, without what names its schema."""

    payload: bytes
    indexes: Sequence[int] = (0,)
    """Of the message type of a Protobuf schema."""


class Engine(Protocol):
    """Understands schemas. Everything raises `InvalidSchemaError` for what is none."""

    def texts(self, whole: WholeSchema) -> Texts:
        """The forms that a schema is stored in."""

    def differences(self, old: WholeSchema, new: WholeSchema, level: Level) -> list[str]:
        """Why a new schema is not compatible with an old one of its type; nothing where it is."""

    def formatted(self, whole: WholeSchema, form: str) -> str:
        """The text in a form that clients may ask for."""

    def decoded(self, whole: WholeSchema, message: Message) -> str:
        """A message as JSON. Raises `DecodeFault`."""

    def check(self, whole: WholeSchema, messages: Sequence[Message]) -> list[str | None]:
        """Of each message what is wrong with it and where; None where it fits."""


class LocalEngine:
    """Understands schemas in this process."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, _Understood] = OrderedDict()

    def texts(self, whole: WholeSchema) -> Texts:
        parsed = self._understood(whole).parsed
        return Texts(parsed.canonical, parsed.normalised)

    def differences(self, old: WholeSchema, new: WholeSchema, level: Level) -> list[str]:
        before, after = self._understood(old).parsed, self._understood(new).parsed
        said = []
        try:
            if level.is_backward:
                said += [f"a new reader of old data: {each}" for each in after.reads(before)]
            if level.is_forward:
                said += [f"an old reader of new data: {each}" for each in before.reads(after)]
        except RecursionError:
            raise InvalidSchemaError("the schema is nested too deeply to be compared") from None
        return said

    def formatted(self, whole: WholeSchema, form: str) -> str:
        return self._understood(whole).parsed.formatted(form)

    def decoded(self, whole: WholeSchema, message: Message) -> str:
        return self._understood(whole).parsed.decoded(*message)

    def check(self, whole: WholeSchema, messages: Sequence[Message]) -> list[str | None]:
        check = self._understood(whole).validator.check
        return [check(payload, indexes) for payload, indexes in messages]

    def knows(self, key: bytes) -> bool:
        """Whether a schema is kept."""
        return key in self._kept

    def cached(self, key: bytes) -> WholeSchema:
        """A schema that is kept, by its key."""
        return self._kept[key].whole

    def _understood(self, whole: WholeSchema) -> _Understood:
        known = self._kept.pop(whole.key, None) or _Understood(whole)
        self._kept[whole.key] = known
        if len(self._kept) > KEPT_SCHEMAS:
            self._kept.popitem(last=False)
        return known


class _Understood:
    """A schema as its library has it."""

    def __init__(self, whole: WholeSchema) -> None:
        self.whole = whole
        self.parsed: Parsed = formats.parse(whole.schema, whole.dependencies)

    @cached_property
    def validator(self) -> Validator:
        return self.parsed.validator()
