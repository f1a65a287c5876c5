"""When a connection has kept us waiting too long. Pure: it is told what happened, and when.

Ways to waste a server's memory without breaking a rule: send a frame byte by byte, take no
answers or take them byte by byte, do nothing at all.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.protocols.kafka.settings import ListenerSettings


class CloseReason(Enum):
    """Why a connection ended."""

    CLIENT = "the client closed it"
    BAD_REQUEST = "the request could not be read"
    HANDLER_FAILED = "a handler failed"
    SLOW_FRAME = "a frame took too long to arrive"
    HALF_SENT = "too many connections have half-sent frames, and it is the oldest of the new ones"
    SLOW_READER = "the client does not read its answers"
    TRICKLING_READER = "the client reads its answers too slowly"
    IDLE = "nothing happened for too long"
    REFUSED = "the client did not say who it is"
    SLOW_LOGIN = "the client did not log in in time"
    TOO_MANY = "there are too many connections"
    STOPPING = "the listener is stopping"


class Deadlines:
    """The clocks of one connection."""

    __slots__ = (
        "_backlog_bytes",
        "_backlog_since",
        "_frame_number",
        "_frame_since",
        "_last_activity",
        "_made",
        "_settings",
        "_taken_bytes",
        "_taken_since",
    )

    def __init__(self, settings: ListenerSettings, now: float) -> None:
        self._settings = settings
        self._made = now
        self._last_activity = now
        """When bytes arrived or an answer was ready."""
        self._frame_since = now
        """Since when the frame that is arriving has been arriving."""
        self._frame_number = -1
        self._backlog_since = self._taken_since = now
        """Since when too much has been unsent, and since when nothing more of it was taken."""
        self._backlog_bytes = 0
        """What was unsent when the backlog began, and what was written since."""
        self._taken_bytes = 0
        """How much of the backlog the client had taken when it was last looked at."""

    def age_s(self, now: float) -> float:
        """How long there has been the connection."""
        return now - self._made

    def active(self, now: float) -> None:
        """Bytes have arrived, or an answer is ready."""
        self._last_activity = now

    def frames(self, number: int, buffered_bytes: int) -> None:
        """`number` whole frames were taken so far, and so many bytes of the next are here."""
        if number != self._frame_number or not buffered_bytes:
            self._frame_number = number
            self._frame_since = self._last_activity

    def reading_resumed(self, now: float) -> None:
        """The pause was ours, so the frame gets its time anew."""
        self._frame_since = now

    def writing_paused(self, unsent_bytes: int, now: float) -> None:
        """Too much is unsent: a backlog begins."""
        self._backlog_bytes, self._backlog_since = unsent_bytes, now
        self._taken_bytes, self._taken_since = 0, now

    def backlog_grew(self, size: int) -> None:
        """An answer was written although writing is paused: its request had started before."""
        self._backlog_bytes += size

    def judge_writing(self, unsent_bytes: int, now: float) -> CloseReason | None:
        """Of a connection whose writing is paused."""
        taken = self._backlog_bytes - unsent_bytes
        if taken > self._taken_bytes:
            self._taken_bytes, self._taken_since = taken, now
        settings = self._settings
        if now - self._taken_since > settings.stalled_write_s:
            return CloseReason.SLOW_READER
        allowed = settings.stalled_write_s + taken / settings.min_bytes_per_s
        return CloseReason.TRICKLING_READER if now - self._backlog_since > allowed else None

    def judge_login(self, now: float) -> CloseReason | None:
        """Of a connection that has not logged in since it was made."""
        return CloseReason.SLOW_LOGIN if now - self._made > self._settings.login_s else None

    def judge_reading(
        self, buffered_bytes: int, now: float, *, patience_s: float = math.inf
    ) -> CloseReason | None:
        """Of a connection with nothing under way, of whose frame a part arrives every so often."""
        settings = self._settings
        if not buffered_bytes:
            return CloseReason.IDLE if now - self._last_activity > settings.idle_s else None
        stalled_s = now - max(self._last_activity, self._frame_since)
        if stalled_s > patience_s:
            return CloseReason.SLOW_FRAME
        allowed = settings.frame_grace_s + buffered_bytes / settings.min_bytes_per_s
        return CloseReason.SLOW_FRAME if now - self._frame_since > allowed else None
