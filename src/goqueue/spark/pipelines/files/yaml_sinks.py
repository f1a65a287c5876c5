"""The `sinks` of a YAML file: topics, tables, the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.spark.pipelines.durations import duration_hint, duration_us
from goqueue.spark.pipelines.model import (
    ConsoleSink,
    OutputMode,
    Sink,
    TableFormat,
    TableSink,
    TopicSink,
    Trigger,
)
from goqueue.spark.pipelines.paths import beside
from goqueue.spark.pipelines.yaml_nodes import Scalar
from goqueue.spark.wording import nearest, shown

if TYPE_CHECKING:
    from goqueue.spark.pipelines.files.fields import Fields

EXPECTED: Final = "a sink such as {from: valid, topic: clean} or {from: valid, delta: ./lake}"
WRITABLE: Final = (TableFormat.PARQUET, TableFormat.DELTA, TableFormat.ICEBERG)
_KINDS: Final = ("topic", *(each.value for each in TableFormat), "console")
_SHARED: Final = ("from", "mode", "trigger")
_OF_TOPIC: Final = ("topic", "key", "value", "create", "options")
_OF_TABLE: Final = ("partition_by", "options")
_HOMES: Final = {
    "key": "topics",
    "value": "topics",
    "create": "topics",
    "partition_by": "tables",
    "options": "topics and tables",
}
_MODES: Final = {each.value: each for each in OutputMode}
_DEFAULT_ROWS: Final = 20
AVAILABLE_NOW: Final = "available-now"
AS_FAST: Final = "as-fast-as-possible"


def read_sink(fields: Fields, name: str, folder: str) -> Sink | None:
    """One sink; None when it cannot be told where it writes."""
    kind = fields.only_kind(
        _KINDS,
        (*_SHARED, *_OF_TOPIC, *_OF_TABLE),
        several="a sink writes to one place, and this to {}: keep one",
        none="nothing says where it writes: expected topic, parquet, delta, iceberg or console",
    )
    if kind is None:
        return None
    if kind == "topic":
        return _topic(fields, name)
    if kind == "console":
        return _console(fields, name)
    return _table(fields, name, TableFormat(kind), folder)


def _topic(fields: Fields, name: str) -> TopicSink | None:
    fields.only((*_SHARED, *_OF_TOPIC), _HOMES)
    source = _source(fields)
    topic = fields.text("topic")
    sink = TopicSink(
        name=name,
        input=source,
        topic=topic or "",
        key=fields.text("key"),
        value=fields.text("value"),
        mode=fields.choice("mode", _MODES, OutputMode.APPEND),
        trigger=read_trigger(fields),
        create=fields.count("create", most=10_000),
        options=fields.options("options", "options of the sink, as in {partitioner: murmur2}"),
        line=fields.place.line,
    )
    return None if topic is None else sink


def _table(fields: Fields, name: str, kind: TableFormat, folder: str) -> TableSink | None:
    fields.only((*_SHARED, kind.value, *_OF_TABLE), _HOMES)
    if kind not in WRITABLE:
        fields.problem(
            f"{kind} can only be read: expected {', '.join(WRITABLE)}, topic or console", kind.value
        )
    path = fields.text(kind.value) or ""
    sink = TableSink(
        name=name,
        input=_source(fields),
        format=kind,
        path=beside(path, folder),
        partition_by=fields.texts("partition_by"),
        mode=fields.choice("mode", _MODES, OutputMode.APPEND),
        trigger=read_trigger(fields),
        options=fields.options("options", "options of the table, as in {compression: zstd}"),
        line=fields.place.line,
    )
    return sink if path and kind in WRITABLE else None


def _console(fields: Fields, name: str) -> ConsoleSink:
    fields.only((*_SHARED, "console"), _HOMES)
    node = fields.node("console")
    rows = None
    if not isinstance(node, Scalar):  # `console:` and `console: true` say it all
        inner = fields.inner("console", "how much is shown, as in {rows: 20}")
        if inner is not None:
            inner.only(("rows",))
            rows = inner.count("rows", most=10_000)
    elif not node.is_null and node.text.lower() not in {"true", "yes"}:
        fields.problem(f"expected {{rows: 20}} or nothing, not {shown(node.text)}", "console")
    return ConsoleSink(
        name=name,
        input=_source(fields),
        rows=_DEFAULT_ROWS if rows is None else rows,
        mode=fields.choice("mode", _MODES, OutputMode.APPEND),
        trigger=read_trigger(fields),
        line=fields.place.line,
    )


def _source(fields: Fields) -> str:
    return fields.text("from", required="the table that is written") or ""


def read_trigger(fields: Fields) -> Trigger | None:
    """`10 seconds`, `available-now` or `as-fast-as-possible`."""
    text = fields.text("trigger")
    if text is None:
        return None
    trigger = parse_trigger(text)
    if isinstance(trigger, str):
        fields.problem(trigger, "trigger")
        return None
    return trigger


def parse_trigger(text: str) -> Trigger | str:
    """The trigger, or what is wrong with it."""
    word = text.strip().lower().replace("_", "-").replace(" ", "-")
    if word in {AVAILABLE_NOW, "once"}:
        return Trigger(available_now=True)
    if word == AS_FAST:
        return Trigger()
    try:
        duration_us(text)
    except ValueError as error:
        hint = nearest(word, (AVAILABLE_NOW, AS_FAST)) or duration_hint(text)
        if "month" in str(error):
            return str(error)
        return (
            f"{shown(text)} is no trigger: expected a span of time such as 10 seconds, or "
            f"{AVAILABLE_NOW}, or {AS_FAST}{hint}"
        )
    return Trigger(interval=text.strip())
