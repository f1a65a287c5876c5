"""Deleting a tenant with everything that it has.

The tenant is marked first, which refuses its clients. From then on every node deletes what it
coordinates of it, pass after pass, until nothing is left; the record of the tenant goes last. Each
step may be done again, so a node that is killed in the middle goes on where it was. Groups wait
until the sessions of their members have timed out.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from goqueue.access.rights import ResourceType
from goqueue.access.tenants.namespace import namespace_of
from goqueue.access.tenants.records import TenantStatus
from goqueue.model.errors import GoQueueError, TenantNotEmptyError
from goqueue.model.tuples import NamedTuple
from goqueue.schemas.removing import delete_subject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.access.administration import AccessAdministration
    from goqueue.access.directory import AccessDirectory
    from goqueue.access.rules import Rule
    from goqueue.access.tenants.administration import TenantAdministration
    from goqueue.access.tenants.records import Tenant
    from goqueue.administration.groups import GroupAdministrator
    from goqueue.insight.group_views import GroupViews
    from goqueue.pipelines.service import Pipelines
    from goqueue.quotas.tenant_limits import TenantLimits
    from goqueue.runtime.clock import Clock
    from goqueue.schemas.registry import Registry
    from goqueue.schemas.service import Schemas
    from goqueue.state.serial import Decided
    from goqueue.topics.catalogue import Topic, Topics
    from goqueue.transactions.service import Transactions

logger = logging.getLogger(__name__)

DELETION_PASS_S: Final = 1.0
"""How often a node looks for tenants to delete."""
_CLUSTER_MS: Final = 10_000
"""How long a node goes on deleting a tenant at least where others have parts of it, too."""


class Belongings(NamedTuple):
    """What a tenant has, as far as this node knows: names inside."""

    topics: list[str]
    groups: list[str]
    subjects: list[str]
    keys: list[str]
    users: list[str]

    def counts(self) -> str:
        """As a text; empty if there is nothing."""
        found = zip(self._fields, self, strict=True)
        return ", ".join(f"{len(names)} {kind}" for kind, names in found if names)


class TenantRemoval:
    """Deletes tenants: empty ones at once, others on demand and in the background."""

    def __init__(
        self,
        administration: TenantAdministration,
        access: AccessDirectory,
        access_administration: AccessAdministration,
        *,
        topics: Topics,
        delete_topic: Callable[[str], Awaitable[Topic]],
        group_views: GroupViews,
        groups: GroupAdministrator,
        schemas: Schemas,
        transactions: Transactions,
        pipelines: Pipelines,
        limits: TenantLimits,
        clock: Clock,
        is_cluster: bool,
    ) -> None:
        self._administration = administration
        self._access = access
        self._access_administration = access_administration
        self._topics = topics
        self._delete_topic = delete_topic
        self._group_views = group_views
        self._groups = groups
        self._schemas = schemas
        self._transactions = transactions
        self._pipelines = pipelines
        self._limits = limits
        self._clock = clock
        self._is_cluster = is_cluster
        self._since_ms = clock.now_ms()
        """Since when this node looks: others that were away with it have had no time before."""

    async def belongings(self, tenant_id: str) -> Belongings:
        """What a tenant has."""
        prefix = namespace_of(tenant_id).prefix
        bindings = self._access.bindings.all.items()
        keys = self._access.keys.all.items()
        return Belongings(
            [name for name in self._topics.catalogue.by_name if name.startswith(prefix)],
            self.groups(tenant_id),
            await self._schemas.ask(
                lambda registry: [name for name, _ in registry.contexts.subjects(prefix)]
            ),
            [key_id for key_id, key in keys if key.tenant == tenant_id],
            [name for name, binding in bindings if binding.tenant == tenant_id],
        )

    def groups(self, tenant_id: str) -> list[str]:
        """The groups of a tenant that this node coordinates."""
        prefix = namespace_of(tenant_id).prefix
        names = (line.group_id for line in self._group_views.all())
        return [name for name in names if name.startswith(prefix)]

    async def delete(self, tenant_id: str, *, force: bool) -> bool:
        """Delete a tenant; with `force` with all that it has. Returns whether it is gone already.

        Raises:
            TenantNotEmptyError: it has something, and nothing was deleted.
            TenantProtectedError: it is the system's own.
        """
        tenant = self._administration.require(tenant_id)
        if not force and tenant.status is not TenantStatus.DELETING:
            found = (await self.belongings(tenant_id)).counts()
            elsewhere = self._limits.groups_elsewhere(tenant_id)
            if elsewhere:
                found = ", ".join(filter(None, (found, f"{elsewhere} groups on other nodes")))
            if found:
                raise TenantNotEmptyError(
                    f"tenant {tenant_id!r} still has {found}: delete them first, or use force=true"
                )
        await self._administration.begin_deletion(tenant_id)
        await self.run()
        return tenant_id not in self._access.tenants.records.all

    async def run(self) -> None:
        """One pass over the tenants that are being deleted."""
        for tenant in list(self._access.tenants.records.all.values()):
            if tenant.status is TenantStatus.DELETING:
                await self._delete(tenant)

    async def _delete(self, tenant: Tenant) -> None:
        try:
            found = await self.belongings(tenant.id)
        except GoQueueError as error:
            logger.info(
                "deleting tenant %s: listing its resources failed, retrying: %s", tenant.id, error
            )
            return
        for name in found.topics:
            await self._attempt(f"topic {name}", self._delete_topic(name))
        for name in found.groups:
            await self._attempt(f"group {name}", self._groups.delete(name))
        await self._delete_subjects(found.subjects)
        await self._delete_hidden(tenant.id)
        rules = self._rules(tenant.id, {*found.keys, *found.users})
        await self._attempt("rules", self._access_administration.remove_rules(rules))
        for key_id in found.keys:
            await self._attempt(f"key {key_id}", self._access.keys.change({key_id: None}))
        for name in found.users:
            await self._attempt(f"user {name}", self._access_administration.forget(name))
        waited_ms = self._clock.now_ms() - max(tenant.updated_ms, self._since_ms)
        if self._is_cluster and waited_ms < _CLUSTER_MS:
            return
        if not (await self.belongings(tenant.id)).counts() and not self._has_hidden(tenant.id):
            await self._attempt("the record", self._administration.remove(tenant.id))

    async def _delete_subjects(self, subjects: list[str]) -> None:
        """Those that others refer to go in a later pass."""
        for permanent in (False, True):
            for subject in subjects:
                change = self._schemas.change(_deletion(subject, permanent=permanent))
                await self._attempt(f"subject {subject}", change)

    async def _delete_hidden(self, tenant_id: str) -> None:
        """What goes with a tenant and keeps nobody from deleting it: it would expire by itself."""
        prefix = namespace_of(tenant_id).prefix
        removal = self._transactions.remove(lambda name: name.startswith(prefix))
        await self._attempt("transactional ids", removal)
        for name in self._pipelines_of(prefix):
            await self._attempt(f"pipeline {name}", self._pipelines.delete(name))

    def _has_hidden(self, tenant_id: str) -> bool:
        prefix = namespace_of(tenant_id).prefix
        ids = (each.transactional_id for each in self._transactions.list())
        return any(each.startswith(prefix) for each in (*ids, *self._pipelines_of(prefix)))

    def _pipelines_of(self, prefix: str) -> list[str]:
        names = (each.name for each in self._pipelines.all())
        return [name for name in names if name.startswith(prefix)]

    def _rules(self, tenant_id: str, names: set[str]) -> list[Rule]:
        """The rules about what is in the tenant, about the tenant itself, and of its principals."""
        prefix = namespace_of(tenant_id).prefix
        labels = {f"User:{name}" for name in names}
        return [
            rule
            for rule in self._access.rules.all.values()
            if rule.principal in labels
            or (rule.resource is ResourceType.TENANT and rule.name == tenant_id)
            or (rule.resource is not ResourceType.TENANT and rule.name.startswith(prefix))
        ]

    @staticmethod
    async def _attempt(what: str, change: Awaitable[object]) -> None:
        """What fails now is tried again with the next pass."""
        try:
            await change
        except GoQueueError as error:
            logger.info("%s of a tenant that is being deleted stays for now: %s", what, error)


def _deletion(subject: str, *, permanent: bool) -> Callable[[Registry], Decided[list[int]]]:
    return lambda registry: delete_subject(registry, subject, permanent=permanent)
