"""When a connection is read on and when not: bounds of memory, and quotas of its client."""

from __future__ import annotations

from abc import abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING

from goqueue.protocols.kafka.connection.deadlines import CloseReason
from goqueue.protocols.kafka.connection.ending import Ending
from goqueue.protocols.kafka.connection.fair_reads import SEND_S_A_BYTE

if TYPE_CHECKING:
    import asyncio

    from goqueue.access.principals import Principal
    from goqueue.protocols.kafka.connection.fair_reads import ClientShare
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
        self._is_held = False
        """Its client has used up its share of turns: `FairReads` says when it is served."""
        self._turn_scheduled = False
        """The event loop has its turn, or others: nothing starts before `_next_turn`."""
        self.reads_in_row = 0
        self._share_is_of = self.session.permissions
        self._share = owner.fair_reads.share_of(_name_of(self.session.principal))
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

    # --- Turns ------------------------------------------------------------------------------------

    def _take_share(self) -> ClientShare:
        """Share the turns of whoever the client is by now."""
        self._share_is_of = self.session.permissions
        self._share = self._owner.fair_reads.share_of(_name_of(self.session.principal))
        return self._share

    def _hold_read(self, size: int) -> None:
        """Keep what has arrived until it is the client's turn."""
        if self._answers.held_bytes:
            self._answers.hold(self._transport.get_write_buffer_size())
        self._take(size)
        self._frames.feed(self._owner.buffer[:size])
        if not self._turn_scheduled:
            self._hold()

    def _next_turn(self) -> None:
        """Others had a turn: go on, if the client has something left of its share."""
        turns, share = self._owner.fair_reads, self._share
        if turns.is_shared and turns.is_used_up(share):
            self._hold()
            return
        self._turn_scheduled = False
        if turns.is_shared:
            self._go_on_in_turn()
        else:
            self._go_on()

    def _go_on_in_turn(self) -> None:
        began_s, unsent_bytes = perf_counter(), self._transport.get_write_buffer_size()
        self._go_on()
        self._used(began_s, unsent_bytes)

    def _used(self, began_s: float, unsent_bytes: int) -> None:
        """Count what was served since then, and what is to be sent for it."""
        more_bytes = max(self._transport.get_write_buffer_size() - unsent_bytes, 0)
        used_s = perf_counter() - began_s + more_bytes * SEND_S_A_BYTE
        self._owner.fair_reads.used(self._share, used_s)

    def _hold(self) -> None:
        """Read and start nothing until it is the client's turn."""
        self._turn_scheduled = self._is_held = True
        if self._waits_for_turn:
            return  # it waits among the others already
        self._waits_for_turn = True
        if self._is_reading:
            self._transport.pause_reading()
        self._owner.fair_reads.hold(self._share, self)

    def read_on(self) -> bool:
        """Serve what was held and read again, as `FairReads` says; whether that was a turn."""
        self._waits_for_turn = False
        was_held, self._is_held = self._is_held, False
        turns, share = self._owner.fair_reads, self._share
        if was_held and self._reason is None:
            self._turn_scheduled = False
            self._go_on_in_turn()
        if self._reason is not None or not self._is_reading or self._transport.is_closing():
            return was_held and turns.has_had_its_share(share)
        self._transport.resume_reading()
        return not was_held or turns.has_had_its_share(share)

    def give_way(self) -> None:
        """Others need the bytes of the half-sent frame, which are given back at once."""
        self.close(
            CloseReason.HALF_SENT, f"{self._frames.buffered_bytes} bytes of a frame are here"
        )
        self._drop_unfinished()


def _name_of(principal: Principal) -> str:
    """Whose turns a connection takes."""
    return principal.tenant or principal.name
