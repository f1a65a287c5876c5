"""Logging in, frame by frame, on a listener that asks for it."""

from __future__ import annotations

import struct
from contextlib import asynccontextmanager

import pytest
from kio.schema.errors import ErrorCode

from goqueue.access.keys import Mechanism
from goqueue.protocols.kafka.access.sasl import FAILED, SaslApi
from goqueue.protocols.kafka.connection.deadlines import CloseReason
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.protocols.kafka.settings import SaslSettings
from goqueue.wire.kafka.api_keys import ApiKey
from support.brokers import running_broker
from unit.protocols.kafka.live import (
    RawClient,
    connected,
    echo_frame,
    frame,
    listening,
    run,
    string,
    word_of,
)

ALICE = b"\0alice\0secret"

LOGINS = 1000


class Echo:
    """One API that only those who have logged in may call."""

    @api(ApiKey.FIND_COORDINATOR, 0, 2, right=ANYONE)
    def echo(self, ctx, request):
        return {"error_code": 0, "node_id": 1, "host": ctx.peer.session.principal.label, "port": 9}


@asynccontextmanager
async def guarded(folder, *, open_door=False, linger_s=0.0, **sasl):
    settings = SaslSettings(failure_delay_s=0.0, **sasl)
    initial = (("alice", "secret"), ("bob", "secret"))
    async with running_broker(folder, initial_users=initial) as broker:
        api = SaslApi(broker, settings)
        guard = {"requires_authentication": not open_door, "refused_linger_s": linger_s}
        async with listening(Echo(), api, **guard) as listener:
            yield listener


async def handshake(client: RawClient, mechanism="PLAIN", version=1) -> tuple[int, list[str]]:
    client.send(frame(ApiKey.SASL_HANDSHAKE, version, 1, string(mechanism)))
    _, body = await client.answer()
    code, count = struct.unpack_from(">hi", body)
    place, names = 6, []
    for _ in range(count):
        (size,) = struct.unpack_from(">h", body, place)
        names.append(body[place + 2 : place + 2 + size].decode())
        place += 2 + size
    return code, names


async def authenticate(client: RawClient, token: bytes) -> tuple[int, str | None, bytes, int]:
    client.send(frame(ApiKey.SASL_AUTHENTICATE, 1, 2, struct.pack(">i", len(token)) + token))
    _, body = await client.answer()
    code, size = struct.unpack_from(">hh", body)
    text = body[4 : 4 + size].decode() if size >= 0 else None
    place = 4 + max(size, 0)
    (size,) = struct.unpack_from(">i", body, place)
    answer = body[place + 4 : place + 4 + size]
    return code, text, answer, struct.unpack_from(">q", body, place + 4 + size)[0]


async def principal(client: RawClient) -> str:
    return await client.echo("x")


def test_a_client_that_has_logged_in_is_served_under_its_name(tmp_path):
    async def scenario():
        async with guarded(tmp_path) as listener, connected(listener) as client:
            assert await handshake(client) == (0, list(Mechanism))
            assert await authenticate(client, ALICE) == (0, None, b"", 0)
            assert await principal(client) == "User:alice"

    run(scenario())


def test_nothing_is_served_before_a_login(tmp_path):
    async def scenario():
        async with guarded(tmp_path) as listener:
            async with connected(listener) as client:
                client.send(echo_frame(1, "x"))
                assert await client.is_closed_by_server()
            async with connected(listener) as client:
                await handshake(client)
                client.send(echo_frame(1, "x"))
                assert await client.is_closed_by_server()

    run(scenario())


def test_large_frames_are_for_those_who_have_logged_in(tmp_path):
    # What follows the fields of a request is ignored, so this is a valid one of any size.
    large = frame(ApiKey.FIND_COORDINATOR, 0, 7, string("x") + bytes(600_000))

    async def scenario():
        async with guarded(tmp_path) as listener:
            async with connected(listener) as client:
                client.send(large[:4])
                assert await client.is_closed_by_server()
            async with connected(listener) as client:
                await handshake(client)
                await authenticate(client, ALICE)
                client.send(large)
                _, body = await client.answer()
                assert word_of(body) == "User:alice"

    run(scenario())


@pytest.mark.parametrize(
    "token", [b"\0alice\0wrong", b"\0nobody\0secret", b"\0\0", b"", b"x" * 100_000, b"\xff\0\xff\0"]
)
def test_every_failure_says_the_same_and_ends_the_connection(tmp_path, token):
    async def scenario():
        async with guarded(tmp_path) as listener, connected(listener) as client:
            await handshake(client)
            failed = (ErrorCode.sasl_authentication_failed, FAILED, b"", 0)
            assert await authenticate(client, token) == failed
            assert await client.is_closed_by_server()
            assert listener.closed[CloseReason.REFUSED] == 1

    run(scenario())


def test_a_refused_client_has_time_to_read_why_and_nothing_more_is_served(tmp_path):
    async def scenario():
        async with (
            guarded(tmp_path, linger_s=3600.0) as listener,
            connected(listener) as client,
        ):
            await handshake(client)
            await authenticate(client, b"nonsense")
            assert listener.connection_count == 1
            client.send(frame(ApiKey.SASL_HANDSHAKE, 1, 3, string("PLAIN")))
            (connection,) = listener._connections
            assert not connection._is_reading
            connection.close(CloseReason.REFUSED)
            assert await client.is_closed_by_server()

    run(scenario())


def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are(tmp_path):
    async def scenario():
        enabled = (Mechanism.SCRAM_SHA_512, Mechanism.SCRAM_SHA_256)
        async with guarded(tmp_path, mechanisms=enabled) as listener:
            for wrong in ("PLAIN", "GSSAPI", "", "plain"):
                async with connected(listener) as client:
                    code, names = await handshake(client, wrong)
                    assert code == ErrorCode.unsupported_sasl_mechanism
                    assert names == ["SCRAM-SHA-512", "SCRAM-SHA-256"]
                    assert await client.is_closed_by_server()

    run(scenario())


def test_a_token_without_a_handshake_is_out_of_order(tmp_path):
    async def scenario():
        async with guarded(tmp_path) as listener, connected(listener) as client:
            code, text, _, _ = await authenticate(client, ALICE)
            assert code == ErrorCode.illegal_sasl_state
            assert "SaslHandshake" in text
            assert await client.is_closed_by_server()

    run(scenario())


def test_a_second_handshake_during_a_login_is_out_of_order(tmp_path):
    async def scenario():
        async with guarded(tmp_path) as listener, connected(listener) as client:
            await handshake(client, "SCRAM-SHA-256")
            assert await handshake(client) == (ErrorCode.illegal_sasl_state, [])
            assert await client.is_closed_by_server()

    run(scenario())


def test_a_login_where_none_is_needed_is_out_of_order_and_harmless(tmp_path):
    async def scenario():
        async with guarded(tmp_path, open_door=True) as listener, connected(listener) as client:
            assert await handshake(client) == (ErrorCode.illegal_sasl_state, [])
            assert (await authenticate(client, ALICE))[0] == ErrorCode.illegal_sasl_state
            assert await principal(client) == "User:ANONYMOUS"

    run(scenario())


def test_a_second_login_is_out_of_order_while_the_first_counts_for_ever(tmp_path):
    async def scenario():
        async with guarded(tmp_path) as listener, connected(listener) as client:
            await handshake(client)
            await authenticate(client, ALICE)
            assert await handshake(client) == (ErrorCode.illegal_sasl_state, [])
            assert (await authenticate(client, ALICE))[0] == ErrorCode.illegal_sasl_state
            assert await principal(client) == "User:alice"

    run(scenario())


# --- Logins that expire ---------------------------------------------------------------------------


async def logged_in(client: RawClient, token: bytes = ALICE):
    assert (await handshake(client))[0] == 0
    return await authenticate(client, token)


def test_clients_are_told_how_long_their_login_counts_and_may_renew_it(tmp_path):
    async def scenario():
        async with (
            guarded(tmp_path, session_lifetime_ms=60_000) as listener,
            connected(listener) as client,
        ):
            assert await logged_in(client) == (0, None, b"", 60_000)
            (connection,) = listener._connections
            first = connection.session.expires_at
            for _ in range(LOGINS):  # one may come in the same millisecond
                assert await logged_in(client) == (0, None, b"", 60_000)
                if connection.session.expires_at > first:
                    break
            assert connection.session.expires_at > first
            listener.sweep(first)
            assert await principal(client) == "User:alice"

    run(scenario())


def test_a_login_that_has_expired_closes_the_connection_at_its_next_request(tmp_path):
    async def scenario():
        async with (
            guarded(tmp_path, session_lifetime_ms=60_000) as listener,
            connected(listener) as client,
        ):
            await logged_in(client)
            (connection,) = listener._connections
            listener.sweep(connection.session.expires_at - 1)
            assert await principal(client) == "User:alice"
            listener.sweep(connection.session.expires_at)
            client.send(echo_frame(1, "x"))
            assert await client.is_closed_by_server()

    run(scenario())


def test_an_expired_login_can_still_be_renewed(tmp_path):
    async def scenario():
        async with (
            guarded(tmp_path, session_lifetime_ms=60_000) as listener,
            connected(listener) as client,
        ):
            await logged_in(client)
            (connection,) = listener._connections
            listener.sweep(connection.session.expires_at)
            assert await logged_in(client) == (0, None, b"", 60_000)
            assert await principal(client) == "User:alice"

    run(scenario())


@pytest.mark.parametrize("token", [b"\0bob\0secret", b"\0alice\0wrong"])
def test_a_login_cannot_be_renewed_as_another_user_or_with_a_wrong_password(tmp_path, token):
    async def scenario():
        async with (
            guarded(tmp_path, session_lifetime_ms=60_000) as listener,
            connected(listener) as client,
        ):
            await logged_in(client)
            code, text, _, _ = await logged_in(client, token)
            assert (code, text) == (ErrorCode.sasl_authentication_failed, FAILED)
            assert await client.is_closed_by_server()

    run(scenario())


# --- Bare tokens, as before Kafka 1.0 -------------------------------------------------------------


async def bare(client: RawClient, token: bytes) -> bytes:
    client.send(struct.pack(">i", len(token)) + token)
    (size,) = struct.unpack(">i", await client.reader.readexactly(4))
    return await client.reader.readexactly(size)


def test_after_the_oldest_handshake_tokens_come_without_a_header(tmp_path):
    async def scenario():
        async with guarded(tmp_path) as listener, connected(listener) as client:
            assert (await handshake(client, version=0))[0] == 0
            assert await bare(client, ALICE) == b""
            assert await principal(client) == "User:alice"

    run(scenario())


def test_a_bare_token_that_fails_is_answered_by_hanging_up(tmp_path):
    async def scenario():
        async with guarded(tmp_path) as listener:
            for token in (b"\0alice\0wrong", b"", echo_frame(1, "x")[4:]):
                async with connected(listener) as client:
                    await handshake(client, version=0)
                    client.send(struct.pack(">i", len(token)) + token)
                    assert await client.is_closed_by_server()

    run(scenario())
