"""Every bound of a Kafka listener: its name, its default, and what happens when it is reached."""

from __future__ import annotations

import ssl

import msgspec

from goqueue.access.keys import Mechanism
from goqueue.access.principals import CertificatePrincipal
from goqueue.model.tuples import NamedTuple

_MIB = 1024 * 1024


class Address(msgspec.Struct, frozen=True):
    """Where clients reach this node, as it is advertised."""

    host: str
    port: int


class ConnectionLimits(NamedTuple):
    """How many connections a listener has at most, of all addresses and of each."""

    total: int
    per_ip: int


class ListenerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one listener behaves. Times are in seconds, as the event loop counts them."""

    host: str = "127.0.0.1"
    port: int = 9092
    """0 takes any free port; `Listener.port` says which."""
    name: str = "PLAINTEXT"
    """What handlers see, and what advertised addresses are looked up by."""
    tls: ssl.SSLContext | None = None
    requires_authentication: bool = False
    """Until SASL has succeeded, only ApiVersions and the SASL pair are served."""
    certificate_principal: CertificatePrincipal | None = None
    """Who a client is by its certificate, which then needs no SASL; None: all need it."""

    max_connections: int = 10_000
    """`max.connections`. One more is closed as soon as it is accepted."""
    max_connections_per_ip: int = (1 << 31) - 1
    """`max.connections.per.ip`. One more from the same address is closed likewise."""
    max_request_bytes: int = 100 * _MIB
    """`socket.request.max.bytes`. A longer frame closes its connection before it is read."""
    max_other_request_bytes: int = 4 * _MIB
    """The same for every API but Produce."""
    max_unauthenticated_request_bytes: int = 512 * 1024
    """The same before SASL has succeeded."""
    max_unauthenticated_connections: int = 1000
    """Connections on which SASL has not succeeded yet. One more is closed as soon as it is
    accepted."""
    login_s: float = 30.0
    """A connection on which SASL has not succeeded after so long is closed."""
    max_pipelined_requests: int = 64
    """Requests of one connection under way at once. The next waits in the socket."""
    max_connection_bytes: int = 16 * _MIB
    """Request bytes of one connection, under way or waiting. At the bound its socket is not read
    until an answer is ready; a single request may be larger, up to `max_request_bytes`."""
    max_listener_bytes: int = 256 * _MIB
    """The same for all connections together. At the bound no socket is read but one at a time, so
    that a half-received request can always be completed."""
    max_unfinished_bytes: int = 32 * _MIB
    """Bytes of half-received frames of all connections together. At the bound sockets are not read
    as above, and a frame of which nothing arrives for `pressed_frame_s` closes its connection. With
    `reserved_bytes` more, the oldest of the connections that have never sent a whole request is
    closed for each further one."""
    small_unfinished_bytes: int = 32 * 1024
    """A connection that holds less than this is read beyond both bounds, so that small requests
    need not wait for large ones, until all connections hold `reserved_bytes` more."""
    reserved_bytes: int = 8 * _MIB
    pressed_frame_s: float = 2.0
    exhausted_frame_s: float = 0.1
    """In place of `pressed_frame_s` when the reserve is used up too, and small requests wait."""
    max_unsent_bytes: int = 1 * _MIB
    """Answers that the client has not taken. Above it, no request of that connection starts and
    its socket is not read; one answer may be larger."""
    max_unsent_listener_bytes: int = 512 * _MIB
    """The same for all connections together, Fetch answers that are being read from disk included.
    A Fetch answer gets what is left of it; at the bound it gets `min_fetch_answer_bytes`. Beyond
    the bound there is thus at most that much, or one batch, and `max_unsent_bytes` a connection."""
    min_fetch_answer_bytes: int = 1 * _MIB
    """What a Fetch answer may hold however much is unsent elsewhere: consumers that do read must
    get on beside those that do not."""

    frame_grace_s: float = 30.0
    """A frame may take this long, and longer only while it arrives at `min_bytes_per_s`. After
    that the connection is closed."""
    min_bytes_per_s: int = 16 * 1024
    stalled_write_s: float = 30.0
    """A client with more than `max_unsent_bytes` unsent is dropped when it takes nothing for so
    long, or when after so long it has not taken them at `min_bytes_per_s`."""
    idle_s: float = 600.0
    """`connections.max.idle.ms`. A connection with nothing under way is closed after it."""
    refused_linger_s: float = 1.0
    """A client whose login failed has so long to read the answer before its connection ends."""
    sweep_s: float = 1.0
    """How often these deadlines are looked at."""


class SaslSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How clients log in, where a listener asks them to."""

    mechanisms: tuple[Mechanism, ...] = tuple(Mechanism)
    """`sasl.enabled.mechanisms`, in the order that clients are told."""
    session_lifetime_ms: int = 0
    """`connections.max.reauth.ms`. A login counts for so long; a connection that has not logged in
    anew by then is closed at its next request. 0: as long as the connection."""
    failure_delay_s: float = 0.1
    """`connection.failed.authentication.delay.ms`. A failed login is answered so much later, and
    its connection is closed: guessing costs a connection and this time for each guess."""
