from __future__ import annotations

import asyncio
import gc
import logging
import struct
import weakref
from functools import partial
from operator import contains
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.model.errors import OffsetOutOfRangeError
from goqueue.protocols.kafka.connection.deadlines import CloseReason
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.wire.kafka import produce as produce_wire
from goqueue.wire.kafka.api_keys import ApiKey
from unit.protocols.kafka.live import (
    SmallApi,
    connected,
    echo_frame,
    eventually,
    fetch_frame,
    frame,
    heartbeat_frame,
    listening,
    produce_frame,
    run,
    slow_frame,
    string,
    word_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.wire.kafka.frames import Response

EMPTY_PRODUCE_ANSWER = produce_wire.encode_response(7, [])


# --- Frames and order ---------------------------------------------------------------------------


def test_a_frame_split_at_every_byte_is_one_request():
    async def scenario():
        async with listening(SmallApi()) as listener, connected(listener) as client:
            data = echo_frame(1, "hello")
            for cut in range(1, len(data)):
                client.send(data[:cut])
                await client.writer.drain()
                await eventually(lambda: listener.budget.used_bytes == cut)  # noqa: B023 - awaited
                client.send(data[cut:])
                assert word_of((await client.answer())[1]) == "hello"

    run(scenario())


def test_many_requests_in_one_packet_are_answered_in_order():
    async def scenario():
        async with listening(SmallApi()) as listener, connected(listener) as client:
            client.send(*(echo_frame(n, f"w{n}") for n in range(500)))
            answers = [await client.answer() for _ in range(500)]
            assert [(n, word_of(body)) for n, body in answers] == [(n, f"w{n}") for n in range(500)]

    run(scenario())


def test_pipelined_requests_start_at_once_and_are_answered_in_order():
    async def scenario():
        api = SmallApi()
        async with listening(api) as listener, connected(listener) as client:
            client.send(*(produce_frame(n, waits=True) for n in range(3)))
            await eventually(lambda: api.started == [0, 1, 2])
            for n in (2, 1, 0):
                api.held[n].set_result(EMPTY_PRODUCE_ANSWER)
            assert [(await client.answer())[0] for _ in range(3)] == [0, 1, 2]

    run(scenario())


def test_a_plain_handler_never_overtakes_the_first_step_of_a_coroutine_before_it():
    async def scenario():
        api = SmallApi()
        async with listening(api) as listener, connected(listener) as client:
            client.send(slow_frame(0), produce_frame(1), slow_frame(2), produce_frame(3))
            await eventually(lambda: len(api.started) == 4)
            assert api.started == [0, 1, 2, 3]
            for future in api.held.values():
                future.set_result(None)
            assert [(await client.answer())[0] for _ in range(4)] == [0, 1, 2, 3]

    run(scenario())


def test_other_requests_start_when_all_before_them_are_answered():
    async def scenario():
        api = SmallApi()
        async with listening(api) as listener, connected(listener) as client:
            client.send(produce_frame(0, waits=True), echo_frame(1, "a"), produce_frame(2))
            await eventually(lambda: 0 in api.held)
            assert api.started == [0]
            api.held[0].set_result(EMPTY_PRODUCE_ANSWER)
            assert [(await client.answer())[0] for _ in range(3)] == [0, 1, 2]
            assert api.started == [0, 1, 2]

    run(scenario())


def test_a_long_poll_holds_up_only_its_own_connection():
    async def scenario():
        api = SmallApi()
        async with (
            listening(api) as listener,
            connected(listener) as waiting,
            connected(listener) as other,
        ):
            waiting.send(fetch_frame(0, waits=True), echo_frame(1, "later"))
            await eventually(lambda: 0 in api.held)
            assert await other.echo("now", 7) == "now"
            api.held[0].set_result(None)
            assert [(await waiting.answer())[0] for _ in range(2)] == [0, 1]

    run(scenario())


def test_a_produce_request_without_acks_is_not_answered():
    async def scenario():
        async with listening(SmallApi()) as listener, connected(listener) as client:
            client.send(produce_frame(0, acks=0), produce_frame(1), produce_frame(2, acks=0))
            client.send(echo_frame(3, "x"))
            assert [(await client.answer())[0] for _ in range(2)] == [1, 3]

    run(scenario())


def test_no_more_requests_than_the_bound_run_at_once():
    async def scenario():
        api = SmallApi()
        async with (
            listening(api, max_pipelined_requests=3) as listener,
            connected(listener) as client,
        ):
            client.send(*(produce_frame(n, waits=True) for n in range(10)))
            await eventually(lambda: len(api.held) == 3)
            assert api.started == [0, 1, 2]
            api.held[1].set_result(EMPTY_PRODUCE_ANSWER)
            api.held[0].set_result(EMPTY_PRODUCE_ANSWER)
            await eventually(lambda: len(api.held) == 5)
            for n in range(10):
                await eventually(partial(contains, api.held, n))
                if not api.held[n].done():
                    api.held[n].set_result(EMPTY_PRODUCE_ANSWER)
            assert [(await client.answer())[0] for _ in range(10)] == list(range(10))

    run(scenario())


# --- Requests that are refused --------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", -1), id="negative length"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="absurd length"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="http"),
        pytest.param(struct.pack(">i", 0), id="empty frame"),
        pytest.param(struct.pack(">i", 4) + b"abcd", id="no room for a header"),
        pytest.param(frame(999, 0, 1, b""), id="unknown api"),
        pytest.param(frame(-5, 0, 1, b""), id="negative api"),
        pytest.param(frame(10, 99, 1, b""), id="unknown version"),
        pytest.param(frame(0, 2, 1, b""), id="advertised and not served"),
        pytest.param(frame(10, 0, 1, b"\0\5ab"), id="truncated body"),
        pytest.param(frame(18, -1, 1, b"")[:12], id="half a header"),
    ],
)
def test_what_cannot_be_served_closes_its_connection_with_one_line_and_no_other(data, caplog):
    async def scenario():
        async with (
            listening(SmallApi()) as listener,
            connected(listener) as bad,
            connected(listener) as good,
        ):
            assert await good.echo("before") == "before"
            bad.send(data)
            if data == frame(18, -1, 1, b"")[:12]:
                bad.writer.write_eof()
            assert await bad.is_closed_by_server()
            assert await good.echo("after") == "after"

    with caplog.at_level(logging.INFO, "goqueue.protocols.kafka.connection.listener"):
        run(scenario())
    lines = [r for r in caplog.records if "closing the connection" in r.message]
    assert len(lines) == (0 if data == frame(18, -1, 1, b"")[:12] else 1)


def test_what_was_asked_before_a_bad_request_is_still_answered():
    async def scenario():
        api = SmallApi()
        async with listening(api) as listener, connected(listener) as client:
            client.send(produce_frame(0, waits=True), frame(999, 0, 1, b""))
            await eventually(lambda: 0 in api.held)
            api.held[0].set_result(EMPTY_PRODUCE_ANSWER)
            assert (await client.answer())[0] == 0
            assert await client.is_closed_by_server()
            assert listener.closed == {CloseReason.BAD_REQUEST: 1}

    run(scenario())


def test_unknown_tagged_fields_reach_the_handler_as_nothing():
    async def scenario():
        async with listening(SmallApi()) as listener, connected(listener) as client:
            unknown = b"\x01\x63\x03abc"
            body = b"\0" + struct.pack(">i", 0) + b"\xff" * 8 + b"\xff\xff" + unknown
            client.send(frame(22, 3, 5, body, header_tags=unknown))
            assert (await client.answer())[0] == 5

    run(scenario())


# --- Handlers that fail ---------------------------------------------------------------------------


def test_an_error_of_ours_is_answered_with_its_code():
    async def scenario():
        async with listening(SmallApi()) as listener, connected(listener) as client:
            client.send(heartbeat_frame(1, "known"))
            assert await client.answer() == (1, struct.pack(">h", 1))

    run(scenario())


class HeldApi:
    """Refuses, and keeps the refusal in a frame of it, as whoever collects outcomes does."""

    def __init__(self):
        self.held: Callable[[], object] = lambda: None

    @api(ApiKey.HEARTBEAT, 0, 4, right=ANYONE)
    async def refuse(self, ctx: RequestContext, request: Any) -> Response:
        watched = {request.group_id}
        self.held = weakref.ref(watched)
        outcomes = [OffsetOutOfRangeError(5, 0, 1)]
        raise outcomes[0]


def test_a_request_that_was_refused_does_not_wait_for_a_collection_of_garbage():
    async def scenario():
        held = HeldApi()
        async with listening(held) as listener, connected(listener) as client:
            client.send(heartbeat_frame(1, "known"))
            await client.answer()
            assert isinstance(held.held, weakref.ref)
            await eventually(lambda: held.held() is None)

    gc.disable()
    try:
        run(scenario())
    finally:
        gc.enable()


def test_an_error_is_answered_for_each_item_where_the_family_says_how():
    async def scenario():
        async with listening(SmallApi()) as listener, connected(listener) as client:
            client.send(frame(42, 0, 1, struct.pack(">i", 2) + string("a") + string("b")))
            _, body = await client.answer()
            wanted = string("a") + struct.pack(">h", 1) + string("b") + struct.pack(">h", 1)
            assert body == struct.pack(">ii", 0, 2) + wanted

    run(scenario())


@pytest.mark.parametrize(
    ("data", "api"),
    [
        (heartbeat_frame(1, "unexpected"), "HEARTBEAT v0"),
        (heartbeat_frame(1, "invariant"), "HEARTBEAT v0"),
        (heartbeat_frame(1, "misspelt"), "HEARTBEAT v0"),
        (frame(2, 1, 1, struct.pack(">ii", -1, 0)), "LIST_OFFSETS v1"),
    ],
    ids=["unexpected", "invariant", "misspelt answer", "no place for the code"],
)
def test_a_handler_that_fails_is_logged_once_and_costs_only_its_connection(data, api, caplog):
    async def scenario():
        async with (
            listening(SmallApi()) as listener,
            connected(listener) as bad,
            connected(listener) as good,
        ):
            bad.send(data)
            assert await bad.is_closed_by_server()
            assert await good.echo("still here") == "still here"
            assert listener.closed[CloseReason.HANDLER_FAILED] == 1
            await eventually(lambda: listener.budget.used_bytes == 0)

    run(scenario())
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == [f"{api} from 127.0.0.1 failed"]


# --- Clients that go away -------------------------------------------------------------------------


def test_a_long_poll_ends_when_its_client_goes_away():
    async def scenario():
        api = SmallApi()
        async with listening(api) as listener:
            async with connected(listener) as client:
                client.send(fetch_frame(3, waits=True))
                await eventually(lambda: 3 in api.held)
            await eventually(lambda: api.cancelled == [3])
            await eventually(lambda: listener.budget.used_bytes == 0)
            assert listener.closed == {CloseReason.CLIENT: 1}

    run(scenario())


def test_a_handler_that_changes_something_runs_to_its_end_though_its_client_is_gone():
    async def scenario():
        api = SmallApi()
        async with listening(api) as listener:
            async with connected(listener) as client:
                client.send(slow_frame(3))
                await eventually(lambda: 3 in api.held)
            await eventually(lambda: listener.connection_count == 0)
            assert listener.budget.used_bytes > 0
            api.held[3].set_result(None)
            await eventually(lambda: api.finished == [3])
            await eventually(lambda: listener.budget.used_bytes == 0)

    run(scenario())


# --- Authentication -------------------------------------------------------------------------------


def test_nothing_but_the_handshake_is_served_before_authentication():
    async def scenario():
        async with listening(SmallApi(), requires_authentication=True) as listener:
            async with connected(listener) as client:
                client.send(frame(18, 0, 1, b""))
                assert (await client.answer())[0] == 1
                client.send(echo_frame(2, "let me in"))
                assert await client.is_closed_by_server()
            async with connected(listener) as client:
                client.send(frame(36, 0, 1, struct.pack(">i", 3) + b"ann"))
                assert b"User:ann" in (await client.answer())[1]
                assert await client.echo("inside") == "inside"

    run(scenario())


def test_large_frames_are_refused_before_authentication():
    async def scenario():
        settings = {"requires_authentication": True, "max_unauthenticated_request_bytes": 1000}
        async with listening(SmallApi(), **settings) as listener, connected(listener) as client:
            client.send(struct.pack(">i", 1001))
            assert await client.is_closed_by_server()

    run(scenario())


# --- Stopping -------------------------------------------------------------------------------------


def test_stopping_answers_what_is_under_way_and_refuses_new_connections():
    async def scenario():
        api = SmallApi()
        async with listening(api) as listener, connected(listener) as client:
            port = listener.port
            client.send(slow_frame(1))
            await eventually(lambda: 1 in api.held)
            stopping = asyncio.create_task(listener.stop(deadline_s=60))
            await asyncio.sleep(0)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            api.held[1].set_result(None)
            assert (await client.answer())[0] == 1
            assert await client.is_closed_by_server()
            await stopping

    run(scenario())


def test_stopping_ends_idle_connections_and_long_polls_at_once():
    async def scenario():
        api = SmallApi()
        async with (
            listening(api) as listener,
            connected(listener) as idle,
            connected(listener) as polling,
        ):
            assert await idle.echo("x") == "x"
            polling.send(fetch_frame(1, waits=True))
            await eventually(lambda: 1 in api.held)
            await listener.stop(deadline_s=60)
            assert api.cancelled == [1]
            assert await idle.is_closed_by_server()
            assert await polling.is_closed_by_server()

    run(scenario())


def test_what_is_not_done_at_the_deadline_is_cut_off():
    async def scenario():
        api = SmallApi()
        async with listening(api) as listener, connected(listener) as client:
            client.send(slow_frame(1))
            await eventually(lambda: 1 in api.held)
            await listener.stop(deadline_s=0.01)
            assert listener.connection_count == 0
            assert await client.is_closed_by_server()
            assert api.finished == []

    run(scenario())
