from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from support.http_api import HttpApi

if TYPE_CHECKING:
    from support.server import ServerProcess


def join(api: HttpApi, group: str, *topics: str, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = api.post(f"/groups/{group}/join", {"topics": topics, **fields})
    return found


def poll(api: HttpApi, group: str, member: dict[str, Any], query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = api.get(
        f"/groups/{group}/poll?member_id={member['member_id']}&timeout=60s&{query}"
    )
    return found


def settle(api: HttpApi, group: str, *members: dict[str, Any]) -> list[dict[str, Any]]:
    """Heartbeats until the group is stable; the last answer to each member."""
    for _ in range(20):
        said = [
            api.post(f"/groups/{group}/heartbeat", {"member_id": each["member_id"]})
            for each in members
        ]
        if all(each["state"] == "Stable" for each in said):
            return said
    raise AssertionError(f"not stable: {said}")


def test_a_member_joins_polls_commits_and_leaves(api: HttpApi, topic: str, group: str) -> None:
    api.publish(topic, "one", "two", "three", partition=0)
    member = join(api, group, topic, client_id="worker")
    assert member["member_id"].startswith("worker-")
    assert member["partitions"] == member["added"] == {topic: [0, 1]}
    assert member["members"] == [member["member_id"]]
    assert (member["leader_id"], member["protocol"]) == (None, "cooperative")
    polled = poll(api, group, member, "limit=2")
    assert [message["value"] for message in polled["messages"]] == ["one", "two"]
    assert polled["next_offsets"][topic]["0"] == 2
    commit = {
        "member_id": member["member_id"],
        "generation": polled["generation"],
        "offsets": polled["next_offsets"],
    }
    assert api.post(f"/groups/{group}/offsets", commit)["committed"] == polled["next_offsets"]
    assert poll(api, group, member)["messages"][0]["value"] == "three"
    found = api.get(f"/groups/{group}/offsets")
    assert found["offsets"][topic]["0"] == 2
    assert found["lag"][topic]["0"] == found["total_lag"] == 1
    left = api.post(f"/groups/{group}/leave", {"member_id": member["member_id"]})
    assert left == {"member_id": member["member_id"]}
    assert api.get(f"/groups/{group}")["state"] == "Empty"


def test_a_new_member_of_an_old_group_goes_on_where_it_was(
    api: HttpApi, topic: str, group: str
) -> None:
    api.publish(topic, "one", "two", partition=0)
    api.post(f"/groups/{group}/offsets", {"offsets": {topic: {"0": 1}}})
    member = join(api, group, topic)
    assert [message["value"] for message in poll(api, group, member)["messages"]] == ["two"]


def test_a_group_may_begin_at_the_latest(api: HttpApi, topic: str, group: str) -> None:
    api.publish(topic, "old", partition=0)
    member = join(api, group, topic, start="latest")
    assert poll(api, group, member, "timeout=0")["messages"] == []
    api.publish(topic, "new", partition=0)
    assert [message["value"] for message in poll(api, group, member)["messages"]] == ["new"]


def test_an_answer_that_got_lost_is_read_again(api: HttpApi, topic: str, group: str) -> None:
    api.publish(topic, "one", partition=0)
    member = join(api, group, topic, assignment="log")
    assert poll(api, group, member)["messages"]
    assert poll(api, group, member, "timeout=0")["messages"] == []
    again = poll(api, group, member, "rewind")
    assert [message["value"] for message in again["messages"]] == ["one"]


def test_a_poll_that_waits_is_woken_by_a_publish(
    api: HttpApi, broker: ServerProcess, topic: str, group: str
) -> None:
    member = join(api, group, topic)

    def publish_soon() -> None:
        other = HttpApi(broker.http_port)
        other.publish(topic, "at last", partition=1)
        other.close()

    timer = threading.Timer(0.7, publish_soon)
    timer.start()
    began = time.monotonic()
    polled = api.get(f"/groups/{group}/poll?member_id={member['member_id']}&timeout=60s")
    assert [message["value"] for message in polled["messages"]] == ["at last"]
    assert time.monotonic() - began < 45
    timer.join()


def test_a_second_member_is_given_its_share_while_the_first_one_reads_on(
    api: HttpApi, topic: str, group: str
) -> None:
    first = join(api, group, topic)
    second = join(api, group, topic)
    assert second["partitions"] == {}
    said = settle(api, group, first, second)
    shares = [each["partitions"][topic] for each in said]
    assert sorted(shares) == [[0], [1]]
    assert said[0]["generation"] > first["generation"]
    for number, share in enumerate(shares):
        api.publish(topic, f"for-{number}", partition=share[0])
    for number, member in enumerate((first, second)):
        polled = poll(api, group, member)
        assert [message["value"] for message in polled["messages"]] == [f"for-{number}"]


def test_a_member_that_acknowledges_keeps_a_partition_until_it_does(
    api: HttpApi, topic: str, group: str
) -> None:
    path = f"/groups/{group}"
    first = api.post(f"{path}/join/cooperative", {"topics": [topic]})
    second = api.post(f"{path}/join/cooperative", {"topics": [topic]})
    said = api.post(f"{path}/heartbeat/cooperative", {"member_id": first["member_id"]})
    (given_up,) = said["partitions_to_revoke"][topic]
    assert said["rebalance_required"]
    assert said["revoked"] == {topic: [given_up]}
    for _ in range(3):
        waiting = api.post(f"{path}/heartbeat", {"member_id": second["member_id"]})
        assert waiting["partitions"] == {}
    commit = {"member_id": first["member_id"], "offsets": {topic: {str(given_up): 0}}}
    api.post(f"{path}/offsets", commit)
    released = api.post(f"{path}/revoke", {"member_id": first["member_id"]})
    assert released["partitions_to_revoke"] == {}
    said = settle(api, group, first, second)
    assert said[1]["partitions"] == {topic: [given_up]}
    api.post(f"{path}/leave/cooperative", {"member_id": first["member_id"]})
    assert settle(api, group, second)[0]["partitions"] == {topic: [0, 1]}


def test_members_of_many_threads_share_every_message_once(
    api: HttpApi, broker: ServerProcess, group: str, topic: str
) -> None:
    api.post(f"/topics/{topic}/partitions", {"count": 8})
    count, members = 400, 4
    seen: list[tuple[str, int, int]] = []
    done = threading.Event()

    def work(number: int) -> None:
        client = HttpApi(broker.http_port)
        member = join(client, group, topic, client_id=f"worker-{number}")
        path = f"/groups/{group}"
        deadline = time.monotonic() + 120
        while not done.is_set() and time.monotonic() < deadline:
            polled = client.get(
                f"{path}/poll?member_id={member['member_id']}&timeout=300ms&limit=20"
            )
            seen.extend((m["value"], m["partition"], m["offset"]) for m in polled["messages"])
            own = set(polled["partitions"].get(topic, []))
            offsets = {
                partition: offset
                for partition, offset in polled["next_offsets"].get(topic, {}).items()
                if int(partition) in own
            }
            commit = {"member_id": member["member_id"], "offsets": {topic: offsets}}
            if offsets:
                client.ask("POST", f"{path}/offsets", commit)
            if len({value for value, _, _ in seen}) == count:
                done.set()
        client.close()

    with ThreadPoolExecutor(members) as pool:
        workers = [pool.submit(work, number) for number in range(members)]
        for number in range(count):
            api.publish(topic, str(number))
        for worker in workers:
            worker.result()
    assert {value for value, _, _ in seen} == {str(number) for number in range(count)}
    group_offsets = api.get(f"/groups/{group}/offsets")
    assert group_offsets["total_lag"] <= count
    assert len(api.get(f"/groups/{group}")["members"]) == members


# --- What is refused -----------------------------------------------------------------------------


def test_an_assignment_that_nobody_knows_is_refused(api: HttpApi, topic: str, group: str) -> None:
    wish = {"topics": [topic], "assignment": "sideways"}
    answer = api.ask("POST", f"/groups/{group}/join", wish)
    assert (answer.status, answer.json["field"]) == (400, "assignment")
    assert api.ask("GET", f"/groups/{group}").status == 404


def test_a_topic_that_does_not_exist_is_named(api: HttpApi, topic: str, group: str) -> None:
    answer = api.ask("POST", f"/groups/{group}/join", {"topics": [topic, "nowhere"]})
    assert (answer.status, answer.code, answer.json["field"]) == (
        404,
        "unknown_topic",
        "topics[1]",
    )


def test_a_stale_generation_is_refused_and_a_heartbeat_tells_the_new_one(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic)
    stale = member["generation"] + 5
    body = {"member_id": member["member_id"], "generation": stale}
    for method, path, wish in (
        ("POST", "heartbeat", body),
        ("POST", "leave", body),
        ("POST", "offsets", {**body, "offsets": {topic: {"0": 0}}}),
        ("GET", f"poll?member_id={member['member_id']}&generation={stale}", None),
    ):
        answer = api.ask(method, f"/groups/{group}/{path}", wish)
        assert (answer.status, answer.code) == (409, "stale_generation"), path
    said = api.post(f"/groups/{group}/heartbeat", {"member_id": member["member_id"]})
    assert said["generation"] == member["generation"]


@pytest.mark.parametrize("path", ["heartbeat", "leave", "revoke", "poll"])
def test_a_member_that_nobody_knows_is_not_found(api: HttpApi, group: str, path: str) -> None:
    if path == "poll":
        answer = api.ask("GET", f"/groups/{group}/poll?member_id=nobody")
    else:
        answer = api.ask("POST", f"/groups/{group}/{path}", {"member_id": "nobody"})
    assert (answer.status, answer.code, answer.json["field"]) == (
        404,
        "unknown_member",
        "member_id",
    )


def test_a_member_commits_its_own_partitions_only(api: HttpApi, topic: str, group: str) -> None:
    first, second = join(api, group, topic), join(api, group, topic)
    said = settle(api, group, first, second)
    (others,) = said[1]["partitions"][topic]
    commit = {"member_id": first["member_id"], "offsets": {topic: {str(others): 0}}}
    answer = api.ask("POST", f"/groups/{group}/offsets", commit)
    assert (answer.status, answer.code) == (403, "partition_not_assigned")


def test_a_poll_may_not_wait_for_ever(api: HttpApi, topic: str, group: str) -> None:
    member = join(api, group, topic)
    for timeout in ("61s", "60001", "soon", "-1"):
        path = f"/groups/{group}/poll?member_id={member['member_id']}&timeout={timeout}"
        answer = api.ask("GET", path)
        assert (answer.status, answer.json["field"]) == (400, "timeout")


# --- Looking at groups ---------------------------------------------------------------------------


def test_groups_are_listed_described_and_deleted(api: HttpApi, topic: str, group: str) -> None:
    member = join(api, group, topic, client_id="me")
    line = next(each for each in api.get("/groups")["groups"] if each["group"] == group)
    assert (line["state"], line["protocol"], line["member_count"]) == ("Stable", "consumer", 1)
    assert line["total_lag"] == 0
    api.publish(topic, "one", "two", partition=0)
    fields = {"member_id": member["member_id"], "generation": member["generation"]}
    api.post(f"/groups/{group}/offsets", {**fields, "offsets": {topic: {"0": 1}}})
    line = next(each for each in api.get("/groups")["groups"] if each["group"] == group)
    assert (line["total_lag"], line["topics"]) == (1, [topic])
    found = api.get(f"/groups/{group}")
    assert found == api.get(f"/groups/{group}/cooperative")
    (seen,) = found["members"]
    assert (seen["client_id"], seen["client_host"]) == ("me", "127.0.0.1")
    assert seen["partitions"] == {topic: [0, 1]}
    assert api.ask("DELETE", f"/groups/{group}").code == "group_not_empty"
    api.post(f"/groups/{group}/leave", {"member_id": member["member_id"]})
    assert api.ask("DELETE", f"/groups/{group}").json == {"deleted": group}
    assert api.ask("GET", f"/groups/{group}").code == "unknown_group"
    assert api.ask("DELETE", f"/groups/{group}").code == "unknown_group"
    assert api.ask("GET", f"/groups/{group}/offsets").code == "unknown_group"


def test_an_assignment_is_shown_for_all_or_for_one(api: HttpApi, topic: str, group: str) -> None:
    member = join(api, group, topic)
    for query in ("", f"?member_id={member['member_id']}"):
        found = api.get(f"/groups/{group}/assignment{query}")
        assert [each["partitions"] for each in found["members"]] == [{topic: [0, 1]}]
    answer = api.ask("GET", f"/groups/{group}/assignment?member_id=nobody")
    assert answer.code == "unknown_member"


def test_rebalances_are_counted_by_group_and_for_all(api: HttpApi, topic: str, group: str) -> None:
    before = api.get("/rebalance/stats")["joins"]
    settle(api, group, join(api, group, topic), join(api, group, topic))
    found = api.get(f"/groups/{group}/rebalance/stats")
    assert found["joins"] == 2
    assert found["reasons"]["member_joined"] == 2
    assert found["total"] == found["successful"] + found["failed"] + found["superseded"]
    assert found["last_at"] > 0
    assert api.get("/rebalance/stats")["joins"] == before + 2


# --- Offsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "after"),
    [
        ({"strategy": "earliest"}, [0, 0]),
        ({"strategy": "latest"}, [5, 0]),
        ({"strategy": "offset", "offset": 3, "partition": 0}, [3]),
        ({"strategy": "timestamp", "timestamp": 1_700_000_002_000}, [2, 0]),
        ({"strategy": "timestamp", "timestamp": "2023-11-14T22:13:22Z", "partition": 0}, [2]),
    ],
)
def test_a_reset_is_previewed_and_then_done(
    api: HttpApi, topic: str, group: str, wish: dict[str, Any], after: list[int]
) -> None:
    for second in range(5):
        api.publish(topic, "x", partition=0, timestamp=1_700_000_000_000 + 1000 * second)
    path = f"/groups/{group}/offsets"
    api.post(path, {"offsets": {topic: {"0": 1}}})
    preview = api.post(f"{path}/reset", {"topic": topic, "dry_run": True, **wish})
    assert preview["dry_run"]
    assert [change["after"] for change in preview["changes"]] == after
    assert preview["changes"][0]["before"] == 1
    assert api.get(path)["offsets"] == {topic: {"0": 1}}
    done = api.post(f"{path}/reset", {"topic": topic, **wish})
    assert done["changes"] == preview["changes"]
    expected = {str(number): offset for number, offset in enumerate(after)}
    assert api.get(path)["offsets"] == {topic: expected}


@pytest.mark.parametrize(
    ("wish", "status", "field"),
    [
        ({"strategy": "offset"}, 400, "offset"),
        ({"strategy": "timestamp"}, 400, "timestamp"),
        ({"strategy": "timestamp", "timestamp": "yesterday"}, 400, "timestamp"),
        ({"strategy": "offset", "offset": 9}, 416, "offset"),
        ({"strategy": "earliest", "partition": 7}, 404, "partition"),
        ({"strategy": "earliest", "topic": "nowhere"}, 404, "topic"),
        ({"strategy": "sideways"}, 400, "strategy"),
    ],
)
def test_a_reset_to_nowhere_changes_nothing(
    api: HttpApi, topic: str, wish: dict[str, Any], status: int, field: str
) -> None:
    group = f"of-{topic}"
    answer = api.ask("POST", f"/groups/{group}/offsets/reset", {"topic": topic, **wish})
    assert (answer.status, answer.json["field"]) == (status, field)
    assert api.ask("GET", f"/groups/{group}").status == 404


def test_a_group_with_members_is_not_moved_under_them(api: HttpApi, topic: str, group: str) -> None:
    join(api, group, topic)
    wish = {"topic": topic, "strategy": "earliest"}
    answer = api.ask("POST", f"/groups/{group}/offsets/reset", wish)
    assert (answer.status, answer.code) == (409, "group_not_empty")


@pytest.mark.parametrize(
    ("offsets", "status", "field"),
    [
        ({"nowhere": {"0": 1}}, 404, "offsets.nowhere.0"),
        ({"TOPIC": {"7": 1}}, 404, "offsets.TOPIC.7"),
        ({"TOPIC": {"0": -1}}, 400, None),
        ({"TOPIC": {"zero": 1}}, 400, None),
        ({"TOPIC": {"-1": 1}}, 400, None),
        ({}, 400, "offsets"),
    ],
)
def test_offsets_of_nothing_are_not_committed(
    api: HttpApi, topic: str, offsets: dict[str, Any], status: int, field: str | None
) -> None:
    group = f"of-{topic}"
    named = {topic if key == "TOPIC" else key: value for key, value in offsets.items()}
    answer = api.ask("POST", f"/groups/{group}/offsets", {"offsets": named})
    assert answer.status == status, answer
    found = answer.json["field"]
    assert found.startswith("offsets")
    if field is not None:
        assert found == field.replace("TOPIC", topic)
    assert api.ask("GET", f"/groups/{group}").status == 404


def test_a_member_over_http_shares_a_group_with_a_kafka_client(
    api: HttpApi, broker: ServerProcess, topic: str, group: str
) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.kafka_address,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    member = join(api, group, topic, assignment="log")
    deadline = time.monotonic() + 120
    shares: list[list[int]] = []
    while time.monotonic() < deadline:
        consumer.poll(0.2)
        api.post(f"/groups/{group}/heartbeat", {"member_id": member["member_id"]})
        found = api.get(f"/groups/{group}")
        shares = sorted(each["partitions"].get(topic, []) for each in found["members"])
        if shares == [[0], [1]] and found["state"] == "Stable":
            break
    consumer.close()
    assert shares == [[0], [1]]


# --- What a member may ask for -------------------------------------------------------------------


def test_a_member_that_is_silent_for_its_own_session_timeout_is_out(
    api: HttpApi, topic: str, group: str
) -> None:
    silent = join(api, group, topic, assignment="log", session_timeout="6s")
    patient = join(api, group, topic, assignment="log")
    deadline_s = time.monotonic() + 120
    while True:
        said = api.post(f"/groups/{group}/heartbeat", {"member_id": patient["member_id"]})
        if said["partitions"] == {topic: [0, 1]}:
            break
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
    answer = api.ask("POST", f"/groups/{group}/heartbeat", {"member_id": silent["member_id"]})
    assert (answer.status, answer.code) == (404, "unknown_member")


@pytest.mark.parametrize("timeout", ["5s", "1d", "soon"])
def test_a_session_timeout_out_of_bounds_is_refused(
    api: HttpApi, topic: str, group: str, timeout: str
) -> None:
    for assignment in ("log", "exclusive", "shared"):
        body = {"topics": [topic], "assignment": assignment, "session_timeout": timeout}
        answer = api.ask("POST", f"/groups/{group}/join", body)
        assert (answer.status, answer.json["field"]) == (400, "session_timeout")


@pytest.mark.parametrize(
    ("assignor", "shares"),
    [
        ("range", [[0, 1, 2], [3, 4]]),
        ("round-robin", [[0, 2, 4], [1, 3]]),
        ("sticky", None),
    ],
)
def test_a_member_chooses_how_partitions_are_shared_out(
    api: HttpApi, topic: str, group: str, assignor: str, shares: list[list[int]] | None
) -> None:
    api.post(f"/topics/{topic}/partitions", {"count": 5})
    members = [
        join(api, group, topic, assignment="log", assignor=assignor, client_id=client)
        for client in ("a", "b")
    ]
    found = [each["partitions"][topic] for each in settle(api, group, *members)]
    assert sorted(number for share in found for number in share) == [0, 1, 2, 3, 4]
    if shares is not None:
        assert sorted(found) == sorted(shares)


def committed_offsets(api: HttpApi, group: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/groups/{group}/offsets")["offsets"]
    return found


def test_each_poll_commits_what_the_one_before_returned(
    api: HttpApi, topic: str, group: str
) -> None:
    api.publish(topic, "one", "two", "three", partition=0)
    wishes = {"assignment": "log", "auto_commit": True, "auto_commit_interval": 0}
    member = join(api, group, topic, **wishes)
    assert [each["value"] for each in poll(api, group, member, "limit=2")["messages"]] == [
        "one",
        "two",
    ]
    assert committed_offsets(api, group).get(topic, {}).get("0") is None
    poll(api, group, member, "limit=1")
    assert committed_offsets(api, group)[topic]["0"] == 2
    api.post(f"/groups/{group}/leave", {"member_id": member["member_id"]})
    assert committed_offsets(api, group)[topic]["0"] == 3


def test_what_a_member_loses_is_committed_before_another_has_it(
    api: HttpApi, topic: str, group: str
) -> None:
    api.publish(topic, "zero", partition=0)
    api.publish(topic, "one", partition=1)
    wishes = {"assignment": "log", "auto_commit": True, "auto_commit_interval": "1h"}
    first = join(api, group, topic, **wishes)
    seen: list[str] = []
    while len(seen) < 2:
        seen += [each["value"] for each in poll(api, group, first)["messages"]]
    second = join(api, group, topic, **wishes)
    for _ in range(20):
        assert poll(api, group, first, "timeout=0")["messages"] == []
        polled = poll(api, group, second, "timeout=0")
        assert polled["messages"] == []
        if polled["partitions"]:
            break
    (lost,) = polled["partitions"][topic]
    assert committed_offsets(api, group)[topic][str(lost)] == 1


def test_a_queue_group_commits_nothing_by_itself(api: HttpApi, topic: str, group: str) -> None:
    for fields in (
        {"auto_commit": True},
        {"auto_commit_interval": "1s"},
        {"assignment": "shared", "assignor": "range"},
    ):
        answer = api.ask("POST", f"/groups/{group}/join", {"topics": [topic], **fields})
        assert (answer.status, answer.json["field"]) == (400, list(fields)[-1])
