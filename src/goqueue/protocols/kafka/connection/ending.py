"""How a connection ends: by a deadline, a refusal, the listener's stop, or the client.

What has started is answered first, unless there is no time for it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any

from goqueue.protocols.connected import ConnectedClient, shown_name
from goqueue.protocols.kafka.connection.budget import AnswerShare
from goqueue.protocols.kafka.connection.deadlines import CloseReason, Deadlines
from goqueue.protocols.kafka.context import Session
from goqueue.wire.kafka.frames import FrameReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.protocols.kafka.connection.calls import Call, Coming
    from goqueue.protocols.kafka.connection.owner import Owner
    from goqueue.wire.kafka.primitives import Buffer


_log = logging.getLogger(__name__)


class Ending(asyncio.BufferedProtocol, ABC):
    """What is under way on a connection, and how that comes to an end.

    A connection has 30 attributes at most: with more, CPython reads each of them slower.
    """

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
        self._answers = AnswerShare(owner.answers)
        self._is_reading = True
        self._is_writable = True
        self._deadlines = Deadlines(owner.settings, loop.time())
        self._reason: CloseReason | None = None
        """Set once the connection is to be closed; nothing starts after it."""
        self._close_when_answered: tuple[CloseReason, str] | None = None
        """Set when nothing more is to start, and what has started is still to be answered."""
        self._closing_since = 0.0
        self._held_bytes = 0
        """Received and not yet given back to the budget."""
        self._unfinished_bytes = 0
        """Those of them that the budget counts as part of no request under way."""
        self.host = ""
        self.address = "local"
        self.session = Session(
            authenticated=not owner.settings.requires_authentication,
            authorizer=owner.dispatcher.authorizer,
            trail=owner.dispatcher.trail,
        )

    @property
    def listener_name(self) -> str:
        """Which listener has accepted it."""
        return self._settings.name

    def client(self) -> ConnectedClient:
        """Who is connected."""
        session = self.session
        return ConnectedClient(
            protocol="kafka",
            listener=self.listener_name,
            address=self.address,
            principal=session.principal.label,
            client_id=shown_name(session.client_id),
            software=session.software,
            age_s=self._deadlines.age_s(self._loop.time()),
        )

    @property
    def is_open(self) -> bool:
        """Whether an answer could still reach the client."""
        return self._reason is None

    def _identify(self, certificate: Mapping[str, Any] | None) -> None:
        """Let a client in by its certificate, which TLS has verified; it may still use SASL."""
        principal_of = self._owner.settings.certificate_principal
        principal = None if principal_of is None else principal_of(certificate)
        if principal is not None:
            self.session.authenticate(principal)
            if (trail := self._owner.dispatcher.trail) is not None:
                trail.logged_in(principal.label, self.host, self.listener_name, "certificate")

    @abstractmethod
    def update_reading(self) -> None:
        """Read on or stop reading, as the bounds allow now."""

    # --- What it holds ----------------------------------------------------------------------------

    def _take(self, size: int) -> None:
        self._held_bytes += size
        self._owner.budget.take(size)

    def _drop_unfinished(self) -> None:
        """Forget what has arrived and is no request yet."""
        dropped_bytes = self._frames.buffered_bytes
        self._frames.clear()
        self._owner.budget.unfinished_changed(-self._unfinished_bytes)
        self._unfinished_bytes = 0
        self._release(dropped_bytes)

    def _release(self, size: int) -> None:
        self._held_bytes -= size
        self._owner.budget.give(size)

    def _abandoned(self, call: Call, future: Coming) -> None:
        """Nobody waits for the answer; its bytes are given back, its failure is still told."""
        call.is_done = True
        self._release(call.size_bytes)
        error = None if future.cancelled() else future.exception()
        if error is not None:
            _log.info("a request of %s, which has disconnected, failed: %r", self.host, error)

    def _write(self, answers: list[Buffer]) -> None:
        """Write answers for which no other waits."""
        transport = self._transport
        if transport.is_closing():
            return
        if len(answers) == 1:
            transport.write(answers[0])
        else:
            transport.writelines(answers)
        unsent = transport.get_write_buffer_size()
        if unsent or self._answers.held_bytes:
            self._answers.granted_bytes = 0
            self._answers.hold(unsent)

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
