"""What the HTTP listener is told, with what happens at each bound."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import msgspec

from goqueue.access.principals import CertificatePrincipal
from goqueue.protocols.http.limits import MAX_HEAD_BYTES


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen, and the bounds of connections and requests."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes any free port."""
    tls: ssl.SSLContext | None = None
    hosts: tuple[str, ...] = ()
    """Names of this server beside `localhost` and addresses; a request for another name: 403."""
    origins: tuple[str, ...] = ()
    """Sites whose pages may call, beside this server's own pages; those of others get 403."""

    certificate_principal: CertificatePrincipal | None = None
    """Who a client is by its certificate, where its requests carry no other credential."""
    client_of: Callable[[str, str], str] | None = None
    """A client's address by that of its connection and `X-Forwarded-For`; None: the former."""

    max_connections: int = 1000
    """One more takes the place of the one that has waited longest for its client. It is answered
    with 503 when all are being answered."""
    max_refused: int = 100
    """Connections beyond these that are being told so; one more is dropped without a word."""
    max_polls: int = 800
    """Requests that wait for something to happen; one more is answered with 503, so that there is
    room for others. Where there are tenants, one may have half of them; one more is answered with
    429."""
    max_pipelined: int = 256
    """Requests of one connection that wait for their turn. It is closed after the last of them, and
    what follows is discarded: the client sends it again, as RFC 9112 says."""
    max_head_bytes: int = MAX_HEAD_BYTES
    """Request line and headers; more are answered with 431."""
    max_bodies_bytes: int = 256 * 1024 * 1024
    """Bodies of all requests under way together; what goes beyond is answered with 503."""

    head_s: float = 10.0
    """From the connection, or the first byte of a later request, to the end of its head: then
    408."""
    body_s: float = 30.0
    """From the end of the head to the end of the body; then 408."""
    answer_s: float = 30.0
    """From the whole request to the answer; then 504, and what was begun is finished unseen."""
    poll_s: float = 75.0
    """The same for requests that wait for something to happen, which have a bound of their own."""
    write_s: float = 30.0
    """How long a client may take to accept an answer; then the connection is dropped."""
    idle_s: float = 60.0
    """How long a connection without a request stays open."""
    sweep_s: float = 0.25
    """How often connections are looked at, so how late any of these may be noticed."""
