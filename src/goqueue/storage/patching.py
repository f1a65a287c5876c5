"""Damaged batches of a log that other nodes hold too: theirs are put in the same place.

Replicas are the same byte for byte, so the batches that another one has under the same offsets, of
the same leaders' epochs, are as long as the stretch that is damaged. What lies behind it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import BatchError
from goqueue.model.tuples import NamedTuple
from goqueue.records.batch import validate, walk
from goqueue.storage.naming import LOG
from goqueue.storage.scan import Found

if TYPE_CHECKING:
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
        if isinstance(item, Found):
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
