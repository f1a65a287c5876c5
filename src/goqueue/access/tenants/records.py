"""What is known of a tenant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from goqueue.access.tenants.quotas import DEFAULT_QUOTAS, NO_QUOTAS, TenantQuotas
from goqueue.model.errors import InvalidTenantError

SYSTEM_ID: Final = "__system"
"""The tenant of everything that is in no other: not stored, not limited, not to be changed."""
_ID: Final = re.compile(r"[a-z][a-z0-9-]{2,63}")
_MAX_NAME_CHARS: Final = 200
_MAX_DESCRIPTION_CHARS: Final = 2000
_MAX_METADATA: Final = 20
_MAX_METADATA_CHARS: Final = 500
"""Of a name or a value of metadata. What is over one of these bounds is refused."""


class TenantStatus(StrEnum):
    """What the clients of a tenant may do."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    """Its clients may look and not publish or consume; everything is kept."""
    DISABLED = "disabled"
    """Its clients may not log in; everything is kept."""
    DELETING = "deleting"
    """Being deleted with everything in it; its clients may not log in."""


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant, as it is stored under its id."""

    id: str
    name: str
    created_ms: int
    updated_ms: int
    description: str = ""
    status: TenantStatus = TenantStatus.ACTIVE
    quotas: TenantQuotas = DEFAULT_QUOTAS
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    suspended_ms: int | None = None
    """When it was suspended or disabled; None of one that is active."""
    reason: str = ""
    """Why it is not active, as the administrator has put it."""

    @property
    def is_open(self) -> bool:
        """Whether its clients may log in."""
        return self.status in {TenantStatus.ACTIVE, TenantStatus.SUSPENDED}


SYSTEM: Final = Tenant(
    id=SYSTEM_ID,
    name="system",
    description="Everything that belongs to no other tenant.",
    created_ms=0,
    updated_ms=0,
    quotas=NO_QUOTAS,
)


def check_tenant_id(tenant_id: str) -> None:
    """Raises `InvalidTenantError` unless a tenant may have this id."""
    if not _ID.fullmatch(tenant_id):
        raise InvalidTenantError(
            f"a tenant with the id {tenant_id[:80]!r}, expected 3 to 64 lower-case letters, "
            "digits and dashes, a letter first"
        )


def check_tenant_texts(name: str, description: str, metadata: Mapping[str, str]) -> None:
    """Raises `InvalidTenantError` unless a tenant may be described so."""
    if not 0 < len(name) <= _MAX_NAME_CHARS or len(description) > _MAX_DESCRIPTION_CHARS:
        raise InvalidTenantError(
            f"a tenant has a name of 1 to {_MAX_NAME_CHARS} characters and a description of at "
            f"most {_MAX_DESCRIPTION_CHARS}; found {len(name)} and {len(description)}"
        )
    longest = max((len(text) for item in metadata.items() for text in item), default=0)
    if len(metadata) > _MAX_METADATA or longest > _MAX_METADATA_CHARS:
        raise InvalidTenantError(
            f"the metadata of a tenant has at most {_MAX_METADATA} entries of "
            f"{_MAX_METADATA_CHARS} characters; found {len(metadata)}, the longest of {longest}"
        )
