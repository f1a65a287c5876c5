"""Pipelines out of Python files: the same model, with the lines of the calls."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.spark import pipelines as gp
from goqueue.spark.pipelines.files.loading import load_file
from goqueue.spark.pipelines.model import PythonStep

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.spark.pipelines.files.loaded import Loaded

START = "from goqueue.spark import pipelines as gp\n"


def load(folder: Path, text: str, name: str = "p.py") -> Loaded:
    file = folder / name
    file.write_text(textwrap.dedent(text))
    return load_file(file)


def same(loaded: Loaded) -> Any:
    """A model without what cannot be the same in two files."""
    pipeline = loaded.pipeline
    assert pipeline is not None
    return replace(
        pipeline,
        file=None,
        sources=tuple(replace(each, line=None) for each in pipeline.sources),
        steps=tuple(_bare(each) for each in pipeline.steps),
        sinks=tuple(replace(each, line=None) for each in pipeline.sinks),
    )


def _bare(step: Any) -> Any:
    if isinstance(step, PythonStep):
        return replace(step, function="", line=None)
    if hasattr(step, "rules"):
        rules = tuple(replace(each, line=None) for each in step.rules)
        return replace(step, rules=rules, line=None)
    return replace(step, line=None)


def test_a_file_in_python_means_what_one_in_yaml_does(tmp_path: Path) -> None:
    python = load(
        tmp_path,
        """
        from goqueue.spark import pipelines as gp

        pipeline = gp.pipeline(
            "orders",
            servers="h:1",
            http="http://h:2",
            checkpoints="./cp",
            trigger="10 seconds",
            master="local[2]",
            conf={"spark.sql.shuffle.partitions": 4},
            connection={"kafka.client.id": "me"},
        )
        orders = pipeline.topic(
            "orders", format="json", schema="id int", watermark=("at", "1 minute"), columns=["key"]
        )
        pipeline.topic("a.b", "c", name="many", streaming=False, options={"failOnDataLoss": False})
        pipeline.topic(pattern="x.*", name="all")
        people = pipeline.table("people", parquet="./people")
        pipeline.rules("valid", orders, ["id > 0", {"expect": "x", "otherwise": "drop"}])
        pipeline.sql("named", "SELECT * FROM valid JOIN people", watermark=("at", "1 day"))
        pipeline.window("w", "named", on="at", size="1 minute", by="id", select={"n": "count(*)"})
        pipeline.join("j", "many", people, on="id", how="left")

        @pipeline.step
        def scored(valid, many, limit=5):
            return valid.limit(limit)

        @pipeline.step(name="other", inputs=[scored, "all"])
        def anything(one, two):
            return one

        pipeline.to_topic("out", "w", key="id", create=3, mode="update")
        pipeline.to_table("j", delta="./lake", partition_by="id", trigger="available-now")
        pipeline.to_console(scored, rows=5)
        pipeline.to_topic("${HOME}", "other", name="odd")
        """,
    )
    yaml = load(
        tmp_path,
        """
        name: orders
        broker: {servers: "h:1", http: "http://h:2", options: {kafka.client.id: me}}
        checkpoints: ./cp
        trigger: 10 seconds
        spark: {master: "local[2]", conf: {spark.sql.shuffle.partitions: 4}}
        sources:
          orders: {topic: orders, format: json, schema: id int, columns: [key],
                   watermark: {column: at, delay: 1 minute}}
          many: {topics: [a.b, c], streaming: false, options: {failOnDataLoss: false}}
          all: {pattern: x.*}
          people: {parquet: ./people}
        steps:
          valid: {from: orders, rules: [{expect: id > 0}, {expect: x, otherwise: drop}]}
          named: {sql: SELECT * FROM valid JOIN people, watermark: {column: at, delay: 1 day}}
          w: {from: named, window: {on: at, size: 1 minute, by: id, select: {n: count(*)}}}
          j: {join: {left: many, right: people, on: id, how: left}}
          scored: {from: [valid, many], python: "p:scored"}
          other: {from: [scored, all], python: "p:anything"}
        sinks:
          out: {from: w, topic: out, key: id, create: 3, mode: update}
          j: {from: j, delta: ./lake, partition_by: id, trigger: available-now}
          scored-console: {from: scored, console: {rows: 5}}
          odd: {from: other, topic: "$${HOME}"}
        """,
        "p.yaml",
    )
    assert same(python) == same(yaml)
    assert [each.message for each in python.problems] == [each.message for each in yaml.problems]
    assert python.pipeline is not None
    step = next(each for each in python.pipeline.steps if each.name == "other")
    assert isinstance(step, PythonStep)
    function = step.function
    assert callable(function)
    assert function.__name__ == "anything"


def test_every_mistake_of_a_file_is_found_at_its_call(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        START
        + textwrap.dedent(
            """\
            pipeline = gp.pipeline("n", trigger="10s")
            pipeline.topic("a", format="jsn")


            @pipeline.step
            def s(b):
                return b


            pipeline.to_topic(
                "x",
                "nobody",
            )
            pipeline.to_topic("x", s)
            pipeline.to_topic("x", s)
            """
        ),
    )
    assert [(each.line, each.path) for each in loaded.problems] == [
        (2, "trigger"),
        (3, "sources.a.format"),
        (6, "steps.s.from"),
        (11, "sinks.x.from"),
        (15, "sinks.x"),
        (16, "sinks.x"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("x = 1\n", 1, "makes no pipeline"),
        (START + "x = (\n", 2, "invalid Python"),
        (START + "\nraise RuntimeError('out\\nof luck')\n", 3, "raises RuntimeError: out of luck"),
        (START + "import sys\nsys.exit(3)\n", 3, "raises SystemExit: 3"),
        (START + "import nowhere_to_be_found\n", 2, "raises ModuleNotFoundError"),
        (START + "p = gp.pipeline('n')\np.topc('a')\n", 3, "raises AttributeError"),
        (START + "a = gp.pipeline('a')\nb = gp.pipeline('b')\n", 1, "several pipelines (a, b)"),
        ("def f():\n    return 1 / 0\n\nf()\n", 2, "raises ZeroDivisionError"),
    ],
)
def test_a_file_that_makes_no_pipeline_is_one_problem(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    loaded = load(tmp_path, text)
    assert loaded.pipeline is None
    (problem,) = loaded.problems
    assert problem.line == line
    assert said in problem.message


def test_a_file_can_import_what_is_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_the_pipeline.py").write_text("TOPIC = 'a'\n")
    loaded = load(
        tmp_path,
        START
        + "from beside_the_pipeline import TOPIC\np = gp.pipeline('n')\np.topic(TOPIC)\n"
        + "p.to_topic('b', 'a')\n",
    )
    assert loaded.problems == ()


def test_a_program_builds_a_pipeline_or_gets_all_that_is_wrong() -> None:
    draft = gp.pipeline("n")
    draft.topic("a")
    draft.to_topic("b", "a")
    assert draft.build().file == __file__
    draft.to_topic("b", "c", name="second")
    draft.to_console("d")
    with pytest.raises(gp.PipelineError) as raised:
        draft.build()
    assert len(raised.value.problems) == 2
    assert f"{__file__}:" in str(raised.value)
