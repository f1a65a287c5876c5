"""From what happens on this node to the topic of events.

What an event tells of has happened when it comes here, so nothing waits for it for long. While the
topic cannot be written, events wait in memory; one that finds no room is dropped, and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError
from goqueue.model.internal_topics import WEBHOOKS
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record, encode as encode_batch
from goqueue.webhooks.events import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.publishing.targets import Targets
    from goqueue.runtime.clock import Clock
    from goqueue.webhooks.events import Event

logger = logging.getLogger(__name__)

EVENTS: Final = TopicPartition(WEBHOOKS, 0)
"""One partition: events are in one order for every endpoint."""
_MAX_WAITING: Final = 10_000
"""Events that wait for the topic; a further one is dropped."""
_MAX_BATCH: Final = 500
"""Events that are published together; more take several batches."""
_RETRY_S: Final = 0.5
_STOP_S: Final = 2.0
"""What the last events have to be published at a stop."""


class Outbox:
    """Events on their way to the topic."""

    def __init__(
        self, targets: Targets, create: Callable[[], Awaitable[None]], clock: Clock
    ) -> None:
        """`create` makes the topic if it is not there."""
        self._targets = targets
        self._create = create
        self._clock = clock
        self._waiting: deque[tuple[bytes, asyncio.Future[None]]] = deque()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0
        """Events that found no room."""

    def start(self) -> None:
        """Publish from now on."""
        self._task = asyncio.create_task(self._publish(), name="webhook events")

    def put(self, event: Event) -> asyncio.Future[None]:
        """Take an event; the future is done when it is durable, or was dropped."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if len(self._waiting) >= _MAX_WAITING:
            if not self.dropped:
                logger.warning("webhooks: %d events wait for %s: dropped", _MAX_WAITING, WEBHOOKS)
            self.dropped += 1
            stored.set_result(None)
            return stored
        self._waiting.append((encode(event), stored))
        self._woken.set()
        return stored

    async def stop(self) -> None:
        """Publish what is left, if that is quickly done."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        try:
            async with asyncio.timeout(_STOP_S):
                await self._publish_all()
        except (GoQueueError, TimeoutError) as error:
            logger.warning("webhooks: %d events are lost: %s", len(self._waiting), error)

    async def _publish(self) -> None:
        is_failing = False
        while True:
            await self._woken.wait()
            try:
                await self._publish_all()
                is_failing = False
            except GoQueueError as error:
                if not is_failing:
                    logger.warning("webhooks: events wait for topic %s: %s", WEBHOOKS, error)
                is_failing = True
                await asyncio.sleep(_RETRY_S)

    async def _publish_all(self) -> None:
        """Publish what waits. After a failure the last events may be there twice, with their ids.

        Raises:
            GoQueueError: the topic takes nothing now.
        """
        if self._waiting:
            await self._create()
        while self._waiting:
            portion = [self._waiting[at] for at in range(min(_MAX_BATCH, len(self._waiting)))]
            now_ms = self._clock.now_ms()
            records = [Record(at, now_ms, None, body) for at, (body, _) in enumerate(portion)]
            await self._targets.of(EVENTS).append(encode_batch(records))
            for _, stored in portion:  # durable from here on
                self._waiting.popleft()
                if not stored.done():
                    stored.set_result(None)
        self._woken.clear()
