"""From tables to running queries: one a sink, and one for the dead letters of each step with rules.

Dead letters have a query and a checkpoint of their own, and are not split off in a `foreachBatch`
of the sinks: a step with rules may have several sinks behind it, which would each write the
letters, or a window, which no `foreachBatch` can go on with. Both queries are exactly once by
themselves, and each row is in one of the two, since rules look at the row alone. The price is that
the topic is read once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql.types import BinaryType, StringType

from goqueue.spark.errors import SparkSourceError
from goqueue.spark.monitoring.failures import SPARK_ERRORS, reason_of
from goqueue.spark.pipelines.execution.dead_letters import letters_of
from goqueue.spark.pipelines.execution.rules import row_as_json
from goqueue.spark.pipelines.graph import topics_behind
from goqueue.spark.pipelines.model import (
    NO_UPDATES,
    ConsoleSink,
    OutputMode,
    Pipeline,
    PipelineError,
    Problem,
    RulesStep,
    Sink,
    TableSink,
    TopicSink,
    Trigger,
)
from goqueue.spark.pipelines.naming import (
    LETTERS,
    checkpoint_of,
    dead_letter_topic,
    group_name,
    letter_steps,
    query_name,
)
from goqueue.spark.pipelines.planning import describe_sink
from goqueue.spark.writing.task_identity import QUERY_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from goqueue.spark.pipelines.execution.building import Table


@dataclass(frozen=True, slots=True)
class Output:
    """Rows, and where they go."""

    name: str
    """The sink's."""
    frame: DataFrame
    format: str
    options: Mapping[str, str]
    shown: str
    """The sink for people, as in `topic revenue`."""
    topics: tuple[str, ...]
    """What it reads."""
    checkpoint: str
    dead_letters: str | None = None
    """The topic, if these are dead letters."""
    mode: OutputMode = OutputMode.APPEND
    trigger: Trigger = Trigger()  # noqa: RUF009 - frozen, so one for all
    line: int | None = None
    path: str = ""
    """Where it is in the file."""

    @property
    def is_streaming(self) -> bool:
        """Otherwise it is written once."""
        return self.frame.isStreaming


def outputs_of(
    pipeline: Pipeline, tables: Mapping[str, Table], partitions: Mapping[str, int]
) -> list[Output]:
    """Everything that a pipeline writes; `partitions` are those of each topic.

    Raises:
        PipelineError: keys or values of messages cannot be made of the rows.
    """
    outputs = []
    problems = []
    for sink in pipeline.sinks:
        path = f"sinks.{sink.name}"
        try:
            output = _output(pipeline, sink, tables[sink.input].shown)
        except SPARK_ERRORS as error:
            problems.append(Problem(reason_of(error), line=sink.line, path=path))
            continue
        if _is_update_of_topic(output) and output.is_streaming and pipeline.is_remote:
            problems.append(Problem(NO_UPDATES, line=sink.line, path=path))
        outputs.append(output)
    if problems:
        raise PipelineError(tuple(problems), pipeline.file)
    for step in letter_steps(pipeline.steps):
        letters, topic = tables[step.name].letters, dead_letter_topic(pipeline, step)
        if letters is not None and topic is not None:
            outputs.append(_letters(pipeline, step, letters, topic, partitions.get(topic, 1)))
    return outputs


def _letters(
    pipeline: Pipeline, step: RulesStep, frame: DataFrame, topic: str, partitions: int
) -> Output:
    name = f"{step.name}{LETTERS}"
    group = group_name(pipeline, name)
    rows = letters_of(frame, step, pipeline=pipeline.name, group=group, partitions=partitions)
    return Output(
        name=name,
        frame=rows,
        format="goqueue",
        options={**pipeline.link_options, "topic": topic},
        shown=f"topic {topic}",
        topics=topics_behind(pipeline, step.input),
        checkpoint=checkpoint_of(pipeline, name),
        dead_letters=topic,
        trigger=pipeline.trigger,
        line=step.line,
        path=f"steps.{step.name}",
    )


def _output(pipeline: Pipeline, sink: Sink, frame: DataFrame) -> Output:
    common: dict[str, Any] = {
        "name": sink.name,
        "topics": topics_behind(pipeline, sink.input),
        "checkpoint": checkpoint_of(pipeline, sink.name),
        "mode": sink.mode,
        "trigger": sink.trigger or pipeline.trigger,
        "line": sink.line,
        "path": f"sinks.{sink.name}",
        "shown": describe_sink(sink),
    }
    match sink:
        case TopicSink():
            return Output(
                frame=_messages(frame, sink),
                format="goqueue",
                options={**pipeline.link_options, "topic": sink.topic, **sink.options},
                **common,
            )
        case TableSink():
            options = {"tableFormat": sink.format.value, "path": sink.path, **sink.options}
            if sink.partition_by:
                options["partitionBy"] = ",".join(sink.partition_by)
            return Output(frame=frame, format="goqueue_lake", options=options, **common)
        case ConsoleSink():
            options = {"numRows": str(sink.rows), "truncate": "false"}
            return Output(frame=frame, format="console", options=options, **common)


def _messages(frame: DataFrame, sink: TopicSink) -> DataFrame:
    """Rows as messages."""
    columns = []
    if sink.key is not None:
        columns.append(_text(frame, sink.key).alias("key"))
    value = row_as_json(frame) if sink.value is None else _text(frame, sink.value)
    return frame.select(*columns, value.alias("value"))


def _text(frame: DataFrame, expression: str) -> Column:
    """An expression as text or bytes, whatever it gives."""
    column = F.expr(expression)
    kind = frame.select(column).schema[0].dataType
    return column if isinstance(kind, StringType | BinaryType) else column.cast("string")


def start(pipeline: Pipeline, output: Output, *, available_now: bool) -> StreamingQuery:
    """Start the query of an output. Raises what Spark raises."""
    writer = (
        output.frame.writeStream.format(output.format)
        .queryName(query_name(pipeline, output.name))
        .outputMode(output.mode.value)
        .options(**dict(output.options))
        .option("checkpointLocation", output.checkpoint)
    )
    if _is_update_of_topic(output):
        writer = writer.foreachBatch(_updates(output))
    if available_now or output.trigger.available_now:
        writer = writer.trigger(availableNow=True)
    elif output.trigger.interval is not None:
        writer = writer.trigger(processingTime=output.trigger.interval)
    return writer.start()


def _is_update_of_topic(output: Output) -> bool:
    return output.mode is OutputMode.UPDATE and output.format == "goqueue"


def _updates(output: Output) -> Callable[[DataFrame, int], None]:
    """What writes the changed rows of a micro-batch, once.

    Spark gives its Python sinks no updates. Each batch is a write of its own instead, under the id
    that the checkpoint has given the query and the batch's number: a repeated batch counts
    once, and a new checkpoint is a new id.
    """

    def write(frame: DataFrame, number: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if query is None:
            raise SparkSourceError(
                f"this Spark does not say which query writes ({QUERY_ID}): use mode append, or "
                "complete"
            )
        writer = frame.write.format(output.format).options(**dict(output.options))
        writer = writer.option("txnAppId", query).option("txnVersion", str(number))
        writer.mode("append").save()

    return write


def write_once(output: Output) -> None:
    """Write rows that do not stream. Raises what Spark raises."""
    if output.format == "console":
        output.frame.show(int(output.options["numRows"]), truncate=False)
        return
    mode = "overwrite" if output.mode is OutputMode.COMPLETE else "append"
    output.frame.write.format(output.format).options(**dict(output.options)).mode(mode).save()
