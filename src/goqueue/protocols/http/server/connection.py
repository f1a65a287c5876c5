"""One HTTP connection: parse requests, let them be answered one after the other, write answers.

What is slow or large is bounded: whatever the connection waits for has a time to end, kept in
`expires_s` and looked at by the listener now and then, which costs a request nothing. Requests that
arrive while one is being answered wait in the order of arrival, and the socket is not read on until
they are through.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError
from goqueue.protocols.connected import ConnectedClient, shown_name
from goqueue.protocols.http.api.errors import (
    DeadlineExceededError,
    OverloadedError,
    RequestTimeoutError,
    StoppingError,
)
from goqueue.protocols.http.api.responses import Response, Stream
from goqueue.protocols.http.server.outflow import Outflow
from goqueue.protocols.http.server.request_reader import Reading, RequestReader
from goqueue.protocols.http.server.response_writer import head_of, log_access

if TYPE_CHECKING:
    from goqueue.access.principals import Principal
    from goqueue.protocols.http.api.router import Match
    from goqueue.protocols.http.server.exchange import Exchange
    from goqueue.protocols.http.server.service import HttpService

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINGER_S: Final = 2.0
"""How long a refused client may go on sending before the connection is dropped under it."""


class HttpConnection(asyncio.Protocol):
    """The server's end of one connection."""

    def __init__(self, service: HttpService) -> None:
        self._service = service
        self._settings = service.settings
        self._transport: asyncio.Transport
        self._reader = RequestReader(service, self)
        self.client_host = ""
        self._address = ""
        self._opened_s = service.loop.time()
        self._agent: bytes | None = None
        """What the client of the newest request calls itself."""
        self._principal: Principal | None = None
        """Who has sent the newest request that was answered."""
        self.certified: Principal | None = None
        self._waiting: deque[Exchange] = deque()
        self._active: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._outflow: Outflow | None = None
        """Set while the answer under way is one that goes on."""
        self._can_write = True
        self._is_reading = True
        self.expires_s = 0.0
        self.since_s = 0.0
        """Since when the connection waits for what it waits for now."""

    def client(self) -> ConnectedClient:
        """Who is connected; the principal is that of the request under way, or of the last one."""
        may = None if self._active is None else self._active.request.may
        principal = self._principal if may is None else may.principal
        return ConnectedClient(
            protocol="http",
            listener="HTTP",
            address=self._address,
            principal="" if principal is None else principal.label,
            client_id=None,
            software=shown_name(self._agent),
            age_s=self._service.loop.time() - self._opened_s,
        )

    # --- The connection ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect a request, unless there are too many of us."""
        self._transport = transport  # type: ignore[assignment]  # uvloop's is no asyncio.Transport
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.client_host = str(peer[0])
            self._address = f"{peer[0]}:{peer[1]}"
        principal_of = self._settings.certificate_principal
        if principal_of is not None:
            self.certified = principal_of(transport.get_extra_info("peercert"))
        self._expire_in(self._settings.head_s)
        if self._service.admit(self):
            return
        if self._service.is_flooded:
            self._transport.abort()
        else:
            limit = self._settings.max_connections
            self.refuse(OverloadedError(f"there are {limit} connections already: try again soon"))

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing can happen here before the client sends or reads."""
        return self._active is None

    def evict(self) -> None:
        """Make room for another connection."""
        if self._can_write and self._reader.state in {Reading.HEAD, Reading.BODY}:
            self.refuse(OverloadedError("the request was too slow for a full server: try again"))
            self._transport.close()
        else:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Nobody waits any more; what only waited for the client's sake ends."""
        del error
        service, active = self._service, self._active
        service.release(self)
        for exchange in (self._reader.incoming, *self._waiting, *((active,) if active else ())):
            service.bodies_bytes -= exchange.size_bytes
            exchange.size_bytes = 0
        self._waiting.clear()
        self._active = None
        self._reader.close()
        if active is not None and active.polls and self._task is not None:
            self._task.cancel()

    def eof_received(self) -> bool:
        """The client sends no more: stay for what is under way, unless it may take long."""
        if self._active is None or self._active.polls:
            return False
        self._active.keep_alive = False
        return True

    def _expire_in(self, seconds: float) -> None:
        self.since_s = self._service.loop.time()
        self.expires_s = self.since_s + seconds

    def expire(self) -> None:
        """The time for what this connection is waiting for is over."""
        if self._outflow is not None:
            self._transport.abort()
        elif self._active is not None:
            limit = self._settings.answer_s
            self.refuse(
                DeadlineExceededError(
                    f"no answer within {limit:.0f} s; what was asked for may still be done"
                )
            )
        elif self._can_write and self._reader.state in {Reading.HEAD, Reading.BODY}:
            self.refuse(RequestTimeoutError("the request did not arrive in time"))
        else:
            self._transport.abort()

    def stop(self) -> None:
        """Answer what has begun and take nothing more; polls are sent away at once."""
        if self._active is None:
            if self._reader.state in {Reading.NOTHING, Reading.DEAF}:
                self._transport.close()
        elif self._active.polls:
            if self._task is not None:
                self._task.cancel()
            if self._outflow is not None:
                self._end_outflow(self._outflow)
            else:
                self.refuse(StoppingError("the server is stopping"))

    def abort(self) -> None:
        """Drop the connection."""
        self._transport.abort()

    # --- Requests coming in --------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse on."""
        self._reader.feed(data)

    def expect(self, seconds: float) -> None:
        """The next part of a request has so long, unless an answer is under way."""
        if self._active is None:
            self._expire_in(seconds)

    def invite(self) -> None:
        """The client waits for a word before it sends the body."""
        if self._active is None:
            self._transport.write(_CONTINUE)

    def take(self, exchange: Exchange) -> None:
        """Answer a request when those before it are answered."""
        self._waiting.append(exchange)
        if len(self._waiting) >= self._settings.max_pipelined:
            self._reader.state = Reading.DEAF
            exchange.keep_alive = False
        self._go_on()

    def last(self) -> None:
        """Close after the last request that has arrived."""
        if (last := self._waiting[-1] if self._waiting else self._active) is not None:
            last.keep_alive = False

    def refuse(self, error: GoQueueError) -> None:
        """Answer what is under way with a problem and close; nothing more is listened to.

        That is the request being answered when its time is over. Otherwise it is the one coming
        in, which has to wait for the answers to those before it.
        """
        if self._reader.state is Reading.DEAF and self._active is None:
            return
        is_late = isinstance(error, DeadlineExceededError | StoppingError)
        exchange = self._active if is_late and self._active is not None else self._reader.incoming
        if exchange.request.request_id is None:
            exchange.request.request_id = self._service.app.request_id({})
        exchange.keep_alive = False
        exchange.refusal = error
        self._reader.state = Reading.DEAF
        if exchange is self._active:
            self._waiting.clear()
            app = self._service.app
            self._finish(exchange, app.refusal(exchange.request, error, exchange.match))
        else:
            self._waiting.append(exchange)
            self._go_on()

    # --- Answers going out ---------------------------------------------------------------------

    def _go_on(self) -> None:
        """Begin the next request, unless one is under way; read on unless some are waiting."""
        if self._active is None and self._waiting and self._can_write:
            self._begin(self._waiting.popleft())
        reads = not self._waiting and self._can_write
        if reads is not self._is_reading and not self._transport.is_closing():
            self._is_reading = reads
            (self._transport.resume_reading if reads else self._transport.pause_reading)()

    def _begin(self, exchange: Exchange) -> None:
        self._active = exchange
        self._agent = exchange.request.headers.get(b"user-agent")
        app, settings = self._service.app, self._settings
        polls = exchange.polls
        if polls and len(self._service.polls) >= settings.max_polls:
            exchange.refusal = OverloadedError(
                f"{settings.max_polls} requests wait for messages or events already: try again soon"
            )
        if exchange.match is not None and exchange.refusal is None:
            self._expire_in(settings.poll_s if polls else settings.answer_s)
            if polls:
                exchange.request.tenant_polls = self._service.tenant_polls
            work = self._answer(exchange, exchange.match)
            self._task = self._service.run(work, polls=polls)
            return
        try:
            if exchange.refusal is not None:
                raise exchange.refusal
            response = app.options(exchange.request)
        except GoQueueError as error:
            response = app.refusal(exchange.request, error, exchange.match)
        self._finish(exchange, response)

    async def _answer(self, exchange: Exchange, match: Match) -> None:
        response = await self._service.app.answer(exchange.request, match)
        if exchange.request.may is not None:
            self._principal = exchange.request.may.principal
        if self._active is not exchange:  # its time was over, or the client has gone
            return
        if isinstance(response, Stream):
            await self._pour(exchange, response)
        else:
            self._finish(exchange, response)

    async def _pour(self, exchange: Exchange, stream: Stream) -> None:
        """Write an answer that goes on; the connection ends with it."""
        service = self._service
        service.bodies_bytes -= exchange.size_bytes
        exchange.size_bytes = 0
        outflow = Outflow(self._transport, old_version=exchange.old_version)
        self._outflow = outflow
        self._expire_in(self._patience_s())
        await outflow.pour(stream, exchange.request, service.date)
        self._end_outflow(outflow)

    def _end_outflow(self, outflow: Outflow) -> None:
        outflow.end()
        self._active = self._task = self._outflow = None
        self._waiting.clear()
        self._close()

    def _finish(self, exchange: Exchange, response: Response) -> None:
        """Write an answer and turn to the next request."""
        service = self._service
        service.bodies_bytes -= exchange.size_bytes
        exchange.size_bytes = 0
        self._active = self._task = None
        closes = not exchange.keep_alive or service.is_stopping
        head = head_of(
            response,
            exchange.request,
            service.date,
            closes=closes,
            old_version=exchange.old_version,
        )
        self._transport.write(head if exchange.request.method == "HEAD" else head + response.body)
        log_access(exchange.request, response)
        if closes:
            self._close()
            return
        self._expire_in(self._patience_s())
        self._go_on()

    def _patience_s(self) -> float:
        """How long the client has for what comes next."""
        settings = self._settings
        if not self._can_write:
            return settings.write_s
        if self._outflow is not None:
            return math.inf
        if self._reader.state is Reading.NOTHING:
            return settings.idle_s
        return settings.head_s if self._reader.state is Reading.HEAD else settings.body_s

    def _close(self) -> None:
        """Close once everything is written.

        A client that is still sending would lose our answer if we closed under it: it is told that
        we are through, and what it sends is discarded for a moment.
        """
        transport = self._transport
        if transport.is_closing():
            return
        was_deaf, self._reader.state = self._reader.state is Reading.DEAF, Reading.DEAF
        if was_deaf and transport.can_write_eof():
            self._expire_in(_LINGER_S)
            transport.write_eof()
            if not self._is_reading:
                self._is_reading = True
                transport.resume_reading()
        else:
            self._expire_in(self._settings.write_s)
            transport.close()

    def pause_writing(self) -> None:
        """The client reads slowly: nothing more for it until it has caught up."""
        self._can_write = False
        if self._outflow is not None:
            self._outflow.pause()
        self._expire_in(self._settings.write_s)
        self._go_on()

    def resume_writing(self) -> None:
        """It has."""
        self._can_write = True
        if self._outflow is not None:
            self._outflow.resume()
        self._expire_in(self._patience_s())
        self._go_on()
