"""What a handler sees: its request, where that came from, and what it may answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from goqueue.access.tenants.namespace import namespace_of
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.permissions import OPEN, Decides, Permissions
from goqueue.wire.kafka.frames import RequestPrefix, Response
from goqueue.wire.kafka.reading import Struct
from goqueue.wire.kafka.schemas import schema_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.access.principals import Principal
    from goqueue.access.tenants.namespace import Namespace
    from goqueue.audit.access_trail import AccessTrail
    from goqueue.quotas.client_meter import ClientMeter

    TokenHandler: TypeAlias = "Callable[[RequestContext, bytes], Awaitable[Response | None]]"
    """Takes a SASL token that came as a frame without a header."""

__all__ = ["Node", "Peer", "RequestContext", "Response", "Session", "Struct"]


def in_ms(wait_s: float) -> int:
    """A wait as answers tell it: never shorter than it is."""
    return math.ceil(wait_s * 1000)


class Node(NamedTuple):
    """One run of a node of the cluster."""

    node_id: int
    incarnation: int


class Session:
    """What lasts as long as the connection: who is on the other side, and what SASL has reached."""

    __slots__ = (
        "authenticated",
        "client_id",
        "expires_at",
        "meter",
        "meter_version",
        "namespace",
        "node",
        "on_lost",
        "permissions",
        "sasl",
        "software",
        "take_token",
    )

    def __init__(
        self, *, authenticated: bool, authorizer: Decides = OPEN, trail: AccessTrail | None = None
    ) -> None:
        self.authenticated = authenticated
        """Until this is true only ApiVersions and the SASL pair are served."""
        self.permissions = Permissions(authorizer, trail=trail)
        """What the client may do, whoever it is by now."""
        self.namespace: Namespace | None = None
        """The names of the client's tenant; None: it belongs to none, and names are as they are."""
        self.sasl: object | None = None
        """The exchange under way; the SASL handlers alone know its type."""
        self.take_token: TokenHandler | None = None
        """Set while frames are bare SASL tokens, without a header, and this is what takes them."""
        self.expires_at: float | None = None
        """When the login stops to count, as the event loop counts time; None: never."""
        self.node: Node | None = None
        """The node on the other side of a connection of the internal listener, once proven."""
        self.client_id: str | None = None
        self.software: str | None = None
        """Name and version of the client's library, as ApiVersions told them."""
        """What the client calls itself; those of one connection do not change it."""
        self.meter: ClientMeter | None = None
        """What the client takes of its quotas, as of `meter_version`; see `Throttling`."""
        self.meter_version = -1
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
        self.namespace = None if principal.tenant is None else namespace_of(principal.tenant)
        self.authenticated = True
        self.expires_at = expires_at
        self.sasl = self.take_token = None
        self.meter_version = -1

    def use_client_id(self, client_id: str | None) -> None:
        """Take what the client calls itself."""
        if client_id != self.client_id:
            self.client_id = client_id
            self.meter_version = -1

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

    @property
    def is_muted(self) -> bool:
        """Whether the client has to wait, and nothing may be started for it."""

    def throttle(self, wait_s: float) -> None:
        """Read and start nothing for so long: the client has exceeded a quota."""

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
        "throttle_ms",
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

        self.throttle_ms = 0
        """For how long the client has to wait, as its answer tells it."""

    def throttle(self, wait_s: float) -> None:
        """Let the client wait, if it is for any time: its answer says so, nothing more is read."""
        if wait_s > 0:
            self.throttle_ms = max(self.throttle_ms, in_ms(wait_s))
            self.peer.throttle(wait_s)

    @property
    def may(self) -> Permissions:
        """What the client may do."""
        return self.peer.session.permissions

    def refuse(self, array: str, answers: list[Any]) -> None:
        """Let an array of the answer say of some elements that the client may not use them."""
        if self.refused is None:
            self.refused = {}
        self.refused.setdefault(array, []).extend(answers)

    def completed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of an answer, with what was refused and how long the client has to wait."""
        if self.throttle_ms and tells_throttle(self.api_key, self.version):
            fields = {**fields, "throttle_time_ms": self.throttle_ms}
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


def tells_throttle(api_key: int, version: int) -> bool:
    """Whether the answers of an API say how long a client has to wait."""
    return "throttle_time_ms" in schema_of(api_key, version, "response").by_name
