"""What one client has taken of its quotas: those of its user, its client id and its tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.tuples import NamedTuple
from goqueue.quotas.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
)
from goqueue.quotas.meters import limited

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.quotas.meters import TenantMeter
    from goqueue.quotas.token_bucket import TokenBucket


class ClientMeter(NamedTuple):
    """The buckets that a client takes from; None where nothing is limited."""

    whose: str
    """The client, as a refusal names it."""
    now_s: Callable[[], float]
    produced_bytes: TokenBucket | None = None
    fetched_bytes: TokenBucket | None = None
    busy_s: TokenBucket | None = None
    """Time of the event loop."""
    mutations: TokenBucket | None = None
    """Partitions that are created or deleted."""
    requests: TokenBucket | None = None
    tenant: TenantMeter | None = None

    # --- Clients that are made to wait: each returns for how long, in s --------------------------

    def requested(self) -> float:
        """A request was made."""
        wait_s = 0.0 if self.tenant is None else self.tenant.requested()
        return wait_s if self.requests is None else max(wait_s, self.requests.take(1, self.now_s()))

    def produced(self, size_bytes: int) -> float:
        """So many bytes were sent to be stored."""
        bucket = self.produced_bytes
        return 0.0 if bucket is None else bucket.take(size_bytes, self.now_s())

    def request_wait_s(self) -> float:
        """Nothing may be asked for so long, for what was taken before on any connection."""
        wait_s = 0.0 if self.tenant is None else self.tenant.request_wait_s()
        now_s = self.now_s()
        for bucket in (self.requests, self.busy_s):
            if bucket is not None:
                wait_s = max(wait_s, bucket.wait_s(now_s))
        return wait_s

    def produce_wait_s(self) -> float:
        """Nothing may be published for so long, for what was published before."""
        bucket = self.produced_bytes
        wait_s = 0.0 if bucket is None else bucket.wait_s(self.now_s())
        return wait_s if self.tenant is None else max(wait_s, self.tenant.publish_wait_s())

    def fetched(self, size_bytes: int) -> float:
        """So many bytes were read; the topics' tenants have counted them already."""
        bucket = self.fetched_bytes
        wait_s = 0.0 if bucket is None else bucket.take(size_bytes, self.now_s())
        return wait_s if self.tenant is None else max(wait_s, self.tenant.consume_wait_s())

    def fetch_wait_s(self) -> float:
        """Nothing may be read for so long."""
        bucket = self.fetched_bytes
        wait_s = 0.0 if bucket is None else bucket.wait_s(self.now_s())
        return wait_s if self.tenant is None else max(wait_s, self.tenant.consume_wait_s())

    def fetch_limit_bytes(self, asked_bytes: int) -> int:
        """How much one answer may hold: no more than what may be read in a second."""
        bucket = self.fetched_bytes
        limit = asked_bytes if bucket is None else min(asked_bytes, int(bucket.rate))
        return limit if self.tenant is None else self.tenant.fetch_limit_bytes(limit)

    def was_busy(self, seconds: float) -> float:
        """Requests took so much time of the event loop."""
        return 0.0 if self.busy_s is None else self.busy_s.take(seconds, self.now_s())

    # --- Clients that are refused: each raises `RateLimitedError` --------------------------------

    def admit_request(self, *, size_bytes: int = 0, is_read: bool = False) -> None:
        """Count a request with so many bytes to store, or one that reads."""
        if self.tenant is not None:
            if is_read:
                self.tenant.admit_consume()
            self.tenant.admit_request()
        now_s = self.now_s()
        self._admit(REQUEST_RATE, self.requests, now_s)
        if is_read:
            self._admit(CONSUMER_BYTE_RATE, self.fetched_bytes, now_s)
        if size_bytes:
            self._admit(PRODUCER_BYTE_RATE, self.produced_bytes, now_s)
            self.produced(size_bytes)
        if self.requests is not None:
            self.requests.take(1, now_s)

    def admit_mutations(self, count: int) -> None:
        """Count partitions that are created or deleted."""
        now_s = self.now_s()
        self._admit(CONTROLLER_MUTATION_RATE, self.mutations, now_s)
        if self.mutations is not None:
            self.mutations.take(count, now_s)

    def _admit(self, name: str, bucket: TokenBucket | None, now_s: float) -> None:
        if bucket is not None and (wait_s := bucket.wait_s(now_s)) > 0:
            raise limited(self.whose, name, bucket.rate, wait_s)
