"""Elections that an operator asks for: of the preferred replica, by any node of the cluster.

A record changes by compare-and-set on its own revision, and the new leader has to be registered as
it was when it was chosen: so it does not matter which node asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from goqueue.cluster.elections import preferred
from goqueue.cluster.metadata import Committed, Condition, Put
from goqueue.cluster.records import encode, new_token, node_key
from goqueue.model.errors import (
    ElectionNotNeededError,
    EligibleLeadersUnavailableError,
    MetadataUnavailableError,
    PreferredLeaderUnavailableError,
)

if TYPE_CHECKING:
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.records import PartitionKey
    from goqueue.cluster.view import ClusterView


async def elect_preferred(
    store: MetadataStore, view: ClusterView, key: PartitionKey, name: str
) -> None:
    """Let the preferred replica of a partition lead it; `name` is the partition's for people.

    Raises:
        ElectionNotNeededError: it does already.
        PreferredLeaderUnavailableError: it is not in sync, or away.
        MetadataUnavailableError: the store did not take it; it may have happened.
    """
    stored = view.partitions.get(key)
    if stored is None:
        raise MetadataUnavailableError(f"{name} is not known to this node yet: try again")
    record = stored.value
    if record.leader == record.preferred and view.is_alive(record.preferred):
        raise ElectionNotNeededError(f"{name} is led by node {record.leader}, its preferred leader")
    wanted = preferred(stored, view)
    node = view.nodes.get(record.preferred)
    if wanted is None or node is None:
        raise PreferredLeaderUnavailableError(
            f"node {record.preferred}, the preferred leader of {name}, is not in sync or not "
            "running: wait until it has caught up"
        )
    conditions = [
        Condition(str(key), stored.revision),
        Condition(node_key(node.node_id), node.revision),
    ]
    put = Put(str(key), encode(replace(wanted, token=new_token())))
    result = await store.transact(conditions, [put])
    if not isinstance(result, Committed):
        raise MetadataUnavailableError(f"{name} was changing meanwhile: try again")


def refuse_unclean(view: ClusterView, key: PartitionKey, name: str) -> None:
    """Say why no replica that may lack acknowledged records is made the leader of a partition.

    Raises:
        ElectionNotNeededError: it has a leader.
        EligibleLeadersUnavailableError: it has none, and gets one that has everything.
    """
    stored = view.partitions.get(key)
    if stored is not None and stored.value.leader is not None:
        raise ElectionNotNeededError(f"{name} is led by node {stored.value.leader}")
    raise EligibleLeadersUnavailableError(
        f"no replica of {name} that has every acknowledged record is running, and no other is "
        "elected: start the nodes that hold it"
    )
