"""The broker that test suites get is a whole one, is theirs alone, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.request
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from msgspec.structs import replace

from goqueue import Client, ClientSettings
from goqueue.client.errors import LoginError
from goqueue.model.errors import TopicExistsError, UnknownPartitionError, UnknownTopicError
from goqueue.server.config_table import ConfigError
from goqueue.server.errors import DataFolderInUseError, ListenError
from goqueue.testing import AsyncBroker, Broker

if TYPE_CHECKING:
    from pathlib import Path


def is_listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as sock:
        return sock.connect_ex((host, int(port))) == 0


def test_a_broker_serves_all_three_protocols_and_stops_with_its_block() -> None:
    with Broker() as broker:
        addresses = [
            broker.kafka_address,
            broker.http_url.removeprefix("http://"),
            broker.grpc_address,
        ]
        assert all(map(is_listening, addresses))
        with urllib.request.urlopen(f"{broker.http_url}/readyz") as answer:
            assert answer.status == 200
    assert not any(map(is_listening, addresses))


def test_an_unmodified_kafka_client_publishes_and_consumes(goqueue_broker: Broker) -> None:
    topic = goqueue_broker.create_topic()
    producer = Producer({"bootstrap.servers": goqueue_broker.kafka_address})
    producer.produce(topic, b"hello", key=b"k", headers={"a": b"1"})
    assert producer.flush(10) == 0
    (message,) = goqueue_broker.messages(topic)
    assert (message.key, message.value, message.headers) == (b"k", b"hello", {"a": b"1"})
    consumer = Consumer(
        {
            "bootstrap.servers": goqueue_broker.kafka_address,
            "group.id": goqueue_broker.unique_name("group"),
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        polled = consumer.poll(10)
        assert polled is not None
        assert polled.value() == b"hello"
    finally:
        consumer.close()


def test_a_restart_keeps_the_ports_and_every_message() -> None:
    with Broker() as broker:
        topic = broker.create_topic(partitions=3)
        stored = [broker.publish(topic, f"{number}") for number in range(10)]
        before = (broker.kafka_address, broker.http_url, broker.grpc_address)
        broker.restart()
        assert (broker.kafka_address, broker.http_url, broker.grpc_address) == before
        by_place = sorted(stored, key=lambda each: (each.partition, each.offset))
        assert broker.messages(topic) == by_place


def test_between_stop_and_start_nobody_is_there() -> None:
    with Broker() as broker:
        address = broker.kafka_address
        broker.stop()
        assert not broker.is_running
        assert not is_listening(address)
        with pytest.raises(RuntimeError, match="not running"):
            _ = broker.kafka_address
        broker.start()
        assert is_listening(address)
        with pytest.raises(RuntimeError, match="running already"):
            broker.start()


def test_the_temporary_folder_goes_and_one_that_was_given_stays(tmp_path: Path) -> None:
    with Broker() as broker:
        made = broker.data_dir
        assert (made / "goqueue.pid").exists()
    assert not made.exists()
    with Broker(data_dir=tmp_path / "mine") as broker:
        broker.create_topic("kept")
    with Broker(data_dir=tmp_path / "mine") as broker:
        assert broker.topics() == ["kept"]


def test_two_brokers_live_side_by_side_and_share_nothing() -> None:
    with Broker() as one, Broker() as two:
        assert one.kafka_address != two.kafka_address
        one.create_topic("mine")
        assert two.topics() == []


def test_settings_of_the_server_can_be_changed_by_their_names() -> None:
    settings = {"topics.partitions": 5, "topics.auto_create": False, "storage.fsync": "always"}
    with Broker(settings=settings) as broker:
        topic = broker.create_topic(partitions=None)
        broker.publish(topic, b"last", partition=4)
        with pytest.raises(UnknownPartitionError):
            broker.publish(topic, b"none", partition=5)


def test_settings_that_are_secrets_are_settings_like_others() -> None:
    settings = {"sasl.enabled": True, "sasl.users": ["alice:wonderland", "bob:builder"]}
    with Broker(settings=settings) as broker:
        broker.create_topic("guarded")
        bob = ClientSettings(sasl_mechanism="PLAIN", username="bob", password="builder")
        with Client(broker.kafka_address, bob) as client:
            assert [each.name for each in client.topics.list()] == ["guarded"]
        stranger = replace(bob, password="wrong")
        with Client(broker.kafka_address, stranger) as client, pytest.raises(LoginError):
            client.topics.list()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"storage.fsnc": "always"}, r"the nearest is storage\.fsync"),
        ({"topics.partitions": "many"}, r"topics\.partitions .*'many'"),
    ],
)
def test_a_wrong_setting_is_refused_and_nothing_is_left(
    settings: dict[str, object], said: str
) -> None:
    broker = Broker(settings=settings)
    with pytest.raises(ConfigError, match=said), broker:
        pass
    assert not broker.is_running
    assert broker.embedded._made_dir is None


def broker_threads() -> set[threading.Thread]:
    """Those that brokers run on; another broker of this process may start others meanwhile."""
    return {each for each in threading.enumerate() if each.name == "goqueue-broker"}


def test_a_start_that_fails_raises_in_the_test_and_ends_its_thread(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        threads = broker_threads()
        with (
            pytest.raises(ListenError, match=address),
            Broker(settings={"listeners.kafka": address}),
        ):
            pass
        assert broker_threads() <= threads
    with (
        Broker(data_dir=tmp_path),
        pytest.raises(DataFolderInUseError),
        Broker(data_dir=tmp_path),
    ):
        pass


def test_errors_of_the_broker_reach_the_test_as_they_are(goqueue_broker: Broker) -> None:
    topic = goqueue_broker.create_topic()
    with pytest.raises(TopicExistsError):
        goqueue_broker.create_topic(topic)
    with pytest.raises(UnknownTopicError):
        goqueue_broker.publish("nowhere", b"x")
    with pytest.raises(UnknownTopicError):
        goqueue_broker.messages("nowhere")


def test_more_messages_than_one_read_holds_are_all_returned(goqueue_broker: Broker) -> None:
    topic = goqueue_broker.create_topic()
    producer = Producer({"bootstrap.servers": goqueue_broker.kafka_address})
    for number in range(2500):
        producer.produce(topic, str(number).encode())
    assert producer.flush(10) == 0
    values = [int(each.value or b"") for each in goqueue_broker.messages(topic)]
    assert values == list(range(2500))


@pytest.mark.parametrize("stem", ["orders", "test_x[a/b c]", "", "ü" * 400, "x" * 400])
def test_unique_names_are_valid_and_never_the_same(goqueue_broker: Broker, stem: str) -> None:
    first, second = goqueue_broker.unique_name(stem), goqueue_broker.unique_name(stem)
    assert first != second
    assert goqueue_broker.create_topic(first) == first


def test_tests_that_await_have_the_same_broker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncBroker(data_dir=tmp_path) as broker:
            topic = await broker.create_topic("t")
            stored = await broker.publish(topic, "hello", key="k", headers={"h": "1"})
            await broker.restart()
            assert await broker.messages(topic) == [stored]
            assert await broker.topics() == ["t"]
            with pytest.raises(TopicExistsError):
                await broker.create_topic("t")
            await broker.delete_topic(topic)
            assert await broker.topics() == []
            address = broker.kafka_address
        assert not is_listening(address)

    asyncio.run(scenario())


def test_the_topic_of_a_test_is_empty_and_its_own(
    goqueue_broker: Broker, goqueue_topic: str
) -> None:
    assert goqueue_topic.startswith("test_the_topic_of_a_test_is_empty_and_its_own-")
    assert goqueue_broker.messages(goqueue_topic) == []
    goqueue_broker.delete_topic(goqueue_topic)  # the fixture does not mind
