"""The schema registry as a use case: decide, store in the internal topic, then apply and tell.

Changes come one after the other. A reader meanwhile sees the state before it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.model import internal_topics
from goqueue.model.errors import RegistryUnavailableError
from goqueue.partitions.damage import DamageKind, DamageReports
from goqueue.runtime.tasks import in_thread
from goqueue.schemas.process import REGISTRY_LIMITS, SchemaProcess
from goqueue.schemas.registry import Registry
from goqueue.state.coordinators import Family
from goqueue.state.serial import Decided, SerialShard
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from goqueue.partitions.topic_changes import TopicChanges
    from goqueue.state.log import StateEntry
    from goqueue.state.logs import StateLogs

_T = TypeVar("_T")

SCHEMAS_TOPIC: Final = internal_topics.SCHEMAS


class Schemas:
    """Every schema of this broker.

    The topic is made with the first schema: a broker without schemas has none.
    """

    def __init__(
        self,
        state_logs: StateLogs,
        changes: TopicChanges,
        damage: DamageReports,
        executor: Executor,
    ) -> None:
        self._state_logs = state_logs
        self._damage = damage
        self._executor = executor
        self._engine = SchemaProcess(REGISTRY_LIMITS)
        self.registry = Registry(self._engine)
        self.catch_up: Callable[[], Awaitable[None]] | None = None
        """Of a node that may have a copy: returns when that has all that was committed until now,
        or it turns out that nobody knows."""
        self.confirm: Callable[[], Awaitable[int | None]] | None = None
        """Of a cluster: the epoch in which this node writes, once it is certain that no other one
        has begun to; None before the first schema."""
        self._loading = self.registry
        self.shard = SerialShard(
            self,
            partial(changes.create_internal, SCHEMAS_TOPIC, 1),
            partial(state_logs.log, SCHEMAS_TOPIC, 0, SnapshotKind.SCHEMAS),
            executor,
            _unavailable,
        )

    async def start(self) -> None:
        """Load what is stored."""
        await self._state_logs.coordinators.start(Family(SCHEMAS_TOPIC, 1, self.shard.made))

    async def stop(self) -> None:
        """Keep the state for the next start."""
        await self.shard.close()
        await in_thread(self._executor, self._engine.close)

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot."""
        return self.shard.snapshot_bytes

    # --- Questions and changes -------------------------------------------------------------------

    async def ask(self, question: Callable[[Registry], _T]) -> _T:
        """Answer something that takes a while, in a thread; nothing changes meanwhile."""
        return await self.shard.ask(lambda: self._answer(question))

    async def change(self, decide: Callable[[Registry], Decided[_T]]) -> _T:
        """Let the registry decide, make that durable, apply it.

        Raises:
            SchemaError: the registry refuses.
            RegistryUnavailableError: it could not be stored; nothing has happened.
        """

        async def decided() -> Decided[_T]:
            return await in_thread(self._executor, lambda: self._answer(decide))

        return await self.shard.change(decided)

    def _answer(self, question: Callable[[Registry], _T]) -> _T:
        self._engine.begin()
        return question(self.registry)

    async def has_changed(self, generation: int) -> bool:
        """Whether there is a later generation of the registry, also by way of another node.

        To be asked before something is refused for not being there: the node that writes may have
        stored it a moment ago.
        """
        if self.catch_up is not None and self.registry.generation == generation:
            await self.catch_up()
        return self.registry.generation != generation

    async def may_be_stale(self, generation: int) -> bool:
        """Whether a later generation of the registry has to be looked at before a refusal.

        The node that writes asks this before it says that something is not there: another one may
        have begun to write, and it may not have heard of that.

        Raises:
            ClusterError, RegistryUnavailableError: another node writes, or nobody knows.
        """
        if self.confirm is None:
            return False
        epoch = await self.confirm()
        if epoch is None:
            return False
        state = self.shard.state
        await state.active()
        if state.epoch != epoch:  # it leads anew, and has not loaded what others have stored
            raise _unavailable()
        return self.registry.generation != generation

    # --- What is stored --------------------------------------------------------------------------

    def apply(self, entries: Sequence[StateEntry]) -> None:
        """Take in what is stored now."""
        self.registry.apply(entries)

    def dump(self) -> Iterable[StateEntry]:
        """Everything, as entries that would build it."""
        return self.registry.contexts.dump()

    def begin(self) -> None:
        """A replay begins; until it is over, everybody sees what was before."""
        self._loading = Registry(self._engine)

    def replay(self, entries: Sequence[StateEntry], _lost_count: int) -> None:
        """Take in entries as they were stored."""
        self._loading.apply(entries)

    def loaded(self, lost_count: int) -> None:
        """The replay is over; report what is lost with entries that are damaged."""
        if not self.shard.state.is_led:
            return  # another node leads meanwhile, and what was replayed may not be committed
        self._loading.generation = self.registry.generation + 1
        self.registry = self._loading
        if lost_count:
            for each in self.registry.state.after_loss(lost_count):
                detail = f"{each} is lost with its schema: register it again"
                place = f"{SCHEMAS_TOPIC}-0"
                self._damage.note(DamageKind.STATE, place, detail, hash(each))


def _unavailable() -> RegistryUnavailableError:
    return RegistryUnavailableError("the registry's state could not be stored; try again")
