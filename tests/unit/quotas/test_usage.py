"""What was used, added up over nodes and starts."""

from __future__ import annotations

from hypothesis import given, strategies as st

from goqueue.quotas.usage import Usage, total

counts = st.integers(0, 10**9)
usages = st.builds(
    Usage,
    counts,
    counts,
    counts,
    counts,
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 100), max_size=3),
)


@given(st.lists(usages, max_size=4), usages)
def test_a_reset_leaves_only_what_came_since(before: list[Usage], since: Usage) -> None:
    baseline = total(before)
    assert total([*before, since]).minus(baseline) == since


@given(usages, usages)
def test_the_order_does_not_matter(one: Usage, other: Usage) -> None:
    assert one.plus(other) == other.plus(one)


@given(usages)
def test_nothing_is_less_than_nothing(usage: Usage) -> None:
    assert Usage().minus(usage) == Usage()
