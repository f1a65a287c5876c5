"""What a log must know before it looks at its segments, in one small file.

The file is replaced as a whole, so a crash leaves the old or the new one. Everything below the
recovery point was on the disk and intact when it was written: recovery starts there, however long
the log is. A clean stop writes a checkpoint that reaches the end of the log, and the next start has
nothing to scan; one appended byte makes the file longer than the checkpoint says, and it has.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import asdict, replace

from goqueue.model.errors import UnsupportedFormatError
from goqueue.model.ids import NO_TIMESTAMP
from goqueue.records.checksum import crc32c
from goqueue.runtime.disk import Disk, read_file, replace_file
from goqueue.storage.epochs import EpochStart
from goqueue.storage.indexes import NOTHING, Newest
from goqueue.storage.naming import CHECKPOINT

if TYPE_CHECKING:
    from pathlib import Path

FORMAT_VERSION: Final = 2
"""Of everything in a log's folder. A higher number in a file means: written by a newer version."""


class Checkpoint(msgspec.Struct, frozen=True):
    """A consistent view of one log at one moment."""

    log_start: int = 0
    """Records below are deleted, even where their segment is still there."""

    recovery_point: int = 0
    """Every batch below this offset is on the disk and was intact."""

    recovery_segment: int = 0
    """The base offset of the segment that holds the recovery point."""

    recovery_position: int = 0
    """Where the recovery point lies in that segment's file."""

    gaps_below: int = 0
    """Below this offset, compaction may have taken records out."""

    clean_below: int = 0
    """Below this offset, compaction has seen every record."""

    epochs: tuple[EpochStart, ...] = ()

    generation: int = 0
    """How often the file was replaced; 0 in files of format 1, which do not say."""

    def encode(self) -> bytes:
        """One JSON document that carries its own checksum."""
        body = {"format": FORMAT_VERSION, **asdict(self)}
        return json.dumps({**body, "crc32c": _checksum(body)}, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint | None:
        """The checkpoint in `data`; None when it is damaged.

        Raises:
            UnsupportedFormatError: a newer version of the product wrote it.
        """
        try:
            body = json.loads(data)
            version = body.pop("format")
            if isinstance(version, int) and version > FORMAT_VERSION:
                raise UnsupportedFormatError(
                    f"this log has on-disk format {version}, and this version reads up to "
                    f"{FORMAT_VERSION}: start the newer version that wrote it"
                )
            if body.pop("crc32c") != _checksum({"format": version, **body}):
                return None
            body["epochs"] = tuple(EpochStart(*start) for start in body["epochs"])
            return cls(**body)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def _checksum(body: dict[str, Any]) -> str:
    return f"{crc32c(json.dumps(body, sort_keys=True).encode()):08x}"


def load_checkpoint(disk: Disk, folder: Path) -> Checkpoint | None:
    """The last checkpoint of the log in `folder`; None when there is none or it is damaged."""
    path = folder / CHECKPOINT
    if not disk.exists(path):
        return None
    return Checkpoint.decode(read_file(disk, path))


class CheckpointFile:
    """The checkpoint of one log, changed field by field from the writer and from a flush thread."""

    def __init__(
        self, disk: Disk, folder: Path, value: Checkpoint, stored: Checkpoint | None
    ) -> None:
        self._disk = disk
        self._path = folder / CHECKPOINT
        self._writing = threading.Lock()
        """Held while the file is replaced, which waits for the disk."""
        self._changing = threading.Lock()
        """Held for a moment, while `value` is replaced."""
        self.stored = stored
        """What is in the folder; None when there is nothing, or something damaged."""
        self.value = value
        """What is known now: what is stored, or something newer that need not be."""

    def update(self, **changes: Any) -> None:
        """Change some fields, durably; the others stay as whoever wrote last has left them."""
        with self._writing:
            value = replace(self.value, generation=self.value.generation + 1, **changes)
            replace_file(self._disk, self._path, value.encode())
            self.stored = value
            with self._changing:  # what was assumed meanwhile stays
                self.value = replace(self.value, generation=value.generation, **changes)

    def assume(self, **changes: Any) -> None:
        """Change some fields that a start could find out by itself, in memory."""
        with self._changing:
            self.value = replace(self.value, **changes)


CHEAP_SCAN_BYTES: Final = 1024 * 1024
"""A log with no more than this behind the checkpoint in its folder needs no newer one there."""


class LogSummary(msgspec.Struct, frozen=True):
    """A log as it was when everything below `checkpoint.recovery_point` was on the disk.

    The checkpoint in a log's folder is the truth, and making it durable takes two syncs. A log
    whose tail is quick to scan does without a newer one: its summary goes into one file with those
    of all other logs (`goqueue.storage.checkpoints.book`). A summary extends exactly one checkpoint
    of the folder. It does not count any more once that has been replaced, and a log whose summary
    is lost is scanned from where the checkpoint in its folder says, or from its start.
    """

    generation: int
    """Of the checkpoint in the folder that this extends; 0 when there was none."""

    checkpoint: Checkpoint
    """The same with the recovery point of this moment."""

    newest: Newest = NOTHING
    """Of the active segment, up to the recovery point."""

    created_ms: int = NO_TIMESTAMP
    """When the active segment was started."""

    state: bytes = b""
    """What the owner of the log knew of its batches."""
