"""Every quota of this node: those of clients, which are stored here, and those of tenants.

Where none is set, `is_active` is false, and nobody asks for more than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote

from goqueue.access.stored import StoredRecords
from goqueue.quotas import client_quotas as names
from goqueue.quotas.client_meter import ClientMeter
from goqueue.quotas.client_quotas import ClientQuota, QuotaTable, check_entity, key_of
from goqueue.quotas.meters import TenantMeter
from goqueue.quotas.shares import Demand
from goqueue.quotas.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from goqueue.access.principals import Principal
    from goqueue.access.tenants.directory import Tenants
    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.view_keeper import ViewKeeper
    from goqueue.partitions.measures import Measures
    from goqueue.publishing.new_messages import NewMessage
    from goqueue.quotas.client_quotas import Component, Entity
    from goqueue.runtime.clock import Clock

    BucketKey: TypeAlias = tuple[str, str | None, str | None]
    """The name of a quota, the user and the client id that share a bucket."""

_MAX_CLIENT_QUOTAS: Final = 100_000
"""Entities with quotas; a further one is refused with `TooManyCredentialsError`."""
_MAX_METERS: Final = 10_000
"""Clients whose quotas are remembered; at the bound all are looked up anew."""
_MAX_BUCKETS: Final = 50_000
"""At the bound those are removed that nobody takes from. If all are in use, all are removed, and
their clients begin anew with one second's worth."""


class Quotas:
    """Who may take how much, and what was taken here."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        measures: Measures,
        tenants: Tenants,
        keeper: ViewKeeper | None = None,
    ) -> None:
        """In a cluster `keeper` tells what other nodes change."""
        self._now_s = clock.monotonic_s
        self._measures = measures
        self._tenants = tenants
        self._stored = StoredRecords(
            store, "client-quotas/", ClientQuota, limit=_MAX_CLIENT_QUOTAS, keeper=keeper
        )
        self._table = QuotaTable({})
        self._meters: dict[tuple[str, str | None, str], ClientMeter | None] = {}
        self._buckets: dict[BucketKey, TokenBucket] = {}
        self.tenant_meters: dict[str, TenantMeter] = {}
        """By the ids of tenants; as many as there are tenants."""
        self._fractions: dict[str, float] = {}
        """This node's parts of rates that the cluster uses, by the keys of their buckets."""
        self._usual_fraction = 1.0
        self._looked_s = 0.0
        self.is_active = False
        """Whether anything is limited at all."""
        self.version = 0
        """Grows with every change of a quota."""

    async def load(self) -> None:
        """Read the quotas of clients; tenants are loaded before."""
        self._stored.on_change = self._tenants.on_change = self.follow
        await self._stored.load()
        self.follow()

    def follow(self) -> None:
        """A quota, or a tenant, was changed."""
        self._table = QuotaTable(self._stored.all)
        self._meters = {}
        tenants = self._tenants.records.all
        for tenant_id in self.tenant_meters.keys() - tenants.keys():
            del self.tenant_meters[tenant_id]
        for tenant_id, tenant in tenants.items():
            meter = self.tenant_meters.get(tenant_id)
            if meter is None:
                self.tenant_meters[tenant_id] = TenantMeter(
                    tenant_id, tenant.quotas, self._now_s, self._fraction_of
                )
            elif meter.quotas != tenant.quotas:
                meter.follow(tenant.quotas)
        self.is_active = bool(self._table or self.tenant_meters)
        self.version += 1
        self._measures.use_quotas(self.of_topic if self.tenant_meters else None)

    # --- Who is held to what ----------------------------------------------------------------------

    def of_topic(self, name: str) -> TenantMeter | None:
        """The tenant whose topic it is, by its name."""
        tenant_id, dot, _ = name.partition(".")
        return self.tenant_meters.get(tenant_id) if dot else None

    def meter(self, principal: Principal, client_id: str | None = None) -> ClientMeter | None:
        """What a client takes from; None where nothing is limited."""
        key = principal.name, principal.tenant, client_id or ""
        if key not in self._meters:
            if len(self._meters) >= _MAX_METERS:
                self._meters.clear()
            self._meters[key] = self._find(principal, client_id or "")
        return self._meters[key]

    def _find(self, principal: Principal, client_id: str) -> ClientMeter | None:
        user = principal.name
        whose = f"user {user!r}" if not client_id else f"user {user!r}, client id {client_id!r}"
        tenant = None if principal.tenant is None else self.tenant_meters.get(principal.tenant)
        meter = ClientMeter(
            whose,
            self._now_s,
            self._bucket(names.PRODUCER_BYTE_RATE, user, client_id),
            self._bucket(names.CONSUMER_BYTE_RATE, user, client_id),
            self._bucket(names.REQUEST_PERCENTAGE, user, client_id, unit=0.01),
            self._bucket(names.CONTROLLER_MUTATION_RATE, user, client_id),
            self._bucket(names.REQUEST_RATE, user, client_id),
            tenant,
        )
        return None if all(each is None for each in meter[2:]) else meter

    def _bucket(
        self, name: str, user: str, client_id: str, unit: float = 1.0
    ) -> TokenBucket | None:
        found = self._table.find(name, user, client_id)
        if found is None:
            return None
        key = name, found.user, found.client_id
        bucket, now_s = self._buckets.get(key), self._now_s()
        unit *= self._fraction_of(_text_of(key))
        if bucket is None:
            if len(self._buckets) >= _MAX_BUCKETS:
                in_use = {at: each for at, each in self._buckets.items() if not each.is_full(now_s)}
                self._buckets = in_use if len(in_use) < _MAX_BUCKETS else {}
            bucket = self._buckets[key] = TokenBucket(found.rate * unit, now_s)
        bucket.allow(found.rate * unit, now_s)
        return bucket

    def admit_messages(self, topic: str, messages: Sequence[NewMessage]) -> None:
        """Count messages that are published to a topic, by a client that is not made to wait.

        Raises:
            RateLimitedError: its tenant has published too many already.
        """
        meter = self.of_topic(topic) if self.tenant_meters else None
        if meter is not None:
            size_bytes = sum(len(each.value or b"") + len(each.key or b"") for each in messages)
            meter.admit_publish(len(messages), size_bytes)

    # --- A rate is one for the cluster -----------------------------------------------------------

    def _fraction_of(self, key: str) -> float:
        return self._fractions.get(key, self._usual_fraction)

    def _all_buckets(self) -> Iterator[tuple[str, TokenBucket]]:
        for key, bucket in self._buckets.items():
            yield _text_of(key), bucket
        for tenant_id, meter in self.tenant_meters.items():
            for name, bucket in meter.buckets.items():
                yield f"tenant/{tenant_id}/{name}", bucket

    def rates(self) -> dict[str, float]:
        """The rates in use here, as they are in the whole cluster, by the keys of their buckets."""
        return {key: bucket.rate / self._fraction_of(key) for key, bucket in self._all_buckets()}

    def demands(self, now_s: float) -> dict[str, Demand]:
        """What clients of this node did with each rate since this was asked last."""
        passed_s = max(now_s - self._looked_s, 0.001)
        self._looked_s = now_s
        found = {}
        for key, bucket in self._all_buckets():
            # Who owes and waits asks for nothing, and needs its share to make up for it.
            is_short = bucket.is_short or bucket.wait_s(now_s) > 0
            if bucket.taken or is_short:
                found[key] = Demand(bucket.taken / passed_s, is_short)
                bucket.taken, bucket.is_short = 0.0, False
        return found

    def use_shares(self, fractions: dict[str, float], node_count: int) -> None:
        """Let clients of this node use these parts of rates, of others one in `node_count`."""
        if not fractions and not self._fractions and self._usual_fraction == 1 / node_count:
            return
        rates = self.rates()
        self._fractions, self._usual_fraction = fractions, 1 / node_count
        now_s = self._now_s()
        for key, bucket in self._all_buckets():
            bucket.allow(rates[key] * self._fraction_of(key), now_s)

    # --- The quotas of clients --------------------------------------------------------------------

    def find(self, wanted: Sequence[Component] = (), *, strict: bool = False) -> list[ClientQuota]:
        """The entities that a filter takes, with their quotas."""
        return [
            quota
            for _, quota in sorted(self._stored.all.items())
            if names.matches(quota.entity, wanted, strict=strict)
        ]

    def plan(self, entity: Entity, changes: Mapping[str, float | None]) -> ClientQuota:
        """What an entity would have after a change.

        Raises:
            InvalidClientQuotaError: it cannot be.
        """
        check_entity(entity)
        known = self._stored.all.get(key_of(entity))
        values = names.changed({} if known is None else known.values, changes)
        return ClientQuota(dict(entity), values)

    async def put(self, quota: ClientQuota) -> None:
        """Store the quotas of an entity; without any, it is forgotten."""
        key = key_of(quota.entity)
        if quota.values or key in self._stored.all:
            await self._stored.change({key: quota if quota.values else None})


def _text_of(key: BucketKey) -> str:
    """The key of a bucket as nodes tell each other of it."""
    return "/".join(("client", *(quote(part or "", safe="") for part in key)))
