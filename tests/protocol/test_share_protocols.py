"""Share consumers beside the other doors, lanes and lives: one state, whoever looks at it."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import AcknowledgeType, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.groups import make_topic, publish
from support.kafka_wire import WireClient
from support.server import HOST, ServerProcess, make_server
from support.share import DESCRIBE_OFFSETS, WAIT_S, configure, poll, share_consumer, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("share") / "data").start()
    yield process
    process.close()


@pytest.fixture
def group(server: ServerProcess, name: Callable[[str], str]) -> str:
    """The name of a group that reads from the start."""
    made = name("group")
    configure(server, made, auto_offset_reset="earliest")
    return made


def post(server: ServerProcess, path: str, body: dict[str, Any]) -> Any:
    connection = http.client.HTTPConnection(HOST, server.http_port, timeout=WAIT_S)
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read() or b"{}")
        assert response.status < 300, answer
        return answer
    finally:
        connection.close()


def make(server: ServerProcess, topic: str, **settings: str) -> None:
    """A topic of one partition; a setting `a.b` is written `a_b`."""
    admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
    config = {name.replace("_", "."): value for name, value in settings.items()}
    for future in admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values():
        future.result(WAIT_S)


def produce(server: ServerProcess, topic: str, *messages: tuple[str, dict[str, str]]) -> None:
    producer = Producer({"bootstrap.servers": server.kafka_address, "log_level": 0})
    for value, headers in messages:
        producer.produce(topic, value, partition=0, headers=list(headers.items()))
    assert producer.flush(WAIT_S) == 0


def test_urgent_messages_are_acquired_first_and_headers_are_there_to_see(
    server: ServerProcess, group: str, name: Callable[[str], str]
) -> None:
    topic = name("lanes")
    make(server, topic, goqueue_kafka_headers="true")
    produce(
        server,
        topic,
        *((f"normal-{number}", {"n": str(number)}) for number in range(100)),
        *((f"critical-{number}", {"goqueue-priority": "critical"}) for number in range(5)),
    )
    configure(server, group, delivery_count_limit=10)
    with share_consumer(server, group, topic, max_poll_records=5) as consumer:
        first = poll(consumer)
        assert sorted(values(first)) == [f"critical-{number}" for number in range(5)]
        assert dict(first[0].headers()) == {"goqueue-priority": b"critical"}
        assert all(value.startswith("normal") for value in values(poll(consumer)))


def test_a_message_that_has_outlived_itself_is_not_handed_to_a_share_consumer(
    server: ServerProcess, group: str, name: Callable[[str], str]
) -> None:
    topic = name("lives")
    make(server, topic, goqueue_kafka_headers="true")
    produce(server, topic, ("short", {"goqueue-ttl": "1"}), ("long", {"goqueue-ttl": "600000"}))
    time.sleep(0.01)
    with share_consumer(server, group, topic) as consumer:
        assert values(poll(consumer)) == ["long"]


def test_a_delayed_message_comes_when_it_is_due(
    server: ServerProcess, group: str, name: Callable[[str], str]
) -> None:
    topic = name("later")
    make(server, topic)
    with share_consumer(server, group, topic) as consumer:
        poll(consumer, 0.2)
        started = time.time()
        post(server, f"/topics/{topic}/messages", {"messages": [{"value": "now"}]})
        post(
            server,
            f"/topics/{topic}/messages",
            {"messages": [{"value": "later", "delay": "700ms"}]},
        )
        assert values(poll(consumer)) == ["now"]
        assert values(poll(consumer)) == ["later"]
        assert time.time() - started >= 0.7


def test_http_members_and_share_consumers_take_from_the_same_queue(
    server: ServerProcess, group: str, name: Callable[[str], str]
) -> None:
    topic = name("doors")
    make_topic(server, topic, 1)
    joined = post(server, f"/groups/{group}/join", {"topics": [topic], "assignment": "shared"})
    me = joined["member_id"]
    publish(server, topic, ["for-http", "for-share"], 1)
    _, polled = server.get(f"/groups/{group}/poll?member_id={me}&timeout=60s&limit=1")
    (message,) = polled["messages"]
    assert message["offset"] == 0
    with share_consumer(server, group, topic, explicit=True) as consumer:
        (mine,) = poll(consumer)
        assert mine.value() == b"for-share"
        _, shown = server.get(f"/groups/{group}")
        assert len(shown["members"]) == 2
        consumer.acknowledge(mine, AcknowledgeType.RELEASE)
        consumer.commit_sync()
        _, again = server.get(f"/groups/{group}/poll?member_id={me}&timeout=60s")
        (released,) = again["messages"]
        assert (released["offset"], released["delivery_count"]) == (1, 2)
        for each in (message, released):
            post(server, "/messages/ack", {"receipt_handle": each["receipt_handle"]})
        assert poll(consumer, 0.5) == []


def test_only_messages_of_committed_transactions_are_handed_out(
    server: ServerProcess, group: str, name: Callable[[str], str]
) -> None:
    configure(server, group, isolation_level="read_committed")
    topic = name("transactions")
    make(server, topic)
    producer = Producer(
        {"bootstrap.servers": server.kafka_address, "log_level": 0, "transactional.id": topic}
    )
    producer.init_transactions(WAIT_S)
    with share_consumer(server, group, topic) as consumer:
        for value, end in (
            ("aborted", producer.abort_transaction),
            ("committed", producer.commit_transaction),
        ):
            producer.begin_transaction()
            producer.produce(topic, value, partition=0)
            producer.flush(WAIT_S)
            assert poll(consumer, 0.3) == []
            end(WAIT_S)
        assert values(poll(consumer)) == ["committed"]
        assert poll(consumer, 0.3) == []
    with WireClient(server.kafka_address) as client:
        answer = client.call(DESCRIBE_OFFSETS, 1, groups=[{"group_id": group, "topics": None}])
    (place,) = answer.groups[0].topics[0].partitions
    assert place.lag <= 1  # the marker behind the last message, which nobody has asked for yet


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_shared_out_message_by_message(
    server: ServerProcess, group: str, name: Callable[[str], str], codec: str
) -> None:
    topic = name("codecs")
    make(server, topic)
    sent = [f"{number}-{'x' * 100}" for number in range(60)]
    producer = Producer(
        {
            "bootstrap.servers": server.kafka_address,
            "log_level": 0,
            "compression.type": codec,
            "linger.ms": 100,
        }
    )
    for value in sent:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0
    options = {"max_poll_records": 25}
    with (
        share_consumer(server, group, topic, **options) as one,
        share_consumer(server, group, topic, **options) as two,
    ):
        found: list[str] = []
        while len(found) < len(sent):
            for consumer in (one, two):
                found += values(poll(consumer, 1.0))
    assert sorted(found) == sorted(sent)
