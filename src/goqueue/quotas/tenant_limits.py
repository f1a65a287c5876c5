"""How many topics, partitions, groups, members and schemas a tenant may have.

What there is is counted when something is added: nothing is kept that could go wrong. In a cluster
two nodes that add something in the same moment may go over a limit by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from goqueue.model.errors import GroupQuotaExceededError, QuotaExceededError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from goqueue.groups.settings import GroupSettings
    from goqueue.quotas.meters import TenantMeter
    from goqueue.quotas.service import Quotas
    from goqueue.topics.catalogue import Topic, Topics


class TenantLimits:
    """Refuses what a tenant would have too much of."""

    def __init__(self, quotas: Quotas, topics: Topics) -> None:
        self._quotas = quotas
        self._topics = topics
        self.group_ids: Callable[[], Iterable[str]] = tuple
        """Every group that this node knows; set by the broker."""
        self.groups_elsewhere: Callable[[str], int] = lambda _: 0
        """How many groups of a tenant other nodes keep, as they have told."""
        self.subjects: Callable[[], Iterable[str]] = tuple
        """Every subject of the schema registry; set by the broker."""

    # --- Topics ----------------------------------------------------------------------------------

    def topics_of(self, tenant_id: str) -> list[Topic]:
        """The topics of a tenant."""
        prefix = f"{tenant_id}."
        by_name = self._topics.catalogue.by_name
        return [topic for name, topic in by_name.items() if name.startswith(prefix)]

    def admit_topic(
        self, name: str, partition_count: int, overrides: Mapping[str, str] | None
    ) -> None:
        """Raises `QuotaExceededError` unless a tenant may have one more topic like this."""
        meter = self._quotas.of_topic(name)
        if meter is None:
            return
        count = len(self.topics_of(meter.tenant_id))
        meter.check_count("max_topics", count + 1, "topics")
        self._check_partitions(meter, name, partition_count)
        self._check_settings(meter, name, overrides)

    def admit_growth(self, name: str, partition_count: int) -> None:
        """Raises `QuotaExceededError` unless a topic may have so many partitions."""
        meter = self._quotas.of_topic(name)
        if meter is not None:
            self._check_partitions(meter, name, partition_count)

    def admit_settings(self, name: str, overrides: Mapping[str, str]) -> None:
        """Raises `QuotaExceededError` unless a topic may keep messages for so long."""
        meter = self._quotas.of_topic(name)
        if meter is not None:
            self._check_settings(meter, name, overrides)

    def _check_partitions(self, meter: TenantMeter, name: str, count: int) -> None:
        meter.check_count("max_partitions_per_topic", count, f"partitions of topic {name!r}")
        others = self.topics_of(meter.tenant_id)
        total = count + sum(each.partition_count for each in others if each.name != name)
        meter.check_count("max_partitions", total, "partitions")

    def _check_settings(
        self, meter: TenantMeter, name: str, overrides: Mapping[str, str] | None
    ) -> None:
        limit = meter.quotas.max_retention_ms
        settings = self._topics.settings_with(overrides or {})
        if not limit or not settings.deletes:  # which keeps the last message of each key
            return
        kept_ms = settings.retention_ms
        if kept_ms is None or kept_ms > limit:
            meter.violations["max_retention_ms"] += 1
            said = "for ever" if kept_ms is None else f"for {kept_ms} ms"
            raise QuotaExceededError(
                f"topic {name!r} would keep messages {said}; the quota max_retention_ms of tenant "
                f"{meter.tenant_id!r} allows {limit}: set retention.ms to that or less"
            )

    # --- Groups and schemas ----------------------------------------------------------------------

    def admit_group(self, group_id: str) -> None:
        """Raises `GroupQuotaExceededError` unless a tenant may have one more group."""
        meter = self._quotas.of_topic(group_id)
        if meter is None:
            return
        count = self.group_count(meter.tenant_id) + self.groups_elsewhere(meter.tenant_id)
        meter.check_count("max_groups", count + 1, "groups", GroupQuotaExceededError)

    def group_count(self, tenant_id: str) -> int:
        """How many groups of a tenant this node keeps."""
        return _count(self.group_ids(), tenant_id)

    def admit_member(self, group_id: str, count: int) -> None:
        """Raises `GroupQuotaExceededError` unless a queue group may have so many members."""
        meter = self._quotas.of_topic(group_id)
        if meter is not None:
            what = f"members of group {group_id!r}"
            meter.check_count("max_members_per_group", count, what, GroupQuotaExceededError)

    def group_settings(self, group_id: str, settings: GroupSettings) -> GroupSettings:
        """The settings of a group, which has no more members than its tenant allows."""
        meter = self._quotas.of_topic(group_id) if self._quotas.tenant_meters else None
        limit = 0 if meter is None else meter.quotas.max_members_per_group
        if not limit or limit >= settings.max_group_size:
            return settings
        return replace(settings, max_group_size=limit)

    def admit_subject(self, subject: str) -> None:
        """Raises `QuotaExceededError` unless a tenant may have this subject of schemas."""
        meter = self._quotas.of_topic(subject)
        if meter is None:
            return
        known = set(self.subjects())
        if subject not in known:
            meter.check_count("max_schemas", _count(known, meter.tenant_id) + 1, "schemas")


def _count(names: Iterable[str], tenant_id: str) -> int:
    prefix = f"{tenant_id}."
    return sum(name.startswith(prefix) for name in names)
