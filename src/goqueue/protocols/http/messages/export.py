"""Messages of a topic as a file: JSON lines, CSV, or Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from goqueue.access.tenants.namespace import namespace_of
from goqueue.insight.decoding import Decoded
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.paths import TopicPath
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.responses import Response, encode
from goqueue.protocols.http.api.rights import READ, on_topic
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.shapes import doc
from goqueue.protocols.http.limits import MAX_EXPORT_MESSAGES
from goqueue.protocols.http.messages.message_shapes import (
    DecodedOut,
    MessageOut,
    headers_out,
    text_of,
)
from goqueue.protocols.http.messages.search_filters import SearchFilters, find, first_spans
from goqueue.protocols.permissions import Permissions
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from goqueue.reading.searching import Hit

    Message = tuple[Hit, Decoded | str | None]

_TAG: Final = "messages"
_AT_ONCE: Final = 500
_MAX_BYTES: Final = 64 * 1024 * 1024
"""Keys, values and headers of one file; it ends there."""
_MAX_TIME_S: Final = 20.0
"""How long messages are looked for; the file has what was found until then."""
_TYPES: Final = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


class ExportQuery(SearchFilters, forbid_unknown_fields=True):
    """Filters as of a search, and the format of the file."""

    format: Annotated[
        Literal["jsonl", "csv", "parquet"], doc("Parquet needs `goqueue[arrow]`.", "jsonl")
    ] = "jsonl"
    limit: Annotated[
        int, doc("The most messages of the file.", 10000, ge=1, le=MAX_EXPORT_MESSAGES)
    ] = 10_000


class ExportRoutes(BrokerRoutes):
    """Messages as files."""

    @route(
        "GET",
        "/topics/{topic}/export",
        right=on_topic(READ),
        tag=_TAG,
        place=LOCAL,
        answers={200: tuple(each.partition(";")[0] for each in _TYPES.values())},
    )
    async def export(self, path: TopicPath, query: ExportQuery, may: Permissions) -> Response:
        """Export the messages that a search finds as JSON lines, CSV or Parquet.

        The file ends after `limit` messages, 64 MB or 20 s of reading. The response header
        `x-goqueue-complete` says whether it has all that match, `x-goqueue-messages` how many.
        """
        broker = self._broker
        if query.format == "parquet":
            _check_arrow()
        topic = broker.topics.catalogue.topic(path.topic)
        spans = await first_spans(broker, topic, query)
        deadline_s = broker.clock.monotonic_s() + _MAX_TIME_S
        messages: list[Message] = []
        left_bytes = _MAX_BYTES
        while spans and len(messages) < query.limit and left_bytes > 0:
            room = min(query.limit - len(messages), _AT_ONCE)
            found = await find(broker, may, topic, query, spans, limit=room)
            messages += found.messages
            left_bytes -= sum(_size(hit) for hit, _ in found.messages)
            spans = found.rest
            if broker.clock.monotonic_s() >= deadline_s:
                break
        write = {"jsonl": _json_lines, "csv": _csv, "parquet": _parquet}[query.format]
        shown = _shown(path.topic, may)
        body = await in_thread(broker.executor, partial(write, shown, messages))
        name = "".join(each if each.isalnum() or each in "._-" else "_" for each in shown)
        return Response(
            200,
            body,
            _TYPES[query.format],
            (
                ("content-disposition", f'attachment; filename="{name}.{query.format}"'),
                ("x-goqueue-messages", str(len(messages))),
                ("x-goqueue-complete", "false" if spans else "true"),
            ),
        )


def _shown(topic: str, may: Permissions) -> str:
    """The name that the client has asked for; nothing else takes a file out of a namespace."""
    tenant = may.principal.tenant
    return topic if tenant is None else namespace_of(tenant).outside(topic)


def _size(hit: Hit) -> int:
    record = hit.record
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def _json_lines(topic: str, messages: list[Message]) -> bytes:
    return b"".join(encode(_line(topic, *each)) + b"\n" for each in messages)


def _line(topic: str, hit: Hit, decoded: Decoded | str | None) -> MessageOut:
    record = hit.record
    key, key_encoding = text_of(record.key)
    value, encoding = text_of(record.value)
    return MessageOut(
        topic=topic,
        partition=hit.partition,
        offset=record.offset,
        timestamp=record.timestamp_ms,
        key=key,
        value=value,
        headers=headers_out(record.headers),
        encoding=encoding,
        key_encoding=key_encoding,
        decoded=DecodedOut(*decoded) if isinstance(decoded, Decoded) else msgspec.UNSET,
    )


def _csv(topic: str, messages: list[Message]) -> bytes:
    del topic
    file = io.StringIO(newline="")
    rows = csv.writer(file)
    rows.writerow(("partition", "offset", "time", "key", "value", "headers"))
    for hit, decoded in messages:
        record = hit.record
        shown = decoded.json if isinstance(decoded, Decoded) else text_of(record.value)[0]
        time = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).isoformat()
        headers = encode(headers_out(record.headers)).decode() if record.headers else ""
        rows.writerow((hit.partition, record.offset, time, text_of(record.key)[0], shown, headers))
    return file.getvalue().encode(errors="replace")


def _check_arrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise FieldError(
            "format is parquet, and pyarrow is not installed on this server: pip install "
            "'goqueue[arrow]'",
            field="format",
            location="query",
            expected="jsonl or csv",
        ) from error


def _parquet(topic: str, messages: list[Message]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - an extra, and slow to import
    from pyarrow import parquet  # noqa: PLC0415

    del topic
    header = pa.struct([pa.field("name", pa.string()), pa.field("value", pa.binary())])
    fields: list[pa.Field[Any]] = [
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(header)),
        pa.field("decoded", pa.string()),
    ]
    rows = [
        {
            "partition": hit.partition,
            "offset": hit.record.offset,
            "timestamp": hit.record.timestamp_ms,
            "key": hit.record.key,
            "value": hit.record.value,
            "headers": [{"name": name, "value": data} for name, data in hit.record.headers],
            "decoded": decoded.json if isinstance(decoded, Decoded) else None,
        }
        for hit, decoded in messages
    ]
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows, schema=pa.schema(fields)), file)
    return file.getvalue()
