"""Batches that their producers made badly: one bad record costs one record, whoever reads it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import MalformedBatchError
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.http.operations.attention import damage_found
from goqueue.publishing.requests import PublishRequest
from goqueue.queues.dead_letters.redrive_engine import RedriveRequest
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.records import Record, encode, peek
from support.batches import batch_with_bad_record, garbage_batch, sealed
from support.brokers import publish, read_all, running_broker
from support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.records.record import Headers

ACK = Acknowledgement(Verdict.ACK)
REJECT = Acknowledgement(Verdict.REJECT, "never")


def send(broker: Broker, batch: bytes) -> None:
    broker.publisher.publish(PublishRequest(TopicPartition("t", 0), memoryview(bytearray(batch))))


def start(broker: Broker) -> int:
    return next(iter(broker.queues.group("g").queues.values())).start


def said(headers: Headers) -> dict[str, str]:
    return {name.removeprefix("goqueue-dlq-"): (value or b"").decode() for name, value in headers}


async def letters(broker: Broker) -> list[Record]:
    return await read_all(broker, "t.dlq") if "t.dlq" in broker.topics.catalogue.by_name else []


@pytest.mark.parametrize("is_share", [False, True])
def test_garbage_costs_a_queue_group_one_dead_letter_and_no_neighbour(
    tmp_path: Path, is_share: bool
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            publish(broker, "t", b"before")
            send(broker, garbage_batch(10, good=2))
            publish(broker, "t", b"after")
            member = await broker.queue_members.join("g", ["t"], QueueSettings())
            if is_share:
                portions = await broker.deliverer.acquire(
                    member,
                    [TopicPartition("t", 0)],
                    limit=100,
                    max_wait_ms=0,
                    max_bytes=1 << 20,
                    grant=lambda wanted: wanted,
                )
                found = [each for portion in portions for each in portion.deliveries()]
            else:
                found = await broker.deliverer.poll(member, limit=100, max_wait_ms=0)
            values = [each.record.value for each in found]
            assert values == [b"before", b"good 0", b"good 1", b"after"]
            await broker.acknowledger.settle([each.receipt for each in found], ACK)
            await until(lambda: start(broker) == 12)
            (letter,) = await letters(broker)
            assert letter.value is None
            headers = said(letter.headers)
            assert (headers["reason"], headers["offset"]) == ("POISON_MESSAGE", "3")
            assert "offsets 3 to 10 do not decode" in headers["error"]
            assert "does not decode" in headers["undecodable"]

    asyncio.run(scenario())


def test_one_bad_record_in_a_batch_costs_one_record(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            send(broker, batch_with_bad_record(20, 7))
            member = await broker.queue_members.join("g", ["t"], QueueSettings())
            found = await broker.deliverer.poll(member, limit=100, max_wait_ms=0)
            assert [each.record.offset for each in found] == [*range(7), *range(8, 20)]
            read = await broker.reader.read(TopicPartition("t", 0), 0, limit=100)
            assert [each.record.offset for each in read.messages] == [*range(7), *range(8, 20)]
            assert read.next_offset == 20

    asyncio.run(scenario())


def test_a_reader_of_single_messages_gets_past_garbage_and_it_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            send(broker, garbage_batch(3))
            publish(broker, "t", b"after")
            for _ in range(2):
                read = await broker.reader.read(TopicPartition("t", 0), 0, limit=100)
                assert [each.record.value for each in read.messages] == [b"after"]
            (line,) = damage_found(broker)
            assert line.severity == "warning"
            assert "t-0" in line.title
            assert "offsets 0 to 2" in line.detail

    asyncio.run(scenario())
    assert sum("do not decode" in each.message for each in caplog.records) == 1


def test_a_letter_without_a_message_stays_when_the_others_go_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            send(broker, garbage_batch(2))
            publish(broker, "t", b"rejected")
            member = await broker.queue_members.join("g", ["t"], QueueSettings())
            found = await broker.deliverer.poll(member, limit=100, max_wait_ms=0)
            await broker.acknowledger.settle([each.receipt for each in found], REJECT)
            await until(lambda: start(broker) == 3)
            redrive = broker.redrives.begin(RedriveRequest("t"))
            await until(lambda: redrive.is_over)
            assert (redrive.done, redrive.failed) == (1, 1)
            assert "holds no message" in redrive.error
            assert await broker.letters.count("t") == 1
            (again,) = await broker.deliverer.poll(member, limit=100, max_wait_ms=0)
            assert again.record.value == b"rejected"

    asyncio.run(scenario())


def test_a_ttl_of_any_number_of_digits_is_no_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            settings = {"message.ttl.ms": "100000", "goqueue.kafka.headers": "false"}
            await broker.create_topic("t", 1, settings)
            now_ms = broker.clock.now_ms()
            headers = (("goqueue-ttl", b"9" * 5000),)
            batch = encode([Record(0, now_ms, None, b"v", headers)])
            send(broker, bytes(batch))
            member = await broker.queue_members.join("g", ["t"], QueueSettings())
            (found,) = await broker.deliverer.poll(member, limit=100, max_wait_ms=0)
            assert found.record.value == b"v"

    asyncio.run(scenario())


def test_more_records_than_a_batch_has_room_for_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            batch = garbage_batch(1000)
            with pytest.raises(MalformedBatchError, match="1000 records"):
                send(broker, _shortened(batch))

    asyncio.run(scenario())


def _shortened(batch: bytes) -> bytes:
    return sealed(bytearray(batch[: peek(batch).size_bytes // 2]))


def test_dead_letters_of_more_than_a_batch_can_hold_are_moved_in_portions(tmp_path: Path) -> None:
    count, size = 10, 7 << 20

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1, {"max.message.bytes": str(8 << 20)})
            for number in range(count):
                publish(broker, "t", bytes([number]) * size)
            member = await broker.queue_members.join("g", ["t"], QueueSettings())
            while found := await broker.deliverer.poll(member, limit=100, max_wait_ms=0):
                await broker.acknowledger.settle([each.receipt for each in found], REJECT)
            await until(lambda: start(broker) == count)
            partition = broker.partitions.partition(TopicPartition("t.dlq", 0))
            assert partition.log_end == count
            found_values = []
            async for portion in broker.letters.read("t"):
                found_values += [(each.record.value or b"")[:1] for each in portion]
            assert found_values == [bytes([number]) for number in range(count)]

    asyncio.run(scenario())
