"""Backups as a use case: made, listed, verified, pruned, restored, on a schedule."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

from goqueue.backup.agent import AgentServices, NodeAgent
from goqueue.backup.jobs import Job, Jobs, JobState
from goqueue.backup.making import BackupMaking, BackupRequest, MakingServices
from goqueue.backup.nodes import Nodes
from goqueue.backup.repository import NO_SECRET, Repository, Secret
from goqueue.backup.restore_job import RestoreJob, RestoringServices
from goqueue.backup.schedule import Schedules
from goqueue.backup.verifying import problems_of
from goqueue.model.errors import BackupError, DamagedBackupError, UnknownBackupError

if TYPE_CHECKING:
    from goqueue.backup.manifest import Summary
    from goqueue.backup.planning import RestoreRequest
    from goqueue.topics.routes import Routes


class BackupServices(AgentServices, MakingServices, RestoringServices, Protocol):
    """What backups need of a broker."""

    routes: Routes


class Backups:
    """Every backup job of this node, and its part in those of others."""

    def __init__(self, services: BackupServices) -> None:
        self._services = services
        node_id = services.settings.node_id
        self.agent = NodeAgent(services, str(node_id))
        self.jobs = Jobs(services.clock, node_id)
        self._nodes = Nodes(self.agent, services.routes)
        self.schedules = Schedules(services.store, services.clock, self.create, self.prune)

    async def stop(self) -> None:
        """End what is under way; what was copied serves the next backup."""
        await self.jobs.stop()
        await self.agent.stop()

    # --- Jobs ------------------------------------------------------------------------------------

    def create(self, request: BackupRequest) -> Job:
        """Begin a backup. Raises `BackupBusyError`."""

        async def work(job: Job) -> None:
            await BackupMaking(self._services, self._nodes, job, request).run()

        return self.jobs.start("backup", request.destination, work)

    def restore(self, request: RestoreRequest) -> Job:
        """Begin a restore. Raises `BackupBusyError`."""

        async def work(job: Job) -> None:
            await RestoreJob(self._services, self._nodes, job, request).run()

        return self.jobs.start("restore", request.destination, work)

    def verify(self, destination: str, backup_id: str, secret: Secret = NO_SECRET) -> Job:
        """Begin to read every file of a backup. Raises `BackupBusyError`."""

        async def work(job: Job) -> None:
            repository = await self._open(destination, secret)
            found = await asyncio.to_thread(repository.resolve, backup_id)
            manifest = await asyncio.to_thread(repository.manifest, found)
            files = manifest.files()
            job.begin("verifying", sum(each.size_bytes for each in files))
            check = partial(problems_of, repository, files, partial(setattr, job, "done_bytes"))
            problems = await asyncio.to_thread(check)
            job.result = {"backup": found, "files": len(files), "problems": problems}
            if problems:
                raise DamagedBackupError(
                    f"{len(problems)} of {len(files)} files are damaged or missing: {problems[0]}"
                )

        return self.jobs.start("verification", destination, work)

    # --- What there is ---------------------------------------------------------------------------

    async def all(self, destination: str) -> list[Summary]:
        """The backups at a destination, the newest first."""
        repository = await self._open(destination)

        def read() -> list[Summary]:
            return [repository.summary(each) for each in reversed(repository.ids())]

        return await asyncio.to_thread(read)

    async def find(self, destination: str, backup_id: str) -> Summary:
        """One backup. Raises `UnknownBackupError`."""
        repository = await self._open(destination)

        def read() -> Summary:
            return repository.summary(repository.resolve(backup_id))

        return await asyncio.to_thread(read)

    async def delete(self, destination: str, backup_id: str) -> int:
        """Remove one backup, and the files that no other one needs; returns how many files."""
        repository = await self._open(destination)

        def remove() -> int:
            return repository.remove([repository.resolve(backup_id)])

        return await asyncio.to_thread(remove)

    async def cancel(self, job_id: str) -> Job:
        """End a job of this node. Raises `UnknownBackupError` when it is not under way."""
        job = self.jobs.find(job_id)
        if job is None or job.state is not JobState.RUNNING:
            raise UnknownBackupError(f"no job {job_id!r} is under way on this node")
        await self.jobs.cancel(job)
        return job

    async def prune(self, destination: str, keep: int) -> list[str]:
        """Remove all but the newest backups; returns the ids of those that went."""
        if keep < 1:
            raise BackupError(f"keep is {keep}, expected at least 1")
        repository = await self._open(destination)

        def prune() -> list[str]:
            doomed = repository.ids()[:-keep]
            repository.remove(doomed)
            return doomed

        return await asyncio.to_thread(prune)

    async def _open(self, destination: str, secret: Secret = NO_SECRET) -> Repository:
        open_it = partial(Repository.open, destination, self._services.data_dir, secret)
        return await asyncio.to_thread(open_it)
