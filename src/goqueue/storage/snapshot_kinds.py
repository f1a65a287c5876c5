"""The kinds of snapshots, each with its number on the disk and its name in metrics."""

from __future__ import annotations

from enum import IntEnum


class SnapshotKind(IntEnum):
    """What a snapshot holds. A number is in the names of files: none is ever given twice."""

    GROUPS = 1
    TRANSACTIONS = 2
    PRODUCERS = 6
    """What a partition knows of its own log: producers' sequences, open transactions, lanes."""
    QUEUES = 7
    DELAYS = 9
    PIPELINES = 10
    SCHEMAS = 11

    @property
    def label(self) -> str:
        """What metrics call it."""
        return self.name.lower()

    @property
    def earlier(self) -> tuple[int, ...]:
        """Numbers under which earlier versions have written this kind."""
        return (SnapshotKind.DELAYS,) if self is SnapshotKind.SCHEMAS else ()
