"""Delayed parts of idempotent batches in a cluster: they count once the rest is stored.

The publisher tells so as a rule, moments later. What it cannot tell, because this node has taken
over the unit or the partition has moved, the leader of the partition is asked. Until that is known
a message does not go; if the rest was not stored, it never does: it is void, and whoever has sent
the batch again has made another.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.delays.destination import Place
from goqueue.delays.entries import CLASSES, split_id
from goqueue.model.errors import GoQueueError, UnknownTopicError, UnknownTopicIdError
from goqueue.publishing.delayed import Rest, SplitBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from goqueue.publishing.local_target import LocalTarget
    from goqueue.publishing.remote_target import RemoteTarget

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.2
"""Between questions to a leader that cannot answer yet."""


class UnconfirmedBatch(msgspec.Struct, eq=False):
    """The messages of one batch that wait, and may be void."""

    place: Place
    split: SplitBatch
    ids: list[int] = msgspec.field(default_factory=list)


class Unconfirmed:
    """Messages of which nobody knows yet whether they count, in the order in which they came."""

    def __init__(self) -> None:
        self._classes: tuple[dict[int, UnconfirmedBatch], ...] = tuple({} for _ in range(CLASSES))
        """By their offsets, rising. As many as publishers wait for, and at a take-over those that
        came since this was last stored."""
        self.has_moved = False
        """Something was decided since `ends` was last stored."""

    def __contains__(self, delayed_id: int) -> bool:
        class_number, offset = split_id(delayed_id)
        return offset in self._classes[class_number]

    def __bool__(self) -> bool:
        return any(self._classes)

    def add(self, batch: UnconfirmedBatch, ids: Iterable[int]) -> None:
        """Messages of a batch have come, behind all others of their class."""
        for delayed_id in ids:
            class_number, offset = split_id(delayed_id)
            self._classes[class_number][offset] = batch
            batch.ids.append(delayed_id)

    def decided(self, batch: UnconfirmedBatch) -> bool:
        """It is known whether the messages of a batch count; false when it was known already."""
        was_open = False
        for delayed_id in batch.ids:
            class_number, offset = split_id(delayed_id)
            if self._classes[class_number].get(offset) is batch:
                del self._classes[class_number][offset]
                was_open = True
        self.has_moved |= was_open
        return was_open

    def batches(self) -> list[UnconfirmedBatch]:
        """Everything that is not decided."""
        return list({id(each): each for some in self._classes for each in some.values()}.values())

    def ends(self, committed: Sequence[int]) -> tuple[int, ...]:
        """For each class, the offset below which everything is decided and committed."""
        return tuple(
            min(next(iter(some), end), end)
            for some, end in zip(self._classes, committed, strict=True)
        )


class Verifier:
    """Asks the leaders of partitions what became of batches."""

    def __init__(
        self,
        unconfirmed: Unconfirmed,
        find: Callable[[Place], LocalTarget | RemoteTarget],
    ) -> None:
        """`find` says who leads a partition."""
        self.unconfirmed = unconfirmed
        self._find = find
        self.void: Callable[[UnconfirmedBatch], object] = unconfirmed.decided
        """Lets the messages of a batch never go."""
        self._wanted: dict[Place, list[UnconfirmedBatch]] = {}
        self._tasks: dict[Place, asyncio.Task[None]] = {}

    def look_into(self, batches: Iterable[UnconfirmedBatch]) -> None:
        """Find out what became of batches, soon."""
        for batch in batches:
            self._wanted.setdefault(batch.place, []).append(batch)
        for place in self._wanted:
            if place not in self._tasks:
                task = asyncio.get_running_loop().create_task(self._look_into(place))
                self._tasks[place] = task

    def stop(self) -> None:
        """Ask no more: whoever leads the unit next does."""
        for task in self._tasks.values():
            task.cancel()

    async def _look_into(self, place: Place) -> None:
        try:
            while batches := self._wanted.pop(place, None):
                undecided = await self._ask(place, batches)
                if undecided:
                    self._wanted.setdefault(place, []).extend(undecided)
                    await asyncio.sleep(_RETRY_S)
        finally:
            del self._tasks[place]

    async def _ask(self, place: Place, batches: list[UnconfirmedBatch]) -> list[UnconfirmedBatch]:
        """Ask the leader of a partition; returns what it cannot tell yet."""
        try:
            rests = await self._find(place).rests([each.split for each in batches])
        except (UnknownTopicError, UnknownTopicIdError):
            rests = [Rest.ABSENT] * len(batches)
        except GoQueueError as error:
            logger.info("checking whether delayed messages were stored failed, retrying: %s", error)
            return batches
        undecided = []
        for batch, rest in zip(batches, rests, strict=True):
            if rest is Rest.UNDER_WAY:
                undecided.append(batch)
            elif rest is Rest.STORED:
                self.unconfirmed.decided(batch)
            else:
                self.void(batch)
        return undecided
