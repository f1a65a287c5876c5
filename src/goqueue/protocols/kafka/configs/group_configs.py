"""Settings of groups (resource type 32), as administrators of Kafka read and change them.

Groups of the coordinator and share groups have a section of settings each. A section takes changes
of its own names only; None takes a setting back to its default.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from goqueue.configs.coordinated_setting_table import COORDINATED_SETTINGS
from goqueue.model.errors import (
    ClusterError,
    CoordinatorUnavailableError,
    InvalidGroupRequestError,
    InvalidTopicConfigError,
)
from goqueue.protocols.kafka.configs.entries import (
    DELETE,
    SET,
    SOURCE_DEFAULT,
    SOURCE_GROUP,
    SOURCE_STATIC,
    Synonym,
    described,
    given,
)
from goqueue.protocols.kafka.configs.share_settings import SHARE_SETTINGS
from goqueue.queues.delivery.settings import NEW_SHARE_GROUP, QueueSettings
from goqueue.queues.share.members import check_is_free

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from goqueue.broker.broker import Broker
    from goqueue.wire.kafka.reading import Struct


class GroupSection(Protocol):
    """The settings of one kind of group."""

    @property
    def names(self) -> Collection[str]:
        """What its settings are called."""

    def describe(self, group_id: str) -> list[dict[str, Any]]:
        """Every setting of a group, whether it exists or not."""

    def has_any(self, group_id: str) -> bool:
        """Whether something was set for a group."""

    async def change(self, group_id: str, changes: Mapping[str, str | None], *, dry: bool) -> None:
        """Change some settings, or say whether that could be done."""


class GroupResources:
    """Groups as resources that have settings."""

    def __init__(self, broker: Broker) -> None:
        self._sections: tuple[GroupSection, ...] = (
            CoordinatedSection(broker),
            ShareSection(broker),
        )

    def describe(self, name: str) -> list[dict[str, Any]]:
        """Every setting of a group, of whatever kind the group will be."""
        _check_name(name)
        return [config for section in self._sections for config in section.describe(name)]

    async def alter(self, resource: Struct, *, incremental: bool, dry: bool) -> None:
        """Make all changes or none: each section is asked before the first one acts."""
        group_id = resource.resource_name
        asked = _changes(resource) if incremental else given(resource)
        self._check_names(group_id, asked)
        changes: dict[str, str | None] = {}
        for section in self._sections:
            if not incremental and section.has_any(group_id):
                changes.update(dict.fromkeys(section.names))
        changes.update(asked)
        of_sections = [
            (section, {name: changes[name] for name in changes if name in section.names})
            for section in self._sections
        ]
        for is_dry in (True,) if dry else (True, False):
            for section, own in of_sections:
                if own:
                    await section.change(group_id, own, dry=is_dry)

    def _check_names(self, group_id: str, names: Collection[str]) -> None:
        _check_name(group_id)
        known = [name for section in self._sections for name in section.names]
        for name in names:
            if name not in known:
                raise InvalidTopicConfigError(
                    f"groups have no setting {name!r}; they have {', '.join(known)}"
                )


class CoordinatedSection:
    """Settings of consumer groups (KIP-848) and of Streams groups (KIP-1071)."""

    names = COORDINATED_SETTINGS

    def __init__(self, broker: Broker) -> None:
        self._groups = broker.groups
        self._configs = broker.coordinated_group_configs

    def describe(self, group_id: str) -> list[dict[str, Any]]:
        """Every setting of a group."""
        overrides = self._configs.overrides(group_id)
        found = []
        for name, each in COORDINATED_SETTINGS.items():
            synonyms = []
            if name in overrides:
                synonyms.append(Synonym(name, overrides[name], SOURCE_GROUP))
            default = self._configs.default(name)
            source = SOURCE_DEFAULT if default == each.setting.default else SOURCE_STATIC
            synonyms.append(Synonym(each.default.name, default, source))
            found.append(described(each.setting, synonyms))
        return found

    def has_any(self, group_id: str) -> bool:
        """Whether something was set for a group."""
        return bool(self._configs.overrides(group_id))

    async def change(self, group_id: str, changes: Mapping[str, str | None], *, dry: bool) -> None:
        """Change some settings; members are told with their next heartbeat."""
        merged = {**self._configs.overrides(group_id), **changes}
        overrides = {name: value for name, value in merged.items() if value is not None}
        if dry:
            self._configs.check(overrides)
        else:
            await self._configs.replace(group_id, overrides)
            with suppress(ClusterError, CoordinatorUnavailableError):  # its own node follows, too
                self._groups.follow_settings(group_id)


class ShareSection:
    """Settings of share groups, which are those of queue groups.

    They may be given before there is a group to follow them. Such a group is then made, with
    nothing in it, so that they are stored like those of any other.
    """

    names = SHARE_SETTINGS

    def __init__(self, broker: Broker) -> None:
        self._queues = broker.queues
        self._limits = broker.settings.groups

    def _settings(self, group_id: str) -> QueueSettings:
        """What is in force, or would be if a share consumer made the group now."""
        check_is_free(group_id)
        group = self._queues.find(group_id)
        return NEW_SHARE_GROUP if group is None else group.settings

    def describe(self, group_id: str) -> list[dict[str, Any]]:
        """Every setting of a group."""
        settings = self._settings(group_id)
        found = []
        for setting in SHARE_SETTINGS.values():
            value = setting.text(settings)
            default = setting.text(settings.without(setting.fields))
            synonyms = [Synonym(setting.broker_name, default, SOURCE_DEFAULT)]
            if value != default or set(setting.fields) & set(settings.configured):
                synonyms.insert(0, Synonym(setting.name, value, SOURCE_GROUP))
            found.append(described(setting, synonyms))
        return found

    def has_any(self, group_id: str) -> bool:
        """Whether there is a group that may have other settings than a new one."""
        return self._queues.find(group_id) is not None

    async def change(self, group_id: str, changes: Mapping[str, str | None], *, dry: bool) -> None:
        """Change some settings; the group is made if there is none."""
        settings = self._settings(group_id)
        for name, text in changes.items():
            setting = SHARE_SETTINGS[name]
            if text is None:
                settings = settings.without(setting.fields)
            else:
                settings = settings.with_changes(setting.parse(text, self._limits))
        if settings.heartbeat_ms >= settings.session_ms:
            raise InvalidTopicConfigError(
                "share.heartbeat.interval.ms must be less than share.session.timeout.ms: "
                f"{settings.heartbeat_ms}, {settings.session_ms}"
            )
        if dry:
            return
        if self._queues.find(group_id) is None:
            await self._queues.open(group_id, settings)
        else:
            await self._queues.follow(group_id, settings)


def _changes(resource: Struct) -> dict[str, str | None]:
    for each in resource.configs:
        if each.config_operation not in {SET, DELETE}:
            raise InvalidTopicConfigError(f"{each.name} is not a list: set it as a whole")
    return {
        each.name: each.value if each.config_operation == SET else None for each in resource.configs
    }


def _check_name(group_id: str) -> None:
    if not group_id:
        raise InvalidGroupRequestError(
            "the name of the group is empty, expected one: settings for all groups are settings "
            "of the broker"
        )
