"""Names of a tenant's clients in requests and answers, translated in one place around the handlers.

Arguments of handlers are translated by the names of their fields; answers, which may have been put
together by another node, by the keys of their JSON. Rights are checked by the names inside, so what
is overlooked here is shown with the id of the tenant in front, and never to somebody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import asdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.access.tenants.namespace import Namespace

_NAMES: Final = frozenset(
    {
        "topic",
        "group",
        "consumer_group",
        "transactional_id",
        "subject",
        "series",
        "to",
        "letters_in",
        "source_topic",
        "dead_letter_topic",
        "dead_letters",
        "removed",
        "deleted",
    }
)
"""Fields that are a name, of requests and of answers."""
_PREFIXES: Final = frozenset({"subject_prefix"})
_MAPS: Final = frozenset(
    {
        "offsets",
        "committed",
        "log_ends",
        "lag",
        "partitions",
        "added",
        "revoked",
        "partitions_to_revoke",
        "next_offsets",
        "topics",
        "groups",
        "expired",
        "redriven",
        "targets",
        "sources",
    }
)
"""Objects whose keys are names, and arrays of names; what else they are is left alone."""
_TEXTS: Final = frozenset({"detail", "message", "error", "reason", "failure"})
_OPAQUE: Final = frozenset({"metadata", "ruleSet", "settings", "quotas", "headers", "attributes"})
"""What clients have written themselves, and settings."""
_TRANSLATED: Final = frozenset({"path", "query", "body"})
_NAMED: Final = frozenset({"CreateTopic", "PipelinePath", "PipelineBody"})
"""Parts of requests whose `name` is that of a topic or a pipeline."""
_NAMED_BY: Final = frozenset({"topic_id", "queries"})
"""Fields beside which the `name` in an answer is one."""


def arguments_inside(arguments: dict[str, Any], namespace: Namespace) -> dict[str, Any]:
    """What a handler is called with, in the names inside."""
    return {
        name: _renamed(value, namespace) if name in _TRANSLATED else value
        for name, value in arguments.items()
    }


def _renamed(value: msgspec.Struct, namespace: Namespace) -> msgspec.Struct:
    is_named = type(value).__name__ in _NAMED
    changes: dict[str, Any] = {}
    for name, field in asdict(value).items():
        if (name in _NAMES or (is_named and name == "name")) and isinstance(field, str):
            changes[name] = namespace.inside(field)
        elif name in _PREFIXES:
            changes[name] = namespace.prefix + field
        elif name in _MAPS and isinstance(field, list | tuple | dict):
            changes[name] = _entries(field, namespace.inside)
        elif isinstance(field, msgspec.Struct):
            changes[name] = _renamed(field, namespace)
        elif isinstance(field, list | tuple) and field and isinstance(field[0], msgspec.Struct):
            changes[name] = type(field)(_renamed(each, namespace) for each in field)
    return msgspec.structs.replace(value, **changes) if changes else value


def query_outside(query: msgspec.Struct, namespace: Namespace) -> msgspec.Struct:
    """A query with names inside, as a tenant's client would have sent it."""
    changes = {
        name: field.removeprefix(namespace.prefix)
        for name, field in asdict(query).items()
        if name in _NAMES | _PREFIXES and isinstance(field, str)
    }
    return msgspec.structs.replace(query, **changes)


def _entries(found: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(found, dict):
        return {rename(name): each for name, each in found.items()}
    return type(found)(rename(each) if isinstance(each, str) else each for each in found)


def body_outside(body: bytes, namespace: Namespace) -> bytes:
    """The JSON of an answer in the names that a tenant's client knows."""
    try:
        answer = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return body
    return msgspec.json.encode(_Outside(namespace).walk(answer))


class _Outside:
    """Takes the names in a tree of JSON out of a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def walk(self, value: Any) -> Any:
        """The same tree with other names."""
        if isinstance(value, list):
            return [self._rename(x) if isinstance(x, str) else self.walk(x) for x in value]
        if not isinstance(value, dict):
            return value
        return {name: self._field(name, each, value) for name, each in value.items()}

    def _rename(self, name: str) -> str:
        return name.removeprefix(self._namespace.prefix)

    def _field(self, name: str, value: Any, holder: dict[str, Any]) -> Any:
        if isinstance(value, str):
            if name in _NAMES or (name == "name" and not _NAMED_BY.isdisjoint(holder)):
                return self._rename(value)
            return self._namespace.text_outside(value) if name in _TEXTS else value
        if name in _OPAQUE:
            return value
        if name in _MAPS and isinstance(value, dict):
            return {self._rename(key): self.walk(each) for key, each in value.items()}
        return self.walk(value)
