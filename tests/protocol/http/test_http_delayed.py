"""Delayed messages and priorities over HTTP."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from support.pace import TooLateError, in_time, unhurried

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.http_api import HttpApi


def read(api: HttpApi, topic: str, query: str = "wait=20s") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/topics/{topic}/partitions/0/messages?{query}")[
        "messages"
    ]
    return found


def test_a_delayed_message_comes_when_it_is_due_and_not_before(
    api: HttpApi, name: Callable[[str], str]
) -> None:
    def scenario(time_ms: int) -> None:
        topic = name("later")
        api.post("/topics", {"name": topic, "num_partitions": 1})
        wish = {"delay": f"{time_ms}ms", "priority": "low", "key": "k"}
        began_ms = time.time() * 1000
        (result,) = api.publish(topic, "later", **wish)
        assert (result["status"], result["delayed"], result["partition"]) == (200, True, 0)
        assert result["id"] == result["offset"]
        assert result["priority"] == "low"
        assert time_ms - 1 <= result["deliverAt"] - began_ms <= time_ms + 60_000
        early, waiting = read(api, topic, ""), api.get(f"/topics/{topic}/delayed")
        in_time(result["deliverAt"])
        assert early == []
        assert waiting["total"] == 1
        (listed,) = waiting["messages"]
        assert (listed["id"], listed["value"], listed["key"], listed["state"]) == (
            result["id"],
            "later",
            "k",
            "pending",
        )
        assert (listed["deliverAt"], listed["priority"]) == (result["deliverAt"], "low")
        (message,) = read(api, topic)
        assert time.time() * 1000 >= result["deliverAt"]
        assert (message["value"], message["priority"]) == ("later", "low")
        assert message["timestamp"] >= result["deliverAt"]
        assert api.get(f"/topics/{topic}/delayed")["messages"] == []

    unhurried(scenario)


def test_a_moment_may_be_named_and_one_that_has_passed_is_now(api: HttpApi, topic: str) -> None:
    (past,) = api.publish(topic, "now", partition=0, deliver_at="2020-01-01T00:00:00Z")
    assert (past["delayed"], past["offset"]) == (False, 0)
    (zero,) = api.publish(topic, "now too", partition=0, delay=0)
    assert (zero["delayed"], zero["offset"]) == (False, 1)

    def scenario(time_ms: int) -> None:
        begins = api.get(f"/topics/{topic}/partitions/0/messages")["next_offset"]
        due_ms = round(time.time() * 1000) + time_ms
        (soon,) = api.publish(topic, "soon", partition=0, deliverAt=due_ms)
        query = f"offset={begins}&wait=20s"
        assert [each["value"] for each in read(api, topic, query)] == ["soon"]
        if not soon["delayed"]:
            raise TooLateError
        assert soon["deliverAt"] == due_ms

    unhurried(scenario)


def test_a_cancelled_message_never_comes(api: HttpApi, topic: str) -> None:
    path = f"/topics/{topic}/delayed"

    def scenario(time_ms: int) -> None:
        begins = api.get(f"/topics/{topic}/partitions/0/messages")["next_offset"]
        (result,) = api.publish(topic, "never", partition=0, delay=f"{time_ms}ms")
        found = api.ask("GET", f"{path}/{result['id']}")
        elsewhere = api.ask("DELETE", f"{path}/1/{result['id']}")
        gone = api.ask("DELETE", f"{path}/0/{result['id']}")
        in_time(result["deliverAt"])
        assert found.json["state"] == "pending"
        assert elsewhere.code == "unknown_delayed"
        assert gone.json["state"] == "cancelled"
        assert api.get(path)["total"] == 0
        assert read(api, topic, f"offset={begins}&wait={time_ms + 300}ms") == []
        answer = api.ask("DELETE", f"{path}/0/{result['id']}")
        assert (answer.status, answer.code) in {
            (409, "delayed_not_pending"),
            (404, "unknown_delayed"),
        }

    unhurried(scenario)


def test_pending_messages_are_listed_in_pages(api: HttpApi, topic: str) -> None:
    results = api.publish(topic, *(str(number) for number in range(5)), delay="1h", partition=1)
    path = f"/topics/{topic}/delayed"
    pages = [api.get(f"{path}?limit=2&skip={skip}")["messages"] for skip in (0, 2, 4)]
    assert [each["value"] for page in pages for each in page] == ["0", "1", "2", "3", "4"]
    assert [len(page) for page in pages] == [2, 2, 1]
    stats = api.get("/delay/stats")
    assert stats["topics"][topic] == 5
    assert stats["scheduled"] >= stats["pending"] >= 5
    timeline = api.get("/delay/timeline?buckets=30")
    assert sum(timeline["counts"]) + timeline["later"] >= 5
    assert len(timeline["counts"]) == 30
    assert timeline["step_ms"] * 30 >= 3_500_000
    assert len(stats["wheel"]["levels"]) == 4
    for each in results:
        assert api.ask("DELETE", f"{path}/1/{each['id']}").status == 200
    assert api.get("/delay/stats")["cancelled"] >= stats["cancelled"] + 5


def test_messages_of_one_request_wait_or_do_not_each_for_itself(api: HttpApi, topic: str) -> None:
    messages = [
        {"value": "now", "partition": 0},
        {"value": "later", "partition": 0, "delay": "1h"},
        {"value": "nowhere", "partition": 0, "priority": "urgent"},
        {"value": "too late", "partition": 0, "delay": "9999d"},
        {"value": "now too", "partition": 0, "priority": 0},
    ]
    results = api.post(f"/topics/{topic}/messages", {"messages": messages})["results"]
    assert [each["status"] for each in results] == [200, 200, 400, 400, 200]
    assert [each.get("delayed") for each in results] == [False, True, None, None, False]
    assert results[2]["code"] == "invalid_priority"
    assert results[2]["field"] == "messages[2].priority"
    for label in ("critical", "high", "normal", "low", "background"):
        assert label in results[2]["error"]
    assert (results[3]["code"], results[3]["field"]) == (
        "delay_too_long",
        "messages[3].deliver_at",
    )
    assert results[4]["priority"] == "critical"
    found = read(api, topic, "")
    assert [(each["value"], each["priority"]) for each in found] == [
        ("now", "normal"),
        ("now too", "critical"),
    ]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"delay": "soon"}, "messages[0].delay"),
        ({"delay": -1}, "messages[0].delay"),
        ({"deliverAt": "tomorrow"}, "messages[0].deliverAt"),
        ({"deliverAt": 1, "delay": 1}, "messages[0].deliverAt"),
        ({"ttl": "-5s"}, "messages[0].ttl"),
        ({"deliver_at": "tomorrow"}, "messages[0].deliver_at"),
        ({"deliver_at": 1, "delay": 1}, "messages[0].deliver_at"),
        ({"deliver_at": 1, "deliverAt": 1}, "messages[0].deliverAt"),
    ],
)
def test_a_delay_that_is_none_refuses_the_request(
    api: HttpApi, topic: str, fields: dict[str, Any], field: str
) -> None:
    body = {"messages": [{"value": "x", **fields}]}
    answer = api.ask("POST", f"/topics/{topic}/messages", body)
    assert (answer.status, answer.code) == (400, "invalid_field")
    assert answer.json["field"] in {field, "messages[...]." + field.rpartition(".")[2]}


@pytest.mark.parametrize(
    ("question", "status", "code"),
    [
        ("GET /topics/nowhere/delayed", 404, "unknown_topic"),
        ("GET /topics/TOPIC/delayed?limit=0", 400, "invalid_field"),
        ("GET /topics/TOPIC/delayed/999996", 404, "unknown_delayed"),
        ("GET /topics/TOPIC/delayed/soon", 400, "invalid_field"),
        ("DELETE /topics/TOPIC/delayed/0/999996", 404, "unknown_delayed"),
        ("DELETE /topics/nowhere/delayed/0/4", 404, "unknown_topic"),
        ("DELETE /topics/TOPIC/delayed/4", 405, "method_not_allowed"),
    ],
)
def test_a_delayed_message_that_is_not_there_is_refused(
    api: HttpApi, topic: str, question: str, status: int, code: str
) -> None:
    method, path = question.replace("TOPIC", topic).split()
    answer = api.ask(method, path)
    assert (answer.status, answer.code) == (status, code)
