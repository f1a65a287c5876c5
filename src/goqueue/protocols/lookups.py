"""Which node of a cluster has what a request is about, for protocols that forward requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from goqueue.model.errors import LeaderUnavailableError, NotCoordinatorError, TopicError
from goqueue.model.internal_topics import DELAY_STATE
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

Lookup: TypeAlias = Callable[[], int]
"""The node that has what the request is about, now. Raises retriable errors while there is none."""


def group_lookup(broker: Broker, group_id: str) -> Lookup:
    """The coordinator of a group."""
    return lambda: broker.groups.coordinator_of(group_id)


def writer_lookup(broker: Broker, topic: str, number: int = 0) -> Lookup:
    """The leader of a partition of an internal topic."""
    partition = TopicPartition(topic, number)

    def leader() -> int:
        try:
            return broker.routes.leader_of(partition)
        except TopicError as error:
            raise LeaderUnavailableError(
                f"{partition} is not created yet: it is when enough nodes are active; try again"
            ) from error

    return leader


def unit_lookup(broker: Broker, unit: int) -> Lookup:
    """The leader of a unit of delayed messages; any node says of others that there are none."""
    units = broker.topics.catalogue.by_name.get(DELAY_STATE)
    if units is not None and unit >= units.partition_count:
        here = broker.routes.node_id
        return lambda: here
    return writer_lookup(broker, DELAY_STATE, unit)


async def transaction_lookup(
    broker: Broker, transactional_id: str | None, producer_id: int | None
) -> Lookup | None:
    """The coordinator of a transactional id, or else of the one that a producer has."""
    transactions: Any = broker.transactions  # of a cluster: it finds coordinators
    if transactional_id is not None:
        return lambda: int(transactions.coordinator_of(transactional_id))
    if producer_id is None:
        return None
    node_id: int = await transactions.coordinator_of_producer(producer_id)
    routes = broker.routes
    return lambda: node_id if node_id in {routes.node_id, *routes.others()} else -1


def wrong_again(sender: int, here: int, there: int) -> NotCoordinatorError:
    """What a node says to a request that another one has forwarded to it by mistake."""
    return NotCoordinatorError(
        f"node {sender} has forwarded this to node {here}, and node {there} coordinates it: it has "
        "just moved, try again"
    )
