"""The log of one partition: append batches, read them by offset or by time, for ever in order.

One writer: everything that changes the log is called from one thread. Reads may be planned and
loaded from any thread while the writer runs; they look at an immutable list of segments and at
bytes that were complete before their size was told.

Durability: `append` puts bytes into the operating system's cache, where they outlive this process.
A flush puts them on the disk, where they outlive the machine. Which of the two a publisher waits
for is the policy in `goqueue.storage.flushing.flusher`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from goqueue.model.errors import (
    DamagedRangeError,
    DiskError,
    DiskFullError,
    LogClosedError,
    LogFailedError,
    MalformedBatchError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.records.batch import (
    LENGTH_PREFIX_BYTES,
    PLACE,
    BatchInfo,
    peek,
    stamp,
    validate,
)
from goqueue.runtime.clock import Clock, SystemClock
from goqueue.storage import lookup
from goqueue.storage.config import LogConfig
from goqueue.storage.open_files import SharedFiles
from goqueue.storage.store import SegmentStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from goqueue.runtime.disk import Bytes, Disk
    from goqueue.storage.checkpoints.checkpoint import LogSummary
    from goqueue.storage.epochs import LeaderEpochs
    from goqueue.storage.flushing.plan import FlushPlan
    from goqueue.storage.lookup import LogView
    from goqueue.storage.recovery import RecoveryReport
    from goqueue.storage.region import Chunk, Region
    from goqueue.storage.segments import Segments
    from goqueue.storage.stats import StoreStats


def _nobody() -> None:
    """Tell nobody."""


class Appended(NamedTuple):
    """Where an append went: offsets from `first_offset` up to, not including, `end_offset`."""

    first_offset: int
    end_offset: int


class AppendLog:
    """The part of a log that every produced and every fetched batch passes.

    Watermarks, each only ever moving forward (`truncate_to` on a follower excepted):

    - `start_offset`: the first readable record; moved by retention and record deletion.
    - `flushed_offset`: everything below is on the disk; moved by a finished flush.
    - `end_offset`: the next offset to be given; moved by an append, after its bytes are written.

    `start_offset <= end_offset` and `flushed_offset <= end_offset` always hold.
    """

    def __init__(
        self,
        folder: Path,
        config: LogConfig | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        shared: SharedFiles | None = None,
        summary: LogSummary | None = None,
        is_replica: bool = False,
    ) -> None:
        """Open the log in `folder`, recovering it first; `recovery` tells what that took.

        Args:
            folder: Where its files are; it is made with the first append.
            config: How the log is kept.
            disk: For a log that shares nothing with others; the machine's if left out.
            clock: What says how old segments are.
            shared: What the logs of this process share, with the disk in it.
            summary: What an earlier process knew of the log, if that was kept elsewhere.
            is_replica: Other nodes hold the same log: what is damaged or missing is cut off here,
                with everything behind it, to be fetched from them.
        """
        self.config = config or LogConfig()
        self._clock = clock or SystemClock()
        self._failure: DiskError | None = None
        self._closed = False
        self._known_epochs: LeaderEpochs | None = None
        self._latest_epoch = -1
        self.on_failure: Callable[[], None] = _nobody
        """Called when a write or a sync fails, and the log refuses appends from then on."""
        shared = shared or SharedFiles(disk)
        self._store = SegmentStore(folder, self.config, shared, self._clock, summary)
        self.is_replica = is_replica
        if is_replica:
            self._cut_damage()
        if not self.recovery.clean or self._store.needs_checkpoint:
            with suppress(DiskFullError):  # then it is failed: it can be read and trimmed
                self.flush(checkpoint=True)

    # --- What there is ---------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where the log's files are."""
        return self._store.folder

    @property
    def start_offset(self) -> int:
        """The first readable record."""
        return self._store.checkpoint.log_start

    @property
    def gaps_below(self) -> int:
        """Compaction may have removed batches that end below."""
        return self._store.checkpoint.gaps_below

    @property
    def flushed_offset(self) -> int:
        """Everything below is on the disk."""
        return self._store.flushed_offset

    @property
    def end_offset(self) -> int:
        """The next offset to be given."""
        return self._store.end_offset

    @property
    def size_bytes(self) -> int:
        """All readable bytes."""
        return self._store.segments.size_bytes

    @property
    def store(self) -> SegmentStore:
        """The files; for compaction and for maintenance."""
        return self._store

    @property
    def segments(self) -> Segments:
        """The segments as they are now."""
        return self._store.segments

    @property
    def epochs(self) -> LeaderEpochs:
        """Which leader wrote which offsets."""
        return self._store.epochs

    @property
    def recovery(self) -> RecoveryReport:
        """What the last recovery found and did."""
        return self._store.report

    @property
    def opened_from(self) -> LogSummary | None:
        """The summary that spared the last recovery some work, if there was one."""
        return self._store.opened_from

    @property
    def stats(self) -> StoreStats:
        """What has happened since the log was opened."""
        return self._store.stats

    @property
    def failure(self) -> DiskError | None:
        """Why the log refuses appends, if it does."""
        return self._failure

    def configure(self, config: LogConfig) -> None:
        """Follow other settings from now on; segments keep the size they were made with."""
        self.config = config
        self._store.config = config

    # --- Appending -------------------------------------------------------------------------------

    def append(self, batches: Bytes, leader_epoch: int = 0, *, checked: bool = False) -> Appended:
        """Give whole batches their offsets and write them, all or none.

        A writable buffer is stamped in place, any other is copied first. The batches are in the
        operating system's cache when this returns: readers see them, and a killed process does not
        take them along. Nothing is on the disk yet. With `checked`, the caller has validated the
        checksums already.

        Raises:
            BatchError: a batch is damaged or malformed; nothing was written.
            LogFailedError: an earlier write failed; `recover` first.
            DiskError: the write failed; nothing was appended, and the log is failed from now on.
        """
        if self._closed or self._failure is not None:
            self._ensure_writable()
        data = memoryview(batches)
        if data.readonly:
            data = memoryview(bytearray(batches))
        infos: list[BatchInfo] = []
        position, next_offset = 0, self._store.end_offset
        while position < len(data):
            info = peek(data, position)
            if not checked:
                validate(data, position, info)
            stamp(data, position, next_offset, leader_epoch)
            # `_replace` says the same and takes three times as long, in the hottest loop there is
            infos.append(BatchInfo(next_offset, info.length, leader_epoch, *info[3:]))
            position += info.length + LENGTH_PREFIX_BYTES
            next_offset += info.last_offset_delta + 1
        return self._write(data, infos)

    def append_batch(self, batch: Bytes, info: BatchInfo, leader_epoch: int) -> int:
        """`append` for one batch whose header is known and whose checksum is right.

        Returns the offset that it was given.
        """
        if self._closed or self._failure is not None:
            self._ensure_writable()
        data = batch if isinstance(batch, memoryview) else memoryview(batch)
        if data.readonly:
            data = memoryview(bytearray(batch))
        store, size_bytes, length = self._store, len(data), info.length
        if size_bytes != length + LENGTH_PREFIX_BYTES:
            raise MalformedBatchError(f"a batch of {info.size_bytes} bytes in {size_bytes}")
        offset = store.end_offset
        PLACE.pack_into(data, 0, offset, length, leader_epoch)
        try:
            if leader_epoch != self._latest_epoch or store.epochs is not self._known_epochs:
                self._note_epoch(leader_epoch, offset)
            segment = store.growing(size_bytes)
            segment.write(data)
            segment.publish(info, offset, size_bytes)
        except DiskError as error:
            self._fail(error)
            raise
        store.end_offset = segment.end_offset
        store.stats.bytes_written += size_bytes
        return offset

    def _write(self, data: Bytes, infos: list[BatchInfo], *, noted: bool = False) -> Appended:
        """Store batches with their offsets; with `noted`, their epochs are noted already."""
        if not infos:
            raise MalformedBatchError("an append needs at least one batch")
        store = self._store
        try:
            if not noted:
                for info in infos:
                    self._note_epoch(info.leader_epoch, info.base_offset)
            segment = store.growing(len(data))
            segment.write(data)
            for info in infos:
                segment.publish(info, info.base_offset, info.size_bytes)
            store.end_offset = infos[-1].next_offset
            store.stats.bytes_written += len(data)
        except DiskError as error:
            self._fail(error)
            raise
        return Appended(infos[0].base_offset, infos[-1].next_offset)

    def _note_epoch(self, epoch: int, offset: int) -> None:
        """Note a new leader's epoch before the first batch that carries it."""
        store = self._store
        if store.epochs is not self._known_epochs:
            self._known_epochs, self._latest_epoch = store.epochs, store.epochs.latest
        if epoch != self._latest_epoch:
            store.note_epoch(epoch, offset)
            self._known_epochs, self._latest_epoch = store.epochs, store.epochs.latest

    # --- Making durable --------------------------------------------------------------------------

    @property
    def checkpoint_due(self) -> bool:
        """Recovery would scan too much: a segment was sealed since the last checkpoint."""
        return self._store.checkpoint_due

    def flush(self, *, checkpoint: bool = False) -> None:
        """Put everything appended so far on the disk, here and now."""
        plan = self.plan_flush(checkpoint=checkpoint)
        try:
            plan.run()
        except DiskError as error:
            self.flush_failed(error)
            raise
        self.flushed(plan)

    def plan_flush(self, *, checkpoint: bool = False) -> FlushPlan:
        """What `flush` would do, for a caller that runs it in a thread.

        Raises:
            LogFailedError: an earlier flush failed. Syncing again would succeed, and prove nothing:
                the kernel may have given up what it could not store.
        """
        self._ensure_writable()
        return self._store.plan_flush(checkpoint=checkpoint)

    def flushed(self, plan: FlushPlan) -> None:
        """Note that `plan` has run: what it covers is on the disk."""
        self._store.flushed(plan)

    def flush_failed(self, error: DiskError) -> None:
        """Note that a plan could not be run: what it covers may not be on the disk."""
        self._fail(error)

    # --- Reading ---------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, until: int | None = None) -> Region | None:
        """The stretch of batches that begins with the one holding `offset`; None at the end.

        An offset below the start of the log reads from the start. At least one whole batch is
        found, also when it is larger than `max_bytes`. Batches that reach `until` are left out.

        Raises:
            DamagedRangeError: the records at `offset` are damaged; it says where to go on.
        """
        self._ensure_open()
        self.stats.offset_lookups += 1
        end = self.end_offset if until is None else min(until, self.end_offset)
        first = max(offset, self.start_offset)
        return lookup.find_region(self.segments, first, end, max_bytes, self._store.context)

    def chunks(
        self,
        start: int,
        on_damage: Callable[[DamagedRangeError], None] | None = None,
        max_bytes: int = 1024 * 1024,
    ) -> Iterator[Chunk]:
        """Everything from `start` to the end of the log as it is now.

        Damage is left out, and `on_damage` told of it.
        """
        offset, end = start, self.end_offset
        while offset < end:
            try:
                region = self.read(offset, max_bytes, until=end)
                if region is None:
                    return
                chunk = region.load()
            except DamagedRangeError as error:
                if on_damage is not None:
                    on_damage(error)
                offset = error.resume_at
                continue
            yield chunk
            offset = chunk.next_offset

    def view(self, end_offset: int, *, holds_files: bool) -> LogView:
        """The log as it is now, up to an offset, to be copied from any thread."""
        self._ensure_open()
        return lookup.LogView(
            self.segments,
            self.start_offset,
            min(end_offset, self.end_offset),
            self._store.context,
            holds_files=holds_files,
        )

    # --- Failing ---------------------------------------------------------------------------------

    def _cut_damage(self) -> None:
        """Keep no hole in a log that other nodes hold too; see `ReplicaLog`."""

    def _fail(self, error: DiskError) -> None:
        """Refuse appends from now on: a write after a failed one could leave a hole."""
        if self._failure is None:
            self._failure = error
            self.on_failure()

    def _ensure_open(self) -> None:
        if self._closed:
            raise LogClosedError(f"the log in {self.folder} is closed: open it again")

    def _ensure_writable(self) -> None:
        self._ensure_open()
        if self._failure is not None:
            raise LogFailedError(
                f"the log in {self.folder} refuses appends until it has recovered: {self._failure}"
            ) from self._failure
