"""Judges histories of registers: is there an order of the operations in which all answers are true?

The search is Wing and Gong's with Lowe's memory of visited states, as Porcupine has it. An
operation takes effect at one moment between its call and its answer. One without an answer takes
effect at any moment after its call, or never. Every written value is written once, so that an
operation without an answer whose value nobody saw can be left out.

    history = History()
    await Client(1, store, history, keys).run(is_over)
    assert history.problem() is None
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from goqueue.cluster.metadata import (
    ABSENT,
    Committed,
    Condition,
    Conflict,
    Put,
    Revision,
    Unknown,
)
from goqueue.model.errors import MetadataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.cluster.metadata import Entry, MetadataStore

_NEVER: Final = 1 << 62
"""The end of an operation that was not answered."""


class Kind(Enum):
    READ = "read"
    PUT = "put"
    SWAP = "compare-and-set"


@dataclass(slots=True)
class Operation:
    """One call on one register. Values are bytes; None is a register that is not there."""

    kind: Kind
    start: int
    written: bytes | None = None
    expected: bytes | None = None
    """Of a swap."""
    end: int = _NEVER
    is_conflict: bool = False
    seen: bytes | None = None
    """What a reading or a conflict told."""
    revision: int | None = None
    """That it was committed at."""

    @property
    def is_answered(self) -> bool:
        return self.end != _NEVER

    def after(self, value: bytes | None) -> tuple[bool, bytes | None]:
        """Whether the answer is true of a register with this value, and the value afterwards."""
        if self.kind is Kind.READ:
            return self.seen == value, value
        if self.is_conflict:
            return self.seen == value and self.expected != value, value
        if self.kind is Kind.SWAP and self.expected != value:
            return False, value
        return True, self.written


@dataclass(slots=True)
class History:
    """Everything that clients did and were told, by register."""

    operations: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    _moments: itertools.count[int] = field(default_factory=itertools.count)

    def begin(
        self, key: str, kind: Kind, written: bytes | None = None, expected: bytes | None = None
    ) -> Operation:
        operation = Operation(kind, next(self._moments), written, expected)
        self.operations[key].append(operation)
        return operation

    def end(self, operation: Operation) -> None:
        operation.end = next(self._moments)

    def forget(self, key: str, operation: Operation) -> None:
        """It did not happen, for sure."""
        self.operations[key].remove(operation)

    def count(self) -> int:
        return sum(map(len, self.operations.values()))

    def problem(self) -> str | None:
        """What is wrong; None when every answer can be true."""
        for key, operations in self.operations.items():
            if not is_linearizable(operations):
                return f"the answers about {key} cannot all be true"
        everything = [each for some in self.operations.values() for each in some]
        return _revision_problem(everything)


def is_linearizable(operations: Iterable[Operation], first: bytes | None = None) -> bool:
    """Whether the answers of one register, at first with this value, can all be true."""
    ordered = sorted(operations, key=lambda each: each.start)
    seen = {each.seen for each in ordered} | {
        each.expected for each in ordered if each.is_answered and not each.is_conflict
    }
    ordered = [each for each in ordered if each.is_answered or each.written in seen]
    everything = (1 << len(ordered)) - 1
    waiting: list[tuple[int, bytes | None]] = [(0, first)]
    visited = set(waiting)
    while waiting:
        done, value = waiting.pop()
        if done == everything:
            return True
        for number in _next(ordered, done):
            is_true, then = ordered[number].after(value)
            state = (done | 1 << number, then)
            if is_true and state not in visited:
                visited.add(state)
                waiting.append(state)
    return False


def _next(ordered: list[Operation], done: int) -> list[int]:
    """Those that may take effect next: begun before any other that is left was answered."""
    found = []
    number = (~done & (done + 1)).bit_length() - 1  # the first that is left
    earliest_end = _NEVER + 1
    while number < len(ordered) and ordered[number].start < earliest_end:
        if not done >> number & 1:
            found.append(number)
            earliest_end = min(earliest_end, ordered[number].end)
        number += 1
    return [each for each in found if ordered[each].start < earliest_end]


def _revision_problem(operations: list[Operation]) -> str | None:
    """Revisions must grow with time: who was answered before another began has the lower one."""
    highest = -1
    answered = sorted(
        (each for each in operations if each.revision is not None), key=lambda each: each.end
    )
    ended = iter(answered)
    next_end = next(ended, None)
    for operation in sorted(answered, key=lambda each: each.start):
        while next_end is not None and next_end.end < operation.start:
            highest = max(highest, next_end.revision or 0)
            next_end = next(ended, None)
        if (operation.revision or 0) <= highest:
            return f"revision {operation.revision} was given after {highest}"
    return None


class Client:
    """Reads, writes and swaps registers at random, one operation at a time."""

    def __init__(self, name: int, store: MetadataStore, history: History, keys: list[str]) -> None:
        self._name = name
        self._store = store
        self._history = history
        self._keys = keys
        self._random = random.Random(f"client-{name}")
        self._known: dict[str, Entry | None] = {}
        self._count = 0
        self.unknown = 0

    async def run(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            await self.step()

    async def step(self) -> None:
        key = self._random.choice(self._keys)
        chance = self._random.random()
        if key not in self._known or chance < 0.3:
            await self.read(key)
        else:
            await self._write(key, Kind.SWAP if chance < 0.9 else Kind.PUT)

    async def read(self, key: str) -> None:
        operation = self._history.begin(key, Kind.READ)
        try:
            entry = await self._store.get(key)
        except MetadataUnavailableError:
            self._history.forget(key, operation)
            return
        operation.seen = None if entry is None else entry.value
        self._history.end(operation)
        self._known[key] = entry

    async def _write(self, key: str, kind: Kind) -> None:
        known = self._known.pop(key)
        self._count += 1
        value = b"%d-%d" % (self._name, self._count)
        swaps = kind is Kind.SWAP
        revision = ABSENT if known is None else known.revision
        expected = known.value if swaps and known is not None else None
        operation = self._history.begin(key, kind, written=value, expected=expected)
        conditions = [Condition(key, Revision(revision))] if swaps else []
        try:
            result = await self._store.transact(conditions, [Put(key, value)])
        except MetadataUnavailableError:
            self._history.forget(key, operation)
            return
        if isinstance(result, Unknown):
            self.unknown += 1
            return
        if isinstance(result, Committed):
            operation.revision = result.revision
        elif isinstance(result, Conflict):
            entry = result.current[key]
            operation.is_conflict = True
            operation.seen = None if entry is None else entry.value
            self._known[key] = entry
        self._history.end(operation)
