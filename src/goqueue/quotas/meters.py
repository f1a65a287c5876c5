"""What one client, or one tenant, has taken of its quotas."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from goqueue.model.errors import RateLimitedError
from goqueue.quotas.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.access.tenants.quotas import TenantQuotas

PUBLISH_MESSAGES = "publish_messages_per_s"
PUBLISH_BYTES = "publish_bytes_per_s"
CONSUME_MESSAGES = "consume_messages_per_s"
CONSUME_BYTES = "consume_bytes_per_s"
REQUESTS = "requests_per_s"
RATES = (PUBLISH_MESSAGES, PUBLISH_BYTES, CONSUME_MESSAGES, CONSUME_BYTES, REQUESTS)
"""The quotas of a tenant that are rates, by their fields in `TenantQuotas`."""


class TenantMeter:
    """The rates of one tenant on this node. See `goqueue.partitions.measures.TopicQuota`."""

    __slots__ = ("_now_s", "buckets", "quotas", "tenant_id", "violations")

    def __init__(self, tenant_id: str, quotas: TenantQuotas, now_s: Callable[[], float]) -> None:
        self.tenant_id = tenant_id
        self._now_s = now_s
        self.violations: Counter[str] = Counter()
        """How often each quota was exceeded since the start, by its name; as many as there are
        quotas."""
        self.buckets: dict[str, TokenBucket] = {}
        """By the names in `RATES`; a rate that is not limited has none."""
        self.follow(quotas)

    def follow(self, quotas: TenantQuotas) -> None:
        """Hold the tenant to these quotas from now on."""
        self.quotas = quotas
        now_s = self._now_s()
        for name in RATES:
            rate = getattr(quotas, name)
            bucket = self.buckets.get(name)
            if not rate:
                self.buckets.pop(name, None)
            elif bucket is None:
                self.buckets[name] = TokenBucket(rate, now_s)
            else:
                bucket.allow(rate, now_s)

    def _take(self, amounts: tuple[tuple[str, float], ...]) -> float:
        now_s, wait_s = self._now_s(), 0.0
        for name, amount in amounts:
            bucket = self.buckets.get(name)
            if bucket is not None and (owed_s := bucket.take(amount, now_s)) > 0:
                self.violations[name] += 1
                wait_s = max(wait_s, owed_s)
        return wait_s

    def _wait_s(self, *names: str) -> tuple[float, str]:
        now_s = self._now_s()
        waits = [
            (bucket.wait_s(now_s), name)
            for name in names
            if (bucket := self.buckets.get(name)) is not None
        ]
        return max(waits, default=(0.0, ""))

    def published(self, count: int, size_bytes: int) -> float:
        """So many messages were taken in; how long its client has to wait with more, in s."""
        return self._take(((PUBLISH_MESSAGES, count), (PUBLISH_BYTES, size_bytes)))

    def consumed(self, count: int, size_bytes: int) -> None:
        """So many messages went to a reader."""
        self._take(((CONSUME_MESSAGES, count), (CONSUME_BYTES, size_bytes)))

    def requested(self) -> float:
        """A request was made; how long its client has to wait with more, in s."""
        return self._take(((REQUESTS, 1),))

    def consume_wait_s(self) -> float:
        """How long readers have to wait."""
        return self._wait_s(CONSUME_MESSAGES, CONSUME_BYTES)[0]

    def admit_publish(self, count: int, size_bytes: int) -> None:
        """Take in messages of a client that is refused rather than made to wait.

        Raises:
            RateLimitedError: too many were published already; nothing is counted.
        """
        self._admit(PUBLISH_MESSAGES, PUBLISH_BYTES)
        self.published(count, size_bytes)

    def admit_consume(self) -> None:
        """Raises `RateLimitedError` while too much has been read already."""
        self._admit(CONSUME_MESSAGES, CONSUME_BYTES)

    def admit_request(self) -> None:
        """Count a request. Raises `RateLimitedError` instead where there were too many."""
        self._admit(REQUESTS)
        self.requested()

    def _admit(self, *names: str) -> None:
        wait_s, name = self._wait_s(*names)
        if wait_s > 0:
            self.violations[name] += 1
            raise limited(f"tenant {self.tenant_id!r}", name, getattr(self.quotas, name), wait_s)


def limited(whose: str, name: str, rate: float, wait_s: float) -> RateLimitedError:
    """The refusal of a client that has to wait."""
    retry_after_ms = max(math.ceil(wait_s * 1000), 1)
    return RateLimitedError(
        f"the quota {name} of {whose} is exceeded: {rate:g} a second are allowed; try again in "
        f"{retry_after_ms / 1000:.3f} s"
    ).after(retry_after_ms)
