"""Reading partitions without a group, over the Kafka wire."""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import UTC, datetime
from itertools import count

import pytest

from goqueue import Client
from goqueue.client.errors import BrokerUnavailableError, ClientClosedError, ForeignLoopError
from goqueue.model.errors import OffsetOutOfRangeError, UnknownPartitionError, UnknownTopicError
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.new_messages import NewMessage
from protocol.transactions.transactional_clients import Confluent
from support.linked import fill, linked, played, taken, until
from support.server import free_port


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", 0),
        (4, 4),
        (10, 10),
        ("latest", 10),
        (datetime.fromtimestamp(1.006, UTC), 6),
        (datetime.fromtimestamp(99, UTC), 10),
        (datetime.fromtimestamp(-5, UTC), 0),
    ],
)
def test_reading_begins_where_it_is_told_to(tmp_path, start, expected):
    async def scenario(client, node):
        new = [NewMessage(b"v", partition=0, timestamp_ms=1000 + number) for number in range(10)]
        await node.broker.writer.publish("t", new)
        found = [each.offset async for each in client.consume("t", start=start, until_end=True)]
        assert found == list(range(expected, 10))

    played(tmp_path, scenario)


def test_a_message_is_read_as_it_was_published(tmp_path):
    async def scenario(client, node):
        headers = (("a", b"1"), ("b", None))
        new = [
            NewMessage(b"v", key=b"k", headers=headers, partition=1, timestamp_ms=99),
            NewMessage(None, partition=1, timestamp_ms=100),
        ]
        await node.broker.writer.publish("t", new)
        one, two = [m async for m in client.consume("t", partition=1, until_end=True)]
        assert (one.topic, one.partition, one.offset, one.timestamp_ms) == ("t", 1, 0, 99)
        assert (one.key, one.value, one.headers) == (b"k", b"v", headers)
        assert (two.key, two.value, two.headers) == (None, None, ())

    played(tmp_path, scenario)


def test_a_reader_at_the_end_sees_what_comes(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 1, partition=0)
        reading = asyncio.create_task(taken(client.consume("t", start="latest"), 2))
        for number in count():  # it begins when it has asked where the end is
            if reading.done():
                break
            await node.broker.writer.publish("t", [NewMessage(b"%d" % number, partition=0)])
            await asyncio.sleep(0.02)
        first, second = [int(each.value) for each in await reading]
        assert second == first + 1

    played(tmp_path, scenario)


def test_all_partitions_are_read_together_and_so_are_those_that_come(tmp_path, monkeypatch):
    monkeypatch.setattr("goqueue.client.consuming.reading.TOPIC_AGE_S", 0.05)

    async def scenario(client, node):
        await fill(node.broker, 30)
        found = [m async for m in client.consume("t", partition=None, until_end=True)]
        assert sorted(int(m.value) for m in found) == list(range(30))
        reading = asyncio.create_task(taken(client.consume("t", partition=None), 31))
        await node.broker.grow_topic("t", 4)
        await node.broker.writer.publish("t", [NewMessage(b"30", partition=3)])
        assert sorted(int(m.value) for m in await reading) == list(range(31))

    played(tmp_path, scenario)


def test_a_partition_that_the_topic_got_since_it_was_looked_up_is_written(tmp_path):
    def write(address, grow):
        with Client(address) as client:
            client.publish("t", b"before").result(60)
            grow()
            assert client.publish("t", b"v", partition=5).result(60).partition == 5
            with pytest.raises(UnknownPartitionError, match="0 to 5, not 6"):
                client.publish("t", b"v", partition=6).result(60)
            with pytest.raises(UnknownPartitionError):
                client.flush()

    async def scenario(client, node):
        await (await client.publish("t", b"before"))
        await node.broker.grow_topic("t", 5)
        assert (await (await client.publish("t", b"v", partition=4))).partition == 4
        with pytest.raises(UnknownPartitionError, match="0 to 4, not 5"):
            await client.publish("t", b"v", partition=5)
        loop = asyncio.get_running_loop()

        def grow():
            asyncio.run_coroutine_threadsafe(node.broker.grow_topic("t", 6), loop).result(60)

        await asyncio.to_thread(write, node.address, grow)

    played(tmp_path, scenario)


def test_a_partition_that_the_topic_got_since_it_was_looked_up_is_read(tmp_path):
    async def scenario(client, node):
        await client.publish("t", b"before")  # looks the topic up
        await node.broker.grow_topic("t", 5)
        assert [m async for m in client.consume("t", partition=4, until_end=True)] == []
        with pytest.raises(UnknownPartitionError, match="0 to 4, not 5"):
            await anext(client.consume("t", partition=5))

    played(tmp_path, scenario)


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_batches_are_lists_of_at_most_so_many(tmp_path, batch):
    async def scenario(client, node):
        await fill(node.broker, 50, partition=0)
        found = [b async for b in client.consume("t", until_end=True, batch=batch)]
        assert all(0 < len(each) <= batch for each in found)
        assert [m.offset for each in found for m in each] == list(range(50))

    played(tmp_path, scenario)


def test_batches_may_be_arrow_tables_or_data_frames(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 50, partition=2)
        for form in ("arrow", "pandas"):
            found = [b async for b in client.consume("t", partition=2, until_end=True, batch=form)]
            rows = [
                row
                for each in found
                for row in (each.to_pylist() if form == "arrow" else each.to_dict("records"))
            ]
            assert [row["offset"] for row in rows] == list(range(50))
            assert [row["value"] for row in rows] == [b"%d" % number for number in range(50)]
            assert {row["partition"] for row in rows} == {2}

    played(tmp_path, scenario)


def test_aborted_messages_are_left_out_in_every_form(tmp_path):
    async def scenario(client, node):
        def write():
            producer = Confluent(node.address, "id")
            for value, is_kept in ((b"1", True), (b"2", False), (b"3", True), (b"4", False)):
                producer.begin()
                producer.send("t", value)
                (producer.commit if is_kept else producer.abort)()
            producer.close()

        await asyncio.to_thread(write)
        plain = [m async for m in client.consume("t", until_end=True)]
        assert [m.value for m in plain] == [b"1", b"3"]
        tables = [t async for t in client.consume("t", until_end=True, batch="arrow")]
        assert [v for t in tables for v in t["value"].to_pylist()] == [b"1", b"3"]

    played(tmp_path, scenario)


# --- Errors ---------------------------------------------------------------------------------------


def test_a_reader_beyond_the_end_is_told_where_the_end_is(tmp_path):
    async def scenario(client, node):
        for start in (5, -1):
            with pytest.raises(OffsetOutOfRangeError) as caught:
                await taken(client.consume("t", start=start), 1)
            assert (caught.value.offset, caught.value.log_end) == (start, 0)

    played(tmp_path, scenario)


@pytest.mark.parametrize("start", ["middle", 1.5, True, None, b"earliest"])
def test_a_start_that_is_none_is_refused(tmp_path, start):
    async def scenario(client, node):
        with pytest.raises(ValueError, match="start"):
            await taken(client.consume("t", start=start), 1)

    played(tmp_path, scenario)


@pytest.mark.parametrize("batch", [0, -1, True, "polars", 2.0, b"arrow"])
def test_a_batch_that_is_none_is_refused(tmp_path, batch):
    async def scenario(client, node):
        with pytest.raises(ValueError, match="batch"):
            await taken(client.consume("t", batch=batch), 1)

    played(tmp_path, scenario)


def test_what_a_form_of_batches_needs_is_named(tmp_path, monkeypatch):
    async def scenario(client, node):
        with pytest.raises(ImportError, match="pip install pyarrow"):
            await taken(client.consume("t", batch="arrow"), 1)

    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    played(tmp_path, scenario)


def test_an_unknown_topic_or_partition_is_named_at_once(tmp_path):
    async def scenario(client, node):
        with pytest.raises(UnknownTopicError, match="nowhere"):
            await taken(client.consume("nowhere"), 1)
        with pytest.raises(UnknownPartitionError, match="0 to 2, not 3"):
            await taken(client.consume("t", partition=3), 1)

    played(tmp_path, scenario)


def test_a_topic_that_is_deleted_ends_its_readers(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 3, partition=0)
        messages = client.consume("t")
        assert [m.offset for m in await taken(messages, 3)] == [0, 1, 2]
        waiting = asyncio.create_task(taken(client.consume("t", start=3), 1))
        await asyncio.sleep(0.1)
        await node.broker.delete_topic("t")
        with pytest.raises(UnknownTopicError):
            await asyncio.wait_for(waiting, 60)
        await node.broker.create_topic("t", 3)
        await fill(node.broker, 3, partition=0)
        assert len([m async for m in client.consume("t", until_end=True)]) == 3

    played(tmp_path, scenario, backoff_ms=1)


def test_nobody_at_the_address_is_said_in_time():
    async def main():
        address = f"127.0.0.1:{free_port()}"
        async with linked(address, call_timeout_ms=200) as client:
            with pytest.raises(BrokerUnavailableError, match=address):
                await taken(client.consume("t"), 1)
            with pytest.raises(BrokerUnavailableError, match=address):
                async with client.subscribe("g", ["t"]):
                    pass

    asyncio.run(main())


def test_a_closed_client_ends_its_readers_and_takes_no_others(tmp_path):
    async def scenario(client, node):
        reading = asyncio.create_task(taken(client.consume("t"), 1))
        member = client.subscribe("g", ["t"])
        await member.__aenter__()
        taking = asyncio.create_task(taken(member, 1))
        await asyncio.sleep(0.1)
        await client.link.close()
        for task in (reading, taking):
            with pytest.raises(ClientClosedError):
                await asyncio.wait_for(task, 60)
        await member.__aexit__(None)
        with pytest.raises(ClientClosedError):
            await taken(client.consume("t"), 1)
        with pytest.raises(ClientClosedError):
            await client.subscribe("g", ["t"]).__aenter__()

    played(tmp_path, scenario)


def test_another_event_loop_is_refused(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 1, partition=0)
        assert len(await taken(client.consume("t"), 1)) == 1

        def elsewhere():
            async def main():
                with pytest.raises(ForeignLoopError):
                    await taken(client.consume("t"), 1)
                with pytest.raises(ForeignLoopError):
                    await client.subscribe("g", ["t"]).__aenter__()

            asyncio.run(main())

        await asyncio.to_thread(elsewhere)

    played(tmp_path, scenario)


# --- Retention ------------------------------------------------------------------------------------


def test_a_reader_whose_messages_were_deleted_goes_on_at_the_first_that_is_left(tmp_path, caplog):
    async def scenario(client, node):
        await fill(node.broker, 10, partition=0)
        assert [m.offset for m in await taken(client.consume("t", start=3), 1)] == [3]
        await node.leader("t").delete_records(TopicPartition("t", 0), 6)
        found = [m.offset async for m in client.consume("t", start=3, until_end=True)]
        assert found == [6, 7, 8, 9]

    played(tmp_path, scenario)


def test_a_reader_may_stop_and_be_cancelled_anywhere(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 10, partition=0)
        for pause_s in (0, 0, 0.001, 0.003, 0.01, 0.1):
            task = asyncio.create_task(taken(client.consume("t"), 1000))
            await asyncio.sleep(pause_s)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert len([m async for m in client.consume("t", until_end=True)]) == 10
        await until(
            lambda: len(client.link._pool._open) <= 1
        )  # the readers' connections are closed

    played(tmp_path, scenario)


_READER = """
import sys
from goqueue import Client

with Client(sys.argv[1]) as client:
    for message in client.consume("t"):
        print("read", flush=True)
"""


def test_ctrl_c_ends_a_blocking_reader_that_waits(tmp_path):
    async def scenario(client, node):
        await fill(node.broker, 1, partition=0)
        reader = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _READER, node.address),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert reader.stdout is not None
        assert await reader.stdout.readline() == b"read\n"
        await asyncio.sleep(0.2)  # it waits for the next one
        reader.send_signal(signal.SIGINT)
        _, said = await reader.communicate()
        assert said.rstrip().endswith(b"KeyboardInterrupt"), said

    played(tmp_path, scenario)
