"""The client on asyncio against a broker in the same loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from goqueue import AsyncClient, ClientSettings
from goqueue.client.errors import (
    BrokerUnavailableError,
    BufferFullError,
    ClientClosedError,
    DeliveryTimeoutError,
)
from goqueue.model.errors import (
    BatchTooLargeError,
    GroupNotFoundError,
    InvalidTopicNameError,
    NonEmptyGroupError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicError,
)
from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.new_messages import NewMessage
from support.client_node import run
from support.server import free_port


def played(folder, scenario, **settings):
    """Play a scenario with a client of its own, on a topic with three partitions."""

    async def main(node):
        await node.broker.create_topic("t", 3)
        settings.setdefault("call_timeout_ms", 90_000)
        async with AsyncClient(node.address, ClientSettings(**settings)) as client:
            await scenario(client, node)

    run(folder, main)


async def taken(messages, count):
    """The first messages of an iterator."""
    found = []
    async with asyncio.timeout(90):
        async for message in messages:
            found.append(message)
            if len(found) == count:
                break
    return found


async def _async(value):
    return value


async def until(condition):
    """Wait for something that nobody tells of."""
    async with asyncio.timeout(90):
        while not await condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)


async def everything(client, topic="t", partitions=3):
    found = []
    for number in range(partitions):
        found += [each async for each in client.consume(topic, partition=number, until_end=True)]
    return found


# --- Publishing -----------------------------------------------------------------------------------


def test_a_published_message_can_be_read_as_it_was(tmp_path):
    async def scenario(client, node):
        delivery = await client.publish(
            "t", "text", key="k", headers={"a": "1", "b": b"\xff"}, timestamp_ms=99
        )
        receipt = await delivery
        (message,) = [
            m async for m in client.consume("t", partition=receipt.partition, until_end=True)
        ]
        assert (message.topic, message.offset, message.timestamp_ms) == ("t", receipt.offset, 99)
        assert (message.key, message.value) == (b"k", b"text")
        assert message.headers == (("a", b"1"), ("b", b"\xff"))

    played(tmp_path, scenario)


def test_the_client_chooses_the_partition_that_the_broker_would(tmp_path):
    async def scenario(client, node):
        for number in range(20):
            key = b"key-%d" % number
            ours = await (await client.publish("t", b"v", key=key))
            (theirs,) = await node.broker.writer.publish("t", [NewMessage(b"v", key)])
            assert ours.partition == theirs.partition

    played(tmp_path, scenario, linger_ms=0)


def test_batches_of_messages_without_a_key_take_turns(tmp_path):
    async def scenario(client, node):
        sent = []
        for _ in range(3):
            sent += [await client.publish("t", b"v") for _ in range(3)]
            await client.flush()
        assert [each.result().partition for each in sent] == [0, 0, 0, 1, 1, 1, 2, 2, 2]

    played(tmp_path, scenario)


def test_a_full_batch_does_not_linger(tmp_path):
    async def scenario(client, node):
        sent = [await client.publish("t", b"v", partition=0) for _ in range(10)]
        await asyncio.wait_for(asyncio.gather(*sent), 90)
        assert client.send_stats.batches == 2
        assert client.send_stats.average_batch == 5

    played(tmp_path, scenario, batch_messages=5, linger_ms=1e6)


def test_a_heavy_batch_does_not_linger(tmp_path):
    async def scenario(client, node):
        sent = [await client.publish("t", bytes(400), partition=0) for _ in range(3)]
        await asyncio.wait_for(asyncio.gather(*sent[:2]), 90)
        assert not sent[2].done()
        await client.flush()
        assert sent[2].done()

    played(tmp_path, scenario, batch_bytes=1000, linger_ms=1e6)


def test_a_lonely_message_is_sent_when_it_has_lingered(tmp_path):
    async def scenario(client, node):
        await asyncio.wait_for(await client.publish("t", b"v"), 90)

    played(tmp_path, scenario, linger_ms=20)


def test_leaving_the_client_sends_what_is_left(tmp_path):
    async def main(node):
        await node.broker.create_topic("t", 1)
        async with AsyncClient(node.address, ClientSettings(linger_ms=1e6)) as client:
            for number in range(7):
                await client.publish("t", b"%d" % number)
        assert [each.value for each in await node.records("t")] == [
            b"%d" % number for number in range(7)
        ]
        with pytest.raises(ClientClosedError):
            await client.publish("t", b"late")

    run(tmp_path, main)


def test_concurrent_senders_lose_nothing_and_keep_their_own_order(tmp_path):
    async def scenario(client, node):
        async def send(sender):
            for number in range(200):
                await client.publish("t", b"%d" % number, key=b"%d" % sender)

        await asyncio.gather(*(send(sender) for sender in range(8)))
        await client.flush()
        stats = client.send_stats
        assert (stats.acknowledged, stats.failed) == (1600, 0)
        by_key = {}
        for message in await everything(client):
            by_key.setdefault(message.key, []).append(int(message.value))
        assert by_key == {b"%d" % sender: list(range(200)) for sender in range(8)}

    played(tmp_path, scenario, buffer_messages=100)


def test_a_full_buffer_raises_where_that_is_wanted(tmp_path):
    async def scenario(client, node):
        for _ in range(5):
            await client.publish("t", b"v")
        with pytest.raises(BufferFullError):
            await client.publish("t", b"v")
        await client.flush()
        await client.publish("t", b"v")

    played(tmp_path, scenario, buffer_messages=5, when_full="raise", linger_ms=1e6)


def test_a_full_buffer_makes_publishers_wait(tmp_path):
    async def scenario(client, node):
        for _ in range(5):
            await client.publish("t", b"v", partition=0)
        sixth = asyncio.create_task(client.publish("t", b"v", partition=0))
        await asyncio.sleep(0.05)
        assert not sixth.done()
        await client.flush()
        await asyncio.wait_for(sixth, 90)

    played(tmp_path, scenario, buffer_messages=5, linger_ms=1e6)


@pytest.mark.parametrize(
    ("topic", "options", "kind"),
    [
        ("nowhere", {}, UnknownTopicError),
        ("t", {"partition": 3}, UnknownPartitionError),
        ("t", {"value": bytes(MAX_BATCH_BYTES)}, BatchTooLargeError),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(tmp_path, topic, options, kind):
    async def scenario(client, node):
        with pytest.raises(kind):
            await client.publish(topic, **{"value": b"v", **options})

    played(tmp_path, scenario)


def test_a_message_that_the_topic_refuses_fails_alone_and_flush_tells(tmp_path):
    async def scenario(client, node):
        await node.broker.configure_topic("t", {"max.message.bytes": "2000"})
        sent = [
            await client.publish("t", bytes(size), partition=0)
            for size in (100, 5000, 100, 700, 700, 700)
        ]
        with pytest.raises(BatchTooLargeError):
            await client.flush()
        await client.flush()
        failed = [each.exception() is not None for each in sent]
        assert failed == [False, True, False, False, False, False]
        assert [each.result().offset for each in sent if not each.exception()] == [0, 1, 2, 3, 4]
        assert (client.send_stats.failed, client.send_stats.acknowledged) == (1, 5)

    played(tmp_path, scenario, linger_ms=1e6)


def test_a_broker_that_refuses_for_now_is_asked_again(tmp_path):
    async def scenario(client, node):
        await (await client.publish("t", b"first", partition=0))
        node.leader("t").publisher.disk_full = "no space"
        delivery = await client.publish("t", b"second", partition=0)
        await until(lambda: _async(client.send_stats.last_error))
        node.leader("t").publisher.disk_full = None
        assert (await asyncio.wait_for(delivery, 90)).offset == 1

    played(tmp_path, scenario, linger_ms=0, tries=10)


def test_a_deleted_topic_fails_what_was_meant_for_it(tmp_path):
    async def scenario(client, node):
        await (await client.publish("t", b"v", partition=0))
        await node.broker.delete_topic("t")
        delivery = await client.publish("t", b"v", partition=0)
        with pytest.raises(UnknownTopicError):
            await asyncio.wait_for(delivery, 90)
        with pytest.raises(UnknownTopicError):
            await client.flush()

    played(tmp_path, scenario, linger_ms=0, backoff_ms=1)


def test_without_a_broker_a_message_fails_when_its_time_is_over(tmp_path):
    async def main(node):
        await node.broker.create_topic("t", 1)
        settings = ClientSettings(delivery_timeout_ms=300, backoff_ms=10)
        client = AsyncClient(node.address, settings)
        with suppress(DeliveryTimeoutError):  # it is there now, or was not in time
            await (await client.publish("t", b"v"))
        await node.stop_listening(0.1)
        delivery = await client.publish("t", b"v")
        with pytest.raises(DeliveryTimeoutError):
            await asyncio.wait_for(delivery, 90)
        with pytest.raises(DeliveryTimeoutError):
            await client.close()

    run(tmp_path, main)


def test_nobody_at_the_address_is_said_in_time():
    async def main():
        settings = ClientSettings(call_timeout_ms=200)
        async with AsyncClient(f"127.0.0.1:{free_port()}", settings) as client:
            with pytest.raises(BrokerUnavailableError):
                await client.topics.list()
            with pytest.raises(BrokerUnavailableError):
                await client.publish("t", b"v")
            with pytest.raises(BrokerUnavailableError):
                async with client.subscribe("g", ["t"]):
                    pass

    asyncio.run(main())


@pytest.mark.parametrize("options", [{"batch_messages": 0}, {"linger_ms": -1}, {"connections": 0}])
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        ClientSettings(**options)


# --- Administration -------------------------------------------------------------------------------


async def filled(client, count=30):
    for number in range(count):
        await client.publish("t", b"%d" % number, partition=number % 3)
    await client.flush()


def test_topics_are_made_described_changed_and_deleted(tmp_path):
    async def scenario(client, node):
        made = await client.topics.create("u", partitions=2, settings={"retention.ms": "1000"})
        assert (made.name, len(made.partitions)) == ("u", 2)
        assert [each.name for each in await client.topics.list()] == ["t", "u"]
        changed = await client.topics.configure(
            "u", {"cleanup.policy": "compact"}, unset=["retention.ms"]
        )
        assert changed.settings == {"cleanup.policy": "compact"}
        assert len((await client.topics.grow("u", 4)).partitions) == 4
        assert (await client.topics.describe("u")).topic_id == made.topic_id
        with pytest.raises(TopicExistsError):
            await client.topics.create("u")
        with pytest.raises(InvalidTopicNameError):
            await client.topics.create("../u")
        await client.topics.delete("u")
        with pytest.raises(UnknownTopicError):
            await client.topics.describe("u")

    played(tmp_path, scenario)


def test_groups_and_their_offsets_are_looked_at_moved_and_deleted(tmp_path):
    async def scenario(client, node):
        await filled(client, 30)
        await client.offsets.commit("g", {TopicPartition("t", 0): 4})
        (found,) = await client.offsets.fetch("g")
        assert (found.offset, found.log_end, found.lag) == (4, 10, 6)
        (unknown,) = await client.offsets.fetch("g", [TopicPartition("t", 1)])
        assert unknown.offset is None
        preview = await client.offsets.reset("g", "t", "latest", partitions=[0], dry_run=True)
        assert [(each.before, each.after) for each in preview] == [(4, 10)]
        assert (await client.offsets.fetch("g"))[0].offset == 4
        await client.offsets.reset("g", "t", 7)
        assert [each.offset for each in await client.offsets.fetch("g")] == [7, 7, 7]
        async with client.subscribe("g", ["t"], client_id="me"):
            described = await client.groups.describe("g")
            assert [each.client_id for each in described.members] == ["me"]
            with pytest.raises(NonEmptyGroupError):
                await client.groups.delete("g")
        assert [each.name for each in await client.groups.list()] == ["g"]
        await client.groups.delete("g")
        with pytest.raises(GroupNotFoundError):
            await client.groups.describe("g")
        with pytest.raises(UnknownPartitionError):
            await client.offsets.commit("g", {TopicPartition("t", 9): 4})

    played(tmp_path, scenario)
