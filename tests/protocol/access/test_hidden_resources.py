"""What clients without a right learn and do by ids, by references, and while they wait."""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from goqueue.access.rights import Operation, ResourceType
from goqueue.access.rules import Effect, Rule
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import AckServiceStub
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from protocol.access.test_kafka_rights import logged_in, sent
from support.guarded import ID, SECRET, TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.guarded import GuardedServer

WAIT_S = 60.0


def ask(
    server: GuardedServer, who: str, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=WAIT_S)
    try:
        headers = {"Authorization": f"Bearer {server.token(who)}"}
        text = None if body is None else json.dumps(body)
        if text is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, text, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()


@contextmanager
def rule(
    server: GuardedServer,
    who: str,
    kind: ResourceType,
    name: str,
    *,
    effect: Effect = Effect.ALLOW,
) -> Iterator[None]:
    """A rule about a client, by its user and by its key."""
    labels = [f"User:{each}" for each in (who, server.keys[who][0])]
    made = [Rule(label, kind, name, Operation.ALL, effect) for label in labels]
    server.change_rules(add=made)
    try:
        yield
    finally:
        server.change_rules(remove=made)


def test_a_message_is_not_decoded_by_a_schema_that_its_reader_may_not_see(
    server: GuardedServer,
) -> None:
    """Anybody can write the id of any schema into a message."""
    ask(server, "other", "POST", "/topics", {"name": "guesses", "num_partitions": 1})
    for schema_id in (server.hidden.schema, server.absent.schema):
        value = b"\0" + schema_id.to_bytes(4, "big") + b"\x02x"
        message = {"value": base64.b64encode(value).decode(), "encoding": "base64"}
        body = {"messages": [message]}
        assert ask(server, "other", "POST", "/topics/guesses/messages", body)[0] == 200
    for path in (
        "partitions/0/messages?offset=0&decode=auto",
        "search?direction=oldest",
        "export",
    ):
        connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=WAIT_S)
        headers = {"Authorization": f"Bearer {server.token('other')}"}
        connection.request("GET", f"/topics/guesses/{path}", headers=headers)
        text = connection.getresponse().read().decode()
        connection.close()
        assert SECRET not in text
        assert '"decoded":{' not in text
        if path != "export":
            hidden, absent = (
                f"names a schema, then {schema_id}, which is not registered"
                for schema_id in (server.hidden.schema, server.absent.schema)
            )
            assert hidden in text
            assert absent in text


def test_a_schema_refers_to_none_that_its_author_may_not_see(server: GuardedServer) -> None:
    fields = [{"name": "one", "type": f"{SECRET}Record"}]
    schema = json.dumps({"type": "record", "name": "Mine", "fields": fields})
    told = []
    with rule(server, "stranger", ResourceType.TOPIC, "mine"):
        for things in (server.hidden, server.absent):
            subject = f"{things.topic}-value"
            reference = {"name": f"{SECRET}Record", "subject": subject, "version": 1}
            body = {"schema": schema, "references": [reference]}
            for path in (
                "/subjects/mine-value/versions",
                "/subjects/mine-value",
                "/compatibility/subjects/mine-value/versions?verbose=true",
            ):
                status, answer = ask(server, "stranger", "POST", path, body)
                assert status == 403
                told.append(str(answer).replace(things.topic, "<topic>"))
    assert told[:3] == told[3:]


def test_pipelines_of_a_tenant_have_bare_names_and_are_its_own(server: GuardedServer) -> None:
    report = {"state": "running", "queries": [{"name": "q", "sources": ["bills"]}]}
    status, made = ask(server, "other", "PUT", "/pipelines/nightly", report)
    assert (status, made["name"], made["queries"][0]["sources"]) == (200, "nightly", ["bills"])
    listed = ask(server, "other", "GET", "/pipelines")[1]["pipelines"]
    assert [each["name"] for each in listed] == ["nightly"]
    inside = {each["name"] for each in server.ask("GET", "/pipelines")["pipelines"]}
    assert {"revenue", "globex.nightly", server.hidden.pipeline} <= inside
    assert ask(server, "other", "DELETE", "/pipelines/nightly")[1] == {"removed": "nightly"}


def test_a_pipeline_that_names_no_topic_is_guarded_by_its_name(server: GuardedServer) -> None:
    report: dict[str, Any] = {"state": "starting", "queries": []}
    assert ask(server, "readonly", "PUT", "/pipelines/quiet", report)[0] == 403
    assert ask(server, "consumer", "PUT", "/pipelines/quiet", report)[0] == 200
    listed = ask(server, "other", "GET", "/pipelines")[1]["pipelines"]
    assert "quiet" not in [each["name"] for each in listed]
    assert ask(server, "stranger", "GET", "/pipelines/quiet")[0] == 404
    assert ask(server, "stranger", "DELETE", "/pipelines/quiet")[0] == 403
    assert ask(server, "consumer", "DELETE", "/pipelines/quiet")[0] == 200


def test_transactions_of_a_series_are_ended_by_those_who_may_use_it(server: GuardedServer) -> None:
    """A batch aborts the other open transactions of its series, whoever has begun them."""
    batch = {"series": ID, "number": 9, "members": []}
    fields = {"series": ID, "number": 9, "keep_ms": 1000, "committed": False, "members": []}
    with rule(server, "stranger", ResourceType.TRANSACTIONAL_ID, "mine"):
        own = {"transactional_id": "mine", "producer_id": 1, "epoch": 0}
        for members in ([], [own]):
            body = {**batch, "members": members}
            assert ask(server, "stranger", "POST", "/transactions/commit-together", body)[0] == 403
        with logged_in(server, *server.login("stranger")) as raw:
            answer = sent(raw, ApiKey.COMMIT_TOGETHER, fields)
    assert answer.error_code == ErrorCode.transactional_id_authorization_failed


def test_a_transaction_is_shown_without_the_topics_that_one_may_not_see(
    server: GuardedServer,
) -> None:
    name = server.hidden.transactional_id
    with rule(server, "stranger", ResourceType.TRANSACTIONAL_ID, name):
        status, answer = ask(server, "stranger", "GET", "/transactions")
    (shown,) = answer["transactions"]
    assert (status, shown["transactional_id"], shown["partitions"]) == (200, name, {})


def test_a_trace_is_shown_to_those_who_may_see_all_its_topics(server: GuardedServer) -> None:
    """A producer names the same trace in messages to two topics.

    Each node of a cluster decides on the events that it has.
    """
    header = {"traceparent": f"00-{'7' * 32}-{'8' * 16}-01"}
    for topic in (server.hidden.topic, TOPIC):
        message = {"value": "x", "partition": 0, "headers": header}
        sent_to = server.ask("POST", f"/topics/{topic}/messages", {"messages": [message]})
    path = f"/topics/{TOPIC}/partitions/0/messages/{sent_to['results'][0]['offset']}/trace"
    whole = f"/traces/{'7' * 32}"
    spans = server.ask("GET", whole)["spans"]
    assert {each["topic"] for each in spans if each["topic"]} == {TOPIC, server.hidden.topic}
    with rule(server, "stranger", ResourceType.TOPIC, TOPIC):
        for each in (path, whole) * len(server.nodes.all):
            status, told = ask(server, "stranger", "GET", each)
            assert SECRET not in str(told)
            assert status == 404 or len(server.nodes.all) > 1


@pytest.mark.parametrize("way", ["http", "http member", "kafka"])
def test_who_loses_a_right_while_it_waits_gets_nothing(server: GuardedServer, way: str) -> None:
    topic = f"waited-{way.replace(' ', '-')}"
    server.run(server.broker.create_topic(topic, 1))
    got: list[Any] = []

    def wait_by_http() -> None:
        path = f"/topics/{topic}/partitions/0/messages?offset=0&wait=15s"
        got.append(ask(server, "consumer", "GET", path)[0])

    def wait_as_member() -> None:
        join = {"topics": [topic], "start": "earliest"}
        path = f"/groups/of-{topic}"
        member = ask(server, "consumer", "POST", f"{path}/join", join)[1]
        who = f"member_id={member['member_id']}&generation={member['generation']}"
        got.append(ask(server, "consumer", "GET", f"{path}/poll?{who}&timeout=15s")[0])

    def wait_by_kafka() -> None:
        with logged_in(server, *server.login("consumer")) as raw:
            fetched = raw.fetch(topic, max_wait_ms=15_000, min_bytes=1)
            got.append((fetched.error_code, bytes(fetched.records or b"")))

    waits = {"http": wait_by_http, "http member": wait_as_member}
    thread = threading.Thread(target=waits.get(way, wait_by_kafka))
    thread.start()
    time.sleep(1.0)  # until it waits
    with rule(server, "consumer", ResourceType.TOPIC, topic, effect=Effect.DENY):
        message = {"messages": [{"value": SECRET}]}
        assert ask(server, "producer", "POST", f"/topics/{topic}/messages", message)[0] == 200
        thread.join(WAIT_S)
    assert got == [403] if way.startswith("http") else got == [(29, b"")]


def test_rules_about_tenants_are_shown_over_http_and_not_to_kafkas_clients(
    server: GuardedServer,
) -> None:
    anything = {"resource_type_filter": 1, "pattern_type_filter": 1}
    anything |= {"operation": 1, "permission_type": 1}
    with (
        rule(server, "stranger", ResourceType.TENANT, "acme"),
        rule(server, "stranger", ResourceType.TOPIC, "mine"),
        logged_in(server, *server.login("admin")) as raw,
    ):
        answer = sent(raw, ApiKey.DESCRIBE_ACLS, anything)
        shown = server.ask("GET", "/admin/acls")["acls"]
    assert {each.resource_name for each in answer.resources} == {"mine"}
    assert {each["resource_name"] for each in shown} == {"acme", "mine"}


def test_a_receipt_of_a_group_that_its_holder_may_not_read_any_more_does_not_count(
    server: GuardedServer,
) -> None:
    """Receipts name no group, and a client that shows one need not either."""
    server.run(server.broker.create_topic("receipts", 1))
    values = {"messages": [{"value": str(number), "partition": 0} for number in range(2)]}
    assert ask(server, "producer", "POST", "/topics/receipts/messages", values)[0] == 200
    join = {"topics": ["receipts"], "start": "earliest"}
    member = ask(server, "consumer", "POST", "/groups/jobs/join", join)[1]
    who = f"member_id={member['member_id']}&generation={member['generation']}"
    polled = ask(server, "consumer", "GET", f"/groups/jobs/poll?{who}&timeout=30s&limit=2")[1]
    first, second = (each["receipt_handle"] for each in polled["messages"])
    metadata = (("authorization", f"Bearer {server.token('consumer')}"),)
    with (
        rule(server, "consumer", ResourceType.GROUP, "jobs", effect=Effect.DENY),
        grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel,
    ):
        for action, more in (("ack", {}), ("nack", {}), ("visibility", {"extension": "1h"})):
            body = {"receipt_handle": first, **more}
            status, told = ask(server, "consumer", "POST", f"/messages/{action}", body)
            assert (status, "jobs" in str(told)) == (403, False), told
        both = {"receipt_handles": [first, second]}
        answer = ask(server, "consumer", "POST", "/messages/ack/batch", both)[1]
        assert [each["status"] for each in answer["results"]] == [403, 403]
        acks = AckServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            acks.Ack(pb.AckRequest(receipt_handle=first), metadata=metadata, timeout=WAIT_S)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        acks = AckServiceStub(channel)
        acks.Ack(pb.AckRequest(receipt_handle=first), metadata=metadata, timeout=WAIT_S)
    body = {"receipt_handle": second}
    assert ask(server, "consumer", "POST", "/messages/ack", body)[0] == 200
