"""Settings of consumer groups of the KIP-848 protocol and of Streams groups, under Kafka's names.

They may be given before there is such a group, and outlive it, as in Kafka.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from goqueue.broker.setting import MAX_INT, Effect, number
from goqueue.broker.stored_configs import StoredConfigs
from goqueue.groups.settings import MAX_STANDBYS
from goqueue.model.errors import InvalidTopicConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.cluster.metadata import MetadataStore
    from goqueue.groups.settings import GroupSettings

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"

MAX_ASSIGNMENT_INTERVAL_MS: Final = 15_000
"""`group.consumer.max.assignment.interval.ms`; a longer one is refused."""

STREAMS_SESSION_TIMEOUT: Final = "streams.session.timeout.ms"
STREAMS_HEARTBEAT_INTERVAL: Final = "streams.heartbeat.interval.ms"
STREAMS_STANDBYS: Final = "streams.num.standby.replicas"
STREAMS_INITIAL_DELAY: Final = "streams.initial.rebalance.delay.ms"

_PREFIX: Final = "group-configs/"
_HEARTBEATS: Final = (
    (HEARTBEAT_INTERVAL, SESSION_TIMEOUT),
    (STREAMS_HEARTBEAT_INTERVAL, STREAMS_SESSION_TIMEOUT),
)
"""The first of each pair is less than the second."""
_FIELDS: Final = {
    SESSION_TIMEOUT: "consumer_session_timeout_ms",
    HEARTBEAT_INTERVAL: "consumer_heartbeat_interval_ms",
    STREAMS_SESSION_TIMEOUT: "streams_session_timeout_ms",
    STREAMS_HEARTBEAT_INTERVAL: "streams_heartbeat_interval_ms",
    STREAMS_STANDBYS: "streams_standby_count",
    STREAMS_INITIAL_DELAY: "streams_initial_rebalance_delay_ms",
}
"""What `GroupSettings` calls those that are obeyed."""

CONSUMER_GROUP_SETTINGS: Final = {
    each.name: each
    for each in (
        number(
            HEARTBEAT_INTERVAL,
            5000,
            1,
            "How often members of the group send a heartbeat; they follow with the next one.",
            kind="int",
        ),
        number(
            SESSION_TIMEOUT,
            45_000,
            1,
            "A member that sends no heartbeat for so long is removed from the group.",
            kind="int",
        ),
        number(
            ASSIGNMENT_INTERVAL,
            1000,
            0,
            "How long the group waits between two assignments.",
            kind="int",
            effect=Effect.NONE,
            note="an assignment is made when it is needed, at once",
        ),
    )
}
"""Each has a default and bounds on the broker: `group.` before its name, and `min.` and `max.`."""

STREAMS_GROUP_SETTINGS: Final = {
    each.name: each
    for each in (
        number(
            STREAMS_HEARTBEAT_INTERVAL,
            5000,
            5000,
            "How often members of a Streams group send a heartbeat; they follow with the next one.",
            high=15_000,
            kind="int",
        ),
        number(
            STREAMS_SESSION_TIMEOUT,
            45_000,
            45_000,
            "A member that sends no heartbeat for so long is removed from its Streams group.",
            high=60_000,
            kind="int",
        ),
        number(
            STREAMS_STANDBYS,
            0,
            0,
            "Standbys of each task that has state, each in another process.",
            high=MAX_STANDBYS,
            kind="int",
        ),
        number(
            STREAMS_INITIAL_DELAY,
            3000,
            0,
            "How long an empty Streams group waits for more members before it assigns tasks.",
            kind="int",
        ),
        number(
            "streams.assignment.interval.ms",
            1000,
            0,
            "How long a Streams group waits between two assignments.",
            high=15_000,
            kind="int",
            effect=Effect.NONE,
            note="an assignment is made when it is needed, at once",
        ),
    )
}
MEMBER_GROUP_SETTINGS: Final = CONSUMER_GROUP_SETTINGS | STREAMS_GROUP_SETTINGS
"""Of the groups that assign something to their members."""


class ConsumerGroupConfigs:
    """What is set for consumer groups and Streams groups."""

    def __init__(self, store: MetadataStore, settings: GroupSettings) -> None:
        self._stored = StoredConfigs(store, _PREFIX)
        self._settings = settings

    async def load(self) -> None:
        """Read what was set from the metadata store."""
        await self._stored.load()

    @property
    def names(self) -> list[str]:
        """The groups that have settings of their own."""
        return self._stored.names

    def overrides(self, group_id: str) -> Mapping[str, str]:
        """What was set for a group."""
        return self._stored.of(group_id)

    def default(self, name: str) -> str:
        """What groups have that say nothing."""
        if name in _FIELDS:
            return str(getattr(self._settings, _FIELDS[name]))
        return MEMBER_GROUP_SETTINGS[name].default

    def settings_of(self, group_id: str) -> GroupSettings:
        """The settings that a group follows."""
        overrides = self._stored.of(group_id)
        if not overrides:
            return self._settings
        numbers: dict[str, Any] = {
            _FIELDS[name]: int(value) for name, value in overrides.items() if name in _FIELDS
        }
        return replace(self._settings, **numbers)

    def check(self, overrides: Mapping[str, str]) -> None:
        """Hold the settings of a group to what they may be.

        Raises:
            InvalidTopicConfigError: with one sentence for each problem.
        """
        problems = []
        for name, value in overrides.items():
            objection = MEMBER_GROUP_SETTINGS[name].objection(value)
            low, high = self._bounds(name)
            if objection is None and not low <= int(value) <= high:
                side = name.removeprefix("consumer.")
                objection = (
                    f"{name} is {value!r}, expected {low} to {high} (group.consumer.min.{side}, "
                    f"group.consumer.max.{side})"
                )
            if objection is not None:
                problems.append(objection)
        if not problems:
            problems = [
                f"{short} is {self._text(short, overrides)}, expected less than {long}, which is "
                f"{self._text(long, overrides)}"
                for short, long in _HEARTBEATS
                if overrides.keys() & {short, long}
                and int(self._text(short, overrides)) >= int(self._text(long, overrides))
            ]
        if problems:
            raise InvalidTopicConfigError("; ".join(problems))

    async def replace(self, group_id: str, overrides: Mapping[str, str]) -> None:
        """Let a group have these settings and no others; raises like `check`."""
        self.check(overrides)
        await self._stored.replace(group_id, overrides)

    def _text(self, name: str, overrides: Mapping[str, str]) -> str:
        return overrides.get(name, self.default(name))

    def _bounds(self, name: str) -> tuple[int, int]:
        settings = self._settings
        if name == SESSION_TIMEOUT:
            return (
                settings.consumer_min_session_timeout_ms,
                settings.consumer_max_session_timeout_ms,
            )
        if name == HEARTBEAT_INTERVAL:
            return (
                settings.consumer_min_heartbeat_interval_ms,
                settings.consumer_max_heartbeat_interval_ms,
            )
        return 0, MAX_ASSIGNMENT_INTERVAL_MS if name == ASSIGNMENT_INTERVAL else MAX_INT
