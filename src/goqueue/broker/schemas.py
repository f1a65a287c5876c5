"""The schema registry as a use case: decide, store in the internal topic, then apply and tell.

Changes come one after the other. Whoever asks while one is being stored sees what was before it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from goqueue.broker.schema_process import REGISTRY_LIMITS, SchemaProcess
from goqueue.broker.state_log import StateLog
from goqueue.model import internal_topics
from goqueue.model.errors import RegistryUnavailableError, StorageError
from goqueue.partitions.damage import DamageKind
from goqueue.partitions.partition import PartitionId
from goqueue.runtime.tasks import in_thread
from goqueue.schemas.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.broker.broker import Broker
    from goqueue.schemas.registry import Decided

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

SCHEMAS_TOPIC: Final = internal_topics.SCHEMAS
SCHEMAS: Final = 9
"""The kind of snapshot that holds schemas."""
SCHEMAS_NAME: Final = "schemas"


class Schemas:
    """Every schema of this broker.

    The topic is made with the first schema: a broker without schemas has none.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._state: StateLog | None = None
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[Any]] = set()
        """Under way; as many as there are requests for them."""
        self._is_stale = False
        """Something could not be stored, or it is not known whether it was: the log must be read
        again before anything else is decided."""
        self._engine = SchemaProcess(REGISTRY_LIMITS)
        self.registry = Registry(self._engine)

    async def start(self) -> None:
        """Load what is stored."""
        if SCHEMAS_TOPIC in self._broker.topics.catalogue.by_name:
            self._load()

    def _load(self) -> None:
        broker = self._broker
        if self._state is None:
            self._state = StateLog(
                broker.partitions.partition(PartitionId(SCHEMAS_TOPIC, 0)),
                SCHEMAS,
                broker.disk,
                broker.clock,
                partial(broker.measures.snapshot_saved, SCHEMAS_NAME),
            )
        generation = self.registry.generation
        self.registry = Registry(self._engine)
        self.registry.apply(self._state.replay())
        if self._state.lost_count:
            place = str(self._state.partition.id)
            for each in self.registry.state.after_loss(self._state.lost_count):
                detail = f"{each} is lost with its schema: register it again"
                broker.damage.note(DamageKind.STATE, place, detail, hash(each))
        self.registry.generation += generation
        self._is_stale = False

    async def stop(self) -> None:
        """Keep the state for the next start."""
        await asyncio.gather(*self._changes, return_exceptions=True)
        async with self._changing:
            if self._state is not None and not self._is_stale:
                self._state.save_snapshot(self.registry.contexts.dump())
        await in_thread(self._broker.executor, self._engine.close)

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot."""
        return 0 if self._state is None else self._state.snapshot_bytes

    # --- Questions and changes -------------------------------------------------------------------

    async def ask(self, question: Callable[[Registry], _T]) -> _T:
        """Answer something that takes a while, in a thread; nothing changes meanwhile."""
        async with self._changing:
            self._refresh()
            self._engine.begin()
            return await in_thread(self._broker.executor, partial(question, self.registry))

    async def change(self, decide: Callable[[Registry], Decided[_T]]) -> _T:
        """Let the registry decide, make that durable, apply it.

        Raises:
            SchemaError: the registry refuses.
            RegistryUnavailableError: it could not be stored; nothing has happened.
        """
        task = asyncio.create_task(self._change(decide))
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)  # to the end, also when whoever asked is gone meanwhile

    async def _change(self, decide: Callable[[Registry], Decided[_T]]) -> _T:
        async with self._changing:
            self._refresh()
            self._engine.begin()
            decided = await in_thread(self._broker.executor, partial(decide, self.registry))
            if not decided.entries:
                return decided.result
            state = await self._open()
            try:
                placed = state.append(decided.entries)
                await state.partition.durable(placed)
            except StorageError as error:
                self._is_stale = True
                _log.error("a schema could not be stored: %s", error)
                raise _unavailable() from error
            self.registry.apply(decided.entries)
            if state.snapshot_is_due:
                state.save_snapshot(self.registry.contexts.dump())
            return decided.result

    async def _open(self) -> StateLog:
        if self._state is None:
            await self._broker.create_internal_topic(SCHEMAS_TOPIC, 1)
            self._load()
        assert self._state is not None
        return self._state

    def _refresh(self) -> None:
        if not self._is_stale or self._state is None:
            return
        if self._state.partition.log.failure is not None:
            raise _unavailable()
        self._load()


def _unavailable() -> RegistryUnavailableError:
    return RegistryUnavailableError("the registry's state could not be stored; try again")
