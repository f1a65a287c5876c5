"""Questions to an engine in another process, and its answers, as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.model import errors
from goqueue.schemas.decoded import DecodeFault
from goqueue.schemas.engine import LocalEngine, Message, Texts, WholeSchema
from goqueue.schemas.model import Dependency, Level, Reference, Schema, SchemaType

if TYPE_CHECKING:
    from collections.abc import Sequence


_FAULTS: Final[dict[str, type[Exception]]] = {
    kind.__name__: kind
    for kind in (errors.InvalidSchemaError, errors.SchemaTooLargeError, DecodeFault)
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


def texts_of(answer: Answer) -> Texts:
    """The answer to `texts`."""
    return Texts(*answer.result)


def _text(fault: Exception) -> str:
    return str(fault).encode("utf-8", "replace").decode()


def _parts(whole: WholeSchema) -> list[tuple[str, str, str]]:
    return [(name, schema.type.value, schema.text) for name, schema in whole.parts]


def _whole(sent: WireSchema) -> WholeSchema:
    (_, own), *others = [(name, Schema(SchemaType(kind), text)) for name, kind, text in sent.parts]
    dependencies = [Dependency(Reference(name, "", 0), schema) for name, schema in others]
    return WholeSchema(own, tuple(dependencies))
