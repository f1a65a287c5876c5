"""Queue groups over HTTP: who is handed what, for how long, and what becomes of it."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from support.http_api import HOST, HttpApi
from support.pace import in_time, unhurried
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.server import ServerProcess


def join(api: HttpApi, group: str, *topics: str, **fields: Any) -> str:
    body = {"topics": topics, "assignment": "shared", **fields}
    return str(api.post(f"/groups/{group}/join", body)["member_id"])


def ask(api: HttpApi, group: str, member: str, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/groups/{group}/poll?member_id={member}&timeout=60s&{query}")
    return found


def poll(api: HttpApi, group: str, member: str, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(api, group, member, query)["messages"]
    return found


def wait_for_ready(api: HttpApi, group: str, count: int) -> None:
    """Wait until the coordinator, which may have published nothing of it itself, has so many."""
    eventually(lambda: api.get(f"/groups/{group}")["queue"]["ready"] == count)


def nothing(api: HttpApi, group: str, member: str) -> bool:
    return poll(api, group, member, "timeout=0") == []


def ack(api: HttpApi, *messages: dict[str, Any]) -> None:
    for each in messages:
        api.post("/messages/ack", {"receipt_handle": each["receipt_handle"]})


def values(messages: list[dict[str, Any]]) -> list[str]:
    return [each["value"] for each in messages]


def committed(api: HttpApi, group: str, topic: str) -> int:
    return int(api.get(f"/groups/{group}/offsets")["offsets"][topic]["0"])


# --- Handing out ---------------------------------------------------------------------------------


def test_a_message_comes_with_everything_that_is_needed_to_settle_it(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic)
    before_ms = time.time() * 1000
    api.publish(topic, "x", key="k", partition=1, headers={"a": "b"}, priority="high")
    (found,) = poll(api, group, member)
    assert (found["topic"], found["partition"], found["offset"]) == (topic, 1, 0)
    assert (found["key"], found["value"], found["priority"]) == ("k", "x", "high")
    assert {"name": "a", "value": "b"} in found["headers"]
    assert found["delivery_count"] == 1
    place, _, nonce = found["receipt_handle"].rpartition(":")
    assert place == f"{topic}:1:0:1"
    assert re.fullmatch("[0-9a-f]{16}([0-9a-f]{2,4})?", nonce), "in a cluster, with its shard"
    assert 25_000 <= found["visible_until"] - before_ms <= 60_000


def test_shared_members_have_each_message_once_between_them(
    api: HttpApi, topic: str, group: str
) -> None:
    first, second = join(api, group, topic), join(api, group, topic)
    api.publish(topic, *(str(number) for number in range(10)))
    one = poll(api, group, first, "limit=4")
    two: list[dict[str, Any]] = []
    while len(two) < 6:  # partitions of a cluster have their messages one after the other
        two += poll(api, group, second)
    assert len(one) == 4
    assert sorted(values(one) + values(two)) == [str(number) for number in range(10)]
    assert nothing(api, group, first)
    ack(api, *one, *two)
    found = api.get(f"/groups/{group}")
    assert found["total_lag"] == 0
    assert (found["type"], found["mode"], found["protocol"]) == ("queue", "shared", "share")
    assert (found["queue"]["in_flight"], found["queue"]["ready"]) == (0, 0)


def test_a_message_that_is_not_acknowledged_in_time_comes_again_and_its_receipt_is_over(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic, visibility_timeout="200ms")
    api.publish(topic, "x", partition=0)
    (first,) = poll(api, group, member)
    (second,) = poll(api, group, member, "visibility=1h")
    assert time.time() * 1000 >= first["visible_until"]
    assert (first["delivery_count"], second["delivery_count"]) == (1, 2)
    answer = api.ask("POST", "/messages/ack", {"receipt_handle": first["receipt_handle"]})
    assert (answer.status, answer.code) == (409, "expired_receipt")
    ack(api, second)
    assert committed(api, group, topic) == 1
    stats = api.get("/reliability/stats")["groups"][group]
    assert (stats["delivered"], stats["acknowledgement"]["acks"]) == (2, 1)
    assert stats["visibility"] == {"tracked": 0, "in_flight": 0, "waiting": 0, "expired": 1}


def test_a_poll_says_how_long_its_messages_are_its_own(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic)
    api.publish(topic, "x", partition=0)
    (found,) = poll(api, group, member, "visibility=150ms")
    (again,) = poll(api, group, member, "visibility=1h")
    assert again["delivery_count"] == 2
    assert again["visible_until"] - found["visible_until"] > 3_000_000


def test_a_message_may_be_kept_for_longer(api: HttpApi, topic: str, group: str) -> None:
    member = join(api, group, topic, visibility_timeout="300ms", max_deliveries=250)
    api.publish(topic, "x", partition=0)
    while True:  # until it is asked for in time, which may take a busy machine a second attempt
        (found,) = poll(api, group, member)
        handle = found["receipt_handle"]
        wish = {"receipt_handle": handle, "extension_seconds": 300.5}
        answer = api.ask("POST", "/messages/visibility", wish)
        if answer.status == 200:
            break
        assert answer.code == "expired_receipt"
    assert answer.json["verdict"] == "extend"
    assert 250_000 <= answer.json["visible_until"] - found["visible_until"] <= 600_000
    assert poll(api, group, member, "timeout=500ms") == []
    api.post("/messages/visibility", {"receipt_handle": handle, "extension": "0s"})
    (again,) = poll(api, group, member)
    assert again["delivery_count"] == found["delivery_count"] + 1


def test_what_was_handed_back_waits_the_longer_the_more_often(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic, backoff="150ms", max_deliveries=5)
    api.publish(topic, "x", partition=0)
    (found,) = poll(api, group, member)
    waits = []
    for count in (2, 3):
        handle = found["receipt_handle"]
        began = time.monotonic()
        answer = api.post("/messages/nack", {"receipt_handle": handle, "reason": "not now"})
        assert answer == {"receipt_handle": handle, "verdict": "nack", "visible_until": None}
        (found,) = poll(api, group, member)
        waits.append(time.monotonic() - began)
        assert found["delivery_count"] == count
    assert waits[0] >= 0.14
    assert waits[1] >= 0.29


def test_a_nack_may_say_when_to_try_again(api: HttpApi, topic: str, group: str) -> None:
    member = join(api, group, topic, backoff="1h")
    api.publish(topic, "later", "soon", partition=0)
    later, soon = poll(api, group, member)
    api.post("/messages/nack", {"receipt_handle": later["receipt_handle"]})
    assert api.get(f"/groups/{group}")["queue"]["waiting"] == 1
    api.post("/messages/nack", {"receipt_handle": soon["receipt_handle"], "delay": "50ms"})
    (again,) = poll(api, group, member)
    assert (again["value"], again["delivery_count"]) == ("soon", 2)
    assert api.get(f"/groups/{group}")["queue"]["waiting"] == 1


def test_a_member_has_no_more_than_it_may(api: HttpApi, topic: str, group: str) -> None:
    first = join(api, group, topic, max_unacked=3)
    second = join(api, group, topic)
    api.publish(topic, *(str(number) for number in range(10)), partition=0)
    taken = poll(api, group, first, "limit=100")
    assert len(taken) == 3
    assert nothing(api, group, first)
    assert len(poll(api, group, second)) == 3
    members = api.get(f"/groups/{group}")["members"]
    assert [each["unacked"] for each in members] == [3, 3]
    ack(api, taken[1])
    assert values(poll(api, group, first)) == ["6"]


def test_a_poll_that_waits_is_woken_when_there_is_room_again(
    api: HttpApi, broker: ServerProcess, topic: str, group: str
) -> None:
    member = join(api, group, topic, max_unacked=1)
    api.publish(topic, "one", "two", partition=0)
    (first,) = poll(api, group, member)

    def ack_soon() -> None:
        other = HttpApi(broker.http_port)
        ack(other, first)
        other.close()

    timer = threading.Timer(0.3, ack_soon)
    timer.start()
    began = time.monotonic()
    assert values(poll(api, group, member, "timeout=60s")) == ["two"]
    assert time.monotonic() - began < 45
    timer.join()


def test_what_a_member_has_goes_to_others_when_it_leaves(
    api: HttpApi, topic: str, group: str
) -> None:
    first, second = join(api, group, topic), join(api, group, topic)
    api.publish(topic, "x", partition=0)
    (taken,) = poll(api, group, first)
    api.post(f"/groups/{group}/leave", {"member_id": first})
    (again,) = poll(api, group, second)
    assert again["delivery_count"] == 2
    answer = api.ask("POST", "/messages/ack", {"receipt_handle": taken["receipt_handle"]})
    assert answer.code == "expired_receipt"
    answer = api.ask("GET", f"/groups/{group}/poll?member_id={first}")
    assert (answer.status, answer.code) == (404, "unknown_member")


def test_a_client_that_goes_in_the_middle_of_a_poll_loses_nothing(
    api: HttpApi, broker: ServerProcess, topic: str, group: str
) -> None:
    first, second = join(api, group, topic, visibility_timeout="300ms"), join(api, group, topic)
    connection = http.client.HTTPConnection(HOST, broker.http_port)
    connection.request("GET", f"/groups/{group}/poll?member_id={first}&timeout=30s")
    time.sleep(0.2)
    connection.close()
    api.publish(topic, "x", partition=0)
    (found,) = poll(api, group, second)
    assert found["value"] == "x"


# --- Committed offsets ---------------------------------------------------------------------------


def test_acknowledging_moves_the_committed_offset_over_what_is_done_without_a_gap(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic)
    api.publish(topic, *"abcd", partition=0)
    answer = ask(api, group, member)
    taken = answer["messages"]
    assert answer["next_offsets"][topic]["0"] == 4
    ack(api, taken[1], taken[3])
    assert committed(api, group, topic) == 0
    assert api.get(f"/groups/{group}")["total_lag"] == 4
    ack(api, taken[0])
    assert committed(api, group, topic) == 2
    ack(api, taken[2])
    assert committed(api, group, topic) == 4
    metrics = api.metrics()
    lag = next(line for line in metrics.splitlines() if "consumer_lag{" in line and group in line)
    assert lag.endswith(" 0.0")


def test_committing_offsets_acknowledges_everything_before_them(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic)
    api.publish(topic, *"abcd", partition=0)
    taken = poll(api, group, member, "limit=3")
    body = {"member_id": member, "offsets": {topic: {"0": 2}}}
    api.post(f"/groups/{group}/offsets", body)
    assert committed(api, group, topic) == 2
    answer = api.ask("POST", "/messages/ack", {"receipt_handle": taken[0]["receipt_handle"]})
    assert (answer.status, answer.code) == (404, "unknown_receipt")
    ack(api, taken[2])
    assert values(poll(api, group, member)) == ["d"]
    answer = api.ask(
        "POST", f"/groups/{group}/offsets", {"member_id": member, "offsets": {topic: {"0": 99}}}
    )
    assert (answer.status, answer.code) == (400, "invalid_group_request")


def test_what_is_said_to_be_committed_next_is_only_what_this_member_was_handed(
    api: HttpApi, topic: str, group: str
) -> None:
    first, second = join(api, group, topic), join(api, group, topic)
    api.publish(topic, *"abcdef", partition=0)
    api.publish(topic, "urgent", partition=0, priority="critical")
    wait_for_ready(api, group, 7)
    one = ask(api, group, first, "limit=3")
    assert values(one["messages"]) == ["urgent", "a", "b"]
    assert one["next_offsets"][topic]["0"] == 2
    two = ask(api, group, second, "limit=2")
    assert values(two["messages"]) == ["c", "d"]
    assert two["next_offsets"][topic]["0"] == 0
    body = {"member_id": first, "offsets": one["next_offsets"]}
    api.post(f"/groups/{group}/offsets", body)
    again = ask(api, group, second, "limit=1")
    assert again["next_offsets"][topic]["0"] == 5


def test_a_queue_group_without_members_is_moved_elsewhere(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic)
    api.publish(topic, *"abcd", partition=0)
    path = f"/groups/{group}/offsets"
    reset = {"topic": topic, "strategy": "offset", "offset": 3, "partition": 0}
    assert api.ask("POST", f"{path}/reset", reset).code == "group_not_empty"
    ack(api, *poll(api, group, member))
    api.post(f"/groups/{group}/leave", {"member_id": member})
    preview = api.post(f"{path}/reset", {**reset, "dry_run": True})
    (change,) = preview["changes"]
    assert (change["topic"], change["partition"]) == (topic, 0)
    assert (change["before"], change["after"], change["again"]) == (4, 3, 1)
    assert committed(api, group, topic) == 4
    assert api.post(f"{path}/reset", reset)["changes"] == preview["changes"]
    assert committed(api, group, topic) == 3
    member = join(api, group, topic)
    (found,) = poll(api, group, member)
    assert (found["value"], found["delivery_count"]) == ("d", 1)
    ack(api, found)
    api.post(f"/groups/{group}/leave", {"member_id": member})
    api.post(path, {"offsets": {topic: {"0": 1}}})
    assert committed(api, group, topic) == 1


def test_a_group_begins_at_the_latest_if_it_is_asked_to(
    api: HttpApi, topic: str, group: str
) -> None:
    api.publish(topic, "old", partition=0)
    member = join(api, group, topic, start="latest")
    api.publish(topic, "new", partition=0)
    assert values(poll(api, group, member)) == ["new"]
    assert api.get(f"/groups/{group}/settings")["start"] == "latest"


# --- Exclusive -----------------------------------------------------------------------------------


def test_an_exclusive_group_keeps_the_order_when_a_message_is_tried_again(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic, assignment="exclusive")
    api.publish(topic, *"abc", partition=0)

    def scenario(time_ms: int) -> None:
        (first,) = poll(api, group, member, "limit=1")
        began_ms = time.time() * 1000
        body = {"receipt_handle": first["receipt_handle"], "delay": f"{time_ms}ms"}
        api.post("/messages/nack", body)
        is_silent = nothing(api, group, member)
        in_time(began_ms + time_ms)
        assert is_silent

    unhurried(scenario)
    assert values(poll(api, group, member)) == ["a", "b", "c"]


def test_a_partition_that_changes_hands_waits_for_what_its_last_owner_has(
    api: HttpApi, topic: str, group: str
) -> None:
    first = join(api, group, topic, assignment="exclusive")
    for number in range(2):
        api.publish(topic, "a", "b", partition=number)
    taken = poll(api, group, first)
    while len(taken) < 4:
        taken += poll(api, group, first)
    second = join(api, group, topic, assignment="exclusive")
    deadline = time.monotonic() + 90
    while True:
        for member in (first, second):
            said = api.post(f"/groups/{group}/heartbeat", {"member_id": member})
        if said["partitions"]:
            break
        assert time.monotonic() < deadline
    (number,) = said["partitions"][topic]
    api.publish(topic, "c", partition=number)
    held = [each for each in taken if each["partition"] == number]
    assert nothing(api, group, second)
    ack(api, held[0])
    assert nothing(api, group, second)
    ack(api, held[1])
    assert values(poll(api, group, second)) == ["c"]


def test_members_of_an_exclusive_group_get_each_partition_in_order(
    api: HttpApi, broker: ServerProcess, topic: str, group: str
) -> None:
    count, members = 300, 3
    api.post(f"/topics/{topic}/partitions", {"count": 4})
    seen: list[tuple[int, int]] = []
    acked: set[str] = set()
    done = threading.Event()

    def work() -> None:
        client = HttpApi(broker.http_port)
        member = join(client, group, topic, assignment="exclusive")
        deadline = time.monotonic() + 120
        while not done.is_set() and time.monotonic() < deadline:
            for each in poll(client, group, member, "timeout=300ms&limit=7"):
                seen.append((each["partition"], each["offset"]))
                handle = {"receipt_handle": each["receipt_handle"]}
                if client.ask("POST", "/messages/ack", handle).status == 200:
                    acked.add(each["value"])
            if len(acked) == count:
                done.set()
        client.close()

    with ThreadPoolExecutor(members) as pool:
        workers = [pool.submit(work) for _ in range(members)]
        for number in range(count):
            api.publish(topic, str(number))
        for worker in workers:
            worker.result()
    assert acked == {str(number) for number in range(count)}
    for number in range(4):
        offsets = [offset for partition, offset in seen if partition == number]
        assert all(a < b for a, b in pairwise(offsets)), offsets
    assert api.get(f"/groups/{group}")["total_lag"] == 0


# --- Lanes ---------------------------------------------------------------------------------------


def test_lanes_share_the_turns_by_their_weights(
    api: HttpApi, name: Callable[[str], str], group: str
) -> None:
    topic = name("lanes")
    api.post("/topics", {"name": topic, "num_partitions": 1})
    member = join(api, group, topic, max_unacked=100_000)
    for priority in ("background", "low", "normal", "high", "critical"):
        api.publish(topic, *([priority] * 400), priority=priority)
    wait_for_ready(api, group, 2000)
    taken: Counter[str] = Counter()
    for limit in (1, 3, 10, 86, 100, 200):
        found = poll(api, group, member, f"limit={limit}")
        assert len(found) == limit
        assert all(each["value"] == each["priority"] for each in found)
        taken.update(values(found))
    assert taken == {"critical": 200, "high": 100, "normal": 60, "low": 28, "background": 12}
    stats = api.get(f"/priority/stats?group={group}&topic={topic}")["groups"][group]
    assert {label: lane["served"] for label, lane in stats["lanes"].items()} == taken
    assert {label: lane["weight"] for label, lane in stats["lanes"].items()} == {
        "critical": 50,
        "high": 25,
        "normal": 15,
        "low": 7,
        "background": 3,
    }
    lanes = stats["topics"][topic]["0"]
    assert {label: lane["ready"] for label, lane in lanes.items()} == {
        label: 400 - count for label, count in taken.items()
    }
    assert {label: lane["in_flight"] for label, lane in lanes.items()} == taken
    assert lanes["background"]["oldest_offset"] == 12
    assert lanes["critical"]["oldest_timestamp"] >= lanes["background"]["oldest_timestamp"]
    assert stats["lanes"]["critical"]["last_served"] is not None


def test_other_weights_hold_from_the_next_poll_on(api: HttpApi, topic: str, group: str) -> None:
    member = join(api, group, topic, weights=[1, 1, 1, 1, 1])
    for priority in ("critical", "low"):
        api.publish(topic, *([priority] * 100), priority=priority, partition=0)
    wait_for_ready(api, group, 200)
    assert Counter(values(poll(api, group, member, "limit=20"))) == {"critical": 10, "low": 10}
    path = f"/groups/{group}/settings"
    changed = api.ask("PUT", path, {"weights": {"critical": 9}}).json["settings"]
    assert changed["weights"] == {
        "critical": 9,
        "high": 1,
        "normal": 1,
        "low": 1,
        "background": 1,
    }
    assert Counter(values(poll(api, group, member, "limit=20"))) == {"critical": 18, "low": 2}


def test_a_lane_that_starves_is_served(api: HttpApi, topic: str, group: str) -> None:
    member = join(
        api, group, topic, weights={"background": 0}, starvation_timeout="1h", max_unacked=10_000
    )
    api.publish(topic, "patient", priority="background", partition=0)
    api.publish(topic, *(["x"] * 1000), priority="critical", partition=0)
    wait_for_ready(api, group, 1001)
    assert "patient" not in values(poll(api, group, member, "limit=50"))
    changed = api.ask("PUT", f"/groups/{group}/settings", {"starvation_timeout": "1ms"})
    assert changed.status == 200
    assert "patient" in values(poll(api, group, member, "limit=5"))
    lanes = api.get(f"/priority/stats?group={group}")["groups"][group]["lanes"]
    assert lanes["background"]["boosts"] == 1


# --- Receipts ------------------------------------------------------------------------------------


def test_a_receipt_counts_once(api: HttpApi, topic: str, group: str) -> None:
    member = join(api, group, topic)
    api.publish(topic, "x", partition=0)
    (found,) = poll(api, group, member)
    handle = {"receipt_handle": found["receipt_handle"]}
    api.post("/messages/ack", handle)
    for path, more in (
        ("ack", {}),
        ("nack", {}),
        ("reject", {"reason": "x"}),
        ("visibility", {"extension_seconds": 1}),
    ):
        answer = api.ask("POST", f"/messages/{path}", {**handle, **more})
        assert (answer.status, answer.code) == (404, "unknown_receipt"), path
        assert answer.json["field"] == "receipt_handle"


def test_receipts_that_nobody_gave_are_refused_with_the_reason(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic)
    api.publish(topic, "x", partition=0)
    (found,) = poll(api, group, member)
    true = found["receipt_handle"]
    forged = true[:-16] + ("0" * 16 if true[-16:] != "0" * 16 else "1" * 16)
    for handle, status, code in (
        (forged, 404, "unknown_receipt"),
        (true.replace(":0:0:1:", ":0:0:2:"), 404, "unknown_receipt"),
        (true.replace(":0:0:1:", ":0:7:1:"), 404, "unknown_receipt"),
        (true.replace(":0:0:1:", ":9:0:1:"), 404, "unknown_receipt"),
        (true.replace(topic, "nowhere"), 404, "unknown_receipt"),
        ("", 400, "malformed_receipt"),
        ("x", 400, "malformed_receipt"),
        (true + "g", 400, "malformed_receipt"),
        (true.replace(":0:0:1:", ":0:-1:1:"), 400, "malformed_receipt"),
        ("é" * 10_000, 400, "malformed_receipt"),
        (true.upper(), 400, "malformed_receipt"),
    ):
        answer = api.ask("POST", "/messages/ack", {"receipt_handle": handle})
        assert (answer.status, answer.code) == (status, code), handle[:80]
    ack(api, found)


def test_a_receipt_of_another_group_is_foreign(api: HttpApi, topic: str, group: str) -> None:
    member = join(api, group, topic)
    join(api, f"{group}-other", topic)
    api.publish(topic, "x", partition=0)
    (found,) = poll(api, group, member)
    body = {"receipt_handle": found["receipt_handle"], "group": f"{group}-other"}
    answer = api.ask("POST", "/messages/ack", body)
    assert (answer.status, answer.code) == (409, "foreign_receipt")
    api.post("/messages/ack", {**body, "group": group})


def refused(api: HttpApi, verdict: str, message: dict[str, Any]) -> tuple[int, str]:
    body = {"receipt_handle": message["receipt_handle"]}
    answer = api.ask("POST", f"/messages/{verdict}", body)
    return answer.status, answer.code


def test_a_used_receipt_is_unknown_whatever_another_group_does_with_the_message(
    api: HttpApi, topic: str, group: str
) -> None:
    mine, theirs = join(api, group, topic), join(api, f"{group}-other", topic)
    api.publish(topic, "acknowledged", "handed back", partition=0)
    acknowledged, handed_back = poll(api, group, mine)
    for other in poll(api, f"{group}-other", theirs):
        api.post("/messages/nack", {"receipt_handle": other["receipt_handle"], "delay": "1h"})
    ack(api, acknowledged)
    api.post("/messages/nack", {"receipt_handle": handed_back["receipt_handle"], "delay": "1h"})
    assert refused(api, "ack", acknowledged) == (404, "unknown_receipt")
    assert refused(api, "ack", handed_back) == (404, "unknown_receipt")
    assert refused(api, "nack", handed_back) == (404, "unknown_receipt")


def test_an_expired_receipt_is_late_whatever_its_next_holder_does_with_the_message(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic, visibility_timeout="100ms", max_deliveries=250)
    for verdict in ("ack", "nack"):
        api.publish(topic, "x", partition=0)
        (late,) = poll(api, group, member)
        (again,) = poll(api, group, member, "visibility=1h")
        api.post(f"/messages/{verdict}", {"receipt_handle": again["receipt_handle"]})
        assert refused(api, "ack", late) == (409, "expired_receipt")


def test_a_batch_has_a_result_for_each_receipt(api: HttpApi, topic: str, group: str) -> None:
    member = join(api, group, topic, visibility_timeout="100ms", max_deliveries=9)
    api.publish(topic, *"abcd", partition=0)
    (old,) = poll(api, group, member, "limit=1")
    taken = poll(api, group, member, "visibility=1h&limit=3")
    last = poll(api, group, member, "visibility=1h")
    assert sorted(values(taken) + values(last)) == ["a", "b", "c", "d"]
    good = [each["receipt_handle"] for each in taken]
    handles = [good[0], "nonsense", old["receipt_handle"], good[1], good[0]]
    answer = api.post("/messages/ack/batch", {"receipt_handles": handles, "group": group})
    assert (answer["verdict"], answer["settled"]) == ("ack", 2)
    results = answer["results"]
    assert [each["receipt_handle"] for each in results] == handles
    assert [each["status"] for each in results] == [200, 400, 409, 200, 404]
    assert [each.get("code") for each in results] == [
        None,
        "malformed_receipt",
        "expired_receipt",
        None,
        "unknown_receipt",
    ]
    assert results[4]["error_name"] == "UnknownReceiptError"
    assert all(("error" in each) is (each["status"] != 200) for each in results)
    rest = [good[2], *(each["receipt_handle"] for each in last)]
    extended = api.post("/messages/visibility/batch", {"receipt_handles": rest, "extension": "2h"})
    assert (extended["settled"], extended["verdict"]) == (2, "extend")
    nacked = api.post("/messages/nack/batch", {"receipt_handles": rest[:1], "delay": 0})
    assert nacked["settled"] == 1
    rejected = api.post("/messages/reject/batch", {"receipt_handles": rest[1:], "reason": "never"})
    assert rejected["settled"] == 1


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("ack", {}, "receipt_handle"),
        ("ack", {"receipt_handle": 5}, "receipt_handle"),
        ("ack", {"receipt_handle": "x", "reason": "y"}, "reason"),
        ("ack/batch", {"receipt_handles": []}, "receipt_handles"),
        ("ack/batch", {"receipt_handles": "x"}, "receipt_handles"),
        ("ack/batch", {"receipt_handles": ["x"] * 10_001}, "receipt_handles"),
        ("nack", {"receipt_handle": "x", "delay": "soon"}, "delay"),
        ("nack", {"receipt_handle": "x", "delay": "13h"}, "delay"),
        ("nack", {"receipt_handle": "x", "reason": "y" * 1001}, "reason"),
        ("reject", {"receipt_handle": "x"}, "reason"),
        ("reject", {"receipt_handle": "x", "reason": ""}, "reason"),
        ("visibility", {"receipt_handle": "x"}, "extension_seconds"),
        ("visibility", {"receipt_handle": "x", "extension_seconds": -1}, "extension_seconds"),
        ("visibility", {"receipt_handle": "x", "extension_seconds": 1e9}, "extension_seconds"),
        (
            "visibility",
            {"receipt_handle": "x", "extension_seconds": 1, "extension": "1s"},
            "extension_seconds",
        ),
    ],
)
def test_a_verdict_that_makes_no_sense_names_the_field(
    api: HttpApi, path: str, body: dict[str, Any], field: str
) -> None:
    answer = api.ask("POST", f"/messages/{path}", body)
    assert (answer.status, answer.code, answer.json["field"]) == (400, "invalid_field", field)


# --- Groups --------------------------------------------------------------------------------------


def test_a_group_that_exists_keeps_its_settings_until_they_are_changed(
    api: HttpApi, topic: str, group: str
) -> None:
    path = f"/groups/{group}"
    first = api.post(
        f"{path}/join", {"topics": [topic], "max_deliveries": 7, "visibility_timeout": "2m"}
    )
    assert first["assignment"] == "exclusive"
    assert first["settings"]["max_deliveries"] == 7
    again = api.post(f"{path}/join", {"topics": [topic], "max_deliveries": 2})
    assert again["settings"] == first["settings"]
    shown = api.get(f"{path}/settings")
    assert (shown["group"], shown["mode"], shown["start"]) == (group, "exclusive", "earliest")
    assert shown["settings"] == first["settings"]
    changed = api.ask("PUT", f"{path}/settings", {"visibility_timeout": "1s"}).json["settings"]
    assert changed == {**first["settings"], "visibility_timeout": 1000}
    assert api.ask("PUT", f"{path}/settings", changed).json["settings"] == changed
    assert api.get(path)["queue"]["settings"] == changed
    assert api.ask("PUT", f"{path}/settings", {}).json["settings"] == changed


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"visibility_timeout": 0}, "visibility_timeout"),
        ({"visibility_timeout": "13h"}, "visibility_timeout"),
        ({"max_deliveries": 0}, "max_deliveries"),
        ({"max_deliveries": 251}, "max_deliveries"),
        ({"max_unacked": 0}, "max_unacked"),
        ({"backoff": "never"}, "backoff"),
        ({"weights": [1, 2, 3]}, "weights"),
        ({"weights": [0, 0, 0, 0, 0]}, "weights"),
        ({"weights": {"urgent": 1}}, None),
        ({"weights": {"low": -1}}, None),
        ({"mode": "shared"}, "mode"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    api: HttpApi, topic: str, body: dict[str, Any], field: str | None
) -> None:
    group = f"of-{topic}"
    answer = api.ask("POST", f"/groups/{group}/join", {"topics": [topic], **body})
    assert answer.status == 400, answer
    assert api.ask("GET", f"/groups/{group}").status == 404
    join(api, group, topic)
    answer = api.ask("PUT", f"/groups/{group}/settings", body)
    assert answer.status == 400, answer
    if field is not None:
        assert answer.json["field"] == field


def test_groups_of_different_kinds_do_not_mix(
    api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    kinds = ("exclusive", "shared", "log")
    groups = {kind: name(kind) for kind in kinds}
    for kind in kinds:
        join(api, groups[kind], topic, assignment=kind)
    for there in kinds:
        for wanted in kinds:
            body: dict[str, Any] = {"topics": [topic], "assignment": wanted}
            answer = api.ask("POST", f"/groups/{groups[there]}/join", body)
            if there == wanted:
                assert answer.status == 200
            else:
                assert (answer.status, answer.code) == (409, "group_mode"), (there, wanted)
    lines = {each["group"]: each for each in api.get("/groups")["groups"]}
    assert [(lines[groups[kind]]["type"], lines[groups[kind]]["mode"]) for kind in kinds] == [
        ("queue", "exclusive"),
        ("queue", "shared"),
        ("log", None),
    ]
    assert api.get(f"/groups/{groups['log']}")["queue"] is None
    answer = api.ask("GET", f"/groups/{groups['log']}/settings")
    assert (answer.status, answer.code) == (404, "unknown_group")
    body = {"topics": [topic], "assignment": "log", "max_deliveries": 2}
    answer = api.ask("POST", f"/groups/{name('new')}/join", body)
    assert (answer.status, answer.json["field"]) == (400, "max_deliveries")


def test_a_queue_takes_over_where_a_log_group_that_everyone_left_has_stopped(
    api: HttpApi, topic: str, group: str
) -> None:
    api.publish(topic, *"abc", partition=0)
    api.post(f"/groups/{group}/offsets", {"offsets": {topic: {"0": 2}}})
    member = join(api, group, topic, assignment="exclusive")
    assert values(poll(api, group, member)) == ["c"]


def test_what_only_one_kind_of_group_knows_is_refused_in_the_other(
    api: HttpApi, topic: str, group: str
) -> None:
    member = join(api, group, topic)
    answer = api.ask("GET", f"/groups/{group}/poll?member_id={member}&rewind")
    assert (answer.status, answer.json["field"]) == (400, "rewind")
    for wrong in ("0", "13h", "long"):
        answer = api.ask("GET", f"/groups/{group}/poll?member_id={member}&visibility={wrong}")
        assert (answer.status, answer.json["field"]) == (400, "visibility")
    log = f"{group}-log"
    member = join(api, log, topic, assignment="log")
    answer = api.ask("GET", f"/groups/{log}/poll?member_id={member}&visibility=1s")
    assert (answer.status, answer.json["field"]) == (400, "visibility")
    api.publish(topic, "x", partition=0)
    (found,) = poll(api, log, member)
    assert found["receipt_handle"] is found["delivery_count"] is None


def test_a_shared_group_is_shown_and_deleted(api: HttpApi, topic: str, group: str) -> None:
    member = join(api, group, topic, client_id="me")
    answer = api.post(f"/groups/{group}/heartbeat", {"member_id": member})
    assert (answer["state"], answer["partitions"]) == ("Stable", {topic: [0, 1]})
    assert api.post(f"/groups/{group}/revoke", {"member_id": member})["revoked"] == {}
    (seen,) = api.get(f"/groups/{group}/assignment")["members"]
    assert (seen["member_id"], seen["client_id"], seen["client_host"]) == (member, "me", HOST)
    assert api.ask("DELETE", f"/groups/{group}").code == "group_not_empty"
    api.post(f"/groups/{group}/leave", {"member_id": member})
    assert api.get(f"/groups/{group}")["state"] == "Empty"
    assert api.ask("DELETE", f"/groups/{group}").json == {"deleted": group}
    for path in (f"/groups/{group}", f"/groups/{group}/offsets", f"/groups/{group}/settings"):
        assert api.ask("GET", path).code == "unknown_group"
    assert group not in api.metrics()
