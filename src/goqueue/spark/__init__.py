"""Topics as tables for Spark: the data source, and what shows its streams to the broker's tools.

Importing this package costs nothing; what needs pyspark or pyarrow is imported when it is used. It
has sessions that are started later run their tasks under this interpreter, which has the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.spark.lazy_names import lazy_names
from goqueue.spark.requirements import use_own_python

if TYPE_CHECKING:
    from goqueue.spark.lake.source import LakeDataSource
    from goqueue.spark.monitoring.tracking import track
    from goqueue.spark.pipelines.execution.running import run_pipeline
    from goqueue.spark.source import GoQueueDataSource

_HOMES = {
    "GoQueueDataSource": "goqueue.spark.source",
    "run_pipeline": "goqueue.spark.pipelines.execution.running",
    "LakeDataSource": "goqueue.spark.lake.source",
    "track": "goqueue.spark.monitoring.tracking",
}

__all__ = ["GoQueueDataSource", "LakeDataSource", "run_pipeline", "track"]

__getattr__ = lazy_names(__name__, _HOMES)

use_own_python()
