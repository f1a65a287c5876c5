"""Ends transactions in the partitions and groups of this node, as a coordinator asks for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.model.errors import (
    FencedProducerError,
    GoQueueError,
    NotEnoughReplicasAfterAppendError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.markers import Marker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from goqueue.groups.service import Groups
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partitions import Partitions

_COMMIT_S: Final = 2.0
"""How long markers have to be committed; those that are not by then are asked for again."""


class MarkerRequest(NamedTuple):
    """One transaction is to be ended in one partition."""

    place: TopicPartition
    producer_id: int
    epoch: int
    marker: Marker
    coordinator_epoch: int
    begins_epoch: bool = False
    """With transaction.version 2 a marker begins an epoch of its producer: one of the epoch that
    the producer is in already is late."""


class MarkerWriter:
    """Writes markers into what this node leads."""

    def __init__(self, partitions: Partitions, groups: Groups) -> None:
        self._partitions = partitions
        self._groups = groups

    async def write(self, requests: Sequence[MarkerRequest]) -> list[GoQueueError | None]:
        """End transactions; returns, for each, None once its end is committed, or what failed.

        All markers are in their logs before anything is waited for. Asked for again, an end that is
        there already is not written twice.
        """
        outcomes: list[GoQueueError | None] = [None] * len(requests)
        waits: dict[asyncio.Future[None], int] = {}
        for at, request in enumerate(requests):
            try:
                committed = self._write(request)
            except GoQueueError as error:
                outcomes[at] = error
                continue
            if committed is not None:
                waits[asyncio.ensure_future(committed)] = at
        if waits:
            await asyncio.wait(waits, timeout=_COMMIT_S)
        for future, at in waits.items():
            outcomes[at] = _outcome(future, requests[at].place)
        return outcomes

    def _write(self, request: MarkerRequest) -> Awaitable[None] | None:
        """Append one marker; returns what to wait for, None when that is nothing."""
        place, producer_id, epoch, marker, coordinator_epoch, begins_epoch = request
        partition = self._partitions.partition(place)
        if place.topic == OFFSETS_TOPIC:
            return self._groups.complete_transaction(
                place.partition, producer_id, coordinator_epoch, commit=marker is Marker.COMMIT
            )
        newest = partition.sequences.epoch_of(producer_id)
        if epoch < newest or (begins_epoch and epoch == newest):
            raise FencedProducerError(
                f"a marker for epoch {epoch} of producer {producer_id} comes to {place}, where the "
                f"producer is in epoch {newest}"
            )
        placed = partition.append_marker(marker, producer_id, epoch, coordinator_epoch)
        # A marker that is there already may not be committed yet: then wait for that.
        end = partition.log_end if placed is None else placed.end_offset
        return None if partition.is_committed(end) else partition.committed(end)


def _outcome(future: asyncio.Future[None], place: TopicPartition) -> GoQueueError | None:
    if not future.done():
        future.cancel()
        return NotEnoughReplicasAfterAppendError(
            f"{place}: a marker is stored and not committed within {_COMMIT_S:g} s; ask again"
        )
    error = None if future.cancelled() else future.exception()
    if error is not None and not isinstance(error, GoQueueError):
        raise error
    return error
