"""Token buckets against a twin that counts every millisecond."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from goqueue.quotas.token_bucket import TokenBucket


class TickingBucket:
    """The same in thousandths of tokens: every millisecond adds some."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.tokens = rate * 1000

    def pass_ms(self, count: int) -> None:
        for _ in range(count):
            self.tokens = min(self.tokens + self.rate, self.rate * 1000)

    def take(self, amount: int) -> None:
        self.tokens -= amount * 1000

    def wait_ms(self) -> int:
        owed, waited = self.tokens, 0
        while owed < 0 and waited < 30_000:
            owed += self.rate
            waited += 1
        return waited


@given(
    rate=st.integers(1, 1000),
    steps=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 3000)), max_size=20),
)
def test_a_bucket_holds_what_a_twin_that_counts_every_millisecond_holds(
    rate: int, steps: list[tuple[int, int]]
) -> None:
    bucket, twin, now_ms = TokenBucket(rate, 0.0), TickingBucket(rate), 0
    for passed_ms, amount in steps:
        now_ms += passed_ms
        twin.pass_ms(passed_ms)
        assert bucket.wait_s(now_ms / 1000) * 1000 == pytest.approx(twin.wait_ms(), abs=1.01)
        wait_s = bucket.take(amount, now_ms / 1000)
        twin.take(amount)
        assert wait_s * 1000 == pytest.approx(twin.wait_ms(), abs=1.01)


@given(rate=st.integers(10, 10_000), amounts=st.lists(st.integers(1, 5000), min_size=1))
def test_a_client_that_waits_as_told_never_takes_more_than_its_rate(
    rate: int, amounts: list[int]
) -> None:
    bucket, now_s = TokenBucket(rate, 0.0), 0.0
    for amount in amounts:
        wait_s = bucket.take(amount, now_s)
        while wait_s > 1e-6:
            now_s += wait_s
            wait_s = bucket.wait_s(now_s)
    assert sum(amounts) <= rate * (now_s + 1) * (1 + 1e-9)


def test_a_second_without_a_request_fills_the_bucket_and_no_more() -> None:
    bucket = TokenBucket(10, 0.0)
    assert bucket.take(10, 0.0) == 0
    assert not bucket.is_full(0.5)
    assert bucket.is_full(100.0)
    assert bucket.take(11, 100.0) == pytest.approx(0.1)


def test_nobody_is_told_to_wait_longer_than_half_a_minute_and_everything_is_owed() -> None:
    bucket = TokenBucket(1, 0.0)
    assert bucket.take(101, 0.0) == 30.0
    assert bucket.wait_s(30.0) == 30.0
    assert bucket.wait_s(90.0) == pytest.approx(10.0)
    assert bucket.wait_s(100.0) == 0


def test_what_is_owed_stays_owed_under_another_rate() -> None:
    bucket = TokenBucket(10, 0.0)
    bucket.take(30, 0.0)
    bucket.allow(5, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(4.0)


def test_a_clock_that_stands_still_or_goes_back_adds_nothing() -> None:
    bucket = TokenBucket(10, 5.0)
    bucket.take(20, 5.0)
    assert bucket.wait_s(4.0) == bucket.wait_s(5.0) == pytest.approx(1.0)
