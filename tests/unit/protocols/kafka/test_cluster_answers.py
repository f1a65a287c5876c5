"""What a node of a cluster answers to Kafka's clients, of itself and of what others lead."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.cluster.records import PartitionKey, PartitionRecord
from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.model.errors import CoordinatorLoadingError, NotCoordinatorError
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record, encode
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from support.cluster_brokers import OneOfThree, one_of_three
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

BATCH = encode([Record(0, 1, b"k", b"v")])


def _code(found: Any) -> ErrorCode:
    return ErrorCode(found.error_code)


async def _produce(made: OneOfThree, topic: str, number: int, version: int = 12) -> Any:
    data = [{"index": number, "records": BATCH}]
    return await made.ask(
        ApiKey.PRODUCE,
        version,
        transactional_id=None,
        acks=1,
        timeout=1000,
        topic_data=[{"name": topic, "partition_data": data}],
    )


async def _fetch(made: OneOfThree, topic: Any, number: int, **more: Any) -> Any:
    part = {
        "partition": number,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "log_start_offset": -1,
        "last_fetched_epoch": -1,
        "partition_max_bytes": 1000,
    }
    return await made.ask(
        ApiKey.FETCH,
        16,
        max_wait=0,
        min_bytes=0,
        max_bytes=1000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic_id": topic.topic_id, "partitions": [part]}],
        forgotten_topics_data=[],
        rack_id="",
        **more,
    )


@scenario
async def test_metadata_tells_nodes_leaders_and_the_controller(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (1, 2, 3), (2, 3, 1))
        answer = await made.ask(
            ApiKey.METADATA,
            12,
            topics=[{"name": "t", "topic_id": None}],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [
            (1, "host1", 9091),
            (2, "host2", 9092),
            (3, "host3", 9093),
        ]
        assert answer.controller_id == 2
        first, second = answer.topics[0].partitions
        assert (first.leader_id, first.replica_nodes, first.isr_nodes) == (1, (1, 2, 3), (1, 2, 3))
        assert (second.leader_id, second.replica_nodes) == (2, (2, 3, 1))


@scenario
async def test_a_partition_whose_leader_is_away_has_none(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (2, 1, 3))
        await made.fence(2)
        answer = await made.ask(
            ApiKey.METADATA,
            12,
            topics=[{"name": "t", "topic_id": None}],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        (found,) = answer.topics[0].partitions
        assert _code(found) is ErrorCode.leader_not_available
        assert (found.leader_id, found.offline_replicas) == (-1, (2,))
        assert [each.node_id for each in answer.brokers] == [1, 3]
        assert answer.controller_id == 1, "the controller is away, and this node takes requests"


@pytest.mark.parametrize("is_here", [True, False])
def test_a_produce_to_the_wrong_node_names_the_leader(tmp_path: Path, *, is_here: bool) -> None:
    @scenario
    async def run() -> None:
        async with one_of_three(tmp_path) as made:
            await made.topic("t", (2, 1, 3) if is_here else (2, 3))
            answer = await _produce(made, "t", 0)
            (found,) = answer.responses[0].partition_responses
            assert _code(found) is ErrorCode.not_leader_or_follower
            assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, 0)
            (node,) = answer.node_endpoints
            assert (node.node_id, node.host, node.port) == (2, "host2", 9092)

    run()


@scenario
async def test_a_fetch_from_the_wrong_node_names_the_leader(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        topic = await made.topic("t", (3, 1, 2))
        answer = await _fetch(made, topic, 0)
        (found,) = answer.responses[0].partitions
        assert _code(found) is ErrorCode.not_leader_or_follower
        assert found.current_leader.leader_id == 3
        assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(3, 9093)]


@scenario
async def test_a_fetch_of_a_follower_is_refused_on_a_listener_for_clients(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        topic = await made.topic("t", (1, 2, 3))
        state = {"replica_id": 2, "replica_epoch": 5}
        answer = await _fetch(made, topic, 0, replica_state=state)
        assert _code(answer) is ErrorCode.cluster_authorization_failed
        assert not answer.responses


@scenario
async def test_the_end_of_a_new_leader_is_not_told_before_it_is_known(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        topic = await made.topic("t", (1, 2, 3))
        await _produce(made, "t", 0)
        record = PartitionRecord((1, 2, 3), (1, 2, 3), 1, epoch=2)
        partitions = made.broker.partitions
        await partitions.follow(TopicPartition("t", 0), 2, 1)
        await made.put(f"partitions/{topic.topic_id.hex}/0", record)
        await partitions.lead(TopicPartition("t", 0), 2)

        async def latest(version: int, timestamp: int = -1) -> Any:
            part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
            answer = await made.ask(
                ApiKey.LIST_OFFSETS,
                version,
                replica_id=-1,
                isolation_level=0,
                topics=[{"name": "t", "partitions": [part]}],
            )
            return answer.topics[0].partitions[0]

        assert _code(await latest(7)) is ErrorCode.offset_not_available
        assert _code(await latest(4)) is ErrorCode.leader_not_available
        assert (await latest(7, -2)).offset == 0, "the beginning is known"
        made.commit_all("t")
        assert (await latest(7)).offset == 1


@scenario
async def test_coordinators_are_the_leaders_of_their_partitions(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:

        async def find(*keys: str, kind: int = 0) -> list[Any]:
            answer = await made.ask(
                ApiKey.FIND_COORDINATOR, 4, key_type=kind, coordinator_keys=list(keys)
            )
            return list(answer.coordinators)

        (missing,) = await find("g")
        assert _code(missing) is ErrorCode.coordinator_not_available
        await made.offsets_topic(1, 2, 3, 2)
        for name in ("a", "b", "c", "d", "e", "f"):
            (found,) = await find(name)
            number = made.broker.groups.shard_number(name)
            assert found.node_id == (1, 2, 3, 2)[number]
            assert found.host == f"host{found.node_id}"
        await made.fence(3)
        orphan = next(
            name for name in map(str, range(50)) if made.broker.groups.shard_number(name) == 2
        )
        (found,) = await find(orphan)
        assert _code(found) is ErrorCode.coordinator_not_available


def _group(made: OneOfThree, number: int) -> str:
    names = (f"group-{each}" for each in range(200))
    return next(each for each in names if made.broker.groups.shard_number(each) == number)


def _commit(group_id: str, offset: int = 3) -> CommitRequest:
    return CommitRequest(
        group_id=group_id, offsets=(OffsetToCommit(topic="t", partition=0, offset=offset),)
    )


@scenario
async def test_a_group_is_answered_by_its_coordinator_alone(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (2, 1, 3))
        await made.offsets_topic(1, 2)
        groups = made.broker.groups
        await asyncio.sleep(0)
        elsewhere = _group(made, 1)
        with pytest.raises(NotCoordinatorError):
            await groups.commit(_commit(elsewhere))
        answer = await made.ask(
            ApiKey.OFFSET_FETCH,
            8,
            require_stable=False,
            groups=[{"group_id": elsewhere, "topics": None}],
        )
        assert _code(answer.groups[0]) is ErrorCode.not_coordinator
        answer = await made.ask(
            ApiKey.DESCRIBE_GROUPS, 4, groups=[elsewhere], include_authorized_operations=False
        )
        assert _code(answer.groups[0]) is ErrorCode.not_coordinator
        part = {
            "partition_index": 0,
            "committed_offset": 1,
            "committed_metadata": "",
            "committed_leader_epoch": -1,
        }
        answer = await made.ask(
            ApiKey.OFFSET_COMMIT,
            7,
            group_id=elsewhere,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": "t", "partitions": [part]}, {"name": "none", "partitions": [part]}],
        )
        codes = [_code(topic.partitions[0]) for topic in answer.topics]
        assert codes == [ErrorCode.not_coordinator] * 2


@scenario
async def test_an_offset_is_told_once_it_is_committed(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (2, 1, 3))
        await made.offsets_topic(1)
        groups = made.broker.groups
        await made.loaded("g")
        committing = asyncio.ensure_future(groups.commit(_commit("g")))
        await asyncio.sleep(0)
        asking = asyncio.ensure_future(
            made.ask(
                ApiKey.OFFSET_FETCH,
                8,
                require_stable=False,
                groups=[{"group_id": "g", "topics": None}],
            )
        )
        done, _ = await asyncio.wait((committing, asking), timeout=0.3)
        assert not done, "nothing is told that the followers do not have"
        made.commit_all("__consumer_offsets")
        await committing
        answer = await asking
        (found,) = answer.groups[0].topics[0].partitions
        assert found.committed_offset == 3


@scenario
async def test_a_coordinator_answers_nothing_before_all_it_has_loaded_is_committed(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (2, 1, 3))
        topic = await made.offsets_topic(1)
        await made.loaded("g")
        committing = asyncio.ensure_future(made.broker.groups.commit(_commit("g")))
        await asyncio.sleep(0)
        made.commit_all("__consumer_offsets")
        await committing
        place = TopicPartition(topic.name, 0)
        partitions = made.broker.partitions
        await partitions.follow(place, 2, 1)
        with pytest.raises(NotCoordinatorError):
            made.broker.groups.coordinator("g")
        partition = partitions.replica(place)
        assert partition is not None
        await partitions.lead(place, 2)
        await asyncio.sleep(0.05)
        loaded_at = partition.log_end
        if partition.high_watermark < loaded_at:
            with pytest.raises(CoordinatorLoadingError):
                await made.broker.groups.commit(_commit("g"))
            made.commit_all("__consumer_offsets")
        await made.loaded("g")
        offsets = made.broker.groups.coordinator("g").fetch_offsets("g")
        assert [each.offset for each in offsets.values() if each is not None] == [3]  # type: ignore[union-attr]


@scenario
async def test_replicas_of_new_topics_are_checked_against_the_nodes(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:

        def new(name: str, factor: int = -1, assignments: Any = (), **configs: str) -> Any:
            return {
                "name": name,
                "num_partitions": -1 if assignments else 2,
                "replication_factor": factor,
                "assignments": [
                    {"partition_index": number, "broker_ids": nodes}
                    for number, nodes in enumerate(assignments)
                ],
                "configs": [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()],
            }

        asked = [
            new("plain"),
            new("two", 2),
            new("many", 4),
            new("strict", 2, min_insync_replicas="3"),
            new("chosen", assignments=[(3, 1), (2, 3)]),
            new("unknown", assignments=[(1, 9)]),
            new("twice", assignments=[(1, 1)]),
        ]
        answer = await made.ask(
            ApiKey.CREATE_TOPICS, 7, topics=asked, timeout_ms=1000, validate_only=False
        )
        assert [_code(each) for each in answer.topics] == [
            ErrorCode.none,
            ErrorCode.none,
            ErrorCode.invalid_replication_factor,
            ErrorCode.invalid_config,
            ErrorCode.none,
            ErrorCode.invalid_replica_assignment,
            ErrorCode.invalid_replica_assignment,
        ]
        assert [each.replication_factor for each in answer.topics][:2] == [3, 2]
        assert set(made.broker.topics.catalogue.by_name) == {"plain", "two", "chosen"}
        chosen = made.broker.topics.catalogue.topic("chosen")
        known = made.facts.partition(chosen.topic_id, 0)
        assert (known.leader, tuple(known.replicas)) == (3, (3, 1))


@scenario
async def test_the_preferred_replica_is_elected_from_any_node(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        topic = await made.topic("t", (2, 1, 3), (3, 1, 2))
        await made.place(topic, 0, PartitionRecord((2, 1, 3), (1, 2, 3), 1, epoch=4))
        await made.place(topic, 1, PartitionRecord((3, 1, 2), (1, 2), 1, epoch=4))

        async def elect(*numbers: int, kind: int = 0) -> list[ErrorCode]:
            answer = await made.ask(
                ApiKey.ELECT_LEADERS,
                2,
                election_type=kind,
                timeout_ms=1000,
                topic_partitions=[{"topic": "t", "partitions": list(numbers)}],
            )
            return [_code(each) for each in answer.replica_election_results[0].partition_result]

        assert await elect(1) == [ErrorCode.preferred_leader_not_available]
        assert await elect(0, 7) == [ErrorCode.none, ErrorCode.unknown_topic_or_partition]
        await made.keeper.reached((await made.store.status()).revision)
        known = made.facts.partition(topic.topic_id, 0)
        assert (known.leader, known.epoch) == (2, 5)
        assert await elect(0) == [ErrorCode.election_not_needed]
        assert await elect(0, kind=1) == [ErrorCode.election_not_needed]


@scenario
async def test_records_are_deleted_once_the_followers_have_let_them_go(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        topic = await made.topic("t", (1, 2, 3))
        await _produce(made, "t", 0)
        made.commit_all("t")
        has_followed = asyncio.Event()
        waited: list[tuple[int, int]] = []

        async def start_followed(key: PartitionKey, start: int, _wait_s: float) -> None:
            waited.append((key.partition, start))
            await has_followed.wait()

        changes: Any = made.broker.topic_changes
        changes.start_followed = start_followed
        part = {"partition_index": 0, "offset": 1}
        asking = asyncio.ensure_future(
            made.ask(
                ApiKey.DELETE_RECORDS,
                2,
                topics=[{"name": "t", "partitions": [part]}],
                timeout=1000,
            )
        )
        while not waited:  # noqa: ASYNC110 - in the same loop
            await asyncio.sleep(0.001)
        assert not asking.done()
        has_followed.set()
        (found,) = (await asking).topics[0].partitions
        assert (found.low_watermark, waited) == (1, [(0, 1)])
        assert made.broker.partitions.of_topic(topic)[0].log_start == 1
