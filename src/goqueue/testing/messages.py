"""Messages as tests see them, and names that no two tests share."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_STEM: Final = 200
"""Characters of a name before its random end: a topic's name may have 249."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was read from the broker, with where it was."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None] = field(default_factory=dict)


def unique_name(stem: str) -> str:
    """A topic's or group's name that begins like `stem` and that nobody else has."""
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", stem).strip("-.") or "name"
    return f"{readable[:_MAX_STEM]}-{secrets.token_hex(4)}"


def as_bytes(text: str | bytes | None) -> bytes | None:
    """What is stored for a text: itself in UTF-8."""
    return text.encode() if isinstance(text, str) else text
