"""Whole batches for some of their messages: what is sent, and which of it is whose."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from goqueue.model.delivery import Priority
from goqueue.model.ranges import around
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.new_messages import NewMessage
from goqueue.queues.delivery.operations import Released
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.queues.members import QueueMember
from goqueue.queues.whole_batches import acquired, batches, delivered
from goqueue.records import Record, encode, peek, walk
from support.brokers import publish, running_broker

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.queues.acquired_batch import Portion

PLACE = TopicPartition("t", 0)
RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=6)


@given(st.integers(0, 40), st.integers(0, 20), RANGES)
def test_what_lies_around_gaps_is_all_that_is_no_gap(
    first: int, size: int, gaps: list[tuple[int, int]]
) -> None:
    end = first + size
    gone = [(from_, from_ + length) for from_, length in gaps]
    missing = {offset for from_, to in gone for offset in range(from_, to)}
    found = [offset for from_, to in around(first, end, gone) for offset in range(from_, to)]
    assert found == [offset for offset in range(first, end) if offset not in missing]


async def take(
    broker: Broker, limit: int = 500, max_bytes: int = 1 << 20, *, rounds_up: bool = False
) -> list[Portion]:
    return await broker.deliverer.acquire(
        QueueMember("g", "me", Mode.SHARED),
        [PLACE],
        limit=limit,
        max_wait_ms=0,
        max_bytes=max_bytes,
        grant=lambda wanted: wanted,
        rounds_up=rounds_up,
    )


async def prepare(broker: Broker) -> None:
    await broker.create_topic("t", 1)
    await broker.queues.open("g", QueueSettings())


def test_offsets_that_hold_no_message_are_nobodys(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await prepare(broker)
            left = [Record(offset, 1000, b"k", b"v") for offset in (1, 2, 5)]
            compacted = bytes(encode(left, base_offset=0, last_offset_delta=7))
            broker.partitions.partition(PLACE).append(compacted, peek(compacted))
            (portion,) = await take(broker)
            assert list(acquired(portion, 500)) == [(1, 2, 1), (5, 5, 1)]
            assert list(acquired(portion, 1)) == [(1, 2, 1), (5, 5, 1)]

    asyncio.run(scenario())


def test_a_batch_is_sent_once_however_many_pieces_of_it_are_taken(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await prepare(broker)
            for _ in range(3):
                publish(broker, "t", b"a", b"b", b"c", b"d")
            (first,) = await take(broker, 6)
            assert list(acquired(first, 500)) == [(0, 5, 1)]
            (second,) = await take(broker)
            assert list(acquired(second, 500)) == [(6, 11, 1)]
            bases = [info.base_offset for data in batches(second) for _, info in walk(data)]
            assert bases == [4, 8]

    asyncio.run(scenario())


def test_there_is_always_room_for_one_batch_and_the_rest_goes_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await prepare(broker)
            for _ in range(3):
                publish(broker, "t", b"x" * 1000)
            (first,) = await take(broker, max_bytes=1)
            assert list(acquired(first, 500)) == [(0, 0, 1)]
            (second,) = await take(broker)
            assert list(acquired(second, 500)) == [(1, 2, 1)]  # not delivered before

    asyncio.run(scenario())


# --- With receipts -------------------------------------------------------------------------------


def test_what_is_delivered_comes_lane_by_lane_with_its_counts_and_nonces(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await prepare(broker)
            normal, high = Priority.NORMAL, Priority.HIGH
            for wanted in ([normal, normal, high], [normal, high, high, normal]):
                messages = [NewMessage(b"", priority=each) for each in wanted]
                await broker.writer.publish("t", messages)
            (first,) = await take(broker, 3)
            assert [each[:4] for each in delivered(first)] == [(high, 2, 3, 1), (high, 4, 6, 1)]
            group = broker.queues.group("g")
            queue = group.queues[first.key]
            await broker.queues.shard_of(group).store(group, {first.key: [Released([(4, 5)])]})
            (rest,) = await take(broker)
            found = delivered(rest)
            expected = [(high, 4, 5, 2), (normal, 0, 2, 1), (normal, 3, 4, 1), (normal, 6, 7, 1)]
            assert [each[:4] for each in found] == expected
            for each in found:
                assert each.nonces == queue.window.nonces(each.first, each.end).tobytes()

    asyncio.run(scenario())


def test_messages_in_a_row_are_one_range_over_many_batches_and_another_after_a_retry(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await prepare(broker)
            for _ in range(5):
                publish(broker, "t", b"a", b"b")
            (portion,) = await take(broker, 9)
            assert [each[1:4] for each in delivered(portion)] == [(0, 9, 1)]
            group = broker.queues.group("g")
            back = Released([(2, 5), (8, 9)])
            await broker.queues.shard_of(group).store(group, {portion.key: [back]})
            (again,) = await take(broker)
            assert [each[1:4] for each in delivered(again)] == [(2, 5, 2), (8, 9, 2), (9, 10, 1)]

    asyncio.run(scenario())


# --- Rounding up ---------------------------------------------------------------------------------


def test_the_rest_of_a_batch_comes_along_but_for_what_is_not_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await prepare(broker)
            left = [Record(offset, 1000, b"k", b"v") for offset in (1, 2, 5)]
            compacted = bytes(encode(left, base_offset=0, last_offset_delta=7))
            broker.partitions.partition(PLACE).append(compacted, peek(compacted))
            publish(broker, "t", b"next")
            (portion,) = await take(broker, 2, rounds_up=True)
            assert list(acquired(portion, 500)) == [(1, 2, 1), (5, 5, 1)]
            queue = broker.queues.group("g").queues[portion.key]
            assert queue.total(MessageState.IN_FLIGHT) == 3
            queue.check_invariants()

    asyncio.run(scenario())


def test_only_messages_of_the_same_priority_come_along(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await prepare(broker)
            wanted = [Priority.HIGH if at % 2 else Priority.NORMAL for at in range(6)]
            await broker.writer.publish("t", [NewMessage(b"", priority=each) for each in wanted])
            (urgent,) = await take(broker, 1, rounds_up=True)
            assert list(acquired(urgent, 500)) == [(1, 1, 1), (3, 3, 1), (5, 5, 1)]
            (rest,) = await take(broker, 1, rounds_up=True)
            assert list(acquired(rest, 500)) == [(0, 0, 1), (2, 2, 1), (4, 4, 1)]
            served = [lane.served for lane in broker.queues.group("g").lane_stats()]
            assert served == [0, 3, 3, 0, 0]

    asyncio.run(scenario())


def test_what_came_along_is_stored_and_comes_again_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await prepare(broker)
            publish(broker, "t", *(b"%d" % number for number in range(5)))
            await take(broker, 2, rounds_up=True)
        async with running_broker(tmp_path) as broker:
            group = broker.queues.group("g")
            assert group.unacked == {"me": 5}
            await broker.queues.release_member(group, "me")
            (again,) = await take(broker, 1, rounds_up=True)
            assert list(acquired(again, 500)) == [(0, 4, 2)]

    asyncio.run(scenario())
