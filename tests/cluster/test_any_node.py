"""HTTP and gRPC through any node of a cluster: publishing, reading, views, a leader that dies."""

from __future__ import annotations

import json
import threading
import time
from itertools import count, cycle
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import grpc
import pytest

from goqueue.testing import Cluster
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from support.etcd import need_etcd
from support.http_api import HttpApi
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def apis(cluster: Cluster) -> Iterator[dict[int, HttpApi]]:
    made = {node: HttpApi(urlsplit(cluster.http_url(node)).port or 0) for node in NODES}
    yield made
    for each in made.values():
        each.close()


def _publish(api: HttpApi, topic: str, messages: list[dict[str, Any]]) -> list[Any]:
    answer = api.ask("POST", f"/topics/{topic}/messages", {"messages": messages})
    assert answer.status == 200, answer
    results: list[Any] = answer.json["results"]
    assert [each["status"] for each in results] == [200] * len(messages), results
    return results


@pytest.mark.parametrize("replicas", [1, 3])
def test_what_is_published_through_one_node_is_read_through_every_other(
    cluster: Cluster, apis: dict[int, HttpApi], replicas: int
) -> None:
    topic = cluster.unique_name()
    body = {"name": topic, "num_partitions": 6, "replication_factor": replicas}
    assert apis[1].ask("POST", "/topics", body).status == 201
    placed: dict[str, tuple[int, int]] = {}
    keys: dict[str, set[int]] = {f"k{number}": set() for number in range(9)}
    for node, number in zip(cycle(NODES), range(9), strict=False):
        plain = [{"value": f"{number}-{at}"} for at in range(12)]
        keyed = [{"value": f"{number}-{key}", "key": key} for key in keys]
        results = _publish(apis[node], topic, [*plain, *keyed])
        for sent, result in zip([*plain, *keyed], results, strict=True):
            placed[sent["value"]] = result["partition"], result["offset"]
            if "key" in sent:
                keys[sent["key"]].add(result["partition"])
        reader = apis[NODES[(number + 1) % 3]]
        read = reader.get(f"/topics/{topic}/messages?limit=1000")
        assert {each["value"] for each in read["messages"]} == set(placed), "at once"
    assert all(len(found) == 1 for found in keys.values()), "a key has one partition"
    for api in apis.values():
        _check_reads(api, topic, placed)


def _check_reads(api: HttpApi, topic: str, placed: dict[str, tuple[int, int]]) -> None:
    found = {}
    for number in range(6):
        read = api.get(f"/topics/{topic}/partitions/{number}/messages?limit=1000")
        found |= {each["value"]: (number, each["offset"]) for each in read["messages"]}
        assert read["next_offset"] == read["high_watermark"]
        (last,) = api.get(
            f"/topics/{topic}/partitions/{number}/messages?offset={read['next_offset'] - 1}"
        )["messages"]
        assert last == read["messages"][-1]
    assert found == placed
    searched: list[Any] = []
    cursor = ""
    while True:
        page = api.get(f"/topics/{topic}/search?limit=50{cursor}")
        searched += page["messages"]
        if page["complete"]:
            break
        cursor = f"&cursor={page['cursor']}"
    assert {each["value"]: (each["partition"], each["offset"]) for each in searched} == placed
    hits = api.get(f"/topics/{topic}/search?key=k3&key_match=exact&direction=oldest&limit=100")
    assert [each["value"] for each in hits["messages"]] == [f"{n}-k3" for n in range(9)]
    described = api.get(f"/topics/{topic}")
    assert described["total_messages"] == len(placed)
    ends = [each["high_watermark"] for each in described["partitions"]]
    assert ends == [
        max((offset for at, offset in placed.values() if at == number), default=-1) + 1
        for number in range(6)
    ]


def test_a_wait_for_a_message_ends_when_another_node_takes_one_in(
    cluster: Cluster, apis: dict[int, HttpApi]
) -> None:
    topic = cluster.unique_name()
    assert apis[1].ask("POST", "/topics", {"name": topic, "num_partitions": 1}).status == 201
    _publish(apis[2], topic, [{"value": "first"}])
    reader = HttpApi(urlsplit(cluster.http_url(3)).port or 0)
    found: list[Any] = []
    path = f"/topics/{topic}/partitions/0/messages?offset=1&wait=20s"
    thread = threading.Thread(target=lambda: found.append(reader.get(path)))
    thread.start()
    time.sleep(0.2)
    started = time.monotonic()
    _publish(apis[2], topic, [{"value": "second"}])
    thread.join(timeout=20)
    assert time.monotonic() - started < 15
    assert [each["value"] for each in found[0]["messages"]] == ["second"]
    reader.close()


def test_records_are_deleted_through_any_node(cluster: Cluster, apis: dict[int, HttpApi]) -> None:
    topic = cluster.unique_name()
    assert apis[1].ask("POST", "/topics", {"name": topic, "num_partitions": 3}).status == 201
    _publish(apis[1], topic, [{"value": "x", "partition": at % 3} for at in range(30)])
    answer = apis[2].ask("DELETE", f"/topics/{topic}/messages?confirm=true&partition=1&before=4")
    assert (answer.status, answer.json["partitions"][0]["removed"]) == (200, 4), answer
    answer = apis[3].ask("DELETE", f"/topics/{topic}/messages?confirm=true")
    assert answer.status == 200, answer
    for api in apis.values():
        read = api.get(f"/topics/{topic}/messages")
        assert read["messages"] == []


def test_dead_letters_are_traced_and_purged_through_any_node(
    cluster: Cluster, apis: dict[int, HttpApi]
) -> None:
    """Partitions on every node, and one that coordinates the group: so most are led elsewhere."""
    topic, group = cluster.unique_name(), cluster.unique_name()
    assert apis[1].ask("POST", "/topics", {"name": topic, "num_partitions": 3}).status == 201
    results = _publish(apis[1], topic, [{"value": "x", "partition": at} for at in range(3)])
    joining = {"topics": [topic], "assignment": "shared"}
    member = apis[2].post(f"/groups/{group}/join", joining)["member_id"]
    for _ in results:
        path = f"/groups/{group}/poll?member_id={member}&timeout=60s&limit=1"
        (taken,) = apis[3].get(path)["messages"]
        verdict = {"receipt_handle": taken["receipt_handle"], "reason": "no use"}
        apis[1].post("/messages/reject", verdict)
    eventually(lambda: apis[1].get(f"/topics/{topic}/dlq")["total"] == 3)
    for node, placed in zip(NODES, results, strict=True):
        message = f"/topics/{topic}/partitions/{placed['partition']}/messages/{placed['offset']}"
        traces = [api.get(f"{message}/trace") for api in apis.values()]
        events = [each["event"] for each in traces[0]["spans"]]
        assert events[:3] == ["publish.received", "publish.partitioned", "publish.persisted"]
        assert events[3:] == ["consume.fetched", "consume.rejected", "dlq.routed"], node
        assert {each["status"] for each in traces} == {"failed"}
        assert all(each["spans"] == traces[0]["spans"] for each in traces)
    for api in apis.values():
        eventually(lambda: topic in json.dumps(api.get("/overview")["attention"]))  # noqa: B023
    answer = apis[3].ask("DELETE", f"/topics/{topic}/dlq?confirm=true")
    assert (answer.status, answer.json["purged"]) == (200, 3), answer
    assert apis[2].get(f"/topics/{topic}/dlq")["total"] == 0


def test_dead_letters_are_listed_counted_and_deleted_as_soon_as_they_are_stored(
    cluster: Cluster, apis: dict[int, HttpApi]
) -> None:
    """By the node that knows which were redriven, whichever node leads their partitions."""
    topic = cluster.unique_name()
    assert apis[1].ask("POST", "/topics", {"name": topic, "num_partitions": 1}).status == 201
    body = {"name": f"{topic}.dlq", "num_partitions": 3}
    assert apis[1].ask("POST", "/topics", body).status == 201
    for number in range(30):
        letters = [{"value": f"{number}", "partition": at} for at in range(3)]
        _publish(apis[NODES[number % 3]], f"{topic}.dlq", letters)
        page = apis[NODES[(number + 1) % 3]].get(f"/topics/{topic}/dlq?limit=100")
        assert (page["total"], len(page["letters"])) == (3, 3), number
        chosen = {"filter": {"offsets": {f"{at}": [number] for at in range(3)}}}
        assert apis[2].post(f"/topics/{topic}/dlq/delete", chosen)["deleted"] == 3
        (line,) = (each for each in apis[3].get("/dlq")["topics"] if each["topic"] == topic)
        assert (line["total"], line["newest_at"]) == (0, None)


def test_a_topic_is_compacted_wherever_it_is_led(
    cluster: Cluster, apis: dict[int, HttpApi]
) -> None:
    topic = cluster.unique_name()
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": 1024}
    body = {"name": topic, "num_partitions": 3, "settings": settings}
    assert apis[1].ask("POST", "/topics", body).status == 201
    for number in range(20):
        _publish(
            apis[1],
            topic,
            [{"value": f"{number}" + "." * 100, "key": "k", "partition": at} for at in range(3)],
        )
    answer = apis[2].post(f"/admin/topics/{topic}/compact")
    assert [each["partition"] for each in answer["partitions"]] == [0, 1, 2]
    assert all(each["records_after"] < each["records_before"] for each in answer["partitions"])


def test_views_of_all_nodes_come_to_the_same_totals(
    cluster: Cluster, apis: dict[int, HttpApi]
) -> None:
    topic = cluster.unique_name()
    body = {"name": topic, "num_partitions": 3, "replication_factor": 1}
    assert apis[1].ask("POST", "/topics", body).status == 201
    _publish(apis[1], topic, [{"value": "x", "partition": at % 3} for at in range(30)])
    deadline = time.monotonic() + 60
    while True:  # what leaders tell comes once a second
        spans = [api.get("/stats")["topics"][topic]["offset_span"] for api in apis.values()]
        if spans == [30, 30, 30]:
            break
        assert time.monotonic() < deadline, spans
        time.sleep(0.1)


def _object_schema(*fields: str) -> dict[str, str]:
    kinds = {each: {"type": "integer"} for each in fields}
    schema = {"type": "object", "properties": kinds, "required": list(fields)}
    return {"schemaType": "JSON", "schema": json.dumps(schema)}


def _register(
    cluster: Cluster, first: int, subject: str, schema: dict[str, str]
) -> tuple[int, int]:
    """Register by way of a node, or the next while one that writes is being looked for."""
    deadline = time.monotonic() + 60
    while True:
        for node in (*NODES[first - 1 :], *NODES[: first - 1]):
            api = HttpApi(urlsplit(cluster.http_url(node)).port or 0)
            try:
                answer = api.ask("POST", f"/subjects/{subject}/versions", schema)
            except OSError:
                continue  # it was killed
            finally:
                api.close()
            if answer.status == 200:
                return answer.json["id"], answer.json["version"]
            assert answer.status == 503, answer
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_schema_is_registered_once_and_readable_at_once_on_every_node(
    cluster: Cluster, apis: dict[int, HttpApi]
) -> None:
    for number in range(10):
        subject = f"{cluster.unique_name()}-value"
        schema = _object_schema("a", f"b{number}")
        found: list[tuple[int, int]] = []

        def register(node: int) -> None:
            found.append(_register(cluster, node, subject, schema))  # noqa: B023 - joined below

        threads = [threading.Thread(target=register, args=(node,)) for node in (2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found[0] == found[1], "registered once"
        schema_id, version = found[0]
        for api in apis.values():
            stored = json.loads(api.get(f"/schemas/ids/{schema_id}")["schema"])
            assert stored == json.loads(schema["schema"])
            latest = api.get(f"/subjects/{subject}/versions/latest")
            assert (latest["id"], latest["version"]) == (schema_id, version)


def test_messages_are_held_against_a_schema_at_once_wherever_they_come_in(
    cluster: Cluster, apis: dict[int, HttpApi]
) -> None:
    for number in range(3):
        topic = cluster.unique_name()
        settings = {"goqueue.schema.validation": "latest"}
        body = {"name": topic, "num_partitions": 3, "settings": settings}
        assert apis[1].ask("POST", "/topics", body).status == 201
        _register(cluster, number + 1, f"{topic}-value", _object_schema("f"))
        fits, misfit = json.dumps({"f": 1}), json.dumps({"f": "no number"})
        for api in apis.values():
            messages = [
                {"value": value, "partition": at} for at in range(3) for value in (fits, misfit)
            ]
            answer = api.ask("POST", f"/topics/{topic}/messages", {"messages": messages})
            assert answer.status == 200, answer
            results = answer.json["results"]
            assert [each["status"] for each in results] == [200, 400] * 3, results
            assert results[1]["code"] == "schema_validation_failed"


def test_reports_of_pipelines_are_the_same_on_every_node(apis: dict[int, HttpApi]) -> None:
    report = {"state": "running", "interval_ms": 60_000}
    answers = [api.ask("PUT", "/pipelines/p1", report) for api in apis.values()]
    assert {each.status for each in answers} <= {200, 503}
    assert any(each.status == 200 for each in answers)
    for api in apis.values():
        assert [each["name"] for each in api.get("/pipelines")["pipelines"]] == ["p1"]


class _Numbered:
    """Publishes numbered batches over gRPC, and each again until it is answered."""

    def __init__(self, address: str, topic: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._stub: Any = services.PublishServiceStub(self._channel)
        self._topic = topic
        started = self._stub.InitProducer(pb.InitProducerRequest(), timeout=30)
        self._producer_id = started.producer_id
        self.acknowledged: dict[int, str] = {}
        self.is_stopping = False

    def run(self) -> None:
        for number in count():
            if self.is_stopping:
                break
            value = f"{number}"
            self.acknowledged[self._send(number, value)] = value
        self._channel.close()

    def _send(self, number: int, value: str) -> int:
        request = pb.PublishRequest(
            topic=self._topic,
            messages=[pb.NewMessage(value=value.encode(), partition=0)],
            producer=pb.ProducerSequence(
                producer_id=self._producer_id, epoch=0, first_sequence=number
            ),
        )
        while True:
            try:
                (result,) = self._stub.Publish(request, timeout=30).results
            except grpc.RpcError:
                time.sleep(0.05)
                continue
            if not result.error.name:
                offset: int = result.offset
                return offset
            assert result.error.retriable, result


def test_a_leader_that_is_killed_while_others_publish_to_it_loses_and_doubles_nothing(
    cluster: Cluster, apis: dict[int, HttpApi]
) -> None:
    topic = cluster.unique_name()
    assert apis[1].ask("POST", "/topics", {"name": topic, "num_partitions": 1}).status == 201
    leader = apis[1].get(f"/topics/{topic}")["partitions"][0]["leader"]
    entry, other = [node for node in NODES if node != leader]
    subject = f"{topic}-value"
    first_id, _ = _register(cluster, 1, subject, _object_schema("a"))
    publisher = _Numbered(cluster.grpc_address(entry), topic)
    thread = threading.Thread(target=publisher.run)
    thread.start()
    plain: list[str] = []
    try:
        _wait_for(publisher, 50)
        cluster.kill(leader)
        for number in range(20):  # without numbers: what is acknowledged is there, at least once
            answer = apis[other].ask(
                "POST", f"/topics/{topic}/messages", {"messages": [{"value": f"plain-{number}"}]}
            )
            if answer.status == 200 and answer.json["results"][0]["status"] == 200:
                plain.append(f"plain-{number}")
        _wait_for(publisher, len(publisher.acknowledged) + 50)
        assert apis[other].get(f"/schemas/ids/{first_id}")["schemaType"] == "JSON"
        again_id, _ = _register(cluster, entry, subject, _object_schema("a"))
        assert again_id == first_id, "the next writer knows it"
    finally:
        publisher.is_stopping = True
        thread.join(timeout=60)
        cluster.start(leader)
    assert plain, "there is a leader again"
    stored: dict[int, str] = {}
    while page := apis[other].get(
        f"/topics/{topic}/partitions/0/messages?limit=1000&offset={len(stored)}"
    )["messages"]:
        stored |= {each["offset"]: each["value"] for each in page}
    assert set(plain) <= set(stored.values())
    numbered = [value for value in stored.values() if not value.startswith("plain")]
    assert numbered == [f"{number}" for number in range(len(numbered))], "each once, in order"
    assert publisher.acknowledged.items() <= stored.items()


def _wait_for(publisher: _Numbered, acknowledged: int) -> None:
    deadline = time.monotonic() + 90
    while len(publisher.acknowledged) < acknowledged:
        assert time.monotonic() < deadline, len(publisher.acknowledged)
        time.sleep(0.02)
