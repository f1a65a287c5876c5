"""When a connection is read on and when not: bounds of memory, and quotas of its client."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from goqueue.protocols.kafka.connection.deadlines import CloseReason
from goqueue.protocols.kafka.connection.ending import Ending

if TYPE_CHECKING:
    import asyncio

    from goqueue.protocols.kafka.connection.owner import Owner


class BackPressure(Ending):
    """Stops reading from a client that sends or asks for too much."""

    def __init__(self, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(owner, loop)
        self.is_muted = False
        """A quota is exceeded: nothing is read or started until the client has waited."""
        self._muted_until_s = 0.0
        self._waits_for_turn = False
        """It has read as much as a turn takes: `FairReads` says when it reads on."""
        self._unmute: asyncio.TimerHandle | None = None

    @abstractmethod
    def _may_read(self) -> bool:
        """Whether the bounds allow to read on."""

    @abstractmethod
    def _go_on(self) -> None:
        """Start what has waited."""

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
            if not self._waits_for_turn:
                self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def throttle(self, wait_s: float) -> None:
        """Read and start nothing for so long; what has started is answered."""
        until_s = self._loop.time() + wait_s
        if self._reason is not None or (self.is_muted and until_s <= self._muted_until_s):
            return
        self._muted_until_s = until_s
        self.is_muted = True
        if self._unmute is not None:
            self._unmute.cancel()
        self._unmute = self._loop.call_at(until_s, self._unmuted)
        self.update_reading()

    def _unmuted(self) -> None:
        self._unmute = None
        self.is_muted = False
        if self._reason is None:
            self._deadlines.active(self._loop.time())
            self._go_on()

    def give_way(self) -> None:
        """Others need the bytes of the half-sent frame, which are given back at once."""
        self.close(
            CloseReason.HALF_SENT, f"{self._frames.buffered_bytes} bytes of a frame are here"
        )
        self._drop_unfinished()
