"""Which batches a reader of committed records may see: one rule for the broker and for clients."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.records.batch import BatchInfo


class CommittedFilter:
    """Tells batches with data that was not aborted from others; markers are among the others.

    A producer's transactional batches are aborted from the first one that reaches the first offset
    of an aborted transaction, up to the marker that ends it. The first offset is compared with the
    last offset of a batch, as Kafka's consumers do: a batch whose base offset lies before it is
    part of the transaction all the same.

    Without aborted transactions this costs nothing more than the headers.
    """

    __slots__ = ("_coming", "_open_producers")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """Take the transactions that were aborted, in the order of the offsets.

        Args:
            aborted: Producer id and first offset of each.
        """
        self._coming = deque(aborted)
        self._open_producers: set[int] = set()

    def is_visible(self, info: BatchInfo) -> bool:
        """Whether a reader may see the batch. To be asked of each, in the order of the offsets."""
        while self._coming and self._coming[0][1] <= info.last_offset:
            self._open_producers.add(self._coming.popleft()[0])
        if info.is_control:
            self._open_producers.discard(info.producer_id)
            return False
        return not (
            self._open_producers
            and info.is_transactional
            and info.producer_id in self._open_producers
        )


def committed(
    batches: Iterable[tuple[int, BatchInfo]], aborted: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, BatchInfo]]:
    """Those of the batches, each with its place, that a `CommittedFilter` lets through."""
    is_visible = CommittedFilter(aborted).is_visible
    return (each for each in batches if is_visible(each[1]))
