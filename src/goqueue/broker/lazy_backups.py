"""Backups, whose code is loaded for the first of them: a start does not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.runtime.tasks import PeriodicTasks

if TYPE_CHECKING:
    from goqueue.backup.service import Backups, BackupServices

SCHEDULE_KEY: Final = "backup/schedule"
_LOOK_S: Final = 10.0
"""Between looks whether there is a schedule."""


class LazyBackups:
    """The backups of a broker, or nothing yet."""

    def __init__(self, services: BackupServices) -> None:
        self._services = services
        self._backups: Backups | None = None
        self._tasks = PeriodicTasks()

    def start(self) -> None:
        """Look now and then whether a backup is due."""
        self._tasks.start("backup schedule", _LOOK_S, self._check)

    async def _check(self) -> None:
        if await self._services.store.get(SCHEDULE_KEY) is not None:
            await self.service.schedules.check()

    @property
    def service(self) -> Backups:
        """Them; loaded now if need be."""
        if self._backups is None:
            from goqueue.backup.service import Backups  # noqa: PLC0415 - as said

            self._backups = Backups(self._services)
        return self._backups

    async def stop(self) -> None:
        """End what is under way."""
        await self._tasks.stop()
        if self._backups is not None:
            await self._backups.stop()
