"""The schema engine in a process of its own: hostile schemas and messages cost a refusal.

Two processes at most, started when they are needed: one for the registry, one for messages, so that
whoever registers schemas does not hold up those who publish.
"""

# ruff: noqa: D102 - `Engine` says what the methods do

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.model.errors import InvalidSchemaError, SchemaTooLargeError
from goqueue.runtime.bounded_process import BoundedProcess, Limits, ProcessLost
from goqueue.schemas import formats
from goqueue.schemas.decoded import DecodeFault
from goqueue.schemas.engine import LocalEngine, Message, Texts, WholeSchema
from goqueue.schemas.model import Dependency, Level, Reference, Schema, SchemaType

if TYPE_CHECKING:
    from collections.abc import Sequence

_FAULTS: Final[dict[str, type[Exception]]] = {
    kind.__name__: kind for kind in (InvalidSchemaError, SchemaTooLargeError, DecodeFault)
}


class WireSchema(msgspec.Struct, array_like=True):
    """A schema; without a text where the other side may know it by its key."""

    key: bytes
    parts: list[tuple[str, str, str]] = []
    """The schema and its dependencies: what each is called, its type and its text."""


class Question(msgspec.Struct, array_like=True):
    """One call of an engine."""

    method: str
    schemas: list[WireSchema]
    form: str = ""
    messages: list[tuple[bytes, list[int]]] = []


class Answer(msgspec.Struct, array_like=True):
    """What came of it."""

    result: Any = None
    fault: str = ""
    """The class of what was raised, if something was."""
    text: str = ""
    is_unknown: bool = False
    """A schema came without its text, and is not known: ask again with it."""


_question: Final = msgspec.msgpack.Decoder(Question)
_answer: Final = msgspec.msgpack.Decoder(Answer)
encode: Final = msgspec.msgpack.Encoder().encode


def question(
    method: str,
    wholes: Sequence[WholeSchema],
    *,
    form: str = "",
    messages: Sequence[Message] = (),
    with_text: bool,
) -> bytes:
    """A question, with or without the texts of its schemas."""
    schemas = [WireSchema(each.key, _parts(each) if with_text else []) for each in wholes]
    sent = [(payload, list(indexes)) for payload, indexes in messages]
    return encode(Question(method, schemas, form, sent))


def answer_of(data: bytes) -> Answer:
    """An answer. Raises what the engine has raised."""
    found = _answer.decode(data)
    if found.fault:
        raise _FAULTS[found.fault](found.text)
    return found


def answered(engine: LocalEngine, data: bytes) -> bytes:
    """What an engine answers to a question."""
    asked = _question.decode(data)
    if any(not each.parts and not engine.knows(each.key) for each in asked.schemas):
        return encode(Answer(is_unknown=True))
    wholes = [_whole(each) if each.parts else engine.cached(each.key) for each in asked.schemas]
    try:
        return encode(Answer(_result(engine, asked, wholes)))
    except tuple(_FAULTS.values()) as fault:
        return encode(Answer(fault=type(fault).__name__, text=_text(fault)))


def _result(engine: LocalEngine, asked: Question, wholes: list[WholeSchema]) -> Any:
    messages = [Message(*each) for each in asked.messages]
    whole = wholes[0]
    if asked.method == "texts":
        return engine.texts(whole)
    if asked.method == "differences":
        return engine.differences(whole, wholes[1], Level(asked.form))
    if asked.method == "formatted":
        return engine.formatted(whole, asked.form)
    if asked.method == "decoded":
        return engine.decoded(whole, messages[0])
    return engine.check(whole, messages)


def _text(fault: Exception) -> str:
    return str(fault).encode("utf-8", "replace").decode()


def _parts(whole: WholeSchema) -> list[tuple[str, str, str]]:
    return [(name, schema.type.value, schema.text) for name, schema in whole.parts]


def _whole(sent: WireSchema) -> WholeSchema:
    (_, own), *others = [(name, Schema(SchemaType(kind), text)) for name, kind, text in sent.parts]
    dependencies = [Dependency(Reference(name, "", 0), schema) for name, schema in others]
    return WholeSchema(own, tuple(dependencies))


_WORKER: Final = "goqueue.schemas.worker"
_MEMORY_BYTES: Final = 256 << 20
REGISTRY_LIMITS: Final = Limits(5.0, _MEMORY_BYTES)
"""Of all questions that one request to the registry leads to. A request that needs more is
refused."""
VALIDATION_LIMITS: Final = Limits(2.0, _MEMORY_BYTES)
"""Of one slice of a batch. A batch with a slice that needs more is refused."""


class SchemaProcess:
    """An engine that asks a child process. Blocks, so it is called in threads."""

    def __init__(self, limits: Limits) -> None:
        self._process = BoundedProcess(_WORKER, limits)
        self._goes_on = False
        self._lost: ProcessLost | None = None
        """Why the present request has no processor time left."""

    def begin(self) -> None:
        """Another request begins, with limits of its own."""
        self._goes_on = False
        self._lost = None

    @property
    def pid(self) -> int | None:
        """Of the child; None when there is none."""
        return self._process.pid

    def close(self) -> None:
        """End the child."""
        self._process.close()

    def texts(self, whole: WholeSchema) -> Texts:
        formats.check_text(whole.schema)
        return Texts(*self._ask("texts", [whole]).result)

    def differences(self, old: WholeSchema, new: WholeSchema, level: Level) -> list[str]:
        found: list[str] = self._ask("differences", [old, new], form=level.value).result
        return found

    def formatted(self, whole: WholeSchema, form: str) -> str:
        return str(self._ask("formatted", [whole], form=form).result)

    def decoded(self, whole: WholeSchema, message: Message) -> str:
        return str(self._ask("decoded", [whole], messages=[message]).result)

    def check(self, whole: WholeSchema, messages: Sequence[Message]) -> list[str | None]:
        """Of each message what is wrong with it and where; None where it fits.

        Raises:
            ProcessLost: a limit was reached.
        """
        found: list[str | None] = self._asked("check", [whole], messages=messages).result
        return found

    def _ask(
        self,
        method: str,
        wholes: Sequence[WholeSchema],
        *,
        form: str = "",
        messages: Sequence[Message] = (),
    ) -> Answer:
        try:
            return self._asked(method, wholes, form=form, messages=messages)
        except ProcessLost as lost:
            raise InvalidSchemaError(f"the schema cannot be used: {lost}") from lost

    def _asked(
        self,
        method: str,
        wholes: Sequence[WholeSchema],
        *,
        form: str = "",
        messages: Sequence[Message] = (),
    ) -> Answer:
        """Ask by the keys of schemas; with their texts where the child does not know them."""
        if self._lost is not None:
            raise self._lost
        for with_text in (False, True):
            sent = question(method, wholes, form=form, messages=messages, with_text=with_text)
            try:
                answer = answer_of(self._process.call(sent, goes_on=self._goes_on))
            except ProcessLost as lost:
                self._lost = lost
                raise
            self._goes_on = True
            if not answer.is_unknown:
                return answer
        raise AssertionError("the schema engine has lost a schema that was just sent")
