"""Fair turns between the clients of a listener: tenants or, without tenants, principals.

While more than one client is active, each has a share of every turn of the event loop. A connection
whose client has used up its share is held: it is not read on, and what has arrived of it is served
in one of the next turns, a share of each client in each. So a client that sends little waits for
about a share of each of the others, however many connections they have and whatever they send.

A read that fills the whole buffer may have more behind it, and the event loop would go on with the
same socket: such a connection waits for its client's turn always. While one client is active alone,
that is all that is done.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

READS_IN_ROW: Final = 8
"""Of one connection, in as many turns, before the next one of the same client: a large request is
read to its end while what was read of it is in the processor's cache."""
SHARE_S: Final = 0.0005
"""What one client may use of a turn while others are active. A request that is being served is not
interrupted; a client that has used more than twice its share leaves the next turn to the others."""
SEND_S_A_BYTE: Final = 0.4e-9
"""What sending takes, about: answers are sent when the turn is over."""
ALONE_TURNS: Final = 1000
"""After so many turns in which one client alone was active, it is taken to be the only one."""


class Reader(Protocol):
    """A connection that waits for its turn."""

    reads_in_row: int
    """Since another connection of its client had a turn."""

    def read_on(self) -> bool:
        """Serve what was held and read again; whether that was its client's turn."""


class ClientShare:
    """What one client uses of the turns of the event loop; its connections have it together."""

    __slots__ = ("__weakref__", "key", "queue", "turn", "used_s")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.queue: deque[Reader] = deque()
        """Connections that wait, each once."""
        self.turn = 0
        self.used_s = 0.0
        """Of turn number `turn`."""


class FairReads:
    """Whose turn it is to be served, on one listener."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._shares: WeakValueDictionary[Hashable, ClientShare] = WeakValueDictionary()
        """Of clients that have connections."""
        self._waiting: dict[ClientShare, None] = {}
        """Those whose connections wait."""
        self._is_scheduled = False
        self._turn = 0
        self._alone_turns = 0
        self.last: ClientShare | None = None
        """Whose connection was active last."""
        self.is_shared = False
        """Whether more than one client was active lately."""

    def share_of(self, key: Hashable) -> ClientShare:
        """What the client of that name uses."""
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = ClientShare(key)
        return share

    def changed(self, share: ClientShare) -> None:
        """Another client is active than before."""
        self.is_shared = self.last is not None
        self.last = share
        self._alone_turns = 0

    def is_used_up(self, share: ClientShare) -> bool:
        """Whether a client has had its share of this turn, so that its connections are held."""
        self._begin(share)
        return share.used_s >= SHARE_S or bool(share.queue)

    def _begin(self, share: ClientShare) -> None:
        """Begin a turn of a client, unless that was done."""
        if share.turn == self._turn:
            return
        was_long = share.used_s > 2 * SHARE_S and share.turn == self._turn - 1
        share.turn, share.used_s = self._turn, SHARE_S if was_long else 0.0

    def has_had_its_share(self, share: ClientShare) -> bool:
        """Whether the next connection of a client has to wait for another turn."""
        return share.used_s >= SHARE_S

    def used(self, share: ClientShare, seconds: float) -> None:
        """A client was served for so long."""
        share.used_s += seconds
        self._schedule()

    def wait(self, share: ClientShare, reader: Reader) -> None:
        """Let a connection that has stopped reading go on when it is its client's turn."""
        reader.reads_in_row += 1
        if reader.reads_in_row < READS_IN_ROW:
            share.queue.appendleft(reader)
        else:
            reader.reads_in_row = 0
            share.queue.append(reader)
        self._waiting[share] = None
        self._schedule()

    def hold(self, share: ClientShare, reader: Reader) -> None:
        """Let a connection of which something has arrived be served after those that wait."""
        share.queue.append(reader)
        self._waiting[share] = None
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_scheduled = False
        self._turn += 1
        self._alone_turns += 1
        if self._alone_turns > ALONE_TURNS:
            self.is_shared, self._alone_turns = False, 0
        for share in list(self._waiting):
            self._begin(share)
            if share.used_s >= SHARE_S:
                continue
            # One that is closed, may not read, or had little to serve leaves the turn to the next.
            while share.queue and not share.queue.popleft().read_on():
                pass
            if not share.queue:
                del self._waiting[share]
        if self._waiting:
            self._schedule()
