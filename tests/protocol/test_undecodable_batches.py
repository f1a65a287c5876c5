"""Garbage with a right checksum, sent by a producer: every reader gets the messages around it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from protocol.raw_kafka import RawKafka, make_batch
from support.batches import garbage_batch
from support.http_api import HttpApi
from support.share import configure, open_consumer, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.server import ServerProcess

WAIT_S = 90.0


@pytest.fixture
def api(broker: ServerProcess) -> Iterator[HttpApi]:
    made = HttpApi(broker.http_port)
    yield made
    made.close()


@pytest.fixture
def topic(raw: RawKafka, name: Callable[[str], str]) -> str:
    """A message, ten of which two are messages, and one more message."""
    made = name("garbage")
    raw.create(made)
    for batch in (make_batch(b"before"), garbage_batch(10, good=2), make_batch(b"after")):
        assert raw.produce(made, batch).error_code == 0
    return made


WANTED = ["before", "good 0", "good 1", "after"]


def _letters(api: HttpApi, topic: str) -> list[dict[str, Any]]:
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        answer = api.ask("GET", f"/topics/{topic}/dlq")
        if answer.status == 200 and answer.json["letters"]:
            found: list[dict[str, Any]] = answer.json["letters"]
            return found
        time.sleep(0.05)
    return []


def test_a_queue_group_gets_every_message_and_one_dead_letter(
    api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    group = name("group")
    joined = api.post(f"/groups/{group}/join", {"topics": [topic], "assignment": "shared"})
    member = joined["member_id"]
    path = f"/groups/{group}/poll?timeout=30s&limit=100&member_id={member}"
    seen: list[str] = []
    while len(seen) < len(WANTED):  # a coordinator elsewhere gets them a moment later
        messages = api.get(path)["messages"]
        assert messages, f"{seen} came"
        seen += [each["value"] for each in messages]
    assert seen == WANTED
    (letter,) = _letters(api, topic)
    assert letter["reason"] == "POISON_MESSAGE"
    assert "do not decode" in letter["error"]


def test_a_share_consumer_gets_every_message(
    broker: ServerProcess, topic: str, name: Callable[[str], str]
) -> None:
    group = name("group")
    configure(broker, group, auto_offset_reset="earliest")
    consumer = open_consumer(broker, group, topic)
    try:
        found: list[str] = []
        while len(found) < len(WANTED):
            messages = poll(consumer, WAIT_S)
            assert messages, f"{found} came"
            found += [each.value().decode() for each in messages]
    finally:
        consumer.close()
    assert found == WANTED


def test_messages_are_read_by_offset_and_by_a_log_group_past_garbage(
    api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    found = api.get(f"/topics/{topic}/partitions/0/messages?offset=0&limit=100")
    assert [each["value"] for each in found["messages"]] == WANTED
    group = name("group")
    joined = api.post(f"/groups/{group}/join", {"topics": [topic]})
    path = f"/groups/{group}/poll?timeout=5s&limit=100&member_id={joined['member_id']}"
    seen: list[str] = []
    deadline_s = time.monotonic() + WAIT_S
    while len(seen) < len(WANTED) and time.monotonic() < deadline_s:
        seen += [each["value"] for each in api.get(path)["messages"]]
    assert seen == WANTED
    metrics = api.metrics()
    counts = [
        float(each.rpartition(" ")[2])
        for each in metrics.splitlines()
        if each.startswith("goqueue_storage_damage_found_total") and 'kind="undecodable"' in each
    ]
    assert sum(counts) >= 1


@pytest.mark.parametrize("header", ["goqueue-deliver-at", "goqueue-ttl"])
def test_a_number_of_any_length_in_a_header_is_refused_and_the_connection_stays(
    broker: ServerProcess, raw: RawKafka, name: Callable[[str], str], header: str
) -> None:
    topic = name("digits")
    raw.create(topic, goqueue_kafka_headers="true")
    errors: list[confluent_kafka.KafkaError | None] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.kafka_address, "retries": 0})
    producer.produce(
        topic,
        b"never",
        partition=0,
        headers=[(header, b"9" * 5000)],
        on_delivery=lambda error, _: errors.append(error),
    )
    producer.flush(WAIT_S)
    (error,) = errors
    assert error is not None
    assert error.code() == confluent_kafka.KafkaError.INVALID_RECORD
    producer.produce(topic, b"v", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(WAIT_S)
    assert errors[1] is None


def test_a_ttl_of_any_number_of_digits_does_not_keep_a_queue_group_from_its_messages(
    broker: ServerProcess, api: HttpApi, raw: RawKafka, name: Callable[[str], str]
) -> None:
    topic, group = name("digits"), name("group")
    raw.create(topic, message_ttl_ms="100000")
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.kafka_address})
    producer.produce(topic, b"first", partition=0, headers=[("goqueue-ttl", b"9" * 5000)])
    producer.produce(topic, b"second", partition=0)
    assert producer.flush(WAIT_S) == 0
    joined = api.post(f"/groups/{group}/join", {"topics": [topic], "assignment": "shared"})
    path = f"/groups/{group}/poll?timeout=30s&limit=100&member_id={joined['member_id']}"
    assert [each["value"] for each in api.get(path)["messages"]] == ["first", "second"]
