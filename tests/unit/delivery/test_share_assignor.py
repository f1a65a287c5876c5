"""Which partitions the members of a share group read."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from hypothesis import given, strategies as st

from goqueue.queues.delivery.share_assignor import assign

ONE, TWO, THREE = (UUID(int=number) for number in (1, 2, 3))


def numbers(found, topic=ONE):
    return {
        member: sorted(number for each, number in mine if each == topic)
        for member, mine in found.items()
    }


def same(members, topic=ONE):
    return dict.fromkeys(members, frozenset({topic}))


def test_members_are_spread_over_the_partitions():
    assert numbers(assign(same("ab"), {ONE: 2}, {})) == {"a": [0], "b": [1]}
    assert sorted(map(len, assign(same("ab"), {ONE: 5}, {}).values())) == [2, 3]


def test_more_members_than_partitions_share_them_evenly():
    found = assign(same("abcd"), {ONE: 2}, {})
    assert sorted(numbers(found).values()) == [[0], [0], [1], [1]]
    three = assign(same("abc"), {ONE: 2}, {})
    assert sorted(numbers(three).values()) in ([[0], [0, 1], [1]], [[0], [1], [0, 1]])


def test_members_keep_what_they_have_when_somebody_comes_or_goes():
    two = assign(same("ab"), {ONE: 6}, {})
    three = assign(same("abc"), {ONE: 6}, two)
    assert all(three[member] < two[member] for member in "ab")
    assert len(three["c"]) == 2
    left = assign(same("ac"), {ONE: 6}, three)
    assert all(three[member] < left[member] for member in "ac")


def test_topics_that_are_recreated_are_other_topics():
    before = assign(same("ab"), {ONE: 2}, {})
    assert numbers(assign(same("ab", TWO), {TWO: 2}, before), TWO) == {"a": [0], "b": [1]}


def test_each_topic_is_shared_out_among_its_own_subscribers():
    topics = {"a": {ONE}, "b": {TWO}, "c": {ONE, TWO}}
    found = assign(topics, {ONE: 4, TWO: 2}, {})
    assert [len(numbers(found)[member]) for member in "abc"] == [2, 0, 2]
    assert [len(numbers(found, TWO)[member]) for member in "abc"] == [0, 1, 1]


def test_topics_that_do_not_exist_are_passed_over():
    assert assign(same("ab"), {}, {}) == {"a": frozenset(), "b": frozenset()}
    assert assign({}, {ONE: 2}, {}) == {}


SUBSCRIPTIONS = st.frozensets(st.sampled_from([ONE, TWO, THREE]))
GROUPS = st.dictionaries(st.integers(0, 9).map(str), SUBSCRIPTIONS, max_size=8)
COUNTS = st.dictionaries(st.sampled_from([ONE, TWO, THREE]), st.integers(1, 9))


@given(st.lists(st.tuples(GROUPS, COUNTS), min_size=1, max_size=5))
def test_whatever_happens_every_partition_is_read_and_members_are_balanced(steps):
    held = {}
    for topics, counts in steps:
        held = assign(topics, counts, held)
        check(topics, counts, held)
        assert assign(topics, counts, held) == held


def check(topics, counts, found):
    readers = Counter(partition for mine in found.values() for partition in mine)
    for member, mine in found.items():
        assert {topic for topic, _ in mine} <= topics[member]
    for topic, count in counts.items():
        subscribers = [member for member, mine in topics.items() if topic in mine]
        for number in range(count):
            assert (readers[topic, number] >= 1) == bool(subscribers)
    if len(set(topics.values())) == 1:
        total = sum(counts.get(topic, 0) for topic in next(iter(topics.values())))
        sizes = [len(mine) for mine in found.values()]
        sharing = -(-len(topics) // total) if total else 0
        assert max(sizes) <= -(-sharing * total // len(topics))
        assert min(sizes) >= min(1, total)
        assert all(count <= sharing for count in readers.values())
