"""The schema registry of a node that does not know that another one writes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from goqueue.cluster.records import PartitionKey, PartitionRecord
from goqueue.model.errors import LeaderUnavailableError, RegistryUnavailableError
from goqueue.schemas.service import SCHEMAS_TOPIC
from support.cluster_api import NodeApi
from support.cluster_brokers import one_of_three

if TYPE_CHECKING:
    from pathlib import Path

    from support.cluster_brokers import OneOfThree

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}'


async def _registered(made: OneOfThree) -> NodeApi:
    """This node writes, and has a schema."""
    await made.internal_topic(SCHEMAS_TOPIC, 1)
    api = NodeApi(made)
    async with made.committing(SCHEMAS_TOPIC):
        path = "/subjects/orders/versions"
        while True:
            status, answer = await api.ask("POST", path, {"schema": ORDER})
            if status == 200:
                break
            assert status == 503, answer
            await asyncio.sleep(0.01)
    assert answer["id"] == 1
    return api


def test_the_node_that_writes_says_what_is_there_and_what_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with one_of_three(tmp_path) as made:
            api = await _registered(made)
            status, answer = await api.ask("GET", "/schemas/ids/1")
            assert (status, json.loads(answer["schema"])) == (200, json.loads(ORDER))
            for path in (
                "/schemas/ids/2",
                "/subjects/else/versions",
                "/subjects/orders/versions/9",
            ):
                assert (await api.ask("GET", path))[0] == 404

    asyncio.run(scenario())


def test_a_node_that_has_not_heard_that_another_one_writes_refuses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with one_of_three(tmp_path) as made:
            await _registered(made)
            schemas = made.broker.schemas
            generation = schemas.registry.generation
            assert not await schemas.may_be_stale(generation)
            topic = made.broker.topics.catalogue.topic(SCHEMAS_TOPIC)
            moved = PartitionRecord((2, 1, 3), (2, 1, 3), 2, 4)
            await made.put(str(PartitionKey(topic.topic_id, 0)), moved)
            assert schemas.shard.state.is_led, "it has not given it up yet"
            with pytest.raises(LeaderUnavailableError, match="node 2 leads __schemas-0 now"):
                await schemas.may_be_stale(generation)
            back = PartitionRecord((2, 1, 3), (2, 1, 3), 1, 5)
            await made.put(str(PartitionKey(topic.topic_id, 0)), back)
            with pytest.raises(RegistryUnavailableError):  # it leads anew, and has not loaded
                await schemas.may_be_stale(generation)
            nobody = PartitionRecord((2, 1, 3), (2, 1, 3), None, 6)
            await made.put(str(PartitionKey(topic.topic_id, 0)), nobody)
            with pytest.raises(LeaderUnavailableError, match="no node leads __schemas-0 now"):
                await schemas.may_be_stale(generation)

    asyncio.run(scenario())
