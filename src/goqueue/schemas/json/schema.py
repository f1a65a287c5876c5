"""JSON Schemas of the drafts 4 to 2020-12: checked and applied by jsonschema-rs.

Nothing is ever fetched: a reference leads into the schema itself, or to one that is registered.
"""

# ruff: noqa: D102 - `Parsed` and `Validator` say what the methods do

from __future__ import annotations

import json
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urldefrag, urljoin

import jsonschema_rs
import msgspec

from goqueue.model.errors import InvalidSchemaError
from goqueue.schemas.decoded import DecodeFault
from goqueue.schemas.json.diff import unreadable
from goqueue.schemas.json.shapes import Shape, Shapes
from goqueue.schemas.json.text import loaded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.schemas.model import Dependency

_DRAFTS: Final = {
    "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909,
    "https://json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012,
}
_VALIDATORS: Final = {
    jsonschema_rs.Draft4: jsonschema_rs.Draft4Validator,
    jsonschema_rs.Draft6: jsonschema_rs.Draft6Validator,
    jsonschema_rs.Draft7: jsonschema_rs.Draft7Validator,
    jsonschema_rs.Draft201909: jsonschema_rs.Draft201909Validator,
    jsonschema_rs.Draft202012: jsonschema_rs.Draft202012Validator,
}
_ROOT: Final = "https://registry.invalid/"
"""The base of references of schemas that do not say where they are."""
_LINEAR: Final = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)
"""Patterns are matched in time that is linear in the text. One that compiles to more is refused."""
_BACKTRACKING: Final = jsonschema_rs.FancyRegexOptions(
    backtrack_limit=10_000, size_limit=1 << 20, dfa_size_limit=1 << 20
)
"""For schemas with look-around or back references, which the linear engine cannot express. A text
on which a pattern takes more steps back than these does not fit."""
_SHOWN_ERRORS: Final = 3
_EXPLAINED_BYTES: Final = 16 << 10
"""Of a larger message it is not told where it does not fit: the library finds every error before it
tells the first."""


class JsonSchema:
    """One JSON Schema with those that it refers to."""

    def __init__(self, text: str, dependencies: Sequence[Dependency] = ()) -> None:
        """Parse a schema. Without `$schema` it is of draft 7, as for Confluent's clients.

        Raises:
            InvalidSchemaError: it is none, or a reference leads nowhere.
        """
        self.document = _loaded(text)
        self._others = {
            name: document
            for reference, schema in dependencies
            for document in [_loaded(schema.text)]
            for name in {urljoin(_ROOT, reference.name), _address(document)}
            if name
        }
        self._draft = _draft(self.document)
        try:
            self._compiled = self._compile(_LINEAR)
        except (ValueError, jsonschema_rs.ReferencingError):
            try:
                self._compiled = self._compile(_BACKTRACKING)
            except (ValueError, jsonschema_rs.ReferencingError) as error:
                raise InvalidSchemaError(f"no JSON Schema: {_first_line(error)}") from error

    def _compile(self, patterns: Any) -> Any:
        registry = None
        if self._others:
            registry = jsonschema_rs.Registry(
                list(self._others.items()), draft=self._draft, retriever=_refuse_fetching
            )
        return _VALIDATORS[self._draft](
            self.document,
            registry=registry,
            base_uri=_address(self.document) or _ROOT,
            pattern_options=patterns,
            offline=True,
        )

    @cached_property
    def canonical(self) -> str:
        """Without white space; the order of keys stays, as people see it."""
        return json.dumps(self.document, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def normalised(self) -> str:
        """With the keys in order."""
        return json.dumps(self.document, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    @cached_property
    def shapes(self) -> Shapes:
        """What its parts are about."""
        return Shapes(self._resolve)

    @cached_property
    def shape(self) -> Shape:
        """What all of it is about."""
        return self.shapes.of(self.document, _address(self.document) or _ROOT)

    def _resolve(self, reference: str, base: str) -> tuple[Any, str]:
        """What a reference leads to, and the base of references there."""
        address, fragment = urldefrag(urljoin(base or _ROOT, reference))
        document = self._document(address)
        if document is None:
            raise InvalidSchemaError(f"nothing is registered as {reference!r}")
        if fragment and not fragment.startswith("/"):
            return _anchored(document, fragment, reference), address
        found = document
        for part in fragment.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(key)] if isinstance(found, list) else found[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise InvalidSchemaError(f"{reference!r} leads nowhere") from None
        return found, address

    def _document(self, address: str) -> Any:
        if address in {_ROOT, _address(self.document)}:
            return self.document
        return self._others.get(address, self._others.get(address + "#"))

    def reads(self, writer: JsonSchema) -> list[str]:
        """Why a reader with this schema would not take what the writer's allows."""
        return unreadable(self.shape, writer.shape, self.shapes, writer.shapes)

    def validator(self) -> JsonValidator:
        properties = self._document_fields()
        return JsonValidator(self._compiled, properties)

    def _document_fields(self) -> tuple[str, ...]:
        found = self.document.get("properties") if isinstance(self.document, dict) else None
        return tuple(map(str, found)) if isinstance(found, dict) else ()

    def decoded(self, payload: bytes, _indexes: Sequence[int] = (0,)) -> str:
        """A message as JSON: as it is, if it is JSON.

        Raises:
            DecodeFault: it is not.
        """
        try:
            msgspec.json.decode(payload, type=msgspec.Raw)
            return payload.decode()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DecodeFault(f"it is not JSON: {error}") from error

    def formatted(self, _form: str) -> str:
        """The text as it is; there is no other form."""
        return self.canonical


class JsonValidator:
    """Decodes messages and holds them against the schema, which is of one type."""

    def __init__(self, compiled: Any, properties: tuple[str, ...] = ()) -> None:
        self._compiled = compiled
        self._properties = properties
        self._is_valid = compiled.is_valid

    def check(self, payload: bytes | memoryview, _indexes: Sequence[int] = (0,)) -> str | None:
        try:
            value = _decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return f"/: not JSON: {error}"
        except RecursionError:
            return "/: nested too deeply"
        try:
            if self._is_valid(value):
                return None
        except ValueError as error:  # a pattern that takes too many steps
            return f"/: {_first_line(error)}"
        if len(payload) > _EXPLAINED_BYTES:
            return f"/: does not fit (of messages above {_EXPLAINED_BYTES} bytes no place is told)"
        found = islice(self._compiled.iter_errors(value), _SHOWN_ERRORS)
        return "; ".join(map(_described, found)) or "/: does not fit"

    def field_names(self, _indexes: Sequence[int] = (0,)) -> tuple[str, ...]:
        """The properties that the schema itself names."""
        return self._properties

    def present(self, payload: bytes | memoryview, _indexes: Sequence[int] = (0,)) -> list[str]:
        """The properties of a message that fits which are there and not null."""
        found = _decode(payload)
        values = found if isinstance(found, dict) else {}
        return [name for name, value in values.items() if value is not None]


_decode: Final = msgspec.json.Decoder().decode


def _loaded(text: str) -> Any:
    document = loaded(text, "a JSON Schema")
    if not isinstance(document, dict | bool):
        raise InvalidSchemaError("a JSON Schema is an object, or true or false")
    return document


def _draft(document: Any) -> int:
    named = document.get("$schema") if isinstance(document, dict) else None
    if named is None:
        return jsonschema_rs.Draft7
    draft = _DRAFTS.get(named.rstrip("#")) if isinstance(named, str) else None
    if draft is None:
        raise InvalidSchemaError(f"$schema {str(named)[:100]!r} is none of the drafts 4 to 2020-12")
    return draft


def _address(document: Any) -> str:
    """Where a document says that it is."""
    if not isinstance(document, dict):
        return ""
    own = document.get("$id", document.get("id"))
    return urldefrag(urljoin(_ROOT, own))[0] if isinstance(own, str) and own else ""


def _anchored(document: Any, name: str, reference: str) -> Any:
    """The part of a document that has this anchor."""
    waiting = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            own = (part.get("$anchor"), part.get("$dynamicAnchor"))
            if name in own or f"#{name}" in {part.get("$id"), part.get("id")}:
                return part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    raise InvalidSchemaError(f"{reference!r} leads nowhere")


def _refuse_fetching(uri: str) -> None:
    raise ValueError(f"nothing is registered as {uri!r}")


def _described(error: jsonschema_rs.ValidationError) -> str:
    path = "".join(f"/{_escaped(each)}" for each in error.instance_path)
    return f"{path or '/'}: {error.message[:200]}"


def _escaped(part: object) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0][:300]
