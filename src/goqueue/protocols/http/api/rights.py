"""Which right a route needs: what `right=` of `@route` says.

    @route("GET", "/topics/{topic}", tag="topics", place=LOCAL, right=on_topic(DESCRIBE))
    right=all_of(on_group(READ), on_topic(READ, "body.topics"))

Names come from the path, the query or the body, as the fields of `places.Selector` do. A field that
holds several names needs the right on each. Where a handler finds the names in what it looks up, it
asks `may` itself, and its declaration says so by `within`; a list shows what `may` lets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.access.rights import CLUSTER_NAME, Operation, ResourceType, Right
from goqueue.protocols.http.api.places import Selector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from goqueue.protocols.http.api.handler_types import Types
    from goqueue.protocols.http.api.places import Arguments
    from goqueue.protocols.permissions import Permissions

READ: Final = Operation.READ
WRITE: Final = Operation.WRITE
CREATE: Final = Operation.CREATE
DELETE: Final = Operation.DELETE
ALTER: Final = Operation.ALTER
DESCRIBE: Final = Operation.DESCRIBE
DESCRIBE_CONFIGS: Final = Operation.DESCRIBE_CONFIGS
ALTER_CONFIGS: Final = Operation.ALTER_CONFIGS

TOPIC_READ: Final = Right(ResourceType.TOPIC, READ)
TOPIC_WRITE: Final = Right(ResourceType.TOPIC, WRITE)
TOPIC_CREATE: Final = Right(ResourceType.TOPIC, CREATE)
TOPIC_DESCRIBE: Final = Right(ResourceType.TOPIC, DESCRIBE)
GROUP_READ: Final = Right(ResourceType.GROUP, READ)
GROUP_DESCRIBE: Final = Right(ResourceType.GROUP, DESCRIBE)
ID_WRITE: Final = Right(ResourceType.TRANSACTIONAL_ID, WRITE)
ID_DESCRIBE: Final = Right(ResourceType.TRANSACTIONAL_ID, DESCRIBE)
CLUSTER_CREATE: Final = Right(ResourceType.CLUSTER, CREATE)
CLUSTER_DESCRIBE: Final = Right(ResourceType.CLUSTER, DESCRIBE)
CLUSTER_ALTER: Final = Right(ResourceType.CLUSTER, ALTER)
IDEMPOTENT_WRITE: Final = Right(ResourceType.CLUSTER, Operation.IDEMPOTENT_WRITE)


class Needs:
    """What a client must be allowed to do."""

    def __init__(self, *rights: Right, note: str = "") -> None:
        self.rights = rights
        self.note = note
        """What the rights alone do not tell, for the reference page."""

    def require(self, may: Permissions, arguments: Arguments) -> None:
        """Return if the client may call the handler with these arguments.

        Raises:
            AuthorizationFailedError: it may not.
        """

    def check(self, types: Types) -> None:
        """Raise `ValueError` where it looks for what requests of the route do not have."""

    def rows(self) -> Iterator[tuple[tuple[Right, ...], str]]:
        """For the reference page: rights of which one is needed, and of what."""
        yield self.rights, self.note


ANYONE: Final = Needs(note="any authenticated client")
"""Every authenticated client, where authentication is on."""

PUBLIC: Final = Needs(note="no authentication")
"""Pages and documents that are the same on every server."""

HEALTH: Final = Needs(note="no authentication, unless `auth.allow_health` is off")
"""What load balancers and orchestrators ask."""


def within(*rights: Right, note: str = "") -> Needs:
    """Rights that the handler asks for itself, by `may`, of what it finds."""
    return Needs(*rights, note=note)


class _Some(Needs):
    def require(self, may: Permissions, arguments: Arguments) -> None:
        del arguments
        may.require_any(self.rights[0])


def some(right: Right, *, note: str) -> Needs:
    """A right on something that the handler looks up.

    Who has it on nothing of the kind is refused before; to others what is not theirs is as if it
    did not exist.
    """
    return _Some(right, note=note)


class _Named(Needs):
    """A right on what a field names."""

    def __init__(
        self, right: Right, text: str, name: Callable[[str], str] | None = None, note: str = ""
    ) -> None:
        part, _, field = text.partition(".")
        super().__init__(right, note=note if part == "path" else f"`{field}` of the {part}")
        self._select = Selector(text)
        self._name = name

    def require(self, may: Permissions, arguments: Arguments) -> None:
        for name in _names(self._select(arguments)):
            may.require(self.rights[0], name if self._name is None else self._name(name))

    def check(self, types: Types) -> None:
        self._select.check(types)


def _names(value: Any) -> Iterable[str]:
    """One name, or several: in a list, or as the keys of a map. None: the field is left out."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value


def on_topic(operation: Operation, text: str = "path.topic") -> Needs:
    """A right on a topic."""
    return _Named(Right(ResourceType.TOPIC, operation), text)


def on_group(operation: Operation, text: str = "path.group") -> Needs:
    """A right on a group."""
    return _Named(Right(ResourceType.GROUP, operation), text)


def on_transactional_id(operation: Operation, text: str) -> Needs:
    """A right on a transactional id."""
    return _Named(Right(ResourceType.TRANSACTIONAL_ID, operation), text)


def named(right: Right, text: str, name: Callable[[str], str], note: str) -> Needs:
    """A right on the resource whose name follows from a field."""
    return _Named(right, text, name, note)


class _OnCluster(Needs):
    def require(self, may: Permissions, arguments: Arguments) -> None:
        del arguments
        may.require(self.rights[0], CLUSTER_NAME)


def on_cluster(operation: Operation) -> Needs:
    """A right on the cluster."""
    return _OnCluster(Right(ResourceType.CLUSTER, operation))


METRICS: Final = _OnCluster(CLUSTER_DESCRIBE, note="no authentication if `auth.open_metrics` is on")
"""What Prometheus asks."""


class _All(Needs):
    def __init__(self, *needs: Needs) -> None:
        super().__init__(*(right for each in needs for right in each.rights))
        self._needs = needs

    def require(self, may: Permissions, arguments: Arguments) -> None:
        for each in self._needs:
            each.require(may, arguments)

    def check(self, types: Types) -> None:
        for each in self._needs:
            each.check(types)

    def rows(self) -> Iterator[tuple[tuple[Right, ...], str]]:
        for each in self._needs:
            yield from each.rows()


def all_of(*needs: Needs) -> Needs:
    """Each of these."""
    return _All(*needs)
