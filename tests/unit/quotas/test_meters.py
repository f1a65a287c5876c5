"""What clients and tenants have taken, and what they are told."""

from __future__ import annotations

import pytest

from goqueue.access.tenants.quotas import NO_QUOTAS, TenantQuotas
from goqueue.model.errors import RateLimitedError
from goqueue.quotas.client_meter import ClientMeter
from goqueue.quotas.meters import CONSUME_MESSAGES, PUBLISH_BYTES, PUBLISH_MESSAGES, TenantMeter
from goqueue.quotas.token_bucket import TokenBucket


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def tenant(now: Hand, **quotas: int) -> TenantMeter:
    given = dict.fromkeys(TenantQuotas.__struct_fields__, 0) | quotas
    return TenantMeter("red", TenantQuotas(**given), now)


def test_a_tenant_without_quotas_never_waits() -> None:
    meter = TenantMeter("red", NO_QUOTAS, Hand())
    assert meter.published(10**9, 10**12) == 0
    meter.consumed(10**9, 10**12)
    assert meter.consume_wait_s() == 0
    meter.admit_publish(1, 1)
    meter.admit_request()


def test_the_longest_of_two_waits_counts() -> None:
    now = Hand()
    meter = tenant(now, publish_messages_per_s=10, publish_bytes_per_s=1000)
    assert meter.published(10, 1000) == 0
    assert meter.published(1, 1000) == pytest.approx(1.0)
    assert meter.violations == {PUBLISH_MESSAGES: 1, PUBLISH_BYTES: 1}


def test_a_client_that_cannot_be_made_to_wait_is_refused_and_told_when_to_try_again() -> None:
    now = Hand()
    meter = tenant(now, publish_messages_per_s=10)
    meter.admit_publish(15, 0)
    with pytest.raises(RateLimitedError, match="publish_messages_per_s of tenant 'red'") as caught:
        meter.admit_publish(1, 0)
    assert caught.value.retry_after_ms == 500
    assert meter.violations[PUBLISH_MESSAGES] == 2  # when it took too much, and when it was refused
    now.now_s += 0.5
    meter.admit_publish(1, 0)


def test_reading_too_much_refuses_readers_and_not_publishers() -> None:
    meter = tenant(Hand(), consume_messages_per_s=10, publish_messages_per_s=10)
    meter.consumed(20, 0)
    assert meter.consume_wait_s() == pytest.approx(1.0)
    with pytest.raises(RateLimitedError, match=CONSUME_MESSAGES):
        meter.admit_consume()
    meter.admit_publish(1, 0)


def test_new_quotas_count_at_once() -> None:
    now = Hand()
    meter = tenant(now, publish_messages_per_s=10)
    assert meter.published(110, 0) == pytest.approx(10.0)
    meter.follow(TenantQuotas(publish_messages_per_s=100, publish_bytes_per_s=0))
    assert meter.published(0, 0) == pytest.approx(1.0)
    meter.follow(NO_QUOTAS)
    assert meter.published(1000, 0) == 0


def test_a_client_waits_for_the_longest_of_its_quotas_and_those_of_its_tenant() -> None:
    now = Hand()
    meter = ClientMeter(
        "user 'a'",
        now,
        fetched_bytes=TokenBucket(100, now()),
        requests=TokenBucket(1, now()),
        tenant=tenant(now, requests_per_s=2, consume_bytes_per_s=50),
    )
    assert meter.fetch_limit_bytes(1000) == 50
    assert meter.requested() == 0
    assert meter.requested() == pytest.approx(1.0)
    assert meter.fetched(200) == pytest.approx(1.0)
    assert meter.fetch_wait_s() == pytest.approx(1.0)
    assert meter.produced(10**9) == 0


def test_a_request_is_refused_where_the_client_cannot_be_made_to_wait() -> None:
    now = Hand()
    meter = ClientMeter(
        "user 'a'",
        now,
        produced_bytes=TokenBucket(10, now()),
        requests=TokenBucket(2, now()),
        mutations=TokenBucket(1, now()),
    )
    meter.admit_request(size_bytes=20)
    with pytest.raises(RateLimitedError, match="producer_byte_rate of user 'a'"):
        meter.admit_request(size_bytes=1)
    meter.admit_request(is_read=True)
    meter.admit_request()
    with pytest.raises(RateLimitedError, match="request_rate of user 'a'"):
        meter.admit_request()
    meter.admit_mutations(5)
    with pytest.raises(RateLimitedError, match="controller_mutation_rate"):
        meter.admit_mutations(1)


def test_one_answer_holds_about_what_may_be_read_in_a_second() -> None:
    """More would be a debt, which is forgotten beyond half a minute."""
    now = Hand()
    asked_bytes = 50 * 1024 * 1024
    assert tenant(now).fetch_limit_bytes(asked_bytes) == asked_bytes
    assert tenant(now, consume_bytes_per_s=1000).fetch_limit_bytes(asked_bytes) == 1000
    meter = tenant(now, consume_messages_per_s=20)
    assert meter.fetch_limit_bytes(asked_bytes) == 2000  # before any message was read
    meter.consumed(10, 5000)
    assert meter.fetch_limit_bytes(asked_bytes) == 10_000
    assert meter.fetch_limit_bytes(300) == 300
