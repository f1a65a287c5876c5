"""Ranges of offsets out of a broker, as the batches lie in its log, a bounded chunk at a time.

One request asks for all ranges that one broker leads, the first in front: a task that reads sixteen
nearly empty partitions pays for one round trip, and one that reads a long partition gets nothing
but that. The next request is under way while the caller works on the last answer.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from goqueue.client.consuming.log_offsets import EARLIEST, LATEST, ask_leaders
from goqueue.client.link.codes import RetriableBrokerError, check_code
from goqueue.client.link.link import UNKNOWN
from goqueue.model.errors import GoQueueError
from goqueue.records.batch import HEADER_BYTES, BatchInfo, peek_header
from goqueue.spark.errors import DataLossError
from goqueue.spark.kafka.cluster import FETCHING
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from goqueue.spark.kafka.cluster import Cluster
    from goqueue.spark.kafka.ranges import OffsetRange
    from goqueue.wire.kafka.reading import Struct

_log = logging.getLogger(__name__)

FETCH_VERSION: Final = 13
"""The first that names topics by id: a topic made anew under an old name is never taken for it."""

_WAIT_MS: Final = 500
_MAX_RANGES: Final = 256
"""In one request. More ranges wait for their turn."""
_LEAST_BYTES: Final = 64 * 1024
_FIRST_GUESS_BYTES: Final = 256
_ROOM: Final = 1.25
_EMPTY_ANSWERS: Final = 3
"""After so many, nothing is left of the range, or its leader does not know yet what is."""


class Chunk(NamedTuple):
    """Whole batches of one range, one after the other."""

    source: OffsetRange
    position: int
    """The first offset that was asked for; records below it are not wanted."""
    data: memoryview
    batches: Sequence[tuple[int, BatchInfo]]
    """Where each batch starts, and its header."""
    aborted: Sequence[tuple[int, int]]
    """Producer id and first offset of the transactions that were aborted, in order."""


@dataclass(slots=True)
class _Progress:
    """How far one range has been read. Invariant: `source.start <= position <= source.end`."""

    source: OffsetRange
    position: int
    record_bytes: float = _FIRST_GUESS_BYTES
    empty_answers: int = 0
    readable_to: int = 0
    """What the last empty answer said of the end of the log."""

    @property
    def is_done(self) -> bool:
        return self.position >= self.source.end

    def wanted_bytes(self, chunk_bytes: int) -> int:
        expected = (self.source.end - self.position) * self.record_bytes * _ROOM
        return int(min(chunk_bytes, max(expected, _LEAST_BYTES)))


class RangeFetcher:
    """Reads ranges to their ends, across lost connections and brokers that start again."""

    def __init__(
        self,
        cluster: Cluster,
        ranges: Sequence[OffsetRange],
        *,
        isolation: int,
        chunk_bytes: int,
        fail_on_data_loss: bool,
    ) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._chunk_bytes = chunk_bytes
        self._fail_on_data_loss = fail_on_data_loss
        self._open = [_Progress(each, each.start) for each in ranges if each.size > 0]

    def chunks(self) -> Iterator[Chunk]:
        """Every batch of the ranges, in the order of the ranges and of their offsets.

        Raises:
            DataLossError: offsets are gone, and that is to be an error.
            BrokerAwayError: the broker did not come back in time.
        """
        ahead = self._ask_ahead()
        try:
            while ahead is not None:
                found = ahead.result()
                ahead = self._ask_ahead()
                yield from found
        finally:
            if ahead is not None:
                ahead.cancel()

    def _ask_ahead(self) -> Future[list[Chunk]] | None:
        """Begin to fetch what comes next; None at the end of all ranges."""
        self._open = [each for each in self._open if not each.is_done]
        return self._cluster.start("reading", self._next) if self._open else None

    async def _next(self) -> list[Chunk]:
        """Fetch from the broker that leads the first range that is open."""
        first = self._open[0]
        leader = await self._leader(first)
        if leader is None:
            self._lose(first, first.source.end, "the topic was deleted")
            return []
        others = self._open[1:_MAX_RANGES]
        asked = [first, *[each for each in others if await self._leader(each) == leader]]
        answer = await self._cluster.link.ask(
            ApiKey.FETCH,
            FETCH_VERSION,
            node=leader,
            lane=FETCHING,
            wait_s=_WAIT_MS / 1000,
            **self._request(asked),
        )
        check_code(answer.error_code, "fetch")
        by_place = {(each.source.topic_id, each.source.partition): each for each in asked}
        found, refused = [], []
        for topic in answer.responses:
            for part in topic.partitions:
                progress = by_place[str(topic.topic_id), part.partition_index]
                if part.error_code:
                    refused.append((progress, part.error_code))
                elif chunk := self._take(progress, part, is_first=progress is first):
                    found.append(chunk)
        await self._handle_all(refused, may_wait=bool(found))
        if not found:
            await self._check_end(first)
        return found

    async def _leader(self, progress: _Progress) -> int | None:
        try:
            return await self._cluster.link.leader(progress.source.place)
        except UNKNOWN:
            return None  # said when it is first in line

    def _request(self, asked: Sequence[_Progress]) -> dict[str, Any]:
        topics: dict[str, list[dict[str, int]]] = {}
        for each in asked:
            topics.setdefault(each.source.topic_id, []).append(
                {
                    "partition": each.source.partition,
                    "fetch_offset": each.position,
                    "partition_max_bytes": each.wanted_bytes(self._chunk_bytes),
                }
            )
        return {
            "max_wait_ms": _WAIT_MS,
            "min_bytes": 1,
            "max_bytes": self._chunk_bytes,
            "isolation_level": self._isolation,
            "topics": [
                {"topic_id": UUID(topic_id), "partitions": partitions}
                for topic_id, partitions in topics.items()
            ],
            "forgotten_topics_data": [],
        }

    async def _handle_all(
        self, refused: Sequence[tuple[_Progress, int]], *, may_wait: bool
    ) -> None:
        """See to the partitions that answered with an error.

        Where others had data, that data is counted as read and must be handed out first: what can
        be tried again is left for the next request.
        """
        for progress, code in refused:
            try:
                await self._handle(progress, code)
            except GoQueueError as error:
                if not (may_wait and error.retriable):
                    raise

    def _take(self, progress: _Progress, part: Struct, *, is_first: bool) -> Chunk | None:
        """Move on by what one partition answered."""
        data = part.records if part.records is not None else memoryview(b"")
        batches = list(whole_batches(data))
        if not batches or batches[-1][1].next_offset <= progress.position:
            progress.empty_answers += is_first
            progress.readable_to = part.last_stable_offset
            return None
        position = progress.position
        last_at, last = batches[-1]
        count = sum(info.count for _, info in batches)
        progress.record_bytes = (last_at + last.size_bytes) / max(count, 1)
        progress.position = min(last.next_offset, progress.source.end)
        progress.empty_answers = 0
        aborted = [
            (each.producer_id, each.first_offset) for each in part.aborted_transactions or ()
        ]
        return Chunk(progress.source, position, data, batches, sorted(aborted, key=lambda a: a[1]))

    async def _check_end(self, progress: _Progress) -> None:
        """Nothing came, again and again, though the range is not at its end.

        Either the rest was compacted away, or the log ends before, or its leader is new: it learns
        from its followers how far its predecessor had committed, and says no end until then.
        """
        if progress.empty_answers < _EMPTY_ANSWERS:
            return
        source = progress.source
        if progress.readable_to >= source.end:
            progress.position = source.end
            return
        places = {source.place: LATEST}
        end = (await ask_leaders(self._cluster.link, places, self._isolation))[source.place]
        if end < source.end:
            self._lose(progress, source.end, f"the log ends at {end}")
        progress.empty_answers = 0

    # --- What is not there any more --------------------------------------------------------------

    async def _handle(self, progress: _Progress, code: int) -> None:
        source = progress.source
        if code == ErrorCode.offset_out_of_range:
            places = {source.place: EARLIEST}
            earliest = (await ask_leaders(self._cluster.link, places))[source.place]
            if earliest > progress.position:
                self._lose(progress, earliest, f"the log starts at {earliest}")
            else:
                self._lose(progress, source.end, "the log ends before")
        elif code in {ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition}:
            await self._check_topic(progress)
        elif code in {ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch}:
            self._cluster.link.misled(source.place)
            raise RetriableBrokerError(f"{source} has another leader")
        else:
            check_code(code, f"reading {source}")

    async def _check_topic(self, progress: _Progress) -> None:
        """The broker does not know the id: is the topic gone, or is the broker behind?"""
        source = progress.source
        now = (await self._cluster.describe([source.topic])).get(source.topic)
        if now is not None and now.topic_id == source.topic_id:
            raise RetriableBrokerError(f"{source} is not served yet")
        reason = "the topic was deleted" + ("" if now is None else " and recreated")
        self._lose(progress, source.end, reason)

    def _lose(self, progress: _Progress, to: int, reason: str) -> None:
        """Step over offsets that are gone, or refuse to."""
        source = progress.source
        to = min(to, source.end)
        text = (
            f"offsets {progress.position} to {to - 1} of {source.topic}-{source.partition} "
            f"are gone: {reason}"
        )
        if self._fail_on_data_loss:
            raise DataLossError(f"{text}. Set failOnDataLoss=false to continue without them.")
        _log.warning("%s; continuing, because failOnDataLoss=false", text)
        progress.position = to


def whole_batches(data: memoryview) -> Iterator[tuple[int, BatchInfo]]:
    """Position and header of each batch that is there to its end; the last may be cut off."""
    position, end = 0, len(data)
    while end - position >= HEADER_BYTES:
        info = peek_header(data, position)
        if position + info.size_bytes > end:
            return
        yield position, info
        position += info.size_bytes
