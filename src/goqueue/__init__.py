"""GoQueue: a durable log and a work queue over the same stored bytes.

`goqueue.Client` and `goqueue.AsyncClient` are imported when they are first used: whoever imports
the package for its version does not pay for gRPC.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's own, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from goqueue.client.async_client import AsyncClient
    from goqueue.client.settings import ClientSettings
    from goqueue.client.sync.client import Client

__version__ = "0.1.0"

_HOMES = {
    "AsyncClient": "goqueue.client.async_client",
    "Client": "goqueue.client.sync.client",
    "ClientSettings": "goqueue.client.settings",
}

__all__ = ["AsyncClient", "Client", "ClientSettings", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - a version needs no imports

    return getattr(import_module(_HOMES[name]), name)
