"""Which batches a reader of committed records may see: one rule for the broker and for Spark."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.records.batch import BatchInfo


def committed(
    batches: Iterable[tuple[int, BatchInfo]], aborted: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, BatchInfo]]:
    """The batches with data that was not aborted; markers are left out.

    A producer's transactional batches are aborted from the first one that reaches the first offset
    of an aborted transaction, up to the marker that ends it. The first offset is compared with the
    last offset of a batch, as Kafka's consumers do: a batch whose base offset lies before it is
    part of the transaction all the same.

    Without aborted transactions this costs nothing more than the headers.

    Args:
        batches: Where each batch starts, with its header, in the order of the offsets.
        aborted: Producer id and first offset of each transaction among the batches that was
            aborted, in the order of the offsets.
    """
    coming = deque(aborted)
    open_producers: set[int] = set()
    for position, info in batches:
        while coming and coming[0][1] <= info.last_offset:
            open_producers.add(coming.popleft()[0])
        if info.is_control:
            open_producers.discard(info.producer_id)
        elif not (open_producers and info.is_transactional and info.producer_id in open_producers):
            yield position, info
