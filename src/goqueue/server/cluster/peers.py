"""Connections to the other nodes of the cluster.

A connection begins with Hello, by which both sides prove that they belong to the cluster and that
the node there is the one that was meant. Followers open one for each leader and lane and keep it
themselves; single calls have one each while they wait for their answer, and leave it to the next:
requests of one connection are served one after the other, and a long poll would hold up the rest.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.client.errors import ConnectionLostError, ForeignServerError
from goqueue.client.link.addresses import Address
from goqueue.client.link.connection import Connection
from goqueue.client.settings import ClientSettings
from goqueue.cluster.hello import (
    CALLER,
    LISTENER,
    Greeting,
    check_cluster,
    greeting_of,
    is_proven,
    proof,
)
from goqueue.cluster.peers import Lane, Room
from goqueue.model.errors import (
    AuthenticationFailedError,
    ClusterError,
    ClusterMismatchError,
    GoQueueError,
    PeerUnavailableError,
    StaleNodeError,
)
from goqueue.partitions.replication.traffic import ReplicationTraffic
from goqueue.runtime.tasks import deadline
from goqueue.server.cluster.peer_calls import CALL_S, NodeCalls, unavailable
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.errors import MalformedRequestError
from goqueue.wire.kafka.replica_fetch import VERSION, encode_request, parse_response

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from goqueue.cluster.hello import NodeIdentity
    from goqueue.cluster.records import NodeAddress
    from goqueue.wire.kafka.reading import Struct
    from goqueue.wire.kafka.replica_fetch import ReplicaFetch, ReplicaFetched

_CALL_SCRATCH_BYTES: Final = 8 * 1024
"""What each connection for single calls reads into; there may be thousands."""
_CONNECT_S: Final = 3.0
"""How long making a connection may take, Hello included."""
_REFUSALS: Final[dict[int, type[GoQueueError]]] = {
    ErrorCode.inconsistent_cluster_id: ClusterMismatchError,
    ErrorCode.stale_broker_epoch: StaleNodeError,
    ErrorCode.sasl_authentication_failed: AuthenticationFailedError,
}


class PeerConnections:
    """See `goqueue.cluster.peers.Peers`."""

    def __init__(
        self,
        identity: NodeIdentity,
        address_of: Callable[[int], NodeAddress | None],
        tls: ssl.SSLContext | None = None,
        traffic: ReplicationTraffic | None = None,
    ) -> None:
        """Call nodes where `address_of` says; with `tls`, encrypted and with a certificate."""
        self._identity = identity
        self._address_of = address_of
        self._tls = tls
        self._traffic = traffic or ReplicationTraffic()
        self._settings = ClientSettings(
            client_id=f"node-{identity.node_id}", call_timeout_ms=CALL_S * 1000
        )
        self._calls: dict[int, NodeCalls] = {}
        """As many as there are nodes."""

    async def open(self, node_id: int, lane: Lane) -> PeerLink:
        """A new connection to a node, proven on both sides. See `Peers.open`."""
        return PeerLink(await self._connect(node_id, lane), node_id, self._traffic)

    async def ask(
        self,
        node_id: int,
        api: ApiKey,
        version: int,
        /,
        wait_s: float = 0.0,
        room: Room | None = None,
        **fields: Any,
    ) -> Struct:
        """Ask a node one thing. See `Peers.ask`."""
        calls = self._calls.get(node_id)
        if calls is None:
            connect = partial(self._connect_to_call, node_id)
            calls = self._calls[node_id] = NodeCalls(node_id, connect)
        return await calls.ask(api, version, wait_s, {"room": room, **fields})

    def lose(self, node_id: int, why: str) -> None:
        """A node is taken for dead: calls to it that are under way fail now."""
        calls = self._calls.get(node_id)
        if calls is not None:
            calls.lose(why)

    async def dial(self, node_id: int) -> Connection:
        """A connection for one caller. See `Peers.dial`."""
        return await self._connect_to_call(node_id)

    def close(self) -> None:
        """Hang up on everybody; links that were opened are closed by those who have them."""
        for calls in self._calls.values():
            calls.close()
        self._calls.clear()

    async def _connect_to_call(self, node_id: int) -> Connection:
        """For what clients have asked of this node: that it registers anew is over in a moment."""
        try:
            return await self._connect(node_id, Lane.CALLS)
        except StaleNodeError as error:
            raise unavailable(node_id, error) from None

    async def _connect(self, node_id: int, lane: Lane) -> Connection:
        where = self._address_of(node_id)
        if where is None:
            raise PeerUnavailableError(f"node {node_id} is not registered: it is not running")
        address = Address(where.host, where.port)
        if lane is Lane.CALLS:
            connection = Connection(address, self._settings, _CALL_SCRATCH_BYTES)
        else:
            connection = Connection(address, self._settings)
        loop = asyncio.get_running_loop()
        try:
            async with deadline(_CONNECT_S):
                transport, _ = await loop.create_connection(
                    lambda: connection,
                    address.host,
                    address.port,
                    ssl=self._tls,
                    server_hostname=address.host if self._tls else None,
                )
                plain = transport.get_extra_info("socket")
                if plain is not None:
                    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._greet(connection, node_id)
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                text = f"no answer within {_CONNECT_S:g} s ({lane.value})"
                raise unavailable(node_id, f"{address}: {text}") from None
            if isinstance(error, OSError | ConnectionLostError | ForeignServerError):
                raise unavailable(node_id, f"{address}: {error}") from None
            raise
        return connection

    async def _greet(self, connection: Connection, node_id: int) -> None:
        mine = greeting_of(self._identity)
        theirs, _ = await self._hello(connection, mine)
        check_cluster(mine.cluster_id, theirs.cluster_id, str(connection.address))
        if theirs.node_id != node_id:
            raise ClusterMismatchError(
                f"{connection.address} is node {theirs.node_id}, not node {node_id}: check "
                "`cluster.peers` and the advertised addresses"
            )
        secret = self._identity.secret
        given = proof(secret, CALLER, mine, theirs)
        _, answered = await self._hello(connection, mine, given)
        if not is_proven(answered, secret, LISTENER, mine, theirs):
            raise AuthenticationFailedError(
                f"{connection.address} has not proven that it knows the cluster's secret: all "
                "nodes need the same `cluster.secret_file`"
            )

    async def _hello(
        self, connection: Connection, mine: Greeting, given: bytes = b""
    ) -> tuple[Greeting, bytes]:
        answer = await connection.ask(
            ApiKey.HELLO,
            0,
            cluster_id=mine.cluster_id,
            node_id=mine.node_id,
            incarnation=mine.incarnation,
            level=mine.level,
            nonce=mine.nonce,
            proof=given,
        )
        if answer.error_code:
            kind = _REFUSALS.get(answer.error_code, ClusterError)
            raise kind(f"{connection.address} refuses this node: {answer.error_message}")
        theirs = Greeting(
            answer.cluster_id,
            answer.node_id,
            answer.incarnation,
            answer.level,
            bytes(answer.nonce),
        )
        return theirs, bytes(answer.proof)


class PeerLink:
    """See `goqueue.cluster.peers.ReplicaLink`."""

    def __init__(self, connection: Connection, node_id: int, traffic: ReplicationTraffic) -> None:
        self._connection = connection
        self._traffic = traffic
        self._node_id = node_id

    def fetch(
        self, request: ReplicaFetch, answered: Callable[[ReplicaFetched | GoQueueError], None]
    ) -> None:
        """Send a request now; see `ReplicaLink.fetch`."""
        wait_s = request.max_wait_ms / 1000
        body = (encode_request(request),)
        self._traffic.sent.add(len(body[0]))
        self._connection.call(ApiKey.FETCH, VERSION, body, partial(self._read, answered), wait_s)

    def _read(
        self,
        answered: Callable[[ReplicaFetched | GoQueueError], None],
        answer: memoryview | Exception,
    ) -> None:
        if isinstance(answer, Exception):
            answered(unavailable(self._node_id, answer))
            return
        self._traffic.received.add(len(answer))
        try:
            told = parse_response(answer)
        except MalformedRequestError as error:
            lost = self._connection.misunderstood(ApiKey.FETCH, error)
            answered(unavailable(self._node_id, lost))
        else:
            answered(told)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()
