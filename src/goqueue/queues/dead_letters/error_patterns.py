"""Which errors are the same: those that differ in nothing but numbers and ids.

`no customer 17` and `no customer 18` are both `no customer #`.
"""

from __future__ import annotations

import re
from typing import Final

_VARIABLE: Final = re.compile(
    r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|\b0x[0-9a-f]+"
    r"|\b(?=[a-f]*[0-9])[0-9a-f]{8,}\b"
    r"|[0-9]+",
    re.ASCII | re.IGNORECASE,
)


def error_pattern(error: str) -> str:
    """An error without its numbers and ids. The pattern of a pattern is itself."""
    return _VARIABLE.sub("#", error)
