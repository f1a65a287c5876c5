"""Jobs: what is under way on a node, how far it is, and what came of it."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import BackupBusyError, GoQueueError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.runtime.clock import Clock

logger = logging.getLogger(__name__)

_MAX_JOBS: Final = 100
"""That are remembered; older ones are forgotten."""


class JobState(StrEnum):
    """Where a job stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Job:
    """One backup, verification or restore."""

    def __init__(self, job_id: str, kind: str, destination: str, started_ms: int) -> None:
        self.id = job_id
        self.kind = kind
        self.destination = destination
        self.started_ms = started_ms
        self.ended_ms: int | None = None
        self.state = JobState.RUNNING
        self.stage = "starting"
        self.done_bytes = 0
        self.total_bytes = 0
        self.error: str | None = None
        self.result: dict[str, Any] = {}
        self.task: asyncio.Task[None] | None = None

    def begin(self, stage: str, total_bytes: int) -> None:
        """Go on with another stage."""
        self.stage, self.done_bytes, self.total_bytes = stage, 0, total_bytes


class Jobs:
    """The jobs of this node; one at a time."""

    def __init__(self, clock: Clock, node_id: int) -> None:
        self._clock = clock
        self._node_id = node_id
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def __iter__(self) -> Any:
        return iter(reversed(self._jobs.values()))

    def find(self, job_id: str) -> Job | None:
        """A job of this node that is remembered."""
        return self._jobs.get(job_id)

    def start(self, kind: str, destination: str, work: Callable[[Job], Awaitable[None]]) -> Job:
        """Begin a job.

        Raises:
            BackupBusyError: another one is under way.
        """
        busy = next((each for each in self if each.state is JobState.RUNNING), None)
        if busy is not None:
            raise BackupBusyError(
                f"{busy.kind} {busy.id} is under way: wait for it, or cancel it with "
                f"`goqueue backup delete {busy.id}`"
            )
        now_ms = self._clock.now_ms()
        job = Job(self._new_id(now_ms), kind, destination, now_ms)
        self._jobs[job.id] = job
        if len(self._jobs) > _MAX_JOBS:
            self._jobs.popitem(last=False)
        job.task = asyncio.get_running_loop().create_task(self._run(job, work))
        return job

    def _new_id(self, now_ms: int) -> str:
        """The time, and the node; a second job within a second has a number of its own."""
        moment = datetime.fromtimestamp(now_ms / 1000, UTC)
        stem = new_id = f"{moment:%Y%m%dT%H%M%SZ}-{self._node_id}"
        number = 1
        while new_id in self._jobs:
            number += 1
            new_id = f"{stem}-{number}"
        return new_id

    async def _run(self, job: Job, work: Callable[[Job], Awaitable[None]]) -> None:
        try:
            await work(job)
            job.state = JobState.DONE
        except asyncio.CancelledError:
            job.state, job.error = JobState.CANCELLED, "it was cancelled"
        except GoQueueError as error:
            job.state, job.error = JobState.FAILED, str(error)
            logger.warning("%s %s failed: %s", job.kind, job.id, error)
        except Exception:  # the log tells what it was
            logger.exception("%s %s failed", job.kind, job.id)
            job.state = JobState.FAILED
            job.error = "an internal error, which the server's log describes"
        finally:
            job.ended_ms = self._clock.now_ms()

    async def cancel(self, job: Job) -> None:
        """End a job that is under way; returns when it has let go of everything."""
        if job.task is not None and not job.task.done():
            job.task.cancel()
            await asyncio.wait((job.task,))

    async def stop(self) -> None:
        """End what is under way."""
        for job in list(self._jobs.values()):
            await self.cancel(job)
