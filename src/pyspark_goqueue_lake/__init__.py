"""Where Spark finds `format("goqueue_lake")` by itself: it looks into packages called `pyspark_*`.

Spark imports every such package whenever any source is looked up, and one that fails hides all the
others. So this one stays light, and has nothing of its own.
"""

from goqueue.spark.lake.source import LakeDataSource as DefaultSource

__all__ = ["DefaultSource"]
