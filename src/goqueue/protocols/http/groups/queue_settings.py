"""The settings of queue groups: show and change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.http.api.paths import GroupPath
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.groups.queue_settings_shapes import (
    SettingsAnswer,
    SettingsBody,
    settings_shape,
)

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker


class QueueSettingsRoutes:
    """The settings of queue groups."""

    def __init__(self, broker: Broker) -> None:
        self._queues = broker.queues

    @route("GET", "/groups/{group}/settings", tag="groups")
    async def show(self, path: GroupPath) -> SettingsAnswer:
        """The settings of a queue group."""
        return self._answer(path.group)

    @route("PUT", "/groups/{group}/settings", tag="groups")
    async def change(self, path: GroupPath, body: SettingsBody) -> SettingsAnswer:
        """Change the settings of a queue group.

        Omitted settings stay as they are. Messages in flight keep their visibility timeouts.
        """
        changes = body.changes(self._queues.group(path.group).settings)
        if changes:
            await self._queues.configure(path.group, changes)
        return self._answer(path.group)

    def _answer(self, group_id: str) -> SettingsAnswer:
        settings = self._queues.group(group_id).settings
        start = "latest" if settings.start_at_latest else "earliest"
        if settings.start_ago:
            start = f"by_duration:{settings.start_ago}"
        return SettingsAnswer(group_id, settings.mode, start, settings_shape(settings))
