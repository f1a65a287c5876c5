"""HTTP, the schema registry and gRPC for clients of two tenants; the life of a tenant."""

from __future__ import annotations

import json
import urllib.request
import uuid

import grpc
import pytest

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as stubs
from protocol.tenants.conftest import TENANTS, Api, key_of
from support.server import make_server
from support.waiting import eventually


@pytest.fixture
def topic() -> str:
    return f"bills-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def apis(server, root) -> dict[str, Api]:
    return {tenant: Api(server.http_url, key_of(root, tenant)) for tenant in TENANTS}


def test_topics_messages_and_groups_over_http_are_in_bare_names(apis, root, topic) -> None:
    for tenant, api in apis.items():
        assert api.ok("POST", "/topics", {"name": topic, "num_partitions": 1})["name"] == topic
        assert topic in api.ok("GET", "/topics")["topics"]
        body = {"messages": [{"value": tenant}]}
        api.ok("POST", f"/topics/{topic}/messages", body)
        read = api.ok("GET", f"/topics/{topic}/partitions/0/messages?offset=0")["messages"]
        assert [(each["topic"], each["value"]) for each in read] == [(topic, tenant)]
        joined = api.ok("POST", f"/groups/g-{topic}/join", {"topics": [topic]})
        assert joined["partitions"] == {topic: [0]}
        groups = [each["group"] for each in api.ok("GET", "/groups")["groups"]]
        assert f"g-{topic}" in groups
        assert not any(name.startswith(TENANTS) for name in groups)
        status, problem = api.call("GET", f"/topics/no-{topic}")
        assert status == 404
        assert tenant not in problem["detail"]
    assert {f"{tenant}.{topic}" for tenant in TENANTS} <= set(root.ok("GET", "/topics")["topics"])
    assert topic in root.ok("GET", "/admin/tenants/acme/topics")["topics"]
    assert f"g-{topic}" in root.ok("GET", "/admin/tenants/acme/groups")["groups"]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_an_export_has_bare_names(apis, topic, form, count) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    api = apis["acme"]
    api.ok("POST", "/topics", {"name": topic, "num_partitions": 1})
    messages = [{"value": f"v{number}"} for number in range(count)]
    api.ok("POST", f"/topics/{topic}/messages", {"messages": messages})
    url = f"{api.url}/topics/{topic}/export?format={form}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {api.key}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        headers, body = answer.headers, answer.read()
    assert headers["content-disposition"] == f'attachment; filename="{topic}.{form}"'
    assert int(headers["x-goqueue-messages"]) == count
    assert b"acme" not in body
    if form == "jsonl":
        lines = [json.loads(line) for line in body.splitlines()]
        assert sorted((each["topic"], each["value"]) for each in lines) == [
            (topic, each["value"]) for each in messages
        ]
        assert body.endswith(b"\n")


def test_nothing_of_others_is_told(apis, topic) -> None:
    apis["acme"].ok("POST", "/topics", {"name": topic})
    for name in (topic, f"acme.{topic}"):
        status, _ = apis["globex"].call("GET", f"/topics/{name}")
        assert status == 404
    for path in ("/admin/keys", "/admin/users", "/admin/acls", "/cluster/nodes"):
        assert apis["globex"].call("GET", path)[0] in {403, 404}
    assert apis["globex"].call("GET", "/admin/tenants/acme")[0] == 403
    assert [each["id"] for each in apis["globex"].ok("GET", "/admin/tenants")["tenants"]] == [
        "globex"
    ]
    assert apis["globex"].call("PATCH", "/admin/tenants/globex", {"name": "x"})[0] == 403


def test_subjects_of_schemas_are_the_tenants_own(apis, root, topic) -> None:
    subject = f"{topic}-value"
    for tenant, api in apis.items():
        schema = {"schemaType": "JSON", "schema": json.dumps({"title": tenant})}
        api.ok("POST", f"/subjects/{subject}/versions", schema)
        subjects = api.ok("GET", "/subjects")
        assert subject in subjects
        assert not any(name.startswith(TENANTS) for name in subjects)
        found = api.ok("GET", f"/subjects/{subject}/versions/latest")
        assert found["subject"] == subject
        assert json.loads(found["schema"]) == {"title": tenant}
        assert api.call("GET", f"/subjects/no-{subject}/versions")[0] == 404
    assert {f"{each}.{subject}" for each in TENANTS} <= set(root.ok("GET", "/subjects"))


def test_grpc_is_in_bare_names(server, root, topic) -> None:
    for tenant in TENANTS:
        metadata = (("authorization", f"Bearer {key_of(root, tenant)}"),)
        with grpc.insecure_channel(server.grpc_address) as channel:
            admin, publish = stubs.AdminServiceStub(channel), stubs.PublishServiceStub(channel)
            made = admin.CreateTopic(
                pb.CreateTopicRequest(name=topic, partitions=1), metadata=metadata
            )
            assert made.name == topic
            with pytest.raises(grpc.RpcError) as refused:
                admin.CreateTopic(pb.CreateTopicRequest(name=topic), metadata=metadata)
            assert refused.value.details() == f"topic {topic!r} exists already"
            answer = publish.Publish(
                pb.PublishRequest(topic=topic, messages=[pb.NewMessage(value=tenant.encode())]),
                metadata=metadata,
            )
            assert not answer.error.code
            listed = admin.ListTopics(pb.ListTopicsRequest(), metadata=metadata)
            names = {each.name for each in listed.topics}
            assert topic in names
            assert not any(name.startswith(TENANTS) for name in names)
            asked = pb.ConsumeRequest(topic=topic, start=pb.START_EARLIEST, until_end=True)
            stream = stubs.ConsumeServiceStub(channel).Consume(asked, metadata=metadata)
            (message,) = [each for answer in stream for each in answer.messages]
            assert (message.topic, message.value) == (topic, tenant.encode())


def test_the_life_of_a_tenant(server, root) -> None:
    made = root.ok("POST", "/admin/tenants", {"id": "hooli", "name": "Hooli"})
    assert made["status"] == "active"
    assert made["quotas"]["max_topics"] == 100
    assert root.call("POST", "/admin/tenants", {"id": "hooli", "name": "Hooli"})[0] == 409
    assert root.call("POST", "/admin/tenants", {"id": "No", "name": "x"})[0] == 400
    assert (
        root.call("POST", "/admin/tenants", {"id": "xyz", "name": "x", "quotas": {"a": 1}})[0]
        == 400
    )
    changed = root.ok("PATCH", "/admin/tenants/hooli", {"quotas": {"max_topics": 3}})
    assert (changed["quotas"]["max_topics"], changed["name"]) == (3, "Hooli")
    assert root.ok("GET", "/admin/tenants/hooli/quotas")["max_topics"] == 3
    root.ok("POST", "/admin/tenants/hooli/suspend", {"reason": "unpaid"})
    suspended = root.ok("GET", "/admin/tenants?status=suspended")["tenants"]
    assert "hooli" in [each["id"] for each in suspended]
    key = key_of(root, "hooli")
    status, problem = Api(server.http_url, key).call("POST", "/topics", {"name": "x"})
    assert status == 403
    assert "suspended (unpaid)" in problem["detail"]
    root.ok("POST", "/admin/tenants/hooli/activate")
    Api(server.http_url, key).ok("POST", "/topics", {"name": "x"})
    status, problem = root.call("DELETE", "/admin/tenants/hooli")
    assert (status, problem["code"]) == (409, "tenant_not_empty")
    assert "1 topics, 1 keys" in problem["detail"]
    assert root.ok("DELETE", "/admin/tenants/hooli?force=true")["status"] in {"deleted", "deleting"}
    eventually(lambda: root.call("GET", "/admin/tenants/hooli")[0] == 404, "the tenant is gone")
    assert "hooli.x" not in root.ok("GET", "/topics")["topics"]
    assert Api(server.http_url, key).call("GET", "/topics")[0] == 401
    for method, path in (("PATCH", ""), ("DELETE", "?force=true"), ("POST", "/disable")):
        status, _ = root.call(method, f"/admin/tenants/__system{path}", {})
        assert status == 409, (method, path)


def test_tenants_that_are_off_answer_503(tmp_path) -> None:
    server = make_server(tmp_path / "data")
    server.start()
    try:
        api = Api(server.http_url, "")
        assert api.call("GET", "/admin/tenants")[0] == 503
        assert api.call("POST", "/admin/tenants", {"id": "acme", "name": "Acme"})[0] == 503
    finally:
        server.close()
