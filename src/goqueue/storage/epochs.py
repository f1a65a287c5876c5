"""Which leader wrote which offsets.

A follower that comes back asks where an epoch ended and cuts its log there; the scanner uses the
same table to notice a damaged epoch field, which the batch's checksum does not cover.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice, tee, zip_longest
from typing import TYPE_CHECKING

import msgspec

from goqueue.model.errors import InvariantError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class EpochStart(NamedTuple):
    """A leader epoch and the offset of a batch, as a rule the first, that it wrote."""

    epoch: int
    start_offset: int


class LeaderEpochs(msgspec.Struct, frozen=True):
    """The epochs with records in a log, oldest first: epochs and start offsets only grow."""

    starts: tuple[EpochStart, ...] = ()

    def __post_init__(self) -> None:
        for earlier, later in zip(self.starts, self.starts[1:], strict=False):
            if earlier.epoch >= later.epoch or earlier.start_offset >= later.start_offset:
                raise InvariantError(f"leader epochs out of order: {earlier} before {later}")

    @classmethod
    def learnt(cls, batches: Iterable[EpochStart]) -> LeaderEpochs:
        """The epochs as the batches themselves tell them, one damaged batch outvoted.

        Epochs never fall, so one that rises above what the next two batches say is not believed.
        """
        known = cls()
        here, after, second = tee(batches, 3)
        ahead = zip_longest(here, islice(after, 1, None), islice(second, 2, None))
        for batch, following, third in ahead:
            if batch.epoch <= known.latest:
                continue
            doubted = following is not None and following.epoch < batch.epoch
            if doubted and third is not None:
                doubted = third.epoch < batch.epoch
            elif doubted:
                doubted = following.epoch == known.latest
            if not doubted:
                known = known.with_epoch(*batch)
        return known

    @property
    def latest(self) -> int:
        """The newest epoch, or -1 when nothing was ever written."""
        return self.starts[-1].epoch if self.starts else -1

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1 when that was before the first known one."""
        if self.starts and offset >= self.starts[-1].start_offset:
            return self.starts[-1].epoch
        found = bisect_right(self.starts, offset, key=lambda start: start.start_offset)
        return self.starts[found - 1].epoch if found else -1

    def end_of(self, epoch: int, log_end: int) -> EpochStart | None:
        """The largest epoch not above `epoch`, with the offset where it ended.

        None when every known epoch is newer: the asker has nothing in common with this log.
        """
        found = bisect_right(self.starts, epoch, key=lambda start: start.epoch)
        if not found:
            return None
        ended = self.starts[found].start_offset if found < len(self.starts) else log_end
        return EpochStart(self.starts[found - 1].epoch, ended)

    def with_epoch(self, epoch: int, start_offset: int) -> LeaderEpochs:
        """The same with `epoch` writing from `start_offset` on.

        Epochs that begin there or later have written nothing that is kept: a leader notes its epoch
        before its first batch, and another may lead before there is one. They are dropped.

        Raises:
            InvariantError: an epoch at least as new has already written.
        """
        kept = self.ending_at(start_offset)
        if epoch == kept.latest and len(kept.starts) < len(self.starts):
            return kept
        if epoch <= kept.latest:
            raise InvariantError(f"epoch {epoch} cannot begin after epoch {kept.latest}")
        return LeaderEpochs((*kept.starts, EpochStart(epoch, start_offset)))

    def ending_at(self, end_offset: int) -> LeaderEpochs:
        """The same without the epochs that wrote only at `end_offset` or after."""
        return LeaderEpochs(tuple(s for s in self.starts if s.start_offset < end_offset))

    def starting_at(self, log_start: int) -> LeaderEpochs:
        """The same without the epochs that wrote only below `log_start`."""
        found = bisect_right(self.starts, log_start, key=lambda start: start.start_offset)
        return LeaderEpochs(self.starts[max(found - 1, 0) :])
