"""Queue groups in a broker: what is told is stored, what was stored is there after a kill."""

from __future__ import annotations

import asyncio
import errno
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from goqueue.model.delivery import Priority
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    ExpiredReceiptError,
    ForeignReceiptError,
    GroupModeError,
    NonEmptyGroupError,
    UnknownMemberError,
    UnknownReceiptError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.new_messages import NewMessage
from goqueue.queues import shard
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.receipts import Receipt
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.queues.shards import QUEUE_TOPIC
from goqueue.records import Record, encode, peek
from support.brokers import publish, read_all, running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk, SimulatedCrash
from support.waiting import until

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.queues.acquired_batch import Delivery
    from goqueue.queues.members import QueueMember

ACK = Acknowledgement(Verdict.ACK)
NACK = Acknowledgement(Verdict.NACK, "not now")
REJECT = Acknowledgement(Verdict.REJECT, "never")
SHARED = QueueSettings()


async def topic_of(broker: Broker, count: int, **overrides: str) -> None:
    await broker.create_topic("t", 1, overrides)
    if count:
        publish(broker, "t", *(b"%d" % number for number in range(count)))


async def member_of(broker: Broker, settings: QueueSettings = SHARED, **rest: Any) -> QueueMember:
    return await broker.queue_members.join("g", ["t"], settings, **rest)


async def poll(broker: Broker, member: QueueMember, limit: int = 100) -> list[Delivery]:
    return await broker.deliverer.poll(member, limit=limit, max_wait_ms=0)


def offsets(deliveries: list[Delivery]) -> list[int]:
    return [each.record.offset for each in deliveries]


async def settle(
    broker: Broker, deliveries: list[Delivery], acknowledgement: Acknowledgement = ACK
) -> list[Exception | None]:
    return list(
        await broker.acknowledger.settle([each.receipt for each in deliveries], acknowledgement)
    )


async def time_passes(broker: Broker, milliseconds: int) -> None:
    """Move the clock, and let the groups see it."""
    assert isinstance(broker.clock, ManualClock)
    broker.clock.advance(milliseconds)
    for group in list(broker.queues):
        await broker.queues.shard_of(group).tick()


def start(broker: Broker) -> int:
    return next(iter(broker.queues.group("g").queues.values())).start


# --- Handing out ---------------------------------------------------------------------------------


def test_a_message_is_with_one_member_until_its_time_is_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 3)
            first, second = await member_of(broker), await member_of(broker)
            assert offsets(await poll(broker, first, 2)) == [0, 1]
            assert offsets(await poll(broker, second)) == [2]
            assert await poll(broker, second) == []
            await time_passes(broker, 29_999)
            assert await poll(broker, second) == []
            await time_passes(broker, 1)
            again = await poll(broker, second)
            assert offsets(again) == [0, 1, 2]
            assert {each.delivery_count for each in again} == {2}

    asyncio.run(scenario())


def test_what_is_acknowledged_moves_the_committed_offset_as_far_as_it_is_contiguous(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 4)
            member = await member_of(broker)
            taken = await poll(broker, member)
            await settle(broker, [taken[0], taken[2]])
            assert start(broker) == 1
            await settle(broker, [taken[1]])
            assert start(broker) == 3

    asyncio.run(scenario())


def test_a_poll_that_waits_gets_what_is_published_meanwhile(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 0)
            member = await member_of(broker)
            waiting = asyncio.create_task(
                broker.deliverer.poll(member, limit=10, max_wait_ms=60_000)
            )
            await until(lambda: broker.queues.waiters("g"))
            publish(broker, "t", b"news")
            assert offsets(await asyncio.wait_for(waiting, 60)) == [0]

    asyncio.run(scenario())


def test_a_poll_that_is_cancelled_takes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 0)
            member = await member_of(broker)
            waiting = asyncio.create_task(broker.deliverer.poll(member, limit=1, max_wait_ms=9999))
            await until(lambda: broker.queues.waiters("g"))
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
            publish(broker, "t", b"news")
            (taken,) = await poll(broker, member)
            assert taken.delivery_count == 1
            assert len(broker.queues.waiters("g")) == 0

    asyncio.run(scenario())


def test_a_member_with_as_much_as_it_may_have_gets_more_when_it_is_done_with_some(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 10)
            member = await member_of(broker, QueueSettings(max_unacked=4))
            taken = await poll(broker, member)
            assert offsets(taken) == [0, 1, 2, 3]
            waiting = asyncio.create_task(
                broker.deliverer.poll(member, limit=9, max_wait_ms=60_000)
            )
            await until(lambda: broker.queues.waiters("g"))
            assert not waiting.done()
            await settle(broker, taken[:2])
            assert offsets(await asyncio.wait_for(waiting, 60)) == [4, 5]

    asyncio.run(scenario())


def test_the_most_urgent_come_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 0)
            wanted = [Priority.LOW, Priority.NORMAL, Priority.CRITICAL, Priority.HIGH]
            await broker.writer.publish("t", [NewMessage(b"", priority=each) for each in wanted])
            taken = await poll(broker, await member_of(broker))
            assert [each.priority for each in taken] == sorted(wanted)

    asyncio.run(scenario())


def test_retention_takes_messages_out_of_a_queue(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 5)
            member = await member_of(broker)
            taken = await poll(broker, member, 2)
            await broker.delete_records(TopicPartition("t", 0), 4)
            assert offsets(await poll(broker, member)) == [4]
            assert start(broker) == 4
            (error, _) = await settle(broker, taken)
            assert isinstance(error, UnknownReceiptError)

    asyncio.run(scenario())


def test_compacted_offsets_are_passed_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            policy = {"cleanup.policy": "compact", "internal.segment.bytes": "1024"}
            await broker.create_topic("t", 1, policy)
            for number in range(20):
                publish(broker, "t", b"%d" % number + bytes(100), key=b"same")
            publish(broker, "t", b"other", key=b"other")
            await broker.maintenance().compact(TopicPartition("t", 0))
            kept = [each.offset for each in await read_all(broker, "t")]
            assert len(kept) < 21
            taken = await poll(broker, await member_of(broker))
            assert offsets(taken) == kept
            await settle(broker, taken)
            assert start(broker) == 21

    asyncio.run(scenario())


class SteppedClock(ManualClock):
    """A clock that somebody sets, while time passes as ever."""

    set_back_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() - self.set_back_ms


def test_setting_the_clock_back_prolongs_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = SteppedClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            await topic_of(broker, 1)
            member = await member_of(broker)
            taken = await poll(broker, member)
            clock.set_back_ms = 900_000
            await time_passes(broker, 30_000)
            assert isinstance((await settle(broker, taken))[0], ExpiredReceiptError)
            assert offsets(await poll(broker, member)) == [0]

    asyncio.run(scenario())


# --- Verdicts ------------------------------------------------------------------------------------


def test_a_message_that_was_handed_back_waits_longer_each_time_and_dies_in_the_end(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 1)
            member = await member_of(broker)
            for wait_ms in (1000, 2000):
                await settle(broker, await poll(broker, member), NACK)
                await time_passes(broker, wait_ms - 1)
                assert await poll(broker, member) == []
                await time_passes(broker, 1)
            await settle(broker, await poll(broker, member), NACK)
            await until(lambda: "t.dlq" in broker.topics.catalogue.by_name and start(broker) == 1)
            (letter,) = await read_all(broker, "t.dlq")
            said = {name: (value or b"").decode() for name, value in letter.headers}
            assert letter.value == b"0"
            assert said["goqueue-dlq-reason"] == "MAX_RETRIES_EXCEEDED"
            assert said["goqueue-dlq-error"] == "not now"
            assert said["goqueue-dlq-attempts"] == "3"
            assert (said["goqueue-dlq-topic"], said["goqueue-dlq-offset"]) == ("t", "0")
            assert said["goqueue-dlq-first-delivery"] == "1000000"
            assert said["goqueue-dlq-last-delivery"] == "1003000"

    asyncio.run(scenario())


def test_a_receipt_counts_once_for_its_group_and_in_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 3)
            (first, second, third) = await poll(broker, await member_of(broker))
            assert await settle(broker, [first]) == [None]
            assert isinstance((await settle(broker, [first]))[0], UnknownReceiptError)
            forged = second.receipt._replace(nonce=second.nonce ^ 1)
            neighbour = second.receipt._replace(offset=third.record.offset)
            for receipt in (forged, neighbour, Receipt("nowhere", 0, 0, 1, 1)):
                (error,) = await broker.acknowledger.settle([receipt], ACK)
                assert isinstance(error, UnknownReceiptError)
            (error,) = await broker.acknowledger.settle([second.receipt], ACK, group_id="other")
            assert isinstance(error, ForeignReceiptError)
            twice = await settle(broker, [second, second])
            assert twice[0] is None
            assert isinstance(twice[1], UnknownReceiptError)
            await time_passes(broker, 30_000)
            assert isinstance((await settle(broker, [third]))[0], ExpiredReceiptError)

    asyncio.run(scenario())


def test_more_time_for_one_message_is_not_more_time_for_its_neighbours(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 2)
            member = await member_of(broker)
            taken = await poll(broker, member)
            await time_passes(broker, 20_000)
            longer = Acknowledgement(Verdict.EXTEND, delay_ms=60_000)
            assert await settle(broker, [taken[1]], longer) == [None]
            await time_passes(broker, 15_000)
            assert offsets(await poll(broker, member)) == [0]
            assert await settle(broker, [taken[1]]) == [None]

    asyncio.run(scenario())


def test_the_dead_of_a_dead_letter_topic_stay_where_they_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t.dlq", 1)
            publish(broker, "t.dlq", b"letter")
            member = await broker.queue_members.join("g", ["t.dlq"], SHARED)
            await settle(broker, await poll(broker, member), REJECT)
            await until(lambda: start(broker) == 1)
            assert "t.dlq.dlq" not in broker.topics.catalogue.by_name
            assert len(await read_all(broker, "t.dlq")) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("dead_lettered", [True, False])
def test_a_message_that_has_outlived_itself_is_never_handed_out(
    tmp_path: Path, dead_lettered: bool
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 0, **{"goqueue.ttl.dead.letter": str(dead_lettered).lower()})
            messages = [NewMessage(b"short", ttl_ms=100), NewMessage(b"long", ttl_ms=10_000)]
            await broker.writer.publish("t", messages)
            await time_passes(broker, 200)
            taken = await poll(broker, await member_of(broker))
            assert [each.record.value for each in taken] == [b"long"]
            await until(lambda: start(broker) == 1)
            assert ("t.dlq" in broker.topics.catalogue.by_name) is dead_lettered

    asyncio.run(scenario())


# --- Groups and members --------------------------------------------------------------------------


def test_what_a_member_has_goes_to_others_when_it_leaves_or_is_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 2)
            leaver = await member_of(broker)
            lost = await member_of(broker, session_timeout_ms=1000)
            await poll(broker, leaver, 1)
            await poll(broker, lost, 1)
            other = await member_of(broker)
            await broker.queue_members.leave(leaver)
            assert offsets(await poll(broker, other)) == [0]
            await time_passes(broker, 1000)
            assert offsets(await poll(broker, other)) == [1]
            with pytest.raises(UnknownMemberError):
                await poll(broker, lost)

    asyncio.run(scenario())


def test_an_owner_of_partitions_gets_messages_in_order_past_no_retry(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 4)
            member = await member_of(broker, QueueSettings(mode=Mode.EXCLUSIVE))
            taken = await poll(broker, member, 2)
            await settle(broker, taken[:1], NACK)
            assert await poll(broker, member) == []
            await time_passes(broker, 1000)
            assert offsets(await poll(broker, member)) == [0, 2, 3]

    asyncio.run(scenario())


def test_a_group_works_in_one_way(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 1)
            await member_of(broker)
            with pytest.raises(GroupModeError):
                await member_of(broker, QueueSettings(mode=Mode.EXCLUSIVE))
            await broker.memberships.join("readers", ["t"])
            with pytest.raises(GroupModeError):
                await broker.queue_members.join("readers", ["t"], SHARED)

    asyncio.run(scenario())


def test_a_topic_that_is_made_again_is_another_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 2)
            member = await member_of(broker)
            await settle(broker, await poll(broker, member))
            await broker.delete_topic("t")
            await topic_of(broker, 2)
            assert offsets(await poll(broker, member)) == [0, 1]

    asyncio.run(scenario())


def test_a_group_is_reset_and_deleted_only_without_members(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 3)
            member = await member_of(broker)
            await settle(broker, await poll(broker, member))
            with pytest.raises(NonEmptyGroupError):
                await broker.queues.reset("g", {TopicPartition("t", 0): 1})
            with pytest.raises(NonEmptyGroupError):
                await broker.queues.delete("g")
            await broker.queue_members.leave(member)
            await broker.queues.reset("g", {TopicPartition("t", 0): 1})
            member = await member_of(broker)
            assert offsets(await poll(broker, member)) == [1, 2]
            await broker.queue_members.leave(member)
            await broker.queues.delete("g")
            assert broker.queues.find("g") is None

    asyncio.run(scenario())


# --- Surviving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_changes_nothing(tmp_path: Path, clean: bool) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, clean=clean) as broker:
            await topic_of(broker, 6)
            taken = await poll(broker, await member_of(broker), 4)
            await settle(broker, [taken[0]])
            await settle(broker, [taken[1]], NACK)
            await settle(broker, [taken[2]], Acknowledgement(Verdict.EXTEND, delay_ms=60_000))
        async with running_broker(tmp_path, clock=clock) as broker:
            assert start(broker) == 1
            member = await member_of(broker)
            assert offsets(await poll(broker, member)) == [4, 5]
            assert await settle(broker, [taken[3]]) == [None]
            assert isinstance((await settle(broker, [taken[0]]))[0], UnknownReceiptError)
            await time_passes(broker, 1000)
            (again,) = await poll(broker, member)
            assert (again.record.offset, again.delivery_count) == (1, 2)
            await time_passes(broker, 40_000)
            await broker.queue_members.heartbeat(member)
            assert offsets(await poll(broker, member)) == [1, 4, 5]
            await time_passes(broker, 20_000)
            assert offsets(await poll(broker, member)) == [2]

    asyncio.run(scenario())


@pytest.mark.parametrize("group_id", ["g", None])
def test_a_receipt_that_expired_before_a_restart_does_not_pass_for_used(
    tmp_path: Path, group_id: str | None
) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, clean=False) as broker:
            await topic_of(broker, 1)
            (late,) = await poll(broker, await member_of(broker))
            await time_passes(broker, 30_000)
        async with running_broker(tmp_path, clock=clock) as broker:
            (again,) = await poll(broker, await member_of(broker))

            async def refused() -> UnknownReceiptError:
                (error,) = await broker.acknowledger.settle([late.receipt], ACK, group_id=group_id)
                assert isinstance(error, UnknownReceiptError)
                return error

            assert not (await refused()).is_done
            assert await settle(broker, [again]) == [None]
            assert (await refused()).is_done

    asyncio.run(scenario())


def test_nothing_is_handed_out_that_could_not_be_stored(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk) as broker:
            await topic_of(broker, 2)
            member = await member_of(broker)
            taken = await poll(broker, member, 1)
            disk.fail_next("write", errno.EIO)
            with pytest.raises(CoordinatorUnavailableError):
                await poll(broker, member)
            with pytest.raises(CoordinatorUnavailableError):
                await settle(broker, taken)
            number = broker.queues._family.number_of("g")
            await broker.partitions.partition(TopicPartition(QUEUE_TOPIC, number)).recover()
            assert offsets(await poll(broker, member)) == [1]
            assert await settle(broker, taken) == [None]

    asyncio.run(scenario())


@pytest.mark.parametrize("operations", range(12))
def test_a_dead_message_is_buried_once_whenever_the_process_is_killed(
    tmp_path: Path, operations: int
) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            await topic_of(broker, 3)
            await broker.create_topic("t.dlq", 1)
        with suppress(SimulatedCrash, CoordinatorUnavailableError):
            async with running_broker(tmp_path, clock=clock, disk=disk, clean=False) as broker:
                member = await member_of(broker)
                taken = await poll(broker, member)
                await settle(broker, taken[2:])
                disk.crash_after(operations)
                await settle(broker, taken[:2], REJECT)
                await asyncio.sleep(0.02)
        disk.kill()
        async with running_broker(tmp_path, clock=clock) as broker:
            await time_passes(broker, 30_000)
            member = await member_of(broker)
            await settle(broker, await poll(broker, member), REJECT)
            await until(lambda: start(broker) == 3)
            assert [each.value for each in await read_all(broker, "t.dlq")] == [b"0", b"1"]

    asyncio.run(scenario())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 5)),
        st.tuples(st.just("poll"), st.integers(1, 7)),
        st.tuples(st.sampled_from([*Verdict]), st.integers(0, 30)),
        st.tuples(st.just("pass"), st.sampled_from([500, 1000, 5000, 30_000])),
        st.tuples(st.sampled_from(["kill", "stop"]), st.just(0)),
    ),
    max_size=25,
)


class Oracle:
    """What a member remembers of what it was told: nothing that it was told may turn out false."""

    def __init__(self) -> None:
        self.published = 0
        self.done: set[int] = set()
        self.doomed: set[int] = set()
        self.counts: dict[int, int] = {}
        self.held: list[Delivery] = []

    def take(self, taken: list[Delivery]) -> None:
        for each in taken:
            offset = each.record.offset
            assert offset not in self.done, f"{offset} was done with"
            assert offset not in self.doomed, f"{offset} was dead"
            self.counts[offset] = self.counts.get(offset, 0) + 1
            assert each.delivery_count == self.counts[offset]
        self.held += taken

    async def judge(self, broker: Broker, verdict: Verdict, index: int) -> None:
        if not self.held:
            return
        each = self.held[index % len(self.held)]
        (error,) = await settle(broker, [each], Acknowledgement(verdict, "so", None))
        if error is not None:
            assert isinstance(error, ExpiredReceiptError | UnknownReceiptError)
            self.held.remove(each)
            return
        offset = each.record.offset
        assert each.delivery_count == self.counts[offset], f"an old receipt of {offset} counted"
        if verdict is Verdict.ACK:
            self.done.add(offset)
        elif verdict is Verdict.RETURN:
            self.counts[offset] -= 1
        elif verdict is Verdict.REJECT or (
            verdict is not Verdict.EXTEND and each.delivery_count == SHARED.max_deliveries
        ):
            self.doomed.add(offset)
        if verdict is not Verdict.EXTEND:
            self.held.remove(each)


async def life(folder: Path, clock: ManualClock, oracle: Oracle, rest: list[Any]) -> None:
    """Go through the steps, with as many brokers in a row as they ask for."""
    while True:
        clean = next((name == "stop" for name, _ in rest if name in {"stop", "kill"}), True)
        async with running_broker(folder, clock=clock, clean=clean) as broker:
            if "t" not in broker.topics.catalogue.by_name:
                await topic_of(broker, 0)
            member = await member_of(broker, session_timeout_ms=1_000_000_000)
            while rest:
                name, number = rest.pop(0)
                if name in {"kill", "stop"}:
                    break
                await step(broker, member, oracle, name, number)
                for queue in broker.queues.group("g").queues.values():
                    queue.check_invariants()
            else:
                await drain(broker, member, oracle)
                return


async def step(broker: Broker, member: QueueMember, oracle: Oracle, name: str, number: int) -> None:
    if name == "publish":
        publish(broker, "t", *[b"m"] * number)
        oracle.published += number
    elif name == "poll":
        oracle.take(await poll(broker, member, number))
    elif name == "pass":
        await time_passes(broker, number)
    else:
        await oracle.judge(broker, Verdict(name), number)


async def drain(broker: Broker, member: QueueMember, oracle: Oracle) -> None:
    """Process all that is left, and count what there was."""
    for _ in range(4):
        taken = await poll(broker, member, 1000)
        oracle.take(taken)
        await settle(broker, taken)
        oracle.done.update(offsets(taken))
        await time_passes(broker, 44_000)
    await until(lambda: start(broker) == oracle.published)
    letters = await read_all(broker, "t.dlq") if oracle.published > len(oracle.done) else []
    dead = [int(dict(each.headers)["goqueue-dlq-offset"] or b"") for each in letters]
    assert sorted(dead) == sorted(set(dead))
    assert set(dead) | oracle.done == set(range(oracle.published))
    assert oracle.doomed <= set(dead)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_nothing_that_was_told_turns_out_false(
    memory_path: Path, steps: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory(dir=memory_path) as name:
        asyncio.run(life(Path(name), ManualClock(), Oracle(), list(steps)))


# --- Offsets without a message -------------------------------------------------------------------


def test_offsets_without_a_message_are_passed_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            partition = broker.partitions.partition(TopicPartition("t", 0))
            for records in ([], [Record(1, 1000, None, b"v")]):  # the others were delayed
                batch = encode(records, base_offset=0, last_offset_delta=2)
                partition.append(batch, peek(batch))
            member = await member_of(broker)
            deliveries = await poll(broker, member)
            assert offsets(deliveries) == [4]
            assert await settle(broker, deliveries) == [None]
            assert await poll(broker, member) == []
            assert broker.queues.group("g").queues[broker.queues.key(partition.id)].start == 6

    asyncio.run(scenario())


# --- Slices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [False, True], ids=["leases expire", "the member is gone"])
def test_many_leases_are_taken_back_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    monkeypatch.setattr(shard, "LEASES_AT_ONCE", 10)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 100)
            member = await member_of(broker)
            for _ in range(100):
                await poll(broker, member, 1)
            turns = 0

            async def turn() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            turning = asyncio.create_task(turn())
            if leaves:
                await broker.queue_members.leave(member)
            else:
                await time_passes(broker, 30_000)
            turning.cancel()
            assert turns >= 9, "between ten slices"
            assert broker.queues.group("g").unacked == {}
            again = await poll(broker, await member_of(broker))
            assert {each.delivery_count for each in again} == {2}
            assert len(again) == 100

    asyncio.run(scenario())


def test_a_poll_that_is_given_up_while_it_reads_takes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await topic_of(broker, 5)
            member = await member_of(broker)
            reading = asyncio.Event()

            async def never(  # a disk that does not answer
                *_: object, **__: object
            ) -> None:
                reading.set()
                await asyncio.Event().wait()

            load = broker.record_reader.load
            broker.record_reader.load = never  # type: ignore[method-assign]
            polling = asyncio.create_task(poll(broker, member))
            await reading.wait()
            group = broker.queues.group("g")
            assert group.unacked == {}, "nothing is in flight before it is stored"
            other = await member_of(broker)
            broker.record_reader.load = load  # type: ignore[method-assign]
            assert await poll(broker, other) == [], "and nobody else is offered it"
            polling.cancel()
            await asyncio.wait((polling,))
            found = await poll(broker, other)
            assert offsets(found) == [0, 1, 2, 3, 4]
            assert {each.delivery_count for each in found} == {1}

    asyncio.run(scenario())
