"""What a pipeline is, whoever wrote it down: a YAML file, a Python file or a program.

A pipeline is a graph of named tables. Sources and steps make tables, sinks write them somewhere.
Each part knows the line that it came from, so that whatever is wrong with it can be shown there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from goqueue.spark.errors import SparkSourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Options: TypeAlias = Mapping[str, str]
StepFunction: TypeAlias = "Callable[..., DataFrame]"
"""Takes the tables that it names, in that order, and returns a new one."""


class Otherwise(StrEnum):
    """What becomes of a row that breaks a rule."""

    DROP = "drop"
    DEAD_LETTER = "dead-letter"
    FAIL = "fail"


class TableFormat(StrEnum):
    """What a table on disk can be."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"
    CSV = "csv"
    """To read only."""
    JSON = "json"
    """To read only."""


class OutputMode(StrEnum):
    """Which rows of a result a sink gets; the words are Spark's."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


NO_UPDATES: Final = (
    "mode update to a topic does not work over Spark Connect, where a micro-batch does not know "
    "which query it belongs to and so cannot be written exactly once: use mode append with a "
    "watermark, or run the pipeline with a master"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a pipeline file."""

    message: str
    """What is wrong, what was expected, what to do."""
    line: int | None = None
    column: int | None = None
    path: str = ""
    """Where it is in the file, as in `sinks.revenue.mode`."""
    is_warning: bool = False
    """Worth a look; the pipeline can be run all the same."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late a row may be; windows close when it has passed them."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What every source, step, rule and sink has."""

    name: str
    line: int | None = None
    """Of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource(Part):
    """Messages of topics as a table."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    value_format: str = "binary"
    """As the option `valueFormat` of the data source."""
    value_schema: str | None = None
    starting: str | None = None
    """`earliest`, `latest`, a time, or offsets as JSON."""
    watermark: Watermark | None = None
    columns: tuple[str, ...] = ()
    """Columns of the message beside the fields of its value; see `flatten`."""
    flatten: bool = True
    """With a value format: the fields of the value become columns of the table."""
    streaming: bool = True
    options: Options = field(default_factory=dict)

    def subscription(self) -> dict[str, str]:
        """The options of the data source that say which messages are read.

        A first run starts at the earliest message, unless the source says otherwise.
        """
        start = (self.starting or "earliest").strip()
        if self.pattern is not None:
            options = {"subscribePattern": self.pattern}
        else:
            options = {"subscribe": ",".join(self.topics)}
        if start.startswith("{"):
            return options | {"startingOffsets": start}
        if start.lower() in {"earliest", "latest"}:
            return options | {"startingOffsets": start.lower()}
        # A partition without messages since then starts at its end: that is no error.
        strategy = {"startingOffsetsByTimestampStrategy": "latest"}
        return options | {"startingTimestamp": start, **strategy}

    def reads(self, topic: str) -> bool:
        """Whether the source subscribes to a topic; an invalid pattern matches nothing."""
        try:
            return topic in self.topics or re.fullmatch(self.pattern or "", topic) is not None
        except re.error:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource(Part):
    """A table on disk, read once when the pipeline starts: what streams are joined with."""

    format: TableFormat
    path: str
    """A folder or file; of an Iceberg table, its name in the catalogue."""
    schema: str | None = None
    options: Options = field(default_factory=dict)


Source: TypeAlias = TopicSource | TableSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Part):
    """What every row of a table must be."""

    expect: str
    """A condition in SQL; a row for which it is false or null breaks the rule."""
    otherwise: Otherwise = Otherwise.DEAD_LETTER


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStep(Part):
    """A query over other tables of the pipeline."""

    sql: str
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonStep(Part):
    """A function from data frames to a data frame."""

    inputs: tuple[str, ...]
    function: StepFunction | str
    """The function, or where it is: `module:name` or `file.py:name`."""
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStep(Part):
    """An aggregate over windows of time."""

    input: str
    on: str
    """The column of time."""
    size: str
    slide: str | None = None
    gap: str | None = None
    """A session window that ends after so long without a row; then there is no size."""
    by: tuple[str, ...] = ()
    select: Options = field(default_factory=dict)
    """Name of a column to an aggregate in SQL, as in `revenue: sum(amount)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStep(Part):
    """Two tables side by side."""

    left: str
    right: str
    on: str
    """A column of both, or a condition in SQL over `left.x` and `right.y`."""
    how: str = "inner"
    within: str | None = None
    """Two streams: at most so far apart in time, by their watermarks' columns."""
    select: Options = field(default_factory=dict)
    """Name of a column to an expression over `left.x` and `right.y`; none: all columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesStep(Part):
    """A table without the rows that break its rules."""

    input: str
    rules: tuple[Rule, ...]
    dead_letters: str | None = None
    """The topic for rows of rules that say `dead-letter`."""


Step: TypeAlias = SqlStep | PythonStep | WindowStep | JoinStep | RulesStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When micro-batches are made."""

    available_now: bool = False
    """Everything that is there, then the pipeline ends."""
    interval: str | None = None
    """`10 seconds`; none: as soon as the last one is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPart(Part):
    """What every sink has."""

    input: str
    mode: OutputMode = OutputMode.APPEND
    trigger: Trigger | None = None
    """None: the pipeline's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink(SinkPart):
    """Rows become messages, exactly once."""

    topic: str
    key: str | None = None
    """An expression in SQL; none: messages without keys."""
    value: str | None = None
    """An expression in SQL; by default all columns as one JSON object."""
    create: int | None = None
    """Make the topic with so many partitions if it is not there."""
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSink(SinkPart):
    """Rows become files of a table, exactly once."""

    format: TableFormat
    path: str
    partition_by: tuple[str, ...] = ()
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSink(SinkPart):
    """Rows are printed."""

    rows: int = 20


Sink: TypeAlias = TopicSink | TableSink | ConsoleSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Everything that a file says. `checking.py` says what must hold beyond the types."""

    name: str
    servers: str = "127.0.0.1:9092"
    http: str | None = None
    """The broker's HTTP address: schemas are found there, and progress is published there."""
    checkpoints: str = ""
    """The folder under which each sink keeps where it is."""
    trigger: Trigger = field(default_factory=Trigger)
    master: str | None = None
    """Where Spark runs: `local[*]` by default, `spark://…`, or `sc://…` for Spark Connect."""
    conf: Options = field(default_factory=dict)
    connection: Options = field(default_factory=dict)
    """Options of every connection to the broker, such as `kafka.sasl.username`."""
    sources: tuple[Source, ...] = ()
    steps: tuple[Step, ...] = ()
    sinks: tuple[Sink, ...] = ()
    file: str | None = None

    @property
    def table_names(self) -> list[str]:
        """The names of all sources and steps."""
        return [each.name for each in (*self.sources, *self.steps)]

    @property
    def is_remote(self) -> bool:
        """Whether it runs on a Spark Connect server."""
        return (self.master or "").startswith("sc://")

    @property
    def link_options(self) -> dict[str, str]:
        """The options of every connection to the broker."""
        return {"bootstrap.servers": self.servers, **self.connection}


class PipelineError(SparkSourceError):
    """A pipeline that cannot be run; carries every problem found, not the first alone."""

    def __init__(self, problems: tuple[Problem, ...], file: str | None = None) -> None:
        self.problems = problems
        self.file = file
        super().__init__("\n".join(show_problem(each, file) for each in problems))


def show_problem(problem: Problem, file: str | None = None) -> str:
    """A problem as a line that editors can jump to."""
    place = ":".join(str(each) for each in (file, problem.line, problem.column) if each is not None)
    where = f"{place}: " if place else ""
    path = f"{problem.path}: " if problem.path else ""
    return f"{where}{path}{problem.message}"


def plain(value: Any) -> str:
    """A scalar of a YAML file as the text that an option takes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
