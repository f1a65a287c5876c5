"""Streams groups (KIP-1071) in a cluster: their coordinator serves them, other nodes do not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from goqueue.wire.kafka.error_codes import ErrorCode
from support import streams_wire
from support.cluster_brokers import OneOfThree, one_of_three
from support.kafka_wire import WireClient
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

HERE, THERE = 0, 1
"""Partitions of the topic of groups: one is led by this node, one by another."""


def _group(made: OneOfThree, number: int) -> str:
    names = (f"app-{each}" for each in range(200))
    return next(each for each in names if made.broker.groups.shard_number(each) == number)


def _topology(group: str, factor: int) -> dict[str, Any]:
    kept = streams_wire.internal(f"{group}-kept", replicas=factor, cleanup_policy="compact")
    parts = streams_wire.subtopology("0", source_topics=["t"], state_changelog_topics=[kept])
    return {"epoch": 0, "subtopologies": [parts]}


async def _join(made: OneOfThree, group: str, topology: dict[str, Any]) -> Any:
    def call() -> Any:
        with WireClient(made.address) as client:
            return streams_wire.join(client, group, "member-1", topology)

    return await asyncio.to_thread(call)


async def _heartbeat(made: OneOfThree, group: str, epoch: int) -> Any:
    def call() -> Any:
        with WireClient(made.address) as client:
            return streams_wire.heartbeat(client, group, "member-1", epoch)

    return await asyncio.to_thread(call)


async def _describe(made: OneOfThree, group: str) -> Any:
    answer = await made.ask(
        streams_wire.STREAMS_DESCRIBE, 0, group_ids=[group], include_authorized_operations=False
    )
    return answer.groups[0]


@scenario
async def test_a_streams_group_is_served_by_its_coordinator(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (1, 2, 3), (2, 3, 1))
        await made.offsets_topic(1, 2)
        group = _group(made, HERE)
        await made.loaded(group)
        async with made.committing("__consumer_offsets"):
            joined = await _join(made, group, _topology(group, 3))
            assert ErrorCode(joined.error_code) is ErrorCode.none, joined.error_message
            kept = made.broker.topics.catalogue.topic(f"{group}-kept")
            assert kept.replication_factor == 3, "its changelog is replicated as it asks for"
            assert (kept.partition_count, kept.settings.text("cleanup.policy")) == (2, "compact")
            again = await _heartbeat(made, group, joined.member_epoch)
            assert ErrorCode(again.error_code) is ErrorCode.none, again.error_message
            assert again.member_epoch > joined.member_epoch, "it is assigned tasks anew"
            assert "missing" not in str(again.status), "what was missing is there"
            described = await _describe(made, group)
        assert [each.member_id for each in described.members] == ["member-1"]


@scenario
async def test_a_changelog_with_more_replicas_than_nodes_is_told_to_its_application(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (1, 2, 3))
        await made.offsets_topic(1)
        await made.loaded("app")
        async with made.committing("__consumer_offsets"):
            joined = await _join(made, "app", _topology("app", 4))
        (status,) = joined.status
        assert "replication factor 4 in a cluster of 3 nodes" in status.status_detail
        assert "app-kept" not in made.broker.topics.catalogue.by_name


@scenario
async def test_another_node_does_not_answer_for_a_streams_group(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (1, 2, 3))
        await made.offsets_topic(1, 2)
        group = _group(made, THERE)
        joined = await _join(made, group, _topology(group, -1))
        assert ErrorCode(joined.error_code) is ErrorCode.not_coordinator
        beat = await _heartbeat(made, group, 1)
        assert ErrorCode(beat.error_code) is ErrorCode.not_coordinator
        assert ErrorCode((await _describe(made, group)).error_code) is ErrorCode.not_coordinator
        assert f"{group}-kept" not in made.broker.topics.catalogue.by_name


@scenario
async def test_a_heartbeat_is_not_answered_before_its_effect_is_committed(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (1, 2, 3))
        await made.offsets_topic(1)
        await made.loaded("app")
        joining = asyncio.ensure_future(_join(made, "app", _topology("app", -1)))
        done, _ = await asyncio.wait([joining], timeout=0.2)
        assert not done, "another node may become the coordinator without it"
        async with made.committing("__consumer_offsets"):
            assert ErrorCode((await joining).error_code) is ErrorCode.none
