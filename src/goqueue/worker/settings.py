"""What `goqueue worker` was told, on its way to its processes."""

from __future__ import annotations

from typing import Final

import msgspec

DEFAULT_CONCURRENCY: Final = 10
DEFAULT_STOP_TIMEOUT_S: Final = 25.0
"""Less than the 30 s that Kubernetes gives a container."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a worker."""

    app: str
    """`module:app`."""
    address: str | None = None
    """In place of the app's."""
    concurrency: int | None = None
    """Tasks at a time; None is 10, or 1 where tasks of a key run one after the other."""
    prefetch: int | None = None
    """Messages that the process may have; None is as many as it runs at a time."""
    topics: tuple[str, ...] = ()
    """Of the app's topics, those to take from; empty is all."""
    stop_timeout_s: float = DEFAULT_STOP_TIMEOUT_S
    log_level: str = "info"
