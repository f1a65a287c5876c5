"""What a node of a cluster answers over HTTP about what it has, and what it lets be made."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from goqueue.cluster.records import PartitionRecord
from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.insight.cluster_gauges import FAILOVER
from goqueue.metrics import cluster_names
from goqueue.model.internal_topics import DELAY_STATE, DELAYED
from support.cluster_api import NodeApi
from support.cluster_brokers import OneOfThree, one_of_three
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path


@scenario
async def test_a_topic_is_made_with_as_many_replicas_as_were_asked_for(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        api = NodeApi(made)
        body = {"name": "t", "num_partitions": 3, "replication_factor": 3}
        asking = asyncio.ensure_future(api.ask("POST", "/topics", body))
        while (topic := made.broker.topics.catalogue.by_name.get("t")) is None:  # noqa: ASYNC110 - in the same loop
            await asyncio.sleep(0)
        await made.follow(topic)
        status, answer = await asking
        assert status == 201, answer
        for each in answer["partitions"]:
            assert sorted(each["replicas"]) == [1, 2, 3]
            assert (each["earliest_offset"], each["latest_offset"]) == (0, 0), "its replica is open"


@scenario
async def test_more_replicas_than_nodes_are_refused_and_nothing_is_made(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        api = NodeApi(made)
        for factor in (0, 4):
            body = {"name": "t", "replication_factor": factor}
            status, answer = await api.ask("POST", "/topics", body)
            assert (status, answer["code"]) == (400, "invalid_replication"), answer
            assert answer["detail"] == (
                f"replication factor {factor} in a cluster of 3 nodes: ask for 1 to 3 replicas, "
                "or add nodes"
            )
        assert "t" not in made.broker.topics.catalogue.by_name


async def _uncommitted_offset(made: OneOfThree) -> asyncio.Task[Any]:
    """A commit of offset 3 for group g that no follower has fetched yet."""
    await made.topic("t", (1, 2, 3))
    topic = await made.offsets_topic(1)
    partition = made.broker.partitions.of_topic(topic)[0]
    await made.loaded("g")
    offsets = (OffsetToCommit(topic="t", partition=0, offset=3),)
    request = CommitRequest(group_id="g", offsets=offsets)
    committing = asyncio.ensure_future(made.broker.groups.commit(request))
    while partition.log_end == 0:  # noqa: ASYNC110 - in the same loop
        await asyncio.sleep(0)
    return committing


@scenario
async def test_reads_of_groups_tell_what_is_committed_and_nothing_else(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        committing = await _uncommitted_offset(made)
        api = NodeApi(made)
        paths = ("/groups", "/groups/g", "/groups/g/offsets", "/groups/g/assignment")
        asking = [asyncio.ensure_future(api.ask("GET", path)) for path in paths]
        done, _ = await asyncio.wait(asking, timeout=0.05)
        assert not done, "a follower may never get what they would tell"
        made.commit_all("__consumer_offsets")
        listed, described, offsets, assigned = await asyncio.gather(*asking)
        assert [each["group"] for each in listed[1]["groups"]] == ["g"]
        assert described[1]["offsets"] == offsets[1]["offsets"] == {"t": {"0": 3}}
        assert assigned[0] == 200
        await committing


@scenario
async def test_reads_of_groups_begin_again_when_what_they_saw_is_lost(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        committing = await _uncommitted_offset(made)
        api = NodeApi(made)
        asking = asyncio.ensure_future(api.ask("GET", "/groups/g"))
        await asyncio.wait([asking], timeout=0.05)
        topic = made.broker.topics.catalogue.topic("__consumer_offsets")
        record = PartitionRecord((1, 2, 3), (2, 3), 2, 1)
        await made.place(topic, 0, record)
        status, answer = await asking
        assert (status, answer["code"]) == (503, "not_coordinator"), answer
        await asyncio.gather(committing, return_exceptions=True)


@scenario
async def test_an_election_from_outside_of_the_in_sync_set_is_counted(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        topic = await made.topic("t", (2, 1, 3), (2, 1, 3))
        await made.place(topic, 0, PartitionRecord((2, 1, 3), (2,), None, 1))
        await made.place(topic, 0, PartitionRecord((2, 1, 3), (1,), 1, 2))
        await made.place(topic, 1, PartitionRecord((2, 1, 3), (1, 3), 1, 1))
        values = made.broker.metrics.read().values
        assert values[cluster_names.UNCLEAN_ELECTIONS] == {(): 1}
        assert values[cluster_names.LEADER_ELECTIONS] == {("t", FAILOVER): 2}


@scenario
async def test_a_delayed_id_that_names_no_unit_is_unknown_on_every_node(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.internal_topic(DELAY_STATE, 1, 2)
        await made.internal_topic(DELAYED, 1, 1, 1, 2, 2, 2)
        await made.topic("t", (1, 2, 3))
        status, problem = await NodeApi(made).ask("GET", "/topics/t/delayed/99999")
        assert (status, problem["retriable"]) == (404, False), problem
