"""Whether a node of a cluster is certain of what it tells, and of a refusal.

A node that stood still or was cut off may not have heard that another one leads the partition of a
shard now. It knows nothing of what that has stored, and what it has applied itself and not
committed has not happened. So it refuses for good only once everything that it has applied is
committed and the metadata store says that it still leads, in the epoch in which it decided. What it
reads for clients it tells once that is committed.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from goqueue.model.errors import ClusterError, GoQueueError, MetadataError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.state.shard import StateShard

    Confirm: TypeAlias = Callable[[TopicPartition], Awaitable[int | None]]
    """Tells the epoch in which this node leads a partition, once it is certain that no other node
    has begun to, and raises a `ClusterError` or `MetadataError` otherwise."""

_log = logging.getLogger(__name__)


class Term(NamedTuple):
    """Where something is decided: in a shard, in the epoch in which this node keeps it."""

    state: StateShard
    epoch: int


async def be_certain(term: Term, confirm: Confirm) -> None:
    """Return when what was decided in a term may be refused for good.

    Raises:
        GoQueueError: the refusal of the shard: the client is to try again.
    """
    state, epoch = term
    place = state.log.partition.id
    await state.committed(state.log.partition.log_end)
    try:
        confirmed = await confirm(place)
    except (ClusterError, MetadataError) as error:
        _log.debug("%s: nothing is refused yet: %s", place, error)
        raise state.refusal() from error
    if confirmed != epoch:
        raise state.refusal()


@asynccontextmanager
async def refusing(
    state: StateShard, confirm: Confirm | None, *refusals: type[GoQueueError]
) -> AsyncIterator[None]:
    """Let these refusals out once this node may refuse; without `confirm`, it always may.

    Raises like `be_certain` in their place.
    """
    term = Term(state, state.epoch)
    try:
        yield
    except refusals:
        if confirm is not None:
            await be_certain(term, confirm)
        raise


async def settled(state: StateShard) -> bool:
    """Return when what was just read of a shard is committed, and whether it is.

    If it is not, what was read has not happened: read again.
    """
    if not (state.is_built and state.is_led):
        return True  # nothing was read of it
    try:
        await state.committed(state.log.partition.log_end)
    except GoQueueError:
        return False
    return True
