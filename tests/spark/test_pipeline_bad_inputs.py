"""Pipelines that cannot run say why, all of it, before or instead of writing anything."""

from __future__ import annotations

import json
from itertools import count

import pytest

from goqueue.spark.errors import BrokerAwayError
from goqueue.spark.pipelines.execution.running import run_pipeline
from goqueue.spark.pipelines.model import (
    JoinStep,
    Otherwise,
    OutputMode,
    Pipeline,
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
)
from support.committed import committed

names = (f"bad-{number}" for number in count())


@pytest.fixture
def topic(broker):
    return broker.create_topic(next(names), settings={"retention.ms": -1})


@pytest.fixture
def described(broker, topic, tmp_path):
    """`described(…)`: a pipeline with a source and a sink that are fine, and what a test adds."""

    def describe(*, sources=(), steps=(), sinks=(), **given):
        source = TopicSource(
            name="items", topics=(topic,), value_format="json", value_schema="id bigint, at string"
        )
        sink = TopicSink(name="copy", input="items", topic=f"{topic}-copy", create=1)
        usual = {
            "name": f"bad-{topic}",
            "servers": broker.kafka_address,
            "checkpoints": str(tmp_path / "checkpoints"),
            "connection": {"kafka.default.api.timeout.ms": "60000"},
            "file": str(tmp_path / "bad.yaml"),
        }
        parts = {"sources": (source, *sources), "steps": steps, "sinks": sinks or (sink,)}
        return Pipeline(**usual | parts | given)

    return describe


def problems(pipeline, **options):
    with pytest.raises(PipelineError) as caught:
        run_pipeline(pipeline, available_now=True, **options)
    return {each.path: each for each in caught.value.problems}


def test_topics_that_are_not_there_are_all_named(broker, described, topic):
    """Nothing needs Spark to know that."""
    found = problems(
        described(
            sources=(TopicSource(name="lost", topics=("nowhere", topic), line=7),),
            sinks=(
                TopicSink(name="out", input="items", topic="no-target", line=12),
                TopicSink(name="made", input="items", topic=f"{topic}-made", create=1),
            ),
        )
    )
    assert found.keys() == {"sources.lost", "sinks.out"}
    assert (found["sources.lost"].line, found["sinks.out"].line) == (7, 12)
    assert found["sources.lost"].message == "there is no topic 'nowhere' to read"
    assert "create: 3" in found["sinks.out"].message
    assert f"{topic}-made" not in broker.topics()


def test_a_sink_that_may_not_write_is_refused(described):
    sink = TopicSink(name="own", input="items", topic="__queue_state", create=1, line=4)
    found = problems(described(sinks=(sink,)))
    assert found["sinks.own"].line == 4
    assert "__queue_state" in found["sinks.own"].message


def test_what_spark_has_against_steps_is_said_in_one_go(spark, broker, described, tmp_path):
    (tmp_path / "functions.py").write_text(
        "def odd(frame): return 7\ndef broken(frame): return frame['x'] / {}\n"
    )
    found = problems(
        described(
            sources=(
                TopicSource(
                    name="scheme",
                    topics=("bad-0",),
                    value_format="json",
                    value_schema="id biggint",
                    line=3,
                ),
                TableSource(name="gone", format=TableFormat.PARQUET, path="/no/such/table", line=4),
                TopicSource(
                    name="double",
                    topics=("bad-0",),
                    value_format="json",
                    value_schema="offset bigint",
                    columns=("offset",),
                ),
            ),
            steps=(
                SqlStep(name="typo", sql="SELECT idd FROM items", line=5),
                SqlStep(name="grammar", sql="SELEC id FROM items", line=6),
                SqlStep(name="after", sql="SELECT * FROM typo", line=7),
                PythonStep(name="missing", inputs=("items",), function="functions.py:nix"),
                PythonStep(name="odd", inputs=("items",), function="functions.py:odd"),
                PythonStep(name="broken", inputs=("items",), function="functions.py:broken"),
                JoinStep(name="near", left="items", right="items", on="id", within="1 minute"),
                RulesStep(
                    name="clock", input="items", rules=(Rule(name="old", expect="at < now()"),)
                ),
            ),
        )
    )
    said = {path.partition(".")[2]: each.message for path, each in found.items()}
    assert "after" not in said  # it is fine, once `typo` is
    assert "biggint" in said["scheme"]
    assert "/no/such/table" in said["gone"]
    assert "the value has a field of that name" in said["double"]
    assert "`idd` cannot be resolved" in said["typo"]
    assert found["steps.typo"].line == 5
    assert "SELEC" in said["grammar"]
    assert said["missing"] == "there is no function 'nix' in functions.py"
    assert "returned int, expected a data frame" in said["odd"]
    assert "broken" in said
    assert "needs a watermark on both tables, and items (left) has none" in said["near"]
    assert "now gives another answer each time" in said["clock"]
    for message in said.values():
        assert "\n" not in message
        assert "SQLSTATE" not in message
        assert "org.apache" not in message


def test_a_sink_that_spark_or_the_disk_refuses(spark, broker, described, topic, tmp_path):
    broker.publish(topic, json.dumps({"id": 1}))
    steps = (SqlStep(name="counted", sql="SELECT count(*) AS n FROM items"),)
    sink = TopicSink(name="n", input="counted", topic=f"{topic}-n", create=1, line=9)
    found = problems(described(steps=steps, sinks=(sink,)))
    assert found["sinks.n"].line == 9
    assert "watermark" in found["sinks.n"].message
    (tmp_path / "file").write_text("no folder")
    inside = str(tmp_path / "file" / "table")
    table = TableSink(name="t", input="items", format=TableFormat.PARQUET, path=inside)
    report = run_pipeline(described(sinks=(table,)), available_now=True)
    assert report.state == "failed"
    assert report.last.error.startswith(f"t (parquet {inside}) failed: ")
    assert "Not a directory" in report.last.error
    assert "Traceback" not in report.last.error


def test_a_broker_that_is_down_is_waited_for_and_then_named(described):
    pipeline = described(servers="127.0.0.1:9", connection={"kafka.default.api.timeout.ms": "300"})
    with pytest.raises(BrokerAwayError, match=r"gave up on 127\.0\.0\.1:9 after"):
        run_pipeline(pipeline)


def test_tables_that_do_not_stream_are_written_once(spark, broker, described, topic, tmp_path):
    for number in range(5):
        broker.publish(topic, json.dumps({"id": number}))
    batch = TopicSource(
        name="rows",
        topics=(topic,),
        value_format="json",
        value_schema="id bigint",
        columns=("offset",),
        streaming=False,
    )
    rules = RulesStep(
        name="even",
        input="rows",
        rules=(Rule(name="even", expect="id % 2 = 0", otherwise=Otherwise.DROP),),
    )
    sinks = (
        TopicSink(name="out", input="even", topic=f"{topic}-even", create=1, value="id"),
        TableSink(
            name="all",
            input="rows",
            format=TableFormat.PARQUET,
            path=str(tmp_path / "rows"),
            mode=OutputMode.COMPLETE,
        ),
    )
    pipeline = described(sources=(batch,), steps=(rules,), sinks=sinks)
    for _ in range(2):
        assert run_pipeline(pipeline).state == "finished"
    assert [each.value for each in committed(broker, f"{topic}-even")] == [b"0", b"2", b"4"] * 2
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 5
