"""One partition's worth of transactional ids: a coordinator and the log that it lives in.

The coordinator decides, this stores: what an event changes is in the log before the caller goes
on. When the log refuses, nothing that was not stored has happened: the coordinator is built anew
from what the log holds.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from goqueue.model.errors import StorageError, TransactionCoordinatorUnavailableError
from goqueue.transactions.encoding import Entry
from goqueue.transactions.messages import Effects

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from goqueue.broker.state_log import StateLog
    from goqueue.partitions.partition import Placed
    from goqueue.transactions.together import SeriesCoordinator

_log = logging.getLogger(__name__)
_R = TypeVar("_R")


class TransactionShard:
    """The transactional ids that lead to one partition of the transactions' topic."""

    def __init__(
        self,
        state: StateLog,
        coordinator: SeriesCoordinator,
        now_ms: Callable[[], int],
        executor: Executor,
    ) -> None:
        self.coordinator = coordinator
        self._state = state
        self._now_ms = now_ms
        self._executor = executor
        self._saving: asyncio.Task[None] | None = None
        self._placed: Placed | None = None
        self._is_stale = False
        """Something could not be stored; the coordinator is loaded again before its next event."""
        self._load()

    def _load(self) -> None:
        self.coordinator.clear()
        self.coordinator.load(Entry(key, value) for key, value in self._state.replay())
        self.coordinator.resume(self._now_ms())
        self._is_stale = False
        self._placed = None

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot."""
        return self._state.snapshot_bytes

    @property
    def has_lost_entries(self) -> bool:
        """Whether something that was stored is damaged."""
        return self._state.lost_count > 0 or self._state.partition.log.recovery.cut_whole

    @property
    def records_since_snapshot(self) -> int:
        """What a start would have to replay."""
        return self._state.records_since_snapshot

    @property
    def log_bytes(self) -> int:
        """The size of the log."""
        return self._state.partition.log.size_bytes

    def perform(self, event: Callable[[SeriesCoordinator, Effects], _R]) -> tuple[_R, Effects]:
        """Let the coordinator see an event, and store what it changes.

        Raises:
            TransactionError: the coordinator refuses; nothing has changed.
            TransactionCoordinatorUnavailableError: the log refuses; nothing has changed.
        """
        self._ensure_usable()
        out = Effects()
        result = event(self.coordinator, out)
        if out.persist:
            try:
                self._placed = self._state.append(out.persist)
            except StorageError as error:
                raise self._given_up(error) from error
            if self._state.snapshot_is_due and (self._saving is None or self._saving.done()):
                self._saving = asyncio.get_running_loop().create_task(self._save_aside())
        return result, out

    async def _save_aside(self) -> None:
        if not self._is_stale:  # then it knows more than the log does
            await self._state.save_snapshot_aside(self.coordinator.dump(), self._executor)

    @property
    def is_durable(self) -> bool:
        """Whether everything that was stored is as durable as the topic promises."""
        return self._placed is None or self._state.partition.is_durable(self._placed)

    async def durable(self) -> None:
        """Return when everything that was stored so far is as durable as the topic promises.

        Raises:
            TransactionCoordinatorUnavailableError: the disk refused; what is not on it has not
                happened.
        """
        placed, partition = self._placed, self._state.partition
        if placed is None or self.is_durable:
            return
        try:
            await partition.durable(placed)
        except StorageError as error:
            raise self._given_up(error) from error

    def _ensure_usable(self) -> None:
        if self._state.partition.log.failure is not None:
            raise _unavailable()
        if self._is_stale:
            self._load()

    def _given_up(self, error: StorageError) -> TransactionCoordinatorUnavailableError:
        _log.error("the state of transactions could not be stored: %s", error)
        self._is_stale = True
        return _unavailable()

    async def save(self) -> None:
        """Keep the state for the next start."""
        if self._saving is not None:
            await self._saving
        if not self._is_stale:
            self._state.save_snapshot(self.coordinator.dump())


def _unavailable() -> TransactionCoordinatorUnavailableError:
    return TransactionCoordinatorUnavailableError(
        "the transaction's state could not be stored; try again"
    )
