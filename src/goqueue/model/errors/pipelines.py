"""Reports of Spark pipelines."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError


class PipelineError(GoQueueError):
    """The report of a pipeline cannot be kept, or there is none."""


class UnknownPipelineError(PipelineError):
    """Nobody has reported of a pipeline of that name, or its report was removed."""


class TooManyPipelinesError(PipelineError):
    """As many pipelines are known as may be: remove those that are not needed any more."""


class PipelinesUnavailableError(PipelineError):
    """The reports of pipelines could not be stored; try again."""

    retriable = True
