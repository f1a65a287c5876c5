"""One partition that this node follows: what to ask its leader for, and what to do with an answer.

The core (`goqueue.cluster.following`) says what an answer means; here batches are stored, the log
is cut and begun anew. A fetch from an offset says that everything below it is here, and on the disk
where the topic promises that; so the next fetch leaves only when it is.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.cluster.following import (
    Append,
    Cut,
    FetchAnswer,
    FetchProblem,
    FollowerState,
    Restart,
    Wait,
)
from goqueue.cluster.peers import Lane
from goqueue.model.errors import GoQueueError, StorageError
from goqueue.partitions.replication.watched import PARTITION_BYTES
from goqueue.storage.epochs import EpochStart
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.fetch import FetchPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.cluster.following import FetchAsk, FollowerAct
    from goqueue.cluster.records import PartitionKey
    from goqueue.partitions.replication.fetcher import Fetcher
    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
    from goqueue.runtime.disk import Bytes
    from goqueue.wire.kafka.fetch import FetchedPartition

logger = logging.getLogger(__name__)

_MUCH_BYTES: Final = PARTITION_BYTES // 2
"""A replica that gets so much and lacks more catches up in a lane of its own."""
_START_FOLLOWED_S: Final = 0.1
"""After so long the leader is told where the log starts, once its files were removed."""
_SMALL_BYTES: Final = 256 * 1024
"""Up to so much is written in the turn in which it arrives; more waits for other turns first."""
_EARLY_S: Final = 0.002
"""Timers of uvloop count whole milliseconds and come up to one too early, when the core would still
want to wait, and nothing would ask it again."""
_BATCH: Final = struct.Struct(">qii")
"""The first offset of a batch, its length behind these two, and the epoch of its leader."""
_LENGTH_FROM: Final = 12
_LAST_DELTA: Final = struct.Struct(">i")
_LAST_DELTA_AT: Final = 23

_PROBLEMS: Final = {
    ErrorCode.not_leader_or_follower: FetchProblem.NOT_LEADER,
    ErrorCode.unknown_topic_id: FetchProblem.NOT_LEADER,
    ErrorCode.fenced_leader_epoch: FetchProblem.OTHER_EPOCH,
    ErrorCode.unknown_leader_epoch: FetchProblem.OTHER_EPOCH,
    ErrorCode.stale_broker_epoch: FetchProblem.STALE_NODE,
    ErrorCode.offset_out_of_range: FetchProblem.OUT_OF_RANGE,
}


class FollowerHost(Protocol):
    """What all followed partitions of a node share."""

    now_s: Callable[[], float]
    has_room: bool
    """Whether the disk takes what is fetched."""
    failure_wait_s: float
    """After so long something that could not be stored is tried again."""

    def choose_lane(self, followed: Followed, *, lacks_much: bool) -> None:
        """Fetch a replica where it belongs now."""

    def note_cut(self, followed: Followed, to: int, *, is_below_hw: bool) -> None:
        """A log leaves the leader's, and is cut."""


class Followed:
    """One replica that follows a leader in one epoch."""

    def __init__(
        self,
        key: PartitionKey,
        partition: ReplicatedPartition,
        leader: int,
        epoch: int,
        host: FollowerHost,
    ) -> None:
        self.key = key
        self.partition = partition
        self.state = FollowerState(leader, epoch, partition.high_watermark)
        self._host = host
        self.fetcher: Fetcher | None = None
        self._ask: FetchAsk | None = None
        self._told: tuple[int, int] | None = None
        """Where the leader knows this replica to be, and to start; None when it knows nothing."""
        self._retry: asyncio.TimerHandle | None = None
        self._work: asyncio.Task[None] | None = None
        """What is being done to the log and waits for the disk."""
        self.leader_end = -1
        """Where the leader's log ended when it last said so; -1 until then."""
        partition.on_persisted = self.persisted

    @property
    def lag(self) -> int:
        """How many offsets the leader has that are not here, as far as is known."""
        return max(self.leader_end - self.partition.log_end, 0)

    @property
    def _may_fetch(self) -> bool:
        return self._host.has_room and self.partition.is_fetchable

    # --- Asking (see `fetcher.Fetching`) ---------------------------------------------------------

    def next_fetch(self) -> FetchPartition | None:
        """Where this replica is now; None when it has nothing to say or is busy."""
        if self._work is not None:
            return None
        if not self._may_fetch:
            self._wait(self._host.now_s() + self._host.failure_wait_s)
            return None
        ask = self._planned()
        if ask is None:
            return None
        _, epoch, offset, last_epoch = ask
        log_start = self.partition.log_start
        self._told = offset, log_start
        return FetchPartition(
            self.key.partition, epoch, offset, last_epoch, log_start, PARTITION_BYTES
        )

    def _planned(self) -> FetchAsk | None:
        """The fetch that is asked for now, begun if none is."""
        asked = self.state.asked
        if asked is None:
            partition = self.partition
            asked = self._ask = self.state.plan(
                self._host.now_s(), partition.log_end, partition.position, partition.epochs
            )
        return asked

    def _ask_on(self) -> None:
        """Ask for what comes next; the leader is told when that is elsewhere than it knows."""
        fetcher = self.fetcher
        if fetcher is None or self._work is not None:
            return
        if not self._may_fetch:
            self.lost()  # it is asked for from where the log ends then
            self._wait(self._host.now_s() + self._host.failure_wait_s)
            return
        ask = self._planned()
        if ask is not None and self._told != (ask.offset, self.partition.log_start):
            fetcher.moved(self)

    def persisted(self) -> None:
        """More of the log is on the disk."""
        if self.state.asked is None:
            self._ask_on()

    # --- Answers ---------------------------------------------------------------------------------

    def answered(self, told: FetchedPartition) -> int:
        """Do what the leader said; returns how many bytes were in it."""
        if self._ask is None:
            return 0
        if self._work is not None:
            self._told = None  # it is asked for again when the work is done
            return 0
        records = told.records[0] if told.records else b""
        partition = self.partition
        problem = None
        if told.error_code:
            problem = _PROBLEMS.get(ErrorCode(told.error_code), FetchProblem.FAILED)
            self._told = None
        else:
            partition.is_current = 0 <= self.leader_end <= partition.log_end
            self.leader_end = told.last_stable_offset
        if told.diverging_epoch is not None:
            self._told = None
        next_offset = None
        if records:
            try:
                next_offset = end_of(records)
            except struct.error:
                problem = FetchProblem.FAILED
        answer = FetchAnswer(
            problem,
            None if told.diverging_epoch is None else EpochStart(*told.diverging_epoch),
            told.log_start_offset,
            told.high_watermark,
            next_offset,
        )
        act = self.state.answered(
            self._host.now_s(),
            self._ask,
            answer,
            log_start=partition.log_start,
            end=partition.log_end,
            epochs=partition.epochs,
        )
        self._do(act, records)
        return len(records)

    def _do(self, act: FollowerAct, records: Bytes) -> None:
        if isinstance(act, Append):
            self._append(act, records)
        elif isinstance(act, Cut):
            self._host.note_cut(self, act.to, is_below_hw=act.is_below_hw)
            self._begin(self._cut(act.to))
        elif isinstance(act, Restart):
            self._host.note_cut(self, act.at, is_below_hw=act.is_below_hw)
            self._begin(self.partition.restart_at(act.at))
        elif isinstance(act, Wait):
            self._wait(act.until_s)
        else:
            self._told = None
            self._ask_on()

    async def _cut(self, to: int) -> None:
        await self.partition.truncate(to)

    def _append(self, act: Append, records: Bytes) -> None:
        partition = self.partition
        if not act.has_batches:
            self._follow(act)
            self._ask_on()
            return
        # The first batches of an epoch and what lies behind a gap are noted on the disk first.
        first, _, epoch = _BATCH.unpack_from(records)
        is_plain = first <= partition.log_end and epoch == partition.epochs.latest
        if not is_plain or len(records) > _SMALL_BYTES or epoch_of(records) != epoch:
            self._begin(self._copy(act, records))
            return
        try:
            partition.append_replica(records)
        except GoQueueError as error:
            self._failed(error)
            return
        self._follow(act)
        self._choose_lane(len(records))
        self._ask_on()

    async def _copy(self, act: Append, records: Bytes) -> None:
        await self.partition.copy(records)
        self._follow(act)
        self._choose_lane(len(records))

    def _follow(self, act: Append) -> None:
        self.partition.advance(act.high_watermark)
        if act.log_start > self.partition.log_start:
            self.partition.follow_start(act.log_start)
            self._wait(self._host.now_s() + _START_FOLLOWED_S)

    def _choose_lane(self, size_bytes: int) -> None:
        """Catch up where nobody waits for it; come back with the last of it."""
        fetcher = self.fetcher
        if fetcher is None or (size_bytes < _MUCH_BYTES and fetcher.lane is not Lane.CATCH_UP):
            return
        lacks_much = size_bytes >= _MUCH_BYTES and self.lag > 0
        self._host.choose_lane(self, lacks_much=lacks_much)

    # --- What takes time -------------------------------------------------------------------------

    def _begin(self, work: Awaitable[None]) -> None:
        self._work = asyncio.create_task(self._finish(work))

    async def _finish(self, work: Awaitable[None]) -> None:
        try:
            await work
        except GoQueueError as error:
            self._work = None
            self._failed(error)
        except BaseException:
            self._work = None
            raise
        else:
            self._work = None
            self._ask_on()

    def _failed(self, error: GoQueueError) -> None:
        """Nothing was stored: try again later. A log that failed is recovered first."""
        level = logging.ERROR if isinstance(error, StorageError) else logging.WARNING
        logger.log(level, "%s: what the leader sent was not stored: %s", self.partition.id, error)
        self._told = None
        self._wait(self._host.now_s() + self._host.failure_wait_s)

    def _wait(self, until_s: float) -> None:
        if self._retry is not None:
            self._retry.cancel()
        wait_s = max(until_s - self._host.now_s(), 0.0) + _EARLY_S
        self._retry = asyncio.get_running_loop().call_later(wait_s, self._retried)

    def _retried(self) -> None:
        self._retry = None
        if not self._may_fetch:
            self._wait(self._host.now_s() + self._host.failure_wait_s)
            return
        self._ask_on()

    def lost(self) -> None:
        """The connection is lost: everything is told anew on the next one."""
        self.forget_told()
        self.state.asked = self._ask = None  # the connection backs off, not every partition

    def forget_told(self) -> None:
        """The leader knows nothing of this replica on the connection that is used now."""
        self._told = None

    async def end(self) -> None:
        """Follow no more; what is being done to the log is done when this returns."""
        if self._retry is not None:
            self._retry.cancel()
        if self.partition.on_persisted == self.persisted:
            self.partition.on_persisted = None
        self._ask = None
        if self._work is not None:
            await asyncio.gather(self._work, return_exceptions=True)


def _last_batch(records: Bytes) -> int:
    """Where the last batch begins; the walk looks at nothing but lengths."""
    at, size = 0, len(records)
    while True:
        _, length, _ = _BATCH.unpack_from(records, at)
        after = at + _LENGTH_FROM + length
        if length <= 0 or after >= size:
            return at
        at = after


def end_of(records: Bytes) -> int:
    """The offset behind whole batches, which are checked when they are stored."""
    at = _last_batch(records)
    first, _, _ = _BATCH.unpack_from(records, at)
    return int(first + _LAST_DELTA.unpack_from(records, at + _LAST_DELTA_AT)[0] + 1)


def epoch_of(records: Bytes) -> int:
    """The epoch of the leader that wrote the last of them: the newest one."""
    return int(_BATCH.unpack_from(records, _last_batch(records))[2])
