"""Message tracing."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError


class TraceError(GoQueueError):
    """Something is wrong with what is asked of traces."""


class UnknownTraceError(TraceError):
    """There is no such trace, or not any more."""


class TraceExportError(TraceError):
    """Traces cannot be given to whom they should go to."""
