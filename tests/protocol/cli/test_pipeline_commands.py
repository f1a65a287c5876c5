"""`goqueue pipeline`: what needs no Spark, through the command and against a live broker."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.spark.pipelines.execution.only_run import only_run
from goqueue.spark.pipelines.model import Pipeline
from support.commands import parsed

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.testing import Broker
    from support.commands import Run

GOOD = """\
name: {name}
broker: {{servers: "{servers}"}}
sources:
  orders: {{topic: {topic}}}
sinks:
  copy: {{from: orders, topic: {topic}.copy, create: 2}}
  other: {{from: orders, topic: {topic}.other}}
"""
BAD = """\
name: bad
sources:
  orders: {topic: orders, formt: json}
steps:
  large: {sql: SELECT * FROM ordres}
sinks:
  out: {from: large, topic: out, trigger: 5s}
"""


@pytest.fixture
def good(goqueue_broker: Broker, tmp_path: Path) -> Path:
    topic = goqueue_broker.create_topic(goqueue_broker.unique_name("orders"), partitions=3)
    for number in range(5):
        goqueue_broker.publish(topic, f"{number}")
    file = tmp_path / "good.yaml"
    name = goqueue_broker.unique_name("pipeline")
    servers = goqueue_broker.kafka_address
    file.write_text(GOOD.format(name=name, servers=servers, topic=topic))
    return file


def test_validate_prints_every_problem_as_a_line_to_jump_to(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    lines = run("pipeline", "validate", str(file), code=1).stdout.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        [f"{file}:3:27", "sources.orders.formt"],
        [f"{file}:5:16", "steps.large.sql"],
        [f"{file}:7:43", "sinks.out.trigger"],
    ]
    assert all("did you mean" in line or "write 5 seconds" in line for line in lines)


def test_validate_says_ok_and_lets_warnings_pass_unless_it_is_strict(
    run: Run, good: Path, tmp_path: Path
) -> None:
    assert (
        run("pipeline", "validate", str(good)).stdout
        == f"{good}: OK (1 source, 0 steps, 2 sinks)\n"
    )
    file = tmp_path / "loop.yaml"
    file.write_text("name: n\nsources: {a: {topic: a}}\nsinks: {b: {from: a, topic: a}}\n")
    said = run("pipeline", "validate", str(file), str(good)).stdout.splitlines()
    assert said[0].startswith(f"{file}:3:29: sinks.b.topic: warning: ")
    assert [line.split(": ")[1][:2] for line in said[1:]] == ["OK", "OK"]
    assert "OK" not in run("pipeline", "validate", str(file), "--strict", code=1).stdout


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_validate_is_data_for_programs(run: Run, tmp_path: Path, form: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    (found,) = parsed(run("pipeline", "validate", str(file), "-o", form, code=1).stdout, form)
    assert (found["file"], found["ok"]) == (str(file), False)
    assert [(each["line"], each["severity"]) for each in found["problems"]] == [
        (3, "error"),
        (5, "error"),
        (7, "error"),
    ]


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_a_file_that_is_not_there_is_a_usage_error(run: Run, command: str) -> None:
    assert "there is no file" in run("pipeline", command, "/nowhere.yaml", code=2).stderr


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_bad_file_is_neither_planned_nor_run(run: Run, tmp_path: Path, command: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    result = run("pipeline", command, str(file), code=1)
    assert f"{file}:3:27: sources.orders.formt: " in result.stderr
    assert "has 3 problems: nothing was started" in result.stderr
    assert result.stdout == ""


def test_a_time_that_is_none_is_a_usage_error(run: Run, good: Path) -> None:
    result = run("pipeline", "run", str(good), "--run-for", "soon", code=2)
    assert "--run-for" in result.stderr
    result = run("pipeline", "run", str(good), "--conf", "x", code=2)
    assert "--conf: expected NAME=VALUE" in result.stderr


def test_fresh_deletes_nothing_without_a_yes(run: Run, good: Path) -> None:
    pytest.importorskip("pyspark", reason="run looks for Spark first")
    name = good.read_text().split()[1]
    folder = good.parent / "checkpoints" / name / "copy"
    folder.mkdir(parents=True)
    result = run("pipeline", "run", str(good), "--fresh", code=1, input="no\n")
    assert "nothing was changed" in result.stderr
    assert folder.exists()


def test_fresh_deletes_nothing_that_a_run_is_using(run: Run, good: Path) -> None:
    pytest.importorskip("pyspark", reason="run looks for Spark first")
    checkpoints = good.parent / "checkpoints"
    pipeline = Pipeline(name=good.read_text().split()[1], checkpoints=str(checkpoints))
    with only_run(pipeline):
        result = run("pipeline", "run", str(good), "--fresh", "--force", code=1)
    assert f"pipeline {pipeline.name} runs already, in process " in result.stderr
    assert list((checkpoints / pipeline.name).iterdir()) != []


@pytest.mark.parametrize(
    ("starting", "waiting"), [("latest", 0), ("2026-01-31T12:00:00Z", 5), ("4102444800000", 0)]
)
def test_plan_counts_from_where_a_first_run_begins(
    run: Run, good: Path, starting: str, waiting: int
) -> None:
    text = good.read_text()
    good.write_text(text.replace("orders: {topic:", f"orders: {{starting: {starting}, topic:"))
    found = json.loads(run("pipeline", "plan", str(good), "-o", "json").stdout)
    assert found["waiting"] == {"copy": waiting, "other": waiting}


def test_plan_shows_topics_and_what_waits_in_them(run: Run, good: Path) -> None:
    topic = good.read_text().split("topic: ")[1].split("}")[0]
    result = run("pipeline", "plan", str(good))
    assert "3 partitions  5 messages" in result.stdout
    assert "will be made with 2 partitions" in result.stdout
    assert f"missing: goqueue topic create {topic}.other" in result.stdout
    assert "waiting     5 messages" in result.stdout
    data = json.loads(run("pipeline", "plan", str(good), "--connect", "-o", "json", code=1).stdout)
    assert [each["partitions"] for each in data["topics"]] == [3, None, None]
    assert [each["is_missing"] for each in data["topics"]] == [False, False, True]
    assert data["waiting"] == {"copy": 5, "other": 5}
    assert [each["guarantee"] for each in data["queries"]] == ["exactly once"] * 2


def test_plan_goes_without_a_broker_unless_it_is_to_ask_one(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "away.yaml"
    text = GOOD.format(name="n", servers="127.0.0.1:1", topic="t")
    file.write_text(text)
    result = run("pipeline", "plan", str(file))
    assert "the plan has no data of the broker" in result.stderr
    assert "copy -> topic t.copy" in result.stdout
    result = run("pipeline", "plan", str(file), "--connect", "--timeout", "500ms", code=1)
    assert "127.0.0.1:1" in result.stderr
    data = json.loads(run("pipeline", "plan", str(file), "--no-connect", "-o", "json").stdout)
    assert data["topics"] is None


def test_list_and_status_show_what_drivers_have_told_the_broker(
    run: Run, goqueue_broker: Broker
) -> None:
    name = goqueue_broker.unique_name("pipeline")
    report: dict[str, Any] = {
        "state": "running",
        "started_at": 1_700_000_000_000,
        "host": "here",
        "pid": 7,
        "master": "local[2]",
        "interval_ms": 10_000,
        "queries": [
            {"name": "out", "sink": "topic out", "rows": 12, "rows_per_second": 3.4, "lag": 5},
            {"name": "two", "sink": "topic two", "state": "failed", "error": "no luck"},
        ],
    }
    tell(goqueue_broker, name, report)
    (line,) = [each for each in run("pipeline", "list").stdout.splitlines() if name in each]
    assert line.split()[1:5] == ["running", "2", "3", "5"]
    shown = run("pipeline", "status", name).stdout
    assert "2023-11-14T22:13:20.000Z" in shown
    assert "no luck" in shown
    listed = json.loads(run("pipeline", "list", "-o", "json").stdout)
    assert name in [each["name"] for each in listed["pipelines"]]
    found = json.loads(run("pipeline", "status", name, "-o", "json").stdout)
    assert found["queries"][0]["lag"] == 5
    assert "nobody" in run("pipeline", "status", "nobody", code=1).stderr
    tell(goqueue_broker, name, {**report, "state": "failed", "error": "no luck " * 100})
    (line,) = [each for each in run("pipeline", "list").stdout.splitlines() if name in each]
    assert line.split()[1:5] == ["failed", "2", "-", "5"]
    assert len(line) < 250
    assert "no luck " * 50 in run("pipeline", "status", name).stdout


def tell(broker: Broker, name: str, report: dict[str, Any]) -> None:
    request = urllib.request.Request(
        f"{broker.http_url}/pipelines/{name}",
        json.dumps(report).encode(),
        {"content-type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=30):
        pass


def test_validating_needs_neither_spark_nor_arrow(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    program = textwrap.dedent(
        """\
        import sys

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {"pyspark", "pyarrow", "py4j"}:
                    raise ImportError(name + " is not here")

        sys.meta_path.insert(0, Refuse())
        sys.argv = ["goqueue", "pipeline", "validate", sys.argv[1]]
        from goqueue.cli import main
        main()
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert len(done.stdout.splitlines()) == 3
