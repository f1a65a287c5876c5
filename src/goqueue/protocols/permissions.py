"""What one client may do: one object for a connection, or a request, of every protocol.

Decisions are the authorizer's. Here they are remembered until the rules change, because a
connection asks the same few questions with each of its requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from goqueue.access.principals import ANONYMOUS
from goqueue.access.rights import CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.access.principals import Principal
    from goqueue.access.rights import Right
    from goqueue.audit.access_trail import AccessTrail

T = TypeVar("T")

_MAX_DECISIONS: Final = 10_000
"""Remembered for one connection; at the bound all are asked for anew."""


class Decides(Protocol):
    """The authorizer, as far as clients are held to it."""

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything, because nothing else was configured."""

    @property
    def version(self) -> int:
        """Grows with every change of a rule, a role or a login."""

    def allows(self, principal: Principal, right: Right, name: str, host: str) -> bool:
        """Whether a client may do something."""

    def check(self, principal: Principal, right: Right, name: str, host: str) -> None:
        """Raise the refusal of `right` unless the client may do it."""

    def check_any(self, principal: Principal, right: Right, host: str) -> None:
        """Raise the refusal of `right` unless there may be a resource that it covers."""


class _Open:
    """Lets everybody do everything: nodes that have proven themselves, and what tests call."""

    is_open = True
    version = 0

    def allows(self, principal: Principal, right: Right, name: str, host: str) -> bool:
        del principal, right, name, host
        return True

    def check(self, principal: Principal, right: Right, name: str, host: str) -> None:
        del principal, right, name, host

    def check_any(self, principal: Principal, right: Right, host: str) -> None:
        del principal, right, host


OPEN: Final[Decides] = _Open()


class Permissions:
    """What the client of one connection, or of one request, may do."""

    __slots__ = (
        "_authorizer", "_counts", "_decisions", "_trail", "_version", "host", "principal"
    )  # fmt: skip

    def __init__(
        self,
        authorizer: Decides = OPEN,
        principal: Principal = ANONYMOUS,
        host: str = "",
        trail: AccessTrail | None = None,
        counts: Callable[[], bool] | None = None,
    ) -> None:
        """Let `authorizer` decide; refusals go to `trail`, where nothing else writes them down.

        `counts` tells whether the login still does; None: it does not end by itself.
        """
        self._counts = counts
        self._authorizer = authorizer
        self._trail = trail
        self.principal = principal
        self.host = host
        """The client's address, which rules may name."""
        self._version = authorizer.version
        self._decisions: dict[tuple[Right, str], bool] = {}

    @property
    def is_open(self) -> bool:
        """Whether everything is allowed: nothing need be asked."""
        return self._authorizer.is_open

    def as_principal(self, principal: Principal) -> Permissions:
        """Those of whoever has just logged in."""
        return Permissions(self._authorizer, principal, self.host, self._trail)

    @property
    def is_over(self) -> bool:
        """Whether the login behind them no longer counts, so that what was opened has to end."""
        return self._counts is not None and not self._counts()

    def allows(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        """Whether the client may do something to the resource of that name."""
        authorizer = self._authorizer
        if authorizer.is_open:
            return True
        if self._version != authorizer.version or len(self._decisions) >= _MAX_DECISIONS:
            self._decisions.clear()
            self._version = authorizer.version
        key = right, name
        found = self._decisions.get(key)
        if found is None:
            found = authorizer.allows(self.principal, right, name, self.host)
            self._decisions[key] = found
        return found

    def permits(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        """`allows`, for what is refused otherwise and not only left out: that is written down."""
        if self.allows(right, name):
            return True
        if self._trail is not None:
            kind = right.resource.name.lower()
            resource = kind if right.resource is ResourceType.CLUSTER else f"{kind}:{name}"
            self._trail.denied(self.principal.label, right.operation.name, resource, self.host)
        return False

    def require(self, right: Right, name: str = CLUSTER_NAME) -> None:
        """Return if the client may do something.

        Raises:
            AuthorizationFailedError: it may not; the text is the same whether the resource exists.
        """
        if not self.permits(right, name):
            self._authorizer.check(self.principal, right, name, self.host)

    def require_any(self, right: Right) -> None:
        """Return if there may be a resource that the client may do something to.

        For requests whose handlers look up what they are about: who may use none of the kind is
        refused before it is looked up, and so whether it exists or not.

        Raises:
            AuthorizationFailedError: there is none.
        """
        self._authorizer.check_any(self.principal, right, self.host)

    def visible(self, right: Right, items: Iterable[T], name: Callable[[T], str]) -> list[T]:
        """The items of a list that the client may see, by the names of their resources."""
        if self._authorizer.is_open:
            return list(items)
        return [item for item in items if self.allows(right, name(item))]


UNRESTRICTED: Final = Permissions()
"""Those of requests that no client has sent."""
