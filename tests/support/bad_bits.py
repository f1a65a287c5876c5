"""Turning over single bits of what a broker has stored, in every batch in turn."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

from goqueue.records import BatchInfo, decode_rows, walk
from support.effort import sampled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goqueue.records import Record

CHECKSUM_AT = 17
"""Where a batch has its checksum."""


class StoredBatch(NamedTuple):
    """One batch of a log, and where it is."""

    path: Path
    position: int
    info: BatchInfo
    records: list[Record]

    def damage(self) -> None:
        """Turn one bit over; nothing can be read of the batch any more."""
        flip(self.path, self.position + CHECKSUM_AT)


def flip(path: Path, position: int) -> None:
    """Turn one bit of a file over."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def stored_batches(folder: Path, topic: str) -> list[StoredBatch]:
    """Every batch in a data folder that belongs to a topic."""
    found = []
    for path in sorted((folder / "topics" / topic).rglob("*.log")):
        data = path.read_bytes()
        found += [
            StoredBatch(path, position, info, decode_rows(data, position))
            for position, info in walk(data)
        ]
    return found


def without_snapshots(folder: Path, topic: str) -> None:
    """Remove the snapshots of a topic, as though none had been taken yet."""
    for path in (folder / "topics" / topic).rglob("snapshot-*.bin"):
        path.unlink()


def damaged_copies(folder: Path, topic: str, into: Path) -> Iterator[tuple[Path, StoredBatch]]:
    """For each batch that is tried, a copy of the folder in which it alone is damaged."""
    for number, batch in enumerate(sampled(stored_batches(folder, topic), 12)):
        copy = into / str(number)
        shutil.copytree(folder, copy)
        moved = batch._replace(path=copy / batch.path.relative_to(folder))
        moved.damage()
        yield copy, moved
        shutil.rmtree(copy)
