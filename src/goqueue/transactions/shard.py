"""One partition's worth of transactional ids: a coordinator, kept in a state shard.

The coordinator decides, this stores: what an event changes is in the log before the caller goes
on. When the log refuses, nothing that was not stored has happened.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.model.errors import (
    GoQueueError,
    NotTransactionCoordinatorError,
    StorageError,
    TransactionCoordinatorLoadingError,
    TransactionCoordinatorUnavailableError,
)
from goqueue.state.shard import ShardStatus, StateShard
from goqueue.transactions.encoding import StateRecord
from goqueue.transactions.messages import Effects, Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from goqueue.state.log import StateEntry, StateLog
    from goqueue.transactions.atomic_commit import SeriesCoordinator
    from goqueue.transactions.transaction import Transaction

_R = TypeVar("_R")

_COMPLETE_S: Final = 0.005
"""After so long without another event, that a transaction is carried out is stored on its own."""


class TransactionShard:
    """The transactional ids that lead to one partition of the transactions' topic."""

    def __init__(
        self,
        log: StateLog,
        make_coordinator: Callable[[], SeriesCoordinator],
        by_producer: dict[int, Transaction],
        executor: Executor,
        *,
        on_active: Callable[[TransactionShard], None] | None = None,
    ) -> None:
        """Keep a coordinator in `log`; others find its transactions in `by_producer`.

        In a cluster, where other nodes may coordinate the ids, `on_active` is called each time that
        this node has taken them over.
        """
        self._in_cluster = on_active is not None
        self.state = StateShard(
            log,
            self,
            executor,
            self._moved if self._in_cluster else _unavailable,
            on_active=lambda: None if on_active is None else on_active(self),
        )
        self.now_ms = self.state.now_ms
        self.coordinator = self._loading = make_coordinator()
        self._make_coordinator = make_coordinator
        self._by_producer = by_producer
        self._end_offset = 0
        """Where the log ended after the last event."""
        self.on_completed: Callable[[Effects], None] = lambda _: None
        """Told of the effects of what `complete_soon` was told."""
        self._over: list[Ending] = []
        """Transactions that are carried out, which is not stored yet."""
        self._completing: asyncio.TimerHandle | None = None

    # --- What is stored --------------------------------------------------------------------------

    def begin(self) -> None:
        """A replay begins; until it is over, everybody sees what was before."""
        self._loading = self._make_coordinator()

    def replay(self, entries: Sequence[StateEntry], _lost_count: int) -> None:
        """Take in entries as they were stored."""
        self._loading.load(StateRecord(key, value) for key, value in entries)

    def loaded(self, _lost_count: int) -> None:
        """The replay is over: everyone's session begins anew."""
        self.coordinator.clear()
        self.coordinator = self._loading
        self.coordinator.share(self._by_producer)
        self.coordinator.resume(self.now_ms())
        self._end_offset = 0
        self._over.clear()

    def dump(self) -> Iterable[StateEntry]:
        """Everything, as entries that would build it."""
        return self.coordinator.dump()

    async def close(self) -> None:
        """Keep the state for the next start, if this node still leads it; nobody finds it here."""
        await self.state.save()
        await self.state.close()
        self.coordinator.clear()

    def _moved(self) -> TransactionCoordinatorUnavailableError:
        """Why an id cannot be served on this node of a cluster."""
        state = self.state
        if not (state.is_open and state.is_led):
            return not_coordinator()
        if state.status is ShardStatus.LOADING and state.log.partition.failure is None:
            return TransactionCoordinatorLoadingError(
                "the state of the transactional id is being loaded; try again"
            )
        return _unavailable()

    async def ready(self) -> None:
        """Return when events can be seen. In a cluster it is said at once that they cannot."""
        if self._in_cluster:
            self.state.check()
        else:
            await self.state.active()

    @property
    def has_lost_entries(self) -> bool:
        """Whether something that was stored is damaged."""
        log = self.state.log
        return log.lost_count > 0 or log.partition.recovery.cut_whole

    # --- Events ----------------------------------------------------------------------------------

    def perform(self, event: Callable[[SeriesCoordinator, int, Effects], _R]) -> tuple[_R, Effects]:
        """Let the coordinator see an event, and store what it changes.

        Raises:
            TransactionError: the coordinator refuses; nothing has changed.
            TransactionCoordinatorUnavailableError: the log refuses; nothing has changed.
        """
        self.state.check()
        out = Effects()
        if self._over:
            self._complete(out)
        try:
            return event(self.coordinator, self.now_ms(), out), out
        finally:
            if out.persist:
                self._store(out)

    def _store(self, out: Effects) -> None:
        try:
            self._end_offset = self.state.append(out.persist)
        except StorageError as error:
            raise self.state.failed(error) from error
        self.state.save_if_due()

    def complete_soon(self, ending: Ending) -> None:
        """A decided transaction is carried out: store that with the next event, or in a moment.

        The producer's next transaction begins with an event, and both are one append.
        """
        self._over.append(ending)
        if self._completing is None:
            loop = asyncio.get_running_loop()
            self._completing = loop.call_later(_COMPLETE_S, self.complete_now)

    def complete_now(self) -> None:
        """Store what `complete_soon` was told, if it can be; if not, it is carried out again."""
        if self._completing is not None:
            self._completing.cancel()
            self._completing = None
        if self._over and self.state.is_active:
            with suppress(GoQueueError):
                self.perform(lambda _core, _now_ms, _out: None)

    def _complete(self, out: Effects) -> None:
        over, self._over = self._over, []
        for ending in over:
            self.coordinator.completed(ending, self.now_ms(), out)
        self.on_completed(out)

    @property
    def is_durable(self) -> bool:
        """Whether everything that was stored is as durable as the topic promises."""
        return self.state.log.partition.is_committed(self._end_offset)

    async def durable(self) -> None:
        """Return when everything that was stored so far is as durable as the topic promises.

        Raises:
            TransactionCoordinatorUnavailableError: the disk refused; what is not on it has not
                happened.
        """
        await self.state.committed(self._end_offset)


def not_coordinator() -> NotTransactionCoordinatorError:
    """The refusal of a node that does not lead the partition of a transactional id."""
    return NotTransactionCoordinatorError(
        "another node coordinates the transactional id: find it and ask there"
    )


def _unavailable() -> TransactionCoordinatorUnavailableError:
    return TransactionCoordinatorUnavailableError(
        "the transaction's state could not be stored; try again"
    )
