"""Messages: publish them, and read them back without being in a group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import msgspec

from goqueue.broker.messages import NewMessage
from goqueue.broker.partition import PartitionId
from goqueue.broker.positions import EARLIEST, LATEST, Anchor, Position, offset_of
from goqueue.broker.publish import Acks
from goqueue.broker.time_range import Span, read_spans, spans_between
from goqueue.protocols.http.codecs import Duration, Encoding, Time, duration_ms, time_ms, to_bytes
from goqueue.protocols.http.errors import FieldError
from goqueue.protocols.http.message_shapes import MessageOut, message_out
from goqueue.protocols.http.problems import kind_of
from goqueue.protocols.http.routing import route
from goqueue.protocols.http.shapes import PartitionNumber, PartitionPath, TopicPath, doc

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.broker.messages import MessageResult, MessagesRead

PUBLISH_BODY_BYTES: Final = 16 * 1024 * 1024
MAX_MESSAGES: Final = 10_000
"""Of one publish; more are refused with 400."""
MAX_LIMIT: Final = 1000
MAX_READ_BYTES: Final = 4 * 1024 * 1024
MAX_WAIT_MS: Final = 20_000
_MORE_ROUNDS: Final = 4
_TAG: Final = "messages"
_ACKS: Final = {"all": Acks.ALL, "leader": Acks.LEADER, "none": Acks.NONE}

Limit: TypeAlias = Annotated[int, doc("The most messages to return.", 100, ge=1, le=MAX_LIMIT)]
OutEncoding: TypeAlias = Annotated[
    Literal["auto", "base64"],
    doc("`auto` writes what is UTF-8 as text and the rest as base64.", "auto"),
]


# --- Publishing ----------------------------------------------------------------------------------


class HeaderIn(msgspec.Struct, forbid_unknown_fields=True):
    """A header of a message to be published."""

    name: Annotated[str, doc("The same name may occur several times.", "source")]
    value: Annotated[str | None, doc("Null is a header without a value.", "web")]
    encoding: Annotated[Encoding, doc("How `value` is written.", "text")] = "text"


class MessageIn(msgspec.Struct, forbid_unknown_fields=True):
    """A message to be published."""

    value: Annotated[str | None, doc("Null is a tombstone.", '{"id": 1}')]
    key: Annotated[str | None, doc("Messages of a key keep their order.", "customer-7")] = None
    headers: Annotated[
        dict[str, str] | list[HeaderIn], doc("Texts by name, or a list.", {"source": "web"})
    ] = []
    partition: Annotated[
        int | None, doc("If left out, the key chooses, or the message's turn.")
    ] = None
    timestamp: Annotated[Time | None, doc("Now, if left out.")] = None
    encoding: Annotated[Encoding, doc("How `value` is written.", "text")] = "text"
    key_encoding: Annotated[Encoding, doc("How `key` is written.", "text")] = "text"


class PublishBody(msgspec.Struct, forbid_unknown_fields=True):
    """Messages for one topic."""

    messages: Annotated[list[MessageIn], msgspec.Meta(min_length=1, max_length=MAX_MESSAGES)]
    acks: Annotated[
        Literal["all", "leader", "none"], doc("Who must have a message before the answer.", "all")
    ] = "all"


class PublishResult(msgspec.Struct, omit_defaults=True):
    """What became of one message: its place, or why it has none."""

    status: Annotated[int, doc("200, or what a request with this message alone would get.", 200)]
    partition: Annotated[int | None, doc("Where it is.", 0)] = None
    offset: Annotated[int | None, doc("Where it is in the partition.", 42)] = None
    timestamp: Annotated[int | None, doc("When it was published, in ms.", 1767225600000)] = None
    code: Annotated[str | None, doc("Why it was refused, for programs.")] = None
    error: Annotated[str | None, doc("Why it was refused, for people.")] = None
    field: Annotated[str | None, doc("The field at fault.")] = None
    retriable: Annotated[bool | None, doc("Whether it may be accepted later.")] = None


class PublishAnswer(msgspec.Struct):
    """One result for each message, in their order."""

    results: list[PublishResult]


# --- Reading -------------------------------------------------------------------------------------


class ReadQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Where to read and how much; without a place, from the earliest message on."""

    offset: Annotated[
        int | Literal["earliest", "latest"] | None, doc("The first message to read.", 0)
    ] = None
    time: Annotated[Time | None, doc("Read from the first message from then on.")] = None
    limit: Limit = 100
    wait: Annotated[Duration, doc("How long to wait for a first message, up to 20s.", "0s")] = 0
    encoding: OutEncoding = "auto"


class ReadAnswer(msgspec.Struct):
    """Messages in their order, and where to go on."""

    messages: list[MessageOut]
    next_offset: Annotated[int, doc("The offset to ask for next.", 43)]
    high_watermark: Annotated[int, doc("Messages below can be read.", 120)]
    earliest_offset: Annotated[int, doc("The first message that is still there.", 0)]


class RangeQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which stretch of time to read, and how much of it at once."""

    from_time: Annotated[Time | None, doc("The beginning of the topic, if left out.")] = None
    to_time: Annotated[Time | None, doc("The end of the topic as it is now, if left out.")] = None
    partition: Annotated[PartitionNumber | None, doc("Only this one.")] = None
    limit: Limit = 100
    cursor: Annotated[str | None, doc("As the last answer gave it in `next`.")] = None
    encoding: OutEncoding = "auto"


class RangeAnswer(msgspec.Struct):
    """Messages of several partitions, merged by time."""

    messages: list[MessageOut]
    next: Annotated[str | None, doc("The `cursor` to go on with; null at the end.")]


class MessageRoutes:
    """Publishing and reading."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @route("POST", "/topics/{topic}/messages", tag=_TAG, max_body_bytes=PUBLISH_BODY_BYTES)
    async def publish(self, path: TopicPath, body: PublishBody) -> PublishAnswer:
        """Publish messages.

        The answer is 200 also when some were refused: look at the `status` of each. A request
        that is itself at fault is refused as a whole, and nothing of it is stored.
        """
        messages = [_new_message(each, at) for at, each in enumerate(body.messages)]
        results = await self._broker.writer.publish(path.topic, messages, _ACKS[body.acks])
        return PublishAnswer([_result(each, at) for at, each in enumerate(results)])

    @route("GET", "/topics/{topic}/partitions/{partition}/messages", tag=_TAG)
    async def read(self, path: PartitionPath, query: ReadQuery) -> ReadAnswer:
        """Read a partition from an offset or a time on.

        Nothing is kept about the reader: go on with `next_offset`.
        """
        wait_ms = duration_ms(query.wait, "wait", at_most_ms=MAX_WAIT_MS)
        partition_id = PartitionId(path.topic, path.partition)
        partition = self._broker.partitions.partition(partition_id)
        start = await offset_of(self._broker, partition, _position(query))
        found = await self._read(partition_id, start, query.limit, wait_ms)
        force = query.encoding == "base64"
        return ReadAnswer(
            [message_out(each, force_base64=force) for each in found.messages],
            found.next_offset,
            found.high_watermark,
            found.log_start,
        )

    async def _read(
        self, partition: PartitionId, offset: int, limit: int, wait_ms: int
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

    @route("GET", "/topics/{topic}/messages", tag=_TAG)
    async def read_range(self, path: TopicPath, query: RangeQuery) -> RangeAnswer:
        """Read a topic across a stretch of time, all partitions merged by time.

        Go on with the `cursor` that the answer gives in `next`, until it is null.
        """
        broker = self._broker
        begin = None if query.from_time is None else time_ms(query.from_time, "from_time")
        end = None if query.to_time is None else time_ms(query.to_time, "to_time")
        if query.cursor is None:
            numbers = None if query.partition is None else [query.partition]
            spans = await spans_between(broker, path.topic, begin, end, numbers)
        else:
            spans = _spans(query.cursor)
        found = await read_spans(
            broker, path.topic, spans, limit=query.limit, begin_ms=begin, end_ms=end
        )
        force = query.encoding == "base64"
        return RangeAnswer(
            [message_out(each, force_base64=force) for each in found.messages],
            ",".join(f"{s.partition}:{s.start}-{s.end}" for s in found.rest) or None,
        )


def _new_message(message: MessageIn, at: int) -> NewMessage:
    value, key, timestamp = message.value, message.key, message.timestamp
    return NewMessage(
        None if value is None else _bytes(value, message.encoding, at, "value"),
        None if key is None else _bytes(key, message.key_encoding, at, "key"),
        _headers(message, at) if message.headers else (),
        message.partition,
        None
        if timestamp is None
        else time_ms(timestamp, f"messages[{at}].timestamp", location="body"),
    )


def _bytes(text: str, encoding: Encoding, at: int, field: str) -> bytes:
    if encoding == "text" and text.isascii():
        return text.encode()
    return to_bytes(text, encoding, f"messages[{at}].{field}")


def _headers(message: MessageIn, at: int) -> tuple[tuple[str, bytes | None], ...]:
    place = f"messages[{at}].headers"
    if isinstance(message.headers, dict):
        return tuple(
            (_header_name(name, place), to_bytes(text, "text", f"{place}.{name}"))
            for name, text in message.headers.items()
        )
    return tuple(
        (
            _header_name(each.name, f"{place}[{number}].name"),
            None
            if each.value is None
            else to_bytes(each.value, each.encoding, f"{place}[{number}].value"),
        )
        for number, each in enumerate(message.headers)
    )


def _header_name(name: str, field: str) -> str:
    to_bytes(name, "text", field)
    return name


def _result(result: MessageResult, at: int) -> PublishResult:
    error = result.error
    if error is None:
        return PublishResult(200, result.partition, result.offset, result.timestamp_ms)
    status, code, field = kind_of(error)
    return PublishResult(
        status,
        code=code,
        error=str(error),
        field=f"messages[{at}].{field}" if field in {"partition", "value", "headers"} else field,
        retriable=error.retriable,
    )


def _position(query: ReadQuery) -> Position:
    if query.time is not None:
        if query.offset is not None:
            raise FieldError(
                "offset and time are two places: give one of them",
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
            "cursor is not one that an answer has given",
            field="cursor",
            location="query",
            expected="`next` of the last answer",
        ) from error
    return spans
