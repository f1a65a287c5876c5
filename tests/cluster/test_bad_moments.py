"""Three real nodes: requests that come at a bad moment have an answer that a client can act on."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode

from goqueue.testing import Cluster
from support import group_wire
from support.etcd import need_etcd
from support.kafka_wire import WireClient
from support.node_requests import NODES, Answer, Nodes
from support.share import ACCEPT, RawMember, acquired, configure, partitions
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGES = 500
AGAIN: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.network_exception,
        ErrorCode.not_coordinator,
        ErrorCode.request_timed_out,
    }
)
"""What Kafka's clients send again, and take for an acknowledgement that may have counted."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    need_etcd()
    with Cluster(nodes=3) as cluster:
        yield Nodes(cluster)


def filled_topic(nodes: Nodes, count: int, name: str = "") -> str:
    topic = name or Cluster.unique_name()
    nodes.surely(1, "POST", "/topics", {"name": topic, "num_partitions": 1})
    for node in NODES:
        nodes.known(node, topic)
    messages = [{"value": str(number)} for number in range(count)]
    nodes.surely(1, "POST", f"/topics/{topic}/messages", {"messages": messages})
    return topic


def join(nodes: Nodes, group: str, topic: str) -> str:
    wanted = {"topics": [topic], "assignment": "shared", "visibility_timeout": "5m"}
    member: str = nodes.surely(1, "POST", f"/groups/{group}/join", wanted)["member_id"]
    return member


def taken(nodes: Nodes, node: int, group: str, member: str, count: int) -> list[dict[str, Any]]:
    """So many messages of a queue group, which stay unacknowledged."""
    found: list[dict[str, Any]] = []

    def is_enough() -> bool:
        left = min(count - len(found), 500)
        path = f"/groups/{group}/poll?member_id={member}&timeout=1s&limit={left}"
        found.extend(nodes.surely(node, "GET", path)["messages"])
        return len(found) == count

    eventually(is_enough, timeout_s=60)
    return found


def others(node: int) -> list[int]:
    return [each for each in NODES if each != node]


def test_acknowledgements_for_a_group_that_is_being_loaded_count_or_may_be_sent_again(nodes):
    topic = filled_topic(nodes, MESSAGES)
    group = Cluster.unique_name()
    member = join(nodes, group, topic)
    held = taken(nodes, 1, group, member, MESSAGES)
    there = nodes.coordinator(group)
    refused: list[Answer] = []
    wrong: list[Answer] = []

    def acknowledge(node: int, receipts: list[str]) -> None:
        for receipt in receipts:
            was_refused = False
            for _ in range(10_000):
                answer = nodes.ask(node, "POST", "/messages/ack", {"receipt_handle": receipt})
                if not answer.is_retriable:
                    break
                refused.append(answer)
                was_refused = True
            if answer.status != 200 and not (was_refused and answer.status == 404):
                wrong.append(answer)  # an answer that was lost may have counted: then it is gone

    receipts = [each["receipt_handle"] for each in held]
    halves = zip(others(there), (receipts[: MESSAGES // 2], receipts[MESSAGES // 2 :]), strict=True)
    threads = [threading.Thread(target=acknowledge, args=each) for each in halves]
    for thread in threads:
        thread.start()
    nodes.cluster.kill(there)
    for thread in threads:
        thread.join()
    nodes.cluster.start(there)
    assert not wrong, wrong[:3]
    assert refused, "the group was answered for all the time"
    told = nodes.surely(others(there)[0], "GET", f"/groups/{group}")["queue"]
    assert (told["ready"], told["in_flight"], told["waiting"]) == (0, 0, 0)


def share_member(nodes: Nodes, group: str, topic: str, leader: int) -> tuple[RawMember, Any]:
    """A member of a share group that has everything of a topic, at the leader of its partition."""
    there = kafka_of(nodes, nodes.coordinator(group))
    member = RawMember(there, group)

    def is_configured() -> bool:
        try:
            configure(there, group, auto_offset_reset="earliest", record_lock_duration_ms=60_000)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NETWORK_EXCEPTION:
                raise
            return False
        return True

    eventually(is_configured, timeout_s=60)

    def is_assigned() -> bool:
        answer = member.heartbeat(0, [topic])
        return answer.error_code is ErrorCode.none and bool(answer.assignment.topic_partitions)

    eventually(is_assigned, timeout_s=60)
    place = group_wire.topic_id(member.client, topic), 0
    member.close()
    member.client = WireClient(kafka_of(nodes, leader).kafka_address)
    taken_count = 0

    def is_taken() -> bool:
        nonlocal taken_count
        answer = member.fetch([place], max_wait_ms=500)
        assert answer.error_code is ErrorCode.none or answer.error_code in AGAIN, answer
        taken_count += sum(last - first + 1 for first, last, _ in acquired(answer))
        return taken_count == MESSAGES

    eventually(is_taken, timeout_s=60)
    return member, place


def kafka_of(nodes: Nodes, node: int) -> Any:
    """What the helpers for Kafka's wire ask of a server."""
    address = nodes.cluster.kafka_address(node)
    return SimpleNamespace(kafka_address=address, kafka_port=int(address.rpartition(":")[2]))


def test_kafkas_acknowledgements_for_a_group_whose_coordinator_dies_count_or_may_be_sent_again(
    nodes,
):
    topic = filled_topic(nodes, MESSAGES)
    (partition,) = nodes.surely(1, "GET", f"/topics/{topic}")["partitions"]
    leader = partition["leader"]
    there = others(leader)[0]
    group = nodes.group_at(there)
    member, place = share_member(nodes, group, topic, leader)
    wrong: list[tuple[int, ErrorCode]] = []
    for offset in range(MESSAGES):
        if offset == MESSAGES // 10:
            nodes.cluster.kill(there)
        was_refused = False
        for _ in range(10_000):
            answer = member.acknowledge({place: [(offset, offset, [ACCEPT])]})
            said = answer.error_code
            if said is ErrorCode.none:
                said = partitions(answer)[place].error_code
            if said not in AGAIN:
                break
            was_refused = True
        gone = was_refused and said is ErrorCode.invalid_record_state  # the first one counted
        if said is not ErrorCode.none and not gone:
            wrong.append((offset, said))
    member.close()
    assert nodes.coordinator(group, leader) != there
    nodes.cluster.start(there)
    assert not wrong, wrong[:3]
    told = nodes.surely(leader, "GET", f"/groups/{group}")["queue"]
    assert (told["ready"], told["in_flight"], told["waiting"]) == (0, 0, 0)


def test_a_receipt_of_a_deleted_topic_is_unknown_on_every_node(nodes):
    topic = filled_topic(nodes, 10)
    group = Cluster.unique_name()
    first, *rest = taken(nodes, 2, group, join(nodes, group, topic), 10)
    nodes.surely(3, "POST", "/messages/ack", {"receipt_handle": first["receipt_handle"]})
    nodes.surely(3, "DELETE", f"/topics/{topic}")
    eventually(lambda: nodes.ask(1, "GET", f"/topics/{topic}").status == 404)
    for node, each in zip(NODES, rest, strict=False):
        body = {"receipt_handle": each["receipt_handle"]}
        answer = nodes.ask(node, "POST", "/messages/ack", body)
        assert (answer.status, answer.body["retriable"]) == (404, False), answer


def test_a_topic_that_is_deleted_while_the_shard_of_its_group_moves_is_forgotten(nodes):
    topic = filled_topic(nodes, 50)
    group = Cluster.unique_name()
    member = join(nodes, group, topic)
    held = taken(nodes, 1, group, member, 20)
    there = nodes.coordinator(group)
    here, other = others(there)
    nodes.cluster.kill(there)
    nodes.surely(here, "DELETE", f"/topics/{topic}")
    body = {"receipt_handle": held[0]["receipt_handle"]}
    answers: list[Answer] = []

    def is_told() -> bool:
        answers.append(nodes.ask(other, "POST", "/messages/ack", body))
        return not answers[-1].is_retriable

    eventually(is_told, timeout_s=60)
    assert answers[-1].status == 404, answers[-1]
    nodes.cluster.start(there)
    # A topic of the same name is another one: nothing of it has been taken or acknowledged.
    filled_topic(nodes, 30, topic)
    again = taken(nodes, other, group, join(nodes, group, topic), 30)
    assert sorted(int(each["value"]) for each in again) == list(range(30))
    assert {each["delivery_count"] for each in again} == {1}
    answer = nodes.ask(here, "POST", "/messages/ack", body)
    assert answer.status == 404, answer


def test_a_cluster_that_is_stopped_as_a_whole_stops_in_time_and_keeps_its_queue_groups(nodes):
    topic = filled_topic(nodes, 20)
    group = Cluster.unique_name()
    member = join(nodes, group, topic)
    held = taken(nodes, 1, group, member, 10)
    for each in held[:5]:
        nodes.surely(2, "POST", "/messages/ack", {"receipt_handle": each["receipt_handle"]})
    nodes.cluster.stop()
    for node in NODES:
        assert "it did not stop in" not in nodes.cluster.log(node)
    nodes.cluster.start()
    for each in held[5:]:
        nodes.surely(3, "POST", "/messages/ack", {"receipt_handle": each["receipt_handle"]})
    rest = taken(nodes, 2, group, join(nodes, group, topic), 10)
    assert sorted(int(each["value"]) for each in rest) == list(range(10, 20))
