"""What tenants use of their quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.access.rights import ResourceType, Right
from goqueue.model.errors import TenancyDisabledError, UnknownTenantError
from goqueue.protocols.http.access.usage_shapes import QuotaUse, UsageInfo, UsagePath, UsageStats
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.rights import ALTER, DESCRIBE, Needs, named
from goqueue.protocols.http.api.route import route

if TYPE_CHECKING:
    from goqueue.access.rights import Operation
    from goqueue.broker.broker import Broker
    from goqueue.quotas.meters import TenantMeter

_TAG: Final = "tenants"


def _on_tenant(operation: Operation) -> Needs:
    return named(Right(ResourceType.TENANT, operation), "path.id", str, "")


class UsageRoutes:
    """Usage of tenants."""

    def __init__(self, broker: Broker) -> None:
        self._quotas = broker.quotas
        self._tenants = broker.access.tenants
        self._limits = broker.tenant_limits
        self._usage = broker.usage_topic

    @route("GET", "/admin/tenants/{id}/usage", tag=_TAG, right=_on_tenant(DESCRIBE), place=LOCAL)
    async def usage(self, path: UsagePath) -> UsageInfo:
        """What a tenant has used, on all nodes: those of others as of some seconds ago."""
        return self._info(self._meter(path.id))

    @route("GET", "/admin/tenants/{id}/stats", tag=_TAG, right=_on_tenant(DESCRIBE), place=LOCAL)
    async def stats(self, path: UsagePath) -> UsageStats:
        """How much of its quotas a tenant uses."""
        meter = self._meter(path.id)
        info, quotas = self._info(meter), meter.quotas
        used = {
            "max_storage_bytes": info.storage_bytes,
            "max_topics": info.topics,
            "max_partitions": info.partitions,
            "max_groups": info.groups,
            "max_connections": info.connections,
        }
        return UsageStats(
            path.id,
            {name: _use(count, getattr(quotas, name)) for name, count in used.items()},
            info.violations,
        )

    @route(
        "POST", "/admin/tenants/{id}/usage/reset", tag=_TAG, right=_on_tenant(ALTER), place=LOCAL
    )
    async def reset(self, path: UsagePath) -> UsageInfo:
        """Count messages, bytes and violations of a tenant from now on."""
        meter = self._meter(path.id)
        await self._usage.reset(path.id)
        return self._info(meter)

    def _meter(self, tenant_id: str) -> TenantMeter:
        if not self._tenants.is_enabled:
            raise TenancyDisabledError(
                "tenants are switched off on this server: start it with tenancy.enabled"
            )
        meter = self._quotas.tenant_meters.get(tenant_id)
        if meter is None:
            raise UnknownTenantError(f"there is no tenant {tenant_id!r}: list them for their ids")
        return meter

    def _info(self, meter: TenantMeter) -> UsageInfo:
        usage = self._usage.usage(meter.tenant_id)
        topics = self._limits.topics_of(meter.tenant_id)
        return UsageInfo(
            meter.tenant_id,
            usage.published_messages,
            usage.published_bytes,
            usage.consumed_messages,
            usage.consumed_bytes,
            meter.stored_bytes,
            len(topics),
            sum(each.partition_count for each in topics),
            usage.groups,
            usage.connections,
            usage.violations,
        )


def _use(used: int, limit: int) -> QuotaUse:
    return QuotaUse(used, limit, round(100 * used / limit, 1) if limit else None)
