"""What a plan says, and what a checkpoint tells of how far a query is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from goqueue.cli.spark.pipeline_view import plan_lines, query_rows
from goqueue.model.pipeline_reports import QueryReport
from goqueue.spark.pipelines.files.yaml_file import read_yaml
from goqueue.spark.pipelines.planning import Plan, plan_of
from goqueue.spark.pipelines.surveying import Survey, TopicState, read_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

TEXT = b"""
name: orders
trigger: 5 seconds
sources:
  orders: {topic: orders, format: json, schema: id int, watermark: {column: at, delay: 1 minute}}
  paid: {topics: [paid, refunds], watermark: {column: timestamp, delay: 2 minutes}}
  people: {csv: ./people}
steps:
  valid: {from: orders, rules: [{expect: id > 0}], dead_letters: bad}
  named: {sql: "SELECT v.*, p.name\\n FROM valid v JOIN people p ON v.id = p.id"}
  counted: {from: named, window: {on: at, size: 1 hour, by: name, select: {n: count(*)}}}
  both: {join: {left: valid, right: paid, on: left.id = right.key, how: left, within: 1 day}}
sinks:
  counts: {from: counted, topic: counts, mode: update}
  lake: {from: both, delta: ./lake, trigger: available-now}
  look: {from: people, console: }
  fast: {from: valid, topic: fast, options: {guarantee: at-least-once}}
"""


def plan() -> Plan:
    loaded = read_yaml(TEXT, "/f/p.yaml", {})
    assert loaded.problems == ()
    assert loaded.pipeline is not None
    return plan_of(loaded.pipeline)


def test_a_plan_has_a_query_for_each_sink_and_for_dead_letters() -> None:
    queries = {each.name: each for each in plan().queries}
    assert list(queries) == ["counts", "lake", "look", "fast", "valid-dead-letters"]
    counts, lake, look = queries["counts"], queries["lake"], queries["look"]
    assert counts.topics == ("orders",)
    assert counts.tables == ("csv /f/people",)
    assert counts.steps == ("valid", "named", "counted")
    assert counts.state == ("counted: windows of 1 hour on at by name",)
    assert (counts.mode, counts.trigger) == ("update", "every 5 seconds")
    assert counts.checkpoint == "/f/checkpoints/orders/counts"
    assert counts.group == "spark-orders-counts"
    assert lake.topics == ("orders", "paid", "refunds")
    assert lake.trigger == "available-now"
    assert lake.state == ("both: left join of valid and paid on left.id = right.key within 1 day",)
    assert (look.trigger, look.is_stream) == ("once", False)
    assert queries["valid-dead-letters"].sink == "topic bad"
    assert {each.name: each.guarantee for each in plan().queries} == {
        "counts": "exactly once",
        "lake": "exactly once",
        "look": "once in each run",
        "fast": "at least once",
        "valid-dead-letters": "exactly once",
    }


def test_a_plan_is_data_for_programs() -> None:
    data = json.loads(json.dumps(plan().as_dict()))
    assert [each["name"] for each in data["tables"]][:3] == ["orders", "paid", "people"]
    assert data["tables"][3]["inputs"] == ["orders"]
    assert data["queries"][0]["steps"] == ["valid", "named", "counted"]


def test_a_plan_is_lines_for_people() -> None:
    topics = (
        TopicState("orders", "read", 3, 1234),
        TopicState("counts", "written", None, None, "missing: goqueue topic create counts"),
    )
    lines = list(plan_lines(plan(), Survey(topics, {"counts": 1234})))
    assert lines[0] == "pipeline orders: broker 127.0.0.1:9092, Spark local[*]"
    text = "\n".join(lines)
    assert "3 partitions  1,234 messages" in text
    assert "missing: goqueue topic create counts" in text
    assert "topic orders, csv /f/people -> valid -> named -> counted -> topic counts" in text
    assert "  waiting     1,234 messages" in text
    assert "SELECT v.*, p.name FROM valid v JOIN people p ON v.id = p.id" in text


def test_a_query_shows_what_is_known_of_it() -> None:
    (row,) = query_rows([QueryReport(name="a", sink="topic b", state="running", batch_ms=12.4)])
    assert row["took"] == "12 ms"
    assert row["lag"] is None
    assert row["rows"] == 0


def test_a_checkpoint_tells_what_the_last_finished_batch_had_read(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    for number, (one, two) in enumerate([(5, 1), (9, 9), (70, 70)]):
        first = {"orders": {"id": "x", "offsets": {"0": one, "1": two}}}
        second = {"orders": {"id": "x", "offsets": {"0": 7}}}
        lines = ["v1", "{}", json.dumps(first), json.dumps(second), "-"]
        (tmp_path / "offsets" / str(number)).write_text("\n".join(lines))
    for number in (0, 1):  # the last one is under way
        (tmp_path / "commits" / str(number)).write_text("v1\n{}")
    (tmp_path / "commits" / ".1.crc").write_text("")
    assert read_checkpoint(str(tmp_path)) == {("orders", 0): 7, ("orders", 1): 9}


def test_no_checkpoint_tells_nothing(tmp_path: Path) -> None:
    assert read_checkpoint(str(tmp_path / "nowhere")) == {}
    (tmp_path / "commits").mkdir()
    assert read_checkpoint(str(tmp_path)) == {}
