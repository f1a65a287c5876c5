"""Settings of consumer groups (KIP-848) and Streams groups (KIP-1071), under Kafka's names.

They may be given before there is such a group, and outlive it, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from goqueue.configs.coordinated_setting_table import (
    COORDINATED_SETTINGS,
    KINDS,
    heartbeat_interval,
    session_timeout,
)
from goqueue.model.errors import InvalidTopicConfigError
from goqueue.topics.stored_configs import StoredConfigs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from goqueue.cluster.metadata import MetadataStore
    from goqueue.cluster.view_keeper import ViewKeeper
    from goqueue.groups.settings import GroupSettings

_PREFIX: Final = "group-configs/"


class CoordinatedGroupConfigs:
    """What is set for groups, of whatever kind they will be."""

    def __init__(
        self, store: MetadataStore, settings: GroupSettings, keeper: ViewKeeper | None = None
    ) -> None:
        self._stored = StoredConfigs(store, _PREFIX, keeper)
        self._settings = settings

    async def load(self) -> None:
        """Read what was set from the metadata store."""
        await self._stored.load()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call back after a node of the cluster has changed something."""
        self._stored.on_change = callback

    @property
    def names(self) -> list[str]:
        """The groups that have settings of their own."""
        return self._stored.names

    def overrides(self, group_id: str) -> Mapping[str, str]:
        """What was set for a group."""
        return self._stored.of(group_id)

    def default(self, name: str) -> str:
        """What groups have that say nothing."""
        return str(COORDINATED_SETTINGS[name].default.of(self._settings))

    def settings_of(self, group_id: str) -> GroupSettings:
        """The settings that a group follows."""
        overrides = self._stored.of(group_id)
        own: dict[str, Any] = {
            field: int(overrides[name])
            for name, each in COORDINATED_SETTINGS.items()
            if name in overrides and (field := each.default.field) is not None
        }
        return replace(self._settings, **own) if own else self._settings

    def check(self, overrides: Mapping[str, str]) -> None:
        """Hold the settings of a group to what they may be.

        Raises:
            InvalidTopicConfigError: with one sentence for each problem.
        """
        objections = [
            objection
            for name, value in overrides.items()
            if (objection := COORDINATED_SETTINGS[name].objection(value, self._settings))
        ]
        problems = objections or list(self._slow_heartbeats(overrides))
        if problems:
            raise InvalidTopicConfigError("; ".join(problems))

    def _slow_heartbeats(self, overrides: Mapping[str, str]) -> Iterator[str]:
        """Heartbeat intervals that no session would survive, of the kinds that have overrides."""
        for kind in KINDS:
            names = heartbeat_interval(kind), session_timeout(kind)
            heartbeat, session = (overrides.get(name, self.default(name)) for name in names)
            if not overrides.keys().isdisjoint(names) and int(heartbeat) >= int(session):
                yield (
                    f"{names[0]} is {heartbeat}, expected less than {names[1]}, which is {session}"
                )

    async def replace(self, group_id: str, overrides: Mapping[str, str]) -> None:
        """Let a group have these settings and no others; raises like `check`."""
        self.check(overrides)
        await self._stored.replace(group_id, overrides)
