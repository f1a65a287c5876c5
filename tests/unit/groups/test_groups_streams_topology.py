"""Topologies against topics: what is missing, how wide internal topics are, what does not fit."""

from __future__ import annotations

from uuid import UUID

import pytest

from goqueue.groups.streams.configured import _MAX_TASKS, StatusCode, configure
from goqueue.groups.streams.topology import (
    _MAX_SUBTOPOLOGIES,
    Subtopology,
    Topology,
    check_topology,
)
from goqueue.groups.topics import TopicCatalogue, TopicInfo
from goqueue.model.errors import InvalidTopologyError
from unit.groups.group_driver import TOPOLOGY, internal, subtopology


def topics(**counts: int) -> TopicCatalogue:
    return TopicCatalogue(
        1, {name: TopicInfo(UUID(int=1), count) for name, count in counts.items()}
    )


def made_of(*parts: Subtopology) -> Topology:
    return Topology(0, parts)


def test_missing_source_topics_are_named_and_nothing_is_created() -> None:
    found = configure(TOPOLOGY, topics(other=3))
    assert found.problem is not None
    assert found.problem.code is StatusCode.MISSING_SOURCE_TOPICS
    assert "lines" in found.problem.detail
    assert not found.missing
    assert not found.is_ready


def test_internal_topics_are_as_wide_as_what_is_written_to_them() -> None:
    found = configure(TOPOLOGY, topics(lines=5))
    assert found.problem is not None
    assert found.problem.code is StatusCode.MISSING_INTERNAL_TOPICS
    assert [(each.name, each.partition_count) for each in found.missing] == [
        ("again", 5),
        ("kept", 5),
    ]
    assert found.missing[0].configs == (("cleanup.policy", "compact"),)


def test_tasks_are_assigned_once_all_internal_topics_are_there() -> None:
    found = configure(TOPOLOGY, topics(lines=5, again=5, kept=5))
    assert found.is_ready
    assert found.task_counts == {"0": 5, "1": 5}
    assert not found.missing


@pytest.mark.parametrize("name", ["again", "kept"])
def test_an_internal_topic_with_other_partitions_is_refused(name: str) -> None:
    found = configure(TOPOLOGY, topics(**({"lines": 5, "again": 5, "kept": 5} | {name: 4})))
    assert found.problem is not None
    assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert name in found.problem.detail


def test_a_number_of_partitions_that_the_application_gives_is_followed() -> None:
    topology = made_of(
        subtopology("0", "lines", writes=("again",)),
        subtopology("1", reads=(internal("again", 7),), keeps=("kept",)),
    )
    found = configure(topology, topics(lines=2))
    assert [(each.name, each.partition_count) for each in found.missing] == [
        ("again", 7),
        ("kept", 7),
    ]


def test_a_chain_of_repartition_topics_is_decided_in_the_order_of_the_data_flow() -> None:
    parts = [subtopology("0", "lines", writes=("r0",))]
    parts += [
        subtopology(f"{n + 1}", reads=(internal(f"r{n}"),), writes=(f"r{n + 1}",))
        for n in reversed(range(300))
    ]
    parts.append(subtopology("end", reads=(internal("r300"),)))
    found = configure(made_of(*parts), topics(lines=4))
    assert {each.partition_count for each in found.missing} == {4}
    assert len(found.missing) == 301


def test_repartition_topics_that_nothing_widens_are_refused() -> None:
    circle = made_of(
        subtopology("0", reads=(internal("a"),), writes=("b",)),
        subtopology("1", reads=(internal("b"),), writes=("a",)),
    )
    orphan = made_of(subtopology("0", reads=(internal("a"),)))
    for topology in (circle, orphan):
        found = configure(topology, topics())
        assert found.problem is not None
        assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def test_joined_topics_must_be_equally_wide() -> None:
    joined = made_of(subtopology("0", "left", "right", copartitioned=(("left", "right"),)))
    found = configure(joined, topics(left=2, right=3))
    assert found.problem is not None
    assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert configure(joined, topics(left=3, right=3)).is_ready


def test_a_repartition_topic_follows_what_it_is_joined_with() -> None:
    topology = made_of(
        subtopology("0", "lines", writes=("again",)),
        subtopology("1", "table", reads=(internal("again"),), copartitioned=(("table", "again"),)),
    )
    found = configure(topology, topics(lines=2, table=6))
    assert [(each.name, each.partition_count) for each in found.missing] == [("again", 6)]
    assert found.task_counts == {"0": 2, "1": 6}


def test_more_tasks_than_a_group_may_have_are_refused() -> None:
    found = configure(TOPOLOGY, topics(lines=_MAX_TASKS // 2 + 1))
    assert found.problem is not None
    assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS


@pytest.mark.parametrize(
    "topology",
    [
        made_of(),
        made_of(subtopology("0")),
        made_of(subtopology("", "lines")),
        made_of(subtopology("0", "lines"), subtopology("0", "lines")),
        made_of(subtopology("0", reads=(internal("a", -1),))),
        made_of(*(subtopology(str(n), "lines") for n in range(_MAX_SUBTOPOLOGIES + 1))),
        made_of(subtopology("0", *(f"t{n}" for n in range(2_001)))),
    ],
)
def test_a_topology_that_contradicts_itself_is_refused(topology: Topology) -> None:
    with pytest.raises(InvalidTopologyError):
        check_topology(topology)
