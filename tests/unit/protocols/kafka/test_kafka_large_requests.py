"""Requests that list a lot: read in a thread, one at a time, and refused beyond a bound."""

from __future__ import annotations

import asyncio
import gc
import logging
import struct
from contextlib import AsyncExitStack
from typing import Any

import pytest

from goqueue.protocols.kafka.connection.calls import Call
from goqueue.protocols.kafka.connection.deadlines import CloseReason
from goqueue.protocols.kafka.context import RequestContext
from goqueue.protocols.kafka.limits import MAX_SMALL_ELEMENTS
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.protocols.kafka.turns import Each, encode_in_turns, in_turns, once_each
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.errors import MalformedRequestError, TooManyElementsError
from goqueue.wire.kafka.frames import RequestPrefix, encode_body
from goqueue.wire.kafka.limits import MAX_ELEMENTS, MAX_STRING_BYTES
from goqueue.wire.kafka.primitives import Cursor, put_string, put_uvarint
from goqueue.wire.kafka.reading import reader_of
from goqueue.wire.kafka.schemas import schema_of
from unit.protocols.kafka.live import (
    SmallApi,
    connected,
    echo_frame,
    eventually,
    frame,
    listening,
    produce_frame,
    run,
    string,
    word_of,
)

KIB = 1024
LARGE = MAX_SMALL_ELEMENTS + 1


def tags(count: int) -> bytes:
    """So many unknown tagged fields without content."""
    out = bytearray()
    put_uvarint(out, count)
    return bytes(out) + b"\x64\x00" * count


def groups_frame(correlation_id: int, count: int) -> bytes:
    names = b"".join(string(f"g{number}") for number in range(count))
    return frame(ApiKey.DESCRIBE_GROUPS, 0, correlation_id, struct.pack(">i", count) + names)


class GroupsApi(SmallApi):
    @api(ApiKey.DESCRIBE_GROUPS, 0, 6, right=ANYONE)
    async def describe(self, ctx: Any, request: Any) -> Any:
        self.started.append(ctx.correlation_id)
        if not ctx.is_large:
            return {"groups": []}
        return {
            "groups": [
                {"group_id": name, "error_code": 1} async for name in in_turns(request.groups)
            ]
        }


# --- The reader alone -----------------------------------------------------------------------------


def test_tagged_fields_are_counted_with_the_elements_of_arrays():
    cursor = Cursor(memoryview(tags(MAX_ELEMENTS)))
    cursor.skip_tags()
    assert cursor.elements_left == 0
    with pytest.raises(TooManyElementsError):
        Cursor(memoryview(tags(MAX_ELEMENTS + 1))).skip_tags()


def test_tagged_fields_of_a_struct_are_counted():
    body = b"\x02a\x02b" + tags(MAX_ELEMENTS + 1)
    with pytest.raises(TooManyElementsError):
        reader_of(schema_of(ApiKey.API_VERSIONS, 3, "request"))(Cursor(memoryview(body)))


def test_more_tagged_fields_than_bytes_are_refused_before_any_is_read():
    with pytest.raises(MalformedRequestError, match="claimed"):
        Cursor(memoryview(b"\xff\xff\x03")).skip_tags()


@pytest.mark.parametrize("compact", [False, True])
def test_a_string_is_as_long_as_kafka_allows(compact):
    out = bytearray()
    put_string(out, "x" * MAX_STRING_BYTES, compact=compact)
    assert len(Cursor(memoryview(out)).required_string(compact=compact)) == MAX_STRING_BYTES


def test_a_compact_string_longer_than_an_int16_is_refused():
    out = bytearray()
    put_string(out, "x" * (MAX_STRING_BYTES + 1), compact=True)
    with pytest.raises(MalformedRequestError, match="32767"):
        Cursor(memoryview(out)).required_string(compact=True)


# --- Over a connection ----------------------------------------------------------------------------


@pytest.mark.parametrize("authenticated", [False, True])
def test_a_request_of_many_tagged_fields_closes_its_connection(authenticated):
    async def scenario():
        async with (
            listening(SmallApi(), requires_authentication=not authenticated) as listener,
            connected(listener) as client,
        ):
            body = b"\x02a\x02b" + tags(MAX_ELEMENTS + 1)
            client.send(frame(ApiKey.API_VERSIONS, 3, 1, body, header_tags=b"\0"))
            assert await client.is_closed_by_server()
            assert listener.closed[CloseReason.BAD_REQUEST] == 1

    run(scenario())


def test_tagged_fields_in_the_header_are_bounded_too():
    async def scenario():
        async with listening(SmallApi()) as listener, connected(listener) as client:
            header = tags(MAX_SMALL_ELEMENTS + 1)
            client.send(frame(ApiKey.API_VERSIONS, 3, 1, b"\x02a\x02b\0", header_tags=header))
            assert await client.is_closed_by_server()

    run(scenario())


def test_before_a_login_there_are_no_large_requests():
    async def scenario():
        async with (
            listening(SmallApi(), requires_authentication=True) as listener,
            connected(listener) as client,
        ):
            body = b"\x02a\x02b" + tags(LARGE)
            client.send(frame(ApiKey.API_VERSIONS, 3, 1, body, header_tags=b"\0"))
            assert await client.is_closed_by_server()

    run(scenario())


def test_a_large_request_is_answered_and_keeps_its_place():
    async def scenario():
        groups = GroupsApi()
        async with listening(groups) as listener, connected(listener) as client:
            client.send(
                echo_frame(1, "before"), groups_frame(2, 3 * LARGE), echo_frame(3, "behind")
            )
            assert word_of((await client.answer())[1]) == "before"
            number, body = await client.answer()
            assert number == 2
            answer = reader_of(schema_of(ApiKey.DESCRIBE_GROUPS, 0, "response"))(
                Cursor(memoryview(body))
            )
            assert [each.group_id for each in answer.groups] == [f"g{n}" for n in range(3 * LARGE)]
            assert word_of((await client.answer())[1]) == "behind"
            assert groups.started == [1, 2, 3]

    run(scenario())


def test_a_large_produce_request_is_not_overtaken_by_the_one_behind_it():
    async def scenario():
        small = SmallApi()
        partitions = b"".join(struct.pack(">ii", n, -1) for n in range(2 * LARGE))
        topics = struct.pack(">i", 1) + string("t") + struct.pack(">i", 2 * LARGE) + partitions
        body = string("x") + struct.pack(">hi", -1, 0) + topics
        async with listening(small) as listener, connected(listener) as client:
            client.send(frame(ApiKey.PRODUCE, 7, 1, body), produce_frame(2))
            assert (await client.answer())[0] == 1
            assert (await client.answer())[0] == 2
            assert small.started == [1, 2]

    run(scenario())


def test_a_large_request_that_cannot_be_read_closes_its_connection():
    async def scenario():
        async with listening(GroupsApi()) as listener, connected(listener) as client:
            client.send(groups_frame(1, 1), groups_frame(2, MAX_ELEMENTS + 1))
            assert (await client.answer())[0] == 1
            assert await client.is_closed_by_server()
            assert listener.closed[CloseReason.BAD_REQUEST] == 1
            await eventually(lambda: listener.budget.used_bytes == 0)

    run(scenario())


# --- Half-sent frames, and connections before their login -----------------------------------------


def test_half_sent_frames_that_fill_the_budget_do_not_keep_small_requests_waiting():
    async def scenario():
        settings = {"max_listener_bytes": 512 * KIB, "max_request_bytes": 512 * KIB}
        async with listening(SmallApi(), **settings) as listener:
            async with AsyncExitStack() as stack:
                for _ in range(20):
                    half = await stack.enter_async_context(connected(listener))
                    half.send(struct.pack(">ih", 400 * KIB, ApiKey.PRODUCE) + bytes(100 * KIB))
                await eventually(lambda: listener.budget.is_full)
                async with connected(listener) as other:
                    assert await other.echo("served") == "served"
            # Those whose sockets are not read are told one after the other.
            await eventually(lambda: listener.budget.used_bytes == 0)
            assert listener.budget.unfinished_bytes == 0

    run(scenario())


def test_when_half_sent_frames_fill_the_budget_those_that_stall_are_closed():
    async def scenario():
        settings = {"max_unfinished_bytes": 256 * KIB, "pressed_frame_s": 5.0}
        async with listening(SmallApi(), **settings) as listener, AsyncExitStack() as stack:
            for _ in range(8):
                half = await stack.enter_async_context(connected(listener))
                half.send(struct.pack(">ih", 400 * KIB, ApiKey.PRODUCE) + bytes(64 * KIB))
            await eventually(lambda: listener.budget.is_full)
            now = asyncio.get_running_loop().time()
            listener.sweep(now + 4)
            assert listener.closed[CloseReason.SLOW_FRAME] == 0
            listener.sweep(now + 10)
            await eventually(lambda: listener.closed[CloseReason.SLOW_FRAME] >= 3)

    run(scenario())


def test_a_large_request_that_cannot_be_read_does_not_wait_for_a_collection_of_garbage():
    count = 1_700_000  # tagged fields, more than any request may have
    varint = bytes([count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14])
    body = b"\0" + b"\x02x\x02y" + varint + bytes(4 * count)

    async def scenario():
        async with listening(SmallApi()) as listener, connected(listener) as client:
            client.send(frame(ApiKey.API_VERSIONS, 3, 1, body))
            assert await client.is_closed_by_server()
            await eventually(lambda: listener.closed[CloseReason.BAD_REQUEST] == 1)
            await eventually(lambda: not any(type(each) is Call for each in gc.get_objects()))

    gc.collect()
    gc.disable()
    try:
        run(scenario())
    finally:
        gc.enable()


def test_new_connections_hold_no_more_of_half_sent_frames_than_the_bound_and_the_oldest_goes():
    async def scenario():
        settings = {"max_unfinished_bytes": 256 * KIB, "reserved_bytes": 64 * KIB}
        half = struct.pack(">ih", 50 << 20, ApiKey.PRODUCE) + bytes(16 * KIB)
        held: list[int] = []
        async with listening(SmallApi(), **settings) as listener, AsyncExitStack() as stack:
            known = await stack.enter_async_context(connected(listener))
            assert await known.echo("whole") == "whole"
            known.send(half)
            await eventually(lambda: listener.budget.unfinished_bytes == len(half))
            for _ in range(100):
                attacker = await stack.enter_async_context(connected(listener))
                attacker.send(half)
                await asyncio.sleep(0)
                there: list[Any] = list(listener._connections)
                held.append(sum(c._frames.buffered_bytes for c in there))
            # All but those that fit, the first to come being the first to go.
            await eventually(lambda: listener.closed[CloseReason.HALF_SENT] == 82)
            assert max(held) < 320 * KIB + len(half)
            assert listener.budget.unfinished_bytes == 19 * len(half)
            assert listener.budget.used_bytes == 19 * len(half)
            async with connected(listener) as newcomer:
                assert await newcomer.echo("served") == "served"
            assert listener.connection_count >= 19
            known.writer.write(bytes(1))
            await eventually(lambda: listener.budget.unfinished_bytes == 19 * len(half) + 1)

    run(scenario())


def test_a_connection_on_which_nobody_logs_in_is_closed():
    async def scenario():
        async with (
            listening(SmallApi(), requires_authentication=True, login_s=20.0) as listener,
            connected(listener) as silent,
            connected(listener) as known,
        ):
            await eventually(lambda: listener.connection_count == 2)
            body = struct.pack(">i", 3) + b"ann"
            known.send(frame(ApiKey.SASL_AUTHENTICATE, 0, 1, body))
            await known.answer()
            now = asyncio.get_running_loop().time()
            listener.sweep(now + 15)
            assert listener.closed[CloseReason.SLOW_LOGIN] == 0
            listener.sweep(now + 21)
            assert await silent.is_closed_by_server()
            assert await known.echo("in") == "in"

    run(scenario())


def test_connections_before_their_login_are_bounded():
    async def scenario():
        settings = {"requires_authentication": True, "max_unauthenticated_connections": 2}
        async with (
            listening(SmallApi(), **settings) as listener,
            connected(listener) as first,
            connected(listener),
        ):
            await eventually(lambda: listener.connection_count == 2)
            async with connected(listener) as third:
                assert await third.is_closed_by_server()
            first.send(frame(ApiKey.SASL_AUTHENTICATE, 0, 1, struct.pack(">i", 3) + b"ann"))
            await first.answer()
            async with connected(listener) as fourth:
                fourth.send(frame(ApiKey.API_VERSIONS, 0, 1, b""))
                await fourth.answer()

    run(scenario())


# --- Answers in turns -----------------------------------------------------------------------------


def test_an_answer_encoded_in_turns_is_the_same_as_one_encoded_at_once():
    topics = [
        {
            "error_code": 0,
            "name": f"t{n}",
            "topic_id": None,
            "partitions": [
                {
                    "partition_index": p,
                    "leader_id": 1,
                    "leader_epoch": 0,
                    "replica_nodes": [1],
                    "isr_nodes": [1],
                    "offline_replicas": [],
                }
                for p in range(n)
            ],
        }
        for n in range(4)
    ]
    fields = {
        "brokers": [{"node_id": 1, "host": "h", "port": 9, "rack": None}],
        "cluster_id": None,
        "controller_id": 1,
    }
    lazily = {**fields, "topics": Each(range(4), topics.__getitem__)}
    peer: Any = None
    context = RequestContext(RequestPrefix(ApiKey.METADATA, 12, 1), None, peer)
    encoded = asyncio.run(encode_in_turns(context, lazily))
    assert b"".join(encoded.parts) == encode_body(3, 12, {**fields, "topics": topics})


def test_what_is_asked_for_twice_is_kept_once_in_its_first_place():
    assert once_each(["b", "a", "b", "c", "a"], str) == ["b", "a", "c"]


def test_frames_that_stand_still_make_room_for_small_requests():
    async def scenario():
        settings = {
            "max_unfinished_bytes": 64 * KIB,
            "reserved_bytes": 64 * KIB,
            "exhausted_frame_s": 0.01,
            "pressed_frame_s": 1000.0,
            "sweep_s": 1000.0,
        }
        async with listening(SmallApi(), **settings) as listener, AsyncExitStack() as stack:
            other = await stack.enter_async_context(connected(listener))
            assert await other.echo("before") == "before"
            half = struct.pack(">ih", 50 << 20, ApiKey.PRODUCE) + bytes(16 * KIB)
            for _ in range(12):
                attacker = await stack.enter_async_context(connected(listener))
                assert await attacker.echo("whole") == "whole"
                attacker.send(half)
            await eventually(lambda: listener.budget.unfinished_bytes > 120 * KIB)
            for number in range(20):
                assert await other.echo(str(number)) == str(number)
            await eventually(lambda: listener.closed[CloseReason.SLOW_FRAME] > 0)

    run(scenario())


def test_the_log_does_not_name_every_one_of_many_closed_connections(caplog):
    async def scenario():
        async with listening(SmallApi()) as listener:
            for number in range(100):
                listener.report(1.0, "host", f"reason {number}")
            listener.report(3.0, "host", "another reason")

    with caplog.at_level(logging.INFO, "goqueue.protocols.kafka.connection.listener"):
        run(scenario())
    lines = [each.message for each in caplog.records]
    assert sum("closing the connection" in each for each in lines) == 21
    assert "closed 80 more connections for such reasons" in lines
