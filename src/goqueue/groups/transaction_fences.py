"""Which transaction coordinators may still end what producers have staged in the groups of a shard.

A transactional id moves from one coordinator to the next, each of a higher epoch. The end of a
transaction that an earlier one has sent, and that arrives late, must not end the next transaction
of the same producer. The epoch is stored when it changes, so about once for each producer and move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.groups.encoding import FenceKey, ProducerFence, put, remove
from goqueue.model.errors import CoordinatorUnavailableError, FencedCoordinatorError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.groups.effects import Effects, Entry

FENCE_MS: Final = 24 * 3600 * 1000
"""Nothing is on its way for so long: a producer that ended nothing meanwhile is forgotten."""


class TransactionFences:
    """The newest coordinator epoch of each producer that has staged offsets here."""

    def __init__(self) -> None:
        self._fences: dict[int, ProducerFence] = {}
        """As many as there are transactional producers that have used the groups in a day."""
        self._verifying: dict[int, object] = {}
        """Producers whose coordinator is being asked whether they may stage offsets; as many as
        there are such requests."""

    def verify(self, producer_id: int) -> object:
        """Note that the coordinator of a producer is being asked; for `check_verified`."""
        guard = self._verifying[producer_id] = object()
        return guard

    def not_verified(self, producer_id: int, guard: object) -> None:
        """The coordinator has refused the producer, or was not reached."""
        if self._verifying.get(producer_id) is guard:
            del self._verifying[producer_id]

    def check_verified(self, producer_id: int, guard: object) -> None:
        """Let a producer stage offsets that was verified meanwhile.

        Raises:
            CoordinatorUnavailableError: a transaction of it has ended since, perhaps that one.
        """
        if self._verifying.pop(producer_id, None) is not guard:
            raise CoordinatorUnavailableError(
                f"a transaction of producer {producer_id} ended while it was verified; try again"
            )

    def pass_through(
        self, producer_id: int, coordinator_epoch: int, now_ms: int, out: Effects
    ) -> None:
        """Let a coordinator end a transaction, and nobody from before it from now on.

        Raises:
            FencedCoordinatorError: a later one has ended a transaction of the producer.
        """
        newest = self.newest(producer_id)
        if coordinator_epoch < newest:
            raise FencedCoordinatorError(
                f"the end of a transaction of producer {producer_id} comes from coordinator epoch "
                f"{coordinator_epoch}, and epoch {newest} has taken over"
            )
        if coordinator_epoch > newest:
            fence = self._fences[producer_id] = ProducerFence(coordinator_epoch, now_ms)
            out.persist.append(put(FenceKey(producer_id), fence))
        self._verifying.pop(producer_id, None)

    def newest(self, producer_id: int) -> int:
        """The epoch of the last coordinator that has ended a transaction of a producer."""
        known = self._fences.get(producer_id)
        return 0 if known is None else known.coordinator_epoch

    def expire(self, now_ms: int, out: Effects) -> None:
        """Forget producers whose coordinator has not moved for long."""
        for producer_id, fence in list(self._fences.items()):
            if now_ms - fence.updated_ms >= FENCE_MS:
                del self._fences[producer_id]
                out.persist.append(remove(FenceKey(producer_id)))

    def load(self, producer_id: int, fence: ProducerFence | None) -> None:
        """Take over a stored epoch, or that there is none."""
        if fence is None:
            self._fences.pop(producer_id, None)
        else:
            self._fences[producer_id] = fence

    def dump(self) -> Iterator[Entry]:
        """Everything, as the entries that would load it."""
        for producer_id, fence in list(self._fences.items()):
            yield put(FenceKey(producer_id), fence)
