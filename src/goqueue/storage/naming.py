"""The names of a log's files: a 20-digit base offset and a suffix that says what it is.

```
00000000000000000000.log        batches, oldest first
00000000000000000000.index      offset -> position, one entry per 4 KB
00000000000000000000.timeindex  timestamp -> offset, likewise
log.checkpoint                  format version, log start, recovery point, leader epochs
log.damaged                     batches of a replica are damaged (see `patching`)
snapshot-*.bin                  state built from the log (see `goqueue.storage.snapshot`)
*.cleaned  *.swap               compaction under way (see `goqueue.storage.compaction.compaction`)
*.tmp                           a file being replaced; removed at start
```
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import ForeignFileError

if TYPE_CHECKING:
    from pathlib import Path

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
TEMPORARY: Final = ".tmp"
CHECKPOINT: Final = "log.checkpoint"
DAMAGED: Final = "log.damaged"
SNAPSHOT_PREFIX: Final = "snapshot-"

_SEGMENT_FILE: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex)")
_SWAP_FILE: Final = re.compile(r"(\d{20})-(\d{20})\.swap")
_OURS: Final = (LOG, OFFSET_INDEX, TIME_INDEX, SWAP)


def segment_path(folder: Path, base_offset: int, suffix: str) -> Path:
    """The file of the segment that starts at `base_offset`."""
    return folder / f"{base_offset:020d}{suffix}"


def swap_path(folder: Path, base_offset: int, end_offset: int) -> Path:
    """A cleaned file that stands for every segment from `base_offset` up to `end_offset`."""
    return folder / f"{base_offset:020d}-{end_offset:020d}{SWAP}"


def segment_bases(names: list[str]) -> list[int]:
    """The base offsets of the segments among `names`, ascending.

    Raises:
        ForeignFileError: a name looks like a segment's and is not one that this log writes.
    """
    bases = []
    for name in names:
        if not name.endswith(_OURS) or _SWAP_FILE.fullmatch(name):
            continue
        match = _SEGMENT_FILE.fullmatch(name)
        if match is None:
            raise ForeignFileError(
                f"unexpected file {name!r} in a log's folder: segment files are named by a "
                "20-digit offset, as in 00000000000000000000.log; move the file away"
            )
        if match[2] == LOG:
            bases.append(int(match[1]))
    return sorted(bases)


def swap_ranges(names: list[str]) -> list[tuple[int, int]]:
    """The offset ranges of the finished swap files among `names`."""
    matches = (_SWAP_FILE.fullmatch(name) for name in names)
    return sorted((int(match[1]), int(match[2])) for match in matches if match)
