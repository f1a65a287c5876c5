"""Nodes whose clocks are ten minutes apart: what one promises for a while, the next one keeps.

And everybody is told of it.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka
from support.cluster_nodes import ClusterNodes
from support.disk_faults import clock_environment, set_clock
from support.etcd import need_etcd
from support.node_requests import Nodes
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from support.cluster_nodes import ClusterNode

WAIT_S = 60.0
TEN_MINUTES_S = 600
NEARLY_S = 2
"""So much earlier something may end that the old coordinator was about to store the time of."""


class Stage:
    """Three nodes: the clocks of two differ from that of the one that coordinates `tx`."""

    def __init__(self, folder: Path, ahead_s: int = 0) -> None:
        """With `ahead_s`, nodes 2 and 3 are that much ahead of node 1."""
        need_etcd()
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.cluster = ClusterNodes(folder)
        for number, node in self.cluster.nodes.items():
            environment = clock_environment(folder, number)
            if not environment:
                pytest.skip("there is no C compiler: clocks cannot be stepped")
            node.environment |= environment
            if number > 1:
                set_clock(folder, number, ahead_s)
        self.cluster.start()
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 3)])["t"].result(WAIT_S)

    def coordinator(self) -> ClusterNode:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for node in self.cluster.nodes.values():
                try:
                    with RawKafka(node.kafka_port) as raw:
                        answer = raw.ask(
                            ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["tx"]
                        )
                except OSError:
                    continue
                (found,) = answer.coordinators
                if not found.error_code:
                    return self.cluster.nodes[found.node_id]
            time.sleep(0.1)
        raise AssertionError("nobody coordinates it")

    def skew_others(self, ahead_s: int) -> None:
        """Restart the others with another time: one that is set while a node runs is ignored."""
        here = self.coordinator().number
        for number, node in self.cluster.nodes.items():
            if number != here:
                set_clock(self.folder, number, ahead_s)
                node.stop()
                self.cluster.restart(node)
        assert self.coordinator().number == here

    def begin(self, timeout_s: int) -> confluent_kafka.Producer:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "transactional.id": "tx",
                "transaction.timeout.ms": timeout_s * 1000,
                "log_level": 0,
            }
        )
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce("t", b"inside")
        assert producer.flush(WAIT_S) == 0
        return producer

    def state(self) -> str:
        try:
            with RawKafka(self.coordinator().kafka_port) as raw:
                answer = raw.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx"])
        except OSError:
            return "its coordinator is gone"
        return str(answer.transaction_states[0].transaction_state)


@pytest.mark.slow
def test_a_transaction_is_not_aborted_early_by_a_coordinator_whose_clock_is_ahead(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    try:
        stage.skew_others(TEN_MINUTES_S)
        producer = stage.begin(timeout_s=120)
        stage.coordinator().kill()
        time.sleep(5.0)  # transactions are looked at every second
        producer.commit_transaction(WAIT_S)
    finally:
        stage.cluster.close()


@pytest.mark.slow
def test_a_transaction_is_aborted_in_time_by_a_coordinator_whose_clock_is_behind(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    try:
        stage.skew_others(-TEN_MINUTES_S)
        stage.begin(timeout_s=10)
        stage.coordinator().kill()
        deadline = time.monotonic() + WAIT_S
        while (state := stage.state()) != "CompleteAbort":
            assert time.monotonic() < deadline, state
            time.sleep(0.5)
    finally:
        stage.cluster.close()


@pytest.mark.slow
@pytest.mark.parametrize("ahead_s", [TEN_MINUTES_S, -TEN_MINUTES_S], ids=["ahead", "behind"])
def test_leases_and_retries_end_neither_early_nor_late_at_a_coordinator_with_another_clock(
    tmp_path: Path, ahead_s: int
) -> None:
    stage = Stage(tmp_path, ahead_s)
    try:
        nodes = Nodes(stage.cluster)  # type: ignore[arg-type] # it has the same addresses
        eventually(lambda: _skews_told(nodes, 1) == {2, 3}, "node 1 tells of the others")
        assert 1 in _skews_told(nodes, 2)
        group = next(name for name in map(str, range(1000)) if nodes.coordinator(name) == 1)
        messages = [{"value": value} for value in ("leased", "retried", "done")]
        nodes.surely(1, "POST", "/topics/t/messages", {"messages": messages})
        wanted = {"topics": ["t"], "assignment": "shared", "visibility_timeout": "20s"}
        member = nodes.surely(1, "POST", f"/groups/{group}/join", wanted)["member_id"]
        poll = f"/groups/{group}/poll?member_id={member}&timeout=1s&limit=1"
        began_s = {"leased": time.monotonic()}
        held = {
            each["value"]: each["receipt_handle"]
            for _ in messages
            for each in nodes.surely(1, "GET", poll)["messages"]
        }
        began_s["retried"] = time.monotonic()
        again = {"receipt_handle": held["retried"], "delay": "20s"}
        nodes.surely(1, "POST", "/messages/nack", again)
        stage.cluster.nodes[1].kill()
        nodes.surely(2, "POST", "/messages/ack", {"receipt_handle": held["done"]})
        came_s: dict[str, float] = {}

        def have_come() -> bool:
            for each in nodes.surely(3, "GET", poll)["messages"]:
                came_s.setdefault(each["value"], time.monotonic())
            return came_s.keys() >= began_s.keys()

        eventually(have_come, "both come again")
        assert came_s.keys() == began_s.keys()
        lasted_s = {value: came_s[value] - began_s[value] for value in came_s}
        assert min(lasted_s.values()) > 20 - NEARLY_S, lasted_s
    finally:
        stage.cluster.close()


def _skews_told(nodes: Nodes, node: int) -> set[int]:
    """The nodes whose clocks are wrong, as one of them says."""
    told = nodes.surely(node, "GET", "/cluster/health")["problems"]
    found = (re.match(r"the clock of node (\d+) is", each) for each in told)
    return {int(each[1]) for each in found if each is not None}
