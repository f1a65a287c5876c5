"""Browsing: messages of a topic by offset, time, key and text, the newest or the oldest first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.paths import TopicPath
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.rights import READ, on_topic
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.shapes import doc
from goqueue.protocols.http.limits import MAX_SEARCH_RESULTS
from goqueue.protocols.http.messages.message_shapes import (
    DecodedOut,
    HeaderOut,
    MessageOut,
    headers_out,
    priority_label,
    text_of,
)
from goqueue.protocols.http.messages.search_filters import (
    Direction,
    SearchFilters,
    find,
    first_spans,
)
from goqueue.protocols.permissions import Permissions
from goqueue.reading.search import SHOWN_BYTES
from goqueue.reading.time_range import Span

if TYPE_CHECKING:
    from goqueue.insight.decoding import Decoded
    from goqueue.reading.searching import Hit
    from goqueue.records import Headers, Record
    from goqueue.topics.catalogue import Topic
    from goqueue.tracing.tracer import Tracer

_TAG: Final = "messages"
_CURSOR: Final = re.compile(r"\d{1,9}:\d{1,18}-\d{1,18}(?:,\d{1,9}:\d{1,18}-\d{1,18})*", re.ASCII)


class SearchQuery(SearchFilters, forbid_unknown_fields=True):
    """Filters, all of which must match. Repeat them with a `cursor`."""

    limit: Annotated[int, doc("The most messages to return.", 50, ge=1, le=MAX_SEARCH_RESULTS)] = 50
    cursor: Annotated[str | None, doc("From the last response.")] = None


class FoundMessage(MessageOut, kw_only=True):
    """A matching message; fields over 64 KB are truncated."""

    timestamp_type: Annotated[Literal["create", "append"], doc("Type of the timestamp.", "create")]
    size_bytes: Annotated[int, doc("Size of key, value and headers.", 120)]
    trace_id: Annotated[str | None, doc("The trace id, if the message is traced.")] = None
    truncated: Annotated[
        bool, doc("Whether a field was truncated; read the message to get all of it.")
    ] = False
    decoded: DecodedOut | None = None
    decode_error: Annotated[str | None, doc("Why the value could not be decoded.")] = None


class SearchAnswer(msgspec.Struct):
    """Matching messages, and the cursor of the next page."""

    messages: list[FoundMessage]
    cursor: Annotated[str | None, doc("The cursor of the next request; null at the end.")]
    complete: Annotated[bool, doc("Whether the search has reached the end.")]
    scanned: Annotated[int, doc("Messages examined by this request.", 1200)]


class SearchRoutes(BrokerRoutes):
    """Browsing."""

    @route("GET", "/topics/{topic}/search", right=on_topic(READ), tag=_TAG, place=LOCAL)
    async def search(self, path: TopicPath, query: SearchQuery, may: Permissions) -> SearchAnswer:
        """Search a topic by partition, offset, time, key, text and JSON.

        One request examines a bounded range, so it may return fewer messages than match, or none:
        continue with the `cursor` until the response is `complete`. Without filters the newest
        messages are returned at once.
        """
        broker = self._broker
        topic = broker.topics.catalogue.topic(path.topic)
        if query.cursor is not None:
            spans = _spans(query.cursor, query.direction, topic)
        else:
            spans = await first_spans(broker, topic, query)
        found = await find(broker, may, topic, query, spans, limit=query.limit)
        hits = [hit for hit, _ in found.messages]
        await broker.tracer.learn(topic, ((e.partition, e.record.offset) for e in hits))
        return SearchAnswer(
            [_message(topic, hit, value, broker.tracer) for hit, value in found.messages],
            _cursor(found.rest, query.direction) if found.rest else None,
            not found.rest,
            found.scanned,
        )


def _cursor(rest: list[Span], direction: Direction) -> str:
    return direction[0] + ",".join(f"{s.partition}:{s.start}-{s.end}" for s in rest)


def _spans(cursor: str, direction: Direction, topic: Topic) -> list[Span]:
    if cursor[:1] != direction[0] or not _CURSOR.fullmatch(cursor, 1):
        raise FieldError(
            "cursor is not a cursor of an earlier response with the same filters",
            field="cursor",
            location="query",
            expected="`cursor` of the last response",
        )
    parts = (re.split("[:-]", part) for part in cursor[1:].split(","))
    spans = {int(number): Span(int(number), int(first), int(end)) for number, first, end in parts}
    return [span for span in spans.values() if span.partition < topic.partition_count]


# --- Messages ------------------------------------------------------------------------------------


def _message(topic: Topic, hit: Hit, decoded: Decoded | str | None, tracer: Tracer) -> FoundMessage:
    record = hit.record
    key, key_encoding = text_of(_cut(record.key))
    value, encoding = text_of(_cut(record.value))
    return FoundMessage(
        topic=topic.name,
        partition=hit.partition,
        offset=record.offset,
        timestamp=record.timestamp_ms,
        key=key,
        value=value,
        headers=_headers(record.headers),
        encoding=encoding,
        key_encoding=key_encoding,
        priority=priority_label(record.headers) if record.headers else "normal",
        timestamp_type="append" if hit.batch.is_log_append_time else "create",
        size_bytes=_size(record),
        trace_id=tracer.trace_id(topic, hit.partition, record),
        truncated=_is_long(record),
        **_decoded(decoded),
    )


def _decoded(found: Decoded | str | None) -> dict[str, Any]:
    if found is None:
        return {}
    if isinstance(found, str):
        return {"decode_error": found[:1000]}
    if len(found.json) > SHOWN_BYTES:
        return {"decode_error": f"decoded it has {len(found.json)} characters, too many to show"}
    return {"decoded": DecodedOut(*found)}


def _headers(headers: Headers) -> list[HeaderOut]:
    return headers_out(tuple((name[:SHOWN_BYTES], _cut(value)) for name, value in headers))


def _cut(data: bytes | None) -> bytes | None:
    """No more than is shown; a character of UTF-8 is not torn apart."""
    if data is None or len(data) <= SHOWN_BYTES:
        return data
    end = SHOWN_BYTES
    while end > SHOWN_BYTES - 4 and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


def _is_long(record: Record) -> bool:
    parts = [record.key, record.value, *(value for _, value in record.headers)]
    return any(part is not None and len(part) > SHOWN_BYTES for part in parts)


def _size(record: Record) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    return size + sum(len(name) + len(value or b"") for name, value in record.headers)
