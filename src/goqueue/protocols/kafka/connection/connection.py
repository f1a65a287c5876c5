"""One client's connection: order, back-pressure and deadlines around its requests.

Requests start in the order they arrive, and answers leave in that order. A request whose API is
`pipelined` may start while earlier pipelined ones are still unanswered (several Produce requests
share one fsync that way); any other starts, as in Kafka, when all before it are answered. A
request that may not start yet stays in the buffer, or in the socket: nothing queues without a
bound.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from goqueue.protocols.kafka.connection.budget import AnswerShare
from goqueue.protocols.kafka.connection.deadlines import CloseReason, Deadlines
from goqueue.protocols.kafka.connection.dispatch import Call, HandlerFailedError
from goqueue.protocols.kafka.context import Session
from goqueue.wire.kafka.errors import RequestError
from goqueue.wire.kafka.frames import FrameReader, Response

if TYPE_CHECKING:
    from goqueue.protocols.kafka.connection.owner import Owner

_log = logging.getLogger(__name__)

_CALLS_A_TURN: Final = 64
"""Requests of one connection handled before the event loop gets its turn."""


class Connection(asyncio.Protocol):
    """Bytes in, answers out, in order. See `goqueue.protocols.kafka.context.Peer`."""

    def __init__(self, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._settings = owner.settings
        self._loop = loop
        self._transport: asyncio.Transport
        self._frames = FrameReader()
        self._pending: deque[Call] = deque()
        """Started and not yet answered, in order of arrival."""
        self._waiting: Call | None = None
        """Parsed, and may not start before `_pending` is empty."""
        self._held_bytes = 0
        """Received and not yet given back to the budget."""
        self._unfinished_bytes = 0
        """Those of them that the budget counts as part of no request under way."""
        self._answers = AnswerShare(owner.answers)
        self._reason: CloseReason | None = None
        """Set once the connection is to be closed; nothing starts after it."""
        self._close_when_answered: tuple[CloseReason, str] | None = None
        """Set when nothing more is to start, and what has started is still to be answered."""
        self._turn_scheduled = False
        """The event loop has its turn; nothing starts before `_next_turn`."""
        self._is_pumping = False
        self._is_reading = True
        self._is_writable = True
        self._deadlines = Deadlines(owner.settings, loop.time())
        self._closing_since = 0.0
        self.host = ""
        self.listener_name = owner.settings.name
        self.session = Session(authenticated=not owner.settings.requires_authentication)

    @property
    def is_open(self) -> bool:
        """Whether an answer could still reach the client."""
        return self._reason is None

    # --- What the transport tells -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket, or refuse it."""
        # uvloop's transports have the methods of asyncio's class, and are not of it.
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if isinstance(peer, tuple) else "local"
        if not self._owner.admit(self):
            self._reason = CloseReason.TOO_MANY
            self._transport.abort()
            return
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport.set_write_buffer_limits(high=self._settings.max_unsent_bytes)

    def data_received(self, data: bytes) -> None:
        """Take what arrived, and start what may start."""
        if self._reason is not None:
            return
        self._deadlines.active(self._loop.time())
        if self._answers.held_bytes:
            self._answers.hold(self._transport.get_write_buffer_size())
        self._frames.feed(data)
        self._held_bytes += len(data)
        self._owner.budget.take(len(data))
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
            if call.future is None:
                continue
            if call.is_long_poll:
                call.future.cancel()
            self._owner.keep(call.future)

    def pause_writing(self) -> None:
        """Too much is unsent: start nothing, read nothing."""
        self._is_writable = False
        self._deadlines.writing_paused(self._transport.get_write_buffer_size(), self._loop.time())
        self.update_reading()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_writable = True
        self._pump()

    # --- Starting requests ------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start what may start, in order, and read or stop reading accordingly."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            for _ in range(_CALLS_A_TURN):
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
        self.update_reading()

    def _next_call(self) -> Call | None:
        """The next request, if it may start now."""
        if (
            self._reason is not None
            or self._close_when_answered is not None
            or self._turn_scheduled
            or not self._is_writable
            or len(self._pending) >= self._settings.max_pipelined_requests
        ):
            return None
        call = self._waiting or self._parse_next()
        if call is None:
            return None
        alone = not self._pending
        # The last one may have turned out to be large when it started.
        if alone or (call.is_pipelined and self._pending[-1].is_pipelined):
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
            return
        call.future = asyncio.ensure_future(waited_for, loop=self._loop)
        call.future.add_done_callback(partial(self._finished, call))
        if isinstance(call.future, asyncio.Task):
            # Its first step runs in the next turn, and the request behind it must not overtake it.
            self._give_a_turn()

    def _give_a_turn(self) -> None:
        self._turn_scheduled = True
        self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_scheduled = False
        self._pump()

    # --- Answers ----------------------------------------------------------------------------------

    def _finished(self, call: Call, future: asyncio.Future[Response | None]) -> None:
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
        self._pump()

    def _abandoned(self, call: Call, future: asyncio.Future[Response | None]) -> None:
        """Nobody waits for the answer; its bytes are given back, its failure is still told."""
        call.is_done = True
        self._release(call.size_bytes)
        error = None if future.cancelled() else future.exception()
        if error is not None:
            _log.info("a request of %s, which has disconnected, failed: %r", self.host, error)

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

    def _drop_unfinished(self) -> None:
        """Forget what has arrived and is no request yet."""
        dropped_bytes = self._frames.buffered_bytes
        self._frames = FrameReader()
        self._owner.budget.unfinished_changed(-self._unfinished_bytes)
        self._unfinished_bytes = 0
        self._release(dropped_bytes)

    def _release(self, size: int) -> None:
        self._held_bytes -= size
        self._owner.budget.give(size)

    # --- Back-pressure ----------------------------------------------------------------------------

    def grant_answer_bytes(self, wanted_bytes: int) -> int:
        """Count an answer before it is read: many that start at once must not share one room.

        Only for requests that run alone on their connection; the count is put right when the
        answer is written, which may be larger by what a first batch goes beyond it.
        """
        granted = min(wanted_bytes, self._owner.answers.room_bytes)
        if self._reason is None:
            self._answers.granted_bytes = granted
            self._answers.hold(self._transport.get_write_buffer_size())
        return granted

    def update_reading(self) -> None:
        """Read on or stop reading, as the bounds allow now."""
        if self._reason is not None or self._transport.is_closing():
            return
        is_reading = self._may_read()
        if is_reading == self._is_reading:
            return
        self._is_reading = is_reading
        if is_reading:
            self._deadlines.reading_resumed(self._loop.time())
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _may_read(self) -> bool:
        if self._close_when_answered is not None or not self._is_writable:
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

    def give_way(self) -> None:
        """Others need the bytes of the half-sent frame, which are given back at once."""
        self.close(
            CloseReason.HALF_SENT, f"{self._frames.buffered_bytes} bytes of a frame are here"
        )
        self._drop_unfinished()

    # --- Deadlines --------------------------------------------------------------------------------

    def sweep(self, now: float, *, patience_s: float = math.inf) -> bool:
        """Close after a deadline, or `patience_s` without a byte of a frame; whether it closed."""
        self.session.expire(now)
        self._answers.hold(self._transport.get_write_buffer_size())
        if self._reason is not None:
            if now - self._closing_since > self._settings.stalled_write_s:
                self._transport.abort()
            return False
        reason = self._judge(now, patience_s)
        if reason is None:
            return False
        unsent, buffered = self._transport.get_write_buffer_size(), self._frames.buffered_bytes
        self.close(reason, f"{unsent} bytes are unsent, {buffered} bytes of a frame are here")
        if not self._is_writable:
            self._transport.abort()
        return True

    def _judge(self, now: float, patience_s: float) -> CloseReason | None:
        deadlines = self._deadlines
        if not self._is_writable:
            return deadlines.judge_writing(self._transport.get_write_buffer_size(), now)
        if self.session.is_new and (reason := deadlines.judge_login(now)) is not None:
            return reason
        if not self._is_reading or self._pending or self._waiting is not None:
            return None
        return deadlines.judge_reading(self._frames.buffered_bytes, now, patience_s=patience_s)

    # --- The end ----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Read no more; close when what is under way has been answered. Long polls end now."""
        self._close_after_answers(CloseReason.STOPPING)
        for call in list(self._pending):
            if call.is_long_poll and call.future is not None:
                call.future.cancel()

    def refuse(self, detail: str) -> None:
        """Close when what is under way has been answered: the client may not stay."""
        self._close_after_answers(CloseReason.REFUSED, detail)

    def _close_after_answers(self, reason: CloseReason, detail: str = "") -> None:
        """Start nothing more; what has started is still answered."""
        if self._reason is None and self._close_when_answered is None:
            self._close_when_answered = (reason, detail)
            self.update_reading()
            if not self._pending:
                self.close(reason, detail)

    def _close_soon(self, reason: CloseReason, detail: str) -> None:
        """Close, but let a client that was refused read why: some drop what comes with the end."""
        if reason is CloseReason.REFUSED and (linger_s := self._settings.refused_linger_s):
            self._loop.call_later(linger_s, self.close, reason, detail)
        else:
            self.close(reason, detail)

    def close(self, reason: CloseReason, detail: str = "") -> None:
        """Close after what is already written; one line says why."""
        if self._reason is not None:
            return
        self._reason = reason
        self._closing_since = self._loop.time()
        if reason is not CloseReason.STOPPING:
            self._owner.report(self._closing_since, self.host, f"{reason.value}. {detail}")
        self._transport.close()

    def abort(self) -> None:
        """Close now, whatever is unsent."""
        self.close(CloseReason.STOPPING)
        self._transport.abort()
