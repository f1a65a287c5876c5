"""The bytes that all connections of a listener hold together, and who waits when they are too many.

Of requests: at the limit every connection stops reading, except one: a request that is half
received would otherwise never be completed, and its bytes never given back. Connections that hold
little read on from a reserve; those of them that have sent a whole request before do not wait for
the half-sent frames of others at all. Of those that have never sent one, the oldest is closed when
the reserve is used up by half-sent frames. So the total stays under the limit plus two of the
largest requests, the reserve, and what all others may read in one turn of the event loop, whatever
the clients do.
Of answers: at the limit nobody waits, and answers become small.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.protocols.kafka.settings import ListenerSettings

BYTES_A_READ: Final = 256 * 1024
"""What the event loop takes from one socket in one go."""


class Waiter(Protocol):
    """A connection, as far as the budget knows it."""

    def update_reading(self) -> None:
        """The reason to wait is gone."""

    def give_way(self) -> None:
        """Close, and give back the bytes of the half-sent frame at once: others need them."""


class RequestBudget:
    """Counts bytes; keeps the connections that wait, oldest first."""

    def __init__(
        self, settings: ListenerSettings, on_exhausted: Callable[[], None] = lambda: None
    ) -> None:
        """`on_exhausted` is called when somebody has to wait who holds little or nothing."""
        self._on_exhausted = on_exhausted
        self._limit = settings.max_listener_bytes
        self._hard_limit = settings.max_listener_bytes + settings.max_request_bytes
        self._unfinished_limit = settings.max_unfinished_bytes
        self._reserve = settings.reserved_bytes
        self._small = settings.small_unfinished_bytes
        self._waiting: dict[Waiter, bool] = {}
        """Who waits, oldest first, and whether it is in the middle of a request."""
        self._waiting_small: dict[Waiter, None] = {}
        """Who holds little and waits for the reserve, oldest first."""
        self._waiting_known: dict[Waiter, None] = {}
        """Likewise, of those that have sent a whole request before."""
        self._strangers: dict[Waiter, None] = {}
        """Who has sent a part of its first request and no whole one, oldest first."""
        self._favoured: Waiter | None = None
        """The one that reads although the budget is full, until its request is whole."""
        self.used_bytes = 0
        """Bytes that have arrived and whose requests are not answered."""
        self.unfinished_bytes = 0
        """Those of them that are not a whole request yet, or one that may not start."""

    @property
    def is_full(self) -> bool:
        """Whether connections must stop reading."""
        return self._is_over(0)

    @property
    def is_exhausted(self) -> bool:
        """Whether the reserve is used up too, so that even small requests wait."""
        return self._is_over(self._reserve)

    def _is_over(self, more: int) -> bool:
        return (
            self.used_bytes >= self._limit + more
            or self.unfinished_bytes >= self._unfinished_limit + more
        )

    @property
    def _has_room_for_known(self) -> bool:
        """Half-sent frames do not count: they stand still, and are closed for it."""
        return self.used_bytes < self._limit + self._reserve

    @property
    def waiting_count(self) -> int:
        """Connections that would read if they might."""
        return len(self._waiting) + len(self._waiting_small) + len(self._waiting_known)

    def take(self, size: int) -> None:
        """Bytes have arrived."""
        self.used_bytes += size

    def give(self, size: int) -> None:
        """Bytes are no longer held."""
        self.used_bytes -= size
        self.let_in()

    def unfinished_changed(self, difference: int) -> None:
        """A connection holds so much more, or less, of requests that have not started."""
        self.unfinished_bytes += difference
        if difference < 0:
            self.let_in()

    def first_request_begun(self, stranger: Waiter) -> None:
        """A connection that has sent no whole request holds a part of one.

        Each may send something before it is told to wait, so waiting does not bound them: the
        oldest is closed when together with all other half-sent frames they take up the reserve.
        """
        strangers = self._strangers
        strangers[stranger] = None
        limit = self._unfinished_limit + self._reserve
        while self.unfinished_bytes >= limit and len(strangers) > 1:
            oldest = next(iter(strangers))
            del strangers[oldest]
            oldest.give_way()

    def must_wait(
        self, waiter: Waiter, held_bytes: int, *, is_mid_request: bool, is_known: bool = False
    ) -> bool:
        """Whether this connection has to stop reading; if so it is told when to go on.

        One that `is_known` has sent a whole request before.
        """
        if not self.is_full or waiter is self._favoured:
            return False
        if held_bytes < self._small:
            if not self.is_exhausted:
                return False
            self._on_exhausted()
            if is_known and self._has_room_for_known:
                return False
            if not is_mid_request:
                (self._waiting_known if is_known else self._waiting_small)[waiter] = None
                return True
        if is_mid_request and self._may_favour():
            self._favoured = waiter
            return False
        self._waiting[waiter] = is_mid_request
        return True

    def request_complete(self, waiter: Waiter) -> None:
        """A whole request was received: somebody else may be favoured now."""
        if self._strangers:
            self._strangers.pop(waiter, None)
        if waiter is self._favoured:
            self._favoured = None
            self.let_in()

    def leave(self, waiter: Waiter) -> None:
        """The connection is gone."""
        self._waiting.pop(waiter, None)
        self._waiting_small.pop(waiter, None)
        self._waiting_known.pop(waiter, None)
        self.request_complete(waiter)

    def _may_favour(self) -> bool:
        # Whole requests give their bytes back by themselves; half-received ones only if one reads.
        under_way = self.used_bytes - self.unfinished_bytes
        return self._favoured is None and under_way < self._hard_limit

    def let_in(self) -> None:
        """Wake those that wait, as many as there is room for what each may read at once."""
        if self._waiting_known and self._has_room_for_known:
            self._wake(self._waiting_known, self._limit + self._reserve - self.used_bytes)
        if self._waiting_small and not self.is_exhausted:
            self._wake(self._waiting_small, self._room_bytes + self._reserve)
        if not self._waiting:
            return
        if not self.is_full:
            self._wake(self._waiting, self._room_bytes)
        elif self._may_favour():
            # The others hold whole requests, whose handlers will give the bytes back.
            chosen = next((w for w, is_mid in self._waiting.items() if is_mid), None)
            if chosen is not None:
                self._favoured = chosen
                del self._waiting[chosen]
                chosen.update_reading()

    @property
    def _room_bytes(self) -> int:
        return min(self._limit - self.used_bytes, self._unfinished_limit - self.unfinished_bytes)

    def _wake(self, waiting: dict[Waiter, Any], room_bytes: int) -> None:
        for waiter in list(islice(waiting, 1 + room_bytes // BYTES_A_READ)):
            if waiting.pop(waiter, self) is not self:
                waiter.update_reading()


class AnswerBudget:
    """Counts what clients have yet to take, and says how large the next answer may be."""

    def __init__(self, limit_bytes: int, min_answer_bytes: int) -> None:
        self._limit = limit_bytes
        self._min_answer = min_answer_bytes
        self.unsent_bytes = 0
        """Unsent answers, and those being read from disk. Never less than there are: bytes that a
        client takes are noticed at its next request or answer, or at the next sweep."""

    @property
    def room_bytes(self) -> int:
        """How much one more answer may hold."""
        return max(self._min_answer, self._limit - self.unsent_bytes)


class AnswerShare:
    """What one connection holds of an `AnswerBudget`."""

    __slots__ = ("_budget", "granted_bytes", "held_bytes")

    def __init__(self, budget: AnswerBudget) -> None:
        self._budget = budget
        self.granted_bytes = 0
        """The size of an answer that is being read from disk."""
        self.held_bytes = 0
        """What the budget counts as unsent here, what is granted included."""

    def hold(self, unsent_bytes: int) -> None:
        """Count what is granted and what is unsent now."""
        held = self.granted_bytes + unsent_bytes
        self._budget.unsent_bytes += held - self.held_bytes
        self.held_bytes = held
