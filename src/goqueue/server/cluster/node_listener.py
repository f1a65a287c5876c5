"""The internal listener: what the other nodes of the cluster ask this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import PeerUnavailableError
from goqueue.partitions.elsewhere.told_figures import TellsFigures
from goqueue.protocols.kafka.connection.listener import Listener
from goqueue.protocols.kafka.internal.batches import BatchesApi
from goqueue.protocols.kafka.internal.families import internal_registry, internal_settings
from goqueue.protocols.kafka.internal.grpc_calls import GrpcCallsApi
from goqueue.protocols.kafka.internal.log_ends import LogEndsApi
from goqueue.protocols.kafka.internal.partition_figures import PartitionFiguresApi
from goqueue.protocols.kafka.internal.replica_fetch import ReplicaFetchApi
from goqueue.protocols.kafka.node_families import node_families

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from goqueue.broker.broker import Broker
    from goqueue.broker.log_broker import LogBroker
    from goqueue.cluster.hello import NodeIdentity
    from goqueue.partitions.replication.feed import ReplicaFeed
    from goqueue.protocols.grpc.carried import CarriedCalls
    from goqueue.protocols.kafka.registry import Registry


class NodeListener:
    """Serves replicas from the start, and everything else that clients may ask later."""

    def __init__(
        self,
        identity: NodeIdentity,
        registered: Callable[[int], int | None],
        address: tuple[str, int],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._identity = identity
        self._registered = registered
        self._settings = internal_settings(*address, tls)
        self._registry: Registry
        self._listener: Listener

    async def start(self, logs: LogBroker, feed: ReplicaFeed) -> None:
        """Listen; requests that only a whole broker serves wait for `serve`."""
        self._registry = internal_registry(
            self._identity,
            self._registered,
            ReplicaFetchApi(feed),
            LogEndsApi(self._identity, logs.topics, logs.partitions),
            BatchesApi(logs.topics, logs.partitions),
            PartitionFiguresApi(TellsFigures(logs.topics, logs.partitions, logs.facts, logs.clock)),
        )
        self._listener = Listener(self._registry, self._settings)
        await self._listener.start()

    def serve(
        self, clients: Registry, broker: Broker, carried: Callable[[], CarriedCalls | None]
    ) -> None:
        """Serve what clients are served, and what only nodes ask, from now on.

        `carried` answers calls of gRPC, once there is something to answer them.
        """

        def calls() -> CarriedCalls:
            found = carried()
            if found is None:
                raise PeerUnavailableError("this node does not serve gRPC yet: try again")
            return found

        for each in (*node_families(broker), GrpcCallsApi(calls)):
            self._registry.add(each)
        self._registry.fill(clients)
        self._registry.is_complete = True
        self._listener.use(self._registry)

    async def stop(self, deadline_s: float) -> None:
        """Answer what is under way, and close."""
        await self._listener.stop(deadline_s)
