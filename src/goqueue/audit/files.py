"""The files of an audit log: `audit-NNN.log`, named after their first lines, and `audit.head`.

Lines are appended to the newest file. When that is large enough, the next line begins another, and
the oldest beyond those that are kept are deleted; the chain of hashes goes on over both. The head
holds the number and the hash of the last line that was synced: it shows when the last lines of a
log are missing, which the chain alone cannot.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.audit.chain import Link, decode_line
from goqueue.audit.limits import MAX_LINE_BYTES
from goqueue.runtime.disk import read_file

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.audit.settings import FileLimits
    from goqueue.runtime.disk import Disk, DiskFile

HEAD_FILE: Final = "audit.head"
_NAME: Final = re.compile(r"audit-([0-9]{12})\.log")
_HEAD: Final = re.compile(r"([0-9]{20}) ([0-9a-f]{64})\n")


class Opened(msgspec.Struct, frozen=True):
    """What a start has found."""

    end: Link
    """What the next line continues."""
    torn_bytes: int = 0
    """Of a last line that a crash has cut short; they were removed."""
    missing_lines: int = 0
    """Lines that were synced and are not there any more."""


def log_names(names: list[str]) -> list[str]:
    """Those that are files of an audit log, the oldest first."""
    return sorted(name for name in names if _NAME.fullmatch(name))


def parse_head(data: bytes) -> Link | None:
    """What a head says; None if it is damaged."""
    match = _HEAD.fullmatch(data.decode("ascii", errors="replace"))
    return None if match is None else Link(int(match[1]), match[2])


class AuditFiles:
    """Lines in, in order; used by one thread at a time."""

    def __init__(self, disk: Disk, folder: Path, limits: FileLimits) -> None:
        self._disk = disk
        self._folder = folder
        self._limits = limits
        self._file: DiskFile | None = None
        self._size = 0
        self._head: DiskFile | None = None

    def open(self) -> Opened:
        """Find the end of the log, and cut off a line that a crash has torn.

        Raises:
            DiskError: the folder cannot be made, read or written.
        """
        self._disk.make_folder(self._folder)
        path = self._folder / HEAD_FILE
        self._head = self._disk.open(path, create=True)
        head = parse_head(self._head.read(0, 100))
        end, torn_bytes = self._last_line(head)
        missing = 0 if head is None else max(0, head.sequence - end.sequence)
        if missing and head is not None:
            end = head  # the next line says which number it has: the gap shows
        return Opened(end, torn_bytes, missing)

    def _last_line(self, head: Link | None) -> tuple[Link, int]:
        torn_bytes = 0
        for name in reversed(log_names(self._disk.names(self._folder))):
            file = self._disk.open(self._folder / name)
            size = file.size()
            tail = file.read(max(0, size - MAX_LINE_BYTES), MAX_LINE_BYTES)
            whole = tail.rfind(b"\n") + 1
            if whole < len(tail):
                torn_bytes += len(tail) - whole
                size -= len(tail) - whole
                file.truncate(size)
            if whole == 0:
                file.close()
                continue
            self._file, self._size = file, size
            line = decode_line(tail[:whole].rstrip(b"\n").rpartition(b"\n")[2])
            if line is not None:
                return line.link, torn_bytes
            # Somebody else wrote it. What follows shows the break, whatever it continues.
            return head or Link.start(), torn_bytes
        return Link.start(), torn_bytes

    @property
    def is_full(self) -> bool:
        """Whether the next line begins another file."""
        return self._file is None or self._size >= self._limits.file_bytes

    def roll(self, first_sequence: int) -> int | None:
        """Begin another file with that line; returns the first line that is kept, if it changed."""
        path = self._folder / f"audit-{first_sequence:012}.log"
        before, self._file = self._file, self._disk.open(path, create=True)
        self._size = 0
        if before is not None:
            before.close()
        self._disk.sync_folder(self._folder)
        names = log_names(self._disk.names(self._folder))
        surplus = names[: -self._limits.kept_files]
        for name in surplus:
            self._disk.remove(self._folder / name)
        if not surplus:
            return None
        match = _NAME.fullmatch(names[len(surplus)])
        assert match is not None
        return int(match[1])

    def append(self, lines: bytes, end: Link) -> None:
        """Store lines; they are on the disk when this returns. One that failed may be repeated.

        Raises:
            DiskError: they are not.
        """
        assert self._file is not None
        assert self._head is not None
        self._file.write(self._size, lines)
        self._file.sync()
        self._size += len(lines)
        self._head.write(0, f"{end.sequence:020} {end.hash}\n".encode())

    def close(self) -> None:
        """Let go of the files."""
        for file in (self._file, self._head):
            if file is not None:
                file.close()
        self._file = self._head = None


def read_head(disk: Disk, folder: Path) -> Link | None:
    """The last line that was synced, as the folder has it."""
    path = folder / HEAD_FILE
    return parse_head(read_file(disk, path)) if disk.exists(path) else None
