from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.http_api import HttpApi
    from support.server import ServerProcess


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_a_topic_is_made_listed_described_and_deleted(
    api: HttpApi, name: Callable[[str], str], prefix: str
) -> None:
    topic = name("made")
    made = api.ask("POST", f"{prefix}/topics", {"name": topic, "num_partitions": 4})
    assert made.status == 201
    assert made.json["num_partitions"] == 4
    assert topic in api.get(f"{prefix}/topics")["topics"]
    assert api.get(f"{prefix}/topics/{topic}") == made.json
    deleted = api.ask("DELETE", f"{prefix}/topics/{topic}")
    assert (deleted.status, deleted.json) == (200, {"deleted": topic})
    assert api.ask("GET", f"{prefix}/topics/{topic}").code == "unknown_topic"


def test_a_topic_without_wishes_gets_the_server_s_defaults(
    api: HttpApi, name: Callable[[str], str]
) -> None:
    made = api.post("/topics", {"name": name("plain")})
    assert (made["num_partitions"], made["settings"], made["internal"]) == (3, {}, False)


def test_a_second_topic_of_the_same_name_is_a_conflict(api: HttpApi, topic: str) -> None:
    answer = api.ask("POST", "/topics", {"name": topic})
    assert (answer.status, answer.code, answer.json["field"]) == (409, "topic_exists", "name")


def test_there_are_no_more_replicas_than_nodes(api: HttpApi, name: Callable[[str], str]) -> None:
    assert api.post("/topics", {"name": name("one"), "replication_factor": 1})["num_partitions"]
    wish = {"name": name("more"), "replication_factor": api.node_count + 1}
    answer = api.ask("POST", "/topics", wish)
    assert (answer.status, answer.json["field"]) == (400, "replication_factor")
    assert answer.json["detail"].startswith(f"replication factor {api.node_count + 1}")
    assert wish["name"] not in api.get("/topics")["topics"]


def test_retention_hours_are_kafka_s_milliseconds(api: HttpApi, name: Callable[[str], str]) -> None:
    made = api.post("/topics", {"name": name("kept"), "retention_hours": 2})
    assert made["settings"] == {"retention.ms": "7200000"}
    made = api.post("/topics", {"name": name("kept"), "retention_hours": -1})
    assert made["settings"] == {"retention.ms": "-1"}


def test_two_ways_to_say_the_retention_contradict(api: HttpApi, name: Callable[[str], str]) -> None:
    wish = {"name": name("twice"), "retention_hours": 2, "settings": {"retention.ms": 5}}
    answer = api.ask("POST", "/topics", wish)
    assert (answer.status, answer.json["field"]) == (400, "retention_hours")
    assert wish["name"] not in api.get("/topics")["topics"]


def test_a_patch_changes_what_it_names_and_a_put_everything(api: HttpApi, topic: str) -> None:
    path = f"/topics/{topic}"
    api.ask("PUT", path, {"settings": {"retention.ms": 1000, "cleanup.policy": "compact"}})
    patched = api.ask("PATCH", path, {"settings": {"retention.ms": None, "flush.ms": 5}})
    assert patched.json["settings"] == {"cleanup.policy": "compact", "flush.ms": "5"}
    put = api.ask("PUT", path, {"settings": {"preallocate": True}})
    assert put.json["settings"] == {"preallocate": "true"}
    assert api.get(path)["settings"] == {"preallocate": "true"}


def test_settings_that_do_not_exist_are_all_named(api: HttpApi, topic: str) -> None:
    wish = {"settings": {"no.such": 1, "retention.ms": "soon"}}
    answer = api.ask("PATCH", f"/topics/{topic}", wish)
    assert (answer.status, answer.code) == (400, "invalid_settings")
    assert "no.such" in answer.json["detail"]
    assert "retention.ms" in answer.json["detail"]
    assert api.get(f"/topics/{topic}")["settings"] == {}


@pytest.mark.parametrize("path", ["/topics/{}/partitions", "/admin/topics/{}/partitions"])
def test_a_topic_grows_and_never_shrinks(api: HttpApi, topic: str, path: str) -> None:
    assert api.post(path.format(topic), {"count": 5})["num_partitions"] == 5
    answer = api.ask("POST", path.format(topic), {"count": 3})
    assert (answer.status, answer.code) == (400, "invalid_partition_count")
    partitions = api.get(f"/topics/{topic}/partitions")["partitions"]
    assert [each["partition"] for each in partitions] == [0, 1, 2, 3, 4]
    nodes = [*range(1, api.node_count + 1)]
    assert all(sorted(each["replicas"]) == sorted(each["isr"]) == nodes for each in partitions)
    assert all(each["leader"] in nodes for each in partitions)


def test_new_partitions_may_be_assigned_to_nodes_that_exist(api: HttpApi, topic: str) -> None:
    here = api.get(f"/topics/{topic}/partitions")["partitions"][0]["replicas"]
    path = f"/topics/{topic}/partitions"
    assert api.post(path, {"count": 3, "replica_assignments": [here]})["num_partitions"] == 3
    for wrong in ([[77]], [here, here], [[]], [[here[0], here[0]]]):
        answer = api.ask("POST", path, {"count": 4, "replica_assignments": wrong})
        assert (answer.status, answer.code) == (400, "invalid_replica_assignment")
        assert answer.json["field"] == "replica_assignments"
    assert api.get(f"/topics/{topic}")["num_partitions"] == 3


def test_a_description_counts_what_was_published(api: HttpApi, topic: str) -> None:
    api.publish(topic, "one", "two", partition=1)
    found = api.get(f"/topics/{topic}")
    assert found["total_messages"] == 2
    assert found["size_bytes"] == found["partitions"][1]["size_bytes"] > 0
    last = found["partitions"][1]
    assert (last["earliest_offset"], last["latest_offset"], last["high_watermark"]) == (0, 2, 2)


def test_internal_topics_are_listed_on_request_and_never_changed(api: HttpApi) -> None:
    internal = "__consumer_offsets"
    assert internal not in api.get("/topics")["topics"]
    assert internal in api.get("/topics?internal=true")["topics"]
    assert internal in api.get("/topics?internal")["topics"]
    assert api.ask("DELETE", f"/topics/{internal}").code == "internal_topic"
    assert api.publish(internal, "mine")[0]["code"] == "internal_topic"


def test_a_topic_made_here_is_there_for_kafka_clients(
    api: HttpApi, broker: ServerProcess, topic: str
) -> None:
    metadata = AdminClient({"bootstrap.servers": broker.kafka_address}).list_topics(timeout=10)
    assert len(metadata.topics[topic].partitions) == 2


# --- For operators -------------------------------------------------------------------------------


def test_a_compaction_keeps_the_newest_message_of_each_key(
    api: HttpApi, name: Callable[[str], str]
) -> None:
    topic = name("compacted")
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": 1024}
    api.post("/topics", {"name": topic, "num_partitions": 1, "settings": settings})
    for number in range(40):
        api.publish(topic, f"{number}" + "." * 100, key=f"key-{number % 3}")
    path = f"/admin/topics/{topic}/compact"
    before = api.post(path, {"dry_run": True})
    (planned,) = before["partitions"]
    assert before["dry_run"]
    assert planned["dirty_ratio"] == 1
    assert planned["bytes_after"] is None
    (done,) = api.post(path)["partitions"]
    assert done["records_after"] < done["records_before"]
    assert done["bytes_after"] < done["bytes_before"] == planned["bytes_before"]
    values = [m["value"] for m in api.get(f"/topics/{topic}/messages")["messages"]]
    assert [value.rstrip(".") for value in values[-3:]] == ["37", "38", "39"]


def test_a_topic_that_keeps_everything_is_not_compacted(api: HttpApi, topic: str) -> None:
    answer = api.ask("POST", f"/admin/topics/{topic}/compact")
    assert (answer.status, answer.json["field"]) == (400, "topic")
    api.ask("PATCH", f"/topics/{topic}", {"settings": {"cleanup.policy": "compact"}})
    answer = api.ask("POST", f"/admin/topics/{topic}/compact", {"partitions": [0, 2]})
    assert (answer.status, answer.json["field"]) == (400, "partitions")


def test_operators_see_where_groups_are_coordinated(api: HttpApi, topic: str, group: str) -> None:
    api.post(f"/groups/{group}/offsets", {"offsets": {topic: {"0": 0}}})
    found = api.get("/admin/coordinators")
    place = api.get(f"/admin/coordinators/groups/{group}")
    assert found["topic"] == place["topic"] == "__consumer_offsets"
    line = found["coordinators"][place["partition"]]
    assert line["group_count"] >= 1
    assert line["node_id"] == place["node_id"]
    assert place["node_id"] in range(1, api.node_count + 1)


@pytest.mark.parametrize("path", ["/admin/topics/{}/scaling-status", "/admin/scaling/{}"])
def test_one_node_has_nothing_left_to_scale(api: HttpApi, topic: str, path: str) -> None:
    found = api.get(path.format(topic))
    assert found == {
        "topic": topic,
        "in_progress": False,
        "num_partitions": 2,
        "target_partitions": None,
    }


def test_the_statistics_of_all_topics_add_up(api: HttpApi, topic: str) -> None:
    api.publish(topic, "one")
    found = api.get("/stats")
    assert found["topics"][topic] == {
        "partition_count": 2,
        "size_bytes": found["topics"][topic]["size_bytes"],
        "offset_span": 1,
        "internal": False,
        "published_per_s": found["topics"][topic]["published_per_s"],
        "failed_partitions": 0,
    }
    assert found["size_bytes"] == sum(each["size_bytes"] for each in found["topics"].values())
    assert found["topic_count"] == len(found["topics"])


def test_the_clock_of_the_server_is_ours(api: HttpApi) -> None:
    assert abs(api.get("/health")["timestamp"] - time.time() * 1000) < 60_000
