"""What a pipeline will do, told before it does anything: its tables, and a query for each sink."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from goqueue.spark.pipelines.graph import in_order, inputs_of, tables_behind, topics_behind
from goqueue.spark.pipelines.model import (
    ConsoleSink,
    JoinStep,
    Pipeline,
    PythonStep,
    RulesStep,
    Sink,
    Source,
    SqlStep,
    Step,
    TableSource,
    TopicSink,
    TopicSource,
    Trigger,
    Watermark,
    WindowStep,
)
from goqueue.spark.pipelines.naming import (
    LETTERS,
    checkpoint_of,
    dead_letter_topic,
    group_name,
    keeps_letters,
    letter_steps,
)
from goqueue.spark.pipelines.natures import Nature, natures_of

if TYPE_CHECKING:
    from collections.abc import Mapping


EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once"
EACH_RUN = "once in each run"
"""Of what does not stream: nothing remembers that it was written before."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A source or step."""

    name: str
    kind: str
    """`topic`, `parquet`, `sql`, `window` and so on."""
    inputs: tuple[str, ...]
    """The tables that it is made of."""
    text: str
    """What it is, for people."""
    is_stream: bool


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A sink, or the dead letters of a step."""

    name: str
    sink: str
    """Where it writes, as in `topic revenue`."""
    topics: tuple[str, ...]
    """What it reads in the end."""
    tables: tuple[str, ...]
    """Sources on disk."""
    steps: tuple[str, ...]
    """In the order in which rows go through them."""
    state: tuple[str, ...]
    """What it keeps between micro-batches."""
    mode: str
    trigger: str
    checkpoint: str
    group: str
    guarantee: str
    is_stream: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole."""

    name: str
    file: str | None
    servers: str
    http: str | None
    master: str
    tables: tuple[TablePlan, ...]
    queries: tuple[QueryPlan, ...]

    def as_dict(self) -> dict[str, Any]:
        """The plan as `-o json` prints it."""
        return asdict(self)


def plan_of(pipeline: Pipeline) -> Plan:
    """The plan of a pipeline that has been checked."""
    natures = natures_of(pipeline)
    steps = in_order(pipeline)
    tables = [_source(each, natures[each.name]) for each in pipeline.sources]
    tables += [
        TablePlan(
            each.name,
            kind_of_step(each),
            inputs_of(each, pipeline.table_names),
            describe_step(pipeline, each),
            natures[each.name].is_stream,
        )
        for each in steps
    ]
    queries = [_query(pipeline, each, natures) for each in pipeline.sinks]
    queries += [_letters(pipeline, each, natures) for each in letter_steps(steps)]
    return Plan(
        name=pipeline.name,
        file=pipeline.file,
        servers=pipeline.servers,
        http=pipeline.http,
        master=pipeline.master or "local[*]",
        tables=tuple(tables),
        queries=tuple(queries),
    )


# --- Tables --------------------------------------------------------------------------------------


def _source(source: Source, nature: Nature) -> TablePlan:
    if isinstance(source, TableSource):
        text = f"the {source.format} table {source.path}, read once"
        return TablePlan(source.name, source.format.value, (), text, nature.is_stream)
    what = f"topics like {source.pattern}" if source.pattern else ", ".join(source.topics)
    text = f"{what} as {source.value_format}, from {source.starting or 'earliest'}"
    text += _watermark(source.watermark)
    text += "" if source.streaming else ", read once"
    return TablePlan(source.name, "topic", (), text, nature.is_stream)


def _watermark(watermark: Watermark | None) -> str:
    return f", late by at most {watermark.delay} on {watermark.column}" if watermark else ""


def kind_of_step(step: Step) -> str:
    """The word by which a file asks for it."""
    return {
        SqlStep: "sql",
        PythonStep: "python",
        WindowStep: "window",
        JoinStep: "join",
        RulesStep: "rules",
    }[type(step)]


def describe_step(pipeline: Pipeline, step: Step) -> str:
    """What a step does, in a line."""
    match step:
        case SqlStep():
            return " ".join(step.sql.split()) + _watermark(step.watermark)
        case PythonStep():
            where = step.function
            called = where if isinstance(where, str) else f"{where.__name__}()"
            return f"{called}{_watermark(step.watermark)}"
        case WindowStep():
            return _window(step)
        case JoinStep():
            within = f" within {step.within}" if step.within else ""
            return f"{step.how} join on {step.on}{within}"
        case RulesStep():
            count = len(step.rules)
            said = "; ".join(f"{each.name}: {each.otherwise}" for each in step.rules)
            topic = dead_letter_topic(pipeline, step) if keeps_letters(step) else None
            letters = f"; dead letters to {topic}" if topic else ""
            return f"{count} rule{'' if count == 1 else 's'} ({said}){letters}"


def _window(step: WindowStep) -> str:
    made = ", ".join(f"{name} = {text}" for name, text in step.select.items())
    by = f" by {', '.join(step.by)}" if step.by else ""
    if step.gap is not None:
        return f"sessions on {step.on} that end after {step.gap}{by}: {made}"
    every = f" every {step.slide}" if step.slide else ""
    return f"windows of {step.size}{every} on {step.on}{by}: {made}"


# --- Queries -------------------------------------------------------------------------------------


def _query(pipeline: Pipeline, sink: Sink, natures: Mapping[str, Nature]) -> QueryPlan:
    return _planned(
        pipeline,
        sink.name,
        sink.input,
        natures,
        sink=describe_sink(sink),
        mode=sink.mode.value,
        trigger=show_trigger(sink.trigger or pipeline.trigger),
        guarantee=_guarantee(sink),
    )


def _letters(pipeline: Pipeline, step: RulesStep, natures: Mapping[str, Nature]) -> QueryPlan:
    return _planned(
        pipeline,
        f"{step.name}{LETTERS}",
        step.name,
        natures,
        sink=f"topic {dead_letter_topic(pipeline, step)}",
        mode="append",
        trigger=show_trigger(pipeline.trigger),
        guarantee=EXACTLY_ONCE,
    )


def _planned(
    pipeline: Pipeline,
    name: str,
    table: str,
    natures: Mapping[str, Nature],
    *,
    sink: str,
    mode: str,
    trigger: str,
    guarantee: str,
) -> QueryPlan:
    behind = tables_behind(pipeline, table)
    nature = natures[table]
    return QueryPlan(
        name=name,
        sink=sink,
        topics=topics_behind(pipeline, table),
        tables=tuple(
            f"{each.format} {each.path}"
            for each in pipeline.sources
            if isinstance(each, TableSource) and each.name in behind
        ),
        steps=tuple(each.name for each in in_order(pipeline) if each.name in behind),
        state=tuple(f"{each.step}: {each.text}" for each in nature.operators),
        mode=mode,
        trigger=trigger if nature.is_stream else "once",
        checkpoint=checkpoint_of(pipeline, name),
        group=group_name(pipeline, name),
        guarantee=guarantee if nature.is_stream else EACH_RUN,
        is_stream=nature.is_stream,
    )


def describe_sink(sink: Sink) -> str:
    """Where a sink writes, in a few words."""
    if isinstance(sink, TopicSink):
        return f"topic {sink.topic}"
    if isinstance(sink, ConsoleSink):
        return "console"
    return f"{sink.format} {sink.path}"


def _guarantee(sink: Sink) -> str:
    if isinstance(sink, ConsoleSink):
        return AT_LEAST_ONCE
    options = {name.lower(): value for name, value in sink.options.items()}
    return AT_LEAST_ONCE if options.get("guarantee") == "at-least-once" else EXACTLY_ONCE


def show_trigger(trigger: Trigger) -> str:
    """A trigger in the words of a file."""
    if trigger.available_now:
        return "available-now"
    return f"every {trigger.interval}" if trigger.interval else "as-fast-as-possible"


def topics_of(pipeline: Pipeline) -> dict[str, tuple[str, int | None]]:
    """Every topic by name: read, written, or for dead letters, and what `create` says of it."""
    found: dict[str, tuple[str, int | None]] = {}
    for source in pipeline.sources:
        if isinstance(source, TopicSource):
            found.update(dict.fromkeys(source.topics, ("read", None)))
    for sink in pipeline.sinks:
        if isinstance(sink, TopicSink):
            found.setdefault(sink.topic, ("written", sink.create))
    for step in letter_steps(pipeline.steps):
        topic = dead_letter_topic(pipeline, step)
        if topic is not None:
            found.setdefault(topic, ("dead letters", 0))
    return found
