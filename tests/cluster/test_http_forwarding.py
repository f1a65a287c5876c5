"""Three real nodes: HTTP requests sent to the wrong one, while the right one is well, moves, is
paused or dies."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.testing import Cluster
from support.etcd import need_etcd
from support.kafka_wire import WireClient
from support.node_requests import NODES, Answer, Nodes
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

OFFSETS_TOPIC = "__consumer_offsets"
ELECT_LEADERS = 43
MIB = 1024 * 1024
DEADLINE_S = 30.0


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    need_etcd()
    with Cluster(nodes=3) as cluster:
        yield Nodes(cluster)


@pytest.fixture(scope="module")
def topic(nodes: Nodes) -> str:
    nodes.surely(1, "POST", "/topics", {"name": "orders", "num_partitions": 3})
    for node in NODES:
        nodes.known(node, "orders")
    return "orders"


def test_offsets_of_a_group_are_committed_and_read_through_any_node(nodes, topic):
    group = nodes.group_at(2)
    for node in NODES:
        nodes.surely(
            node, "POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 10 + node}}}
        )
        for reader in NODES:
            answer = nodes.ask(reader, "GET", f"/groups/{group}/offsets?partitions=orders:0")
            assert answer.status == 200, answer
            assert answer.body["offsets"] == {topic: {"0": 10 + node}}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("HEAD", "", None),
        ("GET", "/cooperative", None),
        ("GET", "/assignment", None),
        ("GET", "/rebalance/stats", None),
        ("GET", "/history", None),
        ("POST", "/offsets", {"offsets": {"orders": {"1": 7}}}),
        ("DELETE", "", None),
    ],
)
def test_what_is_asked_of_a_group_is_answered_through_any_node(nodes, topic, method, path, body):
    for node in NODES:
        group = nodes.group_at(3)
        nodes.surely(node, "POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 0}}})
        answer = nodes.ask(node, method, f"/groups/{group}{path}", body)
        assert answer.status == 200, (node, answer)
        assert int(answer.headers["content-length"]) > 0


def test_the_groups_of_all_nodes_are_listed_on_each(nodes, topic):
    groups = {nodes.group_at(node) for node in NODES}
    for group in groups:
        nodes.surely(1, "POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 0}}})
    for node in NODES:
        answer = nodes.ask(node, "GET", "/groups")
        names = [each["group"] for each in answer.body["groups"]]
        assert groups <= set(names)
        assert names == sorted(names)
        assert "unanswered" not in answer.body
        counts = nodes.ask(node, "GET", "/admin/coordinators").body["coordinators"]
        assert sum(each["group_count"] for each in counts) >= len(groups)


@pytest.mark.parametrize(
    "path",
    ["/stats", "/overview", "/rebalance/stats", "/traces", "/traces/stats", "/admin/maintenance"],
)
def test_what_nodes_count_for_themselves_is_put_together(nodes, topic, path):
    answers = [nodes.ask(node, "GET", path) for node in NODES]
    assert [each.status for each in answers] == [200, 200, 200]
    assert not any("unanswered" in each.body for each in answers)


def test_totals_count_every_partition_once(nodes, topic):
    for node in NODES:
        stats = nodes.ask(node, "GET", "/stats").body
        overview = nodes.ask(node, "GET", "/overview").body
        assert stats["node_id"] == node == overview["node_id"]
        assert overview["totals"]["partitions"] == 3
        assert [each["node_id"] for each in overview["nodes"]] == [1, 2, 3]
        assert stats["partition_count"] > 50  # those of the offsets topic among them
        assert stats["partition_count"] == len(
            nodes.ask(node, "GET", "/cluster/partitions?limit=10000").body["partitions"]
        )


def test_a_refusal_of_another_node_reads_as_one_of_this_node(nodes, topic):
    group = nodes.group_at(1)
    answers = [
        nodes.ask(node, "GET", f"/groups/{group}", **{"X-Request-ID": "the-same"}) for node in NODES
    ]
    assert [each.status for each in answers] == [404, 404, 404]
    assert answers[0].body == answers[1].body == answers[2].body
    assert {each.headers["x-request-id"] for each in answers} == {"the-same"}
    assert {each.headers["content-type"] for each in answers} == {"application/problem+json"}


def test_nobody_but_nodes_is_believed_that_a_request_was_forwarded(nodes, topic):
    group = nodes.group_at(2)
    nodes.surely(1, "POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 1}}})
    marks = {"X-GoQueue-Client": "203.0.113.9", "X-GoQueue-Part": "1"}
    assert nodes.ask(1, "GET", f"/groups/{group}", **marks).status == 200
    listed = nodes.ask(1, "GET", "/groups", **marks).body["groups"]
    assert group in {each["group"] for each in listed}


def test_a_transaction_is_begun_filled_and_committed_through_the_nodes_in_turn(nodes, topic):
    for number in range(3):
        turn = itertools.cycle(NODES[number:] + NODES[:number])
        body = {"transactional_id": f"{Cluster.unique_name()}-{number}"}
        made = nodes.surely(next(turn), "POST", "/producers/init", body)
        who = {"producer_id": made["producer_id"], "epoch": made["epoch"]}
        nodes.surely(next(turn), "POST", "/transactions/begin", who)
        for partition in range(3):
            message = {**who, "topic": topic, "partition": partition, "value": "v"}
            nodes.surely(next(turn), "POST", "/transactions/publish", message)
        group = Cluster.unique_name()
        offsets = {**who, "group": group, "offsets": {topic: {"0": 4}}}
        nodes.surely(next(turn), "POST", "/transactions/offsets", offsets)
        ended = nodes.surely(next(turn), "POST", "/transactions/commit", who)
        assert ended["state"] in {"PrepareCommit", "CompleteCommit"}
        for node in NODES:
            listed = nodes.surely(node, "GET", "/transactions")["transactions"]
            assert body["transactional_id"] in {each["transactional_id"] for each in listed}
            found = nodes.surely(node, "GET", f"/groups/{group}/offsets?partitions=orders:0")
            assert found["offsets"] == {topic: {"0": 4}}


def test_a_member_of_a_queue_group_joins_polls_and_acknowledges_through_any_node(nodes):
    topic, group = Cluster.unique_name(), Cluster.unique_name()
    nodes.surely(1, "POST", "/topics", {"name": topic, "num_partitions": 3})
    messages = [{"value": str(number), "key": str(number)} for number in range(30)]
    nodes.known(2, topic)
    nodes.surely(2, "POST", f"/topics/{topic}/messages", {"messages": messages})
    turn = itertools.cycle(NODES)
    joining = {"topics": [topic], "assignment": "shared"}
    for node in NODES:
        nodes.known(node, topic)
    member = nodes.surely(next(turn), "POST", f"/groups/{group}/join", joining)["member_id"]
    taken: set[str] = set()
    deadline_s = time.monotonic() + 60
    while len(taken) < 30 and time.monotonic() < deadline_s:
        path = f"/groups/{group}/poll?member_id={member}&timeout=1s&limit=10"
        for each in nodes.surely(next(turn), "GET", path)["messages"]:
            nodes.surely(
                next(turn), "POST", "/messages/ack", {"receipt_handle": each["receipt_handle"]}
            )
            taken.add(each["value"])
    assert taken == {str(number) for number in range(30)}
    for node in NODES:
        assert nodes.surely(node, "GET", f"/groups/{group}")["type"] == "queue"
        stats = nodes.surely(node, "GET", "/reliability/stats")
        assert stats["groups"][group]["acknowledgement"]["acks"] == 30
        assert group in nodes.surely(node, "GET", "/priority/stats")["groups"]
        nodes.surely(node, "GET", f"/priority/stats?group={group}")


def elect(nodes: Nodes, number: int) -> None:
    """Let the preferred replica of a partition of the offsets topic lead it again."""
    for node in NODES:
        with WireClient(nodes.cluster.kafka_address(node)) as client:
            client.call(
                ELECT_LEADERS,
                2,
                election_type=0,
                topic_partitions=[{"topic": OFFSETS_TOPIC, "partitions": [number]}],
                timeout_ms=5000,
            )


def test_a_group_that_moves_back_and_forth_is_answered_or_may_be_asked_again(nodes, topic):
    """A restart takes the group off its node, an election gives it back."""
    group = nodes.group_at(3)
    number = nodes.ask(1, "GET", f"/admin/coordinators/groups/{group}").body["partition"]
    answers: list[Answer] = []
    ended = threading.Event()

    def hammer(node: int) -> None:
        offset = 0
        while not ended.is_set():
            offset += 1
            answers.append(nodes.commit(node, group, topic, offset))

    threads = [threading.Thread(target=hammer, args=(node,)) for node in (1, 2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            nodes.cluster.restart(3)
            eventually(lambda: nodes.ask(1, "GET", "/cluster/health").body["status"] == "healthy")
            elect(nodes, number)
            eventually(lambda: nodes.coordinator(group) == 3)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    wrong = [each for each in answers if each.status != 200 and not each.is_retriable]
    assert not wrong, wrong[:3]
    assert sum(each.status == 200 for each in answers) > 100
    nodes.surely(1, "POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 5}}})


def test_a_node_that_is_paused_is_not_waited_for_beyond_the_deadline(nodes, topic):
    group, there, here = nodes.remote_group()
    nodes.surely(here, "POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 1}}})
    nodes.cluster.pause(there)
    try:
        began_s = time.monotonic()
        answer = nodes.commit(here, group, topic, 2)
        assert answer.is_retriable or answer.status in {200, 504}, answer
        assert time.monotonic() - began_s < DEADLINE_S + 5
        listed = nodes.ask(here, "GET", "/groups").body
        assert [each["node_id"] for each in listed["unanswered"]] == [there]
        nodes.surely(here, "POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 3}}})
    finally:
        nodes.cluster.resume(there)
    eventually(lambda: nodes.ask(there, "GET", "/readyz").status == 200)
    offsets = nodes.surely(there, "GET", f"/groups/{group}/offsets?partitions=orders:0")["offsets"]
    assert offsets == {topic: {"0": 3}}


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [each for each in status.splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("where", ["body", "headers"])
def test_requests_that_wait_for_a_paused_node_hold_a_bounded_amount_of_memory(nodes, topic, where):
    group, there, here = nodes.remote_group()
    pid = nodes.cluster.processes(here)["broker"]
    filler = json.dumps({"offsets": {topic: {"0": 1}}}).encode()
    if where == "body":
        count, headers = 120, {}
        body = filler[:-1] + b" " * (MIB - 1000) + b"}"
    else:
        count, headers, body = 500, {f"x-filler-{n}": "x" * 7500 for n in range(8)}, filler
    before = resident_bytes(pid)
    answers: list[Answer] = []

    def send() -> None:
        path = f"/groups/{group}/offsets"
        answers.append(nodes.ask(here, "POST", path, body, **headers))

    nodes.cluster.pause(there)
    try:
        threads = [threading.Thread(target=send) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        grown = resident_bytes(pid) - before
    finally:
        nodes.cluster.resume(there)
    assert not [e for e in answers if not e.is_retriable and e.status not in {200, 504}]
    codes = {each.body.get("code") for each in answers}
    # Hundreds of clients are slow to come: the node may be given up before so many wait.
    assert "forwarding_busy" in codes or where == "headers", codes
    assert grown < 150 * MIB, f"{grown / MIB:.0f} MiB"
    eventually(lambda: nodes.ask(there, "GET", "/readyz").status == 200)


def test_a_node_that_is_killed_is_answered_for_by_the_next_one(nodes, topic):
    group, there, here = nodes.remote_group()
    nodes.surely(here, "POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 1}}})
    nodes.cluster.kill(there)
    answer = nodes.commit(here, group, topic, 2)
    assert answer.is_retriable or answer.status == 200, answer
    left = [each for each in NODES if each != there]
    listed = nodes.ask(left[1], "GET", "/groups").body
    assert [each["node_id"] for each in listed["unanswered"]] == [there]
    nodes.surely(here, "POST", f"/groups/{group}/offsets", {"offsets": {topic: {"0": 3}}})
    for node in left:
        offsets = nodes.surely(node, "GET", f"/groups/{group}/offsets?partitions=orders:0")
        assert offsets["offsets"] == {topic: {"0": 3}}
    nodes.cluster.start(there)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_poll_that_waits_ends_when_its_coordinator_dies_or_moves(nodes, how):
    """One that is killed is found dead; one that stops hands its groups over first."""
    topic = Cluster.unique_name()
    nodes.surely(1, "POST", "/topics", {"name": topic, "num_partitions": 1})
    for node in NODES:
        nodes.known(node, topic)
    group, there, here = nodes.remote_group()
    joining = {"topics": [topic], "assignment": "shared", "session_timeout": "60s"}
    member = nodes.surely(here, "POST", f"/groups/{group}/join", joining)["member_id"]
    path = f"/groups/{group}/poll?member_id={member}&timeout=50s"
    answers: list[Answer] = []
    polling = threading.Thread(target=lambda: answers.append(nodes.ask(here, "GET", path)))
    polling.start()
    time.sleep(1.0)
    began_s = time.monotonic()
    getattr(nodes.cluster, how)(there)
    polling.join()
    assert time.monotonic() - began_s < 45, "it has waited for as long as for a node that is well"
    assert answers[0].is_retriable, answers
    nodes.cluster.start(there)
