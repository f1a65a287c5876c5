"""The API describes itself, and what it says of itself is true."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from jsonschema_rs import meta, validator_for

if TYPE_CHECKING:
    from support.http_api import HttpApi


CONFLUENT = {"SchemaIn", "SchemaOut", "VersionOut", "LevelOut"}


@pytest.fixture
def document(api: HttpApi) -> dict[str, Any]:
    found: dict[str, Any] = api.get("/openapi.json")
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_of_the_plan_is_described(document: dict[str, Any]) -> None:
    described = {f"{method} {path}" for method, path, _ in operations(document)}
    assert described >= {
        "GET /health",
        "GET /healthz",
        "GET /readyz",
        "GET /livez",
        "GET /version",
        "GET /stats",
        "GET /metrics",
        "POST /topics",
        "GET /topics",
        "GET /topics/{topic}",
        "PATCH /topics/{topic}",
        "PUT /topics/{topic}",
        "DELETE /topics/{topic}",
        "GET /topics/{topic}/partitions",
        "POST /topics/{topic}/messages",
        "GET /topics/{topic}/messages",
        "GET /topics/{topic}/partitions/{partition}/messages",
        "GET /groups",
        "GET /groups/{group}",
        "DELETE /groups/{group}",
        "POST /groups/{group}/join",
        "POST /groups/{group}/heartbeat",
        "POST /groups/{group}/leave",
        "GET /groups/{group}/poll",
        "POST /groups/{group}/offsets",
        "GET /groups/{group}/offsets",
        "POST /groups/{group}/join/cooperative",
        "POST /groups/{group}/leave/cooperative",
        "POST /groups/{group}/heartbeat/cooperative",
        "POST /groups/{group}/revoke",
        "GET /groups/{group}/assignment",
        "GET /groups/{group}/cooperative",
        "GET /groups/{group}/rebalance/stats",
        "GET /rebalance/stats",
        "POST /groups/{group}/offsets/reset",
        "GET /groups/{group}/settings",
        "PUT /groups/{group}/settings",
        "POST /messages/ack",
        "POST /messages/nack",
        "POST /messages/reject",
        "POST /messages/visibility",
        "POST /messages/ack/batch",
        "POST /messages/nack/batch",
        "POST /messages/reject/batch",
        "POST /messages/visibility/batch",
        "GET /reliability/stats",
        "GET /priority/stats",
        "GET /topics/{topic}/delayed",
        "GET /topics/{topic}/delayed/{offset}",
        "DELETE /topics/{topic}/delayed/{partition}/{offset}",
        "GET /delay/stats",
        "GET /topics/{topic}/dlq",
        "GET /topics/{topic}/dlq/{partition}/{offset}",
        "DELETE /topics/{topic}/dlq",
        "POST /topics/{topic}/dlq/redrive",
        "GET /topics/{topic}/redriven/{partition}",
        "POST /topics/{topic}/redriven/{partition}",
        "GET /redrives",
        "GET /redrives/{id}",
        "DELETE /redrives/{id}",
        "POST /admin/topics/{topic}/partitions",
        "GET /admin/topics/{topic}/scaling-status",
        "POST /admin/topics/{topic}/compact",
        "GET /schemas/subjects",
        "POST /schemas/subjects/{subject}",
        "DELETE /schemas/subjects/{subject}",
        "POST /schemas/subjects/{subject}/versions",
        "GET /schemas/subjects/{subject}/versions",
        "GET /schemas/subjects/{subject}/versions/{version}",
        "DELETE /schemas/subjects/{subject}/versions/{version}",
        "GET /schemas/ids/{id}",
        "POST /schemas/compatibility/subjects/{subject}/versions/{version}",
        "GET /schemas/config",
        "PUT /schemas/config",
        "GET /schemas/config/{subject}",
        "PUT /schemas/config/{subject}",
        "GET /schemas/stats",
        "GET /subjects",
        "POST /subjects/{subject}/versions",
        "GET /mode",
        "GET /admin/coordinators",
        "GET /admin/coordinators/groups/{group}",
        "GET /overview",
        "GET /events",
        "GET /history",
        "GET /cluster/clients",
        "GET /admin/config",
        "GET /topics/{topic}/history",
        "GET /groups/{group}/history",
        "GET /topics/{topic}/search",
        "GET /topics/{topic}/settings",
        "DELETE /topics/{topic}/messages",
        "GET /pipelines",
        "GET /pipelines/{name}",
        "PUT /pipelines/{name}",
        "DELETE /pipelines/{name}",
        "GET /console",
        "GET /console/{page}",
    }


def test_every_operation_has_a_name_a_summary_and_its_problems(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)
    tags = {tag["name"] for tag in document["tags"]}
    for method, path, operation in operations(document):
        assert operation["summary"].endswith("."), (method, path)
        assert set(operation["tags"]) <= tags
        kind = "RegistryError" if operation["tags"] == ["schemas"] else "Problem"
        assert operation["responses"]["default"] == {"$ref": f"#/components/responses/{kind}"}
        named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path))


def test_every_schema_is_one_and_every_reference_leads_somewhere(
    document: dict[str, Any],
) -> None:
    for schema in document["components"]["schemas"].values():
        meta.validate(schema)
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(document)):
        found: Any = document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


def test_every_example_is_what_its_schema_says(document: dict[str, Any]) -> None:
    checked = 0
    for _, _, operation in operations(document):
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for media in (m for body in bodies for m in body.get("content", {}).values()):
            if "example" in media:
                schema = {**media["schema"], "components": document["components"]}
                validator_for(schema).validate(media["example"])
                checked += 1
    assert checked > 40


def test_the_example_requests_of_the_document_work(api: HttpApi, document: dict[str, Any]) -> None:
    """As a reader would try them: the topic and the group of the examples, one after the other."""
    examples = {
        f"{method} {path}": operation["requestBody"]["content"]["application/json"]["example"]
        for method, path, operation in operations(document)
        if "requestBody" in operation
    }
    assert api.ask("POST", "/topics", examples["POST /topics"]).status == 201
    for key in (
        "PATCH /topics/{topic}",
        "PUT /topics/{topic}",
        "POST /topics/{topic}/partitions",
        "POST /topics/{topic}/messages",
        "POST /groups/{group}/join",
    ):
        method, _, path = key.partition(" ")
        path = path.replace("{topic}", "orders").replace("{group}", "billing")
        assert api.ask(method, path, examples[key]).status == 200, key


def test_the_page_asks_no_other_host_for_anything(api: HttpApi) -> None:
    answer = api.ask("GET", "/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    page = answer.body.decode()
    assert "://" not in page
    assert "innerHTML" not in page
    assert 'fetch("openapi.json")' in page


def test_the_page_is_shipped_with_the_package() -> None:
    assert resources.files("goqueue.protocols.http.operations").joinpath("docs.html").is_file()


def test_the_postman_collection_holds_every_operation(
    api: HttpApi, document: dict[str, Any]
) -> None:
    collection = api.get("/postman.json")
    items = [item for folder in collection["item"] for item in folder["item"]]
    assert len(items) == len(operations(document))
    assert [folder["name"] for folder in collection["item"]] == [
        tag["name"] for tag in document["tags"]
    ]
    for item in items:
        url = item["request"]["url"]
        values = {each["key"]: each["value"] for each in url["variable"]}
        assert all(values.values()), item["name"]
        steps = [quote(values[s[1:]]) if s.startswith(":") else s for s in url["path"]]
        if item["name"] == "Stream server-sent events until the client disconnects.":
            continue  # nobody waits for its end
        if item["request"]["method"] == "GET" and not any(not q["disabled"] for q in url["query"]):
            status = api.ask("GET", "/" + "/".join(steps)).status
            # 409: webhooks are off; 503: tenants are.
            assert status in {200, 307, 404, 409, 503}, item["name"]


def _fields(schema: Any) -> set[str]:
    """The names of all fields of a schema, however deep."""
    if isinstance(schema, list):
        return {name for each in schema for name in _fields(each)}
    if not isinstance(schema, dict):
        return set()
    inner = {name for each in schema.values() for name in _fields(each)}
    properties = schema.get("properties")
    return inner | (set(properties) if isinstance(properties, dict) else set())


def test_fields_are_written_in_snake_case(document: dict[str, Any]) -> None:
    """Except two that are older than the rule, and the registry's, which are Confluent's."""
    ours = {
        name: schema
        for name, schema in document["components"]["schemas"].items()
        if name not in CONFLUENT
    }
    others = {
        each for each in _fields(list(ours.values())) if not re.fullmatch(r"[a-z0-9_]+", each)
    }
    assert others == {"deliverAt", "publishedAt"}
