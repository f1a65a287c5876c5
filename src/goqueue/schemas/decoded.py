"""Decoded messages as JSON, for people: whatever a schema language can hold becomes text."""

from __future__ import annotations

import base64
import json
import math
from typing import Any


class DecodeFault(Exception):  # noqa: N818 - it never leaves this product
    """A message is none of the schema that it names."""


class MisfitAt(Exception):  # noqa: N818 - it never leaves this package
    """Something is wrong at a place within a message."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path or '/'}: {what}")


def json_of(value: Any) -> str:
    """Any decoded value as JSON text.

    Bytes are text where they are UTF-8, else base64; what has no number in JSON is its name.
    """
    return json.dumps(_plain(value), ensure_ascii=False, default=_text)


def _plain(value: Any) -> Any:
    """The same with what JSON cannot write replaced, also where a default is not asked."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)  # dates, times, UUIDs, decimals
