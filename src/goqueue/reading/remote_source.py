"""A partition that another node leads and of which nothing is kept here, for queue groups.

What a queue must know without asking is followed: how far the partition can be read, which messages
are more urgent than others, which transactions were aborted. The leader tells that
(`goqueue.queues.remote_sources`). The messages themselves are fetched when somebody takes them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
)
from goqueue.partitions.isolation import PartitionTransactions
from goqueue.partitions.lane_index import LaneIndex
from goqueue.partitions.partition import Isolation
from goqueue.partitions.waiting import Waiters
from goqueue.reading.fetch import FetchRequest, PartitionRead
from goqueue.storage.region import Chunk

if TYPE_CHECKING:
    from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
    from goqueue.reading.remote_fetch import RemoteFetch
    from goqueue.topics.routes import Routes
    from goqueue.wire.kafka.reading import Struct

LANE_RUN: Final = struct.Struct(">Bqq")
"""A lane that is not the normal one, and the first and the end offset of messages in it."""


class RemoteSource:
    """What is known here of a partition of another node."""

    is_leading = False

    def __init__(
        self,
        partition_id: TopicPartition,
        key: TopicIdPartition,
        fetch: RemoteFetch,
        routes: Routes,
    ) -> None:
        self.id = partition_id
        self.key = key
        self.leader_epoch = -1
        """Of the leader that has told the rest; -1 before the first word of any."""
        self.log_start = 0
        self.high_watermark = 0
        self.last_stable = 0
        self.lanes = LaneIndex()
        self.transactions = PartitionTransactions()
        self.marker_known = -1
        """The last marker of an aborted transaction that was told."""
        self.is_live = False
        """Whether the leader tells at the moment: of one that does not, nothing is taken. Set by
        `heard` when it does again."""
        self._fetch = fetch
        self._routes = routes
        self._waiters = (Waiters(), Waiters())

    @property
    def log_end(self) -> int:
        """As far as anybody may know, what is committed is all."""
        return self.high_watermark

    def readable_to(self, isolation: Isolation) -> int:
        """Where this kind of reader stops."""
        return self.last_stable if isolation is Isolation.READ_COMMITTED else self.high_watermark

    def waiters_for(self, isolation: Isolation) -> Waiters:
        """Where this kind of reader waits for more."""
        return self._waiters[isolation]

    def follow(self, told: Struct) -> None:
        """Take in what the leader tells; what is committed never goes back."""
        was_away = not self.is_live  # before the first word somebody may wait for just that
        self.leader_epoch = told.leader_epoch
        for lane, first, end in sorted(
            LANE_RUN.iter_unpack(told.lane_runs), key=lambda each: each[1]
        ):
            self.lanes.note(first, bytes((lane,)) * (end - first))
        self.lanes.advance_to(told.high_watermark)
        if told.aborted:
            self.transactions.load_aborted(told.aborted)
        self.marker_known = max(self.marker_known, told.high_watermark - 1)
        self.log_start = max(self.log_start, told.log_start)
        self.lanes.forget_before(self.log_start)
        self.transactions.forget_before(self.log_start)
        has_more = told.high_watermark > self.high_watermark
        has_stable = told.last_stable > self.last_stable
        self.high_watermark = max(self.high_watermark, told.high_watermark)
        self.last_stable = max(self.last_stable, told.last_stable)
        if was_away:
            self.heard()
            return
        if has_more:
            self._waiters[Isolation.READ_UNCOMMITTED].wake()
        if has_stable:
            self._waiters[Isolation.READ_COMMITTED].wake()

    def heard(self) -> None:
        """The leader tells: whoever has passed the source over meanwhile looks again."""
        if not self.is_live:
            self.is_live = True
            for waiters in self._waiters:
                waiters.wake()

    def starts_at(self, offset: int) -> None:
        """The leader has deleted what is below an offset; it tells so itself a moment later."""
        self.log_start = max(self.log_start, offset)

    async def fetch(
        self, offset: int, max_bytes: int, isolation: Isolation
    ) -> tuple[Chunk | None, int]:
        """The batches from an offset on, as the leader has them, and where to read on.

        None when there is none at all: retention or compaction has removed it. A leader that is new
        may not know yet how far its log is committed. What it does not give is not gone.

        Raises:
            TopicError, ClusterError, StorageError: the leader cannot be asked; try again.
        """
        read = PartitionRead(self.id, offset, max_bytes)
        request = FetchRequest([read], 0, max_bytes=max_bytes, isolation=isolation)
        node_id = self._routes.leader_of(self.id)
        (found,) = await self._fetch.fetch(node_id, request, [read])
        error = found.error
        if isinstance(error, OffsetOutOfRangeError) and offset < error.log_start:
            return None, error.log_start
        if error is not None:
            raise error
        is_stable = isolation is Isolation.READ_COMMITTED
        readable_to = found.last_stable if is_stable else found.high_watermark
        if offset >= readable_to:
            raise OffsetNotAvailableError(
                f"{self.id} is known by its leader to be committed up to offset {readable_to}, "
                f"which is not past {offset}: try again"
            )
        if not found.data:
            return None, readable_to
        chunk = Chunk(found.data, found.next_offset, found.count)
        return chunk, found.next_offset
