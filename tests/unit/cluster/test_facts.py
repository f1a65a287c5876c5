"""What handlers are told of the cluster: by one node of itself, in a cluster by the view."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from uuid import UUID

from goqueue.cluster.facts import UNKNOWN, OneNode
from goqueue.cluster.records import CONTROLLER, NodeState, PartitionRecord
from goqueue.cluster.view import ClusterView
from goqueue.cluster.view_facts import ViewFacts
from goqueue.insight.cluster_views import ClusterViews
from support.views import MadeView

if TYPE_CHECKING:
    from goqueue.topics.catalogue import Topics

TOPIC = UUID(int=7)
RECORD = PartitionRecord((1, 2, 3), (1, 2), 1, 5, elr=(3,))


def _ids(facts: ViewFacts) -> list[int]:
    return [each.node_id for each in facts.nodes()]


def test_one_node_leads_everything() -> None:
    facts = OneNode(4)
    assert [each.node_id for each in facts.nodes()] == [4]
    assert facts.controller_id() == 4
    assert facts.node(5) is None
    assert [each.node_id for each in facts.members()] == [4]
    assert facts.partition(TOPIC, 3)[:4] == (4, 0, (4,), (4,))


def test_nodes_that_start_or_are_fenced_or_away_are_not_told() -> None:
    made = MadeView(1, 2, 3, 4)
    now_s = [0.0]
    facts = ViewFacts(made.view, 1, lambda: now_s[0])
    made.register(4, NodeState.STARTING)
    made.fence(2)
    assert _ids(facts) == [1, 3]
    made.leave(3)
    assert _ids(facts) == [1, 3]
    now_s[0] += 31
    assert _ids(facts) == [1]
    assert facts.node(2) is None
    made.register(3)
    assert _ids(facts) == [1, 3]


def test_all_nodes_are_told_when_all_registrations_lapse_at_once() -> None:
    made = MadeView(1, 2, 3)
    facts = ViewFacts(made.view, 1)
    made.place(TOPIC, 0, RECORD)
    for each in (1, 2, 3):
        made.leave(each)
    assert _ids(facts) == [1, 2, 3]
    assert facts.partition(TOPIC, 0).leader == 1


def test_a_node_that_was_fenced_before_it_lapsed_is_not_told() -> None:
    made = MadeView(1, 2, 3)
    made.fence(2)
    made.leave(2)
    assert _ids(ViewFacts(made.view, 1)) == [1, 3]


def test_a_node_that_answers_is_told_whatever_is_known_of_it() -> None:
    made = MadeView(1, 2, 3)
    made.fence(1)
    assert _ids(ViewFacts(made.view, 1)) == [1, 2, 3]
    assert _ids(ViewFacts(MadeView().view, 1)) == [1]


def test_a_node_that_has_stopped_is_not_told() -> None:
    made = MadeView(1, 2)
    made.register(2, NodeState.STOPPING)
    made.leave(2)
    assert _ids(ViewFacts(made.view, 1)) == [1]


def test_a_node_that_is_stopping_is_told_until_it_is_gone() -> None:
    made = MadeView(1, 2)
    made.register(2, NodeState.STOPPING)
    assert _ids(ViewFacts(made.view, 1)) == [1, 2]


def test_a_partition_is_told_as_its_record_says() -> None:
    made = MadeView(1, 2, 3)
    made.place(TOPIC, 0, RECORD)
    known = ViewFacts(made.view, 3).partition(TOPIC, 0)
    assert tuple(known) == (1, 5, (1, 2, 3), (1, 2), (3,), ())
    assert known.is_under_replicated


def test_a_leader_that_is_away_is_no_leader_and_its_replica_is_offline() -> None:
    made = MadeView(1, 2, 3)
    made.place(TOPIC, 0, RECORD)
    facts = ViewFacts(made.view, 3)
    made.fence(1)
    made.leave(1)
    known = facts.partition(TOPIC, 0)
    assert known.leader is None
    assert known.offline == (1,)


def test_a_leader_that_clients_are_not_told_of_is_none_yet() -> None:
    """It was started again, and its record still names it: kafka-python hangs on such a leader."""
    made = MadeView(1, 2, 3)
    facts = ViewFacts(made.view, 2)
    made.place(TOPIC, 0, RECORD)
    made.register(1, NodeState.STARTING)
    assert _ids(facts) == [2, 3]
    assert facts.partition(TOPIC, 0).leader is None
    made.register(1)
    assert facts.partition(TOPIC, 0).leader == 1


def test_of_a_partition_without_a_record_nothing_is_told() -> None:
    assert ViewFacts(MadeView(1).view, 1).partition(TOPIC, 0) == UNKNOWN


def test_a_controller_that_is_away_is_none() -> None:
    made = MadeView(1, 2)
    facts = ViewFacts(made.view, 2)
    assert facts.controller_id() == 1
    made.leave(1)
    assert facts.controller_id() is None
    made.put(CONTROLLER, None)
    assert facts.controller_id() is None


def test_clocks_that_differ_by_more_than_half_a_second_are_told() -> None:
    facts = ViewFacts(ClusterView(), 1)
    assert facts.skewed() == {}
    facts.skews_ms = lambda: {3: -700, 2: 501, 4: 500}
    assert facts.skewed() == {2: 501, 3: -700}


def test_a_clock_that_differs_is_a_problem_of_the_clusters_health() -> None:
    facts = ViewFacts(ClusterView(), 1)
    topics = SimpleNamespace(catalogue=SimpleNamespace(by_name={}))
    views = ClusterViews(facts, cast("Topics", topics))
    before = views.verdict()
    facts.skews_ms = lambda: {2: 501, 3: -700}
    assert views.verdict().problems == (
        *before.problems,
        "the clock of node 2 is 501 ms ahead of that of node 1: synchronise the clocks",
        "the clock of node 3 is 700 ms behind that of node 1: synchronise the clocks",
    )
