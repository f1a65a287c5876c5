"""What one client, or one tenant, has taken of its quotas."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from goqueue.model.errors import (
    BatchTooLargeError,
    DelayTooLongError,
    QuotaExceededError,
    RateLimitedError,
    StorageQuotaExceededError,
)
from goqueue.quotas.token_bucket import TokenBucket
from goqueue.quotas.usage import Usage

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
_FIRST_MESSAGE_BYTES = 100
"""What a message is taken to have until some were read."""


class TenantMeter:
    """The rates of one tenant on this node. See `goqueue.partitions.measures.TopicQuota`."""

    __slots__ = (
        "_now_s",
        "buckets",
        "connection_count",
        "connections_elsewhere",
        "counted",
        "earlier",
        "fraction_of",
        "quotas",
        "stored_bytes",
        "tenant_id",
        "violations",
    )

    def __init__(
        self,
        tenant_id: str,
        quotas: TenantQuotas,
        now_s: Callable[[], float],
        fraction_of: Callable[[str], float] = lambda _: 1.0,
    ) -> None:
        """`fraction_of` tells this node's part of a rate, by the key of its bucket."""
        self.tenant_id = tenant_id
        self._now_s = now_s
        self.violations: Counter[str] = Counter()
        """How often each quota was exceeded since the start, by its name; as many as there are
        quotas."""
        self.fraction_of = fraction_of
        self.counted = Usage()
        """What was used since this start, but for violations."""
        self.earlier = Usage()
        """What was used by way of this node before."""
        self.connection_count = 0
        """Kafka connections of its clients to this node."""
        self.connections_elsewhere = 0
        """The same to other nodes, as they have told."""
        self.stored_bytes = 0
        """What its topics take on the disk, in the whole cluster, as of a moment ago."""
        self.buckets: dict[str, TokenBucket] = {}
        """By the names in `RATES`; a rate that is not limited has none."""
        self.follow(quotas)

    def follow(self, quotas: TenantQuotas) -> None:
        """Hold the tenant to these quotas from now on."""
        self.quotas = quotas
        now_s = self._now_s()
        for name in RATES:
            rate = getattr(quotas, name) * self.fraction_of(f"tenant/{self.tenant_id}/{name}")
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
        self.counted.published_messages += count
        self.counted.published_bytes += size_bytes
        return self._take(((PUBLISH_MESSAGES, count), (PUBLISH_BYTES, size_bytes)))

    def consumed(self, count: int, size_bytes: int) -> None:
        """So many messages went to a reader."""
        self.counted.consumed_messages += count
        self.counted.consumed_bytes += size_bytes
        self._take(((CONSUME_MESSAGES, count), (CONSUME_BYTES, size_bytes)))

    def requested(self) -> float:
        """A request was made; how long its client has to wait with more, in s."""
        return self._take(((REQUESTS, 1),))

    def publish_wait_s(self) -> float:
        """How long publishers have to wait for what was published before."""
        return self._wait_s(PUBLISH_MESSAGES, PUBLISH_BYTES)[0]

    def request_wait_s(self) -> float:
        """How long everybody has to wait for the requests that were made before."""
        return self._wait_s(REQUESTS)[0]

    def consume_wait_s(self) -> float:
        """How long readers have to wait."""
        return self._wait_s(CONSUME_MESSAGES, CONSUME_BYTES)[0]

    def fetch_limit_bytes(self, asked_bytes: int) -> int:
        """How much one answer may hold: about what may be read in a second, on this node."""
        limit: float = asked_bytes
        if (by_bytes := self.buckets.get(CONSUME_BYTES)) is not None:
            limit = min(limit, by_bytes.rate)
        if (by_messages := self.buckets.get(CONSUME_MESSAGES)) is not None:
            limit = min(limit, by_messages.rate * self._message_bytes())
        return max(int(limit), 1)

    def _message_bytes(self) -> float:
        """How large the messages are that are read, on average."""
        counted = self.counted
        if not counted.consumed_messages:
            return _FIRST_MESSAGE_BYTES
        return counted.consumed_bytes / counted.consumed_messages

    def usage(self) -> Usage:
        """What was used by way of this node, with earlier starts."""
        since = msgspec.structs.replace(
            self.counted, violations=dict(self.violations), connections=self.connection_count
        )
        return self.earlier.plus(since)

    def connected(self) -> None:
        """Count a connection. Raises `QuotaExceededError` instead where it is one too many."""
        wanted = self.connection_count + self.connections_elsewhere + 1
        self.check_count("max_connections", wanted, "connections")
        self.connection_count += 1

    def disconnected(self) -> None:
        """A connection is gone."""
        self.connection_count -= 1

    def check_count(
        self,
        name: str,
        wanted: int,
        what: str,
        error: type[QuotaExceededError] = QuotaExceededError,
    ) -> None:
        """Raise `error` where the tenant would have more of something than a quota allows."""
        limit = getattr(self.quotas, name)
        if limit and wanted > limit:
            self.violations[name] += 1
            raise error(
                f"tenant {self.tenant_id!r} would have {wanted} {what}; its quota {name} allows "
                f"{limit}: delete some, or ask for a larger quota"
            )

    def refuses(self, size_bytes: int) -> bool:
        """Whether `check_batch` would raise."""
        quotas = self.quotas
        return bool(
            (quotas.max_message_bytes and size_bytes > quotas.max_message_bytes)
            or (quotas.max_storage_bytes and self.stored_bytes >= quotas.max_storage_bytes)
        )

    def check_batch(self, size_bytes: int) -> None:
        """Hold a batch to what may be stored.

        Raises:
            BatchTooLargeError: it is larger than one may be.
            StorageQuotaExceededError: the tenant has stored as much as it may.
        """
        limit = self.quotas.max_message_bytes
        if limit and size_bytes > limit:
            self.violations["max_message_bytes"] += 1
            raise BatchTooLargeError(
                f"a batch of {size_bytes} bytes; the quota max_message_bytes of tenant "
                f"{self.tenant_id!r} allows {limit}: send smaller messages, or fewer in a batch"
            )
        limit = self.quotas.max_storage_bytes
        if limit and self.stored_bytes >= limit:
            self.violations["max_storage_bytes"] += 1
            raise StorageQuotaExceededError(
                f"the topics of tenant {self.tenant_id!r} take {self.stored_bytes} bytes; its "
                f"quota max_storage_bytes allows {limit}: delete messages, or shorten retention"
            )

    def check_delay(self, delay_ms: int) -> None:
        """Raises `DelayTooLongError` unless a message may be delayed for so long."""
        limit = self.quotas.max_delay_ms
        if limit and delay_ms > limit:
            self.violations["max_delay_ms"] += 1
            raise DelayTooLongError(
                f"a delay of {delay_ms} ms; the quota max_delay_ms of tenant {self.tenant_id!r} "
                f"allows {limit}"
            )

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
