"""Backups: made, listed, shown, verified, pruned, deleted, restored; the schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.backup.jobs import Job, JobState
from goqueue.backup.making import BackupRequest
from goqueue.backup.planning import RestoreRequest
from goqueue.backup.repository import Secret
from goqueue.backup.schedule import Schedule, next_run_ms
from goqueue.model.errors import UnknownBackupError
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.places import LOCAL, At, Selector
from goqueue.protocols.http.api.rights import ALTER, on_cluster
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.backups.backup_shapes import (
    BackupBody,
    BackupDeleted,
    BackupDetails,
    BackupInfo,
    BackupJob,
    BackupPath,
    Backups,
    DestinationQuery,
    Keyed,
    PruneBody,
    Pruned,
    RestoreBody,
    ScheduleBody,
    ScheduleInfo,
    VerifyBody,
)

if TYPE_CHECKING:
    from goqueue.backup.manifest import Summary
    from goqueue.backup.service import Backups as BackupService
    from goqueue.broker.broker import Broker
    from goqueue.protocols.http.api.places import Arguments
    from goqueue.protocols.lookups import Lookup

_TAG: Final = "admin"


async def _locate(broker: Broker, arguments: Arguments) -> Lookup | None:
    """The node that runs a job, which its id names."""
    number = arguments["path"].id.partition("Z-")[2].partition("-")[0]
    if not number.isdecimal() or int(number) not in broker.routes.others():
        return None
    return lambda: int(number)


_WHERE_IT_RUNS: Final = At(_locate, Selector("path.id"))


class BackupRoutes(BrokerRoutes):
    """Backup and restore."""

    @property
    def _backups(self) -> BackupService:
        return self._broker.backups.service

    @route("POST", "/admin/backup", tag=_TAG, right=on_cluster(ALTER), status=202, place=LOCAL)
    async def create(self, body: BackupBody) -> BackupJob:
        """Make a backup; it runs in the background: see `GET /admin/backup/{id}`."""
        topics = None if body.topics is None else tuple(body.topics)
        since = None if body.full else body.since
        request = BackupRequest(body.destination, topics, since, body.rate_bytes, _secret(body))
        return _job(self._backups.create(request))

    @route("GET", "/admin/backup", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def list_backups(self, query: DestinationQuery) -> Backups:
        """List the backups at a destination, and the jobs of this node."""
        service = self._backups
        found = [] if query.destination is None else await service.all(query.destination)
        return Backups([_info(each) for each in found], [_job(each) for each in service.jobs])

    @route("GET", "/admin/backup/{id}", tag=_TAG, right=on_cluster(ALTER), place=_WHERE_IT_RUNS)
    async def show(self, path: BackupPath, query: DestinationQuery) -> BackupDetails:
        """Show a job with its progress, or a backup."""
        job = self._backups.jobs.find(path.id)
        destination = query.destination
        if job is not None:
            is_made = job.kind == "backup" and job.state is JobState.DONE
            destination = job.destination if is_made else None
        elif destination is None:
            raise UnknownBackupError(
                f"this node knows no job {path.id!r}: name the destination of the backup"
            )
        found = None
        if destination is not None:
            found = _info(await self._backups.find(destination, path.id))
        return BackupDetails(path.id, None if job is None else _job(job), found)

    @route("DELETE", "/admin/backup/{id}", tag=_TAG, right=on_cluster(ALTER), place=_WHERE_IT_RUNS)
    async def delete(self, path: BackupPath, query: DestinationQuery) -> BackupDeleted:
        """Cancel a running job, or delete a backup with the files that no other one needs."""
        job = self._backups.jobs.find(path.id)
        if job is not None and job.state is JobState.RUNNING:
            await self._backups.cancel(path.id)
            return BackupDeleted(path.id, cancelled=True, files=0)
        destination = query.destination or (None if job is None else job.destination)
        if destination is None:
            raise UnknownBackupError(
                f"this node knows no job {path.id!r}: name the destination of the backup"
            )
        count = await self._backups.delete(destination, path.id)
        return BackupDeleted(path.id, cancelled=False, files=count)

    @route(
        "POST",
        "/admin/backup/{id}/verify",
        tag=_TAG,
        right=on_cluster(ALTER),
        status=202,
        place=LOCAL,
    )
    async def verify(self, path: BackupPath, body: VerifyBody) -> BackupJob:
        """Read every file of a backup and compare it with its checksum, as a job."""
        return _job(self._backups.verify(body.destination, path.id, _secret(body)))

    @route(
        "POST",
        "/admin/backup/{id}/restore",
        tag=_TAG,
        right=on_cluster(ALTER),
        status=202,
        place=LOCAL,
    )
    async def restore(self, path: BackupPath, body: RestoreBody) -> BackupJob:
        """Restore a backup, or a part of it, as a job; `dry_run` tells what it would do."""
        request = RestoreRequest(
            body.destination,
            path.id,
            None if body.topics is None else tuple(body.topics),
            body.rename,
            body.to,
            body.data_only,
            body.skip_existing,
            body.dry_run,
            body.rate_bytes,
            _secret(body),
        )
        return _job(self._backups.restore(request))

    @route("POST", "/admin/backup/prune", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def prune(self, body: PruneBody) -> Pruned:
        """Delete all but the newest backups at a destination."""
        return Pruned(await self._backups.prune(body.destination, body.keep))

    # --- The schedule ----------------------------------------------------------------------------

    @route("GET", "/admin/backup/schedule", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def schedule(self) -> ScheduleInfo:
        """Show when backups are made by themselves."""
        found, last = await self._backups.schedules.get()
        last_ms = None if last is None else last.started_ms
        if found is None:
            return ScheduleInfo(None, last_ms, None)
        shown = ScheduleBody(
            found.destination,
            found.every_ms,
            found.at,
            found.keep,
            None if found.topics is None else list(found.topics),
            found.key_file,
            found.rate_bytes,
        )
        return ScheduleInfo(shown, last_ms, next_run_ms(found, last_ms))

    @route("PUT", "/admin/backup/schedule", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def put_schedule(self, body: ScheduleBody) -> ScheduleInfo:
        """Make backups by themselves from now on; some node of a cluster makes each."""
        await self._backups.schedules.put(
            Schedule(
                body.destination,
                body.every_ms,
                body.at,
                body.keep,
                None if body.topics is None else tuple(body.topics),
                body.key_file,
                body.rate_bytes,
            )
        )
        return await self.schedule()

    @route("DELETE", "/admin/backup/schedule", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def delete_schedule(self) -> ScheduleInfo:
        """Make no more backups by themselves; those that were made stay."""
        await self._backups.schedules.put(None)
        return await self.schedule()


def _secret(body: Keyed) -> Secret:
    if body.key_file is not None and body.passphrase is not None:
        raise FieldError(
            "a key file and a passphrase were both given",
            field="passphrase",
            expected="one of the two",
        )
    return Secret(body.key_file, body.passphrase)


def _job(job: Job) -> BackupJob:
    return BackupJob(
        job.id,
        job.kind,
        job.state.value,
        job.stage,
        job.destination,
        job.done_bytes,
        max(job.total_bytes, job.done_bytes),
        job.started_ms,
        job.ended_ms,
        job.error,
        job.result,
    )


def _info(summary: Summary) -> BackupInfo:
    return BackupInfo(
        summary.id,
        summary.created_ms,
        summary.version,
        summary.is_whole,
        summary.is_encrypted,
        summary.since,
        summary.topic_count,
        summary.total_bytes,
        summary.copied_bytes,
    )
