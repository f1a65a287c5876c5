"""Settings of consumer groups of the KIP-848 protocol, under Kafka's names.

They may be given before there is such a group, and outlive it, as in Kafka.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from goqueue.broker.setting import Effect, number
from goqueue.broker.stored_configs import StoredConfigs
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

_PREFIX: Final = "group-configs/"

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


class ConsumerGroupConfigs:
    """What is set for consumer groups."""

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
        if name == SESSION_TIMEOUT:
            return str(self._settings.consumer_session_timeout_ms)
        if name == HEARTBEAT_INTERVAL:
            return str(self._settings.consumer_heartbeat_interval_ms)
        return CONSUMER_GROUP_SETTINGS[name].default

    def settings_of(self, group_id: str) -> GroupSettings:
        """The settings that a group follows."""
        overrides = self._stored.of(group_id)
        if not overrides:
            return self._settings
        return replace(
            self._settings,
            consumer_session_timeout_ms=int(self._text(SESSION_TIMEOUT, overrides)),
            consumer_heartbeat_interval_ms=int(self._text(HEARTBEAT_INTERVAL, overrides)),
        )

    def check(self, overrides: Mapping[str, str]) -> None:
        """Hold the settings of a group to what they may be.

        Raises:
            InvalidTopicConfigError: with one sentence for each problem.
        """
        problems = []
        for name, value in overrides.items():
            objection = CONSUMER_GROUP_SETTINGS[name].objection(value)
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
            heartbeat, session = (
                self._text(name, overrides) for name in (HEARTBEAT_INTERVAL, SESSION_TIMEOUT)
            )
            if overrides and int(heartbeat) >= int(session):
                problems.append(
                    f"{HEARTBEAT_INTERVAL} is {heartbeat}, expected less than {SESSION_TIMEOUT}, "
                    f"which is {session}"
                )
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
        return 0, MAX_ASSIGNMENT_INTERVAL_MS
