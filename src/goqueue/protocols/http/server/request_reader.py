"""From the bytes of a connection to requests, within the bounds of each part of a request."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Protocol

import httptools

from goqueue.model.errors import GoQueueError
from goqueue.protocols.http.api.errors import (
    BodyTooLargeError,
    HeadTooLargeError,
    MalformedRequestError,
    OverloadedError,
)
from goqueue.protocols.http.api.requests import relative_target
from goqueue.protocols.http.server.exchange import Exchange

if TYPE_CHECKING:
    from goqueue.access.principals import Principal
    from goqueue.protocols.http.server.service import HttpService

    class Owner(Protocol):
        """The connection whose bytes are read."""

        client_host: str
        certified: Principal | None
        """Who the client is by its certificate."""

        def expect(self, seconds: float) -> None:
            """The next part of a request has so long, unless an answer is under way."""

        def invite(self) -> None:
            """The client waits for a word before it sends the body."""

        def take(self, exchange: Exchange) -> None:
            """A request is whole."""

        def last(self) -> None:
            """There will be no further request."""

        def refuse(self, error: GoQueueError) -> None:
            """The request that comes in is refused, and so is all that follows it."""


_MAX_PATH_SHOWN: Final = 100
_ONCE: Final = frozenset({b"host", b"authorization", b"origin", b"content-type"})
"""Headers that decide who may do what. Of two, a proxy might have looked at the other one."""


class Reading(Enum):
    """What the next bytes of the client belong to."""

    NOTHING = auto()
    """No request has begun."""
    HEAD = auto()
    BODY = auto()
    DEAF = auto()
    """There will be no further request; whatever still comes in is discarded."""


class RequestReader:
    """Parses what one client sends. The methods named `on_…` are called by the parser."""

    def __init__(self, service: HttpService, owner: Owner) -> None:
        self._service = service
        self._settings = service.settings
        self._owner = owner
        self._parser = httptools.HttpRequestParser(self)
        self._framing_bytes = 0
        """Received since the last byte of a body: heads, sizes of chunks, trailers."""
        self.state = Reading.NOTHING
        self.incoming = Exchange()

    def is_deaf(self) -> bool:
        """Whether nothing more is listened to."""
        return self.state is Reading.DEAF

    def close(self) -> None:
        """The connection is lost: let go of what refers back to here.

        A parser and its callbacks form a cycle. Thousands of closed connections would wait for a
        collection of garbage, which then stops everybody for a tenth of a second and longer.
        """
        self.state = Reading.DEAF
        del self._parser, self._owner

    def feed(self, data: bytes) -> None:
        """Parse on."""
        if self.is_deaf():
            return
        self._framing_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The request itself is whole; but nothing else than HTTP/1.1 is spoken here.
            self.state = Reading.DEAF
            self._owner.last()
            return
        except httptools.HttpParserError as error:
            if not self.is_deaf():
                self._owner.refuse(MalformedRequestError(f"this is not HTTP/1.1: {error}"))
            return
        limit = self._settings.max_head_bytes
        if self.state in {Reading.HEAD, Reading.BODY} and self._framing_bytes > limit:
            part = "headers" if self.state is Reading.HEAD else "trailers"
            self._owner.refuse(HeadTooLargeError(f"the {part} are larger than {limit} bytes"))

    def on_message_begin(self) -> None:
        """Expect the rest of a head that has begun."""
        if self.is_deaf():
            raise MalformedRequestError  # the only way to stop the parser
        self.state = Reading.HEAD
        self._owner.expect(self._settings.head_s)

    def on_url(self, url: bytes) -> None:
        """Some or all of the target."""
        self.incoming.request.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header. Trailers have no meaning here and are not kept."""
        if self.state is Reading.HEAD:
            name, headers = name.lower(), self.incoming.request.headers
            if name in _ONCE and name in headers:
                self.incoming.refusal = MalformedRequestError(
                    f"the request has two {name.decode('latin-1').title()} headers, expected one: "
                    "send it once"
                )
            headers[name] = value

    def on_headers_complete(self) -> None:
        """Find out who will answer, so that a body is taken only where it has a place."""
        exchange = self.incoming
        request = exchange.request
        request.method = self._parser.get_method().decode("latin-1")
        request.client_host = self._owner.client_host
        request.certified = self._owner.certified
        if self._settings.client_of is not None:
            forwarded = request.header(b"x-forwarded-for")
            request.client_host = self._settings.client_of(request.client_host, forwarded)
        if not request.target.startswith((b"/", b"*")):
            request.target = relative_target(request.target)
        request.request_id = self._service.app.request_id(request.headers)
        exchange.old_version = self._parser.get_http_version() == "1.0"
        self.state = Reading.BODY
        self._framing_bytes = 0
        self._owner.expect(self._settings.body_s)
        self._find_endpoint(exchange)
        self._check_size(exchange, int(request.headers.get(b"content-length", b"0")))
        if b"expect" in request.headers and exchange.refusal is None:
            self._owner.invite()

    def _find_endpoint(self, exchange: Exchange) -> None:
        request, service = exchange.request, self._service
        if exchange.refusal is not None:
            return
        try:
            if request.method != "OPTIONS":
                exchange.match = service.app.match(request)
        except GoQueueError as error:
            exchange.refusal = error
        match = exchange.match
        try:
            service.origin_policy.check(
                request, is_page=match is not None and match.endpoint.route.is_page
            )
        except GoQueueError as error:
            exchange.refusal = error

    def on_body(self, chunk: bytes) -> None:
        """Some of the body."""
        if self.is_deaf():
            return
        self._framing_bytes = 0
        exchange = self.incoming
        exchange.add(chunk)
        self._service.bodies_bytes += len(chunk)
        self._check_size(exchange, exchange.size_bytes)

    def _check_size(self, exchange: Exchange, size_bytes: int) -> None:
        match, limit = exchange.match, self._settings.max_head_bytes
        if match is not None and exchange.refusal is None:
            limit = match.endpoint.route.max_body_bytes
        if size_bytes > limit:
            path = exchange.request.raw_path[:_MAX_PATH_SHOWN].decode("latin-1")
            error = BodyTooLargeError(
                f"{path} takes a body of up to {limit} bytes, this one has at least {size_bytes}"
            )
            self._owner.refuse(exchange.refusal or error)
        elif self._service.bodies_bytes > self._settings.max_bodies_bytes:
            self._owner.refuse(OverloadedError("too many large requests at once: try again soon"))

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self.is_deaf():
            return
        exchange = self.incoming
        self.incoming = Exchange()
        self._framing_bytes = 0
        self.state = Reading.NOTHING
        exchange.keep_alive = self._parser.should_keep_alive()
        exchange.end()
        self._owner.take(exchange)
