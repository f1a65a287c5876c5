"""The files of segments that are no part of a log any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.storage.naming import LOG, OFFSET_INDEX, TIME_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.runtime.disk import Disk
    from goqueue.storage.segment import Segment


def remove_files(disk: Disk, segments: Iterable[Segment]) -> None:
    """Remove what there is of segments; the batches last, since recovery goes by them."""
    for segment in segments:
        for suffix in (OFFSET_INDEX, TIME_INDEX, LOG):
            disk.remove(segment.path(suffix))
