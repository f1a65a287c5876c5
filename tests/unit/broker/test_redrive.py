"""Redriving dead letters: each goes once, whatever happens in between."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from goqueue.model.errors import GoQueueError, InternalTopicError, UnknownRedriveError
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.handover import Handover
from goqueue.publishing.new_messages import NewMessage
from goqueue.queues.dead_letters.letters import LetterFilter
from goqueue.queues.dead_letters.redrive import _MAX_KEPT
from goqueue.queues.dead_letters.redrive_engine import RedriveRequest, RedriveState
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.group import REDRIVE_GROUP
from goqueue.queues.shards import QUEUE_TOPIC
from goqueue.records import Record, peek
from support.brokers import publish, read_all, running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk, SimulatedCrash

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.queues.dead_letters.redrive_engine import Redrive

LETTERS = tuple(b"%d" % number for number in range(5))


async def bury(broker: Broker, partitions: int = 1) -> None:
    """A topic with dead letters, as somebody might have put them there."""
    for name in ("t", "t.dlq"):
        await broker.create_topic(name, partitions)
    publish(broker, "t.dlq", *LETTERS)


async def redrive(broker: Broker, **request: object) -> Redrive:
    found = broker.redrives.begin(RedriveRequest("t", **request))  # type: ignore[arg-type]  # its own
    assert found.task is not None
    await found.task
    return found


async def values(broker: Broker, topic: str = "t") -> list[bytes | None]:
    return [each.value for each in await read_all(broker, topic)]


async def left(broker: Broker) -> list[bytes | None]:
    return [each.record.value async for found in broker.letters.read("t") for each in found]


def test_letters_that_have_gone_are_neither_listed_nor_sent_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            await bury(broker)
            chosen = LetterFilter(offsets={0: frozenset({1, 3})})
            first = await redrive(broker, chosen=chosen)
            assert (first.state, first.total, first.done) == (RedriveState.DONE, 2, 2)
            assert await left(broker) == [b"0", b"2", b"4"]
        async with running_broker(tmp_path, clock=clock) as broker:
            assert await broker.letters.count("t") == 3
            second = await redrive(broker)
            assert (second.total, second.done) == (3, 3)
            assert await values(broker) == [b"1", b"3", b"0", b"2", b"4"]
            assert (await redrive(broker)).total == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("operations", range(10))
def test_a_letter_goes_once_whenever_the_process_is_killed(tmp_path: Path, operations: int) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            await bury(broker)
            await redrive(broker, limit=1)
        with suppress(SimulatedCrash, GoQueueError):
            async with running_broker(tmp_path, clock=clock, disk=disk, clean=False) as broker:
                disk.crash_after(operations)
                await redrive(broker, limit=2)
        disk.kill()
        async with running_broker(tmp_path, clock=clock) as broker:
            gone = await values(broker)
            assert sorted([*gone, *await left(broker)]) == sorted(LETTERS)
            await redrive(broker)
            assert await values(broker) == list(LETTERS)
            assert await left(broker) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("from_offset", [None, 1])
@pytest.mark.parametrize("went", [False, True])
def test_whether_letters_went_is_told_by_the_log_of_their_target(
    tmp_path: Path, from_offset: int | None, went: bool
) -> None:
    """Also when its producers were forgotten meanwhile, and for what older versions have stored."""

    async def scenario() -> None:
        clock = ManualClock()
        source, target = TopicPartition("t.dlq", 0), TopicPartition("t", 0)
        async with running_broker(tmp_path, clock=clock) as broker:
            await bury(broker)
            await redrive(broker, limit=1)
            group, key = broker.queues.group(REDRIVE_GROUP), broker.queues.key(source)
            told: dict[str, Any] = {} if from_offset is None else {"from_offset": from_offset}
            moving = ops.Moving(*target, 0, [1, 2], 77, **told)
            await broker.queues.shard_of(group).store(group, {key: [moving]})
            if went:
                partition = broker.partitions.partition(target)
                records = [Record(at, clock.now_ms(), None, LETTERS[at + 1]) for at in range(2)]
                batch = Handover(77).batch(records, 0)
                partition.append(batch, peek(batch))
                partition.sequences.forget_idle(clock.now_ms() + 1)
        async with running_broker(tmp_path, clock=clock) as broker:
            assert await left(broker) == [LETTERS[at] for at in ([3, 4] if went else [1, 2, 3, 4])]
            await redrive(broker)
            assert await values(broker) == list(LETTERS)

    asyncio.run(scenario())


@pytest.mark.parametrize("skip", range(3))
def test_a_disk_that_refuses_keeps_the_letters(tmp_path: Path, skip: int) -> None:
    """Of the writes of a redrive: what is about to go, the messages, that they have gone."""

    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk) as broker:
            await bury(broker)
            await redrive(broker, limit=1)
            disk.fail_next("write", errno.EIO, skip=skip)
            failed = await redrive(broker)
            assert failed.state is RedriveState.FAILED
            assert failed.error
            shard = broker.queues._family.number_of(REDRIVE_GROUP)
            for place in (TopicPartition("t", 0), TopicPartition(QUEUE_TOPIC, shard)):
                partition = broker.partitions.partition(place)
                if partition.failure is not None:
                    await partition.recover()
            await redrive(broker)
            assert await values(broker) == list(LETTERS)
            assert await left(broker) == []

    asyncio.run(scenario())


def test_a_letter_that_the_target_refuses_stays_and_its_neighbours_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await bury(broker)
            await broker.writer.publish("t.dlq", [NewMessage(b"x" * 5000), NewMessage(b"last")])
            await broker.configure_topic("t", {"max.message.bytes": "1000"})
            done = await redrive(broker)
            assert (done.state, done.total) == (RedriveState.DONE, 7)
            assert (done.done, done.failed) == (6, 1)
            assert "1000" in done.error
            assert [each[:3] for each in done.refused] == [(0, 5, "t")]
            assert "1000" in done.refused[0].error
            assert await values(broker) == [*LETTERS, b"last"]
            assert await left(broker) == [b"x" * 5000]

    asyncio.run(scenario())


def test_two_redrives_at_once_send_each_letter_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await bury(broker)
            both = await asyncio.gather(redrive(broker), redrive(broker))
            assert sum(each.done for each in both) == len(LETTERS)
            assert await values(broker) == list(LETTERS)

    asyncio.run(scenario())


def test_letters_that_come_later_are_not_meant(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await bury(broker)
            found = broker.redrives.begin(RedriveRequest("t", rate=1000))
            await asyncio.sleep(0)
            publish(broker, "t.dlq", b"later")
            assert found.task is not None
            await found.task
            assert found.total == found.done == len(LETTERS)
            assert await left(broker) == [b"later"]

    asyncio.run(scenario())


def test_a_redrive_goes_to_the_partition_of_the_same_number_if_there_is_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            for name, count in (("t", 3), ("t.dlq", 3), ("small", 2)):
                await broker.create_topic(name, count)
            said = [(f"goqueue-dlq-{name}", b"2") for name in ("partition", "attempts")]
            letters = [NewMessage(b"%d" % n, headers=tuple(said), partition=2) for n in range(2)]
            await broker.writer.publish("t.dlq", letters)
            await redrive(broker, limit=1)
            await redrive(broker, to="small")
            ends = {
                str(each.id): each.log_end
                for each in broker.partitions
                if each.id.topic in {"t", "small"} and each.log_end
            }
            assert ends == {"t-2": 1, "small-0": 1}

    asyncio.run(scenario())


def test_letters_of_any_topic_go_where_their_headers_say(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            for name in ("rejects", "t", "u"):
                await broker.create_topic(name, 1)
            sources = ["t", "gone", "u", None, "rejects", "__queue_state", "t"]
            letters = [
                NewMessage(b"%d" % at, headers=(("goqueue-dlq-topic", name.encode()),))
                if name
                else NewMessage(b"%d" % at)
                for at, name in enumerate(sources)
            ]
            await broker.writer.publish("rejects", letters)
            wish = RedriveRequest(
                "rejects",
                letters_in="rejects",
                to_source=True,
                chosen=LetterFilter(offsets={0: frozenset(range(6))}),
            )
            done = broker.redrives.begin(wish)
            assert done.task is not None
            await done.task
            assert (done.state, done.targets) == (RedriveState.DONE, {"t": 1, "u": 1})
            stay = [(1, "gone"), (3, "rejects"), (4, "rejects"), (5, "__queue_state")]
            assert [(each.offset, each.to) for each in done.refused] == stay
            assert done.failed == len(stay)
            assert await values(broker) == [b"0"]
            assert await values(broker, "u") == [b"2"]
            partition = await broker.letters.partition("rejects", 0, "rejects")
            assert broker.letters.moved(partition, 0, 10) == [(0, 1), (2, 3)]
            again = broker.redrives.begin(replace(wish, chosen=LetterFilter(), to="u"))
            assert again.task is not None
            await again.task
            assert again.targets == {"t": 1, "u": 1}
            assert await values(broker, "u") == [b"2", b"3"]
            with pytest.raises(InternalTopicError):
                broker.redrives.begin(RedriveRequest("t", letters_in="__queue_state"))

    asyncio.run(scenario())


def test_redrives_that_are_long_over_are_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            for _ in range(_MAX_KEPT + 5):
                await redrive(broker, dry_run=True)
            assert len(list(broker.redrives)) == _MAX_KEPT
            with pytest.raises(UnknownRedriveError):
                broker.redrives.get(1)
            assert broker.redrives.get(_MAX_KEPT + 5).state is RedriveState.DONE

    asyncio.run(scenario())
