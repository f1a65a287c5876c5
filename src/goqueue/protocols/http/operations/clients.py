"""Who is connected: over Kafka, HTTP and gRPC, to every node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from goqueue.protocols.http.api.gathered import Gathered
from goqueue.protocols.http.api.places import gather
from goqueue.protocols.http.api.rights import DESCRIBE, on_cluster
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import Milliseconds, doc

if TYPE_CHECKING:
    from goqueue.protocols.http.api.parts import Part
    from goqueue.protocols.http.api.places import Arguments
    from goqueue.protocols.http.api.served_node import ServedNode

_TAG: Final = "cluster"


class ClientOut(msgspec.Struct):
    """One connection."""

    node_id: int
    protocol: Literal["kafka", "http", "grpc"]
    listener: Annotated[str, doc("Which has accepted it.", "PLAINTEXT")]
    address: Annotated[str, doc("Of the client.", "10.0.0.7:51234")]
    principal: Annotated[str, doc("Empty before the first request.", "User:alice")]
    client_id: Annotated[str | None, doc("Of Kafka clients.", "billing-1")]
    software: Annotated[str | None, doc("What the client calls itself.", "librdkafka 2.6.1")]
    connected_at: Milliseconds


class ClientsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How many."""

    limit: Annotated[int, doc("At most so many of each node.", 1000, ge=1, le=10_000)] = 1000


class ClientList(Gathered):
    """Connections, the newest first."""

    total: Annotated[int, doc("How many there are, shown or not.", 12)]
    clients: list[ClientOut]


def merge_clients(parts: list[Part], _arguments: Arguments) -> ClientList:
    """The connections of all nodes."""
    rows = [client for part in parts for client in part.answer.clients]
    return ClientList(sum(part.answer.total for part in parts), _newest_first(rows))


def _newest_first(rows: list[ClientOut]) -> list[ClientOut]:
    return sorted(rows, key=lambda each: (-each.connected_at, each.address))


class ClientRoutes:
    """Connections of clients."""

    def __init__(self, node: ServedNode) -> None:
        self._node = node

    @route(
        "GET",
        "/cluster/clients",
        right=on_cluster(DESCRIBE),
        tag=_TAG,
        place=gather(merge_clients),
    )
    async def all(self, query: ClientsQuery) -> ClientList:
        """List the connections of clients to all nodes; of gRPC, those with recent calls."""
        broker = self._node.broker
        now_ms = broker.clock.now_ms()
        rows = [
            ClientOut(
                node_id=broker.settings.node_id,
                protocol=each.protocol,
                listener=each.listener,
                address=each.address,
                principal=each.principal,
                client_id=each.client_id,
                software=each.software,
                connected_at=now_ms - round(each.age_s * 1000),
            )
            for each in self._node.clients()
        ]
        return ClientList(len(rows), _newest_first(rows)[: query.limit])
