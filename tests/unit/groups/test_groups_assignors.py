from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings, strategies as st

from goqueue.groups.assignors import (
    SERVER_ASSIGNORS,
    MemberSpec,
    assign_range,
    assign_round_robin,
    assign_uniform,
    count_moves,
)
from goqueue.groups.sticky import assign_sticky
from support.effort import examples

Part = tuple[str, int]


def spec(*topics: str, owned: frozenset[Part] = frozenset()) -> MemberSpec[str]:
    return MemberSpec(frozenset(topics), owned)


def parts(topic: str, *numbers: int) -> frozenset[Part]:
    return frozenset((topic, number) for number in numbers)


class TestRange:
    def test_blocks_are_contiguous_and_the_first_members_take_the_remainder(self) -> None:
        members = {name: spec("t") for name in "abc"}
        assert assign_range(members, {"t": 8}) == {
            "a": parts("t", 0, 1, 2),
            "b": parts("t", 3, 4, 5),
            "c": parts("t", 6, 7),
        }

    def test_each_topic_is_divided_among_its_own_readers(self) -> None:
        members = {"a": spec("t"), "b": spec("t", "u")}
        assert assign_range(members, {"t": 2, "u": 2}) == {
            "a": parts("t", 0),
            "b": parts("t", 1) | parts("u", 0, 1),
        }


class TestRoundRobin:
    def test_partitions_are_dealt_one_by_one_across_topics(self) -> None:
        members = {"a": spec("t", "u"), "b": spec("t", "u")}
        assert assign_round_robin(members, {"t": 3, "u": 3}) == {
            "a": parts("t", 0, 2) | parts("u", 1),
            "b": parts("t", 1) | parts("u", 0, 2),
        }

    def test_members_that_do_not_read_a_topic_are_passed_over(self) -> None:
        members = {"a": spec("u"), "b": spec("t", "u")}
        assert assign_round_robin(members, {"t": 2, "u": 1, "unread": 4}) == {
            "a": parts("u", 0),
            "b": parts("t", 0, 1),
        }


class TestSticky:
    def test_a_join_takes_only_what_balance_needs(self) -> None:
        before = {"a": parts("t", 0, 2, 4), "b": parts("t", 1, 3, 5)}
        members = {name: spec("t", owned=owned) for name, owned in before.items()}
        after = assign_uniform(members | {"c": spec("t")}, {"t": 6})
        assert sorted(map(len, after.values())) == [2, 2, 2]
        assert count_moves(before, after) == (2, 2)

    def test_a_departure_moves_only_what_the_leaver_had(self) -> None:
        before = {"a": parts("t", 0, 1), "b": parts("t", 2, 3)}
        members = {name: spec("t", owned=owned) for name, owned in before.items()}
        after = assign_uniform(members, {"t": 6})
        assert after["a"] >= before["a"]
        assert after["b"] >= before["b"]

    def test_claims_of_partitions_that_are_gone_do_not_count(self) -> None:
        members = {"a": spec("t", owned=parts("t", 7) | parts("gone", 0)), "b": spec("t")}
        after = assign_uniform(members, {"t": 2})
        assert sorted(map(len, after.values())) == [1, 1]

    def test_a_chain_of_hand_overs_evens_out_what_no_single_move_can(self) -> None:
        subscriptions = {"a": {"t"}, "b": {"t", "u"}, "c": {"u"}}
        owned = {"a": parts("t", 0, 1), "b": parts("u", 0), "c": frozenset()}
        after = assign_sticky(subscriptions, owned, {"t": 2, "u": 1})
        assert sorted(map(len, after.values())) == [1, 1, 1]


topic_counts = st.fixed_dictionaries({}, optional=dict.fromkeys("tuv", st.integers(1, 3)))


@st.composite
def groups(draw: st.DrawFn, *, mixed: bool) -> tuple[dict[str, MemberSpec[str]], dict[str, int]]:
    counts = draw(topic_counts)
    names = draw(st.lists(st.sampled_from("abcd"), unique=True, max_size=4))
    topics = st.frozensets(st.sampled_from("tuvw"), min_size=1, max_size=3)
    common = draw(topics)
    everything = [(topic, number) for topic in "tuvw" for number in range(4)]
    owners = draw(st.lists(st.sampled_from([*names, None]), min_size=16, max_size=16))
    members = {
        name: MemberSpec(
            draw(topics) if mixed else common,
            frozenset(p for p, owner in zip(everything, owners, strict=True) if owner == name),
        )
        for name in names
    }
    return members, counts


def all_assignments(
    members: dict[str, MemberSpec[str]], counts: dict[str, int]
) -> list[dict[str, frozenset[Part]]]:
    """Every way to give each partition to one of its readers."""
    readers = {
        (topic, number): [name for name in members if topic in members[name].topics]
        for topic, count in counts.items()
        for number in range(count)
    }
    shared = {part: names for part, names in readers.items() if names}
    return [
        {
            name: frozenset(p for p, owner in zip(shared, choice, strict=True) if owner == name)
            for name in members
        }
        for choice in product(*shared.values())
    ]


def unevenness(assignment: dict[str, frozenset[Part]]) -> int:
    return sum(len(share) ** 2 for share in assignment.values())


def kept(members: dict[str, MemberSpec[str]], assignment: dict[str, frozenset[Part]]) -> int:
    return sum(len(members[name].owned & share) for name, share in assignment.items())


@pytest.mark.parametrize("name", SERVER_ASSIGNORS)
@given(data=st.data())
def test_every_partition_that_is_read_has_exactly_one_owner_who_reads_it(
    name: str, data: st.DataObject
) -> None:
    members, counts = data.draw(groups(mixed=True))
    assign = SERVER_ASSIGNORS[name]
    assignment = assign(members, counts)
    assert assignment.keys() == members.keys()
    given_out = [part for share in assignment.values() for part in share]
    read = {topic for each in members.values() for topic in each.topics} & counts.keys()
    expected = {(topic, number) for topic in read for number in range(counts[topic])}
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == expected
    for member, share in assignment.items():
        assert {topic for topic, _ in share} <= members[member].topics


@pytest.mark.parametrize("name", SERVER_ASSIGNORS)
@given(data=st.data())
def test_the_order_of_members_makes_no_difference(name: str, data: st.DataObject) -> None:
    members, counts = data.draw(groups(mixed=True))
    assign = SERVER_ASSIGNORS[name]
    backwards = dict(reversed(members.items()))
    assert assign(members, counts) == assign(backwards, dict(reversed(counts.items())))


@settings(max_examples=examples(60))
@given(group=groups(mixed=False))
def test_equal_readers_get_equal_shares_with_the_fewest_moves_of_all(
    group: tuple[dict[str, MemberSpec[str]], dict[str, int]],
) -> None:
    members, counts = group
    members = dict(list(members.items())[:3])
    counts = {topic: min(count, 2) for topic, count in counts.items()}
    assignment = assign_uniform(members, counts)
    if not members:
        assert assignment == {}
        return
    loads = [len(share) for share in assignment.values()]
    assert max(loads) - min(loads) <= 1
    even = [
        each
        for each in all_assignments(members, counts)
        if unevenness(each) == unevenness(assignment)
    ]
    assert kept(members, assignment) == max(kept(members, each) for each in even)


@settings(max_examples=examples(200))
@given(group=groups(mixed=True))
def test_mixed_readers_are_as_balanced_as_any_assignment_can_be(
    group: tuple[dict[str, MemberSpec[str]], dict[str, int]],
) -> None:
    members, counts = group
    members = dict(list(members.items())[:3])
    counts = {topic: min(count, 2) for topic, count in counts.items()}
    assignment = assign_uniform(members, counts)
    best = min(map(unevenness, all_assignments(members, counts)))
    assert unevenness(assignment) == best


@given(group=groups(mixed=True))
def test_a_balanced_assignment_stays_as_it_is(
    group: tuple[dict[str, MemberSpec[str]], dict[str, int]],
) -> None:
    members, counts = group
    once = assign_uniform(members, counts)
    again = {name: MemberSpec(each.topics, once[name]) for name, each in members.items()}
    assert assign_uniform(again, counts) == once


def test_moves_are_counted_where_partitions_are_lost_and_gained() -> None:
    before = {"a": parts("t", 0, 1), "gone": parts("t", 2)}
    after = {"a": parts("t", 0, 2), "b": parts("t", 1, 3)}
    assert count_moves(before, after) == (2, 3)
