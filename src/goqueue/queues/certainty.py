"""Whether a node of a cluster is certain of a refusal.

A node that stood still or was cut off may not have heard that another one keeps the groups now. It
knows nothing of what that has delivered, and what it has applied itself and not committed has not
happened. So it refuses what clients say of messages only once everything that it has applied is
committed and the metadata store says that it still leads, in the epoch in which it decided.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeAlias

from goqueue.model.errors import ClusterError, CoordinatorUnavailableError, MetadataError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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
        CoordinatorUnavailableError: it may not; the client is to try again.
    """
    state, epoch = term
    place = state.log.partition.id
    await state.committed(state.log.partition.log_end)
    try:
        confirmed = await confirm(place)
    except CoordinatorUnavailableError:
        raise
    except (ClusterError, MetadataError) as error:
        _log.debug("%s: nothing is refused yet: %s", place, error)
        raise state.refusal() from error
    if confirmed != epoch:
        raise state.refusal()
