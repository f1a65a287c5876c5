"""The handlers of share groups, on one node and in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.share.fetch import ShareFetchApi
from goqueue.protocols.kafka.share.fetch_connections import FetchConnections
from goqueue.protocols.kafka.share.groups import ShareGroupsApi
from goqueue.protocols.kafka.share.offsets import ShareOffsetsApi
from goqueue.protocols.kafka.share.sessions import ShareSessions
from goqueue.protocols.kafka.share.turns import LocalTurns
from goqueue.queues.share.members import ShareMembers

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.brokers import Brokers
    from goqueue.protocols.kafka.share.turns import Turns


def share_families(broker: Broker, brokers: Brokers) -> tuple[object, ...]:
    """Members, messages and offsets of share groups."""
    connections = FetchConnections(broker.queue_members)
    turns: Turns = LocalTurns(broker)
    sessions = ShareSessions(ShareMembers(broker).is_member)
    if brokers.is_cluster:
        from goqueue.protocols.kafka.share.cluster_turns import (  # noqa: PLC0415 - not alone
            ClusterTurns,
        )

        turns = ClusterTurns(broker)
        sessions = ShareSessions(None)
    return (
        ShareGroupsApi(broker, sessions, connections),
        ShareFetchApi(broker, sessions, connections, turns, brokers),
        ShareOffsetsApi(broker),
    )
