"""Message tracing."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError


class TraceError(GoQueueError):
    """A request about traces cannot be served."""


class UnknownTraceError(TraceError):
    """There is no such trace, or not any more."""


class TraceExportError(TraceError):
    """Traces cannot be given to whom they should go to."""
