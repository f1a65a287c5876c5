"""Backups on a schedule: a setting in the metadata store, and whichever node is first when due."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.backup.jobs import JobState
from goqueue.backup.making import BackupRequest
from goqueue.backup.metadata_keys import LAST_RUN_KEY
from goqueue.backup.repository import Secret
from goqueue.cluster.metadata import ABSENT, Committed, Condition, Delete, Put
from goqueue.model.errors import BackupUnavailableError, CorruptMetadataError, GoQueueError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.backup.jobs import Job
    from goqueue.cluster.metadata import MetadataStore, Operation
    from goqueue.runtime.clock import Clock

_log = logging.getLogger(__name__)

SCHEDULE_KEY: Final = "backup/schedule"
_DAY_MS: Final = 24 * 60 * 60 * 1000


class Schedule(msgspec.Struct, frozen=True):
    """When to make which backup."""

    destination: str
    every_ms: int = _DAY_MS
    at: str | None = None
    """The time of day in UTC, as in 02:00; the interval is a number of days then."""
    keep: int = 7
    """How many backups stay; older ones are pruned after each."""
    topics: tuple[str, ...] | None = None
    key_file: str | None = None
    """At the server."""
    rate_bytes: int | None = None
    set_ms: int = 0


class LastRun(msgspec.Struct, frozen=True):
    """The last backup that was begun by the schedule."""

    started_ms: int


def next_run_ms(schedule: Schedule, last_ms: int | None) -> int:
    """When the next backup is due; the first one is due at once, or at the time of day."""
    since_ms = schedule.set_ms if last_ms is None else last_ms
    if schedule.at is None:
        return since_ms if last_ms is None else since_ms + schedule.every_ms
    hour, _, minute = schedule.at.partition(":")
    base = datetime.fromtimestamp(since_ms / 1000, UTC)
    due = base.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0)
    days = max(schedule.every_ms // _DAY_MS, 1)
    if last_ms is None:
        return round((due if due >= base else due + timedelta(days=1)).timestamp() * 1000)
    return round((due + timedelta(days=days)).timestamp() * 1000)


class Schedules:
    """The schedule of the cluster, as this node follows it."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        create: Callable[[BackupRequest], Job],
        prune: Callable[[str, int], Awaitable[list[str]]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._create = create
        self._prune = prune

    async def get(self) -> tuple[Schedule | None, LastRun | None]:
        """The schedule, and its last run."""
        schedule, last = await self._store.get(SCHEDULE_KEY), await self._store.get(LAST_RUN_KEY)
        try:
            return (
                None if schedule is None else msgspec.json.decode(schedule.value, type=Schedule),
                None if last is None else msgspec.json.decode(last.value, type=LastRun),
            )
        except msgspec.MsgspecError as error:
            raise CorruptMetadataError(f"the backup schedule cannot be read: {error}") from error

    async def put(self, schedule: Schedule | None) -> None:
        """Replace the schedule; None removes it. The next run counts from now on."""
        operation: Operation = Delete(SCHEDULE_KEY)
        if schedule is not None:
            schedule = msgspec.structs.replace(schedule, set_ms=self._clock.now_ms())
            operation = Put(SCHEDULE_KEY, msgspec.json.encode(schedule))
        result = await self._store.transact([], [operation, Delete(LAST_RUN_KEY)])
        if not isinstance(result, Committed):
            raise BackupUnavailableError("the metadata store did not take the schedule: try again")

    async def check(self) -> None:
        """Begin a backup if one is due and no other node is faster; prune after it."""
        schedule, last = await self.get()
        if schedule is None:
            return
        now_ms = self._clock.now_ms()
        last_ms = None if last is None else last.started_ms
        if now_ms < next_run_ms(schedule, last_ms) or not await self._claim(now_ms):
            return
        request = BackupRequest(
            schedule.destination,
            schedule.topics,
            rate_bytes=schedule.rate_bytes,
            secret=Secret(key_file=schedule.key_file),
        )
        try:
            job = self._create(request)
            if job.task is not None:
                await asyncio.wait((job.task,))
            if job.state is JobState.DONE:
                await self._prune(schedule.destination, schedule.keep)
        except GoQueueError as error:
            _log.warning("the scheduled backup failed: %s", error)

    async def _claim(self, now_ms: int) -> bool:
        """Be the one that makes it: of several nodes, one."""
        found = await self._store.get(LAST_RUN_KEY)
        condition = Condition(LAST_RUN_KEY, ABSENT if found is None else found.revision)
        put = Put(LAST_RUN_KEY, msgspec.json.encode(LastRun(now_ms)))
        return isinstance(await self._store.transact([condition], [put]), Committed)
