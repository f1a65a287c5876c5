"""A Spark job of which one attempt hangs after its last row, so that Spark starts it a second time.

Started with the address of a master, of a broker, a topic and a file that attempts are noted in.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.efficiency.enabled": "false",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.multiplier": "1.1",
}


def hanging_source(notes: str) -> Any:
    """The data source, whose first attempt of the first task never comes to an end."""
    from pyspark.taskcontext import TaskContext  # noqa: PLC0415 - the tests import this file too

    from goqueue.spark.source import GoQueueDataSource  # noqa: PLC0415 - as above
    from goqueue.spark.writing.writers import GoQueueBatchWriter  # noqa: PLC0415 - as above

    class HangingWriter(GoQueueBatchWriter):
        def write(self, iterator: Any) -> Any:
            written = super().write(iterator)
            context = TaskContext.get()
            attempt = (context.partitionId(), context.attemptNumber())
            with Path(notes).open("a") as file:
                file.write(f"{attempt}\n")
            if attempt == (0, 0):
                time.sleep(600)
            return written

    class HangingSource(GoQueueDataSource):
        @classmethod
        def name(cls) -> str:
            return "hanging"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            made: Any = super().writer(schema, overwrite)
            return HangingWriter(made._options, made._columns)

    return HangingSource


def main(master: str, address: str, topic: str, notes: str) -> None:
    """Write a thousand numbers."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(hanging_source(notes))
    frame = spark.range(0, 1000, 1, 4).selectExpr("CAST(id AS STRING) AS value")
    writer = frame.write.format("hanging").option("bootstrap.servers", address)
    writer.option("topic", topic).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
