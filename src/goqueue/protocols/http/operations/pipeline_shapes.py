"""What is answered about pipelines."""

from __future__ import annotations

import msgspec

from goqueue.model.pipeline_reports import PipelineReport


class PipelineList(msgspec.Struct):
    """Every pipeline, by name."""

    pipelines: list[PipelineReport]


class PipelineRemoved(msgspec.Struct):
    """What was forgotten."""

    removed: str
