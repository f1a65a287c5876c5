"""Whether options and formats mean something to the data source, and what must be installed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal

from goqueue.spark.errors import OptionsError
from goqueue.spark.lake.options import parse_lake_options
from goqueue.spark.options.link_options import LINK_OPTIONS, parse_link
from goqueue.spark.options.option_reader import OptionReader
from goqueue.spark.options.read_options import parse_read_options
from goqueue.spark.options.write_options import parse_write_options
from goqueue.spark.pipelines.columns import MESSAGE_COLUMNS
from goqueue.spark.pipelines.model import (
    RulesStep,
    TableFormat,
    TableSink,
    TableSource,
    TopicSink,
    TopicSource,
)
from goqueue.spark.values.ddl import ddl_problem
from goqueue.spark.wording import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goqueue.spark.pipelines.checks.findings import Findings

_A_BROKER: Final = {"bootstrap.servers": "127.0.0.1:9092"}
_OUR_WORDS: Final = {
    "startingOffsets": "starting",
    "startingTimestamp": "starting",
    "subscribe": "topics",
    "subscribePattern": "pattern",
    "valueFormat": "format",
    "valueSchema": "schema",
}
"""What an option of the data source is called in a pipeline."""
_SOURCE_WORDS: Final = {
    "subscribe": "topic or topics",
    "subscribepattern": "pattern",
    "startingoffsets": "starting",
    "startingtimestamp": "starting",
    "valueformat": "format",
    "valueschema": "schema",
    "columns": "columns",
}
_TABLE_WORDS: Final = {
    "tableformat": "parquet, delta or iceberg",
    "path": "parquet, delta or iceberg",
    "partitionby": "partition_by",
}
_EXTRAS: Final = {TableFormat.DELTA: "deltalake", TableFormat.ICEBERG: "pyiceberg"}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def check_options(findings: Findings) -> None:
    """Note what the data source would refuse when the pipeline starts."""
    pipeline = findings.pipeline
    _check_connection(findings)
    for source in pipeline.sources:
        if isinstance(source, TopicSource):
            _check_topic_source(findings, source)
        else:
            _check_table(findings, f"sources.{source.name}", source)
    for step in pipeline.steps:
        if isinstance(step, RulesStep) and step.dead_letters is not None:
            _check_topic_name(findings, f"steps.{step.name}.dead_letters", step.dead_letters)
    for sink in pipeline.sinks:
        if isinstance(sink, TopicSink):
            path = f"sinks.{sink.name}"
            _check_topic_name(findings, f"{path}.topic", sink.topic)
            said = _without_words(findings, path, sink.options, {"topic": "topic"})
            options = {**_A_BROKER, "topic": sink.topic or "t", **said}
            _parse(findings, path, lambda given: parse_write_options(given, "stream"), options)
        elif isinstance(sink, TableSink):
            _check_table(findings, f"sinks.{sink.name}", sink)


def _check_connection(findings: Findings) -> None:
    pipeline = findings.pipeline
    reader = OptionReader({**pipeline.connection, **_A_BROKER}, LINK_OPTIONS)
    parse_link(reader)
    try:
        reader.finish()
    except OptionsError as error:
        for each in error.problems:
            findings.error(_option_path(findings, "broker", each), each)


def _check_topic_source(findings: Findings, source: TopicSource) -> None:
    path = f"sources.{source.name}"
    for topic in source.topics:
        _check_topic_name(
            findings, f"{path}.{'topic' if len(source.topics) == 1 else 'topics'}", topic
        )
    for column in source.columns:
        if column.lower() not in {each.lower() for each in MESSAGE_COLUMNS}:
            hint = nearest(column, MESSAGE_COLUMNS) or f"; it has {', '.join(MESSAGE_COLUMNS)}"
            findings.error(f"{path}.columns", f"a message has no column {column!r}{hint}")
    _check_format(findings, path, source)
    mode: Literal["stream", "batch"] = "stream" if source.streaming else "batch"
    said = _without_words(findings, path, source.options, _SOURCE_WORDS)
    given = {**_A_BROKER, **source.subscription(), **_values(source), **said}
    _parse(findings, path, lambda options: parse_read_options(options, mode), given)


def _without_words(
    findings: Findings, path: str, options: Mapping[str, str], words: Mapping[str, str]
) -> dict[str, str]:
    """The options without those that the file has a word for: they would contradict it, unseen."""
    for name in options:
        if name.lower() in words:
            findings.error(
                f"{path}.options.{name}",
                f"{name} is said outside of options here, with {words[name.lower()]}",
            )
    return {name: value for name, value in options.items() if name.lower() not in words}


def _values(source: TopicSource) -> dict[str, str]:
    """How values are parsed; whether there is a schema is judged in the pipeline's own words."""
    if source.value_format == "binary":
        return {}
    return {"valueFormat": source.value_format, "valueSchema": source.value_schema or "known"}


def _check_format(findings: Findings, path: str, source: TopicSource) -> None:
    if findings.is_troubled(path):
        return
    has_schema = source.value_schema is not None or "schema.registry.url" in source.options
    if source.value_format == "binary":
        if source.value_schema is not None:
            findings.error(
                f"{path}.schema", "a schema needs a format: add format: json, or what it is"
            )
    elif source.value_format == "json":
        _check_columns(findings, f"{path}.schema", source.value_schema)
    if source.value_format != "binary" and not has_schema and findings.pipeline.http is None:
        findings.error(
            f"{path}.format",
            f"{source.value_format} needs a schema: give one with schema, or broker.http, where "
            "the registry has it",
        )


def _check_columns(findings: Findings, path: str, schema: str | None) -> None:
    """Columns in Spark's words; a schema in JSON is for others to judge."""
    if schema is None or schema.lstrip().startswith("{"):
        return
    problem = ddl_problem(schema)
    if problem is not None:
        findings.error(path, problem)


def _check_topic_name(findings: Findings, path: str, topic: str) -> None:
    if topic and (not _TOPIC.fullmatch(topic) or topic in {".", ".."}):
        findings.error(
            path, f"{topic!r} cannot be a topic: expected letters, digits, '.', '_' and '-'"
        )


def _parse(
    findings: Findings,
    path: str,
    parse: Callable[[Mapping[str, str]], object],
    options: Mapping[str, str],
) -> None:
    try:
        parse(options)
    except OptionsError as error:
        for each in error.problems:
            _note(findings, path, each)


def _note(findings: Findings, path: str, problem: str) -> None:
    """What is wrong with an option, in the pipeline's own words where it has some."""
    for option, word in _OUR_WORDS.items():
        if problem.startswith(f"{option}:"):
            findings.error(f"{path}.{word}", problem.removeprefix(f"{option}:").strip())
            return
    findings.error(_option_path(findings, path, problem), problem)


def _option_path(findings: Findings, path: str, problem: str) -> str:
    """The path of the option that a sentence is about."""
    words = problem.removeprefix("unknown option ")
    start = f"{path}.options."
    for at in findings.places:
        if at.startswith(start) and re.match(
            rf"{re.escape(at.removeprefix(start))}\b", words, re.IGNORECASE
        ):
            return at
    return f"{path}.options"


def _check_table(findings: Findings, path: str, table: TableSource | TableSink) -> None:
    package = _EXTRAS.get(table.format)
    if package is not None and find_spec(package) is None:
        findings.warn(
            f"{path}.{table.format}",
            f"{package} is not installed here: pip install 'goqueue[lake]'",
        )
    if isinstance(table, TableSource):
        _check_columns(findings, f"{path}.schema", table.schema)
    is_ours = isinstance(table, TableSink) or package is not None
    if is_ours:
        said = _without_words(findings, path, table.options, _TABLE_WORDS)
        given = {**said, "tableFormat": table.format.value, "path": "/"}  # is judged below
        _parse(findings, path, lambda options: parse_lake_options(options, "stream"), given)
    if is_ours and _SCHEME.match(table.path) and not table.path.lower().startswith("file:"):
        findings.error(
            f"{path}.{table.format}",
            f"{table.path} is no folder: expected one that the driver and all executors share",
        )
