"""Queues of the client on asyncio, against a broker in the same loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from goqueue import AsyncClient, ClientSettings
from goqueue.client.errors import BrokerUnavailableError, ClientClosedError
from goqueue.model.delivery import Priority
from goqueue.model.errors import (
    ExpiredReceiptError,
    GroupModeError,
    MalformedReceiptError,
    PriorityError,
    ReceiptError,
    UnknownReceiptError,
    UnknownTopicError,
)
from goqueue.model.topic_partition import TopicPartition
from support.client_node import run
from support.pace import in_time, unhurried
from support.server import free_port

WAIT_S = 90


def played(folder, scenario, partitions=1, **settings):
    folder.mkdir(exist_ok=True)

    async def main(node):
        await node.broker.create_topic("t", partitions)
        settings.setdefault("call_timeout_ms", WAIT_S * 1000)
        async with AsyncClient(node.address, ClientSettings(**settings)) as client:
            await scenario(client, node)

    run(folder, main)


async def fill(client, count, **options):
    for number in range(count):
        await client.publish("t", b"%d" % number, **options)
    await client.flush()


async def taken(queue, count):
    found = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            found.append(await anext(queue))
    return found


def left(node, group="g"):
    """How many messages the group is not done with, and how many of them members have."""
    found = node.coordinator(group).queues.group(group)
    partition = node.leader("t").partitions.partition(TopicPartition("t", 0))
    start = min(queue.start for queue in found.queues.values())
    return partition.log_end - start, sum(found.unacked.values())


async def done_with(node):
    """Until the group is done with everything."""
    async with asyncio.timeout(WAIT_S):
        while left(node) != (0, 0):  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)


def test_a_message_says_everything_and_is_acknowledged(tmp_path):
    async def scenario(client, node):
        headers = {"source": "web", "nothing": None}
        await client.publish("t", "v", key="k", headers=headers, timestamp_ms=5, priority="high")
        await client.publish("t", None)
        async with client.queue("g", ["t"]) as queue:
            assert queue.assignment == {TopicPartition("t", 0)}
            message, tombstone = await taken(queue, 2)
            assert (message.topic, message.partition, message.offset) == ("t", 0, 0)
            assert (message.key, message.value, message.timestamp_ms) == (b"k", b"v", 5)
            assert message.headers[:2] == (("source", b"web"), ("nothing", None))
            assert (message.priority, message.delivery_count) == (Priority.HIGH, 1)
            assert message.receipt_handle.startswith("t:0:0:1:")
            assert (tombstone.value, tombstone.key, tombstone.headers) == (None, None, ())
            assert repr(message) == f"<AsyncQueueMessage {message.receipt_handle}>"
            assert not message.is_settled
            await message.ack()
            await tombstone.ack()
            assert message.is_settled
            assert left(node) == (0, 0)

    played(tmp_path, scenario)


def test_many_acknowledgements_travel_together(tmp_path):
    async def scenario(client, node):
        await fill(client, 2000)
        async with client.queue("g", ["t"]) as queue:
            seen = []
            async with asyncio.timeout(WAIT_S):
                async for messages in queue.batches(300):
                    assert len(messages) <= 300
                    seen += (message.offset for message in messages)
                    settled = [message.ack() for message in messages]
                    for each in settled:
                        await each
                    if len(seen) == 2000:
                        break
            assert seen == list(range(2000))
            assert left(node) == (0, 0)

    played(tmp_path, scenario)


def test_verdicts_have_their_effects(tmp_path):
    async def scenario(client, node):
        await fill(client, 3)
        async with client.queue("g", ["t"]) as queue:
            nacked, released, rejected = await taken(queue, 3)
            await released.release()
            (first,) = await taken(queue, 1)
            due_ms = node.broker.clock.now_ms() + 300
            await nacked.nack(delay=timedelta(seconds=0.3), reason="not yet")
            await rejected.reject("bad")
            (second,) = await taken(queue, 1)
            assert node.broker.clock.now_ms() >= due_ms
            assert [(m.offset, m.delivery_count) for m in (first, second)] == [(1, 2), (0, 2)]
            await first.ack()
            await second.ack()
        async with client.queue("undertaker", ["t.dlq"]) as dead:
            (dead_lettered,) = await taken(dead, 1)
            assert dead_lettered.value == b"2"
            assert b"bad" in dict(dead_lettered.headers).values()

    played(tmp_path, scenario)


def test_a_message_that_takes_longer_is_extended(tmp_path):
    async def scenario(client, _node):
        await fill(client, 1)
        async with client.queue("g", ["t"], visibility=0.4) as queue:
            message = None
            while message is None:  # until it is extended in time, which a busy machine may miss
                (message,) = await taken(queue, 1)
                try:
                    await message.extend(600)
                except ExpiredReceiptError:
                    message = None
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.8):
                    await anext(queue)
            await message.ack()

    played(tmp_path, scenario)


def test_what_is_settled_twice_or_too_late_is_told(tmp_path):
    async def scenario(client, _node):
        await fill(client, 2)
        async with client.queue("g", ["t"], visibility=600) as queue:
            twice, late = await taken(queue, 2)
            await twice.ack()
            with pytest.raises(UnknownReceiptError):
                await twice.ack()
            await late.extend(0.1)
            (again,) = await taken(queue, 1)
            assert again.offset == late.offset
            with pytest.raises(ExpiredReceiptError):
                await late.ack()
            with pytest.raises(UnknownReceiptError):
                await queue.flush()  # the first since the last flush
            late.ack()
            with pytest.raises(ReceiptError):
                await queue.flush()
            await again.ack()
            await queue.flush()

    played(tmp_path, scenario)


def test_what_waits_in_the_client_does_not_time_out(tmp_path):
    def scenario(time_ms):
        async def work(client, _node):
            await fill(client, 5)
            async with client.queue("g", ["t"], visibility=time_ms / 1000) as queue:
                for number in range(5):
                    (message,) = await taken(queue, 1)
                    assert (message.offset, message.delivery_count) == (number, 1)
                    await asyncio.sleep(0.6 * time_ms / 1000)
                    await message.ack()

        played(tmp_path / str(time_ms), work)

    # What a machine that stands still for so long does to a lease.
    unhurried(scenario, AssertionError, ReceiptError)


def test_closing_gives_back_what_is_not_settled(tmp_path):
    async def scenario(client, node):
        await fill(client, 10)
        async with client.queue("g", ["t"]) as queue:
            acked, in_hand = await taken(queue, 2)
            await acked.ack()
        assert left(node) == (9, 0)
        with pytest.raises(ClientClosedError):
            in_hand.ack()
        with pytest.raises(StopAsyncIteration):
            await anext(queue)
        async with client.queue("g", ["t"]) as queue:
            again = await taken(queue, 9)
            # Only what the program had in hand was delivered before.
            assert [(m.offset, m.delivery_count) for m in again] == [
                (1, 2),
                *((offset, 1) for offset in range(2, 10)),
            ]

    played(tmp_path, scenario)


def test_closing_waits_for_acknowledgements_that_nobody_waited_for(tmp_path):
    async def scenario(client, node):
        await fill(client, 100)
        async with client.queue("g", ["t"]) as queue:
            for message in await taken(queue, 100):
                message.ack()
        assert left(node) == (0, 0)

    played(tmp_path, scenario)


def test_two_members_share_the_messages_of_one_partition(tmp_path):
    async def scenario(client, node):
        seen = Counter()

        async def work():
            async with client.queue("g", ["t"], prefetch=10) as queue:
                async for message in queue:
                    seen[message.offset] += 1
                    await message.ack()

        workers = [asyncio.create_task(work()) for _ in range(2)]
        while not list(node.coordinator("g").queues):  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
        await fill(client, 200)
        await done_with(node)
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        assert seen == dict.fromkeys(range(200), 1)

    played(tmp_path, scenario)


def test_an_exclusive_queue_keeps_the_order(tmp_path):
    async def scenario(client, _node):
        for number in range(300):
            await client.publish("t", b"%d" % number, partition=number % 2)
        await client.flush()
        async with client.queue("g", ["t"], assignment="exclusive") as queue:
            found = await taken(queue, 300)
            for partition in (0, 1):
                offsets = [m.offset for m in found if m.partition == partition]
                assert offsets == list(range(150))
            for message in found:
                message.ack()
            await queue.flush()

    played(tmp_path, scenario, partitions=2)


def test_a_queue_is_processed_by_several_tasks_at_a_time(tmp_path):
    async def scenario(client, node):
        await fill(client, 100)
        at_once, most, seen = 0, 0, Counter()
        all_at_work = asyncio.Event()

        async def work(message):
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            seen[message.offset] += 1
            if most == 10:
                all_at_work.set()
            await all_at_work.wait()
            await asyncio.sleep(0.001)
            at_once -= 1
            if message.offset == 7 and message.delivery_count == 1:
                raise RuntimeError("once more")
            if message.offset == 8:
                await message.reject("never")

        async with client.queue("g", ["t"]) as queue:
            task = asyncio.create_task(queue.process(work, concurrency=10))
            await done_with(node)
            task.cancel()
        assert most == 10
        assert seen == Counter(range(100)) + Counter([7])

    played(tmp_path, scenario)


def test_work_that_ends_after_the_queue_was_closed_is_done_again(tmp_path):
    async def scenario(client, node):
        await fill(client, 1)
        began, may_end = asyncio.Event(), asyncio.Event()

        async def work(_message):
            began.set()
            await may_end.wait()

        async with client.queue("g", ["t"]) as queue:
            working = asyncio.create_task(queue.process(work))
            await began.wait()
        may_end.set()
        await asyncio.wait_for(working, WAIT_S)
        assert left(node) == (1, 0)

    played(tmp_path, scenario)


def test_the_prefetch_bounds_what_a_member_has(tmp_path):
    async def scenario(client, node):
        await fill(client, 50)
        async with client.queue("g", ["t"], prefetch=7) as queue:
            await taken(queue, 7)
            await asyncio.sleep(0.1)
            assert left(node) == (50, 7)

    played(tmp_path, scenario)


def test_a_receipt_may_be_settled_elsewhere(tmp_path):
    async def scenario(client, node):
        await fill(client, 6)
        async with client.queue("g", ["t"]) as queue:
            a, b, c, d, e, f = (m.receipt_handle for m in await taken(queue, 6))
            await client.receipts.ack(a)
            await client.receipts.nack(b, delay=3600, reason="later")
            await client.receipts.reject(c, "never")
            await client.receipts.extend(d, 60)
            none, twice, malformed = await client.receipts.ack_all([d, a, "no"])
            assert none is None
            assert isinstance(twice, UnknownReceiptError)
            assert isinstance(malformed, MalformedReceiptError)
            assert await client.receipts.ack_all([e, f]) == [None, None]
            with pytest.raises(UnknownReceiptError):
                await client.receipts.ack(a)
        assert left(node)[1] == 0

    played(tmp_path, scenario)


def test_the_most_urgent_come_first(tmp_path):
    async def scenario(client, _node):
        for priority in ("background", "low", None, "high", Priority.CRITICAL):
            await client.publish("t", str(priority), priority=priority)
        await client.flush()
        async with client.queue("g", ["t"]) as queue:
            assert [m.priority for m in await taken(queue, 5)] == list(Priority)

    played(tmp_path, scenario)


def test_a_delayed_message_comes_when_it_is_due(tmp_path):
    async def scenario(time_s, client, node):
        began_ms = node.broker.clock.now_ms()
        waits = await client.publish("t", b"later", delay=time_s + 0.2)
        moment = datetime.now(UTC) + timedelta(seconds=time_s)
        waits_too = await client.publish("t", b"then", deliver_at=moment)
        at_once = await client.publish("t", b"past", deliver_at=datetime(2020, 1, 1, tzinfo=UTC))
        await client.flush()
        in_time(moment.timestamp() * 1000)
        receipt = await waits
        assert receipt.offset == -1
        assert receipt.delayed_id is not None
        assert 1000 * time_s + 200 <= receipt.deliver_at_ms - began_ms < 60_000
        assert (await waits_too).deliver_at_ms == round(moment.timestamp() * 1000)
        assert (await at_once).offset >= 0
        assert (await at_once).deliver_at_ms is None
        async with client.queue("g", ["t"]) as queue:
            found = await taken(queue, 3)
            assert [m.value for m in found] == [b"past", b"then", b"later"]
            assert node.broker.clock.now_ms() >= receipt.deliver_at_ms

    def attempt(time_ms):
        played(tmp_path / str(time_ms), partial(scenario, time_ms / 1000))

    unhurried(attempt)


def test_a_message_that_outlives_itself_is_not_handed_out(tmp_path):
    async def scenario(client, _node):
        await client.publish("t", b"short", ttl=0.05)
        await client.publish("t", b"long", ttl=timedelta(hours=1))
        await client.flush()
        await asyncio.sleep(0.1)
        async with client.queue("g", ["t"]) as queue:
            (message,) = await taken(queue, 1)
            assert message.value == b"long"

    played(tmp_path, scenario)


def test_many_messages_that_were_extended_are_acknowledged_like_others(tmp_path):
    async def scenario(client, node):
        await fill(client, 500)
        async with client.queue("g", ["t"]) as queue:
            messages = await taken(queue, 500)
            for message in messages:
                message.extend(60)
            await queue.flush()
            for message in messages:
                message.ack()
            await queue.flush()
            assert left(node) == (0, 0)

    played(tmp_path, scenario)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"delay": -1}, ValueError),
        ({"ttl": 0}, ValueError),
        ({"delay": 1, "deliver_at": datetime(2030, 1, 1, tzinfo=UTC)}, ValueError),
        ({"priority": "urgent"}, PriorityError),
    ],
)
def test_a_delivery_that_makes_no_sense_is_refused_before_it_is_sent(tmp_path, options, error):
    async def scenario(client, _node):
        with pytest.raises(error):
            await client.publish("t", b"v", **options)
        assert client.send_stats.published == 0

    played(tmp_path, scenario)


@pytest.mark.parametrize(
    "options",
    [{"prefetch": 0}, {"prefetch": 5001}, {"assignment": "log"}, {"visibility": 0}],
)
def test_a_queue_that_makes_no_sense_is_refused_before_it_is_joined(tmp_path, options):
    async def scenario(client, _node):
        with pytest.raises(ValueError, match=next(iter(options))):
            client.queue("g", ["t"], **options)

    played(tmp_path, scenario)


def test_a_group_that_refuses_is_an_error_of_the_join(tmp_path):
    async def scenario(client, _node):
        with pytest.raises(UnknownTopicError):
            await client.queue("g", ["nowhere"]).__aenter__()
        async with client.queue("g", ["t"]):
            with pytest.raises(GroupModeError):
                await client.queue("g", ["t"], assignment="exclusive").__aenter__()

    played(tmp_path, scenario)


def test_a_queue_without_a_broker_says_so():
    async def main():
        settings = ClientSettings(call_timeout_ms=300)
        async with AsyncClient(f"127.0.0.1:{free_port()}", settings) as client:
            with pytest.raises(BrokerUnavailableError):
                await client.queue("g", ["t"]).__aenter__()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["queue", "subscribe"])
def test_a_client_that_is_closed_before_its_queue_ends_it(tmp_path, kind):
    async def scenario(client, node):
        other = AsyncClient(node.address)
        queue = getattr(other, kind)("g", ["t"])
        await queue.__aenter__()
        waiting = asyncio.create_task(anext(queue))
        await asyncio.sleep(0.05)
        await other.close()
        with pytest.raises(ClientClosedError):
            await asyncio.wait_for(waiting, WAIT_S)
        await queue.__aexit__(None, None, None)
        await fill(client, 1)

    played(tmp_path, scenario)


def test_a_topic_that_is_deleted_leaves_the_others(tmp_path):
    async def scenario(client, node):
        await node.broker.create_topic("u", 1)
        async with client.queue("g", ["t", "u"]) as queue:
            await fill(client, 1)
            (held,) = await taken(queue, 1)
            await client.topics.delete("t")
            with pytest.raises(UnknownReceiptError):
                await held.ack()
            await client.publish("u", b"still there")
            (message,) = await taken(queue, 1)
            assert message.topic == "u"
            await message.ack()

    played(tmp_path, scenario)


def test_waiting_for_an_acknowledgement_may_be_called_off_without_harm_to_others(tmp_path):
    async def scenario(client, node):
        await fill(client, 3)
        async with client.queue("g", ["t"]) as queue:
            one, two, three = await taken(queue, 3)

            async def ack(message):
                await message.ack()

            tasks = [asyncio.create_task(ack(each)) for each in (one, two, three)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            await asyncio.gather(*tasks[1:])
            assert left(node) == (0, 0)

    played(tmp_path, scenario)


def test_a_queue_that_drains_returns_what_waits_and_still_acknowledges(tmp_path):
    async def scenario(client, node):
        await fill(client, 6)
        async with client.queue("g", ["t"], visibility=3600) as queue:
            mine = await anext(queue)
            while left(node) != (6, 6):  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.01)
            await queue.drain()
            assert [message async for message in queue] == []
            async with client.queue("g", ["t"]) as other:
                found = [await anext(other) for _ in range(5)]
                assert {message.delivery_count for message in found} == {1}
                await asyncio.gather(*(message.ack() for message in found))
            await mine.ack()
        assert (await client.queues.describe("g")).in_flight == 0

    played(tmp_path, scenario)
