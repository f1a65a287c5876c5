"""The `sources` of a YAML file: topics, and tables on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.spark.pipelines.model import Source, TableFormat, TableSource, TopicSource, Watermark
from goqueue.spark.pipelines.paths import beside

if TYPE_CHECKING:
    from goqueue.spark.pipelines.files.fields import Fields

VALUE_FORMATS: Final = ("binary", "json", "avro", "protobuf", "confluent")
FORMATS: Final = {each.value: each for each in TableFormat}
_SUBSCRIPTIONS: Final = ("topic", "topics", "pattern")
_TOPIC_KEYS: Final = (
    *_SUBSCRIPTIONS,
    "format",
    "schema",
    "starting",
    "watermark",
    "columns",
    "flatten",
    "streaming",
    "options",
)
_TABLE_KEYS: Final = ("schema", "options")
_FOR_TOPICS: Final = dict.fromkeys(set(_TOPIC_KEYS) - set(_TABLE_KEYS), "topics")
EXPECTED: Final = "a source such as {topic: orders} or {parquet: ./customers}"


def read_source(fields: Fields, name: str, folder: str) -> Source | None:
    """One source; None when it cannot be told what it is."""
    kind = fields.only_kind(
        (*_SUBSCRIPTIONS, *FORMATS),
        _TOPIC_KEYS,
        several="a source is one thing, and this is {}: keep one",
        none=f"nothing says what is read: expected {', '.join((*_SUBSCRIPTIONS, *FORMATS))}",
    )
    if kind is None:
        return None
    if kind in FORMATS:
        return _table(fields, name, FORMATS[kind], folder)
    return _topic(fields, name, kind)


def _topic(fields: Fields, name: str, kind: str) -> TopicSource | None:
    fields.only(_TOPIC_KEYS)
    topics = fields.texts(kind) if kind != "pattern" else ()
    if kind == "topic" and len(topics) > 1:
        fields.problem("topic is one topic: write topics for several", "topic")
    pattern = fields.text("pattern")
    source = TopicSource(
        name=name,
        topics=topics,
        pattern=pattern,
        value_format=fields.choice("format", {each: each for each in VALUE_FORMATS}, "binary"),
        value_schema=fields.text("schema"),
        starting=fields.text("starting"),
        watermark=read_watermark(fields),
        columns=fields.texts("columns"),
        flatten=fields.flag("flatten", default=True),
        streaming=fields.flag("streaming", default=True),
        options=fields.options("options", "options of the source, as in {failOnDataLoss: false}"),
        line=fields.place.line,
    )
    return source if topics or pattern else None


def _table(fields: Fields, name: str, kind: TableFormat, folder: str) -> TableSource | None:
    fields.only((kind.value, *_TABLE_KEYS), _FOR_TOPICS)
    path = fields.text(kind.value)
    options = fields.options("options", "options of Spark's reader, as in {header: true}")
    schema = fields.text("schema")
    if path is None:
        return None
    return TableSource(
        name=name,
        format=kind,
        path=beside(path, folder),
        schema=schema,
        options=options,
        line=fields.place.line,
    )


def read_watermark(fields: Fields) -> Watermark | None:
    """`watermark: {column: at, delay: 1 minute}`."""
    inner = fields.inner("watermark", "a watermark such as {column: at, delay: 1 minute}")
    if inner is None:
        return None
    inner.only(("column", "delay"))
    column = inner.text("column", required="the column of time that rows are late by")
    delay = inner.duration(
        "delay", required="how late a row may be, such as 1 minute", can_be_zero=True
    )
    return None if column is None or delay is None else Watermark(column, delay)
