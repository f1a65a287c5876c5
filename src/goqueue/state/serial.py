"""State that changes seldom: one change after the other, each whole, also when nobody waits for it.

A reader sees the old state while a change is being stored. The partition is made for the
first change: a broker that never has one has no topic for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from goqueue.model.errors import GoQueueError, StorageError
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.tasks import in_thread
from goqueue.state.machine import StateMachine
from goqueue.state.shard import StateShard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from concurrent.futures import Executor

    from goqueue.state.log import StateEntry, StateLog

_T = TypeVar("_T")


class Decided(NamedTuple, Generic[_T]):
    """What is to be stored, and what may be told once it is."""

    entries: Sequence[StateEntry]
    """Keys and values; none when nothing changes."""
    result: _T


class SerialMachine(StateMachine, Protocol):
    """What such a shard keeps."""

    def apply(self, entries: Sequence[StateEntry]) -> None:
        """Take in what is stored now."""


class SerialShard:
    """A shard of which one change is under way at a time."""

    def __init__(
        self,
        machine: SerialMachine,
        make_topic: Callable[[], Awaitable[None]],
        make_log: Callable[[], StateLog],
        executor: Executor,
        refusal: Callable[[], GoQueueError],
    ) -> None:
        """Keep `machine` in the log of the one partition of a topic."""
        self._machine = machine
        self._make_topic = make_topic
        self._make_log = make_log
        self._executor = executor
        self._refusal = refusal
        self._state: StateShard | None = None
        self.turn = asyncio.Lock()
        """Held by whatever changes the state, or reads it for a while."""
        self.spread: Callable[[int], Awaitable[None]] | None = None
        """Of a cluster: returns when other nodes have what was committed up to an offset."""
        self._changes: set[asyncio.Task[Any]] = set()
        """Under way; as many as there are requests for them."""

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot."""
        return 0 if self._state is None else self._state.log.snapshot_bytes

    def made(self, _number: int) -> Self:
        """Itself, once this node leads the partition; see `Family`."""
        self._state = StateShard(self._make_log(), self._machine, self._executor, self._refusal)
        return self

    @property
    def state(self) -> StateShard:
        """The state; raises the refusal while this node has never led its partition."""
        if self._state is None:
            raise self._refusal()
        return self._state

    async def close(self) -> None:
        """Let changes that are under way end, and keep the state for the next start."""
        await asyncio.gather(*self._changes, return_exceptions=True)
        async with self.turn:
            if self._state is not None:
                await self._state.save()
                await self._state.close()

    async def ask(self, question: Callable[[], _T]) -> _T:
        """Answer something that takes a while, in a thread; nothing changes meanwhile."""
        async with self.turn:
            if self._state is not None and self._state.is_open:  # or it is a copy
                await self._loaded()
            return await in_thread(self._executor, question)

    async def change(self, decide: Callable[[], Awaitable[Decided[_T]]]) -> _T:
        """Decide, append, wait until that is committed, apply it, and answer.

        Raises the refusal when it could not be stored: then nothing has happened.
        """
        task = asyncio.create_task(self._change(decide))
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)  # to the end, also when whoever asked is gone meanwhile

    async def _change(self, decide: Callable[[], Awaitable[Decided[_T]]]) -> _T:
        result, end = await self._stored(decide)
        if self.spread is not None and end is not None:
            await self.spread(end)
        return result

    async def _stored(self, decide: Callable[[], Awaitable[Decided[_T]]]) -> tuple[_T, int | None]:
        """What was decided, and where the log ends behind it; None: nothing has changed."""
        async with self.turn:
            await self._loaded()
            decision = await decide()
            if not decision.entries:
                return decision.result, None
            if self._state is None:
                await self._make_topic()
            state = self.state
            generation = state.generation
            try:
                end = state.append(decision.entries)
            except StorageError as error:
                raise state.failed(error) from error
            await state.committed(end)
            if state.generation == generation:  # or a replay has found it in the log
                self._machine.apply(decision.entries)
            if (saving := state.save_if_due()) is not None:
                await saving
            return decision.result, end

    async def _loaded(self) -> None:
        if self._state is not None:
            await self._state.active()
