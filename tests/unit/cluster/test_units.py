"""Partitions that belong together are led together, and brought together when they are not."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, strategies as st

from goqueue.cluster.controller import PREFERRED_EVERY_S
from goqueue.cluster.records import NodeState, PartitionKey, PartitionRecord
from goqueue.cluster.units import reunited, units_of
from support.cluster_views import ViewMaker
from unit.cluster.test_controller import controlling, store

OFFSETS, QUEUES = UUID(int=1), UUID(int=2)
HEAD, MEMBER = PartitionKey(OFFSETS, 0), PartitionKey(QUEUES, 0)
UNITS = units_of({"__consumer_offsets": (OFFSETS, 1), "__queue_state": (QUEUES, 1)})


def led(maker: ViewMaker, key: PartitionKey, leader: int | None, *isr: int) -> None:
    """Let a node lead a partition of three replicas."""
    incarnation = 0 if leader is None else maker.view.nodes[leader].incarnation
    record = PartitionRecord((1, 2, 3), isr or (1, 2, 3), leader, leader_incarnation=incarnation)
    maker.put(str(key), record)


def moves(maker: ViewMaker) -> dict[PartitionKey, int | None]:
    return {
        each.key: None if each.record is None else each.record.leader
        for each in reunited(UNITS, maker.view)
    }


def test_a_unit_of_delays_has_three_logs_for_each_partition_of_their_state() -> None:
    topics = {"__delay_state": (OFFSETS, 2), "__delayed": (QUEUES, 6), "orders": (UUID(int=3), 1)}
    units = units_of(topics)
    assert [each.partition for each in units.companions[PartitionKey(OFFSETS, 1)]] == [3, 4, 5]
    assert len(units.companions) == 2
    assert units.needed == units.companions.keys()
    assert not UNITS.needed  # a node can do without a group's state


def test_what_follows_goes_to_where_the_first_partition_is_led() -> None:
    maker = ViewMaker(1, 2, 3)
    led(maker, HEAD, 2)
    led(maker, MEMBER, 3)
    assert moves(maker) == {MEMBER: 2}


def test_where_the_first_leader_is_not_in_sync_the_first_partition_moves() -> None:
    maker = ViewMaker(1, 2, 3)
    led(maker, HEAD, 2)
    led(maker, MEMBER, 3, 1, 3)
    assert moves(maker) == {HEAD: 3}


def test_nothing_moves_to_a_node_that_is_stopping() -> None:
    maker = ViewMaker(1, 2, 3)
    led(maker, HEAD, 2)
    led(maker, MEMBER, 3)
    maker.node(2, NodeState.STOPPING, incarnation=maker.view.nodes[2].incarnation)
    assert moves(maker) == {HEAD: 3}


def test_a_partition_without_a_leader_is_left_to_an_election() -> None:
    maker = ViewMaker(1, 2, 3)
    led(maker, HEAD, 2)
    led(maker, MEMBER, None)
    assert not moves(maker)


@given(
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2, 3]),
    st.sets(st.sampled_from([1, 2, 3]), min_size=1),
    st.sets(st.sampled_from([1, 2, 3]), min_size=1),
)
def test_a_unit_is_together_after_one_step_or_nobody_can_lead_all_of_it(
    first: int, second: int, first_isr: set[int], second_isr: set[int]
) -> None:
    maker = ViewMaker(1, 2, 3)
    led(maker, HEAD, first, *{*first_isr, first})
    led(maker, MEMBER, second, *{*second_isr, second})
    core = controlling(maker)
    for proposal in core.decide(maker.view, 0.0, units=UNITS):
        core.committed(proposal, store(maker, proposal))
    leaders = [maker.view.partitions[each].value.leader for each in (HEAD, MEMBER)]
    if first in {*second_isr, second} or second in {*first_isr, first}:
        assert leaders[0] == leaders[1]
    else:
        assert leaders == [first, second]
    assert not moves(maker)


def test_a_unit_goes_to_its_preferred_leader_as_a_whole() -> None:
    maker = ViewMaker(1, 2, 3)
    led(maker, HEAD, 2)
    led(maker, MEMBER, 2)
    core = controlling(maker)
    assert not core.decide(maker.view, 0.0, units=UNITS)
    (first,) = core.decide(maker.view, PREFERRED_EVERY_S + 1, units=UNITS)
    assert [each.key for each in first.operations] == [str(HEAD)]
    core.committed(first, store(maker, first))
    assert maker.view.partitions[HEAD].value.leader == 1
    (then,) = core.decide(maker.view, PREFERRED_EVERY_S + 1.1, units=UNITS)
    assert [each.key for each in then.operations] == [str(MEMBER)]


def test_a_node_that_comes_back_gets_one_unit_of_delays_at_once() -> None:
    states, logs = OFFSETS, QUEUES
    units = units_of({"__delay_state": (states, 4), "__delayed": (logs, 12)})
    maker = ViewMaker(1, 2, 3)
    owners = [1, 2, 3, 1]
    for number, owner in enumerate(owners):
        leader = 2 if owner == 1 else owner
        nodes = (owner, *({1, 2, 3} - {owner}))
        node = maker.view.nodes[leader].incarnation
        for key in (
            PartitionKey(states, number),
            *(PartitionKey(logs, 3 * number + each) for each in range(3)),
        ):
            maker.put(str(key), PartitionRecord(nodes, nodes, leader, leader_incarnation=node))
    core = controlling(maker)
    now_s = 0.0
    while proposals := core.decide(maker.view, now_s, units=units):
        for proposal in proposals:
            core.committed(proposal, store(maker, proposal))
        now_s += 0.1
    led_by = [maker.view.partitions[PartitionKey(states, each)].value.leader for each in range(4)]
    assert led_by == [1, 2, 3, 2]  # the other one follows when leaders are balanced
    assert [maker.view.partitions[PartitionKey(logs, each)].value.leader for each in range(3)] == [
        1,
        1,
        1,
    ]


def test_a_node_that_is_not_in_sync_with_a_whole_unit_gets_none() -> None:
    units = units_of({"__delay_state": (OFFSETS, 1), "__delayed": (QUEUES, 3)})
    maker = ViewMaker(1, 2, 3)
    led(maker, HEAD, 2)
    for number, isr in enumerate([(1, 2, 3), (2, 3), (1, 2, 3)]):
        led(maker, PartitionKey(QUEUES, number), 2, *isr)
    assert not controlling(maker).decide(maker.view, 0.0, units=units)
