"""Messages of topics as tables: the fields of their values, and what else was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql.types import StringType, StructType

from goqueue.spark.errors import ColumnsError
from goqueue.spark.monitoring.failures import reason_of
from goqueue.spark.reading.columns import SPARK_TYPES, default_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from goqueue.spark.pipelines.model import Pipeline, TopicSource, Watermark

ORIGIN: Final = "__origin"
"""A hidden column: the message as it is stored, for its dead letter."""
PARSED: Final = "_parsed"
"""A column that rules right behind a topic can ask for: whether the value could be parsed."""
HIDDEN: Final = (ORIGIN, PARSED)
_ORIGIN_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "headers")


def source_options(pipeline: Pipeline, source: TopicSource) -> dict[str, str]:
    """What the data source is told."""
    options = pipeline.link_options | source.subscription()
    if source.value_format != "binary":
        options["valueFormat"] = source.value_format
        if source.value_schema is not None:
            options["valueSchema"] = source.value_schema
        if pipeline.http is not None:
            options["schema.registry.url"] = pipeline.http
    return options | dict(source.options)


def read_topic(
    spark: SparkSession, pipeline: Pipeline, source: TopicSource, *, with_origin: bool
) -> DataFrame:
    """The table of a source; `with_origin` adds the hidden columns that rules use.

    Raises:
        ColumnsError: its schema is none, or a column was asked for that the value has too.
    """
    is_parsed = source.value_format != "binary"
    _check_schema(source)
    columns = _columns(source, with_origin=with_origin, is_parsed=is_parsed)
    reader = spark.readStream if source.streaming else spark.read
    options = source_options(pipeline, source) | {"columns": ",".join(columns)}
    loaded = reader.format("goqueue").options(**options).load()
    fields = _fields(loaded) if is_parsed and source.flatten else None
    shown = _shown(source, fields)
    if with_origin:
        shown += _hidden(is_parsed=is_parsed)
    return with_watermark(loaded.select(*shown), source.watermark)


def _check_schema(source: TopicSource) -> None:
    """Say what is wrong with a schema: where Spark reads it as part of another, it is unclear."""
    schema = (source.value_schema or "").strip()
    if source.value_format == "json" and schema and not schema.startswith("{"):
        try:
            StructType.fromDDL(schema)
        except PySparkException as error:
            raise ColumnsError(f"value_schema {schema!r}: {reason_of(error)}") from error


def _columns(source: TopicSource, *, with_origin: bool, is_parsed: bool) -> list[str]:
    """What is read: no column that nobody needs, since the source reads what it is told to."""
    asked = list(source.columns)
    if not asked and not (is_parsed and source.flatten):
        asked = default_columns(include_headers=False)
    wanted = ["value", *asked]
    if source.watermark is not None and source.watermark.column in SPARK_TYPES:
        wanted.append(source.watermark.column)
    if with_origin:
        wanted += [*_ORIGIN_COLUMNS, *(["rawValue"] if is_parsed else [])]
    return list(dict.fromkeys(wanted))


def _fields(loaded: DataFrame) -> list[str]:
    kind = loaded.schema["value"].dataType
    return list(kind.names) if isinstance(kind, StructType) else []


def _shown(source: TopicSource, fields: list[str] | None) -> list[Column]:
    """The columns that steps see."""
    asked = list(source.columns)
    if fields is None:
        names = asked or default_columns(include_headers=False)
        return [F.col(each) for each in dict.fromkeys(["value", *names])]
    lower = {each.lower() for each in fields}
    if both := [each for each in asked if each.lower() in lower]:
        raise ColumnsError(
            f"{', '.join(both)}: the value has a field of that name and the message a column; "
            "leave it out of columns, or set flatten to false and select value.field in a step"
        )
    column = source.watermark.column if source.watermark else None
    if column in SPARK_TYPES and column not in {*asked, "value"} and column.lower() not in lower:
        asked.append(column)
    return [
        *(F.col(f"value.`{each}`").alias(each) for each in fields),
        *(F.col(each) for each in asked if each != "value"),
    ]


def _hidden(*, is_parsed: bool) -> list[Column]:
    raw = F.col("rawValue" if is_parsed else "value")
    origin = F.struct(*(F.col(each) for each in _ORIGIN_COLUMNS), raw.alias("value"))
    parsed = F.col("value").isNotNull() | raw.isNull() if is_parsed else F.expr("true")
    return [origin.alias(ORIGIN), parsed.alias(PARSED)]


def with_watermark(frame: DataFrame, watermark: Watermark | None) -> DataFrame:
    """The frame with its watermark; times in JSON are text and become times here."""
    if watermark is None:
        return frame
    frame = as_time(frame, watermark.column)
    return frame.withWatermark(watermark.column, watermark.delay)


def as_time(frame: DataFrame, column: str) -> DataFrame:
    """The frame with a column of text as times; what is no time becomes null."""
    if column in frame.columns and isinstance(frame.schema[column].dataType, StringType):
        return frame.withColumn(column, F.col(f"`{column}`").try_cast("timestamp"))
    return frame
