from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from typing import Any

import pytest

from goqueue.protocols.kafka.connection.deadlines import CloseReason
from goqueue.protocols.kafka.settings import ConnectionLimits
from unit.protocols.kafka.live import SmallApi, connected, eventually, listening, run


def test_connections_over_the_bound_are_closed_and_the_others_stay():
    async def scenario():
        async with (
            listening(SmallApi(), max_connections=2) as listener,
            connected(listener) as first,
            connected(listener) as second,
        ):
            assert await first.echo("a") == "a"
            assert await second.echo("b") == "b"
            async with connected(listener) as third:
                assert await third.is_closed_by_server()
            assert await first.echo("c") == "c"
            assert listener.closed == {CloseReason.TOO_MANY: 1}
            second.writer.transport.abort()
            await eventually(lambda: listener.connection_count == 1)
            async with connected(listener) as fourth:
                assert await fourth.echo("d") == "d"

    run(scenario())


def test_connections_of_one_address_are_bounded_by_limits_that_may_change():
    async def scenario():
        async with listening(SmallApi(), max_connections_per_ip=1) as listener:
            async with connected(listener) as first:
                assert await first.echo("a") == "a"
                async with connected(listener) as second:
                    assert await second.is_closed_by_server()
                listener.connection_limits = lambda: ConnectionLimits(total=10, per_ip=2)
                async with connected(listener) as third:
                    assert await third.echo("c") == "c"
            await eventually(lambda: listener.connection_count == 0)
            async with connected(listener) as fourth, connected(listener) as fifth:
                assert await fourth.echo("d") == "d"
                assert await fifth.echo("e") == "e"

    run(scenario())


def test_the_port_can_be_taken_again_at_once_after_a_stop():
    async def scenario():
        async with listening(SmallApi()) as listener, connected(listener) as client:
            assert await client.echo("x") == "x"
            port = listener.port
        async with listening(SmallApi(), port=port) as listener, connected(listener) as client:
            assert await client.echo("y") == "y"

    run(scenario())


def test_answers_are_not_delayed_by_the_socket():
    async def scenario():
        async with listening(SmallApi()) as listener, connected(listener) as client:
            assert await client.echo("x") == "x"
            connection: Any = next(iter(listener._connections))
            raw = connection._transport.get_extra_info("socket")
            assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(scenario())


@pytest.fixture
def certificate(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    curve = "ec_paramgen_curve:prime256v1"
    request = f"req -x509 -newkey ec -pkeyopt {curve} -nodes -days 1 -subj /CN=localhost"
    command = ["openssl", *request.split(), "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


def test_a_tls_listener_serves_tls_clients_and_survives_others(certificate):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*certificate)
    client_side = ssl.create_default_context(cafile=certificate[0])
    client_side.check_hostname = False

    async def scenario():
        api = SmallApi()
        async with listening(api, tls=server) as listener:
            async with connected(listener) as plain:
                plain.send(b"not a handshake")
                assert await plain.is_closed_by_server()
            async with connected(listener, ssl=client_side) as client:
                assert await client.echo("secret") == "secret"
                words = [await client.echo(f"w{n}", n) for n in range(50)]
                assert words == [f"w{n}" for n in range(50)]
                # Orderly goodbye, so that nothing is left in the handshake's hands.
                client.writer.close()
                await eventually(lambda: listener.connection_count == 0)

    run(scenario())


def test_stopping_twice_is_harmless():
    async def scenario():
        async with listening(SmallApi()) as listener:
            await listener.stop()
            await listener.stop()

    run(scenario())


def test_hundreds_of_idle_connections_disturb_nobody():
    async def scenario():
        async with listening(SmallApi()) as listener:
            opened = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(400)]
            async with connected(listener) as client:
                assert await client.echo("quick") == "quick"
            assert listener.connection_count >= 400
            for _, writer in opened:
                writer.transport.abort()
            await eventually(lambda: listener.connection_count == 0)

    run(scenario())
