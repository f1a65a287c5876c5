"""What a pipeline file may hold, as JSON Schema: editors complete, explain and check by it.

It knows keys and kinds of values. `goqueue pipeline validate` knows more: which tables there are,
and whether the parts fit together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.spark.pipelines.files.yaml_sinks import AS_FAST, AVAILABLE_NOW, WRITABLE
from goqueue.spark.pipelines.files.yaml_sources import FORMATS, VALUE_FORMATS
from goqueue.spark.pipelines.files.yaml_steps import JOINS
from goqueue.spark.pipelines.model import Otherwise, OutputMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Schema: TypeAlias = dict[str, Any]

_SCALAR: Final = ["string", "number", "boolean"]
_VARIABLE: Final = r"\$\{"
"""A variable of the environment may stand for any value."""
_TABLE_NAMES: Final = "^[A-Za-z_][A-Za-z0-9_]{0,99}$"
_NAMES: Final = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"


def pipeline_schema() -> Schema:
    """The schema of the whole file."""
    keys = {
        "name": {**_text("The name of the pipeline."), "pattern": f"{_NAMES}|{_VARIABLE}"},
        "broker": {
            "description": "The broker: its Kafka addresses, or a mapping.",
            "anyOf": [_text(""), _broker()],
        },
        "checkpoints": _text("A folder; each query has NAME/SINK below it."),
        "trigger": _trigger(),
        "spark": _spark(),
        "sources": _named("Tables to read, by their names.", _TABLE_NAMES, _source()),
        "steps": _named("Derived tables, by their names.", _TABLE_NAMES, _step()),
        "sinks": _named("What to write, and where.", _NAMES, _sink()),
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "GoQueue pipeline",
        **_mapping("A pipeline for goqueue pipeline run.", keys, ("name", "sources", "sinks")),
    }


def _broker() -> Schema:
    keys = {
        "servers": _texts("Kafka addresses, as in 127.0.0.1:9092."),
        "http": _text("The HTTP address: for the schema registry, and for reports of the run."),
        "options": _options("Options of the connection, as in {kafka.sasl.username: me}."),
    }
    return _mapping("", keys)


def _spark() -> Schema:
    keys = {
        "master": _text("local[4], spark://host:7077, or sc://host:15002 for Spark Connect."),
        "conf": _options("Settings of Spark by their names."),
    }
    return _mapping("Where Spark runs.", keys)


def _trigger() -> Schema:
    found = _text("When micro-batches run: a span of time such as 10 seconds, or one of the words.")
    return {**found, "examples": ["10 seconds", AVAILABLE_NOW, AS_FAST]}


# --- Sources -------------------------------------------------------------------------------------


def _source() -> Schema:
    shared = {
        "format": _choice("How values are parsed.", VALUE_FORMATS),
        "schema": _text("Columns as Spark DDL, or an Avro or Protobuf schema."),
        "starting": _text(
            "Where the first run starts: earliest, latest, a time, or offsets as JSON."
        ),
        "watermark": _watermark(),
        "columns": _texts("Columns of the message beside the fields of its value."),
        "flatten": _flag("Whether the fields of the value become columns."),
        "streaming": _flag("false: read once, when the pipeline starts."),
        "options": _options("Options of the data source."),
    }
    topics = {
        "topic": _text("The topic to read."),
        "topics": _texts("Several topics to read."),
        "pattern": _text("A regular expression that matches the whole name of each topic."),
    }
    tables = {
        "schema": _text("Columns as Spark DDL."),
        "options": _options("Options of Spark's reader, as in {header: true}."),
    }
    kinds = [_mapping("", {key: what, **shared}, (key,)) for key, what in topics.items()]
    kinds += [
        _mapping("", {each: _text(f"A table on disk: its {each} files."), **tables}, (each,))
        for each in FORMATS
    ]
    return {"anyOf": kinds}


def _watermark() -> Schema:
    keys = {
        "column": _text("The column of time that rows are late by."),
        "delay": _text("How late a row may be, such as 1 minute."),
    }
    return _mapping("How late rows may be: state behind it is dropped.", keys, tuple(keys))


# --- Steps ---------------------------------------------------------------------------------------


def _step() -> Schema:
    table = _text("The table that the step is made of.")
    kinds = [
        _mapping(
            "",
            {"sql": _text("A query over tables of the pipeline."), "watermark": _watermark()},
            ("sql",),
        ),
        _mapping(
            "",
            {
                "from": _texts("The tables that the function takes, in its order."),
                "python": _text("A function: file.py:name or module:name."),
                "watermark": _watermark(),
            },
            ("from", "python"),
        ),
        _mapping("", {"from": table, "window": _window()}, ("from", "window")),
        _mapping("", {"join": _join()}, ("join",)),
        _mapping(
            "",
            {
                "from": table,
                "rules": {"type": "array", "minItems": 1, "items": _rule()},
                "dead_letters": _text("The topic for rows of rules that say dead-letter."),
            },
            ("from", "rules"),
        ),
    ]
    return {"anyOf": kinds}


def _window() -> Schema:
    keys = {
        "on": _text("The column of time."),
        "size": _text("How long a window is, such as 1 minute."),
        "slide": _text("How often a window starts, such as 30 seconds."),
        "gap": _text("In place of size: the time without a row that ends a session."),
        "by": _texts("Columns or expressions to group by."),
        "select": _options("Aggregates by name, as in {revenue: sum(amount)}."),
    }
    return _mapping("Aggregates over windows of time.", keys, ("on", "select"))


def _join() -> Schema:
    keys = {
        "left": _text("A table."),
        "right": _text("The other table."),
        "on": _text("A column of both, several with commas, or a condition over left.x, right.y."),
        "how": _choice("How rows are joined.", JOINS),
        "within": _text("Two streams: how far apart in time rows may be, such as 10 minutes."),
        "select": _options("Columns by name, as in {paid: right.amount}."),
    }
    return _mapping("Two tables side by side.", keys, ("left", "right", "on"))


def _rule() -> Schema:
    keys = {
        "name": _text("What dead letters and errors call the rule."),
        "expect": _text("A condition in SQL that rows must meet."),
        "otherwise": _choice("What becomes of a row that does not.", Otherwise),
    }
    return _mapping("A rule.", keys, ("expect",))


# --- Sinks ---------------------------------------------------------------------------------------


def _sink() -> Schema:
    shared = {
        "from": _text("The table that is written."),
        "mode": _choice("Which rows of a result are written.", OutputMode),
        "trigger": _trigger(),
    }
    topic = {
        "topic": _text("The topic to write."),
        "key": _text("An expression in SQL; without it, messages have no key."),
        "value": _text("An expression in SQL; by default all columns as JSON."),
        "create": _count("Create the topic with so many partitions if it does not exist."),
        "options": _options("Options of the sink, as in {partitioner: murmur2}."),
    }
    table = {
        "partition_by": _texts("Columns that are folders of the table."),
        "options": _options("Options of the table, as in {compression: zstd}."),
    }
    console = _mapping("", {"rows": _count("How many rows are shown.")})
    kinds = [_mapping("", {**shared, **topic}, ("from", "topic"))]
    kinds += [
        _mapping("", {**shared, each.value: _text("The table's folder."), **table}, ("from", each))
        for each in WRITABLE
    ]
    shown = {"console": {"anyOf": [{"type": ["null", "boolean", "string"]}, console]}}
    kinds.append(_mapping("", {**shared, **shown}, ("from", "console")))
    return {"anyOf": kinds}


# --- Kinds of values -----------------------------------------------------------------------------


def _mapping(text: str, keys: Schema, required: Sequence[str] = ()) -> Schema:
    found: Schema = {"type": "object", "properties": keys, "additionalProperties": False}
    if required:
        found["required"] = [str(each) for each in required]
    return {**found, "description": text} if text else found


def _named(text: str, names: str, part: Schema) -> Schema:
    found = {"type": "object", "patternProperties": {names: part}, "additionalProperties": False}
    return {**found, "description": text}


def _text(text: str) -> Schema:
    found: Schema = {"type": _SCALAR}
    return {**found, "description": text} if text else found


def _texts(text: str) -> Schema:
    items = {"type": "array", "minItems": 1, "items": _text("")}
    return {"description": text, "anyOf": [_text(""), items]}


def _options(text: str) -> Schema:
    return {"type": "object", "additionalProperties": _text(""), "description": text}


def _flag(text: str) -> Schema:
    return {"type": ["boolean", "string"], "description": text}


def _count(text: str) -> Schema:
    number = {"type": "integer", "minimum": 1}
    return {"description": text, "anyOf": [number, {"type": "string"}]}


def _choice(text: str, words: Iterable[str]) -> Schema:
    known = dict.fromkeys(str(each) for each in words)
    both = [*known, *(each.replace("-", "_") for each in known if "-" in each)]
    variable = {"type": "string", "pattern": _VARIABLE}
    return {"description": text, "anyOf": [{"enum": both}, variable]}
