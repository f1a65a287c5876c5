"""Whatever a client sends: a 4xx that names what is wrong, nothing stored, nothing lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from support.http_api import HttpApi

TOO_LONG = "x" * 300


@pytest.fixture
def before(api: HttpApi) -> list[str]:
    found: list[str] = api.get("/topics")["topics"]
    return found


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (b"", "invalid_field", "name"),
        (b"{", "malformed_body", None),
        (b"not json", "malformed_body", None),
        (b'{"name": "a"} {"name": "b"}', "malformed_body", None),
        (b'{"name": "\xff\xfe"}', "malformed_body", None),
        (b"\x00\x01\x02", "malformed_body", None),
        (b"[]", "invalid_field", "body"),
        (b"null", "invalid_field", "body"),
        (b'"name"', "invalid_field", "body"),
        (b"{}", "invalid_field", "name"),
        (b'{"name": 5}', "invalid_field", "name"),
        (b'{"name": null}', "invalid_field", "name"),
        (b'{"name": ["a"]}', "invalid_field", "name"),
        (b'{"name": "a", "colour": "red"}', "invalid_field", "colour"),
        (b'{"name": "a", "num_partitions": "three"}', "invalid_field", "num_partitions"),
        (b'{"name": "a", "num_partitions": 1.5}', "invalid_field", "num_partitions"),
        (b'{"name": "a", "num_partitions": true}', "invalid_field", "num_partitions"),
        (b'{"name": "a", "num_partitions": 0}', "invalid_partition_count", "num_partitions"),
        (b'{"name": "a", "num_partitions": -3}', "invalid_partition_count", "num_partitions"),
        (b'{"name": "a", "num_partitions": 99999999}', "invalid_partition_count", "num_partitions"),
        (
            b'{"name": "a", "num_partitions": 99999999999999999999}',
            "invalid_partition_count",
            "num_partitions",
        ),
        (b'{"name": "a", "retention_hours": -2}', "invalid_field", "retention_hours"),
        (b'{"name": "a", "settings": []}', "invalid_field", "settings"),
        (b'{"name": "a", "settings": {"no.such": 1}}', "invalid_settings", "settings"),
        (b'{"name": ""}', "invalid_topic_name", "name"),
        (b'{"name": "../x"}', "invalid_topic_name", "name"),
        (b'{"name": ".."}', "invalid_topic_name", "name"),
        (b'{"name": "."}', "invalid_topic_name", "name"),
        (b'{"name": "a b"}', "invalid_topic_name", "name"),
        (b'{"name": "a/b"}', "invalid_topic_name", "name"),
        ('{"name": "grün"}'.encode(), "invalid_topic_name", "name"),
        (b'{"name": "a\\u0000"}', "invalid_topic_name", "name"),
        (b'{"name": "a\\n"}', "invalid_topic_name", "name"),
        (f'{{"name": "{TOO_LONG}"}}'.encode(), "invalid_topic_name", "name"),
        (b'{"name": ' + b"[" * 100_000, "invalid_field", "name"),
        (b'{"name": "a", "settings": ' + b'{"a":' * 100_000, "invalid_field", "settings[...]"),
    ],
)
def test_a_topic_that_cannot_be_made_is_not(
    api: HttpApi, before: list[str], body: bytes, code: str, field: str | None
) -> None:
    answer = api.ask("POST", "/topics", raw=body)
    assert (answer.status, answer.code) == (400, code), answer
    assert answer.json.get("field") == field
    assert api.get("/topics")["topics"] == before


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({}, "messages[1].value"),
        ({"value": 5}, "messages[1].value"),
        ({"value": {"a": 1}}, "messages[1].value"),
        ({"value": "x", "kee": "y"}, "messages[1].kee"),
        ({"value": "x", "key": 1}, "messages[1].key"),
        ({"value": "x", "partition": "0"}, "messages[1].partition"),
        ({"value": "x", "encoding": "hex"}, "messages[1].encoding"),
        ({"value": "%%%", "encoding": "base64"}, "messages[1].value"),
        ({"value": "YQ", "encoding": "base64"}, "messages[1].value"),
        ({"value": "x", "key": "?", "key_encoding": "base64"}, "messages[1].key"),
        ({"value": "x", "timestamp": "noon"}, "messages[1].timestamp"),
        ({"value": "x", "timestamp": -1}, "messages[1].timestamp"),
        ({"value": "x", "timestamp": "2024-01-01T00:00:00"}, "messages[1].timestamp"),
        ({"value": "x", "timestamp": 10**18}, "messages[1].timestamp"),
        ({"value": "x", "headers": {"a": 1}}, "messages[1].headers[...]"),
        ({"value": "x", "headers": [{"name": "a"}]}, "messages[1].headers[0].value"),
        (
            {"value": "x", "headers": [{"name": "a", "value": "?", "encoding": "base64"}]},
            "messages[1].headers[0].value",
        ),
    ],
)
def test_a_request_with_one_bad_message_stores_nothing(
    api: HttpApi, topic: str, message: dict[str, Any], field: str
) -> None:
    body = {"messages": [{"value": "good"}, message]}
    answer = api.ask("POST", f"/topics/{topic}/messages", body)
    assert (answer.status, answer.code) == (400, "invalid_field"), answer
    assert answer.json["field"] == field
    assert answer.json["location"] == "body"
    assert api.get(f"/topics/{topic}")["total_messages"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": [None]}, "messages[0]"),
        ({"messages": [{"value": "x"}], "acks": "most"}, "acks"),
        ({"message": "x"}, "message"),
        ({"messages": [{"value": "x"}] * 10_001}, "messages"),
    ],
)
def test_a_publish_that_is_none_is_refused(
    api: HttpApi, topic: str, body: dict[str, Any], field: str
) -> None:
    answer = api.ask("POST", f"/topics/{topic}/messages", body)
    assert (answer.status, answer.json["field"]) == (400, field)


def test_half_a_surrogate_pair_is_no_text(api: HttpApi, topic: str) -> None:
    body = b'{"messages": [{"value": "\\ud800"}]}'
    answer = api.ask("POST", f"/topics/{topic}/messages", raw=body)
    assert answer.status == 400
    assert api.get(f"/topics/{topic}")["total_messages"] == 0


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("/topics/nowhere", 404, "topic"),
        ("/topics/nowhere/partitions", 404, "topic"),
        ("/topics/nowhere/messages", 404, "topic"),
        ("/topics/nowhere/partitions/0/messages", 404, "topic"),
        ("/topics/TOPIC/partitions/2/messages", 404, "partition"),
        ("/topics/TOPIC/partitions/-1/messages", 400, "partition"),
        ("/topics/TOPIC/partitions/zero/messages", 400, "partition"),
        ("/topics/TOPIC/partitions/99999999999/messages", 400, "partition"),
        ("/topics/TOPIC/partitions/0/messages?limit=0", 400, "limit"),
        ("/topics/TOPIC/partitions/0/messages?limit=1001", 400, "limit"),
        ("/topics/TOPIC/partitions/0/messages?limit=many", 400, "limit"),
        ("/topics/TOPIC/partitions/0/messages?limit=", 400, "limit"),
        ("/topics/TOPIC/partitions/0/messages?offset=first", 400, "offset"),
        ("/topics/TOPIC/partitions/0/messages?offset=-1", 416, "offset"),
        ("/topics/TOPIC/partitions/0/messages?offset=0&time=5", 400, "time"),
        ("/topics/TOPIC/partitions/0/messages?time=noon", 400, "time"),
        ("/topics/TOPIC/partitions/0/messages?wait=21s", 400, "wait"),
        ("/topics/TOPIC/partitions/0/messages?ofset=0", 400, "ofset"),
        ("/topics/TOPIC/partitions/0/messages?limit=%ff", 400, "query"),
        ("/topics/TOPIC/messages?from_time=noon", 400, "from_time"),
        ("/topics/TOPIC/messages?to_time=noon", 400, "to_time"),
        ("/topics/TOPIC/messages?partition=2", 404, "partition"),
        ("/topics/..", 400, "topic"),
        ("/topics/..%2fx", 400, "topic"),
        ("/topics/a%20b", 400, "topic"),
        ("/topics/%00", 400, "topic"),
        (f"/topics/{TOO_LONG}", 400, "topic"),
        (f"/groups/{TOO_LONG}", 400, "group"),
        ("/groups/nobody", 404, "group"),
        ("/groups/nobody/rebalance/stats", 404, "group"),
        ("/groups/nobody/assignment", 404, "group"),
        ("/groups/nobody/poll", 400, "member_id"),
    ],
)
def test_a_question_about_nothing_names_the_field(
    api: HttpApi, topic: str, path: str, status: int, field: str
) -> None:
    answer = api.ask("GET", path.replace("TOPIC", topic))
    assert answer.status == status, answer
    assert answer.code
    assert answer.json["field"] == field


@pytest.mark.parametrize(
    "path", ["/nothing", "/topics/a/b/c", "/v1", "/v2/topics", "//", "/TOPICS"]
)
def test_a_path_that_leads_nowhere_is_not_found(api: HttpApi, path: str) -> None:
    assert api.ask("GET", path).code == "no_such_path"


def test_a_path_that_is_not_utf_8_is_refused(api: HttpApi) -> None:
    assert api.ask("GET", "/topics/%ff%fe").code == "malformed_request"


def test_a_path_says_which_methods_it_takes(api: HttpApi, topic: str) -> None:
    answer = api.ask("POST", f"/topics/{topic}", {})
    assert answer.code == "method_not_allowed"
    assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"


def test_a_body_that_is_too_large_is_refused_and_the_server_lives_on(
    api: HttpApi, topic: str
) -> None:
    answer = api.ask("POST", "/topics", raw=b" " * 1_100_000)
    assert (answer.status, answer.code) == (413, "body_too_large")
    assert answer.headers["connection"] == "close"
    answer = api.ask("POST", f"/topics/{topic}/messages", raw=b" " * (17 << 20))
    assert (answer.status, answer.code) == (413, "body_too_large")
    assert api.get(f"/topics/{topic}")["total_messages"] == 0
