"""What the controller decides, and that nothing happens after it was replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from goqueue.cluster.controller import (
    ORPHAN_S,
    PREFERRED_AFTER_JOIN_S,
    PREFERRED_EVERY_S,
    ControllerCore,
)
from goqueue.cluster.elections import LogEnd
from goqueue.cluster.metadata import Put, Revision
from goqueue.cluster.records import (
    CONTROLLER,
    ControllerRecord,
    Fence,
    PartitionRecord,
    decode,
)
from goqueue.cluster.suspicion import RETURN_S
from support.cluster_views import KEY, ViewMaker, tokens

if TYPE_CHECKING:
    from goqueue.cluster.proposals import Proposal


def controlling(maker: ViewMaker, node_id: int = 1) -> ControllerCore:
    """The core of a node that has become the controller."""
    core = ControllerCore(node_id, tokens())
    proposal = core.take(maker.view, maker.view.nodes[node_id].incarnation, 0.0)
    assert proposal is not None
    core.committed(proposal, store(maker, proposal))
    return core


def store(maker: ViewMaker, proposal: Proposal) -> Revision:
    """Do what a proposal asks for; the view shows it at once."""
    kinds: dict[str, Any] = {"take": ControllerRecord, "fence": Fence}
    kind = kinds.get(proposal.purpose, PartitionRecord)
    revision = maker.view.revision
    for operation in proposal.operations:
        if isinstance(operation, Put):
            record = decode(operation.value, kind, operation.key)
            revision = maker.put(operation.key, record)
        else:
            revision = maker.put(operation.key, None)
    return revision


def test_the_controller_is_taken_by_compare_and_set() -> None:
    maker = ViewMaker(1, 2, 3)
    core = ControllerCore(2, tokens())
    proposal = core.take(maker.view, 2, 0.0)
    assert proposal is not None
    assert [each.key for each in proposal.conditions] == [CONTROLLER, "nodes/2"]
    assert proposal.conditions[0].revision == 0
    assert core.take(maker.view, 2, 0.1) is None, "that is under way"
    core.committed(proposal, store(maker, proposal))
    assert (core.is_controller, core.epoch) == (True, 1)


def test_a_lost_race_leaves_no_controller_behind() -> None:
    maker = ViewMaker(1, 2, 3)
    core = ControllerCore(2, tokens())
    proposal = core.take(maker.view, 2, 0.0)
    assert proposal is not None
    maker.control(1)
    core.conflicted(proposal, maker.conflict(proposal))
    assert not core.is_controller
    again = core.take(maker.view, 2, 1.0)
    assert again is not None
    assert again.token != proposal.token


def test_a_lost_answer_to_taking_over_is_resolved_by_the_token() -> None:
    maker = ViewMaker(1, 2, 3)
    core = ControllerCore(2, tokens())
    proposal = core.take(maker.view, 2, 0.0)
    assert proposal is not None
    core.unknown(proposal)
    assert core.decide(maker.view, 0.1) == []
    assert core.decide(maker.view, 0.5) == [proposal]
    store(maker, proposal)
    core.conflicted(proposal, maker.conflict(proposal))
    assert core.is_controller


def test_a_lost_answer_to_taking_over_is_resolved_by_the_view() -> None:
    maker = ViewMaker(1, 2, 3)
    core = ControllerCore(2, tokens())
    proposal = core.take(maker.view, 2, 0.0)
    assert proposal is not None
    core.unknown(proposal)
    store(maker, proposal)
    core.decide(maker.view, 0.1)
    assert core.is_controller


def test_a_dead_leader_is_replaced_once_and_guarded() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.partition((1, 2, 3), 3)
    core = controlling(maker)
    maker.gone(3)
    (proposal,) = core.decide(maker.view, 0.0)
    guards = {each.key: each.revision for each in proposal.conditions}
    assert guards[CONTROLLER] == core.revision
    assert guards.keys() == {CONTROLLER, "nodes/1", str(KEY)}
    maker.node(4)
    assert core.decide(maker.view, 0.1) == [], "that is under way"
    core.committed(proposal, store(maker, proposal))
    assert maker.view.partitions[KEY].value.leader == 1
    assert core.decide(maker.view, 0.2) == []


def test_nothing_is_decided_on_a_record_that_the_view_does_not_show_yet() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.partition((1, 2, 3), 3)
    core = controlling(maker)
    maker.gone(3)
    (proposal,) = core.decide(maker.view, 0.0)
    core.committed(proposal, Revision(maker.view.revision + 5))
    assert core.decide(maker.view, 0.1) == []


def test_a_thousand_partitions_are_elected_in_transactions_of_sixty() -> None:
    maker = ViewMaker(1, 2, 3)
    for number in range(1000):
        maker.partition((1, 2, 3), 3, key=KEY._replace(partition=number))
    core = controlling(maker)
    maker.gone(3)
    proposals = core.decide(maker.view, 0.0)
    assert sum(len(each.operations) for each in proposals) == 1000
    assert len(proposals) == 17
    assert all(len(each.conditions) + len(each.operations) <= 128 for each in proposals)


def test_a_conflict_over_the_controller_ends_the_rule() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.partition((1, 2, 3), 3)
    core = controlling(maker)
    maker.gone(3)
    (proposal,) = core.decide(maker.view, 0.0)
    maker.control(2, epoch=2)
    core.conflicted(proposal, maker.conflict(proposal))
    assert not core.is_controller
    assert core.decide(maker.view, 0.1) == []


def test_a_newer_controller_in_the_view_ends_the_rule() -> None:
    maker = ViewMaker(1, 2, 3)
    core = controlling(maker)
    maker.control(2, epoch=2)
    assert core.decide(maker.view, 0.1) == []
    assert not core.is_controller


def test_a_conflict_over_a_record_is_decided_again_on_what_is_stored() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.partition((1, 2, 3), 3)
    core = controlling(maker)
    maker.gone(3)
    (proposal,) = core.decide(maker.view, 0.0)
    maker.partition((2, 3), 3, leader_incarnation=3)
    core.conflicted(proposal, maker.conflict(proposal))
    (again,) = core.decide(maker.view, 0.1)
    store(maker, again)
    assert maker.view.partitions[KEY].value.leader == 2


def test_an_election_with_a_lost_answer_is_sent_again_as_it_was() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.partition((1, 2, 3), 3)
    core = controlling(maker)
    maker.gone(3)
    (proposal,) = core.decide(maker.view, 0.0)
    core.unknown(proposal)
    assert core.decide(maker.view, 0.1) == []
    assert core.decide(maker.view, 0.3) == [proposal]


def test_suspects_are_fenced_in_the_run_that_is_registered() -> None:
    maker = ViewMaker(1, 2, 3)
    core = controlling(maker)
    (proposal,) = core.decide(maker.view, 0.0, {1, 3})
    assert proposal.keys == ("fences/3",)
    assert {each.key for each in proposal.conditions} == {CONTROLLER, "nodes/3"}
    assert core.decide(maker.view, 0.0, {3}) == []
    core.committed(proposal, store(maker, proposal))
    assert maker.view.is_fenced(3)
    assert core.decide(maker.view, 0.1, {3}) == []


def test_a_suspect_is_not_elected_before_it_is_fenced_or_heard() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.partition((1, 2, 3), 3, replicas=(2, 1, 3))
    core = controlling(maker)
    maker.gone(3)
    (fence,) = core.decide(maker.view, 0.0, {2})
    assert fence.purpose == "fence"
    (election,) = core.decide(maker.view, 0.1)
    assert election.purpose == "elect"


def test_a_recovery_needs_the_answer_of_every_replica() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.partition((3,), None, struck=(1, 2, 3))
    core = controlling(maker)
    (inquiry,) = core.inquiries(maker.view)
    assert inquiry.key == KEY
    assert inquiry.nodes == (1, 2, 3)
    ends = {1: _end(maker, 1, 5), 2: _end(maker, 2, 7)}
    assert core.recover(inquiry, ends, maker.view, 0.0) is None
    proposal = core.recover(inquiry, {**ends, 3: _end(maker, 3, 6)}, maker.view, 0.0)
    assert proposal is not None
    store(maker, proposal)
    assert maker.view.partitions[KEY].value.leader == 2


def _end(maker: ViewMaker, node_id: int, end: int) -> LogEnd:
    """The answer of a node as it is registered now."""
    return LogEnd(0, end, 0, maker.view.nodes[node_id].incarnation)


def test_a_node_that_was_started_after_its_answer_is_asked_again() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.partition((3,), None, struck=(1, 2, 3))
    core = controlling(maker)
    (inquiry,) = core.inquiries(maker.view)
    ends = {each: _end(maker, each, 5 + each) for each in (1, 2, 3)}
    maker.node(3)  # it lost power and is back, with less
    assert core.recover(inquiry, ends, maker.view, 0.0) is None
    ends[3] = _end(maker, 3, 2)
    proposal = core.recover(inquiry, ends, maker.view, 0.0)
    assert proposal is not None
    store(maker, proposal)
    assert maker.view.partitions[KEY].value.leader == 2


def test_answers_about_a_record_that_has_changed_since_choose_nobody() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.partition((3,), None, struck=(1, 2, 3))
    core = controlling(maker)
    (inquiry,) = core.inquiries(maker.view)
    ends = {each: _end(maker, each, 5) for each in (1, 2, 3)}
    maker.partition((3,), None, struck=(1, 2, 3))  # somebody led in between
    assert core.recover(inquiry, ends, maker.view, 0.0) is None


def test_leaders_go_back_to_preferred_replicas_a_tenth_at_a_time() -> None:
    maker = ViewMaker(1, 2, 3)
    for number in range(30):
        maker.partition((1, 2, 3), 2, key=KEY._replace(partition=number))
    core = controlling(maker)
    assert core.decide(maker.view, 0.0) == []
    after_s = PREFERRED_AFTER_JOIN_S + 1.0
    (proposal,) = core.decide(maker.view, after_s)
    assert len(proposal.operations) == 3
    assert core.decide(maker.view, after_s + 0.5) == []
    (further,) = core.decide(maker.view, after_s + 2.0)
    assert set(further.keys).isdisjoint(proposal.keys)


def test_leaders_that_are_preferred_stay() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.partition()
    core = controlling(maker)
    assert core.decide(maker.view, 0.0) == []
    assert core.decide(maker.view, PREFERRED_EVERY_S + 1.0) == []


def test_records_of_topics_that_are_gone_are_swept_after_a_while() -> None:
    maker = ViewMaker(1, 2, 3)
    kept = KEY._replace(topic_id=UUID(int=8))
    maker.partition()
    maker.partition(key=kept)
    core = controlling(maker)
    topics = {kept.topic_id: 1}
    assert core.decide(maker.view, 0.0, topics=topics) == []
    (proposal,) = core.decide(maker.view, ORPHAN_S + 1.0, topics=topics)
    store(maker, proposal)
    assert list(maker.view.partitions) == [kept]


def test_records_beyond_the_partitions_of_a_topic_are_swept_the_first_ones_first() -> None:
    maker = ViewMaker(1, 2, 3)
    for number in range(100, -1, -1):
        maker.partition(key=KEY._replace(partition=number))
    core = controlling(maker)
    topics = {KEY.topic_id: 20}
    assert core.decide(maker.view, 0.0, topics=topics) == []
    (first,) = core.decide(maker.view, ORPHAN_S + 1.0, topics=topics)
    assert first.keys == tuple(str(KEY._replace(partition=each)) for each in range(20, 80))
    assert core.decide(maker.view, ORPHAN_S + 2.0, topics=topics) == []
    core.committed(first, store(maker, first))
    (rest,) = core.decide(maker.view, ORPHAN_S + 3.0, topics=topics)
    core.committed(rest, store(maker, rest))
    assert sorted(each.partition for each in maker.view.partitions) == list(range(20))


def test_a_node_that_is_not_registered_does_not_take_over() -> None:
    maker = ViewMaker(2, 3)
    assert ControllerCore(1, tokens()).take(maker.view, 1, 0.0) is None


def test_a_leader_that_is_heard_without_a_session_has_a_while_to_register_again() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.partition((1, 2, 3), 2)
    core = controlling(maker)
    incarnation = maker.view.nodes[2].incarnation
    maker.gone(2)
    assert core.decide(maker.view, 0.0, lapsed={2}) == []
    assert core.decide(maker.view, RETURN_S - 0.1, lapsed={2}) == []
    maker.node(2, incarnation=incarnation)
    assert core.decide(maker.view, RETURN_S - 0.05) == []
    maker.gone(2)
    assert core.decide(maker.view, RETURN_S, lapsed={2}) == []
    (election,) = core.decide(maker.view, 2 * RETURN_S, lapsed={2})
    assert election.purpose == "elect"


def test_a_leader_without_a_session_is_replaced_when_it_is_not_heard_or_comes_back_as_another() -> (
    None
):
    maker = ViewMaker(1, 2, 3)
    maker.partition((1, 2, 3), 2)
    core = controlling(maker)
    maker.gone(2)
    assert core.decide(maker.view, 0.0, lapsed={2}) == []
    (election,) = core.decide(maker.view, 0.1)
    assert election.purpose == "elect"
    core.unknown(election)
    other = controlling(maker, 3)
    assert other.decide(maker.view, 0.2, lapsed={2}) == []
    maker.node(2)
    (election,) = other.decide(maker.view, 0.3)
    assert election.purpose == "elect"
