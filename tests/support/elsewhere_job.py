"""A Spark job on a cluster or through Spark Connect, in a process of its own.

Started with one argument, JSON: `master` or `remote`, `configuration` of Spark, `address` of the
broker, `source` and `target` topics, `folder` for checkpoints and the table, `answer` (a file), and
`is_slow`: tasks take seconds, so that there is time to kill something; the first ones that write
the table say in the file `FOLDER/table-under-way` where they work. A `group` is told how far the
stream is.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ROWS_PER_SECOND = 250
SLOW_S = 4.0


def session_of(said: dict[str, Any]) -> Any:
    """Spark, which is told nothing of our source."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the tests import this file too

    if said.get("remote"):
        return SparkSession.builder.remote(said["remote"]).getOrCreate()
    builder = SparkSession.builder.master(said["master"])
    for name, value in said["configuration"].items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read(spark: Any, said: dict[str, Any]) -> list[Any]:
    """A batch query over the whole topic, in four tasks: how many rows, and their sum."""
    frame = (
        spark.read.format("goqueue")
        .option("bootstrap.servers", said["address"])
        .option("subscribe", said["source"])
        .option("minPartitions", 4)
        .option("maxRecordsPerPartition", 4000)
        .load()
    )
    row = frame.selectExpr("count(*)", "sum(CAST(CAST(value AS STRING) AS BIGINT))").first()
    return list(row)


def stream_of(spark: Any, said: dict[str, Any]) -> Any:
    """The topic as a stream, in two micro-batches or more."""
    return (
        spark.readStream.format("goqueue")
        .option("bootstrap.servers", said["address"])
        .option("subscribe", said["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", said["rows"])
        .option("minPartitions", 2)
        .load()
    )


def to_topic(spark: Any, said: dict[str, Any]) -> None:
    """Copy the topic."""
    if "group" in said:
        from goqueue.spark import track  # noqa: PLC0415 - the tests import this file too

        track(spark, said["address"], group=said["group"])
    writer = (
        stream_of(spark, said)
        .select("key", "value", "partition")
        .writeStream.format("goqueue")
        .option("bootstrap.servers", said["address"])
        .option("topic", said["target"])
        .option("checkpointLocation", f"{said['folder']}/to-topic")
    )
    if said["is_slow"]:
        writer = writer.option("taskRowsPerSecond", ROWS_PER_SECOND).option("batchBytes", "4k")
    _finish(writer)


def to_table(spark: Any, said: dict[str, Any]) -> None:
    """Copy the topic to a Delta table, with the folder that each task has worked in."""
    marker, is_slow = f"{said['folder']}/table-under-way", said["is_slow"]

    def note_place(batches: Any) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - runs in a worker

        for batch in batches:
            if is_slow and not Path(marker).exists():
                time.sleep(SLOW_S / 2)
                Path(f"{marker}.{os.getpid()}").write_text(str(Path.cwd()))
                Path(f"{marker}.{os.getpid()}").replace(marker)
                time.sleep(SLOW_S)
            place = pa.array([str(Path.cwd())] * batch.num_rows, pa.string())
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, place], names=[*batch.schema.names, "place"]
            )

    stream = stream_of(spark, said).selectExpr(
        "CAST(CAST(value AS STRING) AS BIGINT) AS n", "partition", "offset"
    )
    _finish(
        stream.mapInArrow(note_place, "n bigint, partition int, offset bigint, place string")
        .writeStream.format("goqueue_lake")
        .option("tableFormat", "delta")
        .option("path", f"{said['folder']}/table")
        .option("checkpointLocation", f"{said['folder']}/to-table")
    )


def _finish(writer: Any) -> None:
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    if query.exception() is not None:
        sys.exit(str(query.exception()))


def main(said: dict[str, Any]) -> None:
    """Do all of it, and say how long each part took."""
    spark = session_of(said)
    answer: dict[str, Any] = {}
    for name, part in (("read", read), ("topic", to_topic), ("table", to_table)):
        start = time.monotonic()
        answer[name] = part(spark, said)
        answer[f"{name}_s"] = round(time.monotonic() - start, 1)
    Path(said["answer"]).write_text(json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
