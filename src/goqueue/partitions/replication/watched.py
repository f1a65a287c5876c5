"""One replica of a follower, as the session of its connection sees it at the leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.fetch import FetchedPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.cluster.records import PartitionKey
    from goqueue.partitions.replication.led import LedPartition
    from goqueue.storage.region import Chunk
    from goqueue.wire.kafka.primitives import Buffer

PARTITION_BYTES: Final = 1024 * 1024
"""Of one partition in one answer, unless a single batch is larger."""


class WatchingSession(Protocol):
    """What a replica tells the session that it is watched by."""

    node_id: int
    incarnation: int
    heard_s: float

    def mark(self, watched: Watched) -> None:
        """There are batches for a replica."""

    def mark_told(self, watched: Watched) -> None:
        """There is a new watermark for it."""

    def drop(self, watched: Watched, code: ErrorCode) -> None:
        """There will be nothing more of a partition."""


class Watched:
    """One replica of a follower in a session: where it is, and what it was told."""

    __slots__ = ("_session", "_watermark", "key", "led", "loaded", "max_bytes", "offset")

    def __init__(self, session: WatchingSession, key: PartitionKey, led: LedPartition) -> None:
        self._session = session
        self.key = key
        self.led = led
        self.offset: int | None = None
        """What it has; None while batches are on their way to it."""
        self.max_bytes = PARTITION_BYTES
        self.loaded: Chunk | ErrorCode | None = None
        """What was read for it in a thread."""
        self._watermark = (-1, -1)

    @property
    def node_id(self) -> int:
        """Whose replica it is."""
        return self._session.node_id

    @property
    def incarnation(self) -> int:
        """Which run of the node asks."""
        return self._session.incarnation

    @property
    def heard_s(self) -> float:
        """When the session last asked for something."""
        return self._session.heard_s

    def appended(self) -> None:
        """There is more to be had."""
        if self.offset is not None:
            self._session.mark(self)

    def watermark_moved(self) -> None:
        """There is something to be told, with the next batches or a little later."""
        if self.offset is not None:
            self._session.mark_told(self)

    def ended(self) -> None:
        """This node does not lead the partition any more."""
        self._session.drop(self, ErrorCode.not_leader_or_follower)

    @property
    def has_news(self) -> bool:
        """Whether the follower does not know where the log starts and how far it is committed."""
        partition = self.led.partition
        return self._watermark != (partition.high_watermark, partition.log_start)

    def told(self, records: Sequence[Buffer] = ()) -> FetchedPartition:
        """What the follower is told, with the batches that it has asked for.

        The last stable offset is none of a follower's business; in its place stands the end of the
        log, by which it knows how much it lacks.
        """
        partition = self.led.partition
        high_watermark, log_start = self._watermark = partition.high_watermark, partition.log_start
        return FetchedPartition(
            self.key.partition,
            ErrorCode.none,
            high_watermark,
            partition.log_end,
            log_start,
            records,
        )
