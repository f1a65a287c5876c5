"""Which nodes hold the replicas of new partitions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from goqueue.cluster.placement import (
    Candidate,
    candidates,
    check_assignments,
    first_record,
    place,
)
from goqueue.cluster.records import PartitionRecord
from goqueue.model.errors import InvalidAssignmentError, InvalidReplicationError
from support.cluster_views import ViewMaker


def test_leaders_and_what_follows_them_are_spread() -> None:
    placed = place([Candidate(1), Candidate(2), Candidate(3)], 12, 3)
    assert Counter(replicas[0] for replicas in placed) == {1: 4, 2: 4, 3: 4}
    assert set(Counter(replicas[:2] for replicas in placed).values()) == {2}


def test_the_least_loaded_node_comes_first() -> None:
    nodes = [Candidate(1, replica_count=9), Candidate(2, replica_count=8)]
    assert place([*nodes, Candidate(3)], 1, 2) == [(3, 2)]


def test_replicas_are_on_different_racks_as_far_as_there_are_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    nodes = [Candidate(each, rack=rack) for each, rack in racks.items()]
    for replicas in place(nodes, 30, 3):
        assert len({racks[each] for each in replicas}) == 3
    for replicas in place(nodes[:4], 30, 3):
        assert len({racks[each] for each in replicas}) == 2


def test_a_node_that_is_away_is_taken_only_where_others_are_too_few() -> None:
    nodes = [Candidate(1, is_active=False), Candidate(2), Candidate(3)]
    assert all(1 not in replicas for replicas in place(nodes, 6, 2))
    assert all(replicas[-1] == 1 for replicas in place(nodes, 6, 3))


@pytest.mark.parametrize("factor", [0, 4])
def test_more_replicas_than_nodes_are_refused(factor: int) -> None:
    with pytest.raises(InvalidReplicationError, match=f"replication factor of {factor} .* 3 nodes"):
        place([Candidate(1), Candidate(2), Candidate(3)], 1, factor)


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 40))
def test_placement_is_balanced_and_names_no_node_twice(
    nodes: int, factor: int, partitions: int
) -> None:
    factor = min(factor, nodes)
    placed = place([Candidate(each) for each in range(nodes)], partitions, factor)
    assert all(len(set(replicas)) == factor for replicas in placed)
    held = Counter(each for replicas in placed for each in replicas)
    led = Counter(replicas[0] for replicas in placed)
    for counts in (held, led):
        numbers = [counts[each] for each in range(nodes)]
        assert max(numbers) - min(numbers) <= 2


def test_candidates_know_what_nodes_hold() -> None:
    records = [PartitionRecord((1, 2), (1, 2), 1), PartitionRecord((2, 3), (2, 3), 2)]
    found = candidates([1, 2], [1, 2, 3], {1: "a"}, records)
    assert found == [
        Candidate(1, rack="a", leader_count=1, replica_count=1),
        Candidate(2, leader_count=1, replica_count=2),
        Candidate(3, is_active=False, replica_count=1),
    ]


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ([[1, 9]], "there is no node 9"),
        ([[1, 1]], "name each node once"),
        ([[1, 2], [1]], "the same number of nodes"),
        ([[]], "at least 1"),
        ([[1], [2], [3]], "2 are new"),
    ],
)
def test_assignments_that_cannot_be_are_refused(assignments: list[list[int]], message: str) -> None:
    with pytest.raises(InvalidAssignmentError, match=message):
        check_assignments(assignments, [1, 2, 3], 2 if len(assignments) == 3 else None)


def test_assignments_to_known_nodes_are_taken() -> None:
    check_assignments([[1, 2], [2, 3]], [1, 2, 3], 2)


def test_the_first_record_has_the_active_replicas_in_sync() -> None:
    maker = ViewMaker(2, 3)
    record = first_record((1, 2, 3), maker.view, 2)
    assert record is not None
    assert (record.leader, record.isr, record.min_isr) == (2, (2, 3), 2)
    assert record.leader_incarnation == maker.view.nodes[2].incarnation
    assert first_record((1,), maker.view, 2) is None
