"""Transactions with the Python client."""

# ruff: noqa: PT012, SIM117 - a transaction is a block, and what leaves the block is what is tested

from __future__ import annotations

import asyncio

import pytest

from goqueue import AsyncClient, Client, ClientSettings
from goqueue.client.errors import ClientClosedError, TransactionOutcomeUnknownError
from goqueue.model.errors import (
    FencedProducerError,
    FencedTransactionError,
    InvalidTransactionTimeoutError,
    PartitionNotAssignedError,
    TransactionOpenError,
    UnknownTopicError,
    UnknownTransactionalIdError,
)
from goqueue.model.topic_partition import TopicPartition
from support.client_node import run
from support.server import make_server


async def _values(node, topic="t", partition=0):
    """What a reader of committed messages sees."""
    async with AsyncClient(node.address) as client:
        messages = client.consume(topic, partition=partition, until_end=True)
        return [each.value async for each in messages]


def test_a_block_commits_at_its_end_and_aborts_when_it_is_left_by_an_exception(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        async with AsyncClient(node.address) as client:
            for number in range(3):
                with pytest.raises(ZeroDivisionError):
                    async with client.transaction("tx") as transaction:
                        await transaction.publish("t", f"never {number}")
                        await transaction.flush()
                        _ = 1 // 0
                async with client.transaction("tx") as transaction:
                    await transaction.publish("t", f"{number}", key="k", headers={"h": "v"})
            assert await _values(node) == [b"0", b"1", b"2"]
            (found,) = await client.transactions.list()
            assert (found.transactional_id, found.state) == ("tx", "CompleteCommit")
            assert found == await client.transactions.describe("tx")

    run(tmp_path, scenario)


def test_many_messages_are_sent_in_several_requests_and_count_together(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        await node.broker.create_topic("u", 3)
        async with AsyncClient(node.address) as client:
            async with client.transaction() as transaction:
                for number in range(2500):
                    await transaction.publish("t", b"%d" % number)
                    await transaction.publish("u", b"%d" % number)
                assert await _values(node) == []
            assert await _values(node) == [b"%d" % number for number in range(2500)]
            parts = [await _values(node, "u", number) for number in range(3)]
            assert sum(map(len, parts)) == 2500

    run(tmp_path, scenario)


def test_transactions_without_a_name_can_be_open_at_the_same_time(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        async with AsyncClient(node.address) as client:

            async def one(number):
                async with client.transaction() as transaction:
                    await transaction.publish("t", f"{number}")
                    await transaction.flush()
                    await asyncio.sleep(0.01)

            await asyncio.gather(*map(one, range(5)))
            await asyncio.gather(*map(one, range(5)))
            assert len(await _values(node)) == 10
            assert len(await client.transactions.list()) == 5

    run(tmp_path, scenario)


def test_a_named_transaction_cannot_be_begun_inside_itself(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        async with AsyncClient(node.address) as client:
            async with client.transaction("tx") as transaction:
                await transaction.publish("t", "outer")
                with pytest.raises(TransactionOpenError):
                    async with client.transaction("tx"):
                        pass
            assert await _values(node) == [b"outer"]
            with pytest.raises(ClientClosedError):
                await transaction.publish("t", "too late")

    run(tmp_path, scenario)


def test_a_newer_instance_fences_the_older(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        async with AsyncClient(node.address) as old, AsyncClient(node.address) as new:
            with pytest.raises((FencedTransactionError, FencedProducerError)):
                async with old.transaction("tx") as first:
                    await first.publish("t", "old")
                    await first.flush()
                    async with new.transaction("tx") as second:
                        await second.publish("t", "new")
            assert await _values(node) == [b"new"]
            async with old.transaction("tx") as again:
                await again.publish("t", "old again")
            assert await _values(node) == [b"new", b"old again"]

    run(tmp_path, scenario)


def test_what_is_refused_takes_the_whole_transaction_with_it(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        async with AsyncClient(node.address) as client:
            with pytest.raises(UnknownTopicError):
                async with client.transaction("tx") as transaction:
                    await transaction.publish("t", "good")
                    await transaction.publish("absent", "bad")
            assert await _values(node) == []
            assert (await client.transactions.describe("tx")).state == "CompleteAbort"
            with pytest.raises(InvalidTransactionTimeoutError):
                async with client.transaction("ty", timeout=3600):
                    pass
            with pytest.raises(UnknownTransactionalIdError):
                await client.transactions.abort("absent")

    run(tmp_path, scenario)


def test_offsets_count_with_the_transaction(tmp_path):
    async def scenario(node):
        for topic in ("in", "out"):
            await node.broker.create_topic(topic, 2)
        async with AsyncClient(node.address) as client:
            for number in range(20):
                await client.publish("in", f"{number}", partition=number % 2)
            await client.flush()
            done = 0
            async with client.subscribe("g", ["in"], auto_commit_ms=None) as consumer:
                async for message in consumer:
                    async with client.transaction("tx") as transaction:
                        await transaction.publish("out", message.value, partition=message.partition)
                        await transaction.send_offsets(consumer)
                    done += 1
                    if done == 20:
                        break
            offsets = {each.partition: each.offset for each in await client.offsets.fetch("g")}
            assert offsets == {0: 10, 1: 10}
            values = await _values(node, "out", 0) + await _values(node, "out", 1)
            assert sorted(map(int, values)) == list(range(20))
            with pytest.raises(PartitionNotAssignedError):
                async with client.subscribe("h", ["in"], auto_commit_ms=None) as consumer:
                    async with client.transaction("tx") as transaction:
                        await transaction.send_offsets(consumer, {TopicPartition("out", 0): 1})
            async with client.subscribe("i", ["in"]) as consumer:
                async with client.transaction("tx") as transaction:
                    with pytest.raises(ValueError, match="auto_commit_ms"):
                        await transaction.send_offsets(consumer)

    run(tmp_path, scenario)


def test_programs_without_asyncio_do_the_same(tmp_path):
    server = make_server(tmp_path / "data").start()
    try:
        with Client(server.kafka_address) as client:
            client.topics.create("t", partitions=1)
            with pytest.raises(ZeroDivisionError), client.transaction("tx") as transaction:
                transaction.publish("t", "never")
                transaction.flush()
                _ = 1 // 0
            with client.transaction("tx") as transaction:
                transaction.publish("t", "a")
                transaction.publish("t", "b")
                transaction.send_offsets("g", {TopicPartition("t", 0): 1})
            assert [m.value for m in client.consume("t", until_end=True)] == [b"a", b"b"]
            assert client.offsets.fetch("g")[0].offset == 1
            assert client.transactions.describe("tx").state == "CompleteCommit"
            assert len(client.transactions.list("CompleteCommit")) == 1
    finally:
        server.close()


def test_a_commit_that_nobody_answers_is_told_from_one_that_failed(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        async with AsyncClient(node.address) as client, client.transaction("first") as first:
            await first.publish("t", "v")  # what the first one needs is made now, in peace
        async with AsyncClient(node.address, ClientSettings(call_timeout_ms=5000)) as client:
            with pytest.raises(TransactionOutcomeUnknownError):
                async with client.transaction("tx") as transaction:
                    await transaction.publish("t", "v")
                    await transaction.flush()
                    await node.stop_listening(0)

    run(tmp_path, scenario)
