"""The newer protocol (KIP-848) with librdkafka: patterns, growing topics, changes of protocol."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from support.groups import FAST_GROUPS, WAIT_S, cast, make_topic, publish, share_out
from support.server import ServerProcess, make_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICK: dict[str, Any] = {"topic.metadata.refresh.interval.ms": 300}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("groups") / "data", *FAST_GROUPS).start()
    yield process
    process.close()


@pytest.fixture
def stem() -> str:
    """The beginning of names that no other test uses."""
    return f"s{uuid4().hex[:8]}"


def consumer_of(server: ServerProcess, group: str, protocol: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": server.kafka_address,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **QUICK,
        }
    )


def has(consumer: Consumer, partitions: set[tuple[str, int]]) -> None:
    """Wait until a consumer has exactly these partitions."""

    def are_there() -> bool:
        consumer.poll(0.05)
        return {(each.topic, each.partition) for each in consumer.assignment()} == partitions

    eventually(are_there, f"it has {partitions}")


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_pattern_finds_topics_that_are_there_and_those_that_come_and_go(
    server: ServerProcess, stem: str, protocol: str
) -> None:
    first, second = f"{stem}-one", f"{stem}-two"
    make_topic(server, first, 1)
    make_topic(server, f"not-{stem}", 1)
    consumer = consumer_of(server, stem, protocol)
    consumer.subscribe([f"^{stem}-.*"])
    has(consumer, {(first, 0)})
    make_topic(server, second, 2)
    has(consumer, {(first, 0), (second, 0), (second, 1)})
    admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
    admin.delete_topics([first])[first].result(WAIT_S)
    has(consumer, {(second, 0), (second, 1)})
    consumer.close()


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_new_partitions_are_shared_out(server: ServerProcess, stem: str, protocol: str) -> None:
    make_topic(server, stem, 2)
    settings = {**QUICK, "group.protocol": protocol}
    if protocol == "classic":
        settings |= {"session.timeout.ms": 60_000, "heartbeat.interval.ms": 200}
    with cast() as start:
        members = [start("confluent", server, stem, topics=[stem], **settings) for _ in range(2)]
        share_out(members, stem, 2)
        admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
        for future in admin.create_partitions([NewPartitions(stem, 6)]).values():
            future.result(WAIT_S)
        share_out(members, stem, 6)


def test_an_empty_group_changes_its_protocol_and_back_and_keeps_its_offsets(
    server: ServerProcess, stem: str
) -> None:
    make_topic(server, stem, 1)
    values = [str(number) for number in range(9)]
    publish(server, stem, values, 1)
    read: list[str] = []
    for protocol in ("classic", "consumer", "classic"):
        consumer = consumer_of(server, stem, protocol)
        consumer.subscribe([stem])
        for _ in range(3):
            message = eventually(partial(consumer.poll, 0.1), "a message")
            assert message.error() is None
            read.append(message.value().decode())
        place = TopicPartition(stem, 0, message.offset() + 1)
        (done,) = consumer.commit(offsets=[place], asynchronous=False)
        assert done.error is None
        consumer.close()
    assert read == values


def test_members_that_name_different_topics_get_only_those(
    server: ServerProcess, stem: str
) -> None:
    one, two = f"{stem}-one", f"{stem}-two"
    make_topic(server, one, 2)
    make_topic(server, two, 2)
    settings = {"group.protocol": "consumer"}
    with cast() as start:
        first = start("confluent", server, stem, topics=[one], **settings)
        second = start("confluent", server, stem, topics=[two], **settings)
        share_out([first], one, 2)
        share_out([second], two, 2)
