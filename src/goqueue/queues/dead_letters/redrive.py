"""Redrives: who asked for which letters to be published again, and how far that is.

`redrive_engine` does it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.dead_letters import dead_letter_topic
from goqueue.model.errors import (
    GoQueueError,
    InternalTopicError,
    TooManyRedrivesError,
    UnknownRedriveError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.partition import Isolation
from goqueue.queues.dead_letters.moves import Moves
from goqueue.queues.dead_letters.redrive_engine import (
    EngineServices,
    Redrive,
    RedriveEngine,
    RedriveRequest,
    RedriveState,
)
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.group import REDRIVE_GROUP
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.sources import starts_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goqueue.model.ranges import Range
    from goqueue.partitions.elsewhere.record_deletion import RecordDeletion
    from goqueue.partitions.producer_ids import ProducerIds
    from goqueue.queues.dead_letters.letters import LetterFilter, Letters
    from goqueue.reading.record_reader import RecordSource

_log = logging.getLogger(__name__)

_MAX_RUNNING: Final = 10
"""Redrives under way at once; one more is refused."""
_MAX_KEPT: Final = 100
"""Redrives whose end is remembered; of more, the oldest is forgotten."""


def unknown_redrive(redrive_id: int) -> UnknownRedriveError:
    """What is said of a redrive that is none, also to whom it is hidden."""
    return UnknownRedriveError(
        f"there is no redrive {redrive_id}: redrives are forgotten after {_MAX_KEPT} more, and "
        "when the server stops"
    )


class RedriveServices(EngineServices, Protocol):
    """What redrives need."""

    producer_ids: ProducerIds
    record_deletion: RecordDeletion


class Redrives:
    """Every redrive of this broker."""

    def __init__(self, services: RedriveServices, letters: Letters) -> None:
        self._services = services
        self._letters = letters
        self._numbers = count(1)
        self._kept: dict[int, Redrive] = {}
        self._moves = Moves(
            services.queues, services.topics, services.targets, services.producer_ids
        )
        self._engine = RedriveEngine(services, letters, self._moves)

    async def start(self) -> None:
        """Find out what became of letters that were on their way when the last process ended."""
        group = self._services.queues.find(REDRIVE_GROUP)
        if group is not None:
            for key in list(group.queues):
                with suppress(GoQueueError):  # then the next redrive finds out
                    await self._moves.resolve(group, key)

    async def stop(self) -> None:
        """End what is under way; the letters that have not gone stay."""
        tasks = [each.task for each in self._kept.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin(self, request: RedriveRequest) -> Redrive:
        """Let letters go, in the background.

        Raises:
            TopicError: there is no such topic, or it takes no messages.
            TooManyRedrivesError: so many are under way already.
        """
        self._letters.topic(request.topic, request.letters_in)
        catalogue = self._services.topics.catalogue
        to_own = not (request.to_source or request.for_group)
        if to_own and catalogue.topic(request.target).is_internal:
            raise InternalTopicError(
                f"cannot redrive to {request.target}, an internal topic: choose another target"
            )
        running = sum(not each.is_over for each in self._kept.values())
        if running >= _MAX_RUNNING:
            raise TooManyRedrivesError(f"{running} redrives are under way: wait for one to end")
        redrive = Redrive(next(self._numbers), request, self._services.clock.now_ms())
        self._kept[redrive.redrive_id] = redrive
        over = [number for number, each in self._kept.items() if each.is_over]
        for number in over[: max(len(self._kept) - _MAX_KEPT, 0)]:
            del self._kept[number]
        redrive.task = asyncio.get_running_loop().create_task(self._run(redrive))
        return redrive

    async def _run(self, redrive: Redrive) -> None:
        try:
            await self._engine.run(redrive)
            redrive.state = RedriveState.DONE
        except asyncio.CancelledError:
            redrive.state = RedriveState.CANCELLED
        except GoQueueError as error:
            _log.error("redrive %d of %s: %s", redrive.redrive_id, redrive.request.topic, error)
            redrive.state, redrive.error = RedriveState.FAILED, str(error)
        finally:
            redrive.ended_ms = self._services.clock.now_ms()

    def __iter__(self) -> Iterator[Redrive]:
        return iter(self._kept.values())

    def get(self, redrive_id: int) -> Redrive:
        """A redrive of this process.

        Raises:
            UnknownRedriveError: there is none with that id, or it was long ago.
        """
        found = self._kept.get(redrive_id)
        if found is None:
            raise unknown_redrive(redrive_id)
        return found

    async def cancel(self, redrive_id: int) -> Redrive:
        """Let no more letters go; those that have gone stay gone. Raises like `get`."""
        redrive = self.get(redrive_id)
        if redrive.task is not None and not redrive.is_over:
            redrive.task.cancel()
            await asyncio.gather(redrive.task, return_exceptions=True)
        return redrive

    async def purge(self, source: str) -> int:
        """Remove every dead letter of a topic, for every reader; says how many were not redriven.

        Raises:
            TopicError: there is no such topic.
            ClusterError: the leader of a partition does not answer.
        """
        async with self._engine.lock:
            purged = await self._letters.count(source)
            for partition in self._letters.partitions(source):
                starts_at(
                    partition, await self._services.record_deletion.delete(partition.id, None)
                )
        return purged

    async def delete(self, source: str, chosen: LetterFilter) -> int:
        """Remove some dead letters from the queue; says how many.

        They are neither listed nor redriven any more. What the log holds of them goes with its
        retention, as it does of letters that were redriven.

        Raises:
            TopicError: there is no such topic.
            StorageError, ClusterError: the rest is still there.
        """
        readable = await self._letters.readable(source)
        ends = {each.id: each.readable_to(Isolation.READ_COMMITTED) for each in readable}
        deleted = 0
        async for letters in self._letters.read(source, chosen, ends):
            place = TopicPartition(dead_letter_topic(source), letters[0].partition)
            async with self._engine.lock:
                group, key, queue = await self._engine.index(place)
                offsets = [each.record.offset for each in letters]
                left = [
                    each for each in offsets if queue.window.state(each) is MessageState.AVAILABLE
                ]
                if left:
                    await self._moves.change(group, key, ops.Settled(ops.ranges_of(left)))
            deleted += len(left)
        return deleted

    async def note_moved(
        self, source: str, partition: RecordSource, ranges: Sequence[Range]
    ) -> int:
        """Remember that somebody else has redriven letters of a partition; says how many are new.

        Raises:
            TopicError: the topic was deleted.
        """
        upto = partition.readable_to(Isolation.READ_COMMITTED)
        async with self._engine.lock:
            group, key, _ = await self._engine.index(partition.id)
            new = [
                each
                for first, end in ranges
                for each in self._letters.unmoved(partition, first, min(end, upto))
            ]
            moved = await self._letters.count_in(partition, new)
            if new:
                await self._moves.change(group, key, ops.Settled(new))
        self._services.measures.redriven(source, moved)
        return moved
