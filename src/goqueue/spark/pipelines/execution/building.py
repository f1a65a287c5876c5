"""From the description of a pipeline to Spark's data frames, one a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from goqueue.spark.errors import ColumnsError, SparkSourceError
from goqueue.spark.monitoring.failures import SPARK_ERRORS, reason_of
from goqueue.spark.pipelines.execution.joining import join_table, window_table
from goqueue.spark.pipelines.execution.rules import check_rules
from goqueue.spark.pipelines.execution.topic_tables import (
    HIDDEN,
    PARSED,
    read_topic,
    with_watermark,
)
from goqueue.spark.pipelines.functions import FunctionError, find_function
from goqueue.spark.pipelines.graph import in_order, inputs_of
from goqueue.spark.pipelines.model import (
    JoinStep,
    Otherwise,
    Pipeline,
    PipelineError,
    Problem,
    PythonStep,
    RulesStep,
    Source,
    SqlStep,
    Step,
    TableFormat,
    TableSource,
    TopicSource,
    WindowStep,
)


@dataclass(frozen=True, slots=True)
class Table:
    """A source or step, built."""

    frame: DataFrame
    """With the hidden columns that rules behind it use, if it has any."""
    time: str | None = None
    """The column of its watermark."""
    letters: DataFrame | None = None
    """Of rules: the rows for the dead-letter topic."""

    @property
    def shown(self) -> DataFrame:
        """As steps and sinks see it."""
        return self.frame.drop(*HIDDEN)


@dataclass(slots=True)
class _Building:
    """What is built so far, and what is wrong."""

    spark: SparkSession
    pipeline: Pipeline
    tables: dict[str, Table] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def build_tables(spark: SparkSession, pipeline: Pipeline) -> dict[str, Table]:
    """Every table of a pipeline, by name. Nothing is read yet.

    The session must be the pipeline's own: its temporary views get the names of the tables.

    Raises:
        PipelineError: with everything that Spark or a topic has against it.
    """
    building = _Building(spark, pipeline)
    for source in pipeline.sources:
        _try(building, source, "sources")
    for step in in_order(pipeline):
        if all(each in building.tables for each in inputs_of(step, pipeline.table_names)):
            _try(building, step, "steps")
    if building.problems:
        raise PipelineError(tuple(building.problems), pipeline.file)
    return building.tables


def _try(building: _Building, part: Source | Step, kind: str) -> None:
    """Build a part and make it known to SQL, or note what is wrong."""
    try:
        table = (
            _source(building, part)
            if isinstance(part, TopicSource | TableSource)
            else _step(building, part)
        )
        table.shown.createOrReplaceTempView(part.name)
    except (SparkSourceError, *SPARK_ERRORS) as error:
        path = f"{kind}.{part.name}"
        building.problems.append(Problem(reason_of(error), line=part.line, path=path))
    else:
        building.tables[part.name] = table


# --- Sources -------------------------------------------------------------------------------------


def _source(building: _Building, source: Source) -> Table:
    spark, pipeline = building.spark, building.pipeline
    if isinstance(source, TableSource):
        return Table(read_table_source(spark, source))
    time = source.watermark.column if source.watermark else None
    with_origin = _needs_origin(pipeline, source.name)
    return Table(read_topic(spark, pipeline, source, with_origin=with_origin), time)


def _needs_origin(pipeline: Pipeline, name: str) -> bool:
    """Whether rules behind a topic want its messages as they were, which is more to read."""
    for step in pipeline.steps:
        if isinstance(step, RulesStep) and step.input == name:
            if any(e.otherwise is not Otherwise.DROP or PARSED in e.expect for e in step.rules):
                return True
            if _needs_origin(pipeline, step.name):
                return True
    return False


def read_table_source(spark: SparkSession, source: TableSource) -> DataFrame:
    """A table on disk, as it is now."""
    if source.format in {TableFormat.DELTA, TableFormat.ICEBERG}:
        from goqueue.spark.lake import lake_table, read_table  # noqa: PLC0415 - an extra of its own

        catalog = {
            name.removeprefix("catalog."): value
            for name, value in source.options.items()
            if name.startswith("catalog.")
        }
        table: Any = lake_table(
            source.format.value,
            source.path,
            table=source.options.get("table"),
            catalog=catalog or None,
        )
        frame: DataFrame = read_table(spark, table)
        return frame
    reader = spark.read.format(source.format.value).options(**dict(source.options))
    if source.format is TableFormat.CSV and "header" not in source.options:
        reader = reader.option("header", "true")
    if source.schema is not None:
        reader = reader.schema(source.schema)
    elif source.format is TableFormat.CSV and "inferSchema" not in source.options:
        reader = reader.option("inferSchema", "true")
    return reader.load(source.path)


# --- Steps ---------------------------------------------------------------------------------------


def _step(building: _Building, step: Step) -> Table:
    tables = building.tables
    match step:
        case SqlStep():
            return _derived(building, step, building.spark.sql(step.sql))
        case PythonStep():
            return _derived(building, step, _called(building, step))
        case WindowStep():
            return Table(window_table(_input(building, step.input).shown, step))
        case JoinStep():
            left, right = _input(building, step.left), _input(building, step.right)
            joined = join_table(left.shown, right.shown, step, (left.time, right.time))
            return Table(joined, left.time if left.time in joined.columns else None)
        case RulesStep():
            checked = check_rules(_input(building, step.input).frame, step)
            return Table(checked.good, tables[step.input].time, checked.letters)


def _input(building: _Building, name: str) -> Table:
    found = building.tables.get(name)
    if found is None:
        raise ColumnsError(
            f"there is no table {name!r}: the pipeline has {', '.join(building.tables)}"
        )
    return found


def _derived(building: _Building, step: SqlStep | PythonStep, frame: DataFrame) -> Table:
    """A table that keeps the watermark of what it is made of, as long as the column is there."""
    if step.watermark is not None:
        return Table(with_watermark(frame, step.watermark), step.watermark.column)
    names = inputs_of(step, list(building.tables))
    times = (building.tables[each].time for each in names)
    return Table(frame, next((each for each in times if each in frame.columns), None))


def _called(building: _Building, step: PythonStep) -> DataFrame:
    """What the function of a step returns."""
    function = find_function(step.function, building.pipeline.file)
    given = [_input(building, each).shown for each in step.inputs]
    try:
        made = function(*given)
    except (SparkSourceError, *SPARK_ERRORS):
        raise
    except Exception as error:
        raise FunctionError(f"{step.name}: {type(error).__name__}: {error}") from error
    if not isinstance(made, DataFrame):
        raise FunctionError(
            f"{step.name}: the function returned {type(made).__name__}, expected a data frame"
        )
    return made
