"""One client's connection: order, back-pressure and deadlines around its requests.

Requests start in the order they arrive, and answers leave in that order. A request whose API is
`pipelined` may start while earlier pipelined ones are still unanswered (several Produce requests
share one fsync that way); any other starts, as in Kafka, when all before it are answered. A
request that may not start yet stays in the buffer, or in the socket: nothing queues without a
bound.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, cast

from goqueue.protocols.kafka.connection.back_pressure import BackPressure
from goqueue.protocols.kafka.connection.budget import BYTES_A_READ
from goqueue.protocols.kafka.connection.deadlines import CloseReason
from goqueue.protocols.kafka.connection.dispatch import CALLS_A_TURN, HandlerFailedError
from goqueue.wire.kafka.errors import RequestError
from goqueue.wire.kafka.replies import Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from goqueue.protocols.kafka.connection.calls import Call, Coming
    from goqueue.protocols.kafka.connection.owner import Owner
    from goqueue.wire.kafka.frames import Response


class Connection(BackPressure):
    """Bytes in, answers out, in order. See `goqueue.protocols.kafka.context.Peer`."""

    def __init__(self, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(owner, loop)
        self._is_pumping = False

    # --- What the transport tells -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket, or refuse it."""
        # uvloop's transports have the methods of asyncio's class, and are not of it.
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.host = str(peer[0])
            self.address = f"{peer[0]}:{peer[1]}"
        else:
            self.host = "local"
        self.session.permissions.host = self.host
        if not self._owner.admit(self):
            self._reason = CloseReason.TOO_MANY
            self._transport.abort()
            return
        if self._settings.certificate_principal is not None:
            self._identify(transport.get_extra_info("peercert"))
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport.set_write_buffer_limits(high=self._settings.max_unsent_bytes)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the socket is read into: all connections share it, and leave nothing in it."""
        del sizehint
        return self._owner.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what arrived, and start what may start."""
        if self._reason is not None:
            return
        self._deadlines.active(self._loop.time())
        turns, share = self._owner.fair_reads, self._share
        if self._share_is_of is not self.session.permissions:
            share = self._take_share()
        if turns.last is not share:
            turns.changed(share)
        if not turns.is_shared:
            self._serve_read(nbytes)
        elif turns.is_used_up(share):
            self._hold_read(nbytes)
            return
        else:
            began_s, unsent_bytes = perf_counter(), self._transport.get_write_buffer_size()
            self._serve_read(nbytes)
            self._used(began_s, unsent_bytes)
        if nbytes == BYTES_A_READ and self._is_reading and not self._waits_for_turn:
            self._waits_for_turn = True
            self._transport.pause_reading()
            turns.wait(share, self)

    def _serve_read(self, nbytes: int) -> None:
        data = self._owner.buffer[:nbytes]
        if self._held_bytes:
            served = self._serve_beside(data)
        else:
            served = self._serve_straight(data) if self._may_serve_straight else 0
        if served < nbytes:
            if self._answers.held_bytes:
                self._answers.hold(self._transport.get_write_buffer_size())
            self._take(nbytes - served)
            self._frames.feed(data[served:])
            self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back what is held. Handlers that change something run on; long polls end."""
        reason = self._reason = self._reason or CloseReason.CLIENT
        running = [call for call in self._pending if not call.is_done]
        self._pending.clear()
        self._waiting = None
        self._drop_unfinished()
        self._release(self._held_bytes - sum(call.size_bytes for call in running))
        self._owner.budget.leave(self)
        self._answers.granted_bytes = 0
        self._answers.hold(0)
        self._owner.forget(self, reason)
        for call in running:
            future = call.future
            if future is None:
                continue
            if call.is_long_poll:
                future.cancel()
            self._owner.keep(future.as_future() if isinstance(future, Reply) else future)

    def pause_writing(self) -> None:
        """Too much is unsent: start nothing, read nothing."""
        self._is_writable = False
        self._deadlines.writing_paused(self._transport.get_write_buffer_size(), self._loop.time())
        self.update_reading()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_writable = True
        self._pump()

    # --- Requests that go straight ----------------------------------------------------------------

    @property
    def _has_begun(self) -> bool:
        """Whether something has arrived that was not started."""
        return self._held_bytes > 0 and self._frames.buffered_bytes > 0

    @property
    def _may_serve_straight(self) -> bool:
        """Whether a request may start beside those under way; nothing is against the client."""
        session, pending = self.session, self._pending
        return (
            (
                not pending
                or (
                    pending[-1].is_pipelined
                    and len(pending) < self._settings.max_pipelined_requests
                )
            )
            and self._waiting is None
            and self._reason is None
            and not self._turn_scheduled
            and not self.is_muted
            and self._is_writable
            and self._close_when_answered is None
            and session.authenticated
            and session.take_token is None
            and self._frames.frame_count > 0
        )

    def _serve_beside(self, data: memoryview) -> int:
        """`_serve_straight` while requests are under way, or a part of one has arrived."""
        served = 0
        if self._has_begun and self._may_serve_straight:
            served = self._serve_begun(data)
        if not self._has_begun and self._may_serve_straight:
            served += self._serve_straight(data[served:] if served else data)
        return served

    def _serve_begun(self, data: memoryview) -> int:
        """Serve the request that has begun to arrive; returns how much of the buffer was its end.

        That is nothing while there is more to come of it.
        """
        missing = self._frames.missing_bytes
        if missing is None or missing > len(data):
            return 0
        self._take(missing)
        if self._serve_straight(self._frames.completed(data[:missing])):
            self._owner.budget.request_complete(self)
            self._drop_unfinished()
        else:
            self._pump()
        return missing

    def _serve_straight(self, data: memoryview) -> int:
        """Serve what goes straight at the start of the buffer; returns how many bytes that was.

        They are never held, so the budget need not know of them.
        """
        size = count = 0
        while True:
            try:
                taken, served, answers, waiting = self._owner.dispatcher.serve_straight(
                    data[size:] if size else data,
                    self._settings.max_request_bytes,
                    self,
                    is_behind=bool(self._pending),
                )
            except HandlerFailedError as error:
                self.close(CloseReason.HANDLER_FAILED, str(error))
                return len(data)
            size, count = size + taken, count + served
            self._frames.frame_count += served
            if answers:
                self._write(answers)
            if waiting is not None:
                self._start_behind(*waiting)
            if count >= CALLS_A_TURN:
                self._give_a_turn()
            # What comes behind one that waits may go straight, too.
            elif waiting is not None and size < len(data) and self._may_serve_straight:
                continue
            return size

    def _start_behind(self, call: Call, response: Awaitable[Response | None] | None) -> None:
        """Keep the place of a request among the answers; without a response it is answered."""
        self._take(call.size_bytes)
        self._pending.append(call)
        if response is None:
            self._answered(call)
        else:
            self._wait_for(call, response)
            if self._held_bytes > call.size_bytes or self._owner.budget.is_full:
                self.update_reading()

    # --- Starting requests ------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start what may start, in order, and read or stop reading accordingly."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            for _ in range(CALLS_A_TURN):
                call = self._next_call()
                if call is None:
                    break
                self._start(call)
            else:
                self._give_a_turn()
        except RequestError as error:
            self._close_after_answers(CloseReason.BAD_REQUEST, str(error))
        except HandlerFailedError as error:
            self.close(CloseReason.HANDLER_FAILED, str(error))
        finally:
            self._is_pumping = False
        buffered = self._frames.buffered_bytes
        self._deadlines.frames(self._frames.frame_count, buffered)
        if buffered != self._unfinished_bytes:
            change, self._unfinished_bytes = buffered - self._unfinished_bytes, buffered
            self._owner.budget.unfinished_changed(change)
            if buffered and not self._frames.frame_count:
                self._owner.budget.first_request_begun(self)
        if buffered >= BYTES_A_READ and self._waiting is None and not self.is_muted:
            # What a client may not publish yet is not read to its end, which could be far.
            self._owner.dispatcher.admits(self, self._frames.begun_api_key)
        self.update_reading()

    def _next_call(self) -> Call | None:
        """The next request, if it may start now."""
        if (
            self._reason is not None
            or self._close_when_answered is not None
            or self._turn_scheduled
            or self.is_muted
            or not self._is_writable
            or len(self._pending) >= self._settings.max_pipelined_requests
        ):
            return None
        call = self._waiting or self._parse_next()
        if call is None:
            return None
        alone = not self._pending
        # The last one may have turned out to be large when it started.
        if (alone or (call.is_pipelined and self._pending[-1].is_pipelined)) and (
            self._owner.dispatcher.admits(self, call.ctx.api_key)
        ):
            self._waiting = None
            return call
        self._waiting = call
        return None

    def _parse_next(self) -> Call | None:
        settings = self._settings
        limit = (
            settings.max_request_bytes
            if self.session.authenticated
            else settings.max_unauthenticated_request_bytes
        )
        frame = self._frames.next_frame(limit, min(limit, settings.max_other_request_bytes))
        if frame is None:
            return None
        self._owner.budget.request_complete(self)
        return self._owner.dispatcher.parse(frame, self)

    def _start(self, call: Call) -> None:
        self._pending.append(call)
        waited_for = self._owner.dispatcher.run(call)
        if waited_for is None:
            self._answered(call)
        else:
            self._wait_for(call, waited_for)

    def _wait_for(self, call: Call, response: Awaitable[Response | None]) -> None:
        finished = partial(self._finished, call)
        if isinstance(response, Reply):
            call.future = response
            response.add_done_callback(finished)
            return
        call.future = asyncio.ensure_future(response, loop=self._loop)
        call.future.add_done_callback(finished)
        if isinstance(call.future, asyncio.Task):
            # Its first step runs in the next turn, and the request behind it must not overtake it.
            self._give_a_turn()

    def _give_a_turn(self) -> None:
        self._turn_scheduled = True
        self._loop.call_soon(self._next_turn)

    def _go_on(self) -> None:
        arrived = self._frames.arrived
        if arrived and self._may_serve_straight:
            served = self._serve_straight(arrived)
            self._frames.skip(served)
            self._owner.budget.request_complete(self)
            self._release(served)
        self._pump()

    # --- Answers ----------------------------------------------------------------------------------

    def _finished(self, call: Call, future: Coming) -> None:
        """A handler that had to be waited for is done."""
        # Its error holds the call by the frames of its traceback: together they would be a cycle,
        # and the request, up to megabytes, would wait for a collection of garbage.
        call.future = None
        if self._reason is not None:
            self._abandoned(call, future)
            return
        try:
            if future.cancelled():
                call.is_done = True
                self._close_after_answers(CloseReason.HANDLER_FAILED, "it was cancelled")
            elif isinstance(error := future.exception(), RequestError):
                call.is_done = True  # a large request, which is read after it has started
                self._close_after_answers(CloseReason.BAD_REQUEST, str(error))
            elif error is not None:
                self._owner.dispatcher.fail(call, error)
            else:
                self._owner.dispatcher.finish(call, future.result())
        except HandlerFailedError as error:
            self.close(CloseReason.HANDLER_FAILED, str(error))
            return
        self._answered(call)
        if self._waiting is not None or self._frames.buffered_bytes:
            self._pump()
        else:
            self.update_reading()

    def _answered(self, call: Call) -> None:
        """An answer is known: send it, unless an earlier one is still missing."""
        self._deadlines.active(self._loop.time())
        self._release(call.size_bytes)
        pending = self._pending
        while pending and pending[0].is_done:
            answer = pending.popleft().answer
            if answer is not None and not self._transport.is_closing():
                if not self._is_writable:
                    self._deadlines.backlog_grew(sum(map(len, answer)))
                self._transport.writelines(answer)
        self._answers.granted_bytes = 0
        self._answers.hold(self._transport.get_write_buffer_size())
        if self._close_when_answered is not None and not pending:
            self._close_soon(*self._close_when_answered)

    # --- Back-pressure ----------------------------------------------------------------------------

    def _may_read(self) -> bool:
        if self._close_when_answered is not None or not self._is_writable or self.is_muted:
            return False
        is_busy = bool(self._pending) or self._waiting is not None or self._turn_scheduled
        if is_busy and self._held_bytes >= self._settings.max_connection_bytes:
            return False
        is_mid_request = not is_busy and self._frames.buffered_bytes > 0
        return not self._owner.budget.must_wait(
            self,
            self._held_bytes,
            is_mid_request=is_mid_request,
            is_known=self._frames.frame_count > 0,
        )
