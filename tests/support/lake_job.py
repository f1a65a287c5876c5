"""A Spark job that streams files into a table, in a process of its own that a test may kill.

Started with one argument, JSON: `feed` (a folder of JSON lines), `options` of the table,
`checkpoint`, `configuration` of Spark, `marker` (a file) and `fault`: what goes wrong once, as long
as the marker is not there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def hang(fault: str, marker: str, when: str) -> None:
    """Wait to be killed, once."""
    if fault == when and not Path(marker).exists():
        Path(marker).touch()
        time.sleep(600)  # the test kills us here


def faulty_source(fault: str, marker: str) -> Any:
    """The data source, with one mishap in it."""
    from pyspark.taskcontext import TaskContext  # noqa: PLC0415 - the tests import this file too

    from goqueue.spark.lake.parquet_store import ParquetStore  # noqa: PLC0415 - as above
    from goqueue.spark.lake.source import LakeDataSource  # noqa: PLC0415 - as above
    from goqueue.spark.lake.writers import LakeStreamWriter  # noqa: PLC0415 - as above

    class FaultyWriter(LakeStreamWriter):
        def write(self, iterator: Any) -> Any:
            written = super().write(iterator)
            first = TaskContext.get().attemptNumber() == 0
            if fault == "task" and first and not Path(marker).exists():
                Path(marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)  # with everything written, and nobody told
            return written

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
            if batchId != 1:
                super().commit(messages, batchId)
                return
            hang(fault, marker, "before-commit")
            if fault == "half-way":  # its files are in their places, and nobody has noted it
                ParquetStore._save = lambda *_: hang(fault, marker, "half-way")  # type: ignore[method-assign]
            super().commit(messages, batchId)
            hang(fault, marker, "after-commit")

    class FaultySource(LakeDataSource):
        @classmethod
        def name(cls) -> str:
            return "faulty_lake"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
            made: Any = super().streamWriter(schema, overwrite)
            return FaultyWriter(made._plan)

    return FaultySource


def main(said: dict[str, Any]) -> None:
    """Write what is there, and end."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
    for name, value in said["configuration"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(faulty_source(said["fault"], said["marker"]))
    frame = (
        spark.readStream.schema("id bigint, part bigint")
        .option("maxFilesPerTrigger", 1)
        .json(said["feed"])
        .repartition(2)
    )
    query = (
        frame.writeStream.format("faulty_lake")
        .options(**said["options"])
        .option("partitionBy", "part")
        .option("checkpointLocation", said["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
