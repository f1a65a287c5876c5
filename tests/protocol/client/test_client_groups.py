"""Members of groups over the Kafka wire, in the loop of the broker."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.client.errors import ClientError
from goqueue.groups.messages import LEAVING_EPOCH, ConsumerHeartbeat
from goqueue.model.errors import GoQueueError, UnknownMemberError
from goqueue.model.topic_partition import TopicPartition
from support.linked import fill, played, taken, until


def committed(node, group="g"):
    """The sum of the offsets that a group has committed."""
    offsets = node.coordinator(group).lag.committed(group)
    return sum(offsets.values())


def test_a_group_goes_on_where_it_has_committed(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 30)
        async with client.subscribe("g", ["t"], auto_commit_ms=None) as consumer:
            first = await taken(consumer, 12)
            await consumer.commit()
            await taken(consumer, 6)
        async with client.subscribe("g", ["t"], auto_commit_ms=None) as consumer:
            second = await taken(consumer, 18)
        seen = [(each.partition, each.offset) for each in first + second]
        assert len(set(seen)) == len(seen) == 30

    played(tmp_path, scenario)


def test_leaving_commits_what_was_taken(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 30)
        async with client.subscribe("g", ["t"]) as consumer:
            await taken(consumer, 10)
        assert committed(node) == 10

    played(tmp_path, scenario)


def test_a_message_whose_work_has_failed_is_not_committed(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 30)

        async def fail():
            async with client.subscribe("g", ["t"]) as consumer:
                await taken(consumer, 10)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert committed(node) == 9

    played(tmp_path, scenario)


def test_a_batch_whose_work_has_failed_is_not_committed(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 30, partition=0)

        async def fail():
            async with client.subscribe("g", ["t"]) as consumer:
                first, second = await taken(consumer.batches(4), 2)
                assert [m.offset for m in first + second] == list(range(8))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert committed(node) == 4

    played(tmp_path, scenario)


def test_what_is_finished_is_committed_now_and_then(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 30)
        async with client.subscribe("g", ["t"], auto_commit_ms=50) as consumer:
            await taken(consumer, 10)
            await until(lambda: committed(node) == 9)
            waiting = asyncio.create_task(taken(consumer, 1000))
            await until(lambda: committed(node) == 30)
            waiting.cancel()

    played(tmp_path, scenario)


def test_more_comes_than_is_fetched_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr("goqueue.client.consuming.inbox.PREFETCH_BYTES", 2000)
    monkeypatch.setattr("goqueue.client.consuming.fetcher._MAX_PARTITION_BYTES", 500)

    async def scenario(client, node):
        for _ in range(20):
            await fill(node.broker, 100)
        async with client.subscribe("g", ["t"]) as consumer:
            found = await taken(consumer, 2000)
            assert len({(each.partition, each.offset) for each in found}) == 2000

    played(tmp_path, scenario)


def test_a_second_member_takes_its_share_and_nothing_is_read_twice(tmp_path):
    async def scenario(client, node):
        async with client.subscribe("g", ["t"]) as one:
            assert len(one.assignment) == 3
            await fill(node.broker, 30)
            first = await taken(one, 30)
            async with client.subscribe("g", ["t"]) as two:
                pending = asyncio.create_task(taken(one, 1000))
                await until(lambda: two.assignment and len(one.assignment | two.assignment) == 3)
                assert not one.assignment & two.assignment
                await fill(node.broker, 30)
                theirs = await taken(two, 10 * len(two.assignment))
                pending.cancel()
                assert {
                    TopicPartition(each.topic, each.partition) for each in theirs
                } == two.assignment
        assert {(m.partition, m.offset) for m in first}.isdisjoint(
            (m.partition, m.offset) for m in theirs
        )

    played(tmp_path, scenario)


def test_a_partition_in_hand_is_given_up_only_when_its_message_is_finished(tmp_path):
    async def scenario(client, node):
        await node.broker.create_topic("single", 1)
        await node.broker.create_topic("other", 1)
        async with client.subscribe("g", ["single", "other"]) as one:
            await fill(node.broker, 5, "single")
            await fill(node.broker, 5, "other")
            held = await anext(one)
            async with client.subscribe("g", ["single", "other"]) as two:
                place = TopicPartition(held.topic, held.partition)
                await until(lambda: two.assignment or place not in one.assignment)
                await asyncio.sleep(0.5)
                assert place not in two.assignment
                rest = asyncio.create_task(taken(one, 1000))
                await until(lambda: two.assignment)
                rest.cancel()
                theirs = await taken(two, 4 if place in two.assignment else 5)
                if place in two.assignment:  # what was in hand is finished, and only that
                    assert [m.offset for m in theirs] == [1, 2, 3, 4]

    played(tmp_path, scenario)


def test_a_topic_that_grows_or_appears_is_read_whole(tmp_path):
    async def scenario(client, node):
        async with client.subscribe("g", ["t", "later"], start="latest") as consumer:
            assert len(consumer.assignment) == 3
            await node.broker.create_topic("later", 1)
            await node.broker.grow_topic("t", 4)
            await until(lambda: len(consumer.assignment) == 5)
            await fill(node.broker, 1, "later")
            await fill(node.broker, 1, partition=3)
            found = await taken(consumer, 2)
            assert {m.topic for m in found} == {"t", "later"}

    played(tmp_path, scenario)


def test_messages_that_are_deleted_are_skipped_while_nothing_else_comes(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 10, partition=0)
        async with client.subscribe("g", ["t"]) as consumer:
            await taken(consumer, 2)
        await node.leader("t").delete_records(TopicPartition("t", 0), 5)
        async with client.subscribe("g", ["t"]) as consumer:
            found = [m.offset for m in await taken(consumer, 5)]
            assert found == [5, 6, 7, 8, 9]

    played(tmp_path, scenario)


def test_a_deleted_topic_leaves_the_others_alone(tmp_path):
    async def scenario(client, node):
        await node.broker.create_topic("u", 1)
        async with client.subscribe("g", ["t", "u"]) as consumer:
            await fill(node.broker, 5, "u")
            assert {m.topic for m in await taken(consumer, 5)} == {"u"}
            await node.broker.delete_topic("u")
            await fill(node.broker, 5)
            assert {m.topic for m in await taken(consumer, 5)} == {"t"}
            await until(lambda: len(consumer.assignment) == 3)

    played(tmp_path, scenario)


def test_a_member_that_the_group_has_removed_joins_again(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 30)
        async with client.subscribe("g", ["t"], auto_commit_ms=None) as consumer:
            first = await taken(consumer, 10)
            await consumer.commit()
            await remove_members(node, "g")
            await taken(consumer, 20)
            with pytest.raises(UnknownMemberError):
                await consumer.commit()
            again = await taken(consumer, 20)  # they were not committed
            assert len({(m.partition, m.offset) for m in first + again}) == 30
            await consumer.commit()
        assert committed(node) == 30

    played(tmp_path, scenario)


async def remove_members(node, group):
    """As when their sessions had ended."""
    described = node.coordinator(group).groups.coordinator(group).describe_consumer(group)
    for member in described.members:
        await node.coordinator(group).groups.consumer_heartbeat(
            ConsumerHeartbeat(group_id=group, member_id=member.member_id, epoch=LEAVING_EPOCH)
        )


def test_the_client_id_is_shown_in_descriptions(tmp_path):
    async def scenario(client, node):
        async with client.subscribe("g", ["t"], client_id="me"):
            (member,) = node.coordinator("g").groups.coordinator("g").describe_consumer("g").members
            assert member.client_id == "me"

    played(tmp_path, scenario)


@pytest.mark.parametrize("group", [""])
def test_a_group_that_cannot_be_is_refused(tmp_path, group):
    async def scenario(client, node):
        with pytest.raises(GoQueueError):
            async with client.subscribe(group, ["t"]):
                pass

    played(tmp_path, scenario)


@pytest.mark.parametrize(
    ("topics", "options", "named"),
    [("t", {}, "topics"), ([], {}, "topics"), (["t"], {"start": "middle"}, "start")],
)
def test_a_subscription_that_makes_no_sense_is_refused(tmp_path, topics, options, named):
    async def scenario(client, node):
        with pytest.raises(ValueError, match=named):
            client.subscribe("g", topics, **options)

    played(tmp_path, scenario)


def test_a_member_is_used_inside_of_its_block(tmp_path):
    async def scenario(client, node):
        consumer = client.subscribe("g", ["t"])
        with pytest.raises(ClientError, match="inside of"):
            await anext(consumer)
        async with consumer:
            await fill(node.broker, 1)
            assert len(await taken(consumer, 1)) == 1
        assert [m async for m in consumer] == []

    played(tmp_path, scenario)


def test_cancelling_leaves_a_member_usable(tmp_path):
    async def scenario(client, node):
        async with client.subscribe("g", ["t"], auto_commit_ms=None) as consumer:
            for pause_s in (0, 0.01, 0.05):
                for work in (anext(consumer), taken(consumer.batches(3), 1)):
                    task = asyncio.ensure_future(work)
                    await asyncio.sleep(pause_s)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
            await fill(node.broker, 10)
            await taken(consumer, 5)
            for pause_s in (0, 0, 0.001):
                task = asyncio.ensure_future(consumer.commit())
                await asyncio.sleep(pause_s)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await taken(consumer, 5)
            await consumer.commit()
        assert committed(node) == 10
        for pause_s in (0, 0.001, 0.002, 0.004, 0.008):
            joining = client.subscribe("g", ["t"])
            task = asyncio.ensure_future(joining.__aenter__())
            await asyncio.sleep(pause_s)
            if not task.cancel():
                await joining.__aexit__(None)
            await asyncio.gather(task, return_exceptions=True)
        async with client.subscribe("g", ["t"]) as consumer:
            await until(lambda: len(consumer.assignment) == 3)

    played(tmp_path, scenario)


def test_a_transaction_commits_what_was_taken_or_nothing(tmp_path):
    async def scenario(client, node):
        await node.broker.create_topic("out", 1)
        await fill(node.broker, 30)
        async with client.subscribe("g", ["t"], auto_commit_ms=None) as consumer:
            for is_kept in (True, False):
                async with client.transaction("id") as transaction:
                    for message in await taken(consumer, 10):
                        await transaction.publish("out", message.value)
                    await transaction.send_offsets(consumer)
                    if not is_kept:
                        await transaction.abort()
                assert committed(node) == 10
        async with (
            client.subscribe("g", ["t"], auto_commit_ms=None) as consumer,
            client.transaction("id") as transaction,
        ):
            for message in await taken(consumer, 20):
                await transaction.publish("out", message.value)
            await transaction.send_offsets(consumer)
        assert committed(node) == 30
        values = [int(m.value) async for m in client.consume("out", until_end=True)]
        assert sorted(values) == list(range(30))

    played(tmp_path, scenario)
