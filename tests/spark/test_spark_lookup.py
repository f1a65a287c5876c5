"""What Spark does with the source whenever any source is looked up."""

from __future__ import annotations

import ast
import subprocess
import sys


def test_what_spark_imports_at_every_lookup_is_light():
    code = (
        "import sys, pyspark.sql.datasource; before = set(sys.modules); "
        "import pyspark_goqueue, pyspark_goqueue_lake; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200
    )
    found = ast.literal_eval(done.stdout)
    assert {"goqueue.spark.source", "goqueue.spark.lake.source"} <= set(found)
    heavy = ("pyarrow", "kio", "goqueue.protocols", "deltalake", "pyiceberg")
    assert not [name for name in found if name.startswith(heavy)]
