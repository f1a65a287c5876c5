"""Verdicts by ranges of offsets: what a member has, and nothing else, changes its state."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import (
    CoordinatorUnavailableError,
    ForeignReceiptError,
    GroupNotFoundError,
    InternalTopicError,
    TooManyGroupsError,
    UnknownTopicError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.queues.delivery.decisions import Verdict
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.queues.members import QueueMember
from goqueue.queues.shards import QUEUE_PARTITIONS
from goqueue.queues.share.acknowledging import AcknowledgedOffsets, ShareAcks
from goqueue.queues.share.members import ShareHeartbeat, ShareMembers
from support.brokers import publish, running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.queues.delivery.queue import PartitionQueue

PLACE = TopicPartition("t", 0)
ACK, RELEASE, REJECT, EXTEND = Verdict.ACK, Verdict.RELEASE, Verdict.REJECT, Verdict.EXTEND


async def group_of(broker: Broker, count: int, *members: str) -> None:
    """A group with members that read a topic of so many messages."""
    await broker.create_topic("t", 1)
    publish(broker, "t", *(b"%d" % number for number in range(count)))
    await broker.queues.open("g", QueueSettings())
    for member in members:
        said = ShareHeartbeat("g", member, 0, frozenset({"t"}))
        await ShareMembers(broker).heartbeat(said)


async def take(broker: Broker, member: str, count: int) -> list[tuple[int, int]]:
    """Hand a member messages; returns their offsets, first and behind the last."""
    portions = await broker.deliverer.acquire(
        QueueMember("g", member, Mode.SHARED),
        [PLACE],
        limit=count,
        max_wait_ms=0,
        max_bytes=1 << 20,
        grant=lambda wanted: wanted,
    )
    return [(first, end) for portion in portions for _, first, end in portion.loaded.parts]


async def say(
    broker: Broker,
    member: str,
    *acknowledged: tuple[int, int, Verdict],
    place: TopicPartition = PLACE,
    in_doubt: bool = False,
) -> Exception | None:
    said = {place: [AcknowledgedOffsets(*each) for each in acknowledged]}
    return (await ShareAcks(broker).acknowledge("g", member, said, in_doubt=in_doubt))[place]


def queue_of(broker: Broker) -> PartitionQueue:
    return next(iter(broker.queues.group("g").queues.values()))


def states(broker: Broker, count: int) -> str:
    """One letter a message: Available, In flight, Waiting, Doomed, Settled."""
    window = queue_of(broker).window
    return "".join(window.state(offset).name[0] for offset in range(count))


def test_each_verdict_changes_its_own_range_and_no_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await group_of(broker, 8, "a", "b")
            assert await take(broker, "a", 6) == [(0, 6)]
            assert await take(broker, "b", 9) == [(6, 8)]
            verdicts = [(0, 1, ACK), (2, 2, RELEASE), (4, 4, ACK)]
            assert await say(broker, "a", *verdicts) is None
            assert states(broker, 8) == "SSAISIII"
            assert queue_of(broker).start == 2
            queue_of(broker).check_invariants()
            assert await take(broker, "b", 9) == [(2, 3)]
            assert queue_of(broker).window.count(2) == 2

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "acknowledged",
    [
        [(0, 3, ACK)],
        [(0, 0, ACK), (4, 4, ACK)],
        [(5, 5, RELEASE)],
        [(0, 10**15, REJECT)],
        [(10**15, 10**15, ACK)],
        [(-5, 0, ACK)],
    ],
)
def test_verdicts_on_what_the_member_does_not_have_change_nothing(
    tmp_path: Path, acknowledged: list[tuple[int, int, Verdict]]
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await group_of(broker, 6, "a", "b")
            await take(broker, "a", 3)
            await take(broker, "b", 2)
            assert isinstance(await say(broker, "a", *acknowledged), ForeignReceiptError)
            assert states(broker, 6) == "IIIIIA"

    asyncio.run(scenario())


def test_a_verdict_that_comes_too_late_does_not_count(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            await group_of(broker, 2, "a")
            await take(broker, "a", 2)
            clock.advance(29_000)
            assert await say(broker, "a", (0, 0, EXTEND)) is None
            clock.advance(1000)
            assert isinstance(await say(broker, "a", (1, 1, ACK)), ForeignReceiptError)
            assert await say(broker, "a", (0, 0, ACK)) is None

    asyncio.run(scenario())


def test_there_is_a_bound_on_groups_and_those_that_are_there_stay(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            broker.queues.max_groups = 1
            members = ShareMembers(broker)
            refused = 0
            for number in range(30):  # more than there are shards
                said = ShareHeartbeat(f"g{number}", "me", 0, frozenset({"t"}))
                try:
                    await members.heartbeat(said)
                except TooManyGroupsError:
                    refused += 1
            assert len(list(broker.queues)) == 30 - refused == QUEUE_PARTITIONS

    asyncio.run(scenario())


def test_other_groups_and_topics_are_told_apart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await group_of(broker, 2, "a")
            await broker.create_topic("other", 1)
            for name, expected in (("other", ForeignReceiptError), ("none", UnknownTopicError)):
                place = TopicPartition(name, 0)
                assert isinstance(await say(broker, "a", (0, 0, ACK), place=place), expected)
            with pytest.raises(GroupNotFoundError):
                await ShareAcks(broker).acknowledge("h", "a", {})

    asyncio.run(scenario())


def test_partitions_of_one_request_stand_and_fall_on_their_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await group_of(broker, 2, "a")
            await take(broker, "a", 2)
            said = {
                PLACE: [AcknowledgedOffsets(0, 1, REJECT)],
                TopicPartition("none", 0): [AcknowledgedOffsets(0, 0, ACK)],
            }
            outcomes = await ShareAcks(broker).acknowledge("g", "a", said)
            assert outcomes[PLACE] is None
            assert outcomes[TopicPartition("none", 0)] is not None
            assert queue_of(broker).total(MessageState.IN_FLIGHT) == 0

    asyncio.run(scenario())


def test_what_could_not_be_stored_has_not_happened(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk, clean=False) as broker:
            await group_of(broker, 2, "a")
            await take(broker, "a", 2)
            disk.fail_next("write", errno.EIO)
            with pytest.raises(CoordinatorUnavailableError):
                await say(broker, "a", (0, 1, ACK))
            assert states(broker, 2) == "II"

    asyncio.run(scenario())


def test_nobody_works_off_the_brokers_own_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            with pytest.raises(InternalTopicError):
                await broker.queue_members.join("g", ["__consumer_offsets"], QueueSettings())
            assert broker.queues.find("g") is None

    asyncio.run(scenario())


# --- Sent again, because the answer was lost ------------------------------------------------------


@pytest.mark.parametrize("verdict", [ACK, RELEASE, REJECT])
def test_a_verdict_that_was_stored_counts_when_it_is_sent_again(
    tmp_path: Path, verdict: Verdict
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await group_of(broker, 6, "a", "b")
            await take(broker, "a", 4)
            assert await say(broker, "a", (1, 3, verdict)) is None
            before = states(broker, 6)
            assert await say(broker, "a", (1, 3, verdict), in_doubt=True) is None
            assert states(broker, 6) == before
            assert isinstance(await say(broker, "a", (1, 3, verdict)), ForeignReceiptError)

    asyncio.run(scenario())


def test_a_verdict_that_was_not_stored_is_taken_when_it_is_sent_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await group_of(broker, 4, "a")
            await take(broker, "a", 4)
            assert await say(broker, "a", (0, 2, ACK), in_doubt=True) is None
            assert states(broker, 4) == "SSSI"

    asyncio.run(scenario())


def test_an_ack_in_doubt_does_not_count_for_a_message_that_somebody_else_has(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await group_of(broker, 4, "a", "b")
            await take(broker, "a", 4)
            await ShareMembers(broker).release("g", "a")
            await take(broker, "b", 4)
            refused = await say(broker, "a", (0, 2, ACK), in_doubt=True)
            assert isinstance(refused, ForeignReceiptError)
            assert states(broker, 4) == "IIII"
            assert await say(broker, "a", (0, 2, RELEASE), in_doubt=True) is None
            assert states(broker, 4) == "IIII"  # and stays with whom it is now

    asyncio.run(scenario())


def test_a_session_that_ends_gives_back_what_it_had_of_its_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            for name in ("t", "u"):
                await broker.create_topic(name, 1)
                publish(broker, name, b"x")
            await broker.queues.open("g", QueueSettings())
            await broker.deliverer.acquire(
                QueueMember("g", "a", Mode.SHARED),
                [PLACE, TopicPartition("u", 0)],
                limit=10,
                max_wait_ms=0,
                max_bytes=1 << 20,
                grant=lambda wanted: wanted,
            )
            group = broker.queues.group("g")
            assert group.unacked == {"a": 2}
            key = broker.queues.key(TopicPartition("u", 0))
            await ShareMembers(broker).release("g", "a", [key])
            assert group.unacked == {"a": 1}
            assert group.queues[key].window.state(0) is MessageState.AVAILABLE

    asyncio.run(scenario())
