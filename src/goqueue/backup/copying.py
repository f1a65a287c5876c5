"""Copying captured partitions into a repository: only what is not there yet, in threads."""

from __future__ import annotations

import struct
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Self

from goqueue.backup.manifest import Part, PartitionCopy
from goqueue.backup.repository import JournalEntry, part_name
from goqueue.backup.reuse import reusable
from goqueue.model.errors import BackupError, DamagedRangeError, DiskError
from goqueue.records.batch import LENGTH_PREFIX_BYTES, peek_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from goqueue.backup.capture import CapturedPartition
    from goqueue.backup.repository import Repository
    from goqueue.backup.reuse import KnownParts
    from goqueue.storage.lookup import LogView

PART_BYTES: Final = 32 * 1024 * 1024
"""Of the log, in one file of a backup; a larger batch makes a larger file."""
_CHUNK_BYTES: Final = 2 * 1024 * 1024
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_THREADS: Final = 2
_JOURNAL_BYTES: Final = 128 * 1024 * 1024
"""What one thread copies until it is noted."""
_MAX_UNNOTED: Final = 4
"""Notes that wait for the disk; with one more the thread that copies waits, too. So much, and what
each thread has not noted, may be copied anew after a crash."""


class CopyProgress:
    """How far a copy is, how fast it may be, and whether it is to stop; for any thread."""

    def __init__(self, rate_bytes: int | None, monotonic_s: Callable[[], float]) -> None:
        self.done_bytes = 0
        self.copied_bytes = 0
        self._rate = rate_bytes
        self._now_s = monotonic_s
        self._began_s = monotonic_s()
        self._paced_bytes = 0
        self._lock = threading.Lock()
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Let every thread stop at its next step."""
        self._cancelled.set()

    def skip(self, size_bytes: int) -> None:
        """So much need not be copied."""
        with self._lock:
            self.done_bytes += size_bytes

    def copied(self, size_bytes: int) -> None:
        """So much was copied: wait if that was too fast.

        Raises:
            BackupError: it was cancelled.
        """
        with self._lock:
            self.done_bytes += size_bytes
            self.copied_bytes += size_bytes
            self._paced_bytes += size_bytes
            ahead_s = 0.0
            if self._rate:
                ahead_s = self._paced_bytes / self._rate - (self._now_s() - self._began_s)
        if self._cancelled.wait(max(ahead_s, 0.0)) or self._cancelled.is_set():
            raise BackupError("it was cancelled")


class Copier:
    """Copies the partitions of one node."""

    def __init__(
        self,
        repository: Repository,
        backup_id: str,
        node: str,
        known: KnownParts,
        progress: CopyProgress,
    ) -> None:
        self._repository = repository
        self._backup_id = backup_id
        self._node = node
        self._known = known
        self._progress = progress
        self._notes = _Notes(repository, backup_id, node)

    def run(
        self, taken: Sequence[CapturedPartition]
    ) -> list[tuple[CapturedPartition, PartitionCopy]]:
        """Copy everything, the largest partitions first; waits for it.

        Raises:
            GoQueueError: something could not be read or written; what was copied is noted.
        """
        waiting = deque(sorted(taken, key=lambda each: each.view.size_bytes, reverse=True))
        done: list[tuple[CapturedPartition, PartitionCopy]] = []

        def work() -> None:
            entries: list[JournalEntry] = []
            try:
                while waiting:
                    try:
                        each = waiting.popleft()
                    except IndexError:
                        break
                    done.append((each, self._copy(each, entries)))
            except BaseException:
                waiting.clear()
                raise
            finally:
                self._notes.add(entries)

        with self._notes, ThreadPoolExecutor(_THREADS, thread_name_prefix="backup") as pool:
            for future in [pool.submit(work) for _ in range(_THREADS)]:
                future.result()
        return done

    def _copy(self, each: CapturedPartition, entries: list[JournalEntry]) -> PartitionCopy:
        topic, number, view = each
        topic_id, is_compacted = topic.topic_id.hex, topic.settings.compacts
        known = self._known.of((topic_id, number, is_compacted))
        parts = reusable(view, known, is_compacted=is_compacted) if known else []
        self._progress.skip(sum(part.log_bytes for part in parts))
        reused = {part.first_offset: part for part in parts}
        copied: list[Part] = []
        damaged: list[tuple[int, int]] = []
        offset = view.start_offset
        if parts and not is_compacted:
            offset, copied = parts[-1].end_offset, list(parts)
        while offset < view.end_offset:
            if is_compacted and offset in reused:
                copied.append(reused[offset])
                offset = reused[offset].end_offset
                continue
            try:
                part = self._copy_part(each, offset)
            except DamagedRangeError as error:
                damaged.append((offset, min(error.resume_at, view.end_offset)))
                offset = error.resume_at
                continue
            except DiskError:
                if (gone_to := _after_removed(view, offset)) is None:
                    raise
                offset = gone_to  # retention was faster
                copied.clear()
                continue
            if part is None:
                break
            copied.append(part)
            entries.append(JournalEntry(topic_id, number, is_compacted, part))
            offset = part.end_offset
            if sum(entry.part.log_bytes for entry in entries) >= _JOURNAL_BYTES:
                self._notes.add(entries)
        start = max(view.start_offset, copied[0].first_offset) if copied else view.end_offset
        if not copied and not damaged and view.start_offset == view.end_offset:
            start = view.start_offset
        return PartitionCopy(number, start, view.end_offset, tuple(copied), tuple(damaged))

    def _copy_part(self, each: CapturedPartition, offset: int) -> Part | None:
        """Copy batches from an offset on, of one segment; None when there are none.

        Raises:
            DamagedRangeError: those at the offset are damaged.
        """
        topic, number, view = each
        reader = _PartReader(view, offset)
        first = reader.first()
        if first is None:
            return None
        name = part_name(topic.topic_id.hex, number, offset, self._backup_id)

        def pieces() -> Iterator[bytes | bytearray]:
            data: bytes | bytearray | None = first
            while data is not None:
                yield data
                self._progress.copied(len(data))
                data = reader.following()

        file = self._repository.write(name, pieces(), is_synced=False)
        return Part(
            file,
            offset,
            reader.offset,
            reader.size_bytes,
            reader.segment,
            reader.last_base_offset,
            reader.last_position,
            reader.last_crc,
        )


class _Notes:
    """Makes what was copied durable, in a thread of its own: copying goes on while the disk writes.

    Whoever goes on after a crash need not copy again what is noted.
    """

    def __init__(self, repository: Repository, backup_id: str, node: str) -> None:
        self._repository = repository
        self._backup_id = backup_id
        self._node = node
        self._count = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="backup-notes")
        self._noting: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Wait until everything is noted. Raises what the repository has raised."""
        with self._pool:
            for each in self._noting:
                each.result()

    def add(self, entries: list[JournalEntry]) -> None:
        """Note these parts and forget them here; waits where too much is not on the disk.

        Raises:
            BackupError: the repository refuses these, or those before.
        """
        if not entries:
            return
        noted = entries.copy()
        entries.clear()
        with self._lock:
            self._count += 1
            number = self._count
            self._noting.append(self._pool.submit(self._note, number, noted))
            oldest = self._noting.popleft() if len(self._noting) > _MAX_UNNOTED else None
        if oldest is not None:
            oldest.result()

    def _note(self, number: int, entries: list[JournalEntry]) -> None:
        self._repository.note(self._backup_id, self._node, number, entries)


class _PartReader:
    """Reads whole batches of one segment, as many as a part may have."""

    def __init__(self, view: LogView, offset: int) -> None:
        self._view = view
        self.offset = offset
        self.size_bytes = 0
        self.segment = 0
        self.last_base_offset = self.last_position = self.last_crc = 0
        self._file: object = None

    def first(self) -> bytes | bytearray | None:
        """The first chunk. Raises `DamagedRangeError`."""
        return self._load()

    def following(self) -> bytes | bytearray | None:
        """The next one; None when the part ends: it is large enough, or damage or the end comes."""
        if self.size_bytes >= PART_BYTES or self.offset >= self._view.end_offset:
            return None
        try:
            return self._load()
        except (DamagedRangeError, DiskError):
            return None  # the next part begins with it, and tells

    def _load(self) -> bytes | bytearray | None:
        region = self._view.read(self.offset, _CHUNK_BYTES)
        if region is None:
            return None
        if self._file is None:
            self._file = region.file
            segment = self._view.segment_of(self.offset)
            self.segment = 0 if segment is None else segment.base_offset
        elif region.file is not self._file and region.position == 0:
            return None
        chunk = region.load()
        last = _last_batch(chunk.data)
        info = peek_header(chunk.data, last)
        self.last_base_offset, self.last_crc = info.base_offset, info.crc
        self.last_position = region.position + last
        self.size_bytes += len(chunk.data)
        self.offset = chunk.next_offset
        return chunk.data


def _last_batch(data: bytes | bytearray) -> int:
    """Where the last of whole batches begins, by their lengths alone."""
    last = position = 0
    while position < len(data):
        last = position
        position += LENGTH_PREFIX_BYTES + _LENGTH.unpack_from(data, position + _LENGTH_AT)[0]
    return last


def _after_removed(view: LogView, offset: int) -> int | None:
    """Where the first segment after an offset begins that is still there; None if nothing went."""
    for segment in view.segments.since(offset):
        try:
            segment.file.size()
        except DiskError:
            continue
        return segment.base_offset if segment.base_offset > offset else None
    return view.end_offset
