from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.client.errors import ConnectionLostError
from goqueue.client.link.addresses import Address
from goqueue.client.link.connection import Connection
from goqueue.client.settings import ClientSettings
from goqueue.cluster.hello import CALLER, Greeting, NodeIdentity, greeting_of, is_proven, proof
from goqueue.cluster.peers import Lane
from goqueue.cluster.records import NodeAddress
from goqueue.model.errors import (
    AuthenticationFailedError,
    ClusterMismatchError,
    PeerUnavailableError,
    StaleNodeError,
)
from goqueue.protocols.kafka.connection.listener import Listener
from goqueue.protocols.kafka.internal.families import internal_registry, internal_settings
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.server.cluster.peers import PeerConnections
from goqueue.server.security.peer_tls import PeerTls
from support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SECRET = b"a secret of the tests"


class Pings:
    """Something to ask once the greeting is done."""

    @api(ApiKey.LIST_GROUPS, right=ANYONE)
    def ping(self, ctx: Any, _request: Any) -> dict[str, Any]:
        assert ctx.peer.session.node == (2, 20)
        return {"error_code": 0, "groups": []}


def node(node_id: int, incarnation: int = 0, **changed: Any) -> NodeIdentity:
    fields = {"cluster_id": "one", "secret": SECRET, **changed}
    return NodeIdentity(node_id=node_id, incarnation=incarnation, **fields)


@asynccontextmanager
async def listening(
    identity: NodeIdentity, known: dict[int, int] | None = None, tls: Any = None
) -> AsyncIterator[Listener]:
    registry = internal_registry(identity, (known or {}).get, Pings())
    listener = Listener(registry, internal_settings("127.0.0.1", 0, tls))
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop(deadline_s=1.0)


def calling(listener: Listener, identity: NodeIdentity, tls: Any = None) -> PeerConnections:
    return PeerConnections(identity, {1: NodeAddress("127.0.0.1", listener.port)}.get, tls)


def refused(
    kind: type[Exception],
    caller: NodeIdentity,
    *,
    known: dict[int, int] | None = None,
    listener_is: NodeIdentity | None = None,
) -> str:
    async def scenario() -> str:
        async with listening(listener_is or node(1, 10), known) as listener:
            peers = calling(listener, caller)
            with pytest.raises(kind) as caught:
                await peers.ask(1, ApiKey.LIST_GROUPS, 4, states_filter=())
            peers.close()
            return str(caught.value)

    return asyncio.run(scenario())


def test_two_nodes_with_one_secret_talk_to_each_other():
    async def scenario():
        async with listening(node(1, 10), {2: 20}) as listener:
            peers = calling(listener, node(2, 20))
            for _ in range(2):
                answer = await peers.ask(1, ApiKey.LIST_GROUPS, 4, states_filter=())
                assert answer.error_code == 0
            assert listener.connection_count == 1
            peers.close()

    asyncio.run(scenario())


def test_a_call_after_a_lost_connection_makes_another_one():
    async def scenario():
        async with listening(node(1, 10)) as listener:
            peers = calling(listener, node(2, 20))
            await peers.ask(1, ApiKey.LIST_GROUPS, 4, states_filter=())
            for connection in list(listener._connections):
                connection.abort()
            with pytest.raises(PeerUnavailableError):
                await peers.ask(1, ApiKey.LIST_GROUPS, 4, states_filter=())
            answer = await peers.ask(1, ApiKey.LIST_GROUPS, 4, states_filter=())
            assert answer.error_code == 0
            peers.close()

    asyncio.run(scenario())


def test_a_node_of_another_cluster_is_refused_and_both_ids_are_named():
    text = refused(ClusterMismatchError, node(2, 20, cluster_id="two"))
    assert "'one'" in text
    assert "'two'" in text


def test_a_node_with_another_secret_is_refused():
    text = refused(AuthenticationFailedError, node(2, 20, secret=b"other"))
    assert "cluster.secret_file" in text


def test_a_node_that_was_started_again_elsewhere_is_refused():
    async def scenario() -> str:
        async with listening(node(1, 10), {2: 21}) as listener:
            with pytest.raises(StaleNodeError) as caught:
                await calling(listener, node(2, 20)).open(1, Lane.LIVE)
            return str(caught.value)

    text = asyncio.run(scenario())
    assert "20" in text
    assert "21" in text


def test_what_a_client_asks_of_a_node_that_registers_anew_may_be_tried_again():
    assert "registered as 21" in refused(PeerUnavailableError, node(2, 20), known={2: 21})


def test_a_second_node_of_the_same_id_is_refused():
    assert "itself 1" in refused(ClusterMismatchError, node(1, 20))


def test_a_node_that_is_not_the_one_that_was_meant_is_left():
    assert "is node 3, not node 1" in refused(
        ClusterMismatchError, node(2, 20), listener_is=node(3, 30)
    )


def test_a_node_that_is_not_registered_cannot_be_called():
    async def scenario():
        peers = PeerConnections(node(2, 20), lambda _: None)
        with pytest.raises(PeerUnavailableError, match="node 1 is not registered"):
            await peers.open(1, Lane.LIVE)

    asyncio.run(scenario())


def test_nothing_is_served_before_the_greeting():
    async def scenario():
        async with listening(node(1, 10)) as listener:
            for api_key in (ApiKey.LIST_GROUPS, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
                connection = await _plain(listener)
                with pytest.raises(ConnectionLostError):
                    await connection.ask(api_key, 0, **_fields(api_key))

    asyncio.run(scenario())


def test_a_greeting_whose_proof_is_wrong_or_of_another_exchange_opens_nothing():
    async def scenario():
        async with listening(node(1, 10)) as listener:
            me = greeting_of(node(2, 20))
            connection = await _plain(listener)
            answer = await _hello(connection, me, b"x" * 32)
            assert answer.error_code
            first, second = await _plain(listener), await _plain(listener)
            theirs = _greeting(await _hello(first, me))
            await _hello(second, me)
            replayed = await _hello(second, me, proof(SECRET, CALLER, me, theirs))
            assert replayed.error_code
            assert not replayed.proof
            first.close()

    asyncio.run(scenario())


def test_a_proof_holds_for_its_side_and_its_exchange_alone():
    me, they = greeting_of(node(1)), greeting_of(node(2))
    given = proof(SECRET, CALLER, me, they)
    assert is_proven(given, SECRET, CALLER, me, they)
    assert not is_proven(given, SECRET, b"listener", me, they)
    assert not is_proven(given, b"other", CALLER, me, they)
    assert not is_proven(given, SECRET, CALLER, they, me)


def test_with_tls_both_sides_show_a_certificate(tmp_path: Path):
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    mine = PeerTls(*authority.issue("node"), authority.ca_file)
    foreign = PeerTls(*other.issue("foreign"), authority.ca_file)

    async def scenario():
        async with listening(node(1, 10), tls=mine.listening) as listener:
            peers = calling(listener, node(2, 20), mine.calling)
            answer = await peers.ask(1, ApiKey.LIST_GROUPS, 4, states_filter=())
            assert answer.error_code == 0
            peers.close()
            for context in (None, foreign.calling):
                with pytest.raises(PeerUnavailableError):
                    await calling(listener, node(2, 20), context).open(1, Lane.LIVE)

    asyncio.run(scenario())


async def _plain(listener: Listener) -> Connection:
    address = Address("127.0.0.1", listener.port)
    connection = Connection(address, ClientSettings(call_timeout_ms=5000))
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: connection, *address)
    return connection


async def _hello(connection: Connection, greeting: Greeting, given: bytes = b"") -> Any:
    return await connection.ask(ApiKey.HELLO, 0, **greeting._asdict(), proof=given)


def _greeting(answer: Any) -> Greeting:
    return Greeting(
        answer.cluster_id, answer.node_id, answer.incarnation, answer.level, bytes(answer.nonce)
    )


def _fields(api_key: ApiKey) -> dict[str, Any]:
    return {"mechanism": "PLAIN"} if api_key is ApiKey.SASL_HANDSHAKE else {}
