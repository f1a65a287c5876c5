"""Spark Connect: which pipelines run through it, and what does not work there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from goqueue.spark.pipelines.model import Pipeline

REMOTE: Final = "sc://"
NO_UPDATES: Final = (
    "mode update to a topic does not work over Spark Connect, where a micro-batch does not know "
    "which query it is of, and could not be written once: use mode append with a watermark, or "
    "run the pipeline with a master"
)


def is_remote(pipeline: Pipeline) -> bool:
    """Whether it runs through Spark Connect."""
    return (pipeline.master or "").startswith(REMOTE)
