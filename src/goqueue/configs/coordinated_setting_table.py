"""The table of settings of consumer groups (KIP-848) and Streams groups (KIP-1071).

Each setting of a group has a default on the broker, `group.` before its name, and most have bounds
there. What a group obeys is a field of `GroupSettings`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.groups.settings import GroupSettings
from goqueue.model.limits import MAX_ASSIGNMENT_INTERVAL_MS
from goqueue.topics.setting import Effect, Setting, number

if TYPE_CHECKING:
    from collections.abc import Iterator

CONSUMER: Final = "consumer"
STREAMS: Final = "streams"
KINDS: Final = (CONSUMER, STREAMS)
"""How the names of the settings of one kind of group begin."""

ASSIGNMENT_INTERVAL_MS: Final = 1000

_DEFAULTS: Final = GroupSettings()


class BrokerValue(msgspec.Struct, frozen=True):
    """A number that the broker has for all groups: a field of `GroupSettings`, or a constant."""

    name: str
    """Kafka's name of the broker setting."""
    source: str | int

    @property
    def field(self) -> str | None:
        """The field; None for a constant."""
        return self.source if isinstance(self.source, str) else None

    def of(self, settings: GroupSettings = _DEFAULTS) -> int:
        """The number."""
        if isinstance(self.source, int):
            return self.source
        return int(getattr(settings, self.source))


class CoordinatedSetting(msgspec.Struct, frozen=True):
    """One setting of groups, and what the broker says of it."""

    setting: Setting
    default: BrokerValue
    low: BrokerValue | None = None
    high: BrokerValue | None = None

    def objection(self, value: str, settings: GroupSettings) -> str | None:
        """What is wrong with a value for a group."""
        objection = self.setting.objection(value)
        if objection is not None:
            return objection
        if self.low is not None and int(value) < self.low.of(settings):
            expected = f"at least {self.low.of(settings)} ({self.low.name})"
        elif self.high is not None and int(value) > self.high.of(settings):
            expected = f"at most {self.high.of(settings)} ({self.high.name})"
        else:
            return None
        return f"{self.setting.name} is {value!r}, expected {expected}"


def heartbeat_interval(kind: str) -> str:
    """The name of the heartbeat interval of a kind of group."""
    return f"{kind}.heartbeat.interval.ms"


def session_timeout(kind: str) -> str:
    """The name of the session timeout of a kind of group."""
    return f"{kind}.session.timeout.ms"


def _of(name: str, field: str, least: int, documentation: str) -> tuple[Setting, BrokerValue]:
    default = BrokerValue(f"group.{name}", field)
    return number(name, default.of(), least, documentation, kind="int"), default


def _of_every_kind(kind: str) -> Iterator[CoordinatedSetting]:
    """Heartbeats, sessions and assignments, which Kafka bounds alike for each kind."""

    def bound(side: str, of: str, source: str | int) -> BrokerValue:
        return BrokerValue(f"group.{kind}.{side}.{of}", source)

    yield CoordinatedSetting(
        *_of(
            heartbeat_interval(kind),
            f"{kind}_heartbeat_interval_ms",
            1,
            "How often members of the group send a heartbeat; they follow with the next one.",
        ),
        bound("min", "heartbeat.interval.ms", f"{kind}_min_heartbeat_interval_ms"),
        bound("max", "heartbeat.interval.ms", f"{kind}_max_heartbeat_interval_ms"),
    )
    yield CoordinatedSetting(
        *_of(
            session_timeout(kind),
            f"{kind}_session_timeout_ms",
            1,
            "A member that sends no heartbeat for so long is removed from the group.",
        ),
        bound("min", "session.timeout.ms", f"{kind}_min_session_timeout_ms"),
        bound("max", "session.timeout.ms", f"{kind}_max_session_timeout_ms"),
    )
    name = f"{kind}.assignment.interval.ms"
    yield CoordinatedSetting(
        number(
            name,
            ASSIGNMENT_INTERVAL_MS,
            0,
            "How long the group waits between two assignments.",
            kind="int",
            effect=Effect.NONE,
            note="an assignment is made when it is needed, at once",
        ),
        BrokerValue(f"group.{name}", ASSIGNMENT_INTERVAL_MS),
        bound("min", "assignment.interval.ms", 0),
        bound("max", "assignment.interval.ms", MAX_ASSIGNMENT_INTERVAL_MS),
    )


def _of_streams() -> Iterator[CoordinatedSetting]:
    yield CoordinatedSetting(
        *_of(
            "streams.num.standby.replicas",
            "streams_standby_count",
            0,
            "Standbys of each task that has state, each in another process.",
        ),
        high=BrokerValue("group.streams.max.standby.replicas", "streams_max_standby_count"),
    )
    yield CoordinatedSetting(
        *_of(
            "streams.initial.rebalance.delay.ms",
            "streams_initial_rebalance_delay_ms",
            0,
            "How long the group, when it is empty, waits for more members before it assigns tasks.",
        )
    )


COORDINATED_SETTINGS: Final = {
    each.setting.name: each
    for each in (*_of_every_kind(CONSUMER), *_of_every_kind(STREAMS), *_of_streams())
}
"""Every setting of such groups."""


def broker_values() -> Iterator[tuple[BrokerValue, str]]:
    """What the broker has for all groups from its start to its end, each with a description."""
    for each in COORDINATED_SETTINGS.values():
        name = each.setting.name
        if each.default.field is not None:
            about = f"{name} of groups that do not say otherwise. {each.setting.documentation}"
            yield each.default, about
        if each.low is not None:
            yield each.low, f"The least that {name} of a group may be."
        if each.high is not None:
            yield each.high, f"The most that {name} of a group may be."
