"""What one log is at one moment, as far as a start has to know it: a checkpoint kept elsewhere.

The checkpoint in a log's folder is the truth, and making it durable takes two syncs. A log whose
tail is quick to scan does without a newer one: its summary goes into one file with those of all
other logs (`goqueue.storage.checkpoints.book`). A summary extends exactly one checkpoint of the
folder. It does not count any more once that has been replaced, and a log whose summary is lost is
scanned from where the checkpoint in its folder says, or from its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from goqueue.model.ids import NO_TIMESTAMP
from goqueue.storage.indexes import NOTHING, Newest

if TYPE_CHECKING:
    from goqueue.storage.checkpoints.checkpoint import Checkpoint

CHEAP_SCAN_BYTES: Final = 1024 * 1024
"""A log with no more than this behind the checkpoint in its folder needs no newer one there."""


@dataclass(frozen=True, slots=True)
class LogSummary:
    """A log as it was when everything below `checkpoint.recovery_point` was on the disk."""

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
