"""Administering groups with the clients' own tools: list, describe, delete, and offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, TopicPartition as PythonPartition
from kafka.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NoError,
    NonEmptyGroupError,
)
from kafka.structs import OffsetAndMetadata

from support import group_wire as wire
from support.groups import FAST_GROUPS, WAIT_S, make_topic
from support.kafka_wire import WireClient
from support.server import ServerProcess, make_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = "t"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("groups") / "data", *FAST_GROUPS).start()
    make_topic(process, TOPIC, 3)
    yield process
    process.close()


@pytest.fixture(scope="module")
def admin(server: ServerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})


@pytest.fixture(scope="module")
def old_admin(server: ServerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=server.kafka_address)
    yield client
    client.close()


def member(server: ServerProcess, group: str, protocol: str) -> Consumer:
    """A consumer that has all partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.kafka_address,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "me",
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    eventually(lambda: consumer.poll(0.05) or len(consumer.assignment()) == 3, "it has them all")
    return consumer


@pytest.fixture(scope="module")
def classic(server: ServerProcess) -> Iterator[str]:
    """A classic group with one member."""
    consumer = member(server, "classic-group", "classic")
    yield "classic-group"
    consumer.close()


@pytest.fixture(scope="module")
def modern(server: ServerProcess) -> Iterator[str]:
    """A KIP-848 group with one member."""
    consumer = member(server, "modern-group", "consumer")
    yield "modern-group"
    consumer.close()


@pytest.fixture
def empty(server: ServerProcess) -> str:
    """A group of offsets only."""
    name = f"empty-{uuid4()}"
    with WireClient(server.kafka_address) as client:
        wire.commit(client, name, TOPIC, 5, metadata="note")
    return name


# --- List and describe --------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type(
    admin: AdminClient, classic: str, modern: str, empty: str
) -> None:
    def listed(**filters: object) -> dict[str, tuple[ConsumerGroupState, ConsumerGroupType]]:
        result = admin.list_consumer_groups(**filters).result(WAIT_S)
        assert not result.errors
        return {each.group_id: (each.state, each.type) for each in result.valid}

    mine = {
        classic: (ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC),
        modern: (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER),
        empty: (ConsumerGroupState.EMPTY, ConsumerGroupType.CLASSIC),
    }
    assert mine.items() <= listed().items()
    assert set(listed(states={ConsumerGroupState.STABLE})) == {classic, modern}
    assert empty in listed(states={ConsumerGroupState.EMPTY})
    assert set(listed(types={ConsumerGroupType.CONSUMER})) == {modern}
    only = listed(states={ConsumerGroupState.STABLE}, types={ConsumerGroupType.CLASSIC})
    assert set(only) == {classic}


def test_kafka_python_lists_them_too(
    old_admin: KafkaAdminClient, classic: str, modern: str, empty: str
) -> None:
    listed = {each["group_id"]: each for each in old_admin.list_groups()}
    assert {classic, modern, empty} <= set(listed)
    assert listed[modern]["group_type"] == "consumer"
    stable = old_admin.list_groups(states_filter=["Stable"], types_filter=["classic"])
    assert [each["group_id"] for each in stable] == [classic]


def test_both_kinds_of_groups_are_described(
    admin: AdminClient, classic: str, modern: str, empty: str
) -> None:
    groups = [classic, modern, empty]
    futures = admin.describe_consumer_groups(groups)
    described = {name: futures[name].result(WAIT_S) for name in groups}
    for name, kind in ((classic, ConsumerGroupType.CLASSIC), (modern, ConsumerGroupType.CONSUMER)):
        group = described[name]
        assert (group.group_id, group.state, group.type) == (name, ConsumerGroupState.STABLE, kind)
        (one,) = group.members
        assert (one.client_id, one.host.lstrip("/")) == ("me", "127.0.0.1")
        places = sorted((each.topic, each.partition) for each in one.assignment.topic_partitions)
        assert places == [(TOPIC, 0), (TOPIC, 1), (TOPIC, 2)]
    assert described[classic].partition_assignor == "range"
    assert described[modern].partition_assignor == "uniform"
    assert described[empty].state == ConsumerGroupState.EMPTY
    assert described[empty].members == []


def test_a_group_that_does_not_exist_is_dead_or_not_found(
    admin: AdminClient, old_admin: KafkaAdminClient
) -> None:
    described = admin.describe_consumer_groups(["nobody"])["nobody"].result(WAIT_S)
    assert described.state == ConsumerGroupState.DEAD
    told = old_admin.describe_groups(["nobody"])["nobody"]
    assert (told["group_state"], GroupIdNotFoundError.__name__ in told["error"]) == ("Dead", True)


# --- Delete -------------------------------------------------------------------------------------


def test_each_group_to_delete_has_its_own_result(
    admin: AdminClient, classic: str, modern: str, empty: str
) -> None:
    futures = admin.delete_consumer_groups([classic, modern, empty, "nobody"])
    assert futures[empty].result(WAIT_S) is None
    for name, code in (
        (classic, KafkaError.NON_EMPTY_GROUP),
        (modern, KafkaError.NON_EMPTY_GROUP),
        ("nobody", KafkaError.GROUP_ID_NOT_FOUND),
    ):
        with pytest.raises(KafkaException) as caught:
            futures[name].result(WAIT_S)
        assert caught.value.args[0].code() == code
    listed = admin.list_consumer_groups().result(WAIT_S)
    assert empty not in [each.group_id for each in listed.valid]


def test_kafka_python_deletes_groups(old_admin: KafkaAdminClient, classic: str, empty: str) -> None:
    assert old_admin.delete_groups([classic, empty, "nobody"]) == {
        classic: NonEmptyGroupError.__name__,
        empty: "OK",
        "nobody": GroupIdNotFoundError.__name__,
    }


# --- Offsets ------------------------------------------------------------------------------------


def test_offsets_of_an_empty_group_are_listed_and_altered(admin: AdminClient, empty: str) -> None:
    def listed() -> dict[int, int]:
        asked = [ConsumerGroupTopicPartitions(empty)]
        found = admin.list_consumer_group_offsets(asked)[empty].result(WAIT_S)
        return {each.partition: each.offset for each in found.topic_partitions}

    assert listed() == {0: 5}
    places = [TopicPartition(TOPIC, 0, 1), TopicPartition(TOPIC, 2, 9)]
    altered = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(empty, places)])
    assert all(each.error is None for each in altered[empty].result(WAIT_S).topic_partitions)
    assert listed() == {0: 1, 2: 9}
    asked = [TopicPartition(TOPIC, 1)]
    some = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(empty, asked)])
    (unknown,) = some[empty].result(WAIT_S).topic_partitions
    assert unknown.offset == OFFSET_INVALID


@pytest.mark.parametrize("kind", ["classic", "modern"])
def test_offsets_of_a_group_in_use_are_not_altered(
    admin: AdminClient, request: pytest.FixtureRequest, kind: str
) -> None:
    group = request.getfixturevalue(kind)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(TOPIC, 0, 1)])
    result = admin.alter_consumer_group_offsets([asked])[group].result(WAIT_S)
    (place,) = result.topic_partitions
    assert place.error.code() == KafkaError.UNKNOWN_MEMBER_ID


def test_kafka_python_lists_alters_and_deletes_offsets(
    old_admin: KafkaAdminClient, classic: str, empty: str
) -> None:
    place = PythonPartition(TOPIC, 0)
    found = old_admin.list_group_offsets([empty])[empty]
    assert {part: (each.offset, each.metadata) for part, each in found.items()} == {
        place: (5, "note")
    }
    altered = old_admin.alter_group_offsets(empty, {place: OffsetAndMetadata(3, "new", -1)})
    assert altered == {place: NoError}
    assert old_admin.list_group_offsets([empty])[empty][place].offset == 3
    assert old_admin.delete_group_offsets(empty, [place]) == {place: NoError}
    with pytest.raises(GroupIdNotFoundError):
        old_admin.delete_group_offsets("nobody", [place])
    in_use = old_admin.delete_group_offsets(classic, [place])
    assert in_use == {place: GroupSubscribedToTopicError}
