"""Looking after topics and groups: what a reset would do, what settings are in force, purging."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from support.http_api import HttpApi


def reset(api: HttpApi, group: str, topic: str, **fields: Any) -> dict[str, Any]:
    body = {"topic": topic, "dry_run": True, **fields}
    found: dict[str, Any] = api.post(f"/groups/{group}/offsets/reset", body)
    return found


def test_a_preview_says_what_is_skipped_and_what_is_read_again(
    api: HttpApi, topic: str, group: str
) -> None:
    api.publish(topic, *"abcdefghij", partition=0)
    api.publish(topic, *"abc", partition=1)
    api.ask("POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 4}}})
    first, second = reset(api, group, topic, strategy="earliest")["changes"]
    assert first == {
        "topic": topic,
        "partition": 0,
        "before": 4,
        "after": 0,
        "log_start": 0,
        "log_end": 10,
        "skipped": 0,
        "again": 4,
    }
    assert (second["before"], second["skipped"], second["again"]) == (None, 0, 0)
    (to_end, _) = reset(api, group, topic, strategy="latest")["changes"]
    assert (to_end["after"], to_end["skipped"], to_end["again"]) == (10, 6, 0)
    assert api.get(f"/groups/{group}/offsets")["offsets"] == {topic: {"0": 4}}


def test_messages_that_are_gone_are_not_skipped(api: HttpApi, topic: str, group: str) -> None:
    api.publish(topic, *"abcdefghij", partition=0)
    api.ask("POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 2}}})
    api.ask("DELETE", f"/topics/{topic}/messages?confirm=true&partition=0&before=6")
    (change,) = reset(api, group, topic, strategy="latest", partition=0)["changes"]
    assert (change["log_start"], change["skipped"]) == (6, 4)


def test_every_setting_is_shown_with_where_it_comes_from(api: HttpApi, topic: str) -> None:
    api.ask("PATCH", f"/topics/{topic}", {"settings": {"retention.ms": 60_000}})
    answer = api.get(f"/topics/{topic}/settings")
    by_name = {each["name"]: each for each in answer["settings"]}
    assert list(by_name) == sorted(by_name)
    retention = by_name["retention.ms"]
    assert (retention["value"], retention["source"]) == ("60000", "topic")
    assert (retention["default"], retention["type"]) == ("604800000", "long")
    assert retention["description"]
    policy = by_name["cleanup.policy"]
    assert (policy["value"], policy["default"], policy["source"]) == ("delete", "delete", "default")
    assert api.ask("GET", "/topics/nowhere/settings").code == "unknown_topic"


def test_a_purge_removes_messages_and_keeps_the_topic(api: HttpApi, topic: str) -> None:
    api.publish(topic, *"abcd", partition=0)
    api.publish(topic, *"ab", partition=1)
    some = api.ask("DELETE", f"/topics/{topic}/messages?confirm=true&partition=0&before=3").json
    assert some == {
        "topic": topic,
        "removed": 3,
        "partitions": [{"partition": 0, "earliest_offset": 3, "removed": 3}],
    }
    everything = api.ask("DELETE", f"/topics/{topic}/messages?confirm=true").json
    assert everything["removed"] == 3
    assert [each["earliest_offset"] for each in everything["partitions"]] == [4, 2]
    assert api.get(f"/topics/{topic}/search")["messages"] == []
    (result,) = api.publish(topic, "next", partition=0)
    assert result["offset"] == 4


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "invalid_field"),
        ("confirm=false", "invalid_field"),
        ("confirm=true&before=3", "invalid_field"),
        ("confirm=true&partition=0&before=9999", "offset_out_of_range"),
        ("confirm=true&partition=7", "unknown_partition"),
    ],
)
def test_a_purge_that_is_not_meant_so_removes_nothing(
    api: HttpApi, topic: str, query: str, code: str
) -> None:
    api.publish(topic, "a", partition=0)
    assert api.ask("DELETE", f"/topics/{topic}/messages?{query}").code == code
    assert len(api.get(f"/topics/{topic}/search")["messages"]) == 1


def test_topics_of_the_broker_itself_are_not_purged(api: HttpApi) -> None:
    path = "/topics/__consumer_offsets/messages?confirm=true"
    assert api.ask("DELETE", path).code == "internal_topic"
    assert api.ask("DELETE", "/topics/nowhere/messages?confirm=true").code == "unknown_topic"


def test_the_list_of_topics_says_how_busy_each_is(api: HttpApi, topic: str) -> None:
    api.publish(topic, *"abc")
    topics = api.get("/stats")["topics"]
    assert topics[topic]["published_per_s"] > 0
    assert topics[topic]["failed_partitions"] == 0
    assert (topics[topic]["internal"], topics["__consumer_offsets"]["internal"]) == (False, True)


def test_offsets_of_named_partitions_are_shown_whether_they_were_read_or_not(
    api: HttpApi, topic: str, group: str
) -> None:
    api.publish(topic, "one", "two", partition=0)
    path = f"/groups/{group}/offsets"
    api.post(path, {"offsets": {topic: {"0": 1}}})
    whole = api.get(path)
    assert whole["offsets"] == {topic: {"0": 1}}
    assert whole["log_ends"] == {topic: {"0": 2}}
    named = api.get(f"{path}?partitions={topic}:0,{topic}:1")
    assert named["offsets"] == {topic: {"0": 1, "1": None}}
    assert named["log_ends"] == {topic: {"0": 2, "1": 0}}
    assert (named["lag"], named["total_lag"]) == ({topic: {"0": 1, "1": 0}}, 1)
    for wrong in ("", topic, f"{topic}:", ":0", f"{topic}:-1", f"{topic}:x", f"{topic}:²"):
        assert api.ask("GET", f"{path}?partitions={quote(wrong)}").code == "invalid_field"
    assert api.ask("GET", f"{path}?partitions={topic}:2").code == "unknown_partition"
    assert api.ask("GET", f"{path}?partitions={topic}:9999999999").code == "unknown_partition"


def test_a_reset_takes_several_partitions(api: HttpApi, topic: str, group: str) -> None:
    api.publish(topic, "one", partition=0)
    found = reset(api, group, topic, strategy="latest", partitions=[1, 0])["changes"]
    assert {each["partition"]: each["after"] for each in found} == {0: 1, 1: 0}
    body = {"topic": topic, "strategy": "latest", "partition": 0, "partitions": [1]}
    answer = api.ask("POST", f"/groups/{group}/offsets/reset", body)
    assert (answer.code, answer.json["field"]) == ("invalid_field", "partitions")


def test_topics_are_listed_with_their_details(api: HttpApi, topic: str) -> None:
    found = api.get("/topics?details")
    assert [each["name"] for each in found["details"]] == found["topics"]
    assert api.get(f"/topics/{topic}") in found["details"]
    assert "details" not in api.get("/topics")
