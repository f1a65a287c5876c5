from __future__ import annotations

import asyncio
import ssl
import struct
from contextlib import AsyncExitStack
from functools import partial
from operator import contains
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.protocols.kafka.connection.budget import AnswerBudget, AnswerShare, RequestBudget
from goqueue.protocols.kafka.connection.deadlines import CloseReason, Deadlines
from goqueue.protocols.kafka.records.fetch import FetchApi
from goqueue.protocols.kafka.settings import ListenerSettings
from goqueue.wire.kafka import produce as produce_wire
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.frames import FrameReader
from support.brokers import publish, running_broker
from support.certificates import Authority
from unit.protocols.kafka.live import (
    SmallApi,
    connected,
    echo_frame,
    eventually,
    fetch_frame,
    frame,
    listening,
    produce_frame,
    run,
    slow_frame,
    string,
)

if TYPE_CHECKING:
    from goqueue.protocols.kafka.connection.connection import Connection
    from goqueue.protocols.kafka.connection.listener import Listener

EMPTY_PRODUCE_ANSWER = produce_wire.encode_response(7, [])
KIB, MIB = 1024, 1024 * 1024
LATER = 10_000.0


def connections(listener: Listener) -> list[Any]:
    """With all that they hold, not only what the listener sees of them."""
    return list(listener._connections)


def only_connection(listener: Listener) -> Connection:
    (connection,) = connections(listener)
    return connection


def now() -> float:
    return asyncio.get_running_loop().time()


# --- Clients that do not read ---------------------------------------------------------------------


@pytest.fixture(params=["plain", "tls"])
def ends(request, tmp_path):
    """What the two ends of a connection are made with: nothing, or TLS."""
    if request.param == "plain":
        return SimpleNamespace(server={}, client={})
    authority = Authority(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.issue("broker"))
    client = ssl.create_default_context(cafile=authority.ca_file)
    return SimpleNamespace(server={"tls": server}, client={"ssl": client})


def test_a_client_that_does_not_read_is_paused_then_dropped_and_others_are_served(ends):
    async def scenario():
        api = SmallApi()
        api.blob = bytes(1 * MIB)
        async with (
            listening(api, max_unsent_bytes=64 * KIB, **ends.server) as listener,
            connected(listener, limit=1 * KIB, **ends.client) as lazy,
        ):
            lazy.send(*(fetch_frame(n) for n in range(200)))
            await eventually(lambda: connections(listener))
            connection = only_connection(listener)
            await eventually(lambda: not connection._is_writable)
            # What is unsent is bounded by the limit and one answer, however much was asked for.
            assert connection._transport.get_write_buffer_size() < 64 * KIB + 2 * MIB
            assert len(api.started) < 30
            assert not connection._is_reading
            async with connected(listener, **ends.client) as other:
                assert await other.echo("served") == "served"
            listener.sweep(now())
            assert listener.connection_count >= 1
            listener.sweep(now() + listener.settings.stalled_write_s + 1)
            await eventually(lambda: listener.closed[CloseReason.SLOW_READER] == 1)
            await eventually(lambda: listener.budget.used_bytes == 0)

    run(scenario())


def test_a_client_that_reads_again_gets_everything_it_asked_for():
    async def scenario():
        api = SmallApi()
        api.blob = bytes(1 * MIB)
        async with (
            listening(api, max_unsent_bytes=64 * KIB) as listener,
            connected(listener, limit=1 * KIB) as client,
        ):
            client.send(*(fetch_frame(n) for n in range(40)))
            connection = only_connection(listener)
            await eventually(lambda: not connection._is_writable)
            answers = [await client.answer() for _ in range(40)]
            assert [n for n, _ in answers] == list(range(40))
            assert all(len(body) > MIB for _, body in answers)
            assert connection._is_reading

    run(scenario())


def test_a_client_that_reads_a_trickle_is_dropped_and_others_are_not_disturbed():
    async def scenario():
        api = SmallApi()
        api.blob = bytes(24 * MIB)
        # So fast that what the kernel takes in one go is still a trickle.
        settings = {"max_unsent_bytes": 64 * KIB, "min_bytes_per_s": 1024 * MIB}
        async with (
            listening(api, **settings) as listener,
            connected(listener, limit=1 * KIB) as trickling,
            connected(listener) as other,
        ):
            trickling.send(fetch_frame(1))
            await eventually(lambda: listener.unsent_bytes > 64 * KIB)
            assert await other.echo("before") == "before"
            (slow,) = (c for c in connections(listener) if not c._is_writable)
            for later_s in (29, 58):
                listener.sweep(now())
                unsent = slow._transport.get_write_buffer_size()
                while slow._transport.get_write_buffer_size() == unsent:
                    await trickling.reader.read(64 * KIB)
                assert not slow._is_writable
                assert listener.connection_count == 2
                listener.sweep(now() + later_s)
            await eventually(lambda: listener.closed == {CloseReason.TRICKLING_READER: 1})
            assert listener.unsent_bytes == 0
            assert await other.echo("after") == "after"

    run(scenario())


def test_many_slow_consumers_together_keep_no_more_than_the_listener_s_bound(tmp_path):
    bound, least, batch, clients = 4 * MIB, 64 * KIB, 32 * KIB, 8
    settings = {
        "max_unsent_bytes": 64 * KIB,
        "max_unsent_listener_bytes": bound,
        "min_fetch_answer_bytes": least,
    }
    highest = bound + clients * (64 * KIB + least + 2 * batch)

    def most_held(listener: Listener) -> int:
        return sum(c._transport.get_write_buffer_size() for c in connections(listener))

    async def scenario():
        async with (
            running_broker(tmp_path) as broker,
            listening(FetchApi(broker), **settings) as listener,
            AsyncExitStack() as stack,
        ):
            await broker.create_topic("t", 1)
            for _ in range(512):
                publish(broker, "t", bytes(batch))
            slow = [
                await stack.enter_async_context(connected(listener, limit=1 * KIB))
                for _ in range(clients)
            ]
            for client in slow:
                client.send(*(everything_frame(n) for n in range(300)))
            peak = 0
            while any(c._is_writable for c in connections(listener)) or not peak:
                await asyncio.sleep(0)
                peak = max(peak, listener.unsent_bytes)
                assert most_held(listener) <= listener.unsent_bytes <= highest
            assert peak > bound // 2
            # Who reads is served, however much the others leave.
            _, body = await slow[0].answer()
            assert len(body) > batch
            for client in slow:
                client.writer.transport.abort()
            await eventually(lambda: listener.connection_count == 0)
            assert listener.unsent_bytes == 0

    run(scenario())


def everything_frame(correlation_id: int) -> bytes:
    """A Fetch of all that partition 0 has."""
    most = (1 << 31) - 1
    partition = struct.pack(">iiqi", 1, 0, 0, most)
    body = struct.pack(">iiiibi", -1, 0, 1, most, 0, 1) + string("t") + partition
    return frame(ApiKey.FETCH, 4, correlation_id, body)


# --- Clients that send more than is handled -------------------------------------------------------


def test_a_connection_over_its_bound_is_not_read_until_an_answer_is_ready():
    async def scenario():
        api = SmallApi()
        bounds = {"max_connection_bytes": 256 * KIB}
        async with listening(api, **bounds) as listener, connected(listener) as client:
            records = bytes(100 * KIB)
            client.send(*(produce_frame(n, waits=True, records=records) for n in range(60)))
            connection = only_connection(listener)
            await eventually(lambda: not connection._is_reading)
            assert listener.budget.used_bytes < 256 * KIB + 300 * KIB
            for n in range(60):
                await eventually(partial(contains, api.held, n))
                assert listener.budget.used_bytes < 256 * KIB + 600 * KIB
                api.held[n].set_result(EMPTY_PRODUCE_ANSWER)
                assert (await client.answer())[0] == n
            await eventually(lambda: listener.budget.used_bytes == 0)
            assert connection._is_reading

    run(scenario())


def test_one_request_may_be_larger_than_the_bounds():
    async def scenario():
        bounds = {"max_connection_bytes": 64 * KIB, "max_listener_bytes": 64 * KIB}
        async with (
            listening(SmallApi(), **bounds) as listener,
            connected(listener) as client,
        ):
            client.send(produce_frame(1, records=bytes(5 * MIB)))
            assert (await client.answer())[0] == 1
            assert listener.budget.used_bytes == 0

    run(scenario())


def test_half_received_requests_over_the_listener_s_bound_all_get_through():
    async def scenario():
        api = SmallApi()
        async with listening(api, max_listener_bytes=1 * MIB) as listener:
            clients = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(8)]
            data = produce_frame(1, records=bytes(1 * MIB))
            # Everyone sends half; together that is four times the bound.
            for _, writer in clients:
                writer.write(data[: len(data) // 2])
            await eventually(lambda: listener.budget.waiting_count > 0)
            for _, writer in clients:
                writer.write(data[len(data) // 2 :])
            for reader, writer in clients:
                async with asyncio.timeout(60):
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    await reader.readexactly(size)
                writer.transport.abort()
            assert listener.budget.used_bytes == 0
            assert listener.budget.waiting_count == 0

    run(scenario())


def test_a_claimed_length_allocates_nothing():
    async def scenario():
        async with listening(SmallApi()) as listener, connected(listener) as client:
            client.send(struct.pack(">i", 100 * MIB) + b"x")
            await eventually(lambda: listener.budget.used_bytes == 5)
            frames = only_connection(listener)._frames
            assert frames.buffered_bytes == 5
            assert frames._partial.__alloc__() < KIB

    run(scenario())


def test_a_flood_of_single_bytes_behind_a_blocked_request_is_one_buffer():
    frames = FrameReader()
    frames.feed(b"ab")
    for _ in range(10_000):
        frames.feed(b"x")
    assert isinstance(frames._rest, bytearray)
    assert frames.buffered_bytes == 10_002


# --- Deadlines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", CloseReason.IDLE),
        (b"\0\0", CloseReason.SLOW_FRAME),
        (echo_frame(1, "almost")[:-1], CloseReason.SLOW_FRAME),
    ],
    ids=["idle", "half a length", "all but a byte"],
)
def test_idle_and_dripping_connections_are_closed_at_their_deadline(data, reason, ends):
    async def scenario():
        async with (
            listening(SmallApi(), **ends.server) as listener,
            connected(listener, **ends.client) as client,
        ):
            assert await client.echo("hello") == "hello"
            client.send(data)
            await eventually(lambda: listener.budget.used_bytes == len(data))
            listener.sweep(now() + 20)
            assert listener.connection_count == 1
            listener.sweep(now() + LATER)
            assert await client.is_closed_by_server()
            await eventually(lambda: listener.closed == {reason: 1})

    run(scenario())


def test_a_connection_that_waits_for_us_is_never_idle():
    async def scenario():
        api = SmallApi()
        async with listening(api) as listener, connected(listener) as client:
            client.send(slow_frame(1))
            await eventually(lambda: 1 in api.held)
            listener.sweep(now() + LATER)
            api.held[1].set_result(None)
            assert (await client.answer())[0] == 1

    run(scenario())


def test_the_listener_looks_at_deadlines_by_itself():
    async def scenario():
        settings = {"idle_s": 0.0, "sweep_s": 0.001}
        async with listening(SmallApi(), **settings) as listener, connected(listener) as client:
            assert await client.is_closed_by_server()

    run(scenario())


SETTINGS = ListenerSettings(frame_grace_s=30, min_bytes_per_s=1000, stalled_write_s=10, idle_s=600)


def test_a_large_frame_has_longer_as_long_as_it_keeps_arriving():
    deadlines = Deadlines(SETTINGS, 0.0)
    deadlines.frames(0, 500)
    assert deadlines.judge_reading(50_000, 79.0) is None
    assert deadlines.judge_reading(50_000, 81.0) is CloseReason.SLOW_FRAME


def test_every_frame_has_its_own_time():
    deadlines = Deadlines(SETTINGS, 0.0)
    deadlines.frames(0, 5)
    deadlines.active(29.0)
    deadlines.frames(1, 5)
    assert deadlines.judge_reading(5, 58.0) is None
    assert deadlines.judge_reading(5, 60.0) is CloseReason.SLOW_FRAME


def test_a_pause_of_ours_is_not_the_client_s():
    deadlines = Deadlines(SETTINGS, 0.0)
    deadlines.frames(0, 5)
    deadlines.reading_resumed(100.0)
    assert deadlines.judge_reading(5, 129.0) is None


def test_a_client_that_stops_taking_its_answers_is_dropped_however_fast_it_was():
    deadlines = Deadlines(SETTINGS, 0.0)
    deadlines.writing_paused(100_000, 0.0)
    assert deadlines.judge_writing(1000, 9.0) is None
    assert deadlines.judge_writing(1000, 18.0) is None
    assert deadlines.judge_writing(1000, 20.0) is CloseReason.SLOW_READER


def test_a_client_that_takes_its_answers_too_slowly_is_dropped_although_it_gets_on():
    deadlines = Deadlines(SETTINGS, 0.0)
    deadlines.writing_paused(100_000, 0.0)
    assert deadlines.judge_writing(99_999, 9.0) is None
    assert deadlines.judge_writing(95_000, 14.0) is None
    assert deadlines.judge_writing(94_999, 16.0) is CloseReason.TRICKLING_READER


def test_answers_written_during_a_backlog_do_not_hide_what_the_client_took():
    deadlines = Deadlines(SETTINGS, 0.0)
    deadlines.writing_paused(100_000, 0.0)
    deadlines.backlog_grew(50_000)
    assert deadlines.judge_writing(120_000, 9.0) is None
    assert deadlines.judge_writing(119_999, 18.0) is None
    assert deadlines.judge_writing(119_998, 27.0) is None


def test_every_backlog_has_its_own_time():
    deadlines = Deadlines(SETTINGS, 0.0)
    deadlines.writing_paused(100_000, 0.0)
    deadlines.writing_paused(100_000, 100.0)
    assert deadlines.judge_writing(100_000, 109.0) is None
    assert deadlines.judge_writing(100_000, 111.0) is CloseReason.SLOW_READER


# --- The budget alone -----------------------------------------------------------------------------


def waiter(log: list[str], name: str) -> SimpleNamespace:
    class Waiter(SimpleNamespace):
        def __hash__(self) -> int:  # type: ignore[override]  # budgets keep them in sets
            return id(self)

    return Waiter(update_reading=lambda: log.append(name))


def small_budget(**bounds: int) -> RequestBudget:
    given: dict[str, Any] = {
        "max_listener_bytes": 100,
        "max_request_bytes": 50,
        "reserved_bytes": 0,
        **bounds,
    }
    return RequestBudget(ListenerSettings(**given))


def test_a_connection_that_holds_little_reads_from_the_reserve():
    budget = small_budget(max_unfinished_bytes=40, small_unfinished_bytes=10, reserved_bytes=20)
    large, small = waiter([], "large"), waiter([], "small")
    budget.unfinished_changed(40)
    assert budget.is_full
    assert budget.must_wait(large, 30, is_mid_request=False)
    assert not budget.must_wait(small, 5, is_mid_request=True)
    budget.unfinished_changed(20)
    assert budget.must_wait(small, 5, is_mid_request=False)


def test_who_holds_nothing_waits_only_for_the_reserve():
    log: list[str] = []
    called: list[str] = []
    settings = ListenerSettings(
        max_unfinished_bytes=40, small_unfinished_bytes=10, reserved_bytes=20
    )
    budget = RequestBudget(settings, lambda: called.append("exhausted"))
    budget.unfinished_changed(60)
    assert budget.is_exhausted
    assert budget.must_wait(waiter(log, "large"), 30, is_mid_request=False)
    assert called == []
    assert budget.must_wait(waiter(log, "small"), 0, is_mid_request=False)
    assert called == ["exhausted"]
    budget.unfinished_changed(-10)
    assert budget.is_full
    assert log == ["small"]
    budget.unfinished_changed(-20)
    assert log == ["small", "large"]
    assert budget.waiting_count == 0


def test_who_has_sent_a_whole_request_does_not_wait_for_half_sent_frames():
    log: list[str] = []
    settings = ListenerSettings(
        max_listener_bytes=100,
        max_unfinished_bytes=40,
        small_unfinished_bytes=10,
        reserved_bytes=20,
    )
    budget = RequestBudget(settings)
    budget.take(90)
    budget.unfinished_changed(90)
    known = waiter(log, "known")
    assert not budget.must_wait(known, 0, is_mid_request=False, is_known=True)
    assert budget.must_wait(waiter(log, "new"), 0, is_mid_request=False)
    budget.take(30)
    assert budget.must_wait(known, 0, is_mid_request=False, is_known=True)
    budget.give(10)
    assert log == ["known"]


def test_half_received_frames_have_a_bound_of_their_own():
    log: list[str] = []
    budget = small_budget(max_unfinished_bytes=40, reserved_bytes=0)
    budget.take(60)
    budget.unfinished_changed(60)
    assert budget.must_wait(waiter(log, "waits"), 30, is_mid_request=False)
    budget.unfinished_changed(-30)
    assert log == ["waits"]


def test_no_more_are_woken_than_there_is_room_for():
    log: list[str] = []
    budget = RequestBudget(ListenerSettings(max_listener_bytes=1 * MIB, reserved_bytes=0))
    budget.take(1 * MIB)
    for number in range(10):
        assert budget.must_wait(waiter(log, str(number)), MIB, is_mid_request=False)
    budget.give(1)
    assert log == ["0"]
    budget.give(600 * KIB)
    assert log == ["0", "1", "2", "3"]


def test_when_the_budget_is_full_one_half_received_request_is_favoured_at_a_time():
    log: list[str] = []
    budget = small_budget()
    first, second, idle = (waiter(log, name) for name in ("first", "second", "idle"))
    budget.take(100)
    assert budget.must_wait(idle, 100, is_mid_request=False)
    assert not budget.must_wait(first, 100, is_mid_request=True)
    assert budget.must_wait(second, 100, is_mid_request=True)
    budget.request_complete(first)
    assert log == ["second"]
    budget.give(60)
    assert log == ["second", "idle"]
    assert budget.waiting_count == 0


def test_nobody_is_favoured_beyond_one_more_request():
    log: list[str] = []
    budget = small_budget()
    budget.take(150)
    one = waiter(log, "one")
    assert budget.must_wait(one, 100, is_mid_request=True)
    budget.give(1)
    assert log == ["one"]


def test_a_favoured_connection_that_goes_away_makes_room_for_the_next():
    log: list[str] = []
    budget = small_budget()
    first, second = waiter(log, "first"), waiter(log, "second")
    budget.take(110)
    assert not budget.must_wait(first, 100, is_mid_request=True)
    assert budget.must_wait(second, 100, is_mid_request=True)
    budget.leave(first)
    assert log == ["second"]


def test_an_answer_may_hold_what_is_left_and_never_less_than_the_least():
    answers = AnswerBudget(100, min_answer_bytes=10)
    one, other = AnswerShare(answers), AnswerShare(answers)
    assert answers.room_bytes == 100
    one.hold(85)
    assert answers.room_bytes == 15
    other.granted_bytes = 30
    other.hold(20)
    assert answers.room_bytes == 10
    other.granted_bytes = 0
    other.hold(0)
    one.hold(0)
    assert answers.room_bytes == 100
