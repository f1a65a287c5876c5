"""A rate that nodes share out by demand."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from goqueue.quotas.shares import NO_DEMAND, Demand, shares
from goqueue.quotas.token_bucket import TokenBucket

demands = st.dictionaries(
    st.integers(1, 9),
    st.builds(Demand, st.floats(0, 1e6), st.booleans()),
    min_size=1,
    max_size=6,
)


@given(rate=st.floats(1, 1e6), wanted=demands)
def test_the_shares_of_all_nodes_are_the_rate(rate: float, wanted: dict[int, Demand]) -> None:
    found = shares(rate, wanted)
    assert found.keys() == wanted.keys()
    assert sum(found.values()) == pytest.approx(rate)
    assert min(found.values()) > 0


@given(rate=st.floats(1, 1e6), wanted=demands)
def test_what_is_used_without_waiting_may_be_used_on_if_there_is_enough(
    rate: float, wanted: dict[int, Demand]
) -> None:
    used = sum(each.used_per_s for each in wanted.values())
    if any(each.is_short for each in wanted.values()) or used * 1.25 > rate * 0.95:
        return
    found = shares(rate, wanted)
    assert all(found[node] >= each.used_per_s for node, each in wanted.items())


def test_nodes_whose_clients_wait_get_what_the_others_leave() -> None:
    found = shares(
        1000, {1: Demand(100, is_short=False), 2: Demand(300, is_short=True), 3: NO_DEMAND}
    )
    assert found[2] > 800
    assert found[1] >= 125
    assert found[3] < 20


@pytest.mark.parametrize("moved", [False, True])
def test_three_nodes_together_keep_to_a_rate_over_ten_seconds(moved: bool) -> None:
    """The clients of nodes take as much as they may; after a while all are on another node."""
    rate, step_s = 1000.0, 0.01
    nodes = {node: TokenBucket(rate / 3, 0.0) for node in (1, 2, 3)}
    told: dict[int, Demand] = dict.fromkeys(nodes, NO_DEMAND)
    taken: list[tuple[float, float]] = []
    for tick in range(1, 1600):
        now_s = tick * step_s
        busy = {3} if moved and now_s > 6 else {1, 2}
        for node in busy:
            while nodes[node].wait_s(now_s) == 0:
                nodes[node].take(7, now_s)
                taken.append((now_s, 7))
        if tick % 100 == 0:
            news = {node: Demand(each.taken, each.is_short) for node, each in nodes.items()}
            for each in nodes.values():
                each.taken, each.is_short = 0.0, False
            for node, bucket in nodes.items():
                seen = {**told, node: news[node]}  # what the others did arrives a second later
                bucket.allow(shares(rate, seen)[node], now_s)
            told = news
    found = sum(amount for at_s, amount in taken if 5 < at_s <= 15)
    assert found == pytest.approx(rate * 10, rel=0.1 if not moved else 0.25)
