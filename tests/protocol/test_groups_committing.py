"""Committed offsets as the clients see them: notes, simple consumers, resets, fences, deletion."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition as AioPartition
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, TopicPartition as PythonPartition
from kafka.structs import OffsetAndMetadata as PythonOffset

from support import group_wire as wire
from support.groups import FAST_GROUPS, MORTAL_GROUPS, WAIT_S, make_topic, publish
from support.kafka_wire import WireClient
from support.server import ServerProcess, make_server, start_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["start_server"]

MESSAGES = [str(number) for number in range(10)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("groups") / "data", *FAST_GROUPS).start()
    yield process
    process.close()


@pytest.fixture
def topic(server: ServerProcess) -> str:
    """A topic with ten messages in its one partition."""
    name = f"topic-{uuid4()}"
    make_topic(server, name, 1)
    publish(server, name, MESSAGES, 1)
    return name


def consumer_of(server: ServerProcess, group: str, **settings: Any) -> Consumer:
    said = {key.replace("_", "."): value for key, value in settings.items()}
    return Consumer(
        {
            "bootstrap.servers": server.kafka_address,
            "group.id": group,
            "enable.auto.commit": False,
            "log_level": 0,
            **said,
        }
    )


def read(consumer: Consumer, count: int) -> list[str]:
    """The next messages; errors are raised."""
    values: list[str] = []

    def has_all() -> bool:
        message = consumer.poll(0.1)
        if message is not None:
            if message.error() is not None:
                raise KafkaException(message.error())
            values.append(message.value().decode())
        return len(values) >= count

    eventually(has_all, f"{count} messages")
    return values


# --- Commits and fetches ------------------------------------------------------------------------


def test_a_simple_consumer_commits_with_a_note_and_every_client_reads_it_back(
    server: ServerProcess, topic: str
) -> None:
    group = f"simple-{topic}"
    consumer = consumer_of(server, group)
    consumer.assign([TopicPartition(topic, 0, 4)])
    assert read(consumer, 1) == ["4"]
    place = TopicPartition(topic, 0, 5, metadata="wo ich war: ✓")
    (done,) = consumer.commit(offsets=[place], asynchronous=False)
    assert done.error is None
    (found,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
    assert found.offset == 5
    consumer.close()

    old = KafkaConsumer(bootstrap_servers=server.kafka_address, group_id=group)
    noted = old.committed(PythonPartition(topic, 0), metadata=True)
    # librdkafka sends the zero byte that ends a string in C along with it.
    assert (noted.offset, noted.metadata.rstrip("\0")) == (5, "wo ich war: ✓")
    old.commit({PythonPartition(topic, 0): PythonOffset(6, "y así", -1)})
    assert old.committed(PythonPartition(topic, 0), metadata=True).metadata == "y así"
    old.close()

    async def ask() -> int | None:
        consumer = AIOKafkaConsumer(bootstrap_servers=server.kafka_address, group_id=group)
        await consumer.start()
        try:
            return await consumer.committed(AioPartition(topic, 0))
        finally:
            await consumer.stop()

    assert asyncio.run(ask()) == 6


def test_a_partition_that_nobody_has_read_has_no_offset(server: ServerProcess, topic: str) -> None:
    consumer = consumer_of(server, f"new-{topic}")
    (found,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
    assert (found.offset, found.error) == (OFFSET_INVALID, None)
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_had_committed(
    server: ServerProcess, topic: str, protocol: str
) -> None:
    for expected in (MESSAGES[:4], MESSAGES[4:]):
        consumer = consumer_of(
            server, f"on-{topic}", auto_offset_reset="earliest", group_protocol=protocol
        )
        consumer.subscribe([topic])
        assert read(consumer, len(expected))[: len(expected)] == expected
        (done,) = consumer.commit(
            offsets=[TopicPartition(topic, 0, int(expected[-1]) + 1)], asynchronous=False
        )
        assert done.error is None
        consumer.close()


# --- Where to begin -----------------------------------------------------------------------------


def test_a_new_group_begins_at_the_earliest_or_the_latest_message(
    server: ServerProcess, topic: str
) -> None:
    earliest = consumer_of(server, f"first-{topic}", auto_offset_reset="earliest")
    earliest.subscribe([topic])
    assert read(earliest, 10) == MESSAGES
    latest = consumer_of(server, f"last-{topic}", auto_offset_reset="latest")
    latest.subscribe([topic])

    def first_message() -> str | None:
        publish(server, topic, ["new"], 1)  # until one comes after it has looked where the end is
        message = latest.poll(0.1)
        return None if message is None else message.value().decode()

    assert eventually(first_message, "a new message is delivered") == "new"
    earliest.close()
    latest.close()


def test_a_group_that_may_not_choose_is_told_that_it_has_no_offset(
    server: ServerProcess, topic: str
) -> None:
    consumer = consumer_of(server, f"none-{topic}", auto_offset_reset="error")
    consumer.subscribe([topic])
    with pytest.raises(KafkaException) as caught:
        read(consumer, 1)
    assert caught.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET
    consumer.close()


def test_an_offset_beyond_the_log_is_reset(server: ServerProcess, topic: str) -> None:
    group = f"beyond-{topic}"
    consumer = consumer_of(server, group, auto_offset_reset="earliest")
    consumer.commit(offsets=[TopicPartition(topic, 0, 1000)], asynchronous=False)
    consumer.subscribe([topic])
    assert read(consumer, 10) == MESSAGES
    consumer.close()


# --- Fences -------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_was_away_too_long_cannot_commit_over_its_successor(
    start_server: Callable[..., ServerProcess], protocol: str
) -> None:
    """Its group has moved on: what it commits late, by its own generation, is refused."""
    server = start_server(*MORTAL_GROUPS)
    group, topic = "zombies", "t"
    make_topic(server, topic, 1)
    publish(server, topic, MESSAGES, 1)
    with WireClient(server.kafka_address) as zombie:
        if protocol == "classic":
            joined = wire.join_fully(zombie, group, session_ms=3000)
            me, generation = joined.member_id, joined.generation_id
        else:
            joined = wire.consumer_join(zombie, group, [topic], "zombie")
            me, generation = "zombie", joined.member_epoch
        consumer = consumer_of(server, group, auto_offset_reset="earliest", group_protocol=protocol)
        consumer.subscribe([topic])
        assert read(consumer, 10) == MESSAGES
        consumer.commit(offsets=[TopicPartition(topic, 0, 10)], asynchronous=False)
        late = wire.commit(zombie, group, topic, 1, member_id=me, generation=generation)
        assert late.name == "unknown_member_id"
        (found,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
        assert found.offset == 10
        consumer.close()


# --- Forgetting ---------------------------------------------------------------------------------


def test_deleting_a_topic_forgets_its_offsets(server: ServerProcess, topic: str) -> None:
    group = f"forgets-{topic}"
    consumer = consumer_of(server, group)
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
    admin.delete_topics([topic])[topic].result(WAIT_S)
    make_topic(server, topic, 1)
    (found,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
    assert found.offset == OFFSET_INVALID
    consumer.close()


def test_offsets_expire_when_nobody_has_used_them_for_as_long_as_was_asked(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server(*FAST_GROUPS, "--groups-offsets-check-interval", "100ms")
    make_topic(server, "t", 1)
    with WireClient(server.kafka_address) as client:

        def committed(group: str) -> int:
            offset: int = wire.fetch(client, group, "t").topics[0].partitions[0].committed_offset
            return offset

        joined = wire.join_fully(client, "used")
        used = {"member_id": joined.member_id, "generation": joined.generation_id}
        wire.sync(client, "used", joined.member_id, joined.generation_id)
        wire.commit(client, "used", "t", 10, 3, retention_ms=500, **used)
        wire.commit(client, "short", "t", 3, 3, retention_ms=500)
        wire.commit(client, "long", "t", 4, 3, retention_ms=600_000)
        wire.commit(client, "default", "t", 5)
        assert committed("short") == 3
        eventually(lambda: committed("short") == -1, "it expires")
        assert [committed(group) for group in ("used", "long", "default")] == [10, 4, 5]
        listed = client.call(wire.LIST, 5, states_filter=(), types_filter=())
        left = {each.group_id for each in listed.groups}
        assert left == {"used", "long", "default"}, "nothing is left of a group without offsets"
