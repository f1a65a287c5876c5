"""Traces over real sockets: from HTTP, gRPC and Kafka, through everything that can happen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from confluent_kafka import Consumer, Producer

from goqueue import Client
from goqueue.cli.commands.trace import timeline
from goqueue.protocols.http.operations.trace_shapes import TraceOut
from support.http_api import HttpApi
from support.server import start_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.server import ServerProcess

__all__ = ["start_server"]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"
PUBLISHED = ["publish.received", "publish.partitioned", "publish.persisted"]


@pytest.fixture
def traced(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    return start_server("--tracing-sampling", "1")


@pytest.fixture
def api(traced: ServerProcess) -> Iterator[HttpApi]:
    client = HttpApi(traced.http_port)
    yield client
    client.close()


def make(api: HttpApi, topic: str, **settings: Any) -> None:
    api.post("/topics", {"name": topic, "num_partitions": 1, **settings})


def join(api: HttpApi, group: str, topic: str, **fields: Any) -> str:
    body = {"topics": [topic], "assignment": "shared", **fields}
    return str(api.post(f"/groups/{group}/join", body)["member_id"])


def poll(api: HttpApi, group: str, member: str, query: str = "") -> list[dict[str, Any]]:
    path = f"/groups/{group}/poll?member_id={member}&timeout=60s&{query}"
    found: list[dict[str, Any]] = api.get(path)["messages"]
    return found


def settle(api: HttpApi, verb: str, message: dict[str, Any], **fields: Any) -> None:
    api.post(f"/messages/{verb}", {"receipt_handle": message["receipt_handle"], **fields})


def of_message(api: HttpApi, topic: str, offset: int) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/topics/{topic}/partitions/0/messages/{offset}/trace")
    return found


def events(trace: dict[str, Any]) -> list[str]:
    return [span["event"] for span in trace["spans"]]


def redriven(api: HttpApi, topic: str) -> None:
    eventually(lambda: api.get(f"/topics/{topic}/dlq")["letters"])
    answer = api.ask("POST", f"/topics/{topic}/dlq/redrive", {})
    path = f"/redrives/{answer.json['id']}"
    eventually(lambda: api.get(path)["ended_at"])


def test_one_message_through_delay_delivery_timeout_redelivery_and_ack_across_a_restart(
    traced: ServerProcess, api: HttpApi
) -> None:
    make(api, "orders")
    (told,) = api.publish("orders", "pay", delay="300ms", priority="high")
    member = join(api, "billing", "orders")
    (first,) = poll(api, "billing", member, "visibility=400ms")
    offset = first["offset"]  # in a cluster, the message may have kept a place when it was sent
    trace = of_message(api, "orders", offset)
    assert events(trace)[:2] == PUBLISHED[:2]
    is_over = "visibility.timeout" in events(trace)  # on a machine that stood still meanwhile
    assert trace["status"] == ("retrying" if is_over else "in_progress")
    eventually(lambda: "visibility.timeout" in events(of_message(api, "orders", offset)))
    assert of_message(api, "orders", offset)["status"] == "retrying"

    api.close()
    traced.restart()
    again = HttpApi(traced.http_port)
    member = join(again, "billing", "orders")
    (second,) = poll(again, "billing", member)
    settle(again, "ack", second)
    trace = again.get(f"/traces/{trace['trace_id']}")
    assert events(trace) == [
        "publish.received",
        "publish.partitioned",
        "delay.scheduled",
        "delay.ready",
        "consume.fetched",
        "visibility.timeout",
        "consume.fetched",
        "consume.acked",
    ]
    assert trace["status"] == "completed"
    assert (trace["topic"], trace["partition"], trace["offset"]) == ("orders", 0, offset)
    scheduled, fetched = trace["spans"][2], trace["spans"][-2]
    assert scheduled["timestamp"] < scheduled["deliver_at"] == told["deliverAt"]
    assert fetched["consumer_group"] == "billing"
    assert fetched["priority"] == "high"
    assert fetched["attributes"]["attempt"] == "2"
    assert trace["spans"][0]["parent_id"] is None
    assert {span["parent_id"] for span in trace["spans"][1:]} == {trace["spans"][0]["span_id"]}
    (browsed,) = again.get("/topics/orders/search")["messages"]
    assert browsed["trace_id"] == trace["trace_id"]
    found = again.get("/traces/search?topic=orders&consumer_group=billing&status=completed")
    assert [each["trace_id"] for each in found["traces"]] == [trace["trace_id"]]
    again.close()


def test_a_kafka_producers_own_trace_goes_into_the_dead_letters_and_back(
    traced: ServerProcess, api: HttpApi
) -> None:
    make(api, "orders")
    producer = Producer({"bootstrap.servers": traced.kafka_address, "compression.type": "lz4"})
    producer.produce("orders", b"plain" * 50, partition=0)
    producer.produce("orders", b"bad" * 50, headers={"traceparent": TRACEPARENT}, partition=0)
    producer.flush(90)
    member = join(api, "billing", "orders")
    for message in poll(api, "billing", member):
        bad = message["offset"] == 1
        settle(api, "reject" if bad else "ack", message, **({"reason": "torn"} if bad else {}))
    redriven(api, "orders")
    (back,) = poll(api, "billing", member)
    assert TRACEPARENT in json.dumps(back["headers"])
    settle(api, "ack", back)
    trace = api.get(f"/traces/{TRACE}")
    middle = ["consume.fetched", "consume.rejected", "dlq.routed"]
    assert events(trace) == [*PUBLISHED, *middle, *PUBLISHED, "consume.fetched", "consume.acked"]
    assert trace["status"] == "completed"
    assert {span["parent_id"] for span in trace["spans"]} == {SPAN}
    assert len({span["span_id"] for span in trace["spans"]}) == len(trace["spans"])
    dead_lettered = trace["spans"][5]
    assert dead_lettered["error"] == "torn"
    assert dead_lettered["attributes"]["letter"] == "orders.dlq/0/0"
    assert of_message(api, "orders", 0)["status"] == "completed"
    assert of_message(api, "orders", 0)["trace_id"] != TRACE
    assert of_message(api, "orders", back["offset"])["trace_id"] == TRACE


def test_a_message_without_a_trace_of_its_own_keeps_its_trace_over_a_redrive(
    api: HttpApi,
) -> None:
    make(api, "orders")
    api.publish("orders", "bad")
    member = join(api, "billing", "orders")
    (message,) = poll(api, "billing", member)
    settle(api, "reject", message, reason="torn")
    redriven(api, "orders")
    (back,) = poll(api, "billing", member)
    settle(api, "ack", back)
    trace = of_message(api, "orders", message["offset"])
    assert trace["trace_id"] == of_message(api, "orders", back["offset"])["trace_id"]
    assert trace["status"] == "completed"
    assert events(trace).count("publish.persisted") == 2
    assert "dlq.routed" in events(trace)


def test_a_grpc_publishers_trace_is_continued_to_a_queue_of_the_client(
    traced: ServerProcess, api: HttpApi
) -> None:
    make(api, "orders")
    with Client(traced.kafka_address) as client:
        headers = {"traceparent": TRACEPARENT.encode()}
        client.publish("orders", b"one", headers=headers).result(90)
        with client.queue("billing", ["orders"]) as queue:
            message = next(iter(queue))
            assert dict(message.headers)["traceparent"] == TRACEPARENT.encode()
            message.ack()
    trace = eventually(
        lambda: found if (found := api.get(f"/traces/{TRACE}"))["status"] == "completed" else None
    )
    assert events(trace) == [*PUBLISHED, "consume.fetched", "consume.acked"]
    fetched, acked = trace["spans"][-2:]
    assert fetched["consumer"]
    assert (acked["consumer_group"], acked["consumer"]) == ("billing", fetched["consumer"])


def test_of_a_trace_that_a_producer_names_in_every_message_the_first_events_are_shown(
    traced: ServerProcess, api: HttpApi
) -> None:
    make(api, "orders")
    producer = Producer({"bootstrap.servers": traced.kafka_address})
    for _ in range(500):
        producer.produce("orders", b"v", headers={"traceparent": TRACEPARENT}, partition=0)
    producer.flush(20)
    trace = api.get(f"/traces/{TRACE}")
    assert (trace["span_count"], len(trace["spans"])) == (1500, 1000)
    shown, of_one = (
        timeline(msgspec.convert(each, TraceOut)) for each in (trace, of_message(api, "orders", 0))
    )
    assert shown[-1].strip() == "and 500 more"
    assert of_one[-1] == shown[-1]


def test_messages_that_a_log_group_reads_and_commits_are_completed(
    traced: ServerProcess, api: HttpApi
) -> None:
    make(api, "orders")
    producer = Producer({"bootstrap.servers": traced.kafka_address})
    producer.produce("orders", b"one", headers={"traceparent": TRACEPARENT}, partition=0)
    producer.produce("orders", b"two", partition=0)
    producer.flush(90)
    consumer = Consumer(
        {
            "bootstrap.servers": traced.kafka_address,
            "group.id": "g",
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    message = eventually(lambda: consumer.poll(1.0))
    assert message.headers() == [("traceparent", TRACEPARENT.encode())]
    eventually(lambda: consumer.poll(1.0))
    fetched = [each for each in of_message(api, "orders", 1)["spans"] if "fetched" in each["event"]]
    assert [each["consumer"] for each in fetched] == ["reader"]
    assert of_message(api, "orders", 1)["status"] == "pending"
    consumer.commit(asynchronous=False)
    consumer.close()
    for trace in (api.get(f"/traces/{TRACE}"), of_message(api, "orders", 1)):
        assert events(trace)[-2:] == ["consume.fetched", "consume.acked"]
        assert trace["spans"][-1]["consumer_group"] == "g"
        assert trace["status"] == "completed"
    found = api.get("/traces/search?consumer_group=g&status=completed")["traces"]
    rebalances = [events(api.get(f"/traces/{each['trace_id']}")) for each in found]
    assert {"rebalance.start", "rebalance.complete"} in [set(each) for each in rebalances]


def test_messages_that_an_http_member_of_a_log_group_commits_are_completed(api: HttpApi) -> None:
    make(api, "orders")
    api.post("/topics/orders/messages", {"messages": [{"value": "one"}]})
    member = str(
        api.post("/groups/g/join", {"topics": ["orders"], "assignment": "log"})["member_id"]
    )
    assert poll(api, "g", member)
    trace = of_message(api, "orders", 0)
    assert events(trace)[-1] == "consume.fetched"
    assert (trace["spans"][-1]["consumer_group"], trace["status"]) == ("g", "in_progress")
    body = {"member_id": member, "offsets": {"orders": {"0": 1}}}
    api.post("/groups/g/offsets", body)
    assert of_message(api, "orders", 0)["status"] == "completed"


def test_what_else_may_happen_is_noted(api: HttpApi) -> None:
    make(api, "orders")
    api.publish("orders", "a")
    member = join(api, "billing", "orders")
    (message,) = poll(api, "billing", member)
    settle(api, "nack", message, reason="later", delay="0s")
    (message,) = poll(api, "billing", member)
    settle(api, "visibility", message, extension="30s")
    assert events(of_message(api, "orders", 0)) == [
        *PUBLISHED,
        "consume.fetched",
        "consume.nacked",
        "consume.fetched",
        "visibility.extended",
    ]
    assert {each["consumer"] for each in of_message(api, "orders", 0)["spans"][3:]} == {member}
    (waiting,) = api.publish("orders", "never", delay="1h")
    api.ask("DELETE", f"/topics/orders/delayed/0/{waiting['offset']}")
    (cancelled,) = api.get("/traces/search?status=cancelled")["traces"]
    assert cancelled["topic"] == "orders"
    make(api, "gone")
    api.publish("gone", "never", delay="1h")
    api.ask("DELETE", "/topics/gone")
    (expired,) = eventually(lambda: api.get("/traces/search?status=expired")["traces"])
    assert expired["spans"] == 4


def test_topics_say_how_much_of_them_is_traced(api: HttpApi) -> None:
    make(api, "quiet", settings={"goqueue.trace": "0"})
    make(api, "loud", settings={"goqueue.trace": "1"})
    api.publish("quiet", "a")
    api.publish("loud", "a", "b")
    assert api.ask("GET", "/topics/quiet/partitions/0/messages/0/trace").code == "unknown_trace"
    assert len(api.get("/traces/search?topic=loud")["traces"]) == 2
    assert api.get("/traces/search?topic=quiet")["traces"] == []
    answer = api.ask("POST", "/topics", {"name": "x", "settings": {"goqueue.trace": "2"}})
    assert answer.status == 400


def test_traces_are_searched_between_times_in_iso_8601(api: HttpApi) -> None:
    make(api, "dated", settings={"goqueue.trace": "1"})
    api.publish("dated", "a")
    for start, end, count in (
        ("2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z", 1),
        ("2100-01-01T00:00:00Z", "2100-01-02T00:00:00Z", 0),
        ("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z", 0),
    ):
        found = api.get(f"/traces/search?topic=dated&start={start}&end={end}")["traces"]
        assert len(found) == count
    assert api.ask("GET", "/traces/search?start=yesterday").status == 400


def test_unknown_and_hostile_questions_are_answered_politely(api: HttpApi) -> None:
    assert api.ask("GET", f"/traces/{'0' * 32}").code == "unknown_trace"
    assert api.ask("GET", "/traces/%3Cscript%3E").code == "unknown_trace"
    assert api.ask("GET", "/traces/search?status=odd").status == 400
    assert api.ask("GET", "/traces?limit=100000").status == 400
    assert api.ask("GET", "/topics/orders/partitions/0/messages/7/trace").code == "unknown_trace"
    stats = api.get("/traces/stats")
    assert stats["enabled"]
    assert stats["sampling"] == 1
    assert [each["name"] for each in stats["exporters"]] == ["files"]


def test_a_broken_trace_file_is_reported_and_the_others_count(
    traced: ServerProcess, api: HttpApi
) -> None:
    make(api, "orders")
    api.publish("orders", "a")
    trace = of_message(api, "orders", 0)
    api.close()
    traced.stop()
    written = next(file for each in traced.data_dirs for file in (each / "traces").glob("*"))
    assert json.loads(written.read_bytes().splitlines()[0])["event"]
    (written.parent / "traces-2020-01-01-000001.json").write_bytes(b"\x00\xff garbage\n{}\n")
    traced.start()
    assert "skipped 2 lines" in traced.wait_for_line("not trace events")
    again = HttpApi(traced.http_port)
    assert again.get(f"/traces/{trace['trace_id']}") == trace
    again.close()
