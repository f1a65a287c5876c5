"""Tenants: made, listed, changed, suspended, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from goqueue.access.rights import ResourceType, Right
from goqueue.access.tenants.namespace import namespace_of
from goqueue.access.tenants.quotas import TenantQuotas
from goqueue.access.tenants.records import TenantStatus
from goqueue.protocols.http.access.tenant_shapes import (
    DisableBody,
    SuspendBody,
    TenantBody,
    TenantChange,
    TenantDeleted,
    TenantGroups,
    TenantInfo,
    TenantList,
    TenantPath,
    TenantQuery,
    TenantTopics,
    tenant_info,
)
from goqueue.protocols.http.api.places import LOCAL, gather
from goqueue.protocols.http.api.rights import (
    ALTER,
    CREATE,
    DELETE,
    DESCRIBE,
    Needs,
    named,
    within,
)
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.shapes import doc
from goqueue.protocols.permissions import Permissions

if TYPE_CHECKING:
    from goqueue.access.rights import Operation
    from goqueue.broker.broker import Broker
    from goqueue.protocols.http.api.parts import Part
    from goqueue.protocols.http.api.places import Arguments

_TAG: Final = "tenants"
_DESCRIBE: Final = Right(ResourceType.TENANT, DESCRIBE)


def on_tenant(operation: Operation, text: str = "path.id") -> Needs:
    """A right on a tenant."""
    return named(Right(ResourceType.TENANT, operation), text, str, "")


def _merge_groups(parts: list[Part], arguments: Arguments) -> TenantGroups:
    del arguments
    first: TenantGroups = parts[0].answer
    groups = sorted({group for part in parts for group in part.answer.groups})
    return msgspec.structs.replace(first, groups=groups)


class DeleteQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a tenant is deleted that has something."""

    force: Annotated[bool, doc("Delete everything that it has, too.")] = False


class TenantRoutes:
    """Tenants."""

    def __init__(self, broker: Broker) -> None:
        self._tenants = broker.tenants
        self._removal = broker.tenant_removal
        self._topics = broker.topics

    @route(
        "POST",
        "/admin/tenants",
        tag=_TAG,
        right=on_tenant(CREATE, "body.id"),
        status=201,
        place=LOCAL,
    )
    async def create(self, body: TenantBody) -> TenantInfo:
        """Create a tenant. Quotas that are not named have their defaults."""
        made = await self._tenants.create(
            body.id, body.name, body.description, body.quotas, body.metadata
        )
        return tenant_info(made)

    @route(
        "GET",
        "/admin/tenants",
        tag=_TAG,
        right=within(_DESCRIBE, note="the tenants that it covers"),
        place=LOCAL,
    )
    async def all(self, query: TenantQuery, may: Permissions) -> TenantList:
        """List tenants: all, or those of one status."""
        status = None if query.status is None else TenantStatus(query.status)
        found = may.visible(_DESCRIBE, self._tenants.all(status), lambda each: each.id)
        return TenantList([tenant_info(each) for each in found])

    @route("GET", "/admin/tenants/{id}", tag=_TAG, right=on_tenant(DESCRIBE), place=LOCAL)
    async def describe(self, path: TenantPath) -> TenantInfo:
        """A tenant with its quotas."""
        return tenant_info(self._tenants.require(path.id))

    @route("PATCH", "/admin/tenants/{id}", tag=_TAG, right=on_tenant(ALTER), place=LOCAL)
    async def update(self, path: TenantPath, body: TenantChange) -> TenantInfo:
        """Change what is named of a tenant; the rest stays."""
        changed = await self._tenants.update(
            path.id,
            name=body.name,
            description=body.description,
            quotas=body.quotas,
            metadata=body.metadata,
        )
        return tenant_info(changed)

    @route("DELETE", "/admin/tenants/{id}", tag=_TAG, right=on_tenant(DELETE), place=LOCAL)
    async def delete(self, path: TenantPath, query: DeleteQuery) -> TenantDeleted:
        """Delete a tenant. One that has something is refused, unless force=true deletes that, too.

        Its clients are refused at once. The rest is deleted in the background, also after a
        restart: groups wait until the sessions of their members have timed out.
        """
        done = await self._removal.delete(path.id, force=query.force)
        return TenantDeleted(path.id, "deleted" if done else "deleting")

    @route("POST", "/admin/tenants/{id}/suspend", tag=_TAG, right=on_tenant(ALTER), place=LOCAL)
    async def suspend(self, path: TenantPath, body: SuspendBody) -> TenantInfo:
        """Refuse what the clients of a tenant publish, consume and change. Its data is kept."""
        return tenant_info(await self._tenants.suspend(path.id, body.reason))

    @route("POST", "/admin/tenants/{id}/activate", tag=_TAG, right=on_tenant(ALTER), place=LOCAL)
    async def activate(self, path: TenantPath) -> TenantInfo:
        """Serve the clients of a tenant again."""
        return tenant_info(await self._tenants.activate(path.id))

    @route("POST", "/admin/tenants/{id}/disable", tag=_TAG, right=on_tenant(ALTER), place=LOCAL)
    async def disable(self, path: TenantPath, body: DisableBody) -> TenantInfo:
        """Refuse the clients of a tenant altogether. Its data is kept."""
        return tenant_info(await self._tenants.disable(path.id, body.reason))

    @route("GET", "/admin/tenants/{id}/quotas", tag=_TAG, right=on_tenant(DESCRIBE), place=LOCAL)
    async def quotas(self, path: TenantPath) -> TenantQuotas:
        """The quotas of a tenant; 0 is unlimited."""
        return self._tenants.require(path.id).quotas

    @route("PUT", "/admin/tenants/{id}/quotas", tag=_TAG, right=on_tenant(ALTER), place=LOCAL)
    async def set_quotas(self, path: TenantPath, body: TenantQuotas) -> TenantQuotas:
        """Replace the quotas of a tenant; those that are left out have their defaults."""
        values = msgspec.structs.asdict(body)
        return (await self._tenants.update(path.id, quotas=values)).quotas

    @route("GET", "/admin/tenants/{id}/topics", tag=_TAG, right=on_tenant(DESCRIBE), place=LOCAL)
    async def topics(self, path: TenantPath) -> TenantTopics:
        """The topics of a tenant, as its clients name them."""
        prefix = namespace_of(self._tenants.require(path.id).id).prefix
        names = self._topics.catalogue.by_name
        found = sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))
        return TenantTopics(path.id, found)

    @route(
        "GET",
        "/admin/tenants/{id}/groups",
        tag=_TAG,
        right=on_tenant(DESCRIBE),
        place=gather(_merge_groups),
    )
    async def groups(self, path: TenantPath) -> TenantGroups:
        """The groups of a tenant, as its clients name them."""
        prefix = namespace_of(self._tenants.require(path.id).id).prefix
        names = self._removal.groups(path.id)
        return TenantGroups(path.id, sorted(name.removeprefix(prefix) for name in names))
