"""Pipelines: topics in, SQL or Python in the middle, topics and tables out.

    from goqueue.spark import pipelines as gp

    pipeline = gp.pipeline("orders")           begins one in Python, see `drafting`
    gp.load_pipeline("orders.yaml")            reads and checks a file, see `loading`
    gp.run_pipeline(...)                       runs one, see `running`

Importing this package costs nothing; what needs Spark is imported when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.spark.lazy_names import lazy_names

if TYPE_CHECKING:
    from goqueue.spark.pipelines.execution.running import run_pipeline
    from goqueue.spark.pipelines.files.drafting import Draft, pipeline
    from goqueue.spark.pipelines.files.loading import load_file, load_pipeline
    from goqueue.spark.pipelines.model import Pipeline, PipelineError, Problem

_HOMES = {
    "Draft": ".files.drafting",
    "Pipeline": ".model",
    "PipelineError": ".model",
    "Problem": ".model",
    "load_file": ".files.loading",
    "load_pipeline": ".files.loading",
    "pipeline": ".files.drafting",
    "run_pipeline": ".execution.running",
}

__all__ = [
    "Draft",
    "Pipeline",
    "PipelineError",
    "Problem",
    "load_file",
    "load_pipeline",
    "pipeline",
    "run_pipeline",
]

__getattr__ = lazy_names(__name__, _HOMES)
