"""A log as one of several replicas: it copies what a leader wrote, is cut, and starts anew.

The nodes that hold the same log agree byte for byte on what is committed. So what a replica has
lost it fetches again from the others, under the same offsets: it keeps no hole, as the only copy of
a log does, and never gives offsets of its own to what is missing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from goqueue.model.errors import DiskError, OffsetGapError
from goqueue.model.tuples import NamedTuple
from goqueue.records.batch import LENGTH_PREFIX_BYTES, BatchInfo, peek, validate, walk
from goqueue.storage import lookup
from goqueue.storage.append_log import Appended, AppendLog
from goqueue.storage.epochs import LeaderEpochs
from goqueue.storage.patching import (
    find_damage,
    find_stretch,
    is_patchable,
    mark,
    patch,
    patchable,
)
from goqueue.storage.scan import IntactBatch
from goqueue.storage.snapshot import remove_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.runtime.disk import Bytes
    from goqueue.storage.lookup import Cut
    from goqueue.storage.patching import DamagedStretch
    from goqueue.storage.recovery import RecoveryReport


class ReplicaAppend(NamedTuple):
    """Batches of a leader that continue this log, checked."""

    data: memoryview
    infos: list[BatchInfo]
    end_offset: int
    """Where the log ended when this was planned."""
    note: Callable[[], None] | None
    """Makes durable what the log must know before it holds them; None when that is nothing.
    It waits for the disk, and may run in any thread, while nothing else is appended or cut."""
    is_noted: bool = True
    """Their epochs are known then, too."""


class ReplicaLog(AppendLog):
    """What is done to a log that is not the only copy."""

    damaged: Sequence[int] = ()
    """Where a start has found batches damaged that others may have, the first first: as long as
    there are any, this replica has nothing to say about what it has."""

    # --- Copying ---------------------------------------------------------------------------------

    def append_replica(self, batches: Bytes, *, gaps: bool = False) -> Appended:
        """Write batches that a leader has stamped, exactly as they are.

        Batches that are already here are left out. With `gaps`, an offset past the end is taken as
        it is: the leader's log has been compacted. An empty log takes a batch that begins before it
        and reaches into it: the leader's log may start within a batch.

        Raises:
            OffsetGapError: the batches do not continue this log.
            BatchError: one is damaged; nothing was written.
            DiskError, LogFailedError: as `append` says.
        """
        plan = self.plan_replica(batches, gaps=gaps)
        if plan.note is not None:
            plan.note()
        return self.append_planned(plan)

    def plan_replica(self, batches: Bytes, *, gaps: bool = False) -> ReplicaAppend:
        """What `append_replica` would write, for a caller that runs its slow step in a thread."""
        if self._closed or self._failure is not None:
            self._ensure_writable()
        single = self._single_plan(batches) if batches else None
        return self._plan(batches, gaps=gaps) if single is None else single

    def _plan(self, batches: Bytes, *, gaps: bool) -> ReplicaAppend:
        end = next_offset = self.end_offset
        known, gaps_below = 0, 0
        infos: list[BatchInfo] = []
        epochs = self.epochs
        is_early = False
        for position, info in walk(batches):
            validate(batches, position, info)
            if info.next_offset <= end:
                known = position + info.size_bytes
                continue
            if info.base_offset < end and not infos and not self.segments.size_bytes:
                end = next_offset = info.base_offset
                is_early = True
            if info.base_offset != next_offset:
                if info.base_offset < next_offset or not gaps:
                    raise OffsetGapError(next_offset, info.base_offset)
                gaps_below = info.next_offset
            if info.leader_epoch != epochs.latest:
                epochs = epochs.with_epoch(info.leader_epoch, info.base_offset)
            infos.append(info)
            next_offset = info.next_offset
        data = memoryview(batches)[known:]
        if is_early:
            begin = partial(self._begin_early, end, gaps_below)
            return ReplicaAppend(data, infos, end, begin, is_noted=False)
        note: Callable[[], None] | None = None
        if gaps_below > self._store.checkpoint.gaps_below:
            note = partial(self._store.note, epochs=epochs, gaps_below=gaps_below)
        elif epochs != self.epochs:
            note = partial(self._store.note_epochs, epochs)
        return ReplicaAppend(data, infos, end, note)

    def _single_plan(self, batches: Bytes) -> ReplicaAppend | None:
        """`plan_replica` of one batch of the newest epoch right behind the log: most are."""
        info, end = peek(batches), self.end_offset
        if (
            info.base_offset != end
            or info.length + LENGTH_PREFIX_BYTES != len(batches)
            or info.leader_epoch != self.epochs.latest
        ):
            return None
        validate(batches, 0, info)
        return ReplicaAppend(memoryview(batches), [info], end, None)

    def _begin_early(self, offset: int, gaps_below: int) -> None:
        self._start_at(offset)
        if gaps_below:
            self._store.note(gaps_below=gaps_below)

    def append_planned(self, plan: ReplicaAppend) -> Appended:
        """Write what was planned, and noted where that is needed.

        Raises:
            OffsetGapError: the log has changed since.
        """
        self._ensure_writable()
        if plan.end_offset != self.end_offset:
            raise OffsetGapError(self.end_offset, plan.end_offset)
        if not plan.infos:
            return Appended(self.end_offset, self.end_offset)
        return self._write(plan.data, plan.infos, noted=plan.is_noted)

    # --- Leading ---------------------------------------------------------------------------------

    def note_epoch(self, epoch: int) -> None:
        """Note, durably, that a leader writes from the end on; in any thread.

        Before its first batch, so that appends wait for nothing.

        Raises:
            InvariantError: a newer epoch has written already.
            DiskError: the disk refused.
        """
        if epoch != self.epochs.latest:
            self._store.note_epoch(epoch, self.end_offset)

    def forget_epochs(self) -> None:
        """Forget, durably, the epochs of leaders that wrote nothing; in any thread.

        Other leaders write there next, perhaps batches of an earlier epoch that this log lacks.
        """
        self._store.forget_from(self.end_offset)

    # --- Cutting ---------------------------------------------------------------------------------

    def truncate_to(self, end_offset: int) -> int:
        """Cut the log so that it ends at `end_offset`, or at the batch that reaches past it.

        A log cut at its start or below is empty, and goes on at `end_offset`.

        For followers whose tail the leader does not have. Interrupted anywhere, the log keeps a
        prefix that is at least as long as asked for, and can be cut again. Snapshots of every kind
        that know what goes are removed first. No flush may be under way in another thread. Returns
        the new end.
        """
        self._ensure_open()
        if end_offset < self.end_offset:
            self._cut(self._find_cut(end_offset))
        return self.end_offset

    def restart_at(self, offset: int) -> None:
        """Let go everything, and go on empty at an offset: where the leader's log starts.

        Interrupted anywhere, what is left is a log without holes, and can be restarted again.
        """
        self._ensure_open()
        if len(self.segments):
            self._cut(lookup.Cut(None, 0, min(self.start_offset, offset)))
        self._start_at(offset)

    def _start_at(self, offset: int) -> None:
        """Go on at an offset in a log that is empty."""
        store = self._store
        try:
            remove_snapshots(store.disk, self.folder, 0)
            store.note(
                epochs=LeaderEpochs(),
                log_start=offset,
                recovery_point=offset,
                recovery_segment=offset,
                recovery_position=0,
                gaps_below=0,
                clean_below=offset,
            )
            store.load()
        except DiskError as error:
            self._fail(error)
            raise

    def cut_unsynced(self) -> None:
        """Cut a failed log to what is certainly on the disk; in any thread, as `recover_files`.

        What the kernel may have dropped is fetched from other nodes.

        Raises:
            DiskError: the disk still refuses.
        """
        store = self._store
        try:
            remove_snapshots(store.disk, self.folder, self.flushed_offset)
            store.cut(self._find_cut(self.flushed_offset))
            store.load()
            plan = store.plan_flush(checkpoint=True)
            plan.run()
        except DiskError as error:
            self._failure = error
            raise
        store.flushed(plan)

    def rewrite_whole(self) -> None:
        """`recover_files` of a log of which nothing is lost; in any thread.

        Raises:
            DiskError: the disk still refuses, or has dropped something that other nodes have.
        """
        if not self._is_unsynced_whole():
            raise DiskError(
                f"{self.folder}: the disk has dropped records that other nodes have: it stays as "
                "it is until one of them can lead"
            )
        self.recover_files()

    def _is_unsynced_whole(self) -> bool:
        """Whether everything past what is certainly on the disk can still be read; reads it."""
        store = self._store
        for segment in store.unsynced:
            end = max(segment.base_offset, self.flushed_offset)
            position = segment.synced_bytes
            for item in segment.walk(store.context, position=position, start_offset=end):
                if not isinstance(item, IntactBatch):
                    return False
                end = item.info.next_offset
            if end < segment.end_offset:
                return False
        return True

    def recover_files(self) -> None:
        """Make the files of a failed log whole; in any thread, since nobody else changes them.

        Raises:
            DiskError: the disk still refuses.
        """
        store = self._store
        try:
            store.rewrite_unsynced()
            store.load(given_to=self.end_offset)
            plan = store.plan_flush(checkpoint=True)
            plan.run()
        except DiskError as error:
            self._failure = error
            raise
        store.flushed(plan)

    def _find_cut(self, end_offset: int) -> Cut:
        return lookup.find_cut(self.segments, end_offset, self.start_offset, self._store.context)

    def _cut(self, cut: Cut) -> None:
        store = self._store
        try:
            remove_snapshots(store.disk, self.folder, cut.end_offset)
            store.cut(cut)
            store.load()
            if self.damaged:
                self.damaged = [each for each in self.damaged if each < self.end_offset]
                mark(store.disk, self.folder, is_damaged=bool(self.damaged))
        except DiskError as error:
            self._fail(error)
            raise

    # --- Patching ---------------------------------------------------------------------------------

    def damaged_stretch(self, offset: int) -> DamagedStretch | None:
        """The damage that covers an offset, if intact batches follow it; in any thread."""
        return find_stretch(self.segments, offset, self._store.context)

    def patch(self, stretch: DamagedStretch, batches: Bytes) -> None:
        """Put another replica's batches where this one's are damaged; in any thread.

        Raises:
            BatchError: they are not those that were there.
            DiskError: the disk refused.
        """
        patch(self._store.disk, stretch, batches, self.epochs)

    def settle_damage(self) -> None:
        """Note, durably, what is still damaged after patches; in any thread.

        Snapshots that were made over the damage know less than the log: they go.
        """
        store = self._store
        first = min(self.damaged, default=self.end_offset)
        context = store.context
        self.damaged = [each for each in self.damaged if find_stretch(self.segments, each, context)]
        remove_snapshots(store.disk, self.folder, first)
        mark(store.disk, self.folder, is_damaged=bool(self.damaged))

    def keep_damage(self) -> None:
        """Let what is damaged be, as the only copy of a log does; durable, in any thread."""
        self.damaged = ()
        mark(self._store.disk, self.folder, is_damaged=False)

    # --- Recovering ------------------------------------------------------------------------------

    def _cut_damage(self) -> None:
        """Cut at the first hole that recovery has found, and say so in its report.

        Before a checkpoint vouches for what lies behind: a crash meanwhile must not hide it.
        Damage with intact batches behind it stays, marked, until it is known who has what was
        there: another replica may lack what lies behind.
        """
        store, found = self._store, self.recovery
        known = found.damage
        if _first_lost(found, store.checkpoint.recovery_point) is not None or found.was_damaged:
            store.shared.on_loss(self.folder)
        lost = _first_cut(found, store.checkpoint.recovery_point)
        while lost is not None:
            self._cut(self._find_cut(lost))
            found = replace(
                found, lost_from=self.end_offset, has_snapshots=self.recovery.has_snapshots
            )
            lost = _first_cut(self.recovery, store.checkpoint.recovery_point)
        if found.was_damaged:
            known = [*known, *find_damage(self.segments, store.context)]
        self.damaged = [each for each in patchable(known) if each < self.end_offset]
        if self.damaged or found.was_damaged:
            mark(store.disk, self.folder, is_damaged=bool(self.damaged))
        if self.damaged:
            found = replace(found, lost_from=self.damaged[0])
        store.report = found
        if found.has_snapshots:
            remove_snapshots(store.disk, self.folder, min([self.end_offset, *self.damaged]))


def _first_lost(report: RecoveryReport, recovery_point: int) -> int | None:
    """The lowest offset at which something is damaged or missing; None when nothing is."""
    lost = [each.first_offset for each in report.damage]
    if report.missing_below_checkpoint:
        lost.append(recovery_point - report.missing_below_checkpoint)
    return min(lost, default=None)


def _first_cut(report: RecoveryReport, recovery_point: int) -> int | None:
    """The lowest offset from which nothing can be put in place; None when there is none."""
    kept = [each for each in report.damage if not is_patchable(each)]
    return _first_lost(replace(report, damage=kept), recovery_point)
