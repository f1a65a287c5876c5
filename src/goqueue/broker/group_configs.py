"""Settings of groups under Kafka's names; they may be given before there is a group to follow them.

Such a group is then made, with nothing in it, so that they are stored like those of any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.broker.share_members import NEW_SHARE_GROUP, check_is_free
from goqueue.delivery.settings import MAX_DELIVERIES, MAX_VISIBILITY_MS
from goqueue.model.errors import InvalidTopicConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.broker.broker import Broker
    from goqueue.delivery.settings import QueueSettings

_DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class GroupSetting:
    """One setting: Kafka's name, ours, and which values it may have."""

    name: str
    field: str
    documentation: str
    least: int = 0
    most: int = 0
    words: Mapping[str, object] | None = None
    """For settings that are no numbers: what may be written, and what that means."""

    @property
    def kind(self) -> str:
        """What Kafka calls the type."""
        return "int" if self.words is None else "string"

    def parse(self, text: str) -> object:
        """The value that is written so.

        Raises:
            InvalidTopicConfigError: it cannot be.
        """
        if self.words is not None:
            if text not in self.words:
                raise InvalidTopicConfigError(
                    f"{self.name} is one of {', '.join(self.words)}: {text!r}"
                )
            return self.words[text]
        try:
            value = int(text)
        except ValueError:
            value = -1
        if not self.least <= value <= self.most:
            raise InvalidTopicConfigError(
                f"{self.name} is a number from {self.least} to {self.most}: {text!r}"
            )
        return value

    def text(self, settings: QueueSettings) -> str:
        """How the value is written that is in force."""
        value = getattr(settings, self.field)
        if self.words is None:
            return str(value)
        return next(word for word, meaning in self.words.items() if meaning == value)


GROUP_SETTINGS: Final = {
    each.name: each
    for each in (
        GroupSetting(
            "share.auto.offset.reset",
            "start_at_latest",
            "Where a share group begins that has read nothing.",
            words={"latest": True, "earliest": False},
        ),
        GroupSetting(
            "share.record.lock.duration.ms",
            "visibility_ms",
            "How long a consumer has a message before somebody else gets it.",
            least=100,
            most=MAX_VISIBILITY_MS,
        ),
        GroupSetting(
            "share.delivery.count.limit",
            "max_deliveries",
            "After so many deliveries in vain a message is dead.",
            least=1,
            most=MAX_DELIVERIES,
        ),
        GroupSetting(
            "share.isolation.level",
            "isolation",
            "Remembered, and without effect: share groups read what is committed.",
            words={each: each for each in ("read_uncommitted", "read_committed")},
        ),
        GroupSetting(
            "share.heartbeat.interval.ms",
            "heartbeat_ms",
            "How often share consumers are told to let themselves be heard.",
            least=100,
            most=_DAY_MS,
        ),
        GroupSetting(
            "share.session.timeout.ms",
            "session_ms",
            "A share consumer of which nothing was heard for so long is gone.",
            least=100,
            most=_DAY_MS,
        ),
    )
}


class GroupConfigs:
    """What is set for groups."""

    def __init__(self, broker: Broker) -> None:
        self._queues = broker.queues

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
        fields: dict[str, Any] = {}
        for name, text in changes.items():
            setting = GROUP_SETTINGS.get(name)
            if setting is None:
                raise InvalidTopicConfigError(
                    f"groups have no setting {name!r}; they have {', '.join(GROUP_SETTINGS)}"
                )
            fields[setting.field] = (
                getattr(NEW_SHARE_GROUP, setting.field) if text is None else setting.parse(text)
            )
        settings = msgspec.structs.replace(self.settings(group_id), **fields)
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
            await self._queues.configure(group_id, msgspec.structs.asdict(settings))
