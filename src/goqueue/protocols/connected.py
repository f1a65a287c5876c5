"""Clients that are connected to a node, as its listeners know them."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

_MAX_NAME_CHARS: Final = 200
"""Of what a client calls itself; the rest is not shown."""


class ConnectedClient(msgspec.Struct, frozen=True):
    """One connection."""

    protocol: Literal["kafka", "http", "grpc"]
    listener: str
    address: str
    principal: str
    client_id: str | None
    software: str | None
    """Name and version, as the client has told them."""
    age_s: float
    """How long it has been connected."""


def shown_name(text: str | bytes | None) -> str | None:
    """A name that a client has told, cut to `_MAX_NAME_CHARS`; None for an empty one."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return text[:_MAX_NAME_CHARS] or None if text else None
