"""Kafka's client quotas: which entities there are, and which quota counts for a client.

An entity names a user, a client id or both; a name that is None is Kafka's default, which stands
for every name that has no quota of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote

import msgspec

from goqueue.model.errors import InvalidClientQuotaError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

USER: Final = "user"
CLIENT_ID: Final = "client-id"
PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
REQUEST_RATE: Final = "request_rate"
"""Requests a second. Kafka has no such quota."""
QUOTA_NAMES: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
    REQUEST_RATE,
)
_WHOLE: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE})
_MAX_NAME_CHARS: Final = 500
"""Of a user or a client id that has a quota; a longer one is refused."""

Entity: TypeAlias = Mapping[str, str | None]
"""The name by its kind; None is the default."""


class ClientQuota(msgspec.Struct, frozen=True):
    """The quotas of one entity, as they are stored."""

    entity: dict[str, str | None]
    values: dict[str, float]


class Matched(NamedTuple):
    """Whose bucket a client takes from: all its clients that have the same."""

    rate: float
    user: str | None
    client_id: str | None


def key_of(entity: Entity) -> str:
    """The name of an entity's record."""
    parts = []
    for kind in (USER, CLIENT_ID):
        if kind in entity:
            name = entity[kind]
            parts.append(kind if name is None else f"{kind}={quote(name, safe='')}")
    return "&".join(parts)


def check_entity(entity: Entity) -> None:
    """Raises `InvalidClientQuotaError` unless there can be quotas of this entity."""
    if not entity or not entity.keys() <= {USER, CLIENT_ID}:
        raise InvalidClientQuotaError(
            f"there are no quotas of {sorted(entity)}, expected {USER!r}, {CLIENT_ID!r} or both"
        )
    for kind, name in entity.items():
        if name is not None and not 0 < len(name) <= _MAX_NAME_CHARS:
            raise InvalidClientQuotaError(
                f"a {kind} of {len(name)} characters, expected 1 to {_MAX_NAME_CHARS}"
            )


def changed(values: Mapping[str, float], changes: Mapping[str, float | None]) -> dict[str, float]:
    """The quotas of an entity after some were set, or removed (None).

    Raises:
        InvalidClientQuotaError: there is no such quota, or it cannot have that value.
    """
    result = dict(values)
    for name, value in changes.items():
        if name not in QUOTA_NAMES:
            raise InvalidClientQuotaError(
                f"there is no quota {name[:80]!r}, expected one of {', '.join(QUOTA_NAMES)}"
            )
        if value is None:
            result.pop(name, None)
            continue
        if not (math.isfinite(value) and value > 0):
            raise InvalidClientQuotaError(
                f"{name} is {value}, expected more than 0; remove the quota for no limit"
            )
        if name in _WHOLE and value != int(value):
            raise InvalidClientQuotaError(f"{name} is {value}, expected a whole number")
        result[name] = value
    return result


class QuotaTable:
    """All quotas, ready to be asked for those of a client."""

    def __init__(self, quotas: Mapping[str, ClientQuota]) -> None:
        self._by_key = {key_of(each.entity): each.values for each in quotas.values()}

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def find(self, name: str, user: str, client_id: str) -> Matched | None:
        """The quota of that name that counts for a client: the first in Kafka's order."""
        for entity, bucket_user, bucket_client in _candidates(user, client_id):
            rate = self._by_key.get(key_of(entity), {}).get(name)
            if rate is not None:
                return Matched(rate, bucket_user, bucket_client)
        return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[Entity, str | None, str | None]]:
    """The entities that count for a client, the nearest first, and whose bucket each has."""
    for named in (user, None):
        for client in (client_id, None):
            yield {USER: named, CLIENT_ID: client}, user, client_id
        yield {USER: named}, user, None
    for client in (client_id, None):
        yield {CLIENT_ID: client}, None, client_id


class Component(NamedTuple):
    """One part of a filter of entities: of a kind, and with a name that matches."""

    kind: str
    is_any: bool = False
    """Whether every name matches; otherwise it is exactly `name`, and None is the default."""
    name: str | None = None


def matches(entity: Entity, wanted: Sequence[Component], *, strict: bool) -> bool:
    """Whether a filter takes an entity; a strict one takes no other kinds than it names."""
    if strict and entity.keys() != {each.kind for each in wanted}:
        return False
    return all(
        each.kind in entity and (each.is_any or entity[each.kind] == each.name) for each in wanted
    )
