"""Fair turns between clients that send more than one read of the socket takes.

A read that fills the whole buffer may have more behind it, and the event loop would go on with the
same socket. Such a connection is not read on until its client's turn: in each turn of the event
loop one read of each tenant or, without tenants, of each principal. Clients that send little are
never held up, and wait for one read of each of the others at most.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

READS_IN_ROW: Final = 8
"""Of one connection, in as many turns, before the next one of the same client: a large request is
read to its end while what was read of it is in the processor's cache."""


class Reader(Protocol):
    """A connection that waits for its turn."""

    reads_in_row: int
    """Since another connection of its client had a turn."""

    def read_on(self) -> bool:
        """Read again; whether there is anything to read from."""


class FairReads:
    """Whose turn it is to be read from, on one listener."""

    __slots__ = ("_call_soon", "_is_scheduled", "_waiting")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: dict[Hashable, deque[Reader]] = {}
        """Connections by their client; each is in there once, and of none without connections."""
        self._is_scheduled = False

    def wait(self, client: Hashable, reader: Reader) -> None:
        """Let a connection that has stopped reading go on when it is its client's turn."""
        queue = self._waiting.get(client)
        if queue is None:
            queue = self._waiting[client] = deque()
        reader.reads_in_row += 1
        if reader.reads_in_row < READS_IN_ROW:
            queue.appendleft(reader)
        else:
            reader.reads_in_row = 0
            queue.append(reader)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_scheduled = False
        for client, queue in list(self._waiting.items()):
            while queue and not queue.popleft().read_on():
                pass  # it is closed or may not read: the next one of this client may
            if not queue:
                del self._waiting[client]
        if self._waiting:
            self._schedule()
