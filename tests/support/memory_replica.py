"""A `ReplicatedLog` without a disk: what is copied, cut and started anew, as plainly as it goes."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from typing import TYPE_CHECKING, TypeVar

from goqueue.model.errors import LogFailedError, OffsetGapError
from goqueue.records.batch import validate, walk
from goqueue.storage.append_log import Appended
from goqueue.storage.epochs import LeaderEpochs
from goqueue.storage.scan import ANY_OFFSET, Context
from support.memory_log import MemoryLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.runtime.disk import Bytes
    from goqueue.storage.patching import DamagedStretch
    from goqueue.storage.region import Region

_T = TypeVar("_T")


class MemoryReplica(MemoryLog):
    """A memory log that other nodes hold too."""

    damaged = ()

    def reopened(self) -> MemoryReplica:
        """The same as another process would find it after a kill."""
        other = MemoryReplica(self.config)
        other.__dict__ |= {
            name: value for name, value in self.__dict__.items() if not name.startswith("on_")
        }
        return other

    def read(self, offset: int, max_bytes: int, *, until: int | None = None) -> Region | None:
        region = super().read(offset, max_bytes, until=until)
        if region is None:
            return None
        first = next(iter(walk(region.file.read(region.position, region.length))))[1].base_offset
        return type(region)(
            file=region.file,
            position=region.position,
            length=region.length,
            first_offset=first,
            file_end=region.file_end,
            context=Context(gaps_below=ANY_OFFSET),
        )

    def append_replica(self, batches: bytes, *, gaps: bool = False) -> Appended:
        if self.failure is not None:
            raise LogFailedError("it refuses appends") from self.failure
        first = self.end_offset
        for position, info in walk(batches):
            validate(batches, position, info)
            if info.next_offset <= first:
                continue
            if info.base_offset < first and not self.size_bytes:
                self.start_offset = self.end_offset = info.base_offset
            if info.base_offset < self.end_offset or (
                info.base_offset > self.end_offset and not gaps
            ):
                raise OffsetGapError(self.end_offset, info.base_offset)
            if info.leader_epoch != self.epochs.latest:
                self.epochs = self.epochs.with_epoch(info.leader_epoch, info.base_offset)
            self._positions.append(self.size_bytes)
            self._ends.append(info.next_offset)
            self.end_offset = info.next_offset
            self._file.data += batches[position : position + info.size_bytes]
        return Appended(first, self.end_offset)

    async def copy(self, batches: bytes, *, gaps: bool = False) -> Appended:
        await asyncio.sleep(0)
        return self.append_replica(batches, gaps=gaps)

    async def begin_epoch(self, epoch: int) -> None:
        await asyncio.sleep(0)
        if epoch != self.epochs.latest:
            self.epochs = self.epochs.with_epoch(epoch, self.end_offset)

    async def end_epochs(self) -> None:
        await asyncio.sleep(0)
        self.epochs = self.epochs.ending_at(self.end_offset)

    def damaged_stretch(self, offset: int) -> DamagedStretch | None:
        del offset  # nothing here is ever damaged
        return None

    def patch(self, stretch: DamagedStretch, batches: Bytes) -> None:
        raise NotImplementedError

    async def settle_patched(self, rebuild: Callable[[], _T]) -> _T | None:
        raise NotImplementedError

    async def forgive(self) -> None:
        raise NotImplementedError

    async def truncate(self, end_offset: int, rebuild: Callable[[], _T]) -> _T | None:
        await asyncio.sleep(0)
        if end_offset >= self.end_offset:
            return None
        if end_offset <= self.start_offset:
            self._empty(end_offset, min(self.start_offset, end_offset))
        else:
            self._cut(bisect_right(self._ends, end_offset), end_offset)
        self._forget()
        return rebuild()

    def _cut(self, kept: int, end_offset: int) -> None:
        at = self._positions[kept] if kept < len(self._positions) else self.size_bytes
        begins = next(iter(walk(bytes(self._file.data[at:]))))[1].base_offset
        self.end_offset = min(end_offset, begins)
        self._file.truncate(at)
        del self._positions[kept:], self._ends[kept:]

    def _empty(self, end_offset: int, start_offset: int) -> None:
        self._file.truncate(0)
        self._positions.clear()
        self._ends.clear()
        self.start_offset, self.end_offset = start_offset, end_offset

    def _forget(self) -> None:
        self.flushed_offset = min(self.flushed_offset, self.end_offset)
        self.epochs = self.epochs.ending_at(self.end_offset)
        if self._kept is not None and self._kept.last_offset >= self.end_offset:
            self._kept = None

    async def restart(self, offset: int, rebuild: Callable[[], _T]) -> _T | None:
        await asyncio.sleep(0)
        self._empty(offset, offset)
        self.flushed_offset, self.epochs, self._kept = offset, LeaderEpochs(), None
        return rebuild()

    async def restore_whole(self, rebuild: Callable[[], _T]) -> _T | None:
        return await self.restore(rebuild)

    async def discard_unsynced(self, rebuild: Callable[[], _T]) -> _T | None:
        if self.failure is None:
            return None
        self.failure = None
        found = await self.truncate(self.flushed_offset, rebuild)
        return rebuild() if found is None else found
