"""Schemas from a registry with Confluent's API, which the broker itself has."""

from __future__ import annotations

import urllib.error
import urllib.parse
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goqueue.schemas.model import Dependency, Reference, Schema, SchemaType
from goqueue.spark import clock
from goqueue.spark.errors import BrokerAwayError, ValueFormatError

if TYPE_CHECKING:
    from goqueue.spark.http_client import Http

_MAX_VERSIONS: Final = 100
"""The newest versions of a subject that are looked up."""
_TIMEOUT_S: Final = 10.0
_TRIES: Final = 5
_FIRST_PAUSE_S: Final = 0.2
_NOT_FOUND: Final = 404


class RegisteredSchema(NamedTuple):
    """A schema, and all that it refers to, each before its users."""

    schema: Schema
    dependencies: tuple[Dependency, ...] = ()
    number: int = 0
    """The version in its subject; 0 where it was looked up by its id, or given."""
    schema_id: int = 0


class SchemaRegistry:
    """Looks schemas up, each id once."""

    def __init__(self, http: Http) -> None:
        self._http: Final = http
        self._by_id: Final[dict[int, RegisteredSchema]] = {}

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject.

        Raises:
            ValueFormatError: there is no such subject.
            BrokerAwayError: the registry does not answer.
        """
        answer = self._get(f"{_path(subject)}/latest", f"subject {subject!r}")
        return self._registered(answer)

    def versions(self, subject: str) -> list[RegisteredSchema]:
        """The versions of a subject, the oldest first.

        Raises:
            ValueFormatError: there is no such subject.
            BrokerAwayError: the registry does not answer.
        """
        numbers = self._get(_path(subject), f"subject {subject!r}")
        return [
            self._registered(self._version(subject, number))
            for number in sorted(numbers)[-_MAX_VERSIONS:]
        ]

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id, as it stands in front of a value.

        Raises:
            ValueFormatError: there is no such schema.
            BrokerAwayError: the registry does not answer.
        """
        if schema_id not in self._by_id:
            answer = self._get(f"/schemas/ids/{schema_id}", f"schema {schema_id}")
            self._by_id[schema_id] = self._registered(answer)
        return self._by_id[schema_id]

    def _registered(self, answer: Any) -> RegisteredSchema:
        found: dict[Reference, Dependency] = {}
        try:
            self._collect(answer, found)
            schema = _schema(answer)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BrokerAwayError(
                f"{self._http.url} does not answer as a schema registry does"
            ) from error
        number, schema_id = answer.get("version", 0), answer.get("id", 0)
        return RegisteredSchema(schema, tuple(found.values()), number, schema_id)

    def _collect(self, answer: Any, found: dict[Reference, Dependency]) -> None:
        for given in answer.get("references") or ():
            reference = Reference(given["name"], given["subject"], int(given["version"]))
            if reference not in found:
                other = self._version(reference.subject, reference.version)
                self._collect(other, found)
                found[reference] = Dependency(reference, _schema(other))

    def _version(self, subject: str, version: int) -> Any:
        return self._get(f"{_path(subject)}/{version}", f"version {version} of {subject!r}")

    def _get(self, path: str, what: str) -> Any:
        url, pause_s = self._http.url, _FIRST_PAUSE_S
        for left in reversed(range(_TRIES)):
            try:
                return self._http.ask(path, timeout_s=_TIMEOUT_S)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code == _NOT_FOUND:
                        raise ValueFormatError(f"{url} has no {what}") from error
                    if not left:
                        raise BrokerAwayError(f"{url}: {error}") from error
            except OSError as error:
                if not left:
                    raise BrokerAwayError(f"{url} does not answer: {error}") from error
            clock.sleep(pause_s)
            pause_s *= 2
        raise AssertionError("the last try returns or raises")


def _path(subject: str) -> str:
    return f"/subjects/{urllib.parse.quote(subject, safe='')}/versions"


def _schema(answer: Any) -> Schema:
    return Schema(SchemaType(answer.get("schemaType", "AVRO")), answer["schema"])
