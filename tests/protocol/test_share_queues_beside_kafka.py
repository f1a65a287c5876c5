"""Queue groups with our own fields beside share consumers that do not know them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.queues.delivery.receipts import Receipt
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.kafka_schemas import kafka_schema
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.reading import reader_of
from goqueue.wire.kafka.writing import writer_of
from protocol.queue_wire import ACK, QueueWire
from protocol.raw_kafka import RawKafka
from support.groups import FAST_GROUPS, make_topic
from support.http_api import HttpApi
from support.server import ServerProcess, make_server
from support.share import configure, poll, share_consumer, store, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from uuid import UUID

    from goqueue.wire.kafka.reading import Struct

LONG_MS = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("beside") / "data", *FAST_GROUPS).start()
    yield process
    process.close()


@pytest.fixture
def topic(server: ServerProcess, name: Callable[[str], str]) -> str:
    made = name("beside")
    make_topic(server, made, 1)
    return made


@pytest.fixture
def member(server: ServerProcess, topic: str, name: Callable[[str], str]) -> Iterator[QueueWire]:
    made = QueueWire(server, name("group"))
    assert made.join(topic, max_deliveries=5).error_code == 0
    yield made
    made.close()


class Plain:
    """A share consumer that knows Kafka's fields and nothing else."""

    def __init__(self, raw: RawKafka, group: str) -> None:
        self.raw = raw
        self.names = {"group_id": group, "member_id": "plain"}
        self.bodies: list[tuple[ApiKey, int, bytes]] = []

    def ask(self, key: ApiKey, version: int, **fields: Any) -> Struct:
        self.raw.send(key, version, **self.names, **fields)
        _, data = self.raw.next_sender().answer_bytes()
        body = bytes(data[1:])
        self.bodies.append((key, version, body))
        return reader_of(kafka_schema(key, version, "response"))(Cursor(memoryview(body)))

    def heartbeat(self, epoch: int, *topics: str) -> Struct:
        return self.ask(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            1,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=topics or None,
        )

    def fetch(self, version: int, epoch: int, place: tuple[UUID, int]) -> Struct:
        return self.ask(
            ApiKey.SHARE_FETCH,
            version,
            share_session_epoch=epoch,
            max_wait_ms=LONG_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=500,
            batch_size=500,
            share_acquire_mode=0,
            is_renew_ack=False,
            topics=topics_of(place),
            forgotten_topics_data=[],
        )

    def acknowledge(self, version: int, epoch: int, topics: list[dict[str, Any]]) -> Struct:
        return self.ask(
            ApiKey.SHARE_ACKNOWLEDGE,
            version,
            share_session_epoch=epoch,
            is_renew_ack=False,
            topics=topics,
        )


def topics_of(place: tuple[UUID, int], *ranges: tuple[int, int, int]) -> list[dict[str, Any]]:
    partition = {
        "partition_index": place[1],
        "acknowledgement_batches": [
            {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]}
            for first, last, kind in ranges
        ],
    }
    return [{"topic_id": place[0], "partitions": [partition]}]


@pytest.mark.parametrize("version", [1, 2])
def test_who_does_not_send_our_fields_is_answered_in_kafka_s_alone(
    server: ServerProcess, topic: str, member: QueueWire, version: int
) -> None:
    store(server, topic, ["a", "b", "c"])
    (assigned,) = member.join(topic).assignment.topic_partitions
    place = assigned.topic_id, 0
    with RawKafka(server.kafka_port) as raw:
        plain = Plain(raw, member.group)
        assert plain.heartbeat(0, topic).error_code == 0
        assert plain.heartbeat(99).error_code
        found = plain.fetch(version, 0, place).responses[0].partitions[0]
        assert found.acquired_records[0].last_offset == 2
        answer = plain.acknowledge(version, 1, topics_of(place, (0, 0, 1), (1, 1, 2)))
        assert answer.responses[0].partitions[0].error_code == 0
        answer = plain.acknowledge(version, 2, topics_of(place, (0, 0, 1)))
        assert answer.responses[0].partitions[0].error_code
        assert plain.acknowledge(version, 77, topics_of(place, (2, 2, 1))).error_code
        bodies = plain.bodies
    for key, answered, body in bodies:
        schema = kafka_schema(key, answered, "response")
        again = bytearray()
        writer_of(schema)(again, reader_of(schema)(Cursor(memoryview(body))))
        assert bytes(again) == body, "nothing but Kafka's fields, which kio's tables hold"


def test_a_share_consumer_and_a_member_take_from_the_same_messages(
    server: ServerProcess, topic: str, member: QueueWire
) -> None:
    store(server, topic, ["a", "b"])
    (first,) = member.take(max_records=1)
    with share_consumer(server, member.group, topic) as consumer:
        assert values(poll(consumer)) == ["b"]
        consumer.commit_sync()
    member.speaking.close()
    member.fetching.close()
    with share_consumer(server, member.group, topic) as consumer:
        (again,) = poll(consumer)
        assert (again.value(), again.offset()) == (b"a", first.offset)


def test_a_receipt_handle_made_of_what_came_counts_on_every_listener(
    server: ServerProcess, topic: str, member: QueueWire
) -> None:
    store(server, topic, ["a", "b"])
    taken = member.take()
    with closing(HttpApi(server.http_port)) as api:
        for each in taken[:1]:
            receipt = Receipt(topic, 0, each.offset, each.delivery_count, each.nonce)
            api.post("/messages/ack", {"receipt_handle": str(receipt)})
    assert member.settle(ACK, *taken) == {0: "UnknownReceiptError"}


def test_a_broker_that_is_stopped_takes_nothing_from_its_members(tmp_path: Path) -> None:
    server = make_server(tmp_path / "data", *FAST_GROUPS).start()
    try:
        make_topic(server, "t", 1)
        member, other = QueueWire(server, "g", "me"), QueueWire(server, "g", "other")
        member.join("t", visibility_ms=10 * LONG_MS)
        store(server, "t", ["a", "b"])
        taken = member.take()
        fields = member.fetch_fields(max_wait_ms=LONG_MS)
        member.fetching.send(ApiKey.SHARE_FETCH, 2, **fields)
        assert server.restart() is server
        member.close()
        other.close()
        member, other = QueueWire(server, "g", "me"), QueueWire(server, "g", "other")
        other.join("t")
        assert other.take() == []
        assert member.settle(ACK, taken[0]) == {}, "also before it has joined"
        member.join("t")
        assert member.take() == []
        assert member.settle(ACK, taken[1]) == {}
        member.close()
        other.close()
    finally:
        server.close()


def test_a_member_that_is_silent_for_its_session_is_gone_and_its_messages_are_not(
    server: ServerProcess, topic: str, member: QueueWire
) -> None:
    store(server, topic, ["a"])
    other = QueueWire(server, member.group)
    other.join(topic)
    configure(server, member.group, session_timeout_ms=3000, heartbeat_interval_ms=100)
    assert member.join(topic).heartbeat_interval_ms == 100
    (taken,) = member.take(visibility_ms=10 * LONG_MS)
    (again,) = other.take(max_wait_ms=LONG_MS)
    assert (again.offset, again.delivery_count) == (taken.offset, 2)
    assert member.heartbeat().error_name == "UnknownMemberError"
    assert member.settle(ACK, taken) == {0: "ExpiredReceiptError"}
    other.close()
