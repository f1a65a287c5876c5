"""Every way to change a tenant. A change is durable in the metadata store before it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from goqueue.access.tenants.quotas import DEFAULT_QUOTAS, changed_quotas
from goqueue.access.tenants.records import (
    SYSTEM_ID,
    Tenant,
    TenantStatus,
    check_tenant_id,
    check_tenant_texts,
)
from goqueue.model.errors import (
    InvalidTenantError,
    TenancyDisabledError,
    TenantExistsError,
    TenantProtectedError,
    UnknownTenantError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.access.tenants.directory import Tenants
    from goqueue.runtime.clock import Clock

_MAX_REASON_CHARS: Final = 500
_NOTHING: Final[Mapping[str, int]] = {}


class TenantAdministration:
    """Makes tenants and changes them; deleting one with what is in it is the broker's."""

    def __init__(self, tenants: Tenants, clock: Clock) -> None:
        self._tenants = tenants
        self._clock = clock

    def all(self, status: TenantStatus | None = None) -> list[Tenant]:
        """Every tenant in the order of the ids, or those of one status; not the system's."""
        self._check_enabled()
        found = sorted(self._tenants.records.all.items())
        return [each for _, each in found if status is None or each.status is status]

    def require(self, tenant_id: str) -> Tenant:
        """The tenant of that id. Raises `UnknownTenantError` or `TenancyDisabledError`."""
        self._check_enabled()
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            raise UnknownTenantError(f"there is no tenant {tenant_id[:80]!r}: list them for theirs")
        return tenant

    def _check_enabled(self) -> None:
        if not self._tenants.is_enabled:
            raise TenancyDisabledError(
                "tenants are off on this server: set tenancy.enabled (GOQUEUE_TENANCY_ENABLED) and "
                "restart it"
            )

    async def create(
        self,
        tenant_id: str,
        name: str,
        description: str = "",
        quotas: Mapping[str, int] = _NOTHING,
        metadata: Mapping[str, str] | None = None,
    ) -> Tenant:
        """Make a tenant; quotas that are not named have their defaults.

        Raises:
            InvalidTenantError: the id, a text or a quota cannot be so.
            TenantExistsError: there is one of that id.
        """
        self._check_enabled()
        check_tenant_id(tenant_id)
        check_tenant_texts(name, description, metadata or {})
        if self._tenants.get(tenant_id) is not None:
            raise TenantExistsError(f"there is a tenant {tenant_id!r} already: update it")
        now_ms = self._clock.now_ms()
        made = Tenant(
            id=tenant_id,
            name=name,
            description=description,
            created_ms=now_ms,
            updated_ms=now_ms,
            quotas=changed_quotas(DEFAULT_QUOTAS, quotas),
            metadata=dict(metadata or {}),
        )
        return await self._store(made)

    async def update(
        self,
        tenant_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        quotas: Mapping[str, int] = _NOTHING,
        metadata: Mapping[str, str] | None = None,
    ) -> Tenant:
        """Change what is named of a tenant, and of its quotas, and leave the rest.

        Raises:
            InvalidTenantError: a text or a quota cannot be so.
            TenantProtectedError: it is the system's own, or being deleted.
        """
        tenant = self._changeable(tenant_id)
        changed = replace(
            tenant,
            name=tenant.name if name is None else name,
            description=tenant.description if description is None else description,
            metadata=tenant.metadata if metadata is None else dict(metadata),
            quotas=changed_quotas(tenant.quotas, quotas),
            updated_ms=self._clock.now_ms(),
        )
        check_tenant_texts(changed.name, changed.description, changed.metadata)
        return await self._store(changed)

    async def suspend(self, tenant_id: str, reason: str) -> Tenant:
        """Refuse what its clients publish, consume and change; all that is stored is kept."""
        return await self._set_status(tenant_id, TenantStatus.SUSPENDED, reason)

    async def disable(self, tenant_id: str, reason: str = "") -> Tenant:
        """Refuse its clients altogether; all that is stored is kept."""
        return await self._set_status(tenant_id, TenantStatus.DISABLED, reason)

    async def activate(self, tenant_id: str) -> Tenant:
        """Serve its clients again."""
        return await self._set_status(tenant_id, TenantStatus.ACTIVE, "")

    async def begin_deletion(self, tenant_id: str) -> Tenant:
        """Refuse its clients for good, before what it has is deleted; again if need be."""
        tenant = self.require(tenant_id)
        if tenant.status is TenantStatus.DELETING:
            return tenant
        return await self._set_status(tenant_id, TenantStatus.DELETING, "being deleted")

    async def remove(self, tenant_id: str) -> None:
        """Forget a tenant that has nothing any more."""
        if tenant_id in self._tenants.records.all:
            await self._tenants.records.change({tenant_id: None})

    async def _set_status(self, tenant_id: str, status: TenantStatus, reason: str) -> Tenant:
        tenant = self._changeable(tenant_id)
        if len(reason) > _MAX_REASON_CHARS:
            raise InvalidTenantError(
                f"a reason of {len(reason)} characters, expected at most {_MAX_REASON_CHARS}"
            )
        now_ms = self._clock.now_ms()
        is_active = status is TenantStatus.ACTIVE
        changed = replace(
            tenant,
            status=status,
            reason=reason,
            suspended_ms=None if is_active else now_ms,
            updated_ms=now_ms,
        )
        return await self._store(changed)

    def _changeable(self, tenant_id: str) -> Tenant:
        tenant = self.require(tenant_id)
        if tenant.id == SYSTEM_ID:
            raise TenantProtectedError("the tenant '__system' is the broker's own and stays as is")
        if tenant.status is TenantStatus.DELETING:
            raise TenantProtectedError(
                f"tenant {tenant_id!r} is being deleted and cannot be changed any more"
            )
        return tenant

    async def _store(self, tenant: Tenant) -> Tenant:
        await self._tenants.records.change({tenant.id: tenant})
        return tenant
