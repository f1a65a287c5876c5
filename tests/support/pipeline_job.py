"""A pipeline in a process of its own, which a test may kill.

Started with one argument, JSON: `address`, `source`, `checkpoints`, `table`, `rows` a batch,
`master` and `configuration` of Spark, `marker` (a file) and `fault`: what goes wrong once in the
sink `clean`, as long as the marker is not there.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from goqueue.spark.pipelines.execution import sinks

sys.path.insert(0, str(Path(__file__).parents[1]))


def described(said: dict[str, Any]) -> Any:
    """Good numbers go to a topic and a table, odd ones to the dead letters."""
    from goqueue.spark.pipelines import model  # noqa: PLC0415 - the tests import this file too

    source = said["source"]
    rule = model.Rule(name="even", expect="n % 2 = 0")
    return model.Pipeline(
        name="numbers",
        servers=said["address"],
        master=said["master"],
        checkpoints=said["checkpoints"],
        conf=said["configuration"],
        sources=(
            model.TopicSource(
                name="numbers",
                topics=(source,),
                value_format="json",
                value_schema="n bigint",
                options={"maxOffsetsPerTrigger": said["rows"]},
            ),
        ),
        steps=(model.RulesStep(name="checked", input="numbers", rules=(rule,)),),
        sinks=(
            model.TopicSink(
                name="clean", input="checked", topic=f"{source}-clean", key="n % 10", create=3
            ),
            model.TableSink(
                name="table",
                input="checked",
                format=model.TableFormat.PARQUET,
                path=said["table"],
            ),
        ),
    )


def main(said: dict[str, Any]) -> None:
    """Do what is there, and end."""
    from goqueue.spark.pipelines.execution import running, sessions  # noqa: PLC0415 - as above
    from support.sink_job import faulty_source  # noqa: PLC0415 - as above

    pipeline = described(said)
    if said["master"] is not None:  # where we cannot make anything go wrong
        report = running.run_pipeline(pipeline, available_now=True)
        sys.exit(None if report.state == "finished" else report.last.error)
    spark = sessions.session_for(pipeline)
    spark.dataSource.register(faulty_source(said["fault"], said["marker"]))
    start = sinks.start

    def start_faulty(pipeline: Any, output: Any, **options: Any) -> Any:
        if output.name == "clean":
            output = replace(output, format="faulty")
        return start(pipeline, output, **options)

    vars(running)["start"] = start_faulty
    report = running.run_pipeline(pipeline, available_now=True, spark=spark)
    if report.state != "finished":
        sys.exit(report.last.error)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
