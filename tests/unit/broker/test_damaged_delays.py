"""Damage to what is stored of delayed messages: rebuilt from the log, reported, nothing stuck."""

from __future__ import annotations

import asyncio
from array import array
from typing import TYPE_CHECKING

import pytest

from goqueue.delays.due.slots import HEADER, SlotFiles
from goqueue.metrics import names
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.damage import DamageKind
from goqueue.publishing.new_messages import NewMessage
from support.bad_bits import damaged_copies, flip
from support.brokers import read_all, running_broker
from support.clocks import ManualClock
from support.disks import HastyDisk
from support.logs import disk_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goqueue.broker.broker import Broker

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
COUNT = 40


async def fill(broker: Broker, clock: ManualClock, first: int = 0) -> None:
    """Messages that are due in four and in five days, in two portions of their slots each."""
    now_ms = clock.now_ms()
    new = [
        NewMessage(b"%d" % number, partition=0, deliver_at_ms=now_ms + (4 + number % 2) * DAY_MS)
        for number in range(first, first + COUNT // 2)
    ]
    await broker.writer.publish("t", new)
    await broker.delays.deliver_due()
    await broker.delays.shard().parts.keeper.save()


async def delivered(broker: Broker, clock: ManualClock) -> list[bytes]:
    clock.advance(6 * DAY_MS)
    await broker.delays.deliver_due()
    return sorted(record.value for record in await read_all(broker, "t"))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-48])


HARMS = {
    "a-bit-of-an-entry": lambda path: flip(path, 30),
    "two-bits": lambda path: (flip(path, 30), flip(path, 50)),
    "the-header": lambda path: flip(path, 2),
    "a-length": lambda path: flip(path, 12),
    "a-bit-of-the-last-portion": lambda path: flip(path, path.stat().st_size - 3),
    "the-end": truncated,
    "the-file": lambda path: path.unlink(),
}


@pytest.mark.parametrize("when", ["before-a-start", "while-running"])
@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
def test_a_damaged_slot_is_rebuilt_from_the_log_and_reported(
    tmp_path: Path, harm: Callable[[Path], object], when: str
) -> None:
    clock = ManualClock(START_MS)

    async def scenario() -> None:
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("t", 1)
            await fill(broker, clock)
            await fill(broker, clock, COUNT // 2)
            first, _ = slots = sorted((tmp_path / "delay-slots").iterdir())
            if when == "while-running":
                harm(first)
                assert await delivered(broker, clock) == sorted(b"%d" % n for n in range(COUNT))
                assert [report.kind for report in broker.damage] == [DamageKind.DELAY_SLOT]
                return
        harm(first)
        async with running_broker(tmp_path, clock=clock) as broker:
            assert await delivered(broker, clock) == sorted(b"%d" % n for n in range(COUNT))
            assert [report.place for report in broker.damage] == [str(slots[0])]
            assert broker.metrics.total(names.DAMAGE_FOUND) == 1
            assert broker.delays.stats().pending == 0

    asyncio.run(scenario())


def test_a_damaged_slot_to_which_messages_are_added_loses_none(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)

    async def scenario() -> None:
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("t", 1)
            await fill(broker, clock)
        for path in (tmp_path / "delay-slots").iterdir():
            flip(path, 30)
        async with running_broker(tmp_path, clock=clock) as broker:
            await fill(broker, clock, COUNT // 2)
            assert {report.kind for report in broker.damage} == {DamageKind.DELAY_SLOT}
        async with running_broker(tmp_path, clock=clock) as broker:
            assert await delivered(broker, clock) == sorted(b"%d" % n for n in range(COUNT))
            assert list(broker.damage) == []

    asyncio.run(scenario())


def test_slot_files_of_the_first_version_are_read_and_go_on_in_the_second(tmp_path: Path) -> None:
    path = tmp_path / "slot-000000000007.bin"
    slot_ms = 10_485_760
    old = array("q", [7 * slot_ms, 1, 7 * slot_ms + 5, 2])
    path.write_bytes(old.tobytes())
    files = SlotFiles(HastyDisk(), tmp_path)
    assert files.load(7) == (old, None, False)
    more = array("q", [7 * slot_ms + 9, 3])
    files.append({7: more})
    assert path.read_bytes().startswith(HEADER)
    assert files.load(7) == (old + more, None, False)


def test_one_bad_bit_in_the_log_or_the_state_of_delays_costs_only_its_batch(
    memory_path: Path,
) -> None:
    """Whichever batch is damaged: no other message is lost, and the start does not fail."""
    clock = ManualClock(START_MS)
    folder = memory_path / "data"
    folder.mkdir()

    async def scenario() -> None:
        async with running_broker(folder, clock=clock, clean=False) as broker:
            await broker.create_topic("t", 1)
            for number in range(8):
                due_ms = clock.now_ms() + 1000
                new = [
                    NewMessage(b"%d.%d" % (number, at), partition=0, deliver_at_ms=due_ms)
                    for at in range(3)
                ]
                results = await broker.writer.publish("t", new)
                await broker.delays.cancel("t", 0, results[0].delayed_id)
                if number % 2:
                    clock.advance(1500)
                    await broker.delays.deliver_due()
                if number in {3, 5}:
                    await broker.delays.shard().parts.keeper.save()
        everything = {b"%d.%d" % (number, at) for number in range(8) for at in (1, 2)}
        for topic in ("__delayed", "__delay_state"):
            for copy, batch in damaged_copies(folder, topic, memory_path):
                now_ms = clock.now_ms()
                async with running_broker(copy, clock=clock, clean=False) as broker:
                    assert [report.topic for report in broker.damage] == [topic], batch.info
                    for _ in range(3):
                        clock.advance(3000)
                        await broker.delays.deliver_due()
                        await disk_log(
                            broker.partitions.partition(TopicPartition("t", 0))
                        ).flusher.checkpoint()
                    await broker.delays.deliver_due()
                    assert broker.delays.shard().parts.book.intents == {}
                    broker.delays.shard().parts.book.check_invariants()
                    came = {record.value for record in await read_all(broker, "t")}
                    lost = {r.value for r in batch.records} if topic == "__delayed" else set()
                    assert came >= everything - lost
                    assert broker.delays.stats().pending == 0
                clock.jump(now_ms - clock.now_ms())

    asyncio.run(scenario())
