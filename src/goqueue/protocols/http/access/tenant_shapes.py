"""What administrators of tenants send and are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec

from goqueue.access.tenants.quotas import TenantQuotas
from goqueue.protocols.http.api.gathered import Gathered
from goqueue.protocols.http.api.shapes import Milliseconds, doc

if TYPE_CHECKING:
    from goqueue.access.tenants.records import Tenant

StatusName: TypeAlias = Literal["active", "suspended", "disabled", "deleting"]
QuotaValues: TypeAlias = Annotated[
    dict[str, int],
    doc("Quotas by name; 0 is unlimited. Those that are left out stay.", {"max_topics": 20}),
]
Notes: TypeAlias = Annotated[dict[str, str], doc("Own notes.", {"team": "billing"})]
Reason: TypeAlias = Annotated[
    str, doc("Why; clients are told.", "the invoice is unpaid", max_length=500)
]


class TenantPath(msgspec.Struct, frozen=True):
    """A tenant in the path."""

    id: Annotated[str, doc("The id of a tenant.", "acme", max_length=64)]


class TenantBody(msgspec.Struct, forbid_unknown_fields=True):
    """A tenant to make."""

    id: Annotated[str, doc("Lower-case letters, digits and dashes.", "acme", max_length=64)]
    name: Annotated[str, doc("For people.", "Acme Corp", min_length=1, max_length=200)]
    description: Annotated[str, doc("", "Orders and billing.", max_length=2000)] = ""
    quotas: QuotaValues = msgspec.field(default_factory=dict)
    metadata: Notes = msgspec.field(default_factory=dict)


class TenantChange(msgspec.Struct, forbid_unknown_fields=True):
    """What is to change; what is left out stays."""

    name: Annotated[str, doc("", "Acme Inc", min_length=1, max_length=200)] | None = None
    description: Annotated[str, doc("", "", max_length=2000)] | None = None
    quotas: QuotaValues = msgspec.field(default_factory=dict)
    metadata: Annotated[dict[str, str] | None, doc("Replaces all of it.")] = None


class TenantQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which tenants."""

    status: Annotated[StatusName | None, doc("Only those.", "suspended")] = None


class SuspendBody(msgspec.Struct, forbid_unknown_fields=True):
    """Why a tenant is suspended."""

    reason: Reason


class DisableBody(msgspec.Struct, forbid_unknown_fields=True):
    """Why a tenant is disabled."""

    reason: Reason = ""


class TenantInfo(msgspec.Struct, kw_only=True):
    """A tenant."""

    id: str
    name: str
    description: str
    status: StatusName
    reason: Annotated[str, doc("Why it is not active.")]
    quotas: Annotated[TenantQuotas, doc("0 is unlimited.")]
    metadata: dict[str, str]
    created_at: Milliseconds
    updated_at: Milliseconds
    suspended_at: Annotated[
        Milliseconds | None, doc("When it was suspended or disabled, if it is.")
    ]


class TenantList(msgspec.Struct):
    """Tenants."""

    tenants: list[TenantInfo]


class TenantTopics(msgspec.Struct):
    """The topics of a tenant."""

    tenant: str
    topics: Annotated[list[str], doc("As its clients name them.", ["orders"])]


class TenantGroups(Gathered):
    """The groups of a tenant."""

    tenant: str
    groups: Annotated[list[str], doc("As its clients name them.", ["billing"])]


class TenantDeleted(msgspec.Struct):
    """A tenant that is gone, or will be."""

    tenant: str
    status: Annotated[
        Literal["deleted", "deleting"], doc("`deleting`: what it has is deleted by and by.")
    ]


def tenant_info(tenant: Tenant) -> TenantInfo:
    """A tenant as it is answered."""
    return TenantInfo(
        id=tenant.id,
        name=tenant.name,
        description=tenant.description,
        status=tenant.status.value,
        reason=tenant.reason,
        quotas=tenant.quotas,
        metadata=dict(tenant.metadata),
        created_at=tenant.created_ms,
        updated_at=tenant.updated_ms,
        suspended_at=tenant.suspended_ms,
    )
