"""Receipts at a node that passes them on, while the node that keeps their group is lost."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from goqueue.cluster.records import PartitionKey, PartitionRecord
from goqueue.model.errors import ForwardingBusyError, PeerUnavailableError
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.receipts import Receipt
from goqueue.queues.shards import QUEUE_TOPIC
from support.cluster_brokers import OneOfThree, one_of_three

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

    from goqueue.model.errors import GoQueueError

ACK = Acknowledgement(Verdict.ACK)


class Others:
    """The other nodes, which answer as the test says."""

    def __init__(self, answer: Callable[[int], Awaitable[list[str]]]) -> None:
        self.asked: list[int] = []
        self._answer = answer

    async def ask(self, node_id: int, _api: object, _version: int, **_fields: Any) -> Any:
        self.asked.append(node_id)
        names = await self._answer(node_id)
        outcomes = [SimpleNamespace(error_name=each, message="", is_done=1) for each in names]
        return SimpleNamespace(error_name="", error_message="", outcomes=outcomes)


async def _lead(made: OneOfThree, leader: int | None, epoch: int) -> None:
    topic = made.broker.topics.catalogue.topic(QUEUE_TOPIC)
    record = PartitionRecord((1, 2, 3), (1, 2, 3), leader, epoch)
    await made.put(str(PartitionKey(topic.topic_id, made.broker.queues.shard_number("g"))), record)


def _told(
    folder: Path,
    answer: Callable[[OneOfThree, int], Coroutine[Any, Any, list[str]]],
    max_bytes: int | None = None,
) -> tuple[GoQueueError | None, list[int]]:
    """What becomes of a receipt of a group that node 2 keeps, and which nodes were asked."""

    async def scenario() -> tuple[GoQueueError | None, list[int]]:
        async with one_of_three(folder) as made:
            await made.internal_topic(QUEUE_TOPIC, *[2] * made.broker.groups.shard_count)
            await _lead(made, 2, 4)
            others = Others(lambda node_id: answer(made, node_id))
            made.broker.routes.connect(others)  # type: ignore[arg-type] # only `ask` is used
            if max_bytes is not None:
                made.broker.forwards._max_bytes = max_bytes
            receipt = Receipt("t", 0, 1, 1, 7, made.broker.queues.shard_number("g"))
            (told,) = await made.broker.acknowledger.settle([receipt], ACK)
            assert made.broker.forwards.held_bytes == 0
            return told, others.asked

    return asyncio.run(scenario())


def test_the_node_that_keeps_the_group_next_is_asked_once(tmp_path: Path) -> None:
    async def answer(made: OneOfThree, node_id: int) -> list[str]:
        if node_id == 3:
            return [""]
        await _lead(made, 3, 5)
        raise PeerUnavailableError("it is fenced")

    assert _told(tmp_path, answer) == (None, [2, 3])


def test_a_receipt_that_the_next_node_does_not_know_may_have_counted(tmp_path: Path) -> None:
    async def answer(made: OneOfThree, node_id: int) -> list[str]:
        if node_id == 3:
            return ["UnknownReceiptError"]
        await _lead(made, 3, 5)
        raise PeerUnavailableError("its answer was lost")

    told, asked = _told(tmp_path, answer)
    assert (type(told), str(told)) == (PeerUnavailableError, "its answer was lost")
    assert asked == [2, 3]


def test_nobody_else_is_asked_while_nobody_else_keeps_the_group(tmp_path: Path) -> None:
    async def answer(made: OneOfThree, _node_id: int) -> list[str]:
        await _lead(made, None, 5)
        raise PeerUnavailableError("connection refused")

    told, asked = _told(tmp_path, answer)
    assert isinstance(told, PeerUnavailableError)
    assert asked == [2]


def test_receipts_count_among_the_bytes_that_wait_for_other_nodes(tmp_path: Path) -> None:
    async def answer(_made: OneOfThree, _node_id: int) -> list[str]:
        return [""]

    told, asked = _told(tmp_path / "full", answer, max_bytes=1100)
    assert isinstance(told, ForwardingBusyError)
    assert asked == []
    assert _told(tmp_path / "room", answer, max_bytes=3000) == (None, [2])
