"""Three real nodes: hundreds of acknowledgements wait at one for another that is lost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.testing import Cluster
from support.etcd import need_etcd
from support.node_requests import NODES, Answer, Nodes
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

ACKS = 200
MUCH_S = 25.0
"""More than any of them may wait: the calls of each, one after the other, would take a minute."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    need_etcd()
    with Cluster(nodes=3) as cluster:
        yield Nodes(cluster)


def held_receipts(nodes: Nodes, topic: str, group: str) -> tuple[str, dict[str, str]]:
    """A member that has taken the messages of a new topic: their values by receipt."""
    nodes.surely(1, "POST", "/topics", {"name": topic, "num_partitions": 1})
    for node in NODES:
        nodes.known(node, topic)
    messages = [{"value": str(number)} for number in range(ACKS)]
    nodes.surely(1, "POST", f"/topics/{topic}/messages", {"messages": messages})
    found: dict[str, str] = {}
    member = join(nodes, topic, group)

    def is_all() -> bool:
        path = f"/groups/{group}/poll?member_id={member}&timeout=1s&limit={ACKS - len(found)}"
        for each in nodes.surely(1, "GET", path)["messages"]:
            found[each["receipt_handle"]] = each["value"]
        return len(found) == ACKS

    eventually(is_all, timeout_s=60)
    return member, found


def redelivered(nodes: Nodes, node: int, topic: str, group: str) -> set[str]:
    """The messages that the next member of a group is given."""
    member = join(nodes, topic, group, node)
    found: set[str] = set()

    def is_all() -> bool:
        path = f"/groups/{group}/poll?member_id={member}&timeout=1s&limit={ACKS}"
        found.update(each["value"] for each in nodes.surely(node, "GET", path)["messages"])
        told = nodes.surely(node, "GET", f"/groups/{group}")["queue"]
        return (told["ready"], told["in_flight"], told["waiting"]) == (0, len(found), 0)

    eventually(is_all, timeout_s=60)
    return found


def join(nodes: Nodes, topic: str, group: str, node: int = 1) -> str:
    wanted = {"topics": [topic], "assignment": "shared", "visibility_timeout": "10m"}
    member: str = nodes.surely(node, "POST", f"/groups/{group}/join", wanted)["member_id"]
    return member


def acknowledged_at_once(nodes: Nodes, node: int, receipts: list[str], lose: Any) -> list[Answer]:
    """The answers to all receipts, sent side by side right after something was lost."""
    answers: list[Answer | None] = [None] * len(receipts)
    ready = threading.Barrier(len(receipts) + 1)

    def send(at: int) -> None:
        body = {"receipt_handle": receipts[at]}
        ready.wait()
        answers[at] = nodes.ask(node, "POST", "/messages/ack", body, timeout_s=MUCH_S)

    threads = [threading.Thread(target=send, args=(at,)) for at in range(len(receipts))]
    for thread in threads:
        thread.start()
    lose()
    ready.wait()
    for thread in threads:
        thread.join()
    return [each for each in answers if each is not None]


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_acknowledgements_through_another_node_are_answered_soon_and_none_is_lost(nodes, how):
    topic, group = Cluster.unique_name(), Cluster.unique_name()
    member, held = held_receipts(nodes, topic, group)
    there = nodes.coordinator(group)
    here, other = (each for each in NODES if each != there)
    lose, find = {
        "kill": (nodes.cluster.kill, nodes.cluster.start),
        "pause": (nodes.cluster.pause, nodes.cluster.resume),
    }[how]
    try:
        answers = acknowledged_at_once(nodes, here, list(held), lambda: lose(there))
        assert len(answers) == ACKS, "some waited for longer than a client does"
        wrong = [each for each in answers if each.status != 200 and not each.is_retriable]
        assert not wrong, wrong[:3]
        counted = {
            value for value, told in zip(held.values(), answers, strict=True) if told.status == 200
        }
        nodes.surely(other, "POST", f"/groups/{group}/leave", {"member_id": member})
        left = redelivered(nodes, other, topic, group)
        assert not counted & left, "what was acknowledged is redelivered"
    finally:
        find(there)
    eventually(lambda: nodes.ask(there, "GET", "/readyz").status == 200, timeout_s=60)
