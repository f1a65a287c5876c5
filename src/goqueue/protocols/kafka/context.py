"""What a handler is told about the request besides its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from goqueue.protocols.kafka.codec import RequestPrefix

ANONYMOUS: Final = "User:ANONYMOUS"
"""Kafka's name for a client that was not asked who it is."""


class Session:
    """What lasts as long as the connection: who is on the other side, and what SASL has reached."""

    __slots__ = ("authenticated", "principal", "sasl")

    def __init__(self, *, authenticated: bool) -> None:
        self.authenticated = authenticated
        """Until this is true only ApiVersions and the SASL pair are served."""
        self.principal = ANONYMOUS
        self.sasl: object | None = None
        """The exchange under way; the SASL handlers alone know its type."""

    def authenticate(self, principal: str) -> None:
        """Open the gate for this principal."""
        self.principal = principal
        self.authenticated = True
        self.sasl = None


class Peer(Protocol):
    """The connection, as far as handlers may know it."""

    @property
    def host(self) -> str:
        """The client's address."""
        ...

    @property
    def listener_name(self) -> str:
        """Which listener accepted it; answers name that listener's advertised address."""
        ...

    @property
    def session(self) -> Session:
        """What lasts as long as the connection."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether an answer could still reach the client."""
        ...


class RequestContext:
    """The header of one request, and the connection it came by."""

    __slots__ = ("api_key", "client_id", "correlation_id", "peer", "version")

    def __init__(self, prefix: RequestPrefix, client_id: str | None, peer: Peer) -> None:
        self.api_key, self.version, self.correlation_id = prefix
        self.client_id = client_id
        self.peer = peer

    @property
    def client_host(self) -> str:
        """The client's address, without its port."""
        return self.peer.host

    @property
    def principal(self) -> str:
        """Who is asking."""
        return self.peer.session.principal

    @property
    def listener_name(self) -> str:
        """Which listener the request came by."""
        return self.peer.listener_name
