"""All versions of a subject, from any registry that speaks Confluent's API."""

from __future__ import annotations

import urllib.error
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from goqueue.schemas.model import Dependency, Reference, Schema, SchemaType
from goqueue.spark.errors import BrokerAwayError, ValueFormatError

if TYPE_CHECKING:
    from goqueue.spark.jobs.http import Http

_MAX_VERSIONS: Final = 100
"""The newest that are looked at; a message is held against each of them."""
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class Version:
    """One version, with all that it stands on, each before its users."""

    number: int
    schema_id: int
    schema: Schema
    dependencies: tuple[Dependency, ...] = ()


def versions_of(registry: Http, subject: str) -> list[Version]:
    """Every version of a subject, the oldest first.

    Raises:
        ValueFormatError: there is no such subject.
        BrokerAwayError: the registry does not answer.
    """
    numbers = _ask(registry, f"{_path(subject)}", f"subject {subject!r}")
    return [_version(registry, subject, number) for number in sorted(numbers)[-_MAX_VERSIONS:]]


def _version(registry: Http, subject: str, number: int) -> Version:
    answer = _ask(registry, f"{_path(subject)}/{number}", f"version {number} of {subject!r}")
    found: dict[Reference, Dependency] = {}
    _collect(registry, answer, found)
    return Version(number, int(answer["id"]), _schema(answer), tuple(found.values()))


def _collect(registry: Http, answer: Any, found: dict[Reference, Dependency]) -> None:
    for said in answer.get("references") or ():
        reference = Reference(said["name"], said["subject"], int(said["version"]))
        if reference in found:
            continue
        path = f"{_path(reference.subject)}/{reference.version}"
        other = _ask(registry, path, f"version {reference.version} of {reference.subject!r}")
        _collect(registry, other, found)
        found[reference] = Dependency(reference, _schema(other))


def _schema(answer: Any) -> Schema:
    return Schema(SchemaType(answer.get("schemaType", "AVRO")), answer["schema"])


def _path(subject: str) -> str:
    return f"/subjects/{urllib.parse.quote(subject, safe='')}/versions"


def _ask(registry: Http, path: str, what: str) -> Any:
    try:
        return registry.ask(path)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == _NOT_FOUND:
                raise ValueFormatError(f"{registry.url} has no {what}") from error
        raise BrokerAwayError(f"{registry.url}: {error}") from error
    except OSError as error:
        raise BrokerAwayError(f"{registry.url} does not answer: {error}") from error
