"""One process of a worker: takes the messages of an app's group, runs their tasks, acknowledges.

A message is taken when there is room for one more task; while the task runs, the visibility timeout
of its message is extended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from goqueue.client.async_client import AsyncClient
from goqueue.model.errors import GoQueueError, TopicExistsError, UnknownTopicError
from goqueue.worker import context
from goqueue.worker.errors import AppNotFoundError
from goqueue.worker.handling import Handler
from goqueue.worker.settings import DEFAULT_CONCURRENCY, WorkerSettings

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine

    from goqueue.client.queues.messages import AsyncQueueMessage
    from goqueue.client.queues.queue import AsyncQueue
    from goqueue.worker.app import App

logger = logging.getLogger("goqueue.worker")

_EXTENSIONS: Final = 3
"""How often the visibility timeout of a running task is extended before it would expire."""
_LONGEST_BACKOFF_S: Final = 30.0

T = TypeVar("T")


class Runner:
    """Runs the tasks of an app until it is stopped."""

    def __init__(self, app: App, settings: WorkerSettings) -> None:
        """Nothing is connected before `run`.

        Raises:
            AppNotFoundError: the settings name topics that the app does not have.
            ValueError: they contradict the app.
        """
        self._app = app
        self._topics = settings.topics or app.topics
        if unknown := set(self._topics) - set(app.topics):
            raise AppNotFoundError(
                f"{settings.app} has no task in topic {', '.join(sorted(unknown))}; its topics are "
                f"{', '.join(app.topics)}"
            )
        self._concurrency, self._prefetch = _slots_and_prefetch(app, settings)
        self._stop_timeout_s = settings.stop_timeout_s
        self._handler = Handler(app, self._concurrency, on_stuck=self.stop)
        self._stopping = asyncio.Event()
        self._at_once = asyncio.Event()
        self._running: dict[asyncio.Task[None], AsyncQueueMessage] = {}
        """The messages whose tasks run."""
        self._failures = 0
        """Sessions in a row that have failed."""
        self.has_joined = False

    @property
    def has_unfinished_task(self) -> bool:
        """Whether a task may still run: only the end of the process ends it."""
        return self._handler.has_unfinished_task

    def stop(self) -> None:
        """Take no more messages, and return from `run` when the running tasks have finished."""
        self._stopping.set()

    def stop_at_once(self) -> None:
        """Do not wait for them either: their messages are redelivered."""
        self._stopping.set()
        self._at_once.set()

    async def run(self) -> None:
        """Run tasks until `stop`, also when no broker answers for a while.

        Raises:
            GoQueueError: the broker refuses.
        """
        while not self._stopping.is_set():
            try:
                await self._session()
            except GoQueueError as error:
                if not error.retriable:
                    raise
                delay_s = min(2.0**self._failures, _LONGEST_BACKOFF_S)
                self._failures += 1
                logger.warning("%s; trying again in %g s", error, delay_s)
                await _until(self._stopping, asyncio.sleep(delay_s))
        self._handler.close()

    async def _session(self) -> None:
        async with AsyncClient(self._app.address, self._app.settings) as client:
            queue = client.queue(
                self._app.group,
                self._topics,
                assignment=self._app.assignment,
                visibility=self._app.visibility_s,
                prefetch=self._prefetch,
                max_deliveries=self._app.max_deliveries,
                client_id=f"{self._app.name}@{socket.gethostname()}:{os.getpid()}",
            )
            if await _until(self._stopping, self._join(client, queue)):
                try:
                    await self._work(queue)
                finally:
                    await queue.__aexit__(None, None, None)

    async def _join(self, client: AsyncClient, queue: AsyncQueue) -> bool:
        for topic in self._topics:
            try:
                await client.topics.describe(topic)
            except UnknownTopicError:
                await _create(client, topic)
        await queue.__aenter__()
        self.has_joined = True
        self._failures = 0
        logger.info(
            "ready: group %s, topics %s, %d tasks, concurrency %d, broker %s",
            self._app.group,
            ", ".join(self._topics),
            len(self._app.tasks),
            self._concurrency,
            self._app.address,
        )
        return True

    # --- Running tasks ---------------------------------------------------------------------------

    async def _work(self, queue: AsyncQueue) -> None:
        """Take messages until this is stopped, or the queue refuses."""
        extending = asyncio.create_task(self._extend())
        try:
            await _until(self._stopping, self._take(queue))
        finally:
            # What waits here is for other processes now, not when the running tasks have finished.
            draining = asyncio.create_task(queue.drain())
            await self._drain()
            draining.cancel()
            extending.cancel()
            await asyncio.gather(draining, extending, return_exceptions=True)

    async def _take(self, queue: AsyncQueue) -> None:
        room = asyncio.Semaphore(self._concurrency)

        def ended(task: asyncio.Task[None]) -> None:
            del self._running[task]
            room.release()

        await room.acquire()
        async for message in queue:
            task = asyncio.create_task(self._handler.handle(message))
            self._running[task] = message
            task.add_done_callback(ended)
            await room.acquire()

    async def _drain(self) -> None:
        """Let the running tasks finish, those that cannot be waited for excepted."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._stop_timeout_s):
                await _until(self._at_once, _all_of(self._running))
        if self._running:
            logger.warning("%d tasks have not finished: redelivered", len(self._running))
        for task in self._running:
            task.cancel()
        await _all_of(self._running)

    async def _extend(self) -> None:
        """Keep the messages of running tasks from being redelivered, also if answers are late."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._app.visibility_s / _EXTENSIONS)
                for message in self._running.values():
                    group.create_task(self._extend_one(message))

    async def _extend_one(self, message: AsyncQueueMessage) -> None:
        if message.is_settled:
            return
        try:
            await message.extend(self._app.visibility_s)
        except GoQueueError as error:
            name = context.message_id(message)
            logger.warning("%s may be redelivered while its task runs: %s", name, error)


async def _until(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What some work returns; None when an event is set before, and the work is cancelled."""
    task = asyncio.create_task(work)
    happened = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, happened}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        happened.cancel()
        task.cancel()
        await asyncio.wait({task})


async def _all_of(tasks: Collection[asyncio.Task[None]]) -> None:
    """Return when all of them have ended."""
    if tasks:
        await asyncio.wait(tasks)


def _slots_and_prefetch(app: App, settings: WorkerSettings) -> tuple[int, int]:
    if app.assignment == "shared":
        slots = settings.concurrency or DEFAULT_CONCURRENCY
        return slots, settings.prefetch or slots
    if max(settings.concurrency or 1, settings.prefetch or 1) > 1:
        raise ValueError(
            'a process has one message at a time, or the order that assignment="exclusive" '
            "promises would break: leave concurrency and prefetch out, and use more processes"
        )
    return 1, 1


async def _create(client: AsyncClient, topic: str) -> None:
    try:
        await client.topics.create(topic)
    except TopicExistsError:  # another process was faster
        return
    logger.info("created topic %s", topic)
