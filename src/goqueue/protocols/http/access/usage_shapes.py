"""What is told of the usage of tenants."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.protocols.http.api.shapes import doc


class UsagePath(msgspec.Struct, frozen=True):
    """A tenant in the path."""

    id: Annotated[str, doc("The id of a tenant.", "acme", max_length=64)]


class UsageInfo(msgspec.Struct):
    """What a tenant has used since its usage was reset, and what it has now."""

    tenant: Annotated[str, doc("", "acme")]
    published_messages: int
    published_bytes: int
    consumed_messages: int
    consumed_bytes: int
    storage_bytes: Annotated[int, doc("What its topics take on the disks of their leaders.", 4096)]
    topics: int
    partitions: int
    groups: int
    connections: Annotated[int, doc("Of Kafka clients.", 3)]
    violations: Annotated[
        dict[str, int], doc("How often each quota was exceeded.", {"publish_messages_per_s": 12})
    ]


class QuotaUse(msgspec.Struct):
    """How much of a quota is used."""

    used: Annotated[int, doc("", 40)]
    limit: Annotated[int, doc("0 is unlimited.", 100)]
    percent: Annotated[float | None, doc("None where it is unlimited.", 40.0)]


class UsageStats(msgspec.Struct):
    """The quotas of a tenant that are used up rather than refilled."""

    tenant: Annotated[str, doc("", "acme")]
    quotas: dict[str, QuotaUse]
    violations: dict[str, int]
