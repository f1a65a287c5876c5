"""Partitions that another node leads, as queue groups follow them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from goqueue.model.errors import LeaderUnavailableError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.partition import Isolation
from goqueue.partitions.waiting import Waiter
from goqueue.queues.remote_sources import RemoteSources
from goqueue.queues.sources import QueueSources, starts_at
from goqueue.wire.kafka.error_codes import ErrorCode

PLACE, KEY = TopicPartition("t", 0), (UUID(int=1), 0)


class OtherNode:
    """Another node, which leads the partition once it is told to, and answers what is asked."""

    node_id = 1

    def __init__(self) -> None:
        self.peers = self
        self.leads = False
        self.knows_it = True
        self.is_silent = False
        """Nothing is new: it answers that."""
        self.high_watermark = 0
        self.leader = 2
        self.answer_s = 0.0
        self.replica: object = None
        self.catalogue = SimpleNamespace(require=lambda _: SimpleNamespace(topic_id=KEY[0]))
        self.facts = None

    def find(self, _place: TopicPartition) -> Any:
        return self.replica

    def leader_of(self, _place: TopicPartition) -> int:
        if not self.leads:
            raise LeaderUnavailableError("nobody leads it")
        return self.leader

    async def ask(self, *_: object, partitions: list[dict[str, Any]], **_more: object) -> Any:
        (asked,) = partitions
        high_watermark = self.high_watermark
        await asyncio.sleep(self.answer_s)
        if self.knows_it and asked["high_watermark"] == high_watermark:
            await asyncio.sleep(0.01 if asked["leader_epoch"] >= 0 else 0)
        told = SimpleNamespace(
            topic_id=asked["topic_id"],
            partition_index=asked["partition_index"],
            error_code=ErrorCode.none if self.knows_it else ErrorCode.not_leader_or_follower,
            leader_epoch=5,
            log_start=0,
            high_watermark=high_watermark,
            last_stable=high_watermark,
            lane_runs=b"",
            aborted=b"",
        )
        await asyncio.sleep(0)
        return SimpleNamespace(partitions=[] if self.is_silent else [told])


@pytest.mark.parametrize("high_watermark", [0, 3])
def test_a_source_whose_leader_is_elected_while_somebody_waits_is_followed(
    high_watermark: int,
) -> None:
    async def scenario() -> None:
        node: Any = OtherNode()
        node.high_watermark = high_watermark
        sources = RemoteSources(node, node)
        source = sources.of(PLACE, KEY)
        waiting = asyncio.ensure_future(QueueSources(node, node, sources).known(PLACE))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        node.leads = True
        async with asyncio.timeout(3):  # less than what is waited for a leader that is silent
            await waiting
        assert (source.leader_epoch, source.high_watermark) == (5, high_watermark)
        sources.stop()

    asyncio.run(scenario())


def test_a_node_that_does_not_know_yet_that_it_leads_is_asked_again() -> None:
    async def scenario() -> None:
        node: Any = OtherNode()
        node.leads, node.knows_it = True, False
        sources = RemoteSources(node, node)
        source = sources.of(PLACE, KEY)
        waiting = asyncio.ensure_future(QueueSources(node, node, sources).known(PLACE))
        await asyncio.sleep(0.05)
        node.knows_it = True
        async with asyncio.timeout(3):
            await waiting
        assert source.is_live
        sources.stop()

    asyncio.run(scenario())


def test_a_source_that_is_asked_for_again_does_not_end_the_question_for_it() -> None:
    async def scenario() -> None:
        node: Any = OtherNode()
        node.leads, node.answer_s = True, 0.1
        sources = RemoteSources(node, node)
        async with asyncio.timeout(3):
            while not sources.of(PLACE, KEY).is_live:  # noqa: ASYNC110 - as those who poll do
                await asyncio.sleep(0.01)
        sources.stop()

    asyncio.run(scenario())


def test_a_source_whose_leader_moved_between_two_questions_is_followed_there() -> None:
    async def scenario() -> None:
        node: Any = OtherNode()
        node.leads = True
        sources = RemoteSources(node, node)
        await QueueSources(node, node, sources).known(PLACE)
        node.leader, node.high_watermark = (
            3,
            7,
        )  # which node 2, that was asked before, does not tell
        async with asyncio.timeout(3):
            while sources.of(PLACE, KEY).high_watermark < 7:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        sources.stop()

    asyncio.run(scenario())


def test_a_source_that_this_node_comes_to_lead_is_not_waited_for() -> None:
    async def scenario() -> None:
        node: Any = OtherNode()
        node.leads, node.leader = True, node.node_id
        sources = RemoteSources(node, node)
        waiting = asyncio.ensure_future(QueueSources(node, node, sources).known(PLACE))
        await asyncio.sleep(0.05)
        node.replica = SimpleNamespace(is_leading=True)
        async with asyncio.timeout(3):
            assert await waiting is node.replica
        sources.stop()

    asyncio.run(scenario())


def test_what_was_deleted_is_not_read_while_the_leader_has_not_told() -> None:
    async def scenario() -> None:
        node: Any = OtherNode()
        sources = RemoteSources(node, node)
        source = sources.of(PLACE, KEY)
        starts_at(source, 7)
        starts_at(source, 4)
        assert source.log_start == 7
        sources.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("is_new", [True, False], ids=["news", "nothing new"])
def test_a_source_whose_leader_answers_again_wakes_those_who_passed_it_over(is_new: bool) -> None:
    async def scenario() -> None:
        node: Any = OtherNode()
        node.leads, node.high_watermark = True, 3
        sources = RemoteSources(node, node)
        source = sources.of(PLACE, KEY)
        await QueueSources(node, node, sources).known(PLACE)
        node.is_silent = not is_new
        for isolation in Isolation:
            waiter = Waiter(1)
            source.waiters_for(isolation).add(waiter)
            source.is_live = False
            async with asyncio.timeout(3):
                assert await waiter.wait(30)
            assert source.is_live
        sources.stop()

    asyncio.run(scenario())
