"""When messages are due, kept by every replica of a unit: a node that takes over reads little.

Slot files are an index of the logs of a unit. Their leader writes them with each snapshot; a node
that only follows reads what was committed since it last did, now and then, and adds it to its own.
A small file beside them says up to which offsets that was done. What is committed is never cut, so
an entry once made stays true.

```
"GQSIDX" | version u16 | crc32 u32 | ends i64 a class | slots: number i64, size i64
```
"""

from __future__ import annotations

import struct
import zlib
from array import array
from typing import TYPE_CHECKING, Final

from goqueue.delays.due.slots import SlotFiles, by_slot, slot_of
from goqueue.delays.entries import CLASSES, make_id, split_id
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.disk import Disk, replace_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goqueue.delays.store import DelayStore

_NAME: Final = "index.bin"
_HEADER: Final = b"GQSIDX\x00\x01"
_CRC: Final = struct.Struct(">I")
_ENDS: Final = struct.Struct(f">{CLASSES}q")
_SLOT: Final = struct.Struct(">qq")
_MOST_AT_ONCE: Final = 200_000
"""Messages that are indexed before they are written."""


class Indexed(NamedTuple):
    """What the slot files of a node hold."""

    ends: tuple[int, ...]
    """Of each class, everything before this offset."""
    sizes: dict[int, int]
    """How many bytes each slot had then."""


NOTHING: Final = Indexed((0,) * CLASSES, {})


class SlotIndex:
    """The slot files of one unit on one node. Each call works on the disk: in a thread."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder
        self.files = SlotFiles(disk, folder)

    def load(self) -> Indexed:
        """What is there. Without it, or when it is damaged, there is nothing: the logs have it."""
        path = self._folder / _NAME
        data = b""
        if self._disk.exists(path):
            file = self._disk.open(path, write=False)
            try:
                data = bytes(file.read(0, file.size()))
            finally:
                file.close()
        body = data[len(_HEADER) + _CRC.size :]
        if (
            not data.startswith(_HEADER)
            or len(body) < _ENDS.size
            or (len(body) - _ENDS.size) % _SLOT.size
            or _CRC.unpack_from(data, len(_HEADER))[0] != zlib.crc32(body)
        ):
            self.files.clear()
            return NOTHING
        return Indexed(_ENDS.unpack_from(body), dict(_SLOT.iter_unpack(body[_ENDS.size :])))

    def save(self, indexed: Indexed) -> None:
        """Note what is there; it is on the disk when this returns. Raises `DiskError`."""
        slots = b"".join(_SLOT.pack(*each) for each in sorted(indexed.sizes.items()))
        body = _ENDS.pack(*indexed.ends) + slots
        self._disk.make_folder(self._folder)
        replace_file(self._disk, self._folder / _NAME, _HEADER + _CRC.pack(zlib.crc32(body)) + body)

    def follow(self, store: DelayStore, now_ms: int) -> int:
        """Index what was committed since the last time; returns how many messages that were.

        Raises:
            StorageError: the disk refuses; it is done the next time.
        """
        before = self.load()
        ends = list(before.ends)
        count = 0
        for class_number, partition in enumerate(store.partitions):
            start = max(ends[class_number], partition.log_start)
            entries = array("q")
            for offset, _, due_ms in store.places(class_number, start):
                if offset >= partition.high_watermark:
                    break
                entries.append(due_ms)
                entries.append(make_id(class_number, offset))
                ends[class_number] = offset + 1
                count += 1
                if len(entries) >= 2 * _MOST_AT_ONCE:
                    self.files.append(by_slot(entries))
                    entries = array("q")
            self.files.append(by_slot(entries))
        if count or self._prune(store, now_ms):
            self.save(Indexed(tuple(ends), self.sizes()))
        return count

    def sizes(self) -> dict[int, int]:
        """How many bytes each slot has."""
        return {slot: self.files.size(slot) for slot in self.files.slots()}

    def _prune(self, store: DelayStore, now_ms: int) -> bool:
        """Remove slots of which the logs hold nothing any more; whether there were any."""
        starts = [partition.log_start for partition in store.partitions]
        past = [slot for slot in self.files.slots() if slot < slot_of(now_ms)]
        gone = [slot for slot in past if _is_gone(self.files.load(slot).entries, starts)]
        for slot in gone:
            self.files.remove(slot)
        return bool(gone)


def _is_gone(entries: array[int], starts: Sequence[int]) -> bool:
    for delayed_id in entries[1::2]:
        class_number, offset = split_id(delayed_id)
        if offset >= starts[class_number]:
            return False
    return True
