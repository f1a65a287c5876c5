"""What a follower fetches, and what an answer means: append, cut, begin anew, or wait.

Where two logs part is found by leader epochs, never by a high watermark (KIP-101, KIP-279). The
follower says which epoch wrote its last record. A leader that knows another end of that epoch
answers with the largest epoch it knows that is not above it, and where that ended; the follower
cuts there and asks again, until both agree.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.storage.epochs import EpochStart, LeaderEpochs

BACK_OFF_S: Final = 0.05
LONGEST_BACK_OFF_S: Final = 1.0
"""After an error a follower waits so long before it asks again, doubling up to the second."""

NO_EPOCH: Final = -1


class FetchProblem(Enum):
    """Why a leader gives nothing."""

    OTHER_EPOCH = auto()
    """The epoch is fenced, or one that the other does not know yet: the view must move on."""
    NOT_LEADER = auto()
    STALE_NODE = auto()
    """The node has registered anew since, or is not registered."""
    OUT_OF_RANGE = auto()
    """The leader's log begins after, or ends before, what was asked for."""
    FAILED = auto()
    """A connection broke, a disk failed, time ran out."""


class FetchAsk(NamedTuple):
    """What to ask a leader for."""

    leader: int
    epoch: int
    offset: int
    last_epoch: int
    """The epoch that wrote the record before `offset`, -1 without one."""


class FetchAnswer(NamedTuple):
    """What a leader says, the batches aside."""

    problem: FetchProblem | None = None
    diverging: EpochStart | None = None
    """The largest epoch not above the follower's that the leader knows, and where it ended."""
    log_start: int = 0
    high_watermark: int = 0
    next_offset: int | None = None
    """Behind the batches that came along; None when none did."""


class Append(NamedTuple):
    """Store the batches if there are any, then know the leader's watermarks."""

    high_watermark: int
    """Never above the end of the own log once the batches are in it."""
    log_start: int
    has_batches: bool


class Cut(NamedTuple):
    """Remove everything from `to` on, durably, before the next fetch."""

    to: int
    is_below_hw: bool
    """Something that was committed goes. Legal only after a loss: to be counted and logged."""


class Restart(NamedTuple):
    """Empty the log; it begins at `at` from now on."""

    at: int
    is_below_hw: bool


class Wait(NamedTuple):
    """Ask again at `until_s`, or before that once the view shows another record."""

    until_s: float


class Ignore(NamedTuple):
    """The answer is to a question that is no longer asked."""


FollowerAct: TypeAlias = Append | Cut | Restart | Wait | Ignore


class FollowerState:
    """One partition that this node follows in one epoch of its leader.

    One fetch is under way at a time. The shell asks `plan` what to fetch, hands the answer to
    `answered`, does what that says, and asks `plan` again.
    """

    def __init__(self, leader: int, epoch: int, high_watermark: int) -> None:
        self.leader = leader
        self.epoch = epoch
        self.hw = high_watermark
        """What this replica knows to be committed; it lags behind the leader's."""
        self.asked: FetchAsk | None = None
        self._wait_until_s = 0.0
        self._back_off_s = BACK_OFF_S

    def plan(self, now_s: float, end: int, position: int, epochs: LeaderEpochs) -> FetchAsk | None:
        """What to fetch now; None while a fetch or a back-off lasts.

        `position` is what this replica may claim to have; while it is below the end (under
        `fsync=always`, until the flush) nothing is asked for, since a fetch acknowledges.
        """
        if self.asked is not None or now_s < self._wait_until_s or position < end:
            return None
        last_epoch = epochs.epoch_at(end - 1) if epochs.starts else NO_EPOCH
        self.asked = FetchAsk(self.leader, self.epoch, end, last_epoch)
        return self.asked

    def answered(
        self,
        now_s: float,
        ask: FetchAsk,
        answer: FetchAnswer,
        *,
        log_start: int,
        end: int,
        epochs: LeaderEpochs,
    ) -> FollowerAct:
        """What an answer means for a log with this start, end and these epochs."""
        if ask is not self.asked:
            return Ignore()
        self.asked = None
        if ask.offset != end:
            return Ignore()
        if answer.problem is FetchProblem.OUT_OF_RANGE:
            return self._restarted(answer.log_start)
        if answer.problem is not None:
            return self._waiting(now_s)
        self._back_off_s = BACK_OFF_S
        if answer.diverging is not None:
            return self._cut(answer.diverging, log_start, end, epochs)
        after = end if answer.next_offset is None else answer.next_offset
        self.hw = max(self.hw, min(answer.high_watermark, after))
        return Append(self.hw, answer.log_start, answer.next_offset is not None)

    def lost(self, now_s: float, ask: FetchAsk) -> FollowerAct:
        """No answer came: the connection broke, or time ran out."""
        if ask is not self.asked:
            return Ignore()
        self.asked = None
        return self._waiting(now_s)

    def _waiting(self, now_s: float) -> Wait:
        self._wait_until_s = now_s + self._back_off_s
        self._back_off_s = min(self._back_off_s * 2, LONGEST_BACK_OFF_S)
        return Wait(self._wait_until_s)

    def _cut(
        self, theirs: EpochStart, log_start: int, end: int, epochs: LeaderEpochs
    ) -> FollowerAct:
        mine = epochs.end_of(theirs.epoch, end)
        if mine is None:
            to = log_start
        elif mine.epoch < theirs.epoch:
            to = mine.start_offset
        else:
            to = min(mine.start_offset, theirs.start_offset)
        to = max(to, log_start)
        is_below_hw, self.hw = to < self.hw, min(self.hw, to)
        return Cut(to, is_below_hw)

    def _restarted(self, at: int) -> Restart:
        is_below_hw, self.hw = at < self.hw, at
        return Restart(at, is_below_hw)


def divergence(
    ask: FetchAsk, epochs: LeaderEpochs, log_start: int, end: int
) -> EpochStart | FetchProblem | None:
    """The leader's side: None when the asker's log is a beginning of this one.

    A fetch may count as an acknowledgement only then.
    """
    if ask.offset < log_start:
        return FetchProblem.OUT_OF_RANGE
    if ask.last_epoch == NO_EPOCH:
        return FetchProblem.OUT_OF_RANGE if ask.offset > end else None
    mine = epochs.end_of(ask.last_epoch, end)
    if mine is None:
        # Every record here is newer than the asker's newest, so nothing that it has is in this log.
        # Nor at the start of the log: what lay below was removed, and may have differed.
        return FetchProblem.OUT_OF_RANGE
    if mine.epoch < ask.last_epoch or mine.start_offset < ask.offset:
        return mine
    return None
