"""Dead letters over HTTP: how messages die, how they are looked at, and how they go back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.http_api import HttpApi


def join(api: HttpApi, group: str, topic: str, **fields: Any) -> str:
    body = {"topics": [topic], "assignment": "shared", **fields}
    return str(api.post(f"/groups/{group}/join", body)["member_id"])


def poll(api: HttpApi, group: str, member: str, query: str = "") -> list[dict[str, Any]]:
    path = f"/groups/{group}/poll?member_id={member}&timeout=60s&{query}"
    found: list[dict[str, Any]] = api.get(path)["messages"]
    return found


def reject(api: HttpApi, messages: list[dict[str, Any]], reason: str = "broken") -> None:
    handles = [each["receipt_handle"] for each in messages]
    answer = api.post("/messages/reject/batch", {"receipt_handles": handles, "reason": reason})
    assert answer["settled"] == len(messages)


def letters(api: HttpApi, topic: str, count: int, query: str = "") -> list[dict[str, Any]]:
    """The dead letters, once there are so many."""

    def look() -> list[dict[str, Any]] | None:
        found = api.get(f"/topics/{topic}/dlq?{query}")
        return found["letters"] if len(found["letters"]) >= count else None

    found: list[dict[str, Any]] = eventually(look)
    assert len(found) == count
    return found


def bury(api: HttpApi, topic: str, group: str, *values: str, **fields: Any) -> None:
    """Let messages die: published, taken, rejected."""
    member = join(api, group, topic)
    api.publish(topic, *values, **fields)
    taken: list[dict[str, Any]] = []
    while len(taken) < max(len(values), api.get(f"/groups/{group}")["total_lag"]):
        taken += poll(api, group, member)
    reject(api, taken)
    eventually(lambda: api.get(f"/groups/{group}")["total_lag"] == 0)
    api.post(f"/groups/{group}/leave", {"member_id": member})


def redrive(api: HttpApi, topic: str, **body: Any) -> dict[str, Any]:
    """A redrive, once it is over."""
    answer = api.ask("POST", f"/topics/{topic}/dlq/redrive", body)
    assert answer.status == 202, answer
    path = f"/redrives/{answer.json['id']}"
    found: dict[str, Any] = eventually(
        lambda: each if (each := api.get(path))["ended_at"] else None
    )
    return found


# --- Dying ---------------------------------------------------------------------------------------


def test_a_rejected_message_is_kept_with_where_it_came_from_and_why(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic, client_id="worker")
    headers = {"trace": "abc"}
    api.publish(topic, "bad", key="k", partition=1, headers=headers, priority="high")
    (taken,) = poll(api, group, member)
    reject(api, [taken], "no such customer")
    (letter,) = letters(api, topic, 1)
    assert (letter["source_topic"], letter["source_partition"], letter["source_offset"]) == (
        topic,
        1,
        0,
    )
    assert (letter["reason"], letter["error"]) == ("REJECTED", "no such customer")
    assert (letter["group"], letter["member"], letter["deliveries"]) == (group, member, 1)
    assert (letter["key"], letter["preview"], letter["size_bytes"]) == ("k", "bad", 3)
    assert letter["source_timestamp"] == taken["timestamp"]
    assert letter["first_delivery"] == letter["last_delivery"] <= letter["died_at"]
    assert (letter["priority"], letter["redriven_count"]) == ("high", 0)
    whole = api.get(f"/topics/{topic}/dlq/{letter['partition']}/{letter['offset']}")
    assert whole["value"] == "bad"
    assert {"name": "trace", "value": "abc"} in whole["headers"]
    assert not any(each["name"].startswith("goqueue-dlq-") for each in whole["headers"])
    assert not whole["is_redriven"]
    listed = api.get(f"/topics/{topic}/dlq")
    assert (listed["total"], listed["dead_letter_topic"]) == (1, f"{topic}.dlq")


def test_a_message_that_is_never_acknowledged_dies_after_its_last_delivery(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic, visibility_timeout="100ms", max_deliveries=3)
    api.publish(topic, "slow", partition=0)
    counts = [poll(api, group, member)[0]["delivery_count"] for _ in range(3)]
    assert counts == [1, 2, 3]
    (letter,) = letters(api, topic, 1)
    assert (letter["reason"], letter["deliveries"]) == ("MAX_RETRIES_EXCEEDED", 3)
    assert letter["first_delivery"] < letter["last_delivery"]
    eventually(lambda: api.get(f"/groups/{group}")["total_lag"] == 0)
    assert api.get(f"/groups/{group}")["offsets"][topic]["0"] == 1


def test_a_message_that_was_handed_back_too_often_dies_with_what_was_said_last(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic, max_deliveries=2, backoff="10ms")
    api.publish(topic, "x", partition=0)
    for reason in ("first", "second"):
        (taken,) = poll(api, group, member)
        body = {"receipt_handle": taken["receipt_handle"], "reason": reason}
        api.post("/messages/nack", body)
    (letter,) = letters(api, topic, 1)
    assert (letter["reason"], letter["error"]) == ("MAX_RETRIES_EXCEEDED", "second")


def test_a_message_that_outlives_itself_is_never_handed_out(
    api: HttpApi, name: Callable[[str], str], group: str
) -> None:
    kept = name("kept")
    settings = {"goqueue.ttl.dead.letter": "true"}
    answer = api.ask("POST", "/topics", {"name": kept, "num_partitions": 1, "settings": settings})
    assert answer.status == 201, answer
    member = join(api, group, kept)
    api.publish(kept, "stale", ttl="1ms", timestamp=1_700_000_000_000)
    api.publish(kept, "fresh", ttl="1h")
    assert [each["value"] for each in poll(api, group, member)] == ["fresh"]
    (letter,) = letters(api, kept, 1)
    assert (letter["reason"], letter["preview"], letter["deliveries"]) == (
        "TTL_EXPIRED",
        "stale",
        0,
    )
    assert api.get("/reliability/stats")["expired"][kept] == 1


def test_a_group_that_wants_no_dead_letters_has_none(api: HttpApi, topic: str, group: str) -> None:
    member = join(api, group, topic, dead_letters=False)
    api.publish(topic, "x", partition=0)
    reject(api, poll(api, group, member))
    assert api.get(f"/groups/{group}")["total_lag"] == 0
    assert api.get(f"/topics/{topic}/dlq") == {
        "topic": topic,
        "dead_letter_topic": None,
        "total": 0,
        "letters": [],
        "next": None,
    }


# --- Looking -------------------------------------------------------------------------------------


def test_letters_are_listed_in_pages_and_by_what_is_asked(
    api: HttpApi, topic: str, group: str
) -> None:
    bury(api, topic, group, *(str(number) for number in range(7)), partition=0)
    bury(api, topic, f"{group}-other", "late", partition=1)
    everything = letters(api, topic, 15)
    first = api.get(f"/topics/{topic}/dlq?limit=4")
    second = api.get(f"/topics/{topic}/dlq?limit=100&skip=4")
    assert first["letters"] + second["letters"] == everything
    assert first["total"] == 15
    assert len(letters(api, topic, 7, f"group={group}")) == 7
    assert len(letters(api, topic, 8, f"group={group}-other")) == 8
    assert api.get(f"/topics/{topic}/dlq?reason=TTL_EXPIRED")["letters"] == []
    died = sorted(each["died_at"] for each in everything)
    late = letters(api, topic, sum(each >= died[-1] for each in died), f"since={died[-1]}")
    assert {each["died_at"] for each in late} == {died[-1]}
    assert api.get(f"/topics/{topic}/dlq?until={died[0]}")["letters"] == []


def test_every_topic_with_dead_letters_is_listed(api: HttpApi, topic: str, group: str) -> None:
    bury(api, topic, group, "one", "two")
    found = letters(api, topic, 2)
    (line,) = [each for each in api.get("/dlq")["topics"] if each["topic"] == topic]
    assert (line["dead_letter_topic"], line["total"]) == (f"{topic}.dlq", 2)
    assert line["newest_at"] == max(each["died_at"] for each in found)
    api.ask("DELETE", f"/topics/{topic}/dlq?confirm=true")
    (line,) = [each for each in api.get("/dlq")["topics"] if each["topic"] == topic]
    assert (line["total"], line["newest_at"]) == (0, None)


def test_a_long_value_is_shown_in_part_and_bytes_as_base64(
    api: HttpApi, topic: str, group: str
) -> None:
    bury(api, topic, group, "ü" * 300, partition=0)
    bury(api, topic, group, "/wD/AA==", partition=1, encoding="base64")
    long, raw = letters(api, topic, 2)
    assert (long["preview"], long["size_bytes"]) == ("ü" * 100, 600)
    assert (raw["preview"], raw["preview_encoding"]) == ("/wD/AA==", "base64")


@pytest.mark.parametrize(
    ("question", "status", "code"),
    [
        ("GET /topics/nowhere/dlq", 404, "unknown_topic"),
        ("GET /topics/TOPIC/dlq?limit=0", 400, "invalid_field"),
        ("GET /topics/TOPIC/dlq?skip=-1", 400, "invalid_field"),
        ("GET /topics/TOPIC/dlq?since=yesterday", 400, "invalid_field"),
        ("GET /topics/TOPIC/dlq/0/0", 404, "unknown_topic"),
        ("GET /topics/TOPIC/dlq/zero/0", 400, "invalid_field"),
        ("DELETE /topics/TOPIC/dlq", 400, "invalid_field"),
        ("DELETE /topics/nowhere/dlq?confirm=true", 404, "unknown_topic"),
        ("POST /topics/nowhere/dlq/redrive", 404, "unknown_topic"),
        ("GET /redrives/999999", 404, "unknown_redrive"),
        ("DELETE /redrives/999999", 404, "unknown_redrive"),
        ("GET /redrives/first", 400, "invalid_field"),
    ],
)
def test_what_is_not_there_is_refused(
    api: HttpApi, topic: str, question: str, status: int, code: str
) -> None:
    method, path = question.replace("TOPIC", topic).split()
    answer = api.ask(method, path)
    assert (answer.status, answer.code) == (status, code)


def test_a_letter_that_is_not_there_is_out_of_range(api: HttpApi, topic: str, group: str) -> None:
    bury(api, topic, group, "x", partition=0)
    letters(api, topic, 1)
    answer = api.ask("GET", f"/topics/{topic}/dlq/0/7")
    assert (answer.status, answer.code) == (416, "offset_out_of_range")
    answer = api.ask("GET", f"/topics/{topic}/dlq/9/0")
    assert (answer.status, answer.code) == (404, "unknown_partition")


# --- Going back ----------------------------------------------------------------------------------


def test_letters_go_back_once_as_they_were(api: HttpApi, topic: str, group: str) -> None:
    fields = {"key": "k", "headers": {"trace": "abc"}, "priority": "critical"}
    bury(api, topic, group, "one", "two", partition=1, **fields)
    letters(api, topic, 2)
    done = redrive(api, topic)
    assert (done["state"], done["total"], done["done"], done["failed"]) == ("done", 2, 2, 0)
    assert (done["topic"], done["to"]) == (topic, topic)
    member = join(api, group, topic)
    back = poll(api, group, member)
    assert [(each["value"], each["partition"], each["key"]) for each in back] == [
        ("one", 1, "k"),
        ("two", 1, "k"),
    ]
    assert {each["priority"] for each in back} == {"critical"}
    assert [each["delivery_count"] for each in back] == [1, 1]
    for each in back:
        names = {header["name"]: header["value"] for header in each["headers"]}
        names.pop("traceparent", None)  # of tracing, which is none of the producer's
        assert names == {
            "trace": "abc",
            "goqueue-priority": "critical",
            "goqueue-redriven": "1",
        }
    assert api.get(f"/topics/{topic}/dlq")["total"] == 0
    assert api.get(f"/topics/{topic}/dlq/1/0")["is_redriven"]
    again = redrive(api, topic)
    assert (again["total"], again["done"]) == (0, 0)
    reject(api, back)
    (first, second) = letters(api, topic, 2)
    assert first["redriven_count"] == second["redriven_count"] == 1
    assert redrive(api, topic)["done"] == 2
    assert {
        header["value"]
        for each in poll(api, group, member)
        for header in each["headers"]
        if header["name"] == "goqueue-redriven"
    } == {"2"}
    assert api.get("/reliability/stats")["redriven"][topic] == 4


def test_some_letters_go_and_the_others_stay(
    api: HttpApi, topic: str, group: str, name: Callable[[str], str]
) -> None:
    other = name("elsewhere")
    api.post("/topics", {"name": other, "num_partitions": 1})
    for key in ("a", "b", "c", "d"):
        bury(api, topic, group, f"of {key}", key=key, partition=1)
    died = letters(api, topic, 4)
    dry = redrive(api, topic, to=other, filter={"key": "b"}, dry_run=True)
    assert (dry["state"], dry["dry_run"], dry["total"], dry["done"]) == ("done", True, 1, 0)
    assert redrive(api, topic, to=other, filter={"key": "b"})["done"] == 1
    offsets = {"1": [died[0]["offset"], died[1]["offset"]]}
    assert redrive(api, topic, to=other, filter={"offsets": offsets})["done"] == 1
    assert redrive(api, topic, to=other, filter={"group": "nobody"})["total"] == 0
    assert redrive(api, topic, to=other, filter={"reason": "REJECTED"}, limit=1)["done"] == 1
    assert [each["key"] for each in letters(api, topic, 1)] == ["d"]
    found = api.get(f"/topics/{other}/partitions/0/messages")["messages"]
    assert [each["value"] for each in found] == ["of b", "of a", "of c"]
    assert api.get(f"/topics/{topic}/partitions/1/messages?offset=4")["messages"] == []


def test_a_redrive_keeps_to_its_rate_and_can_be_cancelled(
    api: HttpApi, topic: str, group: str
) -> None:
    count = 300
    bury(api, topic, group, *(str(number) for number in range(count)), partition=0)
    letters(api, topic, count, "limit=1000")
    answer = api.ask("POST", f"/topics/{topic}/dlq/redrive", {"rate": 20})
    path = f"/redrives/{answer.json['id']}"
    moved = eventually(lambda: each if (each := api.get(path))["done"] >= 12 else None)
    assert moved["state"] == "running"
    assert moved["total"] == count
    ended = api.ask("DELETE", path).json
    assert ended["state"] == "cancelled"
    assert ended["rate"] <= 45
    assert 12 <= ended["done"] < count
    assert api.get(path) == ended
    assert ended in api.get("/redrives")["redrives"]
    assert api.get(f"/topics/{topic}/dlq")["total"] == count - ended["done"]
    assert redrive(api, topic)["done"] == count - ended["done"]
    values = [
        each["value"]
        for each in api.get(f"/topics/{topic}/partitions/0/messages?offset={count}&limit=1000")[
            "messages"
        ]
    ]
    assert values == [str(number) for number in range(count)]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"to": "nowhere"}, 404, "to"),
        ({"to": "__queue_state"}, 403, "to"),
        ({"limit": 0}, 400, "limit"),
        ({"rate": 0}, 400, "rate"),
        ({"rate": -5}, 400, "rate"),
        ({"filter": {"colour": "red"}}, 400, "filter.colour"),
        ({"filter": {"since": "noon"}}, 400, "filter.since"),
        ({"filter": {"key": "=", "key_encoding": "base64"}}, 400, "filter.key"),
        ({"filter": {"offsets": {"0": [-1]}}}, 400, None),
    ],
)
def test_a_redrive_to_nowhere_is_refused(
    api: HttpApi, topic: str, body: dict[str, Any], status: int, field: str | None
) -> None:
    join(api, f"of-{topic}", topic)
    answer = api.ask("POST", f"/topics/{topic}/dlq/redrive", body)
    assert answer.status == status, answer
    if field is not None:
        assert answer.json["field"] == field


def test_letters_are_thrown_away_by_those_who_are_sure(
    api: HttpApi, topic: str, group: str
) -> None:
    bury(api, topic, group, "one", "two", partition=0)
    letters(api, topic, 2)
    answer = api.ask("DELETE", f"/topics/{topic}/dlq")
    assert (answer.status, answer.json["field"]) == (400, "confirm")
    assert len(letters(api, topic, 2)) == 2
    assert api.ask("DELETE", f"/topics/{topic}/dlq?confirm=true").json == {
        "topic": topic,
        "purged": 2,
    }
    assert api.get(f"/topics/{topic}/dlq")["letters"] == []
    assert redrive(api, topic)["total"] == 0


def test_letters_of_any_topic_go_where_they_say_but_not_into_the_brokers_own(
    api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    rejects = name("rejects")
    made = api.ask("POST", "/topics", {"name": rejects, "num_partitions": 1})
    assert made.status == 201, made
    for source in (topic, "__queue_state"):
        said = {"goqueue-dlq-topic": source, "goqueue-dlq-group": "billing", "trace": "abc"}
        api.publish(rejects, source, headers=said)
    done = redrive(api, rejects, letters_in=rejects, to_source=True)
    assert (done["targets"], done["failed"]) == ({topic: 1}, 1)
    assert [(each["offset"], each["to"]) for each in done["refused"]] == [(1, "__queue_state")]
    (back,) = api.get(f"/topics/{topic}/partitions/0/messages?offset=0")["messages"]
    assert back["value"] == topic
    found = {each["name"] for each in back["headers"]} - {"traceparent"}
    assert found == {"trace", "goqueue-redriven"}


def test_the_group_that_knows_what_went_back_is_nobodys(
    api: HttpApi, topic: str, group: str
) -> None:
    bury(api, topic, group, "x", partition=0)
    letters(api, topic, 1)
    redrive(api, topic)
    inner = "__goqueue_redrive"
    assert inner not in {each["group"] for each in api.get("/groups")["groups"]}
    assert api.ask("GET", f"/groups/{inner}").code == "unknown_group"
    answer = api.ask("POST", f"/groups/{inner}/join", {"topics": [topic], "assignment": "shared"})
    assert (answer.status, answer.code) == (400, "invalid_group")
    assert inner not in api.metrics()


def test_letters_sent_back_by_other_means_are_known_and_go_no_second_time(
    api: HttpApi, topic: str, group: str
) -> None:
    bury(api, topic, group, "a", "b", "c", "d", key="k", partition=0)
    letters(api, topic, 4)
    path = f"/topics/{topic}/redriven/0"
    assert api.get(path)["ranges"] == []
    assert api.post(path, {"ranges": [[1, 3]]})["noted"] == 2
    assert api.post(path, {"ranges": [[2, 100]]})["noted"] == 1  # 2 was known, 4 is not there yet
    assert [each["preview"] for each in letters(api, topic, 1)] == ["a"]
    found = api.get(path)
    assert (found["ranges"], found["next_offset"]) == ([[1, 4]], None)
    assert redrive(api, topic)["done"] == 1
    assert api.get(f"{path}?from_offset=2")["ranges"] == [[2, 4]]
    assert api.get(path)["ranges"] == [[0, 4]]
    assert api.ask("POST", f"/topics/{topic}/redriven/99", {"ranges": [[0, 1]]}).status == 404
    assert api.ask("POST", path, {"ranges": [[-1, 1]]}).status == 400
