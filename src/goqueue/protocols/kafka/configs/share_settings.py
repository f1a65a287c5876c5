"""The settings of share groups under Kafka's names: their values, bounds and meanings here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from goqueue.model.errors import InvalidTopicConfigError
from goqueue.model.iso_duration import iso_duration_ms

if TYPE_CHECKING:
    from goqueue.groups.settings import GroupSettings
    from goqueue.queues.delivery.settings import QueueSettings

LEAST_DELIVERIES: Final = 2
LEAST_LOCKS: Final = 100
_BY_DURATION: Final = "by_duration:"


class ShareSetting(Protocol):
    """One setting."""

    @property
    def name(self) -> str:
        """What it is called for a group."""

    @property
    def broker_name(self) -> str:
        """What Kafka calls the setting of a broker that is in force where a group has none."""

    @property
    def documentation(self) -> str:
        """What it means."""

    @property
    def kind(self) -> str:
        """What Kafka calls the type."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The settings of a queue group that it stands for."""

    def parse(self, text: str, limits: GroupSettings) -> dict[str, object]:
        """The fields for a value that is written so.

        Raises:
            InvalidTopicConfigError: it cannot be.
        """

    def text(self, settings: QueueSettings) -> str:
        """How the value is written that is in force."""


class _Number(msgspec.Struct, frozen=True):
    name: str
    field: str
    least: int | str
    """A number, or the name of the broker's setting for it."""
    most: str
    documentation: str
    kind: str = "int"

    @property
    def broker_name(self) -> str:
        return f"group.{self.name}"

    @property
    def fields(self) -> tuple[str, ...]:
        return (self.field,)

    def parse(self, text: str, limits: GroupSettings) -> dict[str, object]:
        least = getattr(limits, self.least) if isinstance(self.least, str) else self.least
        most = getattr(limits, self.most)
        try:
            value = int(text)
        except ValueError:
            value = -1
        if not least <= value <= most:
            raise InvalidTopicConfigError(
                f"{self.name} is {text!r}: expected a whole number from {least} to {most}"
            )
        return {self.field: value}

    def text(self, settings: QueueSettings) -> str:
        return str(getattr(settings, self.field))


class _Choice(msgspec.Struct, frozen=True):
    name: str
    field: str
    words: Mapping[str, object]
    documentation: str
    kind: str = "string"

    @property
    def broker_name(self) -> str:
        return self.name

    @property
    def fields(self) -> tuple[str, ...]:
        return (self.field,)

    def parse(self, text: str, limits: GroupSettings) -> dict[str, object]:
        if text not in self.words:
            raise InvalidTopicConfigError(
                f"{self.name} is {text!r}: expected one of {', '.join(self.words)}"
            )
        return {self.field: self.words[text]}

    def text(self, settings: QueueSettings) -> str:
        value = getattr(settings, self.field)
        return next(word for word, meaning in self.words.items() if meaning == value)


class _OffsetReset(msgspec.Struct, frozen=True):
    name: str = "share.auto.offset.reset"
    documentation: str = (
        "Where a share group begins that has read nothing: latest, earliest, or "
        "by_duration:PnDTnHnMn.nS for what was published in that time."
    )
    kind: str = "string"

    @property
    def broker_name(self) -> str:
        return self.name

    @property
    def fields(self) -> tuple[str, ...]:
        return ("start_at_latest", "start_ago")

    def parse(self, text: str, limits: GroupSettings) -> dict[str, object]:
        if text in {"latest", "earliest"}:
            return {"start_at_latest": text == "latest", "start_ago": ""}
        ago = text.removeprefix(_BY_DURATION)
        if ago == text or iso_duration_ms(ago) is None:
            raise InvalidTopicConfigError(
                f"{self.name} is {text!r}: expected latest, earliest, or {_BY_DURATION} and a "
                "duration such as PT1H or P1DT12H"
            )
        return {"start_at_latest": False, "start_ago": ago}

    def text(self, settings: QueueSettings) -> str:
        if settings.start_ago:
            return _BY_DURATION + settings.start_ago
        return "latest" if settings.start_at_latest else "earliest"


_ALL: Final[tuple[ShareSetting, ...]] = (
    _OffsetReset(),
    _Number(
        "share.record.lock.duration.ms",
        "visibility_ms",
        "share_min_record_lock_duration_ms",
        "share_max_record_lock_duration_ms",
        "How long a share consumer has a message before it is redelivered.",
    ),
    _Number(
        "share.delivery.count.limit",
        "max_deliveries",
        LEAST_DELIVERIES,
        "share_max_delivery_count_limit",
        "After so many failed deliveries a message is dead-lettered.",
    ),
    _Number(
        "share.partition.max.record.locks",
        "partition_locks",
        LEAST_LOCKS,
        "share_max_partition_locks",
        "How many messages of a partition share consumers may have together.",
    ),
    _Choice(
        "share.isolation.level",
        "reads_uncommitted",
        {"read_uncommitted": True, "read_committed": False},
        "Whether messages of open and aborted transactions are delivered.",
    ),
    _Choice(
        "share.renew.acknowledge.enable",
        "can_renew",
        {"true": True, "false": False},
        "Whether share consumers may extend the time that they have a message.",
        "boolean",
    ),
    _Number(
        "share.heartbeat.interval.ms",
        "heartbeat_ms",
        "share_min_heartbeat_interval_ms",
        "share_max_heartbeat_interval_ms",
        "The heartbeat interval of share consumers.",
    ),
    _Number(
        "share.session.timeout.ms",
        "session_ms",
        "share_min_session_timeout_ms",
        "share_max_session_timeout_ms",
        "After this time without a heartbeat a share consumer is removed from the group.",
    ),
)
SHARE_SETTINGS: Final = {each.name: each for each in _ALL}
