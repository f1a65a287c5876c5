"""The log of one replica as a list, with what is on the disk and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goqueue.storage.epochs import LeaderEpochs

if TYPE_CHECKING:
    import random


class Record(NamedTuple):
    """One record: who wrote it, as the how-manieth, and in which epoch."""

    epoch: int
    producer: int
    sequence: int


HOLE = Record(-1, -1, -1)
"""What is at an offset that a power cut took, when nobody cut there."""


HOLES = 0.5
"""How often a power cut takes a page in the middle."""


class ModelLog:
    """Offsets from `start` to `end`; below `flushed` everything is on the disk."""

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.flushed = 0
        self.epochs = LeaderEpochs()
        self._records: list[Record] = []
        self.trimmed: dict[int, tuple[int, int]] = {}
        """What the removed records say of their producers: the last sequence number and offset."""
        self._damaged: list[int] = []

    def at(self, offset: int) -> Record | None:
        """The record at an offset; None when it is not there."""
        return self._records[offset - self.start] if self.start <= offset < self.end else None

    @property
    def damaged(self) -> tuple[int, int] | None:
        """The first offsets that a start has found damaged, from one up to another."""
        return (self._damaged[0], self._damaged[0] + 1) if self._damaged else None

    def damage(self, offset: int) -> None:
        """A record is damaged on the disk; what lies behind it is not."""
        self._records[offset - self.start] = HOLE
        self._damaged = sorted({*self._damaged, offset})

    def hole(self, offset: int) -> None:
        """A record is lost, and nobody notices."""
        self._records[offset - self.start] = HOLE

    def patch(self, records: list[Record]) -> bool:
        """Take another replica's record for the first one that is damaged, if it is the same."""
        offset = self._damaged[0]
        if not records or records[0].epoch != self.epochs.epoch_at(offset):
            return False
        self._records[offset - self.start] = records[0]
        del self._damaged[0]
        return True

    def append(self, epoch: int, producer: int, sequence: int) -> None:
        """As a leader."""
        self._records.append(Record(epoch, producer, sequence))
        self.end += 1

    def read(self, offset: int, most: int) -> list[Record]:
        """Up to so many records, for a follower, or for one that is damaged."""
        first = offset - self.start
        found = self._records[first : first + most] if first >= 0 else []
        return found[: found.index(HOLE)] if HOLE in found and self._damaged else found

    def joined(self, found: list[Record], more: list[Record]) -> list[Record]:
        """Records that were read one after the other."""
        return [*found, *more]

    def append_replica(self, records: list[Record]) -> None:
        """As a follower: exactly what the leader has."""
        for record in records:
            if record.epoch > self.epochs.latest:
                self.epochs = self.epochs.with_epoch(record.epoch, self.end)
            self._records.append(record)
            self.end += 1

    def note_epoch(self, epoch: int) -> None:
        """A leader is about to write; durable before its first record."""
        self.epochs = self.epochs.ending_at(self.end).with_epoch(epoch, self.end)

    def drop_empty_epoch(self) -> None:
        """Forget an epoch that wrote nothing."""
        self.epochs = self.epochs.ending_at(self.end)

    def flush(self) -> None:
        """Everything is on the disk."""
        self.flushed = self.end

    def truncate(self, to: int) -> None:
        """Remove everything from an offset on, durably."""
        del self._records[to - self.start :]
        self.end = min(self.end, to)
        self.flushed = min(self.flushed, self.end)
        self.epochs = self.epochs.ending_at(self.end)
        self._damaged = [each for each in self._damaged if each < self.end]

    def restart(self, at: int) -> None:
        """Be empty, from an offset on."""
        self._records.clear()
        self.start = self.end = self.flushed = at
        self._damaged = []
        self.epochs = LeaderEpochs()

    def delete_before(self, offset: int) -> None:
        """Remove the beginning."""
        if self.start < offset <= self.end:
            for at in range(self.start, offset):
                record = self._records[at - self.start]
                self.trimmed[record.producer] = (record.sequence, at)
            del self._records[: offset - self.start]
            self.start = offset
            self.flushed = max(self.flushed, offset)
            self.epochs = self.epochs.starting_at(offset)

    def power_cut(self, rng: random.Random, *, keep_hole: bool = False) -> None:
        """Lose what was not on the disk, from a random offset on; a start cuts there.

        Or a page in the middle, and what was written after it is there.
        """
        kept = rng.randint(self.flushed, self.end)
        if keep_hole:
            for index in range(kept - self.start, min(kept + 2, self.end) - self.start):
                self._records[index] = HOLE
            self.flushed = self.end
        elif self.start <= kept < self.end - 1 and rng.random() < HOLES:
            self.damage(kept)
        else:
            self.truncate(kept)

    def reopen(self) -> None:
        """Another process begins; what is in the page cache is there."""

    def close(self) -> None:
        """The node is stopped in order."""
