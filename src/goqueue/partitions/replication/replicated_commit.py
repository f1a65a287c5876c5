"""What "committed" means with several replicas: the in-sync ones have it.

The leader works that out from where its followers fetch, and tells them; here it is one number that
only grows, and those who wait for it to reach an offset.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from goqueue.model.errors import InvariantError
from goqueue.wire.kafka.replies import Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.model.errors import GoQueueError
    from goqueue.partitions.partition_log import PartitionLog

_Told: TypeAlias = "asyncio.Future[None] | Reply[None]"
_Waiting: TypeAlias = deque[tuple[int, _Told]]
"""Each with the offset that it waits for, the lowest first; one for each append that is under way,
whose number the connections bound."""


class ReplicatedCommit:
    """The stored high watermark of one replica.

    `high_watermark`: every in-sync replica has what lies below. It moves when the leader says so,
    never back, except where the log itself is cut below it. It is never past the end of the log.
    """

    def __init__(self, log: PartitionLog, high_watermark: int = 0) -> None:
        self._log = log
        self._high_watermark = min(max(high_watermark, log.start_offset), log.end_offset)
        self._publishers: _Waiting = deque()
        self._writers: _Waiting = deque()
        """The broker's own. They are not told that replicas are missing: what is in the log will be
        committed, or is lost with the leadership."""
        self._over: GoQueueError | None = None
        """Why nobody learns any more here what becomes of an append; None where this node leads."""
        self.persisted = log.durable

    # --- Asking ----------------------------------------------------------------------------------

    def high_watermark(self) -> int:
        """Where all readers stop."""
        return self._high_watermark

    def is_committed(self, end_offset: int) -> bool:
        """Whether every in-sync replica has it."""
        return self._high_watermark >= end_offset

    def is_persisted(self, end_offset: int) -> bool:
        """Whether it is on this node's disk, or need not be."""
        log = self._log
        return not log.promises_sync(end_offset) or log.flushed_offset >= end_offset

    def committed(self, end_offset: int) -> asyncio.Future[None]:
        """Done when it is committed; fails with `LeadershipLostError` when that is not known."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wait(self._writers, end_offset, future)
        return future

    def acknowledged(self, end_offset: int) -> Reply[None]:
        """The same for a publisher, whom `fail_publishers` reaches, and who is told at once."""
        reply: Reply[None] = Reply()
        self._wait(self._publishers, end_offset, reply)
        return reply

    def _wait(self, waiting: _Waiting, end_offset: int, future: _Told) -> None:
        if end_offset <= self._high_watermark:
            future.set_result(None)
        elif self._over is not None:  # it was appended before, and something else was awaited since
            _refuse(future, self._over)
        elif not waiting or waiting[-1][0] <= end_offset:
            waiting.append((end_offset, future))
        else:  # a batch that was sent again: the first time is not committed yet
            at = len(waiting)
            while at and waiting[at - 1][0] > end_offset:
                at -= 1
            waiting.insert(at, (end_offset, future))

    # --- Moving ----------------------------------------------------------------------------------

    def advance(self, high_watermark: int) -> bool:
        """Move the watermark up to there, or to the end of the log; says whether it has moved.

        This is the line where appends become committed.
        """
        high_watermark = min(high_watermark, self._log.end_offset)
        if high_watermark <= self._high_watermark:
            return False
        self._high_watermark = high_watermark
        for waiting in (self._publishers, self._writers):
            while waiting and waiting[0][0] <= high_watermark:
                future = waiting.popleft()[1]
                if not future.done():  # whoever waited may be gone
                    future.set_result(None)
        return True

    def cut(self) -> None:
        """The log was cut, or starts later: stay within it."""
        log = self._log
        self._high_watermark = min(max(self._high_watermark, log.start_offset), log.end_offset)

    # --- Failing ---------------------------------------------------------------------------------

    def fail_publishers(self, error: GoQueueError) -> None:
        """Tell waiting publishers that too few replicas are in sync; the broker's own wait on."""
        _fail(self._publishers, error)

    def fail_all(self, error: GoQueueError) -> None:
        """Tell everybody who waits that it is not known."""
        _fail(self._publishers, error)
        _fail(self._writers, error)

    def end(self, error: GoQueueError) -> None:
        """This node does not lead the partition any more: whoever waits, or would, is told so."""
        self._over = error
        self.fail_all(error)

    def begin(self) -> None:
        """This node leads: what it appends from now on can be waited for."""
        self._over = None

    @property
    def waiting_count(self) -> int:
        """How many wait."""
        return len(self._publishers) + len(self._writers)

    def check_invariants(self) -> None:
        """Raise `InvariantError` when somebody waits out of order, or for what is committed."""
        for waiting in (self._publishers, self._writers):
            ends = [end for end, _ in waiting]
            if ends != sorted(ends) or (ends and ends[0] <= self._high_watermark):
                raise InvariantError(f"out of order at {self._high_watermark}: {ends}")


def _fail(waiting: _Waiting, error: GoQueueError) -> None:
    for future in _drained(waiting):
        if isinstance(future, Reply):  # not in the middle of what the refusal is part of
            asyncio.get_running_loop().call_soon(_refuse, future, error)
        else:
            _refuse(future, error)


def _refuse(told: _Told, error: GoQueueError) -> None:
    if not told.done():
        told.set_exception(error)
        told.exception()  # seen: whoever waits may be gone, and the loop would complain


def _drained(waiting: _Waiting) -> Iterator[_Told]:
    while waiting:
        yield waiting.popleft()[1]
