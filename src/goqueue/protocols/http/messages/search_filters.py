"""Which messages a search or an export means, and a bounded look for them.

A JSON filter is asked of the value, and of what a schema makes of a value that names one. The
reading thread cannot decode with schemas: it keeps every value that names one, and the rest is
sorted out here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import msgspec

from goqueue.insight.decoding import Decoded, decode_values
from goqueue.model.json_filter import JsonFilter, parse_filter
from goqueue.model.json_path import JsonPathError
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.http.api.codecs import Time, time_ms
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.shapes import Offset, PartitionNumber, doc
from goqueue.protocols.http.messages.decoding import sees_subject
from goqueue.reading.search import Search
from goqueue.reading.searching import Hit, SearchFilter
from goqueue.schemas.frames import FrameFault, frame_of

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.permissions import Permissions
    from goqueue.reading.time_range import Span
    from goqueue.records import Record
    from goqueue.topics.catalogue import Topic

_MAX_NEEDLE: Final = 1000
_MAX_TIME_S: Final = 0.3
"""Of one look: values that name a schema and do not fit are looked past for so long."""

Direction: TypeAlias = Literal["newest", "oldest"]
Needle: TypeAlias = Annotated[str, msgspec.Meta(max_length=_MAX_NEEDLE)]


class SearchFilters(msgspec.Struct, forbid_unknown_fields=True):
    """Filters, all of which must match."""

    partition: Annotated[PartitionNumber | None, doc("Restrict to this one.")] = None
    offset: Annotated[Offset | None, doc("Start offset; requires a partition.")] = None
    start: Annotated[Time | None, doc("Inclusive.")] = None
    end: Annotated[Time | None, doc("Exclusive.")] = None
    key: Annotated[Needle | None, doc("Text of the key.", "customer-7")] = None
    key_match: Annotated[
        Literal["contains", "exact"],
        doc("`contains` ignores the case of ASCII letters.", "contains"),
    ] = "contains"
    text: Annotated[
        Needle | None,
        doc("Text in the value or a header, ignoring the case of ASCII letters.", "refund"),
    ] = None
    json: Annotated[
        Needle | None,
        doc("A condition on JSON values, also decoded ones.", "$.amount > 100"),
    ] = None
    direction: Annotated[Direction, doc("The order of the results.", "newest")] = "newest"


class FoundMessages(NamedTuple):
    """Messages with their decoded values, and what is left to be looked at."""

    messages: list[tuple[Hit, Decoded | str | None]]
    rest: list[Span]
    scanned: int


async def find(
    broker: Broker,
    may: Permissions,
    topic: Topic,
    query: SearchFilters,
    spans: list[Span],
    *,
    limit: int,
) -> FoundMessages:
    """Look through spans for so many messages, as far as one look goes.

    Raises:
        FieldError: a filter is none.
        StorageError, ClusterError: the disk refuses, or a leader does not answer.
    """
    condition = None if not query.json else _condition(query.json)
    wanted = _wanted(query, condition)
    deadline_s = broker.clock.monotonic_s() + _MAX_TIME_S
    messages: list[tuple[Hit, Decoded | str | None]] = []
    scanned = 0
    while True:
        found = await Search(
            broker.looks,
            broker.clock,
            wanted,
            limit - len(messages),
            newest_first=query.direction == "newest",
        ).run(topic.name, spans)
        records = [each.record for each in found.hits]
        decoded = await decode_values(broker.schemas, topic.name, records, sees_subject(may))
        pairs = zip(found.hits, decoded, strict=True)
        messages += (each for each in pairs if condition is None or _fits(condition, *each))
        scanned += found.scanned
        spans = found.rest
        is_over = not spans or len(messages) >= limit
        if condition is None or is_over or broker.clock.monotonic_s() >= deadline_s:
            return FoundMessages(messages, spans, scanned)


async def first_spans(broker: Broker, topic: Topic, query: SearchFilters) -> list[Span]:
    """Where a search begins."""
    begin, end = _times(query)
    numbers = None if query.partition is None else [query.partition]
    spans = await broker.time_ranges.spans(topic.name, begin, end, numbers)
    if query.offset is None:
        return spans
    if query.partition is None:
        raise FieldError(
            "an offset requires a partition",
            field="partition",
            location="query",
            expected="a partition, beside the offset",
        )
    if query.direction == "newest":
        return [span._replace(end=min(span.end, query.offset + 1)) for span in spans]
    return [span._replace(start=max(span.start, query.offset)) for span in spans]


def _times(query: SearchFilters) -> tuple[int | None, int | None]:
    begin = None if query.start is None else time_ms(query.start, "start")
    return begin, None if query.end is None else time_ms(query.end, "end")


def _wanted(query: SearchFilters, condition: JsonFilter | None) -> SearchFilter:
    begin, end = _times(query)
    return SearchFilter(
        key=_needle(query.key, "key"),
        key_is_whole=query.key_match == "exact",
        text=_needle(query.text, "text"),
        begin_ms=begin,
        end_ms=end,
        also=None
        if condition is None
        else lambda record: condition.matches_text(record.value) or _names_schema(record),
    )


def _condition(text: str) -> JsonFilter:
    try:
        return parse_filter(text)
    except JsonPathError as error:
        raise FieldError(
            f"json is not a valid condition: {error}",
            field="json",
            location="query",
            expected="a condition such as $.user.age > 30",
        ) from error


def _names_schema(record: Record) -> bool:
    if record.value is None:
        return False
    try:
        frame = frame_of(record.value, record.headers)
    except FrameFault:
        return False
    return frame.schema_id is not None or frame.guid is not None


def _fits(condition: JsonFilter, hit: Hit, decoded: Decoded | str | None) -> bool:
    return condition.matches_text(
        decoded.json if isinstance(decoded, Decoded) else hit.record.value
    )


def _needle(text: str | None, field: str) -> bytes | None:
    if not text:
        return None
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise FieldError(
            f"{field} is no Unicode text", field=field, location="query", expected="Unicode text"
        ) from error
