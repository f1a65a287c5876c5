"""Topics that are deleted while their messages are handed out, put away or sent back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.model.errors import GoQueueError
from goqueue.publishing.new_messages import NewMessage
from goqueue.queues.dead_letters.redrive_engine import RedriveRequest, RedriveState
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.settings import QueueSettings
from support.brokers import publish, read_all, running_broker

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker

REJECT = Acknowledgement(Verdict.REJECT, "never")
ALWAYS = {"goqueue.fsync": "always"}


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def reject_all(broker: Broker, topic: str) -> None:
    member = await broker.queue_members.join(f"of-{topic}", [topic], QueueSettings())
    taken = await broker.deliverer.poll(member, limit=100, max_wait_ms=0)
    await broker.acknowledger.settle([each.receipt for each in taken], REJECT)


@pytest.mark.parametrize("wait", range(0, 24, 2))
def test_the_dead_of_others_are_put_away_when_a_topic_goes(tmp_path: Path, wait: int) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            for name in ("t", "u"):
                await broker.create_topic(name, 1)
                await broker.create_topic(f"{name}.dlq", 1, ALWAYS)
                publish(broker, name, b"a message")
            await asyncio.gather(reject_all(broker, "t"), reject_all(broker, "u"))
            await turns(wait)
            await broker.delete_topic("t")
            async with asyncio.timeout(60):
                while not await read_all(broker, "u.dlq"):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)

    asyncio.run(scenario())


@pytest.mark.parametrize("wait", range(0, 24, 2))
@pytest.mark.parametrize("deleted", ["t", "t.dlq"])
def test_a_redrive_whose_topic_goes_ends_and_says_so(
    tmp_path: Path, deleted: str, wait: int
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1, ALWAYS)
            await broker.create_topic("t.dlq", 1)
            publish(broker, "t.dlq", b"one", b"two")
            redrive = broker.redrives.begin(RedriveRequest("t"))
            await turns(wait)
            await broker.delete_topic(deleted)
            assert redrive.task is not None
            await redrive.task
            assert redrive.is_over
            assert redrive.state in (RedriveState.DONE, RedriveState.FAILED)

    asyncio.run(scenario())


@pytest.mark.parametrize("wait", range(0, 12, 2))
def test_a_poll_whose_topic_goes_is_refused_or_gets_what_was_there(
    tmp_path: Path, wait: int
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 3)
            messages = [NewMessage(b"a message", partition=number) for number in range(3)]
            await broker.writer.publish("t", messages)
            member = await broker.queue_members.join("g", ["t"], QueueSettings())
            poll: asyncio.Task[Any] = asyncio.create_task(
                broker.deliverer.poll(member, limit=9, max_wait_ms=0)
            )
            await turns(wait)
            await broker.delete_topic("t")
            told: Any = (await asyncio.gather(poll, return_exceptions=True))[0]
            assert isinstance(told, GoQueueError) or len(told) in (0, 3)

    asyncio.run(scenario())
