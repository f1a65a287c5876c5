from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer

if TYPE_CHECKING:
    from support.http_api import HttpApi
    from support.server import ServerProcess


def read(api: HttpApi, topic: str, partition: int = 0, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/topics/{topic}/partitions/{partition}/messages?{query}")
    return found


def values(found: dict[str, Any]) -> list[str]:
    return [message["value"] for message in found["messages"]]


# --- Publishing ----------------------------------------------------------------------------------


def test_each_message_has_a_result_of_its_own(api: HttpApi, topic: str) -> None:
    messages = [
        {"value": "one", "partition": 0},
        {"value": "lost", "partition": 7},
        {"value": "two", "partition": 0},
    ]
    answer = api.ask("POST", f"/topics/{topic}/messages", {"messages": messages})
    first, refused, second = answer.json["results"]
    assert answer.status == 200
    assert (first["status"], first["partition"], first["offset"]) == (200, 0, 0)
    assert (second["status"], second["partition"], second["offset"]) == (200, 0, 1)
    assert (refused["status"], refused["code"]) == (404, "unknown_partition")
    assert refused["field"] == "messages[1].partition"
    assert "offset" not in refused
    assert values(read(api, topic)) == ["one", "two"]


def test_what_is_published_comes_back_with_everything_it_had(api: HttpApi, topic: str) -> None:
    message = {
        "key": "schlüssel",
        "value": '{"a": 1}',
        "partition": 1,
        "timestamp": "2024-02-29T12:00:00.123+01:00",
        "headers": [
            {"name": "a", "value": "1"},
            {"name": "a", "value": None},
            {"name": "b", "value": "/w==", "encoding": "base64"},
        ],
    }
    api.post(f"/topics/{topic}/messages", {"messages": [message]})
    (found,) = read(api, topic, 1)["messages"]
    assert found == {
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp": 1709204400123,
        "key": "schlüssel",
        "value": '{"a": 1}',
        "headers": [
            {"name": "a", "value": "1"},
            {"name": "a", "value": None},
            {"name": "b", "value": "/w==", "encoding": "base64"},
        ],
        "encoding": "text",
        "key_encoding": "text",
        "priority": "normal",
    }


def test_bytes_travel_as_base64_and_text_as_text(api: HttpApi, topic: str) -> None:
    data = bytes(range(256))
    text = base64.b64encode(data).decode()
    messages: list[dict[str, Any]] = [
        {"value": text, "encoding": "base64", "key": text, "key_encoding": "base64"},
        {"value": base64.b64encode("grün".encode()).decode(), "encoding": "base64"},
        {"value": None, "key": "gone"},
        {"value": "", "key": ""},
    ]
    for message in messages:
        message["partition"] = 0
    api.post(f"/topics/{topic}/messages", {"messages": messages})
    binary, umlaut, tombstone, empty = read(api, topic)["messages"]
    assert (binary["value"], binary["encoding"]) == (text, "base64")
    assert (binary["key"], binary["key_encoding"]) == (text, "base64")
    assert (umlaut["value"], umlaut["encoding"]) == ("grün", "text")
    assert (tombstone["value"], tombstone["key"]) == (None, "gone")
    assert (empty["value"], empty["key"]) == ("", "")
    forced = read(api, topic, 0, "encoding=base64")["messages"][1]
    assert (forced["value"], forced["encoding"]) == (
        base64.b64encode("grün".encode()).decode(),
        "base64",
    )


def test_messages_of_a_key_share_a_partition_and_the_others_take_turns(
    api: HttpApi, topic: str
) -> None:
    keyed = api.publish(topic, *map(str, range(10)), key="the same")
    assert len({result["partition"] for result in keyed}) == 1
    assert [result["offset"] for result in keyed] == list(range(10))
    free = api.publish(topic, *map(str, range(10)))
    assert {result["partition"] for result in free} == {0, 1}


@pytest.mark.parametrize("acks", ["all", "leader", "none"])
def test_every_kind_of_acknowledgement_stores_the_message(
    api: HttpApi, topic: str, acks: str
) -> None:
    body = {"messages": [{"value": acks, "partition": 0}], "acks": acks}
    assert api.post(f"/topics/{topic}/messages", body)["results"][0]["status"] == 200
    found = read(api, topic, query="wait=20s")  # of a cluster, replicas may lack it yet
    assert values(found) == [acks]


def test_one_message_that_is_too_large_costs_its_neighbours_nothing(
    api: HttpApi, topic: str
) -> None:
    results = api.publish(topic, "small", "x" * 1_100_000, "small too", partition=0)
    assert [result["status"] for result in results] == [200, 413, 200]
    assert results[1]["code"] == "message_too_large"
    assert values(read(api, topic)) == ["small", "small too"]


def test_a_request_may_be_larger_than_one_batch(api: HttpApi, topic: str) -> None:
    results = api.publish(topic, *["x" * 100_000] * 40, partition=0)
    assert {result["status"] for result in results} == {200}
    assert [result["offset"] for result in results] == list(range(40))


def test_http_and_kafka_clients_read_each_other(
    api: HttpApi, broker: ServerProcess, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka_address})
    producer.produce(topic, b"\xff\x00", key=b"k", partition=0, headers=[("n", b"\xfe")])
    assert producer.flush(30) == 0
    (found,) = read(api, topic)["messages"]
    assert (found["value"], found["encoding"], found["key"]) == ("/wA=", "base64", "k")
    assert found["headers"] == [{"name": "n", "value": "/g==", "encoding": "base64"}]
    api.publish(topic, "from here", partition=0, headers={"source": "web"})
    consumer = Consumer(
        {
            "bootstrap.servers": broker.kafka_address,
            "group.id": f"of-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    got = []
    deadline = time.monotonic() + 60
    while len(got) < 2 and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            got.append(message)
    consumer.close()
    assert [message.value() for message in got] == [b"\xff\x00", b"from here"]
    assert got[1].headers() == [("source", b"web")]


# --- Reading -------------------------------------------------------------------------------------


def test_a_reader_goes_on_where_the_last_answer_ended(api: HttpApi, topic: str) -> None:
    api.publish(topic, *map(str, range(7)), partition=0)
    seen: list[str] = []
    offset = 0
    while True:
        found = read(api, topic, 0, f"offset={offset}&limit=3")
        if not found["messages"]:
            break
        seen += values(found)
        offset = found["next_offset"]
    assert seen == list("0123456")
    assert (offset, found["high_watermark"], found["earliest_offset"]) == (7, 7, 0)


def test_a_reader_may_begin_at_an_end_or_at_a_moment(api: HttpApi, topic: str) -> None:
    for second in range(5):
        api.publish(topic, str(second), partition=0, timestamp=1_700_000_000_000 + second * 1000)
    assert values(read(api, topic, 0, "offset=earliest")) == list("01234")
    assert values(read(api, topic, 0, "offset=latest")) == []
    assert values(read(api, topic, 0, "time=1700000002500")) == ["3", "4"]
    assert values(read(api, topic, 0, "time=2023-11-14T22:13:23Z")) == ["3", "4"]
    assert values(read(api, topic, 0, "time=2030-01-01T00:00:00Z")) == []


def test_a_reader_that_waits_is_woken_by_a_publish(api: HttpApi, topic: str) -> None:
    began = time.monotonic()
    assert read(api, topic, 0, "offset=latest&wait=300ms")["messages"] == []
    assert time.monotonic() - began >= 0.29


def test_an_offset_beyond_the_end_is_out_of_range(api: HttpApi, topic: str) -> None:
    answer = api.ask("GET", f"/topics/{topic}/partitions/0/messages?offset=1")
    assert (answer.status, answer.code, answer.json["field"]) == (
        416,
        "offset_out_of_range",
        "offset",
    )


def test_a_stretch_of_time_is_read_across_partitions_in_its_order(api: HttpApi, topic: str) -> None:
    start = 1_700_000_000_000
    for number in range(20):
        api.publish(topic, str(number), partition=number % 2, timestamp=start + number * 1000)
    seen: list[str] = []
    cursor = f"from_time={start + 3000}&to_time={start + 17_000}"
    query = cursor
    rounds = 0
    while True:
        found = api.get(f"/topics/{topic}/messages?{query}&limit=4")
        seen += values(found)
        rounds += 1
        if found["next"] is None:
            break
        query = f"{cursor}&cursor={found['next']}"
    assert seen == [str(number) for number in range(3, 17)]
    assert rounds >= 4
    one = api.get(f"/topics/{topic}/messages?partition=1")
    assert values(one) == [str(number) for number in range(1, 20, 2)]


def test_a_cursor_of_ones_own_making_is_refused(api: HttpApi, topic: str) -> None:
    for cursor in ("x", "0:1", "0:a-b", ""):
        answer = api.ask("GET", f"/topics/{topic}/messages?cursor={cursor}")
        assert (answer.status, answer.json["field"]) == (400, "cursor")
    assert api.ask("GET", f"/topics/{topic}/messages?cursor=9:0-5").code == "unknown_partition"


def test_only_messages_that_a_reader_gets_are_counted_as_fetched(api: HttpApi, topic: str) -> None:
    api.publish(topic, *(str(number) for number in range(200)), partition=0)

    def consumed() -> float:
        lines = api.metrics().splitlines()
        mark = "goqueue_broker_messages_fetched_total{"
        wanted = (line for line in lines if line.startswith(mark) and f'topic="{topic}"' in line)
        return sum(float(line.rpartition(" ")[2]) for line in wanted)

    for _ in range(3):
        assert len(api.get(f"/topics/{topic}/partitions/0/messages?limit=5")["messages"]) == 5
    assert consumed() == 15
