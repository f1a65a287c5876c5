"""Damaged batches of a log that other nodes hold too: theirs are put in the same place.

Replicas are the same byte for byte, so the batches that another one has under the same offsets, of
the same leaders' epochs, are as long as the stretch that is damaged. What lies behind it stays.

A checkpoint vouches for what lies behind the damage, so the next start would not scan it again and
take the replica for one that has everything. With a mark in the folder it looks for all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import BatchError
from goqueue.model.tuples import NamedTuple
from goqueue.records.batch import validate, walk
from goqueue.runtime.disk import replace_file
from goqueue.storage.naming import DAMAGED, LOG
from goqueue.storage.scan import Damage, IntactBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from goqueue.runtime.disk import Bytes, Disk
    from goqueue.storage.epochs import LeaderEpochs
    from goqueue.storage.scan import Context
    from goqueue.storage.segment import Segment
    from goqueue.storage.segments import Segments


class DamagedStretch(NamedTuple):
    """Bytes of a segment between two batches that are intact."""

    segment: Segment
    position: int
    size_bytes: int
    first_offset: int
    end_offset: int


def find_stretch(segments: Segments, offset: int, context: Context) -> DamagedStretch | None:
    """The damage that covers an offset; None where there is none, or nothing intact behind it.

    Raises:
        DiskError: the disk refused.
    """
    segment = next(iter(segments.since(offset)), None)
    if segment is None:
        return None
    for item in segment.walk(context):
        if isinstance(item, IntactBatch):
            if item.info.base_offset > offset:
                return None
        elif item.resume_at is not None and item.first_offset <= offset < item.resume_at:
            size_bytes = item.end - item.position
            return DamagedStretch(
                segment, item.position, size_bytes, item.first_offset, item.resume_at
            )
    return None


def patch(disk: Disk, stretch: DamagedStretch, batches: Bytes, epochs: LeaderEpochs) -> None:
    """Write batches where they are damaged, and return when they are on the disk; in any thread.

    Raises:
        BatchError: they are not those that were there.
        DiskError: the disk refused; what was damaged may still be.
    """
    offset = stretch.first_offset
    for position, info in walk(batches):
        validate(batches, position, info)
        if info.base_offset != offset or info.leader_epoch != epochs.epoch_at(offset):
            raise BatchError(
                f"a batch at {info.base_offset} of epoch {info.leader_epoch} does not belong to "
                f"{offset}, which was written in epoch {epochs.epoch_at(offset)}"
            )
        offset = info.next_offset
    if (offset, len(batches)) != (stretch.end_offset, stretch.size_bytes):
        raise BatchError(
            f"{len(batches)} bytes up to offset {offset} do not fit where {stretch.size_bytes} "
            f"bytes up to {stretch.end_offset} are damaged"
        )
    file = disk.open(stretch.segment.path(LOG))
    file.write(stretch.position, batches)
    file.sync()


# --- Until there is a patch -----------------------------------------------------------------------


def mark(disk: Disk, folder: Path, *, is_damaged: bool) -> None:
    """Leave the mark for the next start, or take it away. Returns when that is durable."""
    path = folder / DAMAGED
    if is_damaged:
        replace_file(disk, path, b"")
    elif disk.exists(path):
        disk.remove(path)
        disk.sync_folder(folder)


def find_damage(segments: Segments, context: Context) -> Iterator[Damage]:
    """All damage between the batches of a log; reads everything.

    Raises:
        DiskError: the disk refused.
    """
    for segment in segments:
        for item in segment.walk(context):
            if isinstance(item, Damage):
                yield item


def patchable(damage: Iterable[Damage]) -> list[int]:
    """The offsets at which another replica's batches could be put: intact ones follow there."""
    return sorted({each.first_offset for each in damage if is_patchable(each)})


def is_patchable(damage: Damage) -> bool:
    """Whether it is a stretch of a file that ends where an intact batch begins."""
    return damage.resume_at is not None and damage.end > damage.position
