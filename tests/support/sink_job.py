"""A Spark job that copies a topic through the sink, in a process of its own that a test may kill.

Started with one argument, JSON: `address`, `source`, `target`, `checkpoint`, `rows` a batch,
`configuration` of Spark, `marker` (a file) and `fault`: what goes wrong once, as long as the marker
is not there. With `table`, the options of one, the topic is streamed into that table too.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

FAULTS = ("none", "before-commit", "after-commit", "task")


def faulty_source(fault: str, marker: str) -> Any:
    """The data source, with one mishap in it."""
    from pyspark.taskcontext import TaskContext  # noqa: PLC0415 - the tests import this file too

    from goqueue.spark.source import GoQueueDataSource  # noqa: PLC0415 - as above
    from goqueue.spark.writing.writers import GoQueueStreamWriter  # noqa: PLC0415 - as above

    def hang(when: str) -> None:
        if fault == when and not Path(marker).exists():
            Path(marker).touch()
            time.sleep(600)  # the test kills us here

    class FaultyWriter(GoQueueStreamWriter):
        def write(self, iterator: Any) -> Any:
            written = super().write(iterator)
            first = TaskContext.get().attemptNumber() == 0
            if fault == "task" and first and not Path(marker).exists():
                Path(marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)  # with everything written, and nobody told
            return written

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
            if batchId == 1:
                hang("before-commit")
            super().commit(messages, batchId)
            if batchId == 1:
                hang("after-commit")

    class FaultySource(GoQueueDataSource):
        @classmethod
        def name(cls) -> str:
            return "faulty"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
            made: Any = super().streamWriter(schema, overwrite)
            return FaultyWriter(made._options, made._columns)

    return FaultySource


def main(said: dict[str, Any]) -> None:
    """Copy what is there, and end."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
    for name, value in said["configuration"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(faulty_source(said["fault"], said["marker"]))
    frame = (
        spark.readStream.format("goqueue")
        .option("bootstrap.servers", said["address"])
        .option("subscribe", said["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", said["rows"])
        .option("minPartitions", "2")
        .load()
    )
    writers = [
        frame.select("key", "value")
        .writeStream.format("faulty")
        .option("bootstrap.servers", said["address"])
        .option("topic", said["target"])
        .option("checkpointLocation", said["checkpoint"])
        .trigger(availableNow=True)
    ]
    if "table" in said:
        writers.append(_into_table(spark, frame, said))
    queries = [each.start() for each in writers]
    for writer, query in zip(writers, queries, strict=True):
        finish(writer, query)
    spark.stop()


def finish(writer: Any, query: Any) -> None:
    """Wait for a query, and start it again where it ended because the machine is slow.

    Spark gives a worker of its own that plans or commits ten seconds to begin, and then gives up.
    """
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - as above

    while True:
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
            query = writer.start()
        else:
            return


def _into_table(spark: Any, frame: Any, said: dict[str, Any]) -> Any:
    """A second query: the numbers of the topic, as rows of a table."""
    from goqueue.spark.lake.source import LakeDataSource  # noqa: PLC0415 - as above

    spark.dataSource.register(LakeDataSource)
    return (
        frame.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS id")
        .writeStream.format("goqueue_lake")
        .options(**said["table"])
        .option("checkpointLocation", said["checkpoint"] + "-table")
        .trigger(availableNow=True)
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
