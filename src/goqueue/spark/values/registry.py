"""Schemas from a registry that speaks Confluent's API, which the broker itself does."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final, NamedTuple

from goqueue.spark import clock
from goqueue.spark.errors import BrokerAwayError, ValueFormatError

_TIMEOUT_S: Final = 10.0
_TRIES: Final = 5
_FIRST_PAUSE_S: Final = 0.2
_NOT_FOUND: Final = 404


class Import(NamedTuple):
    """A schema that another one refers to, and what it calls it."""

    name: str
    subject: str
    version: int
    text: str


class RegisteredSchema(NamedTuple):
    """A schema and what it is written in."""

    kind: str
    """`AVRO`, `JSON` or `PROTOBUF`."""
    text: str
    imports: tuple[Import, ...] = ()
    """What it refers to, directly or not; each name once."""


class SchemaRegistry:
    """Looks schemas up, each once."""

    def __init__(self, url: str) -> None:
        self._url: Final = url.rstrip("/")
        self._by_id: Final[dict[int, RegisteredSchema]] = {}

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject.

        Raises:
            ValueFormatError: there is no such subject.
            BrokerAwayError: the registry does not answer.
        """
        return self._schema(self._version(subject, "latest", f"subject {subject!r}"))

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id, as it stands in front of a value.

        Raises:
            ValueFormatError: there is no such schema.
            BrokerAwayError: the registry does not answer.
        """
        if schema_id not in self._by_id:
            answer = self._get(f"/schemas/ids/{schema_id}", f"schema {schema_id}")
            self._by_id[schema_id] = self._schema(answer)
        return self._by_id[schema_id]

    def _schema(self, answer: Any) -> RegisteredSchema:
        imports: dict[str, Import] = {}
        wanted = list(answer.get("references") or ())
        while wanted:
            reference = wanted.pop()
            name, subject, version = map(reference.get, ("name", "subject", "version"))
            if name not in imports:
                found = self._version(subject, version, f"version {version} of {subject!r}")
                imports[name] = Import(name, subject, version, found["schema"])
                wanted += found.get("references") or ()
        kind = answer.get("schemaType", "AVRO")
        return RegisteredSchema(kind, answer["schema"], tuple(imports.values()))

    def _version(self, subject: str, version: int | str, what: str) -> Any:
        quoted = urllib.parse.quote(subject, safe="")
        return self._get(f"/subjects/{quoted}/versions/{version}", what)

    def _get(self, path: str, what: str) -> Any:
        pause_s = _FIRST_PAUSE_S
        for left in reversed(range(_TRIES)):
            try:
                answer = self._load(path)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code == _NOT_FOUND:
                        raise ValueFormatError(f"{self._url} has no {what}") from error
                    if not left:
                        raise BrokerAwayError(f"{self._url}: {error}") from error
            except OSError as error:
                if not left:
                    raise BrokerAwayError(f"{self._url} does not answer: {error}") from error
            else:
                return answer
            clock.sleep(pause_s)
            pause_s *= 2
        raise AssertionError("the last try returns or raises")

    def _load(self, path: str) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the address is the user's own option
            self._url + path, headers={"Accept": "application/vnd.schemaregistry.v1+json"}
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - as above
            body = answer.read()
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise BrokerAwayError(f"{self._url} does not answer as a schema registry does")
        return found
