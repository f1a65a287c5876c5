"""What a tenant may use: values that an administrator sets. Who enforces them reads them here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import asdict

from goqueue.model.errors import InvalidTenantError

if TYPE_CHECKING:
    from collections.abc import Mapping

UNLIMITED: Final = 0
_MIB: Final = 1024 * 1024
_WEEK_MS: Final = 7 * 24 * 60 * 60 * 1000
_MAX_VALUE: Final = 2**62
"""Of any quota; a larger one is refused."""


class TenantQuotas(msgspec.Struct, frozen=True):
    """The quotas of one tenant, in the whole cluster together; 0 is unlimited."""

    publish_messages_per_s: int = 1000
    consume_messages_per_s: int = 5000
    publish_bytes_per_s: int = 10 * _MIB
    consume_bytes_per_s: int = 50 * _MIB
    requests_per_s: int = UNLIMITED
    max_storage_bytes: int = 10 * 1024 * _MIB
    max_topics: int = 100
    max_partitions_per_topic: int = 16
    max_partitions: int = 500
    max_message_bytes: int = _MIB
    max_retention_ms: int = _WEEK_MS
    max_delay_ms: int = _WEEK_MS
    max_connections: int = 100
    max_groups: int = 50
    max_members_per_group: int = 20
    max_schemas: int = UNLIMITED


DEFAULT_QUOTAS: Final = TenantQuotas()
NO_QUOTAS: Final = TenantQuotas(**dict.fromkeys(TenantQuotas.__struct_fields__, UNLIMITED))
"""Everything is unlimited."""


def changed_quotas(quotas: TenantQuotas, changes: Mapping[str, int]) -> TenantQuotas:
    """The quotas with some of them changed.

    Raises:
        InvalidTenantError: there is no such quota, or it cannot have that value.
    """
    for name, value in changes.items():
        if name not in TenantQuotas.__struct_fields__:
            names = ", ".join(TenantQuotas.__struct_fields__)
            raise InvalidTenantError(f"there is no quota {name[:80]!r}, expected one of {names}")
        if not 0 <= value <= _MAX_VALUE:
            raise InvalidTenantError(
                f"the quota {name} is {value}, expected 0 (unlimited) to {_MAX_VALUE}"
            )
    return TenantQuotas(**{**asdict(quotas), **changes})
