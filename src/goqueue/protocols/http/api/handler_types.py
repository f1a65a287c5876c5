"""What the annotations of a handler say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import msgspec


@dataclass(frozen=True, slots=True)
class Types:
    """What a handler asks for and what it returns."""

    path: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    request: bool = False
    answer: type[Any] | None = None
    streams: bool = False
    may: bool = False
    """It asks what its client may do."""
