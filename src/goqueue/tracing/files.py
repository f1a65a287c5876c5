"""Entries on the disk: lines of JSON in files that are begun anew when they are large.

`traces-{date}-{number}.json`, a line an entry. What was written last may be torn after a crash, and
a file may be damaged or not ours: what cannot be read is counted, said once for each file, and
passed over. Everything here reads and writes, and belongs into a thread.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import DiskError
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.disk import Disk, DiskFile, read_file
from goqueue.tracing.events import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


_MAX_PARTITIONS: Final = 1000
"""Of one file. A file with more of them is searched each time."""


class Where(msgspec.Struct, frozen=True, gc=False):
    """As much of an entry as tells which messages it is about."""

    topic: str = ""
    partition: int = -1
    offset: int = -1
    count: int = 1
    place: str = ""
    trace: str = ""

    def holds(self, offset: int) -> bool:
        """Whether it is about the message at an offset."""
        return self.offset <= offset < self.offset + self.count


_WHERE_DECODER: Final = msgspec.json.Decoder(Where)


def where_of(line: bytes) -> Where | None:
    """What a line is about; None when it is no entry."""
    try:
        return _WHERE_DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class Partition(NamedTuple):
    """A partition, as lines name it."""

    topic: str
    number: int


class FileRanges:
    """Which offsets the lines of one file are about, by partition and by place; it only grows.

    Events of neighbouring messages are written at about the same time: a file holds a narrow range
    of the offsets of each partition, so a search opens few of the files. The ranges are found by
    reading a file once; of the file that is being written, only what was added since is read.
    """

    __slots__ = ("_ranges", "_read_to", "_size")

    def __init__(self) -> None:
        self._ranges: dict[Partition | str, tuple[int, int]] | None = {}
        """From the lowest offset to behind the highest; None when there are too many."""
        self._read_to = 0
        """The end of the last whole line that was read."""
        self._size = 0

    def read(self, data: bytes) -> None:
        """Learn what was added to a file since it was read last."""
        if len(data) < self._size:  # another file under the same name
            self._ranges, self._read_to = {}, 0
        self._size = len(data)
        end = data.rfind(b"\n") + 1
        if self._ranges is None or end <= self._read_to:
            return
        for line in data[self._read_to : end].splitlines():
            where = where_of(line)
            if where is not None and where.offset >= 0:
                self._add(where)
        self._read_to = end
        if len(self._ranges) > 2 * _MAX_PARTITIONS:
            self._ranges = None

    def _add(self, where: Where) -> None:
        assert self._ranges is not None
        first, end = where.offset, where.offset + where.count
        for key in (where.place, Partition(where.topic, where.partition)):
            known = self._ranges.get(key)
            if known is None:
                self._ranges[key] = (first, end)
            elif first < known[0] or end > known[1]:
                self._ranges[key] = (min(first, known[0]), max(end, known[1]))

    def may_hold(self, key: Partition | str, offset: int) -> bool:
        """Whether the file may have lines about a message."""
        if self._ranges is None:
            return True
        first, end = self._ranges.get(key, (0, 0))
        return first <= offset < end


logger = logging.getLogger(__name__)

FILE_BYTES: Final = 10 * 1024 * 1024
KEPT_FILES: Final = 10
"""Of more, the oldest are removed: 100 MB with files of the usual size."""
KEPT_DAYS: Final = 7

_NAME: Final = re.compile(r"traces-(\d{4}-\d{2}-\d{2})-(\d{6})\.json", re.ASCII)
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Entry)
_MAX_NUMBER: Final = 999_999


class FileLimits(msgspec.Struct, frozen=True):
    """How much is kept."""

    file_bytes: int = FILE_BYTES
    kept_files: int = KEPT_FILES
    kept_days: int = KEPT_DAYS


class Search(NamedTuple):
    """Which lines are looked for."""

    needle: bytes
    """Every such line holds it."""
    is_wanted: Callable[[Where], bool]
    key: Partition | str = ""
    offset: int = -1
    """Every such line is about this message of that partition or place, if there is a key."""


class TraceFiles:
    """The files of one folder. One writer; readers may be others."""

    def __init__(self, disk: Disk, folder: Path, limits: FileLimits | None = None) -> None:
        self._disk = disk
        self._folder = folder
        self._limits = limits or FileLimits()
        self._most_read = 4 * max(self._limits.file_bytes, FILE_BYTES)
        """Of one file, which may be anything; ours are larger by what was written last."""
        self._file: DiskFile | None = None
        self._size = 0
        self._day = ""
        self._reported: set[str] = set()
        """Names of files of which it was said that they are damaged; no more than are kept."""
        self._ranges: dict[str, FileRanges] = {}
        self.damaged_lines = 0
        self.written_bytes = 0
        """Since the start."""

    def names(self) -> list[str]:
        """The files that there are, the oldest first."""
        return sorted(name for name in self._disk.names(self._folder) if _NAME.fullmatch(name))

    # --- Writing ---------------------------------------------------------------------------------

    def write(self, entries: Sequence[Entry], now_ms: int) -> None:
        """Append entries; a full file, or one of another day, is followed by a new one.

        Raises:
            DiskError: the disk refused.
        """
        day = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d")
        if self._file is None or day != self._day or self._size >= self._limits.file_bytes:
            self._begin(day)
        assert self._file is not None
        lines = _ENCODER.encode_lines(entries)
        try:
            self._file.write(self._size, lines)
        except DiskError:
            self._cut_off()
            raise
        self._size += len(lines)
        self.written_bytes += len(lines)

    def _cut_off(self) -> None:
        """Take back what is half there; where that cannot be done either, it is torn."""
        assert self._file is not None
        with suppress(DiskError):
            self._file.truncate(self._size)
        self.close()

    def _begin(self, day: str) -> None:
        """Go on in the last file of a day, if it has room and can be opened, or in a new one.

        Neither a restart nor a disk that refuses may use up files: the oldest go for new ones.
        """
        self.close()
        self._disk.make_folder(self._folder)
        numbers = [int(found[2]) for name in self.names() if (found := _match(name))[1] == day]
        last = max(numbers, default=0)
        file = self._opened(day, last) if last else None
        if file is None:
            number = min(last + 1, _MAX_NUMBER)
            file = self._disk.open(self._path(day, number), create=True)
        self._file, self._size, self._day = file, file.size(), day
        self._remove_old(day, file.path.name)

    def _opened(self, day: str, number: int) -> DiskFile | None:
        """A file that is there, at the end of a line; None when nothing can be added to it."""
        try:
            file = self._disk.open(self._path(day, number))
        except DiskError:
            return None
        size = file.size()
        if size >= self._limits.file_bytes:
            file.close()
            return None
        try:
            if size and file.read(size - 1, 1) != b"\n":
                file.write(size, b"\n")
        except DiskError:
            file.close()
            raise
        return file

    def _path(self, day: str, number: int) -> Path:
        return self._folder / f"traces-{day}-{number:06d}.json"

    def _remove_old(self, day: str, current: str) -> None:
        oldest = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(self._limits.kept_days)
        others = [name for name in self.names() if name != current]
        too_many = max(len(others) + 1 - self._limits.kept_files, 0)
        for at, name in enumerate(others):
            if at < too_many or _match(name)[1] < oldest.strftime("%Y-%m-%d"):
                self._disk.remove(self._folder / name)

    def close(self) -> None:
        """Let go of the file that is written to."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- Reading ---------------------------------------------------------------------------------

    def newest(self, limit: int) -> list[Entry]:
        """The newest entries, the oldest first."""
        found: list[Entry] = []
        for name in reversed(self.names()):
            found = [*self._entries(name, self._load(name).splitlines()), *found]
            if len(found) >= limit:
                break
        return found[-limit:] if limit else []

    def find(self, *searches: Search) -> Iterator[list[Entry]]:
        """Entries that one of the searches wants, a file at a time, the oldest first.

        There may be a million others, of which few are decoded.
        """
        names = self.names()
        self._ranges = {name: self._ranges.get(name, FileRanges()) for name in names}
        for name in names:
            data, ranges = self._load(name), self._ranges[name]
            ranges.read(data)
            chosen = [
                search
                for search in searches
                if (not search.key or ranges.may_hold(search.key, search.offset))
                and search.needle in data
            ]
            if chosen:
                lines = [line for line in data.splitlines() if _is_wanted(line, chosen)]
                yield self._entries(name, lines)

    def _load(self, name: str) -> bytes:
        try:
            return read_file(self._disk, self._folder / name, self._most_read)
        except DiskError as error:
            logger.warning("traces are missing: %s", error)
            return b""

    def _entries(self, name: str, lines: list[bytes]) -> list[Entry]:
        entries = [entry for line in lines if (entry := _decoded(line)) is not None]
        damaged = len(lines) - len(entries)
        if damaged and name not in self._reported:
            self._reported = {*self._reported, name} & {*self.names()}
            self.damaged_lines += damaged
            path = self._folder / name
            logger.warning("%s: skipped %d lines that are not trace events", path, damaged)
        return entries


def _is_wanted(line: bytes, searches: Sequence[Search]) -> bool:
    for search in searches:
        if search.needle in line:
            where = where_of(line)
            if where is None or search.is_wanted(where):  # whoever decodes it reports the damage
                return True
    return False


def _decoded(line: bytes) -> Entry | None:
    try:
        entry = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return entry if entry.is_sound else None


def _match(name: str) -> re.Match[str]:
    found = _NAME.fullmatch(name)
    assert found is not None
    return found
