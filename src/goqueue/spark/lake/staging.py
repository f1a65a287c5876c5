"""Files that tasks have written and no driver has committed yet, and who cleans up after them.

Every attempt of a task gives its files names of their own, so that no attempt ever writes over what
another one has written, in this run of a query or the next. Each such file has an entry in the
staging folder before its first byte is written: for a Parquet table the data itself, to be moved to
its place; for the others, whose files count only once the table's log names them, a note of where
the file is. An entry that outlives its commit is a leftover.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.spark import clock
from goqueue.spark.lake.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from goqueue.spark.lake.address import LakeTable
    from goqueue.spark.writing.task_identity import Attempt

STAGED_FOLDER: Final = "staged"
STAGED_SUFFIX: Final = ".staged"
"""Nothing that looks for Parquet files by their names finds one here."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that an attempt has written, as its message tells the driver."""

    name: str
    folder: str
    """Below the table's; empty for the table's own."""
    size_bytes: int
    rows: int
    partition: dict[str, str | None]
    stats: str
    """Of its columns, as Delta's log has them."""

    @property
    def path(self) -> str:
        """Where it is to be, from the table's folder on."""
        return f"{self.folder}/{self.name}" if self.folder else self.name


def file_prefix(series: str) -> str:
    """How names of a series' files begin."""
    return f"part-{hashlib.blake2b(series.encode(), digest_size=8).hexdigest()}-"


def file_name(attempt: Attempt, sequence: int) -> str:
    """The name of an attempt's next file. The last part tells runs of a query apart."""
    return (
        f"{file_prefix(attempt.series)}{attempt.number:010d}-{attempt.task:05d}-"
        f"{attempt.attempt}-{sequence:04d}-{uuid.uuid4().hex[:12]}.parquet"
    )


def number_of(name: str) -> int:
    """The batch that a file belongs to, by its name."""
    return int(name.split("-")[2])


class Staging:
    """The staging folder of one table."""

    def __init__(self, table: LakeTable, disk: Disk | None = None) -> None:
        self._disk: Final = disk or Disk()
        self._root: Final = table.path
        self.folder: Final = table.own_folder / STAGED_FOLDER
        self.is_in_place: Final = table.format != "parquet"
        """Data is where it is to stay, and the entry a note."""

    def entry(self, name: str) -> Path:
        """The entry of a file."""
        return self.folder / f"{name}{STAGED_SUFFIX}"

    def begin(self, folder: str, name: str) -> Path:
        """Make the entry of a new file; where to write the file itself."""
        self.folder.mkdir(parents=True, exist_ok=True)
        entry = self.entry(name)
        if not self.is_in_place:
            return entry
        place = self._root / folder / name
        entry.write_text(str(place.relative_to(self._root)), "utf-8")
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def sync(self, files: Sequence[DataFile]) -> None:
        """Let files survive a loss of power, before a log names them; each was synced itself."""
        folders = {(self._root / each.path).parent for each in files if self.is_in_place}
        for folder in sorted(folders or {self.folder}):
            self._disk.sync_folder(folder)

    def settle(self, files: Sequence[DataFile]) -> None:
        """Forget the notes of files that the table's log names by now."""
        if self.is_in_place:
            for each in files:
                self._disk.remove(self.entry(each.name))

    def sweep(self, is_left: Callable[[str, Path], bool], live: Callable[[], set[str]]) -> Swept:
        """Delete what is staged and belongs to nothing any more.

        Args:
            is_left: Whether a file, by its name and entry, is a leftover unless it is live.
            live: The paths of the table's files; what is one of them is never deleted.
        """
        swept = Swept()
        found = [each for each in self._entries() if is_left(*each)]
        if not found:
            return swept
        living = live() if self.is_in_place else set()
        for _, entry in found:
            place = self._place(entry)
            if place is not None and str(place.relative_to(self._root)) not in living:
                swept.add(place)
                self._disk.remove(place)
            if entry != place:
                self._disk.remove(entry)
        return swept

    def of_series(self, series: str, up_to: int) -> Callable[[str, Path], bool]:
        """What a series has staged for a batch and those before it."""
        prefix = file_prefix(series)
        return lambda name, _: name.startswith(prefix) and number_of(name) <= up_to

    def of_names(self, names: set[str]) -> Callable[[str, Path], bool]:
        """These files."""
        return lambda name, _: name in names

    def older_than(self, seconds: float) -> Callable[[str, Path], bool]:
        """What nobody has written to for so long."""
        oldest = clock.now_ms() / 1000 - seconds

        def is_old(_: str, entry: Path) -> bool:
            place = self._place(entry)
            ages = [_modified(each) for each in (entry, place) if each is not None]
            return max(ages) < oldest

        return is_old

    def _place(self, entry: Path) -> Path | None:
        if not self.is_in_place:
            return entry
        try:
            said = entry.read_text("utf-8")
        except FileNotFoundError:
            return None
        # A note that was torn names no file, and then none was begun.
        return self._root / said if said.endswith(entry.name.removesuffix(STAGED_SUFFIX)) else None

    def _entries(self) -> Iterator[tuple[str, Path]]:
        if not self.folder.is_dir():
            return
        for each in os.scandir(self.folder):
            if each.name.startswith("part-") and each.name.endswith(STAGED_SUFFIX):
                yield each.name.removesuffix(STAGED_SUFFIX), Path(each.path)


@dataclass
class Swept:
    """What was deleted."""

    files: int = 0
    size_bytes: int = 0

    def add(self, path: Path) -> None:
        """Count a file before it goes."""
        try:
            self.size_bytes += path.stat().st_size
        except FileNotFoundError:
            return
        self.files += 1


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
