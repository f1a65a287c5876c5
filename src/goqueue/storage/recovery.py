"""Bring a log's folder into order before anything else looks at it.

Only what lies past the last checkpoint is scanned. A tail that is torn or damaged, with nothing
intact behind it, is cut; damage in the middle is reported and stays where it is, for readers to be
told about. Compactions that were caught half-way are finished or forgotten.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from goqueue.model.errors import BatchError, ForeignFileError
from goqueue.records.batch import HEADER_BYTES, MAGIC, peek_header
from goqueue.storage.checkpoints.checkpoint import Checkpoint, LogSummary, load_checkpoint
from goqueue.storage.epochs import EpochStart, LeaderEpochs
from goqueue.storage.naming import (
    CHECKPOINT,
    CLEANED,
    DAMAGED,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT_PREFIX,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    segment_bases,
    segment_path,
    swap_path,
    swap_ranges,
)
from goqueue.storage.scan import ANY_OFFSET, MAGIC_AT, Context, Damage, IntactBatch, scan
from goqueue.storage.segment import Segment
from goqueue.storage.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from goqueue.runtime.disk import Disk
    from goqueue.storage.config import LogConfig
    from goqueue.storage.indexes import Newest
    from goqueue.storage.open_files import SharedFiles


_BASE_OFFSET_BYTES: Final = 8


class RecoveryReport(msgspec.Struct):
    """What recovery found and did; everything zero and empty after a clean stop."""

    scanned_bytes: int = 0
    cut_bytes: int = 0
    cut_reason: str | None = None
    cut_whole: bool = False
    """What was cut was not torn off in the middle of a batch: it was as long as it should be, and
    something else, as after a power cut or with a bad bit."""
    damage: list[Damage] = msgspec.field(default_factory=list)
    finished_swaps: int = 0
    removed_leftovers: list[str] = msgspec.field(default_factory=list)
    foreign_files: list[str] = msgspec.field(default_factory=list)
    """Files that are not ours and could not be taken for ours; left alone."""
    checkpoint_missing: bool = False
    """There were segments and no checkpoint, or a damaged one: the whole log was scanned."""
    has_snapshots: bool = False
    """There are snapshots of state in the folder."""
    checkpoint_damaged: bool = False
    """There was a checkpoint in the folder, and it could not be read."""
    was_damaged: bool = False
    """An earlier run has left damaged batches where they are, for other nodes to replace."""
    missing_below_checkpoint: int = 0
    """How many offsets the checkpoint vouched for that are not there any more."""
    lost_from: int | None = None
    """In a log that other nodes hold too: the first offset at which something is damaged or
    missing. It was cut there, or waits for what the others have."""

    @property
    def has_lost(self) -> bool:
        """Whether batches that were whole once are gone, and not only the end of an append."""
        return (
            self.lost_from is not None
            or self.cut_whole
            or bool(self.damage or self.missing_below_checkpoint)
        )

    @property
    def clean(self) -> bool:
        """Nothing had to be repaired and nothing is missing."""
        return not (self.cut_bytes or self.damage or self.missing_below_checkpoint)


class Recovered(msgspec.Struct, frozen=True):
    """A log's folder, understood."""

    segments: Segments
    checkpoint: Checkpoint
    stored: Checkpoint | None
    """The checkpoint in the folder, from which the other one may have gone on."""
    summary: LogSummary | None
    """The summary that was given, if it still counts."""
    end_offset: int
    report: RecoveryReport


def recover(
    shared: SharedFiles, folder: Path, config: LogConfig, summary: LogSummary | None = None
) -> Recovered:
    """Read the folder, repair it, and say what is in it.

    Raises:
        ForeignFileError: the folder holds segment files that are not ours.
        UnsupportedFormatError: a newer version wrote the log.
        DiskError: the folder cannot be read or repaired.
    """
    report, disk = RecoveryReport(), shared.disk
    names = disk.names(folder)
    stored = load_checkpoint(disk, folder) if CHECKPOINT in names else None
    if summary is not None and not _extends(summary, stored, names):
        summary = None
    if _finish_swaps(disk, folder, names, report):
        names = disk.names(folder)
    bases = segment_bases(names)
    _tidy(disk, folder, names, bases, report)
    known = stored if summary is None else summary.checkpoint
    report.checkpoint_missing = bool(bases) and known is None
    report.checkpoint_damaged = CHECKPOINT in names and stored is None
    segments = [
        Segment(
            shared,
            folder,
            base,
            config,
            size_bytes=disk.size(segment_path(folder, base, LOG)),
            sealed_at=following,
        )
        for base, following in zip(bases, [*bases[1:], None], strict=False)
    ]
    if known is not None:
        tail = _Tail(known, report, partial(shared.on_loss, folder), summary)
    else:
        start = bases[0] if bases else 0
        blank = Checkpoint(log_start=start, recovery_point=start, recovery_segment=start)
        tail = _LearningTail(blank, report, partial(shared.on_loss, folder))
    tail.repair(segments)
    checkpoint = tail.checkpoint
    end = segments[-1].end_offset if segments else checkpoint.log_start
    report.missing_below_checkpoint = max(checkpoint.recovery_point - end, 0)
    # Never below an offset that was given out: what is missing stays missing, under its own number.
    end = max(end, checkpoint.log_start, checkpoint.recovery_point)
    return Recovered(Segments(tuple(segments)), checkpoint, stored, summary, end, report)


def _extends(summary: LogSummary, stored: Checkpoint | None, names: list[str]) -> bool:
    """Whether a summary was made from the checkpoint that is in the folder, or from none."""
    if CHECKPOINT not in names:
        return summary.generation == 0
    return stored is not None and 0 < summary.generation == stored.generation


def _finish_swaps(disk: Disk, folder: Path, names: list[str], report: RecoveryReport) -> int:
    """Put finished compactions in the place of the segments that they stand for."""
    for base, end in swap_ranges(names):
        finish_swap(disk, folder, base, end)
        report.finished_swaps += 1
    return report.finished_swaps


def finish_swap(disk: Disk, folder: Path, base_offset: int, end_offset: int) -> None:
    """Remove the segments from `base_offset` up to `end_offset` and let the swap file take over.

    It can be interrupted anywhere and done again: the swap file is there until the last step.
    """
    for base in segment_bases(disk.names(folder)):
        if base_offset <= base < end_offset:
            disk.remove(segment_path(folder, base, OFFSET_INDEX))
            disk.remove(segment_path(folder, base, TIME_INDEX))
            if base != base_offset:
                disk.remove(segment_path(folder, base, LOG))
    disk.sync_folder(folder)
    disk.rename(swap_path(folder, base_offset, end_offset), segment_path(folder, base_offset, LOG))
    disk.sync_folder(folder)


def _tidy(
    disk: Disk, folder: Path, names: list[str], bases: list[int], report: RecoveryReport
) -> None:
    """Remove what an interrupted write left behind; leave what is not ours."""
    kept = {f"{base:020d}{suffix}" for base in bases for suffix in (LOG, OFFSET_INDEX, TIME_INDEX)}
    for name in names:
        if name in kept or name == CHECKPOINT:
            continue
        if name == DAMAGED:
            report.was_damaged = True
            continue
        if name.startswith(SNAPSHOT_PREFIX):
            report.has_snapshots = True
            continue
        if name.endswith((CLEANED, TEMPORARY, SWAP, OFFSET_INDEX, TIME_INDEX)):
            disk.remove(folder / name)
            report.removed_leftovers.append(name)
        else:
            report.foreign_files.append(name)


class _Tail:
    """The segments at and past the recovery point, scanned and made ready to grow."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        report: RecoveryReport,
        on_loss: Callable[[], None],
        summary: LogSummary | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self._report = report
        self._on_loss = on_loss
        self._summary = summary

    def repair(self, segments: list[Segment]) -> None:
        """Scan every segment that the checkpoint does not vouch for, and open the last one."""
        for segment in segments:
            last = segment is segments[-1]
            if last or segment.base_offset >= self.checkpoint.recovery_segment:
                self._mend(segment, None if last else segment.end_offset)

    def _mend(self, segment: Segment, sealed_at: int | None) -> None:
        position, offset = self._start(segment)
        if sealed_at is not None and position == segment.size_bytes and offset >= sealed_at:
            return
        segment.resume(position, offset, self._newest(segment, position))
        segment.synced_bytes = position
        if sealed_at is None and position == segment.size_bytes:
            return
        self._report.scanned_bytes += segment.size_bytes - position
        context = self._context().up_to(sealed_at)
        for item in scan(segment.file, position, segment.size_bytes, offset, context):
            if isinstance(item, IntactBatch):
                self._found(segment, item)
            elif item.resume_at is None and sealed_at is None:
                self._cut(segment, item)
            else:
                self._report.damage.append(item)
        if sealed_at is not None:
            self._ended(segment, sealed_at)
            segment.seal(sealed_at)

    def _newest(self, segment: Segment, position: int) -> Newest | None:
        """What the summary says of a segment, up to where the scan begins."""
        summary = self._summary
        if (
            summary is None
            or not position
            or segment.base_offset != summary.checkpoint.recovery_segment
        ):
            return None
        segment.created_ms = summary.created_ms
        return summary.newest

    def _ended(self, segment: Segment, sealed_at: int) -> None:
        """Report the offsets between the last batch of a segment and the next segment."""
        end = segment.end_offset
        known = self._report.damage and self._report.damage[-1].first_offset == end
        if self.checkpoint.gaps_below <= end < sealed_at and not known:
            size = segment.size_bytes
            self._report.damage.append(Damage(size, size, end, sealed_at, "the segment is cut off"))

    def _start(self, segment: Segment) -> tuple[int, int]:
        """Where the scan of a segment begins: after what is known to be intact."""
        point = self.checkpoint
        if segment.base_offset == point.recovery_segment:
            start = point.recovery_position, max(point.recovery_point, segment.base_offset)
            if start[0] <= segment.size_bytes and self._leads_on(segment, *start):
                return start
        return 0, segment.base_offset

    def _leads_on(self, segment: Segment, position: int, offset: int) -> bool:
        """Whether the recovery point is a place in this file.

        Since it was noted, compaction may have put another file, and a shorter one, in the place of
        the one that it speaks of. Then everything up to where it would be was on the disk before.
        """
        if segment.base_offset >= self.checkpoint.gaps_below or position == segment.size_bytes:
            return True
        rest = scan(segment.file, position, segment.size_bytes, offset, self._context())
        return isinstance(next(rest, None), IntactBatch)

    def _context(self) -> Context:
        return Context(
            gaps_below=self.checkpoint.gaps_below, epochs=LeaderEpochs(self.checkpoint.epochs)
        )

    def _found(self, segment: Segment, found: IntactBatch) -> None:
        segment.note(found.position, found.info)

    def _cut(self, segment: Segment, damage: Damage) -> None:
        self._report.cut_bytes += segment.size_bytes - damage.position
        self._report.cut_reason = damage.reason
        if not _is_torn(segment, damage.position):
            self._report.cut_whole = True
            self._on_loss()
        segment.cut(damage.position)


class _LearningTail(_Tail):
    """The whole log, when its checkpoint is lost: what that said is learnt from the batches."""

    def repair(self, segments: list[Segment]) -> None:
        """Read everything twice: for the epochs, and then as usual."""
        epochs = LeaderEpochs.learnt(_epochs(segments))
        self.checkpoint = replace(self.checkpoint, epochs=epochs.starts)
        super().repair(segments)

    def _context(self) -> Context:
        return replace(super()._context(), gaps_below=ANY_OFFSET)

    def _found(self, segment: Segment, found: IntactBatch) -> None:
        damage = self._report.damage
        lost = bool(damage) and damage[-1].resume_at == found.info.base_offset
        if found.info.base_offset > segment.end_offset and not lost:
            self.checkpoint = replace(self.checkpoint, gaps_below=found.info.next_offset)
        super()._found(segment, found)

    def _ended(self, segment: Segment, sealed_at: int) -> None:
        """Take a gap before the next segment for one that compaction has left, as all others."""
        if segment.end_offset < sealed_at:
            self.checkpoint = replace(self.checkpoint, gaps_below=sealed_at)

    def _cut(self, segment: Segment, damage: Damage) -> None:
        if not self.checkpoint.epochs and not _may_be_torn(segment):
            raise ForeignFileError(
                f"{segment.path(LOG)} holds no intact batch, and its folder no checkpoint: it is "
                "not a log of this product; move it away"
            )
        super()._cut(segment, damage)


def _is_torn(segment: Segment, position: int) -> bool:
    """Whether the file ends in the middle of the batch that begins there."""
    header = segment.file.read(position, HEADER_BYTES)
    try:
        return position + peek_header(header).size_bytes > segment.size_bytes
    except BatchError:
        return len(header) < HEADER_BYTES


def _epochs(segments: list[Segment]) -> Iterator[EpochStart]:
    for segment in segments:
        context = Context(gaps_below=ANY_OFFSET, end_offset=segment.sealed_at)
        for item in scan(segment.file, 0, segment.size_bytes, segment.base_offset, context):
            if isinstance(item, IntactBatch):
                yield EpochStart(item.info.leader_epoch, item.info.base_offset)


def _may_be_torn(segment: Segment) -> bool:
    """Whether a file without an intact batch begins as one of ours, or a hole, would.

    A log has no checkpoint before its first batch, and a power cut can take any part of that.
    """
    start = segment.file.read(0, MAGIC_AT + 1)
    magic, offset = start[MAGIC_AT:], start[:_BASE_OFFSET_BYTES]
    expected = segment.base_offset.to_bytes(_BASE_OFFSET_BYTES, "big")
    torn = magic in {b"", bytes([MAGIC])} and offset == expected[: len(offset)]
    return torn or not any(start)
