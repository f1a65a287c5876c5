"""One partition's worth of transactional ids: a coordinator, kept in a state shard.

The coordinator decides, this stores: what an event changes is in the log before the caller goes
on. When the log refuses, nothing that was not stored has happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from goqueue.model.errors import StorageError, TransactionCoordinatorUnavailableError
from goqueue.state.shard import StateShard
from goqueue.transactions.encoding import Entry
from goqueue.transactions.messages import Effects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from goqueue.state.log import StateEntry, StateLog
    from goqueue.transactions.atomic_commit import SeriesCoordinator
    from goqueue.transactions.transaction import Transaction

_R = TypeVar("_R")


class TransactionShard:
    """The transactional ids that lead to one partition of the transactions' topic."""

    def __init__(
        self,
        log: StateLog,
        make_coordinator: Callable[[], SeriesCoordinator],
        by_producer: dict[int, Transaction],
        now_ms: Callable[[], int],
        executor: Executor,
    ) -> None:
        """Keep a coordinator in `log`; others find its transactions in `by_producer`."""
        self.state = StateShard(log, self, executor, _unavailable)
        self.coordinator = self._loading = make_coordinator()
        self._make_coordinator = make_coordinator
        self._by_producer = by_producer
        self._now_ms = now_ms
        self._end_offset = 0
        """Where the log ended after the last event."""

    # --- What is stored --------------------------------------------------------------------------

    def begin(self) -> None:
        """A replay begins; until it is over, everybody sees what was before."""
        self._loading = self._make_coordinator()

    def replay(self, entries: Sequence[StateEntry], _lost_count: int) -> None:
        """Take in entries as they were stored."""
        self._loading.load(Entry(key, value) for key, value in entries)

    def loaded(self, _lost_count: int) -> None:
        """The replay is over: everyone's session begins anew."""
        self.coordinator.clear()
        self.coordinator = self._loading
        self.coordinator.share(self._by_producer)
        self.coordinator.resume(self._now_ms())
        self._end_offset = 0

    def dump(self) -> Iterable[StateEntry]:
        """Everything, as entries that would build it."""
        return self.coordinator.dump()

    async def close(self) -> None:
        """Keep the state for the next start, if this node still leads it."""
        await self.state.save()
        await self.state.close()

    @property
    def has_lost_entries(self) -> bool:
        """Whether something that was stored is damaged."""
        log = self.state.log
        return log.lost_count > 0 or log.partition.recovery.cut_whole

    # --- Events ----------------------------------------------------------------------------------

    def perform(self, event: Callable[[SeriesCoordinator, Effects], _R]) -> tuple[_R, Effects]:
        """Let the coordinator see an event, and store what it changes.

        Raises:
            TransactionError: the coordinator refuses; nothing has changed.
            TransactionCoordinatorUnavailableError: the log refuses; nothing has changed.
        """
        self.state.check()
        out = Effects()
        result = event(self.coordinator, out)
        if out.persist:
            try:
                self._end_offset = self.state.append(out.persist)
            except StorageError as error:
                raise self.state.failed(error) from error
            self.state.save_if_due()
        return result, out

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


def _unavailable() -> TransactionCoordinatorUnavailableError:
    return TransactionCoordinatorUnavailableError(
        "the transaction's state could not be stored; try again"
    )
