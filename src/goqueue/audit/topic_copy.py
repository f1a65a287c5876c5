"""The lines of the audit log once more, in the topic `__audit`, for those who follow them.

The file is the log; the topic is a copy of it. A line that the topic has no room for, because its
partition could not be written for a long time, is in the file only: the numbers of lines show it.
After a failure the last lines may be there twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from goqueue.audit.limits import MAX_BATCH, MAX_COPIED
from goqueue.metrics import security_names as names
from goqueue.model.errors import GoQueueError
from goqueue.model.internal_topics import AUDIT
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.metrics.registry import Samples
    from goqueue.publishing.targets import Targets
    from goqueue.runtime.clock import Clock

logger = logging.getLogger(__name__)

_PLACE: Final = TopicPartition(AUDIT, 0)
_RETRY_S: Final = 1.0
_STOP_S: Final = 2.0
"""What the last lines have to be published at a stop."""


class TopicCopy:
    """Publishes lines as messages: the node is the key, the line is the value."""

    def __init__(
        self, targets: Targets, create: Callable[[], Awaitable[None]], clock: Clock, node: str
    ) -> None:
        """`create` makes the topic if it is not there."""
        self._targets = targets
        self._create = create
        self._clock = clock
        self._node = node.encode()
        self._lines: deque[bytes] = deque()
        self._uncopied = 0
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._copy(), name="audit topic")

    def written(self, lines: list[bytes]) -> None:
        """Take lines that the log has stored; called by the log's own thread."""
        with suppress(RuntimeError):  # the loop is closed: the file has them
            self._loop.call_soon_threadsafe(self._take, lines)

    def _take(self, lines: list[bytes]) -> None:
        room = MAX_COPIED - len(self._lines)
        self._lines.extend(lines[:room])
        self._uncopied += max(0, len(lines) - room)
        self._woken.set()

    def put(self, samples: Samples) -> None:
        """What there is to count."""
        samples.put(names.AUDIT_UNCOPIED, self._uncopied)

    async def _copy(self) -> None:
        is_failing = False
        while True:
            await self._woken.wait()
            try:
                await self._publish_all()
            except GoQueueError as error:
                if not is_failing:
                    logger.warning("audit log: lines wait for topic %s: %s", AUDIT, error)
                is_failing = True
                await asyncio.sleep(_RETRY_S)
            else:
                is_failing = False

    async def _publish_all(self) -> None:
        if self._lines:
            await self._create()
        while self._lines:
            portion = [self._lines[at] for at in range(min(MAX_BATCH, len(self._lines)))]
            now_ms = self._clock.now_ms()
            records = [
                Record(number, now_ms, self._node, line.rstrip(b"\n"))
                for number, line in enumerate(portion)
            ]
            await self._targets.of(_PLACE).append(encode(records))
            for _ in portion:
                self._lines.popleft()
        self._woken.clear()

    async def stop(self) -> None:
        """Publish what is left, if that is quickly done."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(_STOP_S):
                await self._publish_all()
        except (GoQueueError, TimeoutError) as error:
            logger.warning("audit log: %d lines are not in %s: %s", len(self._lines), AUDIT, error)
