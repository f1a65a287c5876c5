"""Whatever is in a file, reading it ends in a pipeline or in problems; and nothing is lost."""

from __future__ import annotations

import string
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from goqueue.spark.pipelines.durations import duration_us
from goqueue.spark.pipelines.files.loaded import checked
from goqueue.spark.pipelines.files.yaml_file import read_yaml
from goqueue.spark.pipelines.model import (
    ConsoleSink,
    JoinStep,
    Otherwise,
    OutputMode,
    Pipeline,
    PythonStep,
    Rule,
    RulesStep,
    SqlStep,
    TableFormat,
    TableSink,
    TableSource,
    TopicSink,
    TopicSource,
    Trigger,
    Watermark,
    WindowStep,
)
from goqueue.spark.pipelines.sql_tables import read_query
from support.effort import examples

if TYPE_CHECKING:
    from goqueue.spark.pipelines.model import Sink, Source, Step

FILE = "/files/any.yaml"
WORDS = [
    *("name", "broker", "trigger", "spark", "sources", "steps", "sinks", "from", "topic", "sql"),
    *("rules", "window", "join", "python", "console", "delta", "on", "select", "options", "<<"),
]


def read(data: bytes) -> Any:
    loaded = checked(read_yaml(data, FILE, {}))
    assert loaded.pipeline is not None or loaded.problems
    for each in loaded.problems:
        assert each.message
    return loaded


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read(data)


@settings(deadline=None)
@given(st.text(alphabet="{}[]:,-&*!|>'\"#%@`? \n\tab0$<", max_size=120))
def test_any_signs_of_yaml_are_read_or_refused(text: str) -> None:
    read(text.encode())


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner, max_size=5),
    max_leaves=25,
)  # fmt: skip


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(WORDS[:7], trees))
    | st.dictionaries(st.sampled_from(WORDS), trees)
)
def test_any_tree_is_read_or_refused(tree: object) -> None:
    read(yaml.safe_dump(tree).encode())


@settings(deadline=None)
@given(st.text(max_size=200) | st.text(alphabet="selct from,jin()'\"`-*/\n", max_size=200))
def test_any_text_can_be_looked_through_for_tables(text: str) -> None:
    read_query(text)


@settings(deadline=None)
@given(st.text(max_size=20))
def test_any_text_is_a_span_of_time_or_not(text: str) -> None:
    try:
        found = duration_us(text)
    except ValueError as error:
        said = str(error)
    else:
        said = repr(text)
        assert found >= 0
    assert repr(text) in said


# --- A model that is written down and read again -------------------------------------------------

names = st.text(string.ascii_lowercase, min_size=1, max_size=6).map("t_{}".format)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=12)
words = texts.filter(lambda each: each.strip() and "$" not in each)
durations = st.builds("{} {}".format, st.integers(1, 90), st.sampled_from(["seconds", "minutes"]))
options = st.dictionaries(words, words, max_size=2)
watermarks = st.none() | st.builds(Watermark, words, durations)
triggers = st.none() | st.builds(Trigger, interval=durations) | st.just(Trigger(available_now=True))
paths = st.text(string.ascii_letters, min_size=1, max_size=5).map("/lake/{}".format)
modes = st.sampled_from(OutputMode)


def lists(one: Any, least: int = 0) -> Any:
    return st.lists(one, min_size=least, max_size=3, unique=True).map(tuple)


sources = st.builds(
    TopicSource,
    name=names,
    topics=lists(words, 1),
    value_format=st.sampled_from(["binary", "json", "avro"]),
    value_schema=st.none() | words,
    starting=st.none() | words,
    watermark=watermarks,
    columns=lists(words),
    flatten=st.booleans(),
    streaming=st.booleans(),
    options=options,
) | st.builds(
    TableSource,
    name=names,
    format=st.sampled_from(TableFormat),
    path=paths,
    schema=st.none() | words,
    options=options,
)
steps = st.one_of(
    st.builds(SqlStep, name=names, sql=words, watermark=watermarks),
    st.builds(
        PythonStep,
        name=names,
        inputs=lists(names, 1),
        function=names.map("file.py:{}".format),
        watermark=watermarks,
    ),
    st.builds(
        WindowStep,
        name=names,
        input=names,
        on=words,
        size=durations,
        slide=st.none() | durations,
        by=lists(words),
        select=st.dictionaries(words, words, min_size=1, max_size=2),
    ),
    st.builds(
        JoinStep,
        name=names,
        left=names,
        right=names,
        on=words,
        how=st.sampled_from(["inner", "left", "full", "left_semi"]),
        within=st.none() | durations,
        select=options,
    ),
    st.builds(
        RulesStep,
        name=names,
        input=names,
        rules=lists(
            st.builds(Rule, name=words, expect=words, otherwise=st.sampled_from(Otherwise)), 1
        ),
        dead_letters=st.none() | words,
    ),
)
sinks = st.one_of(
    st.builds(
        TopicSink,
        name=names,
        input=names,
        topic=words,
        key=st.none() | words,
        value=st.none() | words,
        mode=modes,
        trigger=triggers,
        create=st.none() | st.integers(1, 100),
        options=options,
    ),
    st.builds(
        TableSink,
        name=names,
        input=names,
        format=st.sampled_from([TableFormat.DELTA, TableFormat.ICEBERG, TableFormat.PARQUET]),
        path=paths,
        partition_by=lists(words),
        mode=modes,
        trigger=triggers,
        options=options,
    ),
    st.builds(
        ConsoleSink,
        name=names,
        input=names,
        rows=st.integers(1, 99),
        mode=modes,
        trigger=triggers,
    ),
)


def parts(one: Any) -> Any:
    return st.lists(one, max_size=3, unique_by=lambda each: each.name).map(tuple)


pipelines = st.builds(
    Pipeline,
    name=names,
    servers=st.just("host:9092"),
    http=st.none() | st.just("http://host:8080"),
    checkpoints=paths,
    trigger=triggers.map(lambda each: each or Trigger()),
    master=st.none() | words,
    conf=options,
    connection=options,
    sources=parts(sources),
    steps=parts(steps),
    sinks=parts(sinks),
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(pipelines)
def test_a_model_that_is_written_down_is_read_as_it_was(pipeline: Pipeline) -> None:
    text = yaml.safe_dump(document(pipeline), allow_unicode=True, sort_keys=False)
    loaded = read_yaml(text.encode(), FILE, {})
    assert loaded.problems == ()
    assert loaded.pipeline is not None
    assert without_lines(loaded.pipeline) == without_lines(pipeline)


def without_lines(value: Any) -> Any:
    """A model as plain data, without where it came from; strings as YAML keeps them."""
    if is_dataclass(value):
        return {
            each.name: without_lines(getattr(value, each.name))
            for each in fields(value)
            if each.name not in {"line", "file"}
        }
    return list(map(without_lines, value)) if isinstance(value, tuple) else value


def document(pipeline: Pipeline) -> dict[str, Any]:
    broker = {"servers": pipeline.servers, "http": pipeline.http, "options": pipeline.connection}
    return given_only(
        name=pipeline.name,
        broker=given_only(**broker),
        checkpoints=pipeline.checkpoints,
        trigger=trigger_text(pipeline.trigger),
        spark=given_only(master=pipeline.master, conf=pipeline.conf),
        sources={each.name: source_entry(each) for each in pipeline.sources},
        steps={each.name: step_entry(each) for each in pipeline.steps},
        sinks={each.name: sink_entry(each) for each in pipeline.sinks},
    )


def given_only(**entries: Any) -> dict[str, Any]:
    empty: tuple[Any, ...] = (None, {}, ())
    return {
        name.rstrip("_"): list(value) if isinstance(value, tuple) else value
        for name, value in entries.items()
        if value not in empty
    }


def watermark_entry(watermark: Watermark | None) -> dict[str, str] | None:
    return None if watermark is None else {"column": watermark.column, "delay": watermark.delay}


def trigger_text(trigger: Trigger | None) -> str | None:
    if trigger is None:
        return None
    return "available-now" if trigger.available_now else trigger.interval or "as-fast-as-possible"


def source_entry(source: Source) -> dict[str, Any]:
    if isinstance(source, TableSource):
        return {
            source.format.value: source.path,
            **given_only(schema=source.schema, options=source.options),
        }
    return given_only(
        topics=source.topics,
        format=source.value_format,
        schema=source.value_schema,
        starting=source.starting,
        watermark=watermark_entry(source.watermark),
        columns=source.columns,
        flatten=source.flatten,
        streaming=source.streaming,
        options=source.options,
    )


def step_entry(step: Step) -> dict[str, Any]:
    match step:
        case SqlStep():
            return given_only(sql=step.sql, watermark=watermark_entry(step.watermark))
        case PythonStep():
            watermark = watermark_entry(step.watermark)
            return given_only(from_=step.inputs, python=step.function, watermark=watermark)
        case WindowStep():
            window = given_only(
                on=step.on, size=step.size, slide=step.slide, by=step.by, select=step.select
            )
            return {"from": step.input, "window": window}
        case JoinStep():
            join = given_only(
                left=step.left,
                right=step.right,
                on=step.on,
                how=step.how,
                within=step.within,
                select=step.select,
            )
            return {"join": join}
        case RulesStep():
            rules = [
                {"name": each.name, "expect": each.expect, "otherwise": each.otherwise.value}
                for each in step.rules
            ]
            return given_only(from_=step.input, rules=rules, dead_letters=step.dead_letters)


def sink_entry(sink: Sink) -> dict[str, Any]:
    trigger = trigger_text(sink.trigger)
    common = given_only(from_=sink.input, mode=sink.mode.value, trigger=trigger)
    match sink:
        case TopicSink():
            own = given_only(
                topic=sink.topic,
                key=sink.key,
                value=sink.value,
                create=sink.create,
                options=sink.options,
            )
        case TableSink():
            own = {
                sink.format.value: sink.path,
                **given_only(partition_by=sink.partition_by, options=sink.options),
            }
        case ConsoleSink():
            own = {"console": {"rows": sink.rows}}
    return common | own
