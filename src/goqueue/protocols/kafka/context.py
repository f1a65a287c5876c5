"""What a handler sees: its request, where that came from, and what it may answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from goqueue.model.tuples import NamedTuple
from goqueue.protocols.permissions import OPEN, Decides, Permissions
from goqueue.wire.kafka.frames import RequestPrefix, Response
from goqueue.wire.kafka.reading import Struct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.access.principals import Principal

    TokenHandler: TypeAlias = "Callable[[RequestContext, bytes], Awaitable[Response | None]]"
    """Takes a SASL token that came as a frame without a header."""

__all__ = ["Node", "Peer", "RequestContext", "Response", "Session", "Struct"]


class Node(NamedTuple):
    """One run of a node of the cluster."""

    node_id: int
    incarnation: int


class Session:
    """What lasts as long as the connection: who is on the other side, and what SASL has reached."""

    __slots__ = (
        "authenticated",
        "expires_at",
        "node",
        "on_lost",
        "permissions",
        "sasl",
        "take_token",
    )

    def __init__(self, *, authenticated: bool, authorizer: Decides = OPEN) -> None:
        self.authenticated = authenticated
        """Until this is true only ApiVersions and the SASL pair are served."""
        self.permissions = Permissions(authorizer)
        """What the client may do, whoever it is by now."""
        self.sasl: object | None = None
        """The exchange under way; the SASL handlers alone know its type."""
        self.take_token: TokenHandler | None = None
        """Set while frames are bare SASL tokens, without a header, and this is what takes them."""
        self.expires_at: float | None = None
        """When the login stops to count, as the event loop counts time; None: never."""
        self.node: Node | None = None
        """The node on the other side of a connection of the internal listener, once proven."""
        self.on_lost: dict[object, Callable[[], None]] = {}
        """Called when the connection is gone, unless the server is stopping."""

    @property
    def principal(self) -> Principal:
        """Who the client is: `ANONYMOUS` before it has logged in."""
        return self.permissions.principal

    def authenticate_node(self, node: Node, principal: Principal) -> None:
        """Open the gate for another node, which may do everything."""
        self.authenticate(principal)
        self.permissions = Permissions(OPEN, principal, self.permissions.host)
        self.node = node

    def authenticate(self, principal: Principal, expires_at: float | None = None) -> None:
        """Open the gate for this principal."""
        self.permissions = self.permissions.as_principal(principal)
        self.authenticated = True
        self.expires_at = expires_at
        self.sasl = self.take_token = None

    @property
    def is_new(self) -> bool:
        """Whether nobody has logged in yet, although somebody must."""
        return not self.authenticated and self.expires_at is None

    def expire(self, now: float) -> None:
        """Close the gate again if the login has had its time."""
        if self.expires_at is not None and now >= self.expires_at:
            self.authenticated = False


class Peer(Protocol):
    """The connection, as far as handlers may know it."""

    @property
    def host(self) -> str:
        """The client's address."""

    @property
    def listener_name(self) -> str:
        """Which listener accepted it; answers name that listener's advertised address."""

    @property
    def session(self) -> Session:
        """What lasts as long as the connection."""

    @property
    def is_open(self) -> bool:
        """Whether an answer could still reach the client."""

    def grant_answer_bytes(self, wanted_bytes: int) -> int:
        """How much of a large answer may be read into memory now; it is counted until sent."""

    def refuse(self, detail: str) -> None:
        """Close the connection of a client that may not stay, once it has its answer."""


class RequestContext:
    """The header of one request, and the connection it came by."""

    __slots__ = (
        "api_key",
        "client_id",
        "correlation_id",
        "is_large",
        "is_long_poll",
        "peer",
        "refused",
        "version",
    )

    def __init__(self, prefix: RequestPrefix, client_id: str | None, peer: Peer) -> None:
        self.api_key, self.version, self.correlation_id = prefix
        self.client_id = client_id
        self.peer = peer
        self.is_large = False
        """Whether it lists or holds so much that it has to be handled in turns (`turns.in_turns`).
        No request of its connection starts before it is done."""
        self.is_long_poll = False
        """Set by the handler of an API of which some requests wait as `ApiSpec.long_poll` says."""
        self.refused: dict[str, list[Any]] | None = None
        """What the client may not do, as elements for arrays of the answer: see `refuse`."""

    @property
    def may(self) -> Permissions:
        """What the client may do."""
        return self.peer.session.permissions

    def refuse(self, array: str, answers: list[Any]) -> None:
        """Let an array of the answer say of some elements that the client may not use them."""
        if self.refused is None:
            self.refused = {}
        self.refused.setdefault(array, []).extend(answers)

    def with_refused(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of an answer, with what was refused."""
        if self.refused is None:
            return fields
        more = {name: [*fields.get(name, ()), *each] for name, each in self.refused.items()}
        return {**fields, **more}

    @property
    def client_host(self) -> str:
        """The client's address, without its port."""
        return self.peer.host

    @property
    def listener_name(self) -> str:
        """Which listener the request came by."""
        return self.peer.listener_name
