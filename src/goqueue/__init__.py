"""GoQueue: a durable log and a work queue over the same stored bytes.

What it exports is imported when it is first used: whoever imports the package for its version does
not pay for gRPC.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's own, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from goqueue.client.async_client import AsyncClient
    from goqueue.client.settings import ClientSettings
    from goqueue.client.sync.client import Client
    from goqueue.worker.app import App
    from goqueue.worker.context import current_message
    from goqueue.worker.errors import Reject, Retry, TimeLimitExceeded

__version__ = "0.1.0"

_HOMES = {
    "App": "goqueue.worker.app",
    "AsyncClient": "goqueue.client.async_client",
    "Client": "goqueue.client.sync.client",
    "ClientSettings": "goqueue.client.settings",
    "Reject": "goqueue.worker.errors",
    "Retry": "goqueue.worker.errors",
    "TimeLimitExceeded": "goqueue.worker.errors",
    "current_message": "goqueue.worker.context",
}

__all__ = [
    "App",
    "AsyncClient",
    "Client",
    "ClientSettings",
    "Reject",
    "Retry",
    "TimeLimitExceeded",
    "__version__",
    "current_message",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - a version needs no imports

    return getattr(import_module(_HOMES[name]), name)
