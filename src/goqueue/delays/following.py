"""Units of which this node only has replicas: their slot files are kept, and nothing else of them.

So a node that takes over knows when messages are due without reading the logs of the unit; it reads
what came since the last pass.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.delays.due.slot_index import SlotIndex
from goqueue.delays.entries import CLASSES
from goqueue.delays.parts import slots_folder
from goqueue.delays.store import DelayStore
from goqueue.model.errors import GoQueueError
from goqueue.model.internal_topics import DELAYED
from goqueue.model.topic_partition import TopicPartition
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.delays.parts import DelayPartServices

logger = logging.getLogger(__name__)

PASS_S: Final = 5.0
"""Between looks for what was committed."""


class FollowedUnits:
    """Indexes the messages of units that other nodes lead."""

    def __init__(self, services: DelayPartServices, is_open: Callable[[int], bool]) -> None:
        """`is_open`: this node leads a unit or is loading it, and indexes it as its leader."""
        self._services = services
        self._is_open = is_open
        self._seen: dict[int, tuple[int, ...]] = {}
        """How far the logs of each unit were committed at the last pass."""
        self._indexes: dict[int, SlotIndex] = {}
        """Of the units that were looked at since this node last led them."""
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def start(self) -> None:
        """Look from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def idle(self) -> None:
        """Return when no unit is being indexed: a leader is about to do it."""
        async with self._turn:
            pass

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PASS_S)
            try:
                await self.look()
            except GoQueueError as error:
                logger.warning("delayed messages: not indexed: %s", error)
            except Exception:
                logger.exception("delayed messages: not indexed, trying again")

    async def look(self) -> int:
        """Index what was committed since the last time; returns how many messages that were."""
        topic = self._services.topics.catalogue.by_name.get(DELAYED)
        count = 0
        for unit in range(0 if topic is None else topic.partition_count // CLASSES):
            async with self._turn:
                if self._is_open(unit):
                    self._seen.pop(unit, None)
                    self._indexes.pop(unit, None)
                else:
                    count += await self._follow(unit)
        return count

    async def _follow(self, unit: int) -> int:
        services, first = self._services, unit * CLASSES
        found = [
            services.partitions.find(TopicPartition(DELAYED, first + each))
            for each in range(CLASSES)
        ]
        here = [each for each in found if each is not None]
        if len(here) < CLASSES:
            return 0
        store = DelayStore(here)
        ends = store.committed_ends()
        if ends == self._seen.get(unit):
            return 0
        index = self._indexes.get(unit)
        if index is None:
            folder = slots_folder(services.data_dir, unit)
            index = self._indexes[unit] = SlotIndex(services.disk, folder)
        look = partial(index.follow, store, services.clock.now_ms())
        count = await in_thread(services.executor, look)
        self._seen[unit] = ends
        return count
