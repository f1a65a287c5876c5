"""A disk that is too full: others lead what they can; a node that has no room left copies nothing.

From `disk_limit_percent` on a node says so in its registration, and hands over what nodes with room
can lead. It goes on to follow, for what is stored elsewhere is not safer with fewer replicas. From
`NO_ROOM_PERCENT` on it stores nothing more: its replicas leave the in-sync sets as those that are
late do. With room again all of that ends.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError
from goqueue.partitions.upkeep import DiskState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.partitions.replication.replicas import Replicas

logger = logging.getLogger(__name__)

NO_ROOM_PERCENT: Final = 97.0
"""Etcd and the broker's own files need what is left."""
_HAND_OVER_S: Final = 5.0
"""How long followers have to fetch what is missing."""


class FullDisk:
    """What a look at the disk means for the replicas of this node."""

    def __init__(self, replicas: Replicas, tell: Callable[[bool], Awaitable[None]]) -> None:
        """`tell` says to the other nodes whether the disk is too full to lead."""
        self._replicas = replicas
        self._tell = tell
        self._is_told = False
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    def looked(self, used_percent: float, state: DiskState) -> None:
        """The disk is so full; what follows from it is done in a task, one at a time."""
        followed = self._replicas.followed
        has_room = used_percent < NO_ROOM_PERCENT
        if followed.has_room is not has_room:
            logger.warning(
                "the disk is %.1f %% full: what other nodes lead is %s",
                used_percent,
                "copied again" if has_room else "no longer copied",
            )
            followed.has_room = has_room
        is_full = state is DiskState.FULL
        is_due = is_full is not self._is_told or (is_full and self._replicas.led.by_key)
        is_busy = self._task is not None and not self._task.done()
        if is_due and not is_busy and not self._is_stopped:
            self._task = asyncio.create_task(self._follow(is_full), name="full disk")

    async def _follow(self, is_full: bool) -> None:  # noqa: FBT001 - of the disk
        try:
            if is_full is not self._is_told:
                await self._tell(is_full)
                self._is_told = is_full
            if is_full:
                left = await self._replicas.led.relieve(_HAND_OVER_S)
                logger.info(
                    "the disk is full: leadership of %d partitions was not handed over yet", left
                )
        except GoQueueError as error:
            logger.warning("reporting the full disk to the cluster failed, retrying: %s", error)

    async def stop(self) -> None:
        """Do nothing more about it."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
