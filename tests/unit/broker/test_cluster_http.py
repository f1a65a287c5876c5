"""What a node of a cluster answers over HTTP about what it has, and what it lets be made."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.cluster_api import NodeApi
from support.cluster_brokers import one_of_three
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
