"""Settings of groups under Kafka's names; they may be given before there is a group to follow them.

Such a group is then made, with nothing in it, so that they are stored like those of any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import InvalidTopicConfigError
from goqueue.queues.delivery.settings import NEW_SHARE_GROUP
from goqueue.queues.share.members import check_is_free
from goqueue.queues.share.settings import SHARE_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.groups.settings import GroupSettings
    from goqueue.queues.delivery.settings import QueueSettings
    from goqueue.queues.service import Queues
    from goqueue.queues.share.settings import ShareSetting


class GroupConfigs:
    """What is set for groups."""

    def __init__(self, queues: Queues, limits: GroupSettings) -> None:
        self._queues = queues
        self._limits = limits

    def settings(self, group_id: str) -> QueueSettings:
        """What is in force, or would be if a share consumer made the group now."""
        check_is_free(group_id)
        group = self._queues.find(group_id)
        return NEW_SHARE_GROUP if group is None else group.settings

    def changed(self, group_id: str, changes: Mapping[str, str | None]) -> QueueSettings:
        """The settings of a group with some of them changed; None is back to the default.

        Raises:
            InvalidTopicConfigError: there is no such setting, or it cannot have that value.
        """
        settings = self.settings(group_id)
        for name, text in changes.items():
            setting = _setting(name)
            if text is None:
                settings = settings.without(setting.fields)
            else:
                settings = settings.with_changes(setting.parse(text, self._limits))
        if settings.heartbeat_ms >= settings.session_ms:
            raise InvalidTopicConfigError(
                "share.heartbeat.interval.ms must be less than share.session.timeout.ms: "
                f"{settings.heartbeat_ms}, {settings.session_ms}"
            )
        return settings

    async def configure(self, group_id: str, changes: Mapping[str, str | None]) -> None:
        """Let a group follow other settings from now on; returns when they are stored.

        Raises:
            InvalidTopicConfigError: like `changed`.
            GroupError: there is a consumer group of that name.
        """
        settings = self.changed(group_id, changes)
        if self._queues.find(group_id) is None:
            await self._queues.open(group_id, settings)
        else:
            await self._queues.follow(group_id, settings)


def _setting(name: str) -> ShareSetting:
    setting = SHARE_SETTINGS.get(name)
    if setting is None:
        raise InvalidTopicConfigError(
            f"groups have no setting {name!r}; they have {', '.join(SHARE_SETTINGS)}"
        )
    return setting
