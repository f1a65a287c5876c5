"""Pages of 256 offsets: what a group knows of each message, in flat arrays."""

from __future__ import annotations

import re
from array import array
from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = 256

DumpedPage: TypeAlias = "tuple[bytes, bytes, bytes | None, bytes | None, bytes | None]"


class MessageState(IntEnum):
    """What a message is for the group."""

    AVAILABLE = 0
    IN_FLIGHT = 1
    WAITING = 2
    """For the time of its next delivery."""
    DOOMED = 3
    """Dead, and not yet in the dead-letter topic."""
    SETTLED = 4


SETTLED_BYTE: Final = bytes((MessageState.SETTLED,))
RUNS: Final = tuple(re.compile(re.escape(bytes((state,))) + b"+") for state in MessageState)
"""What finds the runs of each state among others."""
UNSETTLED: Final = re.compile(b"[^" + SETTLED_BYTE + b"]+")
TAKEABLE: Final = re.compile(b"[\0\2]+")
"""Available, or waiting: who replays what happened does not see that a message waited enough."""


class Flight:
    """What is kept of a page only while messages of it are in flight."""

    __slots__ = ("count", "leases", "nonces")

    def __init__(self) -> None:
        self.count = 0
        self.leases = array("I", bytes(4 * PAGE))
        self.nonces = array("Q", bytes(8 * PAGE))


class Page:
    """The state of 256 messages."""

    __slots__ = ("counts", "firsts", "flight", "settled", "states")

    def __init__(self) -> None:
        self.states = bytearray(PAGE)
        self.counts = bytearray(PAGE)
        """How often each was delivered, as far as a byte goes."""
        self.flight: Flight | None = None
        self.firsts: array[int] | None = None
        """When messages that are tried again were first delivered; 0 for all others."""
        self.settled = 0

    def note_first(self, at: int, upto: int, at_ms: int) -> None:
        """Remember when messages were delivered that come back for the first time."""
        firsts = self.firsts
        if firsts is None:
            firsts = self.firsts = array("q", bytes(8 * PAGE))
        known = firsts[at:upto]
        if not any(known):
            firsts[at:upto] = array("q", (at_ms,)) * (upto - at)
            return
        firsts[at:upto] = array("q", (each or at_ms for each in known))

    def tally(self) -> list[int]:
        """How many messages are in each state; those that are available are not counted."""
        return [0, *(self.states.count(state) for state in tuple(MessageState)[1:])]

    def flights(self, at: int, upto: int) -> Iterator[tuple[int, int, int]]:
        """What is in flight between two indices: from, to, and the number of the lease."""
        flight = self.flight
        if flight is None:
            return
        found = RUNS[MessageState.IN_FLIGHT].finditer(self.states, at, upto)
        for first, end in [run.span() for run in found]:
            numbers = flight.leases[first:end]
            if numbers.count(numbers[0]) == end - first:
                yield first, end, numbers[0]
                continue
            from_ = first
            for number, same in groupby(numbers):
                to = from_ + sum(1 for _ in same)
                yield from_, to, number
                from_ = to

    def lease_numbers(self) -> list[int]:
        """The lease of each message in flight."""
        if self.flight is None:
            return []
        pairs = zip(self.states, self.flight.leases, strict=True)
        return [lease for state, lease in pairs if state == MessageState.IN_FLIGHT]

    def dump(self) -> DumpedPage:
        """Everything, for a snapshot."""
        flight, firsts = self.flight, self.firsts
        return (
            bytes(self.states),
            bytes(self.counts),
            None if flight is None else flight.leases.tobytes(),
            None if flight is None else flight.nonces.tobytes(),
            None if firsts is None else firsts.tobytes(),
        )

    @classmethod
    def load(cls, dumped: DumpedPage) -> Page:
        """What `dump` gave."""
        states, counts, leases, nonces, firsts = dumped
        page = cls()
        page.states[:] = states
        page.counts[:] = counts
        page.settled = states.count(SETTLED_BYTE)
        if leases is not None and nonces is not None:
            page.flight = Flight()
            page.flight.leases = array("I", leases)
            page.flight.nonces = array("Q", nonces)
            page.flight.count = states.count(MessageState.IN_FLIGHT)
        if firsts is not None:
            page.firsts = array("q", firsts)
        return page

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the counts are not those of the states."""
        tally = self.tally()
        flying = 0 if self.flight is None else self.flight.count
        if flying != tally[MessageState.IN_FLIGHT]:
            raise InvariantError(f"{flying} messages are said to be in flight: {tally}")
        if self.settled != tally[MessageState.SETTLED] or self.settled == PAGE:
            raise InvariantError(f"{self.settled} messages are said to be settled: {tally}")
