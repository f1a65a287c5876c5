"""The files of one log: which segments there are, what is not yet on the disk, the checkpoint.

Everything here happens on the writer's thread; what readers look at is replaced, never changed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goqueue.model.errors import InvariantError
from goqueue.storage.checkpoint import CheckpointFile
from goqueue.storage.epochs import LeaderEpochs
from goqueue.storage.flush import FlushPlan
from goqueue.storage.naming import LOG, OFFSET_INDEX, TIME_INDEX
from goqueue.storage.recovery import recover
from goqueue.storage.scan import Context
from goqueue.storage.segment import Segment
from goqueue.storage.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Bytes, Disk
    from goqueue.storage.checkpoint import Checkpoint
    from goqueue.storage.config import LogConfig
    from goqueue.storage.lookup import Cut
    from goqueue.storage.recovery import RecoveryReport


@dataclass(slots=True)
class StoreStats:
    """What has happened since the log was opened."""

    bytes_written: int = 0
    syncs: int = 0
    segments_created: int = 0
    segments_deleted: int = 0
    offset_lookups: int = 0
    index_rebuilds: int = 0
    """Of segments that are gone; those that are there count their own."""
    time_lookups: int = 0
    """Searches happen in threads too: a count that two of them lose is not worth a lock."""
    time_lookups_s: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    """How long searches by time took, for whoever measures it to take out; the oldest go first."""


class SegmentStore:
    """A folder of segments that grows at one end and is trimmed at the other."""

    def __init__(self, folder: Path, config: LogConfig, disk: Disk, clock: Clock) -> None:
        self.folder = folder
        self.config = config
        self.disk = disk
        self.stats = StoreStats()
        self._clock = clock
        self.report: RecoveryReport
        self.segments = Segments()
        self.load()

    def load(self, *, given_to: int = 0) -> None:
        """Recover the folder and start from what is there; offsets below `given_to` are taken."""
        recovered = recover(self.disk, self.folder, self.config)
        self.report = recovered.report
        self._keep(recovered.segments)
        self._checkpoint = CheckpointFile(self.disk, self.folder, recovered.checkpoint)
        self.epochs = LeaderEpochs(recovered.checkpoint.epochs)
        self.end_offset = max(recovered.end_offset, given_to)
        self.flushed_offset = min(recovered.checkpoint.recovery_point, self.end_offset)
        self._unsynced = [s for s in self.segments if s.synced_bytes < s.size_bytes]
        self._sealed_since_checkpoint: list[Segment] = []
        self._name_changes = len(self.segments)  # who made them may not have synced the folder
        self._durable_name_changes = 0
        self._has_folder = len(self.segments) > 0
        active = self.segments.active
        if active is not None and active.end_offset < self.end_offset:
            self.roll()  # offsets that were given out are not given again
        self._forget_from(self.end_offset)

    def _forget_from(self, end_offset: int) -> None:
        """Let the checkpoint say nothing of batches that it announced and that were never stored.

        Another leader may write there next, and its batches would be taken for damage.
        """
        epochs = self.epochs.ending_at(end_offset)
        gaps_below = min(self.checkpoint.gaps_below, end_offset + 1)  # a gap may end right there
        if (epochs, gaps_below) != (self.epochs, self.checkpoint.gaps_below):
            self.note(epochs=epochs, gaps_below=gaps_below)

    @property
    def checkpoint(self) -> Checkpoint:
        """What the next start would know of this log."""
        return self._checkpoint.value

    @property
    def context(self) -> Context:
        """What is known about every stored batch."""
        return Context(gaps_below=self.checkpoint.gaps_below, epochs=self.epochs)

    @property
    def checkpoint_due(self) -> bool:
        """A segment was sealed since the last checkpoint, so recovery would scan too much."""
        return bool(self._sealed_since_checkpoint)

    def note(self, *, epochs: LeaderEpochs | None = None, **changes: int) -> None:
        """Make changes to the checkpoint durable, here and now."""
        self._make_folder()
        if epochs is None:
            self._checkpoint.update(**changes)
        else:
            self._checkpoint.update(epochs=epochs.starts, **changes)
            self.epochs = epochs

    def _make_folder(self) -> None:
        """A log that was never written has no folder, so that thousands of them start at once."""
        if not self._has_folder:
            self.disk.make_folder(self.folder)
            self._has_folder = True

    # --- Growing ---------------------------------------------------------------------------------

    def write(self, data: Bytes, infos: list[BatchInfo]) -> None:
        """Put stamped batches at the end, in one write, and let readers see them."""
        segment = self._segment_for(len(data))
        segment.write(data)
        segment.publish(infos)
        if segment not in self._unsynced:
            self._unsynced.append(segment)
        self.end_offset = infos[-1].next_offset
        self.stats.bytes_written += len(data)

    def _segment_for(self, length: int) -> Segment:
        active = self.segments.active
        if active is not None and (
            not active.size_bytes or active.size_bytes + length <= self.config.segment_bytes
        ):
            return active
        return self.roll()

    def roll(self) -> Segment:
        """Seal the active segment and start the next one at the end of the log."""
        self._make_folder()
        segment = Segment(self.disk, self.folder, self.end_offset, self.config)
        segment.created_ms = self._clock.now_ms()
        segment.create()
        active = self.segments.active
        if active is not None:
            active.seal(self.end_offset)
            self._sealed_since_checkpoint.append(active)
        self.segments = self.segments.with_active(segment)
        self._name_changes += 1
        self.stats.segments_created += 1
        return segment

    # --- Making durable --------------------------------------------------------------------------

    def plan_flush(self, *, checkpoint: bool) -> FlushPlan:
        """Everything that must reach the disk for what is written now to be there."""
        files = [segment.file for segment in self._unsynced]
        recovery = {}
        changed = self._name_changes > self._durable_name_changes
        active = self.segments.active
        if checkpoint and active is not None:
            for segment in (*self._sealed_since_checkpoint, active):
                files.extend(segment.indexes.save(segment.size_bytes))
            recovery = {
                "recovery_point": self.end_offset,
                "recovery_segment": active.base_offset,
                "recovery_position": active.size_bytes,
            }
        return FlushPlan(
            disk=self.disk,
            folder=self.folder,
            end_offset=self.end_offset,
            marks=tuple((segment, segment.size_bytes) for segment in self._unsynced),
            files=tuple(files),
            name_changes=self._name_changes if changed else 0,
            checkpoint=self._checkpoint if recovery else None,
            recovery=recovery,
        )

    def flushed(self, plan: FlushPlan) -> None:
        """Note that `plan` has run. This is the line where appends become durable."""
        for segment, size_bytes in plan.marks:
            segment.synced_bytes = max(segment.synced_bytes, size_bytes)
        self._unsynced = [s for s in self._unsynced if s.synced_bytes < s.size_bytes]
        self._durable_name_changes = max(self._durable_name_changes, plan.name_changes)
        if plan.checkpoint is not None:
            self._let_rest(plan.end_offset)
        self.flushed_offset = max(self.flushed_offset, plan.end_offset)
        self.stats.syncs += 1

    def _let_rest(self, end_offset: int) -> None:
        """Nobody writes to these segments any more: a log of thousands must not hold them open."""
        sealed = self._sealed_since_checkpoint
        for segment in sealed:
            if segment.end_offset <= end_offset and segment not in self._unsynced:
                segment.rest()
        self._sealed_since_checkpoint = [s for s in sealed if s.end_offset > end_offset]

    def rewrite_unsynced(self) -> None:
        """Write once more what a failed sync may have dropped, and cut what was never published.

        The kernel may have marked pages clean without having stored them; writing the same bytes
        again makes them dirty again.
        """
        for segment in self._unsynced:
            synced = segment.synced_bytes
            tail = segment.file.read(synced, segment.size_bytes - synced)
            segment.cut(segment.size_bytes)
            segment.file.write(synced, tail)
        active = self.segments.active
        if active is not None:
            active.cut(active.size_bytes)

    # --- Removing --------------------------------------------------------------------------------

    def drop_below(self, offset: int) -> None:
        """Remove the sealed segments that end at `offset` or before."""
        dropped = [segment for segment in self.segments.sealed if segment.end_offset <= offset]
        self._keep(self.segments.without_first(len(dropped)))
        self._remove(dropped)

    def cut(self, cut: Cut) -> None:
        """Remove everything behind a place, from the end backwards; `load` must follow.

        The checkpoint first stops to vouch for what goes, and at last forgets what it knew of it.
        """
        point, end = self.checkpoint, cut.end_offset
        changes = {
            "log_start": min(point.log_start, end),
            "clean_below": min(point.clean_below, end),
        }
        if end < point.recovery_point:
            changes |= {
                "recovery_point": end,
                "recovery_segment": end if cut.keeper is None else cut.keeper.base_offset,
                "recovery_position": cut.position,
            }
        self._checkpoint.update(**changes)
        for segment in reversed(tuple(self.segments)):
            if segment is cut.keeper:
                break
            self._remove([segment])
            self.disk.sync_folder(self.folder)  # one by one, so that no hole can be left
        if cut.keeper is not None:
            file = self.disk.open(cut.keeper.path(LOG))
            file.truncate(cut.position)
            file.sync()
        self._forget_from(end)

    def replace(self, base_offset: int, end_offset: int, segment: Segment) -> None:
        """Let one segment stand where several sealed ones were."""
        before = len(self.segments)
        self._keep(self.segments.replaced(base_offset, end_offset, segment))
        self.stats.segments_created += 1
        self.stats.segments_deleted += before + 1 - len(self.segments)

    def _remove(self, segments: Iterable[Segment]) -> None:
        for segment in segments:
            for suffix in (OFFSET_INDEX, TIME_INDEX, LOG):
                self.disk.remove(segment.path(suffix))
            self._unsynced = [s for s in self._unsynced if s is not segment]
            self._sealed_since_checkpoint = [
                s for s in self._sealed_since_checkpoint if s is not segment
            ]
            self.stats.segments_deleted += 1

    def _keep(self, segments: Segments) -> None:
        """Have these segments; what the others have counted stays counted."""
        kept = set(segments)
        gone = (each for each in self.segments if each not in kept)
        self.stats.index_rebuilds += sum(each.index_rebuilds for each in gone)
        self.segments = segments

    def let_go(self) -> None:
        """Forget every segment, so that files close which nobody reads any more."""
        self._keep(Segments())
        self._unsynced = []
        self._sealed_since_checkpoint = []

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the segments contradict each other."""
        previous = None
        for segment in self.segments:
            if previous is not None and previous.end_offset != segment.base_offset:
                raise InvariantError(
                    f"segment {previous.base_offset} ends at {previous.end_offset}, and the next "
                    f"starts at {segment.base_offset}"
                )
            if segment.synced_bytes > segment.size_bytes:
                raise InvariantError(f"segment {segment.base_offset} is synced past its size")
            previous = segment
        if self.flushed_offset > self.end_offset:
            raise InvariantError(f"flushed {self.flushed_offset} past the end {self.end_offset}")
