"""What must hold between the parts of a pipeline, judged without Spark."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from goqueue.spark.pipelines.checks.checking import _MAX_PARTS
from goqueue.spark.pipelines.columns import MESSAGE_COLUMNS
from goqueue.spark.pipelines.files.loaded import checked
from goqueue.spark.pipelines.files.yaml_file import read_yaml
from goqueue.spark.values.ddl import ddl_problem

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = """
name: n
sources:
  orders: {topic: orders, watermark: {column: timestamp, delay: 1 minute}}
  late: {topic: late}
  paid: {topic: paid, watermark: {column: timestamp, delay: 1 minute}}
  people: {parquet: ./people}
"""
"""Six lines; steps begin in the seventh."""


def judged(text: str) -> list[tuple[int | None, str, str, bool]]:
    loaded = checked(read_yaml(textwrap.dedent(text).lstrip("\n").encode(), "/f.yaml", {}))
    return [(each.line, each.path, each.message, each.is_warning) for each in loaded.problems]


def errors(text: str) -> list[tuple[int | None, str]]:
    return [(line, path) for line, path, _, is_warning in judged(text) if not is_warning]


def warnings(text: str) -> list[tuple[int | None, str]]:
    return [(line, path) for line, path, _, is_warning in judged(text) if is_warning]


def with_parts(steps: str, sinks: str) -> str:
    text = TOPICS.lstrip("\n")
    return f"{text}steps: {{{steps}}}\nsinks: {{{sinks}}}\n"


def used(*names: str) -> str:
    return ", ".join(f"x{at}: {{from: {name}, topic: x{at}}}" for at, name in enumerate(names))


ALL = used("orders", "late", "paid", "people")


def test_a_whole_pipeline_has_no_problems() -> None:
    steps = "s: {sql: SELECT o.* FROM orders o JOIN people p ON o.key = p.id}"
    assert judged(with_parts(steps, f"{ALL}, out: {{from: s, topic: out}}")) == []


# --- Names and the graph -------------------------------------------------------------------------


def test_a_table_that_is_not_there_is_named_with_the_nearest() -> None:
    text = with_parts("", "x: {from: oders, topic: x}")
    ((line, path, message, _),) = judged(text)
    assert (line, path) == (8, "sinks.x.from")
    assert message == "there is no table 'oders'; did you mean orders?"


@pytest.mark.parametrize(
    ("steps", "place"),
    [
        ("s: {sql: SELECT * FROM nobody}", "steps.s.sql"),
        ("s: {from: [nobody], python: 'a:b'}", "steps.s.from"),
        ("s: {join: {left: nobody, right: people, on: x}}", "steps.s.join.left"),
        ("s: {join: {left: orders, right: nobody, on: x}}", "steps.s.join.right"),
        ("s: {from: nobody, rules: [{expect: key}], dead_letters: d}", "steps.s.from"),
        ("s: {sql: SELECT * FROM s}", "steps.s.sql"),
        ("s: {from: s, python: 'a:b'}", "steps.s.from"),
        ("Orders: {sql: SELECT * FROM late}", "steps.Orders"),
    ],
)
def test_a_step_of_what_cannot_be_is_refused(steps: str, place: str) -> None:
    assert (7, place) in errors(with_parts(steps, ALL))


def test_a_function_must_be_in_a_file_that_is_there(tmp_path: Path) -> None:
    steps = "s: {from: orders, python: 'here.py:f'}, t: {from: orders, python: 'gone.py:f'}"
    text = with_parts(steps, used("orders", "late", "paid", "people", "s", "t"))
    (tmp_path / "here.py").write_text("f = None")
    loaded = checked(read_yaml(text.encode(), str(tmp_path / "f.yaml"), {}))
    (found,) = [each for each in loaded.problems if "no file" in each.message]
    assert (found.path, found.message) == (
        "steps.t.python",
        f"there is no file {tmp_path.resolve() / 'gone.py'}",
    )


def test_a_window_without_a_column_is_reported_once() -> None:
    steps = "s: {from: late, window: {size: 1 minute, select: {n: count(*)}}}"
    text = with_parts(steps, f"{ALL}, y: {{from: s, topic: y}}")
    assert [path for _, path, _, _ in judged(text)] == ["steps.s.window"]


def test_a_table_of_a_catalogue_is_left_to_spark() -> None:
    steps = "s: {sql: SELECT * FROM orders JOIN lake.people}"
    assert judged(with_parts(steps, f"{ALL}, y: {{from: s, topic: y}}")) == []


def test_a_circle_is_shown() -> None:
    steps = "a: {sql: SELECT * FROM c}, b: {sql: SELECT * FROM a}, c: {sql: SELECT * FROM b}"
    ((line, path, message, _),) = judged(with_parts(steps, ALL))
    assert (line, path) == (7, "steps.a")
    assert "a -> b -> c -> a" in message


def test_a_table_that_nothing_uses_is_a_warning() -> None:
    steps = "s: {sql: SELECT * FROM orders}"
    sinks = used("late", "paid", "people")
    assert warnings(with_parts(steps, sinks)) == [(7, "steps.s")]
    assert warnings(with_parts("", sinks)) == [(3, "sources.orders")]


def test_two_queries_with_one_checkpoint_are_refused() -> None:
    sinks = "out: {from: orders, topic: a}, Out: {from: late, topic: b}"
    assert errors(with_parts("", sinks)) == [(8, "sinks.Out")]
    steps = "s: {from: orders, rules: [{expect: key}]}"
    sinks = "s-dead-letters: {from: s, topic: a}"
    assert errors(with_parts(steps, sinks)) == [(8, "sinks.s-dead-letters")]


def test_a_pipeline_without_sources_or_sinks_does_nothing() -> None:
    found = [message for _, _, message, _ in judged("name: n\n")]
    assert [each.split(":")[0] for each in found] == ["there are no sources", "there are no sinks"]


def test_too_many_parts_are_refused() -> None:
    sources = ", ".join(f"t{at}: {{topic: t}}" for at in range(_MAX_PARTS + 1))
    ((_, _, message, _),) = judged(f"name: n\nsources: {{{sources}}}\n")
    assert "more than 500" in message


# --- Rules ---------------------------------------------------------------------------------------


def test_dead_letters_of_one_topic_need_no_place_of_their_own() -> None:
    steps = "s: {from: orders, rules: [{expect: key, otherwise: dead-letter}]}"
    assert judged(with_parts(steps, used("s", "late", "paid", "people"))) == []


@pytest.mark.parametrize("source", ["{topics: [a, b]}", "{pattern: 'a.*'}", "{parquet: x}"])
def test_dead_letters_of_several_topics_need_one(source: str) -> None:
    text = f"""
    name: n
    sources: {{a: {source}}}
    steps: {{s: {{from: a, rules: [{{expect: key, otherwise: dead-letter}}]}}}}
    sinks: {{x: {{from: s, topic: x}}}}
    """
    assert errors(text) == [(3, "steps.s")]
    assert errors(text.replace("from: a,", "from: a, dead_letters: d,")) == []


def test_a_misspelt_key_is_reported_and_not_what_follows_from_it() -> None:
    text = """
    name: n
    sources: {a: {topics: [a, b]}}
    steps: {s: {from: a, rules: [{expect: key}], dead_leters: d}}
    sinks: {x: {from: s, topic: x}}
    """
    assert errors(text) == [(3, "steps.s.dead_leters")]


def test_dead_letters_that_no_rule_sends_are_a_warning() -> None:
    steps = "s: {from: orders, rules: [{expect: key, otherwise: drop}], dead_letters: d}"
    assert warnings(with_parts(steps, used("s", "late", "paid", "people"))) == [
        (7, "steps.s.dead_letters")
    ]


def test_two_rules_of_one_name_are_refused() -> None:
    steps = "s: {from: orders, rules: [{expect: key}, {name: key, expect: value}]}"
    assert errors(with_parts(steps, ALL)) == [(7, "steps.s.rules[1]")]


@pytest.mark.parametrize("source", ["{topic: a}", "{topics: [b, a]}", "{pattern: '[ab]'}"])
def test_writing_to_what_is_read_is_a_warning(source: str) -> None:
    text = f"name: n\nsources: {{t: {source}}}\nsinks: {{x: {{from: t, topic: a}}}}\n"
    assert warnings(text) == [(3, "sinks.x.topic")]


# --- Streams -------------------------------------------------------------------------------------

WINDOW = "on: timestamp, size: 1 minute, select: {n: count(*)}"


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_a_window_needs_a_watermark_where_it_is_written_once(mode: str) -> None:
    steps = f"w: {{from: late, window: {{{WINDOW}}}}}"
    sink = "out: {from: w, topic: out}"
    assert errors(with_parts(steps, f"{ALL}, {sink}")) == [(8, "sinks.out")]
    other = sink.replace("topic: out", f"topic: out, mode: {mode}")
    assert errors(with_parts(steps, f"{ALL}, {other}")) == []
    assert warnings(with_parts(steps, f"{ALL}, {other}")) == [(7, "steps.w")]
    assert judged(with_parts(steps.replace("late", "orders"), f"{ALL}, {sink}")) == []


def test_the_watermark_must_be_on_the_column_of_the_window() -> None:
    steps = f"w: {{from: orders, window: {{{WINDOW.replace('on: timestamp', 'on: offset')}}}}}"
    assert errors(with_parts(steps, f"{ALL}, out: {{from: w, topic: out}}")) == [(8, "sinks.out")]


@pytest.mark.parametrize(
    "between", ["{from: late, python: 'a:b'}", "{sql: SELECT value AS timestamp FROM orders}"]
)
def test_nobody_is_told_off_on_a_guess(between: str) -> None:
    steps = f"s: {between}, w: {{from: s, window: {{{WINDOW}}}}}"
    assert errors(with_parts(steps, f"{ALL}, out: {{from: w, topic: out}}")) == []


def test_a_count_in_sql_needs_a_watermark_too() -> None:
    steps = "s: {sql: 'SELECT key, count(*) FROM late GROUP BY key'}"
    assert errors(with_parts(steps, f"{ALL}, out: {{from: s, topic: out}}")) == [(8, "sinks.out")]
    people = steps.replace("late", "people")
    assert judged(with_parts(people, f"{ALL}, out: {{from: s, topic: out}}")) == []


def test_a_window_that_slides_past_rows_is_refused() -> None:
    window = WINDOW.replace("size: 1 minute", "size: 1 minute, slide: 61 seconds")
    steps = f"w: {{from: orders, window: {{{window}}}}}"
    assert errors(with_parts(steps, f"{ALL}, out: {{from: w, topic: out}}")) == [
        (7, "steps.w.window.slide")
    ]


@pytest.mark.parametrize(
    ("sink", "place"),
    [
        ("{from: orders, topic: out, mode: complete}", "sinks.out.mode"),
        ("{from: w, delta: ./x, mode: update}", "sinks.out.mode"),
        ("{from: w, parquet: ./x, mode: complete}", "sinks.out.mode"),
        ("{from: ww, topic: out, mode: update}", "sinks.out.mode"),
        ("{from: outer, topic: out, mode: update}", "sinks.out.mode"),
        ("{from: orders, delta: 's3://x/y'}", "sinks.out.delta"),
    ],
)
def test_a_mode_that_a_sink_cannot_have_is_refused(sink: str, place: str) -> None:
    steps = (
        f"w: {{from: orders, window: {{{WINDOW}}}}}, "
        f"ww: {{from: w, window: {{{WINDOW.replace('on: timestamp', 'on: window_end')}}}}}, "
        "outer: {join: {left: orders, right: paid, on: key, how: left, within: 1 hour}}"
    )
    found = errors(with_parts(steps, f"{ALL}, y: {{from: outer, topic: y}}, out: {sink}"))
    assert (8, place) in found


@pytest.mark.parametrize(
    ("join", "errors_at", "warnings_at"),
    [
        ("left: orders, right: paid, on: key, within: 1 hour", [], []),
        ("left: orders, right: paid, on: key, how: left, within: 1 hour", [], []),
        ("left: orders, right: paid, on: key, how: left", ["join"], []),
        ("left: orders, right: late, on: key, how: full, within: 1 hour", ["join"], []),
        ("left: orders, right: late, on: key, within: 1 hour", ["join"], ["join"]),
        ("left: orders, right: paid, on: key", [], ["join"]),
        ("left: orders, right: late, on: key", [], ["join"]),
        ("left: orders, right: paid, on: key, how: left_anti", ["join.how"], []),
        ("left: orders, right: people, on: key, how: left", [], []),
        ("left: orders, right: people, on: key, how: right", ["join.how"], []),
        ("left: people, right: orders, on: key, how: right", [], []),
        ("left: people, right: orders, on: key, how: left", ["join.how"], []),
        ("left: orders, right: people, on: key, how: full", ["join.how"], []),
        ("left: orders, right: people, on: key, within: 1 hour", [], ["join.within"]),
    ],
)
def test_a_join_is_judged_by_what_spark_can_do(
    join: str, errors_at: list[str], warnings_at: list[str]
) -> None:
    text = with_parts(f"j: {{join: {{{join}}}}}", f"{ALL}, out: {{from: j, topic: out}}")
    assert errors(text) == [(7, f"steps.j.{each}") for each in errors_at]
    assert warnings(text) == [(7, f"steps.j.{each}") for each in warnings_at]


def test_a_join_of_streams_in_sql_that_never_forgets_is_a_warning() -> None:
    steps = "s: {sql: SELECT * FROM late JOIN other USING (key)}"
    text = with_parts(steps, f"{ALL}, out: {{from: s, topic: out}}")
    text = text.replace("  people:", "  other: {topic: other}\n  people:")
    assert warnings(text.replace("sinks: {", "sinks: {o: {from: other, topic: o}, ")) == [
        (8, "steps.s")
    ]


# --- Options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("{topic: a, format: json}", "sources.t.format"),
        ("{topic: a, schema: x int}", "sources.t.schema"),
        ("{topic: a, columns: [offst]}", "sources.t.columns"),
        ("{topic: a, starting: yesterday}", "sources.t.starting"),
        ("{topic: a, starting: '{broken'}", "sources.t.starting"),
        ("{topic: a b}", "sources.t.topic"),
        ("{pattern: '('}", "sources.t.pattern"),
        ("{topic: a, options: {maxOffsetsPerTriger: 1}}", "sources.t.options.maxOffsetsPerTriger"),
        (
            "{topic: a, options: {maxOffsetsPerTrigger: many}}",
            "sources.t.options.maxOffsetsPerTrigger",
        ),
        ("{topic: a, streaming: false, options: {maxOffsetsPerTrigger: 1}}", "sources.t.options"),
        ("{topic: a, options: {startingOffsets: latest}}", "sources.t.options.startingOffsets"),
        ("{topic: a, options: {SUBSCRIBE: b}}", "sources.t.options.SUBSCRIBE"),
        ("{delta: ./a, options: {tabel: b}}", "sources.t.options.tabel"),
        ("{topic: a, watermark: 5}", "sources.t.watermark"),
    ],
)
def test_what_the_data_source_would_refuse_is_refused_before(source: str, place: str) -> None:
    text = f"name: n\nsources: {{t: {source}}}\nsinks: {{x: {{from: t, topic: x}}}}\n"
    ((line, path),) = errors(text)
    assert (line, path.startswith(place)) == (2, True)


def test_options_of_a_sink_and_of_the_connection_are_judged() -> None:
    text = """
    name: n
    broker: {servers: "h:1", options: {kafka.sasl.usrname: x, kafka.security.protocol: tls}}
    sources: {t: {topic: t}}
    sinks:
      x: {from: t, topic: x, options: {guarantee: twice}}
      y: {from: t, topic: "a/b"}
      z: {from: t, topic: z, options: {topic: y}}
      d: {from: t, delta: ./d, options: {targetFileByte: 5, compression: lzma, path: ./e}}
    """
    assert errors(text) == [
        (2, "broker.options.kafka.sasl.usrname"),
        (2, "broker.options.kafka.security.protocol"),
        (5, "sinks.x.options.guarantee"),
        (6, "sinks.y.topic"),
        (7, "sinks.z.options.topic"),
        (8, "sinks.d.options.targetFileByte"),
        (8, "sinks.d.options.compression"),
        (8, "sinks.d.options.path"),
    ]


def test_the_registry_stands_in_for_a_schema() -> None:
    text = """
    name: n
    broker: {servers: "h:1", http: "http://h:2"}
    sources: {t: {topic: t, format: avro}}
    sinks: {x: {from: t, topic: x}}
    """
    assert judged(text) == []


def test_the_columns_of_a_message_are_those_of_the_data_source() -> None:
    columns = pytest.importorskip("goqueue.spark.reading.columns", reason="needs pyarrow")
    assert tuple(columns.SPARK_TYPES) == MESSAGE_COLUMNS


def test_what_is_not_installed_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.spark.pipelines.checks.options.find_spec", lambda _: None)
    text = "name: n\nsources: {t: {topic: t}}\nsinks: {x: {from: t, iceberg: ./x}}\n"
    ((line, path, message, is_warning),) = judged(text)
    assert (line, path, is_warning) == (3, "sinks.x.iceberg", True)
    assert "pip install" in message


# --- Columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        "id bigint",
        "id: bigint, `odd name` STRING",
        "a int NOT NULL COMMENT 'it''s', b decimal(10, 2), c varchar(5)",
        "tags array<string>, m map<string, array<int>>, s struct<x: int, y struct<z string>>",
        "at timestamp_ntz, d date, i interval day to second",
        "name string COLLATE UTF8_LCASE NOT NULL, id int",
    ],
)
def test_columns_that_spark_takes_are_taken(columns: str) -> None:
    assert ddl_problem(columns) is None


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id bigit", "did you mean bigint?"),
        ("id", "column id has no type"),
        ("id bigint name string", "is a bracket missing?"),
        ("id bigint,", "expected a column"),
        ("", "expected a column"),
        ("tags array<string", "at the end of array"),
        ("tags array", "behind array"),
        ("m map<string>", "between the types of map"),
        ("s struct<x>", "column x has no type"),
        ("d decimal(a)", "expected numbers"),
        ("a " + "array<" * 60 + "int", "nested too deep"),
    ],
)
def test_columns_that_spark_does_not_take_are_refused(columns: str, said: str) -> None:
    assert said in str(ddl_problem(columns))


def test_columns_are_judged_where_they_are_written() -> None:
    text = """
    name: n
    sources:
      t: {topic: t, format: json, schema: id bigit}
      u: {csv: ./u, schema: id}
      v: {topic: t, format: json, schema: '{"type": "object"}'}
    sinks: {x: {from: t, topic: x}, y: {from: u, topic: y}, z: {from: v, topic: z}}
    """
    assert errors(text) == [(3, "sources.t.schema"), (4, "sources.u.schema")]
