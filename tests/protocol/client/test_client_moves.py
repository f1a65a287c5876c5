"""Leaders and coordinators that move, and batches that are not what they were."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.model.errors import ChecksumMismatchError, OffsetOutOfRangeError
from goqueue.wire.kafka.api_keys import ApiKey
from support.fake_cluster import fake_cluster
from support.linked import linked, taken, until


def faked(scenario, **settings):
    async def main():
        async with fake_cluster() as cluster:
            address = f"127.0.0.1:{cluster.ports[0]}"
            settings.setdefault("backoff_ms", 5)
            async with linked(address, **settings) as client:
                await asyncio.wait_for(scenario(client, cluster), 120)

    asyncio.run(main())


async def collect(messages, found):
    async for message in messages:
        found.append(message.offset)


@pytest.mark.parametrize("hints", [True, False])
def test_a_reader_follows_the_leader(hints):
    async def scenario(client, cluster):
        cluster.hints = hints
        found = []
        reading = asyncio.create_task(collect(client.consume("t"), found))
        for number in range(1, 7):
            cluster.count = 10 * number
            await until(lambda: len(found) == cluster.count or reading.done())
            cluster.leader = 1 - cluster.leader
            cluster.leader_epoch += 1
        assert found == list(range(60))
        if hints:  # then nobody else was asked who leads
            assert sum(api is ApiKey.METADATA for _, api in cluster.asked) <= 1
        reading.cancel()

    faked(scenario)


def test_a_reader_with_an_old_epoch_looks_it_up():
    async def scenario(client, cluster):
        found = []
        cluster.count = 5
        reading = asyncio.create_task(collect(client.consume("t"), found))
        await until(lambda: len(found) == 5)
        cluster.leader_epoch += 1
        cluster.count = 10
        await until(lambda: len(found) == 10 or reading.done())
        assert found == list(range(10))
        reading.cancel()

    faked(scenario)


def test_messages_that_are_deleted_meanwhile_are_skipped_with_a_word(caplog):
    async def scenario(client, cluster):
        found = []
        cluster.count = 5
        reading = asyncio.create_task(collect(client.consume("t"), found))
        await until(lambda: len(found) == 5)
        cluster.count, cluster.log_start = 30, 20
        await until(lambda: len(found) == 15 or reading.done())
        assert found == [*range(5), *range(20, 30)]
        assert "consuming from offset 20" in caplog.text
        cluster.count = cluster.log_start = 3  # the log is shorter than it was
        with pytest.raises(OffsetOutOfRangeError):
            await reading

    faked(scenario)


@pytest.mark.parametrize(("start", "expected"), [("earliest", 20), ("latest", 30)])
def test_a_member_whose_offset_is_gone_begins_where_it_was_told_to(start, expected):
    async def scenario(client, cluster):
        cluster.committed, cluster.log_start, cluster.count = 5, 20, 30
        async with client.subscribe("g", ["t"], start=start) as consumer:
            waiting = asyncio.create_task(anext(consumer))
            await until(lambda: (0, ApiKey.LIST_OFFSETS) in cluster.asked)
            await asyncio.sleep(0.1)
            cluster.count = 31
            assert (await waiting).offset == expected

    faked(scenario)


def test_a_batch_that_was_damaged_on_its_way_is_fetched_again():
    async def scenario(client, cluster):
        cluster.count = 5
        cluster.damaged = {3: 2}
        found = await taken(client.consume("t", until_end=True), 5)
        assert [m.offset for m in found] == list(range(5))

    faked(scenario)


def test_a_batch_that_stays_damaged_is_an_error_for_its_reader():
    async def scenario(client, cluster):
        cluster.count = 5
        cluster.damaged = {3: 1000}
        messages = client.consume("t", until_end=True)
        assert [m.offset for m in await taken(messages, 3)] == [0, 1, 2]
        with pytest.raises(ChecksumMismatchError):
            await taken(client.consume("t", start=3), 1)

    faked(scenario)


def test_a_member_follows_its_coordinator():
    async def scenario(client, cluster):
        cluster.count = 30
        async with client.subscribe("g", ["t"], auto_commit_ms=None) as consumer:
            for number in (10, 20, 30):
                await taken(consumer, 10)
                await consumer.commit()
                assert cluster.committed == number
                cluster.coordinator = 1 - cluster.coordinator
                cluster.asked.clear()
                there = (cluster.coordinator, ApiKey.CONSUMER_GROUP_HEARTBEAT)
                await until(lambda: there in cluster.asked)  # noqa: B023 - until it is true
        assert cluster.member_epoch == 1  # it never had to join again

    faked(scenario)


def test_a_member_that_was_removed_reads_again_what_it_has_not_committed():
    async def scenario(client, cluster):
        cluster.count = 30
        async with client.subscribe("g", ["t"], auto_commit_ms=None) as consumer:
            await taken(consumer, 10)
            await consumer.commit()
            await taken(consumer, 5)
            cluster.removes_members = 1
            await until(lambda: cluster.member_epoch == 2 and consumer.assignment)
            found = [m.offset for m in await taken(consumer, 20)]
            assert found == list(range(10, 30))
            await consumer.commit()
            assert cluster.committed == 30

    faked(scenario)


def test_a_member_that_was_removed_takes_back_no_commit_of_its_successor():
    async def scenario(client, cluster):
        cluster.count = 30
        async with client.subscribe("g", ["t"], auto_commit_ms=None) as consumer:
            await taken(consumer, 15)
            cluster.committed = 20  # whoever had the partition meanwhile
            cluster.removes_members = 1
            await until(lambda: cluster.member_epoch == 2 and consumer.assignment)
            await consumer.commit()
            assert cluster.committed == 20
            assert [m.offset for m in await taken(consumer, 10)] == list(range(20, 30))
            await consumer.commit()
            assert cluster.committed == 30

    faked(scenario)


def test_a_commit_with_an_old_epoch_is_tried_again_with_the_newest():
    async def scenario(client, cluster):
        cluster.count = 5
        async with client.subscribe("g", ["t"], auto_commit_ms=None) as consumer:
            await taken(consumer, 5)
            cluster.member_epoch += 1
            await consumer.commit()
            assert (cluster.committed, consumer.member_epoch) == (5, 2)

    faked(scenario)


def test_a_producer_goes_on_when_its_leader_is_paused_and_the_cluster_has_replaced_it():
    async def scenario(client, cluster):
        await (await client.publish("t", b"0"))
        cluster.paused.add(0)
        sent = await client.publish("t", b"1")
        await until(lambda: (0, ApiKey.PRODUCE) in cluster.asked[-3:])
        cluster.leader, cluster.leader_epoch = 1, 2
        async with asyncio.timeout(10):  # of the 30 s that an answer may take
            await sent
        assert cluster.stored == [b"0", b"1"]

    faked(scenario)


def test_a_member_goes_on_when_its_coordinator_is_paused_and_the_cluster_has_replaced_it():
    async def scenario(client, cluster):
        found = []
        cluster.count = 5
        async with client.subscribe("g", ["t"], start="earliest") as consumer:
            reading = asyncio.create_task(collect(consumer, found))
            await until(lambda: len(found) == 5 or reading.done())
            cluster.paused.add(0)
            cluster.leader, cluster.leader_epoch, cluster.coordinator = 1, 2, 1
            cluster.count = 10
            async with asyncio.timeout(10):
                await until(lambda: len(found) == 10 or reading.done())
            assert found == list(range(10))
            reading.cancel()

    faked(scenario)
