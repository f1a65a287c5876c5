"""Pipelines out of YAML: what they mean, and every mistake with its line, column and path."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from goqueue.model.limits import MAX_PIPELINE_BYTES
from goqueue.spark.pipelines.files.loading import load_file, load_pipeline
from goqueue.spark.pipelines.files.yaml_file import read_yaml
from goqueue.spark.pipelines.model import (
    ConsoleSink,
    JoinStep,
    Otherwise,
    OutputMode,
    PipelineError,
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

if TYPE_CHECKING:
    from goqueue.spark.pipelines.files.loaded import Loaded

FILE = "/files/orders.yaml"
MINIMAL = "name: n\nsources: {a: {topic: a}}\nsinks: {b: {from: a, topic: b}}\n"


def read(text: str, **environment: str) -> Loaded:
    return read_yaml(textwrap.dedent(text).encode(), FILE, environment)


def found(text: str, **environment: str) -> list[tuple[int | None, int | None, str]]:
    return [(each.line, each.column, each.path) for each in read(text, **environment).problems]


def only(text: str, **environment: str) -> str:
    (problem,) = read(text, **environment).problems
    return problem.message


def with_source(entry: str) -> str:
    return f"name: n\nsources: {{a: {entry}}}\nsinks: {{b: {{from: a, topic: b}}}}\n"


def with_step(entry: str) -> str:
    return f"name: n\nsources: {{a: {{topic: a}}}}\nsteps: {{s: {entry}}}\n"


def with_sink(entry: str) -> str:
    return f"name: n\nsources: {{a: {{topic: a}}}}\nsinks: {{b: {entry}}}\n"


# --- What a file means ---------------------------------------------------------------------------


def test_a_file_with_everything_becomes_the_model() -> None:
    loaded = read(
        """
        name: orders
        broker: {servers: "b:9092", http: "http://b:8080", options: {kafka.sasl.username: me}}
        checkpoints: ./cp
        trigger: 10 seconds
        spark: {master: "local[2]", conf: {spark.sql.shuffle.partitions: 4, spark.x: true}}
        sources:
          orders:
            topic: orders
            format: json
            schema: id bigint, at timestamp
            starting: earliest
            watermark: {column: at, delay: 1 minute}
            columns: [key, offset]
            options: {maxOffsetsPerTrigger: 100000}
          many: {topics: [a, b], flatten: no, streaming: false}
          all: {pattern: "o.*"}
          customers: {parquet: ./customers, schema: id bigint}
        steps:
          valid:
            from: orders
            rules:
              - {name: positive, expect: amount > 0, otherwise: dead-letter}
              - {expect: customer IS NOT NULL, otherwise: drop}
            dead_letters: orders.rejected
          priced: {sql: SELECT 1 FROM valid, watermark: {column: at, delay: 0 seconds}}
          windows:
            from: priced
            window: {on: at, size: 1 minute, slide: 30 seconds, by: c, select: {n: count(*)}}
          sessions: {from: priced, window: {on: at, gap: 5 minutes, select: {n: count(*)}}}
          joined:
            join: {left: valid, right: many, on: id, how: left_outer, within: 1 day, select: {x: y}}
          scored: {from: [valid, many], python: "scoring.py:score"}
        sinks:
          revenue:
            from: windows
            topic: r
            key: c
            value: to_json(struct(*))
            mode: update
            create: 4
            trigger: available-now
          table:
            from: valid
            delta: lake/orders
            partition_by: [day]
            options: {a: 1}
            trigger: as-fast-as-possible
          shown: {from: windows, console: {rows: 5}, mode: complete}
          plain: {from: windows, console: }
        """
    )
    assert loaded.problems == ()
    pipeline = loaded.pipeline
    assert pipeline is not None
    assert (pipeline.name, pipeline.servers, pipeline.http) == ("orders", "b:9092", "http://b:8080")
    assert pipeline.checkpoints == "/files/cp"
    assert pipeline.trigger == Trigger(interval="10 seconds")
    assert pipeline.conf == {"spark.sql.shuffle.partitions": "4", "spark.x": "true"}
    assert pipeline.connection == {"kafka.sasl.username": "me"}
    assert pipeline.sources == (
        TopicSource(
            name="orders",
            topics=("orders",),
            value_format="json",
            value_schema="id bigint, at timestamp",
            starting="earliest",
            watermark=Watermark("at", "1 minute"),
            columns=("key", "offset"),
            options={"maxOffsetsPerTrigger": "100000"},
            line=8,
        ),
        TopicSource(name="many", topics=("a", "b"), flatten=False, streaming=False, line=16),
        TopicSource(name="all", pattern="o.*", line=17),
        TableSource(
            name="customers",
            format=TableFormat.PARQUET,
            path="/files/customers",
            schema="id bigint",
            line=18,
        ),
    )
    assert pipeline.steps == (
        RulesStep(
            name="valid",
            input="orders",
            rules=(
                Rule(name="positive", expect="amount > 0", line=23),
                Rule(
                    name="customer IS NOT NULL",
                    expect="customer IS NOT NULL",
                    otherwise=Otherwise.DROP,
                    line=24,
                ),
            ),
            dead_letters="orders.rejected",
            line=20,
        ),
        SqlStep(
            name="priced",
            sql="SELECT 1 FROM valid",
            watermark=Watermark("at", "0 seconds"),
            line=26,
        ),
        WindowStep(
            name="windows",
            input="priced",
            on="at",
            size="1 minute",
            slide="30 seconds",
            by=("c",),
            select={"n": "count(*)"},
            line=27,
        ),
        WindowStep(
            name="sessions",
            input="priced",
            on="at",
            size="",
            gap="5 minutes",
            select={"n": "count(*)"},
            line=30,
        ),
        JoinStep(
            name="joined",
            left="valid",
            right="many",
            on="id",
            how="left",
            within="1 day",
            select={"x": "y"},
            line=31,
        ),
        PythonStep(name="scored", inputs=("valid", "many"), function="scoring.py:score", line=33),
    )
    assert pipeline.sinks == (
        TopicSink(
            name="revenue",
            input="windows",
            topic="r",
            key="c",
            value="to_json(struct(*))",
            mode=OutputMode.UPDATE,
            create=4,
            trigger=Trigger(available_now=True),
            line=35,
        ),
        TableSink(
            name="table",
            input="valid",
            format=TableFormat.DELTA,
            path="/files/lake/orders",
            partition_by=("day",),
            options={"a": "1"},
            trigger=Trigger(),
            line=43,
        ),
        ConsoleSink(name="shown", input="windows", rows=5, mode=OutputMode.COMPLETE, line=49),
        ConsoleSink(name="plain", input="windows", line=50),
    )


def test_anchors_and_merge_keys_share_what_is_said_once() -> None:
    loaded = read(
        """
        name: n
        sources:
          a: &json {topic: a, format: json, schema: id int}
          b: {<<: *json, topic: b}
        sinks: {x: {from: a, topic: x}, y: {from: b, topic: y}}
        """
    )
    assert loaded.problems == ()
    assert loaded.pipeline is not None
    first, second = loaded.pipeline.sources
    assert isinstance(first, TopicSource)
    assert isinstance(second, TopicSource)
    assert (second.topics, second.value_format) == (("b",), first.value_format)


@pytest.mark.parametrize(
    ("path", "becomes"),
    [
        ("x", "/files/x"),
        ("../x", "/x"),
        ("/abs/x", "/abs/x"),
        ("s3a://bucket/x", "s3a://bucket/x"),
        ("file:///x", "file:///x"),
    ],
)
def test_a_relative_path_starts_beside_the_file(path: str, becomes: str) -> None:
    loaded = read(f"checkpoints: {path}\n" + MINIMAL)
    assert loaded.pipeline is not None
    assert loaded.pipeline.checkpoints == becomes


def test_variables_are_filled_in_after_parsing_and_cannot_change_the_structure() -> None:
    text = with_source('{topic: "${TOPIC}-${ENV:-dev}", schema: "$${kept}", format: json}')
    loaded = read(text, TOPIC='x", options: {a: 1}', ENV="")
    assert loaded.problems == ()
    assert loaded.pipeline is not None
    (source,) = loaded.pipeline.sources
    assert isinstance(source, TopicSource)
    assert source.topics == ('x", options: {a: 1}-dev',)
    assert source.value_schema == "${kept}"


# --- Mistakes ------------------------------------------------------------------------------------


def test_three_mistakes_are_reported_together_with_their_lines(tmp_path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(
        textwrap.dedent(
            """\
            name: orders
            sources:
              orders:
                topic: orders
                watermark: {column: timestamp, delay: 5min}
            steps:
              large:
                sql: SELECT * FROM ordres
            sinks:
              out:
                from: large
                topik: orders.large
            """
        )
    )
    with pytest.raises(PipelineError) as raised:
        load_pipeline(file)
    assert str(raised.value).splitlines() == [
        (
            f"{file}:5:43: sources.orders.watermark.delay: '5min' is no span of time: expected "
            "10 seconds, 1 minute, 1 hour 30 minutes and the like; write 5 minutes"
        ),
        (
            f"{file}:8:10: steps.large.sql: there is no table 'ordres'; did you mean orders? (a "
            "table of Spark's catalogue is written with its database, as in default.ordres)"
        ),
        f"{file}:12:5: sinks.out.topik: 'topik' is not known here; did you mean topic?",
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("nam: x\n" + MINIMAL, (1, 1, "nam")),
        (MINIMAL + "name: again\n", (4, 1, "name")),
        (MINIMAL.replace("name: n\n", ""), (1, 1, "")),
        ("name: a b\n" + MINIMAL[8:], (1, 7, "name")),
        ("trigger: 10s\n" + MINIMAL, (1, 10, "trigger")),
        ("trigger: [1]\n" + MINIMAL, (1, 10, "trigger")),
        ("broker: 'host:port'\n" + MINIMAL, (1, 9, "broker")),
        ("broker: {http: 'host:8080'}\n" + MINIMAL, (1, 16, "broker.http")),
        ("broker: {server: x}\n" + MINIMAL, (1, 10, "broker.server")),
        ("spark: {conf: {a: [1]}}\n" + MINIMAL, (1, 19, "spark.conf.a")),
        ("spark: {conf: {a: }}\n" + MINIMAL, (1, 18, "spark.conf.a")),
        ("checkpoints: ${NOWHERE}\n" + MINIMAL, (1, 14, "checkpoints")),
        ("checkpoints: ${}\n" + MINIMAL, (1, 14, "checkpoints")),
        ("name: n\nsources: []\n", (2, 10, "sources")),
        (with_source("5"), (2, 11, "sources.a")),
        (with_source("{}"), (2, 11, "sources.a")),
        (with_source("{topic: }"), (2, 21, "sources.a.topic")),
        (with_source("{topic: [x, y]}"), (2, 22, "sources.a.topic")),
        (with_source("{topics: [[x]]}"), (2, 24, "sources.a.topics[0]")),
        (with_source("{topic: x, parquet: y}"), (2, 11, "sources.a")),
        (with_source("{topic: x, format: jsn}"), (2, 33, "sources.a.format")),
        (with_source("{topic: x, flatten: maybe}"), (2, 34, "sources.a.flatten")),
        (with_source("{topic: x, watermark: {delay: 1 day}}"), (2, 36, "sources.a.watermark")),
        (with_source("{csv: x, starting: latest}"), (2, 23, "sources.a.starting")),
        ("name: n\nsources: {a-b: {topic: a}}\n", (2, 11, "sources.a-b")),
        (with_step("{from: a}"), (3, 9, "steps.s")),
        (with_step("{sql: SELECT 1, from: a}"), (3, 28, "steps.s.from")),
        (with_step("{sql: SELECT 1, join: {}}"), (3, 9, "steps.s")),
        (with_step("{from: a, python: nowhere}"), (3, 30, "steps.s.python")),
        (with_step("{from: a, rules: []}"), (3, 29, "steps.s.rules")),
        (with_step("{from: a, rules: [{expects: x}]}"), (3, 30, "steps.s.rules[0]")),
        (
            with_step("{from: a, rules: [{expect: x, otherwise: explode}]}"),
            (3, 53, "steps.s.rules[0].otherwise"),
        ),
        (with_step("{from: a, window: {on: t, size: 1 minute}}"), (3, 30, "steps.s.window")),
        (
            with_step("{from: a, window: {on: t, gap: 1 day, size: 1 day, select: {n: x}}}"),
            (3, 56, "steps.s.window.size"),
        ),
        (
            with_step("{from: a, window: {on: t, size: 0 seconds, select: {n: x}}}"),
            (3, 44, "steps.s.window.size"),
        ),
        (
            with_step("{join: {left: a, right: a, on: x, how: sideways}}"),
            (3, 51, "steps.s.join.how"),
        ),
        (with_sink("{topic: x}"), (3, 9, "sinks.b")),
        (with_sink("{from: a}"), (3, 9, "sinks.b")),
        (with_sink("{from: a, csv: x}"), (3, 27, "sinks.b.csv")),
        (with_sink("{from: a, delta: x, key: k}"), (3, 32, "sinks.b.key")),
        (with_sink("{from: a, topic: x, create: 0}"), (3, 40, "sinks.b.create")),
        (with_sink("{from: a, topic: x, mode: upsert}"), (3, 38, "sinks.b.mode")),
        (with_sink("{from: a, console: 5}"), (3, 31, "sinks.b.console")),
        (with_sink("{from: a, topic: x, trigger: 1 month}"), (3, 41, "sinks.b.trigger")),
    ],
)
def test_a_mistake_is_reported_where_it_is(text: str, place: tuple[int, int, str]) -> None:
    assert place in found(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trigger: 1h30m\n" + MINIMAL, "write 1 hour 30 minutes"),
        ("trigger: available\n" + MINIMAL, "did you mean available-now?"),
        ("trigger: 2 years\n" + MINIMAL, "count in days"),
        (MINIMAL + "name: again\n", "name is given twice, first in line 1: remove one"),
        ("checkpoints: ${NOWHERE}\n" + MINIMAL, "NOWHERE is not set"),
        (with_sink("{from: a, delta: x, key: k}"), "it is for topics"),
        (with_sink("{from: a, json: x}"), "can only be read"),
        (with_source("{topic: x, sql: y}"), "'sql' is not known here; expected one of topic"),
    ],
)
def test_a_mistake_comes_with_what_to_do(text: str, said: str) -> None:
    assert said in only(text)


# --- Files that are none -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "line", "column", "said"),
    [
        (b"", 1, 1, "the file is empty"),
        (b"# nothing\n", 1, 1, "the file is empty"),
        (b"- a\n", 1, 1, "expected a pipeline"),
        (b"name: [\n", 2, 1, "invalid YAML"),
        (b"name: a\n\tb: c\n", 2, 1, "indent with blanks"),
        (b"name: a\nx: \xff\n", 2, 4, "0xff is no UTF-8"),
        (b"name: a\x00\n", 1, 8, "cannot be in YAML"),
        (b"name: a\n---\nname: b\n", 2, 1, "a second document"),
        (b"name: !!python/object:os.system x\n", 1, 7, "means nothing here"),
        (b"name: *nobody\n", 1, 7, "there is no &nobody"),
        (b"name: &a [*a]\n", 1, 11, "contains itself"),
        (b"? [a]\n: b\n", 1, 3, "a key is a word"),
        (b"<<: 5\n", 1, 5, "<< takes a mapping"),
        (b"[" * 1000, 1, 42, "levels deep"),
    ],
)
def test_what_is_no_pipeline_is_one_problem_with_its_place(
    data: bytes, line: int, column: int, said: str
) -> None:
    loaded = read_yaml(data, FILE, {})
    assert loaded.pipeline is None
    (problem,) = loaded.problems
    assert (problem.line, problem.column) == (line, column)
    assert said in problem.message


def test_a_bomb_of_aliases_is_refused_before_it_goes_off() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 10)
    ]
    (problem,) = read_yaml("\n".join(lines).encode(), FILE, {}).problems
    assert problem.line == 5
    assert "with what aliases stand for" in problem.message


def test_a_huge_file_is_refused_unread() -> None:
    (problem,) = read_yaml(b"#" * (MAX_PIPELINE_BYTES + 1), FILE, {}).problems
    assert "is it the right file?" in problem.message


@pytest.mark.parametrize(
    ("name", "said"),
    [("none.yaml", "cannot be read"), ("pipeline.txt", ".txt is no kind of pipeline")],
)
def test_a_file_that_cannot_be_read_is_a_problem(tmp_path, name: str, said: str) -> None:
    (problem,) = load_file(tmp_path / name).problems
    assert said in problem.message
