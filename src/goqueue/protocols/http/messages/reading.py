"""Messages, read without being in a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec.structs import replace

from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.http.api.codecs import (
    Duration,
    Time,
    duration_ms,
    time_ms,
)
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.paths import PartitionPath, TopicPath
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.rights import READ, TOPIC_READ, on_topic
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.shapes import PartitionNumber, doc
from goqueue.protocols.http.limits import MAX_READ_BYTES, MAX_READ_WAIT_MS
from goqueue.protocols.http.messages.decoding import decoded_by_schema
from goqueue.protocols.http.messages.message_shapes import (
    Decode,
    Limit,
    MessageOut,
    OutEncoding,
    RangeAnswer,
    ReadAnswer,
    message_out,
)
from goqueue.protocols.permissions import Permissions
from goqueue.reading.positions import EARLIEST, LATEST, Anchor, Position
from goqueue.reading.time_range import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.reading.stored_messages import MessagesRead, StoredMessage

_MORE_ROUNDS: Final = 4
_TAG: Final = "messages"


# --- Reading -------------------------------------------------------------------------------------


class ReadQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Where to start and how much to read; from the earliest message by default."""

    offset: Annotated[
        int | Literal["earliest", "latest"] | None, doc("The first offset to read.", 0)
    ] = None
    time: Annotated[
        Time | None, doc("Start at the first message with this timestamp or a later one.")
    ] = None
    limit: Limit = 100
    wait: Annotated[Duration, doc("How long to wait for the first message, up to 20s.", "0s")] = 0
    encoding: OutEncoding = "auto"
    decode: Decode = "none"


class RangeQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The time range to read, and the page size."""

    from_time: Annotated[Time | None, doc("The beginning of the topic if omitted.")] = None
    to_time: Annotated[Time | None, doc("The current end of the topic if omitted.")] = None
    partition: Annotated[PartitionNumber | None, doc("Restrict to this one.")] = None
    limit: Limit = 100
    cursor: Annotated[str | None, doc("`next` of the last response.")] = None
    encoding: OutEncoding = "auto"
    decode: Decode = "none"


class MessageRoutes(BrokerRoutes):
    """Reading."""

    @route(
        "GET",
        "/topics/{topic}/partitions/{partition}/messages",
        right=on_topic(READ),
        tag=_TAG,
        place=LOCAL,
    )
    async def read(self, path: PartitionPath, query: ReadQuery, may: Permissions) -> ReadAnswer:
        """Read a partition from an offset or a time.

        Reads are stateless: continue at `next_offset`.
        """
        wait_ms = duration_ms(query.wait, "wait", at_most_ms=MAX_READ_WAIT_MS)
        partition_id = TopicPartition(path.topic, path.partition)
        start = await self._broker.positions.offset_of(partition_id, _position(query))
        found = await self._read(partition_id, start, query.limit, wait_ms)
        if wait_ms:
            may.require(TOPIC_READ, path.topic)  # also now
        return ReadAnswer(
            await self._shown(may, found.messages, query),
            found.next_offset,
            found.high_watermark,
            found.log_start,
        )

    async def _read(
        self, partition: TopicPartition, offset: int, limit: int, wait_ms: int
    ) -> MessagesRead:
        """Read on over the ends of segments, so that a short answer mostly means the end."""
        reader = self._broker.reader
        found = await reader.read(
            partition, offset, limit=limit, max_bytes=MAX_READ_BYTES, max_wait_ms=wait_ms
        )
        for _ in range(_MORE_ROUNDS):
            missing = limit - len(found.messages)
            if not missing or found.next_offset >= found.high_watermark:
                break
            more = await reader.read(
                partition, found.next_offset, limit=missing, max_bytes=MAX_READ_BYTES
            )
            found = replace(more, messages=found.messages + more.messages)
        return found

    @route("GET", "/topics/{topic}/messages", right=on_topic(READ), tag=_TAG, place=LOCAL)
    async def read_range(self, path: TopicPath, query: RangeQuery, may: Permissions) -> RangeAnswer:
        """Read a time range of a topic, all partitions merged by time.

        Continue with `next` of the response as `cursor`, until it is null.
        """
        broker = self._broker
        begin = None if query.from_time is None else time_ms(query.from_time, "from_time")
        end = None if query.to_time is None else time_ms(query.to_time, "to_time")
        if query.cursor is None:
            numbers = None if query.partition is None else [query.partition]
            spans = await broker.time_ranges.spans(path.topic, begin, end, numbers)
        else:
            spans = _spans(query.cursor)
        found = await broker.time_ranges.read(
            path.topic, spans, limit=query.limit, begin_ms=begin, end_ms=end
        )
        return RangeAnswer(
            await self._shown(may, found.messages, query),
            ",".join(f"{s.partition}:{s.start}-{s.end}" for s in found.rest) or None,
        )

    async def _shown(
        self, may: Permissions, found: Sequence[StoredMessage], query: ReadQuery | RangeQuery
    ) -> list[MessageOut]:
        """Messages as the answer has them."""
        shown = [message_out(each, force_base64=query.encoding == "base64") for each in found]
        if query.decode == "none":
            return shown
        return await decoded_by_schema(self._broker.schemas, may, found, shown)


def _position(query: ReadQuery) -> Position:
    if query.time is not None:
        if query.offset is not None:
            raise FieldError(
                "offset and time are both given: expected one of them",
                field="time",
                location="query",
                expected="an offset or a time",
            )
        return Position(Anchor.TIMESTAMP, time_ms(query.time, "time"))
    if query.offset is None or query.offset == "earliest":
        return EARLIEST
    if query.offset == "latest":
        return LATEST
    return Position(Anchor.OFFSET, query.offset)


def _spans(cursor: str) -> list[Span]:
    try:
        spans = []
        for part in cursor.split(","):
            number, _, offsets = part.partition(":")
            start, _, end = offsets.partition("-")
            spans.append(Span(int(number), int(start), int(end)))
    except ValueError as error:
        raise FieldError(
            "cursor is not a cursor of an earlier response",
            field="cursor",
            location="query",
            expected="`next` of the last response",
        ) from error
    return spans
