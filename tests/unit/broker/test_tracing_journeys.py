"""What is noted of messages of queue groups, whoever has them and however a delivery ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.model.errors import UnknownTraceError
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.new_messages import NewMessage
from goqueue.publishing.requests import PublishRequest
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.queues.members import QueueMember
from goqueue.queues.share.acknowledging import AcknowledgedOffsets, ShareAcks
from goqueue.queues.share.members import ShareHeartbeat, ShareMembers
from goqueue.records import Record, encode
from goqueue.tracing.context import TraceContext
from goqueue.tracing.store import TracingSettings
from support.brokers import publish, read_all, running_broker
from support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.tracing.events import Span

PLACE = TopicPartition("t", 0)


def run(folder: Path, scenario: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
    """Let a scenario have a broker with a topic of ten messages, published in one batch."""

    async def running() -> None:
        async with running_broker(folder) as broker:
            await broker.create_topic("t", 1)
            publish(broker, "t", *(b"%d" % number for number in range(10)))
            await scenario(broker)

    asyncio.run(running())


def later(broker: Broker, milliseconds: int = 1) -> None:
    assert isinstance(broker.clock, ManualClock)
    broker.clock.advance(milliseconds)


async def join(broker: Broker, name: str, **rest: Any) -> QueueMember:
    return await broker.queue_members.join("g", ["t"], QueueSettings(), member_id=name, **rest)


async def spans(broker: Broker, offset: int) -> list[Span]:
    return (await broker.traces.of_message("t", 0, offset)).spans


@pytest.mark.parametrize(
    ("acknowledgement", "event", "error"),
    [
        (Acknowledgement(Verdict.ACK), "consume.acked", ""),
        (Acknowledgement(Verdict.NACK, "not now", 5000), "consume.nacked", "not now"),
        (Acknowledgement(Verdict.RELEASE), "consume.nacked", ""),
        (Acknowledgement(Verdict.RETURN), "consume.nacked", ""),
        (Acknowledgement(Verdict.REJECT, "never"), "consume.rejected", "never"),
        (Acknowledgement(Verdict.EXTEND, "", 9000), "visibility.extended", ""),
    ],
)
def test_what_a_member_says_is_noted_as_its_word(
    tmp_path: Path, acknowledgement: Acknowledgement, event: str, error: str
) -> None:
    async def scenario(broker: Broker) -> None:
        taken = []
        for name in ("first", "second"):
            member = await join(broker, name)
            taken += await broker.deliverer.poll(member, limit=2, max_wait_ms=0)
        later(broker)
        receipts = [each.receipt for each in taken[1:3]]
        assert await broker.acknowledger.settle(receipts, acknowledgement) == [None, None]
        for offset, consumer in ((1, "first"), (2, "second")):
            said = next(each for each in await spans(broker, offset) if each.event == event)
            assert (said.group, said.consumer, said.error) == ("g", consumer, error)
            assert said.delay_ms == acknowledgement.delay_ms
        assert event not in [each.event for each in await spans(broker, 0)]

    run(tmp_path, scenario)


def test_what_is_settled_by_places_in_runs_and_by_commits_names_the_member(
    tmp_path: Path,
) -> None:
    async def scenario(broker: Broker) -> None:
        member = await join(broker, "m")
        (run_, _), *_ = await broker.deliverer.poll_runs(member, limit=4, max_wait_ms=0)
        later(broker)
        assert (
            await broker.acknowledger.settle_runs("g", [(run_, [3])], Acknowledgement(Verdict.ACK))
            == []
        )
        await broker.acknowledger.commit(member, {PLACE: 2})
        for offset in (0, 1, 3):
            *_, last = await spans(broker, offset)
            assert (last.event, last.consumer) == ("consume.acked", "m")
        assert (await spans(broker, 2))[-1].event == "consume.fetched"

    run(tmp_path, scenario)


def test_what_a_share_consumer_says_is_noted(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await broker.queues.open("g", QueueSettings())
        await ShareMembers(broker).heartbeat(ShareHeartbeat("g", "m", 0, frozenset({"t"})))
        await broker.deliverer.acquire(
            QueueMember("g", "m", Mode.SHARED),
            [PLACE],
            limit=6,
            max_wait_ms=0,
            max_bytes=1 << 20,
            grant=lambda wanted: wanted,
        )
        later(broker)
        verdicts = (Verdict.ACK, Verdict.RELEASE, Verdict.REJECT, Verdict.EXTEND)
        acknowledged = [AcknowledgedOffsets(at, at, verdict) for at, verdict in enumerate(verdicts)]
        said = await ShareAcks(broker).acknowledge("g", "m", {PLACE: acknowledged})
        assert said == {PLACE: None}
        expected = ("consume.acked", "consume.nacked", "consume.rejected", "visibility.extended")
        for offset, event in enumerate(expected):
            span = next(each for each in await spans(broker, offset) if each.event == event)
            assert (span.group, span.consumer) == ("g", "m")
        assert (await spans(broker, 5))[-1].event == "consume.fetched"

    run(tmp_path, scenario)


def test_messages_that_are_taken_back_say_from_whom_and_why(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        slow = await join(broker, "slow")
        lost = await join(broker, "lost", session_timeout_ms=5000)
        left = await join(broker, "left")
        for member in (slow, lost, left):
            await broker.deliverer.poll(member, limit=1, max_wait_ms=0)
        later(broker)
        await broker.queue_members.leave(left)
        shard = broker.queues.shard_of(broker.queues.group("g"))
        for wait_ms in (6000, 30_000):
            later(broker, wait_ms)
            await broker.queue_members.heartbeat(slow)
            await shard.tick()
        told = [(await spans(broker, offset))[-1] for offset in range(3)]
        assert {each.event for each in told} == {"visibility.timeout"}
        assert [(each.consumer, each.error) for each in told] == [
            ("slow", "not acknowledged in time"),
            ("lost", "its member is gone"),
            ("left", "its member is gone"),
        ]

    run(tmp_path, scenario)


def test_after_a_restart_every_message_of_a_batch_is_traced_on(tmp_path: Path) -> None:
    async def before(broker: Broker) -> None:
        taken = await broker.deliverer.poll(await join(broker, "m"), limit=10, max_wait_ms=0)
        later(broker)
        receipts = [taken[at].receipt for at in (2, 5)]
        await broker.acknowledger.settle(receipts, Acknowledgement(Verdict.ACK))

    async def after() -> None:
        async with running_broker(tmp_path, clock=ManualClock(2_000_000)) as broker:
            member = await join(broker, "m")
            await broker.queues.shard_of(broker.queues.group("g")).tick()
            taken = await broker.deliverer.poll(member, limit=10, max_wait_ms=0)
            assert len(taken) == 8
            later(broker)
            await broker.acknowledger.settle(
                [each.receipt for each in taken], Acknowledgement(Verdict.ACK)
            )
            for offset in range(10):
                assert (await broker.traces.of_message("t", 0, offset)).status == "completed"

    run(tmp_path, before)
    asyncio.run(after())


def test_what_has_left_the_memory_is_found_in_the_files(tmp_path: Path) -> None:
    own = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")

    async def scenario() -> None:
        async with running_broker(tmp_path, tracing=TracingSettings(ring_spans=3)) as broker:
            await broker.create_topic("t", 1)
            for headers in ((), (("traceparent", own.traceparent),), ()):
                later(broker)
                batch = memoryview(encode([Record(0, 0, None, b"v", headers)]))
                broker.publisher.publish(PublishRequest(PLACE, batch))
            traces = [await broker.traces.of_message("t", 0, offset) for offset in range(3)]
            assert [len(each.spans) for each in traces] == [3, 3, 3]
            assert [each.offset for each in traces] == [0, 1, 2]
            assert traces[1].trace_id == own.trace_id
            for trace in traces:
                assert await broker.traces.get(trace.trace_id) == trace
            for offset in (-1, 3):
                with pytest.raises(UnknownTraceError):
                    await broker.traces.of_message("t", 0, offset)
            with pytest.raises(UnknownTraceError):
                await broker.traces.get(traces[0].trace_id[:16] + "0" * 16)

    asyncio.run(scenario())


def test_a_folder_of_traces_that_is_none_costs_traces_and_no_message(tmp_path: Path) -> None:
    (tmp_path / "traces").write_text("not a folder")

    async def scenario(broker: Broker) -> None:
        assert len(await read_all(broker, "t")) == 10
        assert len(await spans(broker, 9)) == 4
        await broker.traces.flush()
        (exporter,) = broker.traces.stats(0).exporters
        assert (exporter.exported, exporter.dropped) == (0, 4)

    run(tmp_path, scenario)


def test_a_message_that_has_outlived_itself_is_expired(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await broker.create_topic("short", 1)
        await broker.writer.publish("short", [NewMessage(b"x", ttl_ms=1000)])
        member = await broker.queue_members.join("g", ["short"], QueueSettings())
        later(broker, 2000)
        assert await broker.deliverer.poll(member, limit=1, max_wait_ms=0) == []
        trace = await broker.traces.of_message("short", 0, 0)
        assert trace.status == "expired"
        assert trace.spans[-1].event == "delay.expired"
        assert (trace.spans[-1].group, trace.spans[-1].attributes) == ("g", {"reason": "ttl"})

    run(tmp_path, scenario)
