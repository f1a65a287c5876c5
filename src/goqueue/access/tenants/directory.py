"""The tenants there are: in the metadata store, followed by every node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.access.stored import StoredRecords
from goqueue.access.tenants.records import SYSTEM, SYSTEM_ID, Tenant

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.view_keeper import ViewKeeper

_MAX_TENANTS: Final = 10_000
"""A further one is refused with `TooManyCredentialsError`."""


class Tenants:
    """Every tenant by its id. Where tenancy is off there are none, and nothing is read."""

    def __init__(
        self, store: MetadataStore, *, is_enabled: bool, keeper: ViewKeeper | None = None
    ) -> None:
        """In a cluster `keeper` tells what other nodes change."""
        self.is_enabled = is_enabled
        self.records = StoredRecords(store, "tenants/", Tenant, limit=_MAX_TENANTS, keeper=keeper)
        self.on_change: Callable[[], None] | None = None
        """Called after a tenant has changed; set by the quotas."""

    async def load(self) -> None:
        """Read what is stored."""
        if self.is_enabled:
            await self.records.load()

    def get(self, tenant_id: str) -> Tenant | None:
        """The tenant of that id as it is now."""
        return SYSTEM if tenant_id == SYSTEM_ID else self.records.all.get(tenant_id)
