"""The files of one log: which segments there are, what is not yet on the disk, the checkpoint.

Everything here happens on the writer's thread; what readers look at is replaced, never changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from goqueue.model.errors import InvariantError
from goqueue.storage.checkpoints.checkpoint import (
    CHEAP_SCAN_BYTES,
    Checkpoint,
    CheckpointFile,
    LogSummary,
)
from goqueue.storage.epochs import LeaderEpochs
from goqueue.storage.flushing.plan import FlushPlan
from goqueue.storage.naming import LOG
from goqueue.storage.recovery import RecoveryReport, recover
from goqueue.storage.scan import Context
from goqueue.storage.segment import Segment
from goqueue.storage.segments import Segments, remove_files
from goqueue.storage.stats import StoreStats

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk
    from goqueue.storage.config import LogConfig
    from goqueue.storage.folder_names import UnsyncedNames
    from goqueue.storage.lookup import Cut
    from goqueue.storage.open_files import SharedFiles


class SegmentStore:
    """A folder of segments that grows at one end and is trimmed at the other."""

    def __init__(
        self,
        folder: Path,
        config: LogConfig,
        shared: SharedFiles,
        clock: Clock,
        summary: LogSummary | None = None,
    ) -> None:
        self.folder = folder
        self.config = config
        self.shared = shared
        self.stats = StoreStats()
        self._clock = clock
        self.report: RecoveryReport
        self.segments = Segments()
        self._folder_names: UnsyncedNames = ()
        self.flushed_offset = 0
        self.load(summary=summary)

    @property
    def disk(self) -> Disk:
        """Where the files are."""
        return self.shared.disk

    def load(self, *, given_to: int = 0, summary: LogSummary | None = None) -> None:
        """Recover the folder and start from what is there; offsets below `given_to` are taken."""
        recovered = recover(self.shared, self.folder, self.config, summary)
        self.report = recovered.report
        self.opened_from = recovered.summary
        self._keep(recovered.segments)
        self._checkpoint = CheckpointFile(
            self.disk, self.folder, recovered.checkpoint, recovered.stored
        )
        self.epochs = LeaderEpochs(recovered.checkpoint.epochs)
        self.end_offset = max(recovered.end_offset, given_to)
        flushed = max(recovered.checkpoint.recovery_point, self.flushed_offset)
        self.flushed_offset = min(flushed, self.end_offset)
        self._unsynced = [s for s in self.segments if s.synced_bytes < s.size_bytes]
        self._sealed_since_checkpoint: list[Segment] = []
        self._name_changes = len(self.segments)  # who made them may not have synced the folder
        self._durable_name_changes = 0
        self._has_folder = len(self.segments) > 0
        if self.report.checkpoint_missing:
            self._folder_names = self.shared.folders.doubt(self.folder)  # likewise
        active = self.segments.active
        if active is not None and active.end_offset < self.end_offset:
            self.roll()  # offsets that were given out are not given again
        self.forget_from(self.end_offset)

    def forget_from(self, end_offset: int) -> None:
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
        """Recovery would scan too much: a segment was sealed since the last checkpoint."""
        if self._sealed_since_checkpoint or self._checkpoint.stored is not None:
            return bool(self._sealed_since_checkpoint)
        active = self.segments.active
        return active is not None and active.size_bytes > CHEAP_SCAN_BYTES

    def note(self, *, epochs: LeaderEpochs | None = None, **changes: int) -> None:
        """Make changes to the checkpoint durable, here and now."""
        self.make_folder()
        self.shared.folders.sync(self._folder_names)
        if epochs is None:
            self._checkpoint.update(**changes)
        else:
            self._checkpoint.update(epochs=epochs.starts, **changes)
            self.epochs = epochs

    def note_start(self, log_start: int) -> None:
        """Make the start of a log that has a folder durable; in any thread, while it goes on."""
        self.shared.folders.sync(self._folder_names)
        self._checkpoint.update(log_start=log_start)

    def note_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader begins to write at an offset; see `note_epochs`."""
        self.note_epochs(self.epochs.with_epoch(epoch, start_offset))

    def note_epochs(self, epochs: LeaderEpochs) -> None:
        """Other leaders write from now on.

        It is made durable here and now, unless it is the first leader of a log without a
        checkpoint: until it has one, recovery learns the epoch from the batches.
        """
        if self._checkpoint.stored or self.epochs.starts or epochs.starts[0].start_offset > 0:
            self.note(epochs=epochs)
        else:
            self._checkpoint.assume(epochs=epochs.starts)
            self.epochs = epochs

    def make_folder(self) -> None:
        """A log that was never written has no folder, so that thousands of them start at once.

        Its name is not durable before the next flush.
        """
        if not self._has_folder:
            self._folder_names = self.shared.folders.make(self.folder)
            self._has_folder = True

    # --- Growing ---------------------------------------------------------------------------------

    def growing(self, size_bytes: int) -> Segment:
        """The segment that so many bytes are to be written to, which is then unsynced."""
        segment = self.segments.active
        if segment is None or (
            segment.size_bytes and segment.size_bytes + size_bytes > self.config.segment_bytes
        ):
            segment = self.roll()
        if not segment.is_dirty:
            segment.is_dirty = True
            self.shared.open_files.written(segment)
            if segment not in self._unsynced:
                self._unsynced.append(segment)
        return segment

    def roll(self) -> Segment:
        """Seal the active segment and start the next one at the end of the log.

        A log of several segments has a checkpoint in its folder: without one, recovery could not
        tell a segment that is missing from one that compaction has removed.
        """
        self.make_folder()
        if len(self.segments) and self._checkpoint.stored is None:
            self.note()
        segment = Segment(self.shared, self.folder, self.end_offset, self.config)
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
                files.extend(segment.save_indexes())
            recovery = {
                "recovery_point": self.end_offset,
                "recovery_segment": active.base_offset,
                "recovery_position": active.size_bytes,
            }
        return FlushPlan(
            shared=self.shared,
            folder=self.folder,
            folder_names=self._folder_names,
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
            if segment.is_dirty and segment.synced_bytes >= segment.size_bytes:
                segment.is_dirty = False
                self.shared.open_files.synced(segment)
        self._unsynced = [s for s in self._unsynced if s.synced_bytes < s.size_bytes]
        self._folder_names = self._folder_names if self._folder_names != plan.folder_names else ()
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
                self.shared.open_files.forget(segment)
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

    @property
    def unsynced(self) -> Sequence[Segment]:
        """Those of which something may not be on the disk."""
        return self._unsynced

    # --- Summaries -------------------------------------------------------------------------------

    @property
    def needs_checkpoint(self) -> bool:
        """Recovery had to find out by itself what the folder should say."""
        too_long = self.report.checkpoint_missing and self.segments.size_bytes > CHEAP_SCAN_BYTES
        return self.report.checkpoint_damaged or too_long

    @property
    def is_summarisable(self) -> bool:
        """Whether a start that knew only the checkpoint in the folder would have little to do."""
        active, stored = self.segments.active, self._checkpoint.stored
        if active is None or self._sealed_since_checkpoint or self.report.checkpoint_damaged:
            return False
        if active.size_bytes > CHEAP_SCAN_BYTES:
            return False
        if stored is None:
            return len(self.segments) == 1
        return stored.generation > 0 and stored.recovery_segment == active.base_offset

    def summary(self, state: bytes) -> LogSummary:
        """The log as it is now."""
        active, stored = self.segments.active, self._checkpoint.stored
        if active is None:
            raise InvariantError(f"the log in {self.folder} is empty: there is nothing to sum up")
        active.keep_indexes()
        point = replace(
            self.checkpoint,
            recovery_point=self.end_offset,
            recovery_segment=active.base_offset,
            recovery_position=active.size_bytes,
        )
        generation = 0 if stored is None else stored.generation
        return LogSummary(generation, point, active.newest, active.created_ms, state)

    def summarised(self, summary: LogSummary) -> bool:
        """Note that what a summary says is on the disk; false when it does not count any more."""
        stored, point = self._checkpoint.stored, summary.checkpoint
        generation = 0 if stored is None else stored.generation
        if summary.generation != generation or point.recovery_point > self.flushed_offset:
            return False
        self._checkpoint.assume(
            recovery_point=point.recovery_point,
            recovery_segment=point.recovery_segment,
            recovery_position=point.recovery_position,
        )
        return True

    # --- Removing --------------------------------------------------------------------------------

    def drop_below(self, offset: int) -> list[Segment]:
        """Take the sealed segments that end at `offset` or before out of the log.

        Returns them; their files are the caller's to remove. Epochs that wrote nothing else are
        forgotten. The segment that holds `offset` stays whole, so its first epoch stays known.
        """
        dropped = [segment for segment in self.segments.sealed if segment.end_offset <= offset]
        self._keep(self.segments.without_first(len(dropped)))
        self._forget(dropped)
        oldest = next((segment.base_offset for segment in self.segments), offset)
        epochs = self.epochs.starting_at(min(oldest, offset))
        if epochs != self.epochs:
            self._checkpoint.assume(epochs=epochs.starts)
            self.epochs = epochs
        return dropped

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
            self._forget([segment])
            remove_files(self.disk, [segment])
            self.disk.sync_folder(self.folder)  # one by one, so that no hole can be left
        if cut.keeper is not None:
            file = self.disk.open(cut.keeper.path(LOG))
            file.truncate(cut.position)
            file.sync()
        self.forget_from(end)

    def replace(self, base_offset: int, end_offset: int, segment: Segment) -> None:
        """Let one segment stand where several sealed ones were."""
        before = len(self.segments)
        self._keep(self.segments.replaced(base_offset, end_offset, segment))
        self.stats.segments_created += 1
        self.stats.segments_deleted += before + 1 - len(self.segments)

    def _forget(self, segments: Iterable[Segment]) -> None:
        """Have nothing more to do with segments that leave the log."""
        for segment in segments:
            self.shared.open_files.forget(segment)
            self._unsynced = [s for s in self._unsynced if s is not segment]
            self._sealed_since_checkpoint = [
                s for s in self._sealed_since_checkpoint if s is not segment
            ]
            self.stats.segments_deleted += 1

    def _keep(self, segments: Segments) -> None:
        """Have these segments; what the others have counted stays counted."""
        kept = set(segments)
        for each in self.segments:
            if each not in kept:
                self.shared.open_files.forget(each)
                self.stats.index_rebuilds += each.index_rebuilds
        self.segments = segments

    def let_go(self) -> None:
        """Forget every segment, so that files close which nobody reads any more."""
        self._keep(Segments())
        self._unsynced = []
        self._sealed_since_checkpoint = []

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the segments or what is said of them contradict."""
        self.segments.check_invariants()
        if self.flushed_offset > self.end_offset:
            raise InvariantError(f"flushed {self.flushed_offset} past the end {self.end_offset}")
