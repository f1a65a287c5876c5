"""Durations as ISO 8601 and Java write them: `P1DT2H3M4.5S`."""

from __future__ import annotations

import re
from typing import Final

_DIGITS: Final = "[-+]?[0-9]{1,18}"
"""More digits than any span of time has; longer numbers are refused before they are computed."""
_DURATION: Final = re.compile(
    rf"(?P<sign>[-+]?)P(?:(?P<days>{_DIGITS})D)?"
    rf"(?P<time>T(?:(?P<hours>{_DIGITS})H)?(?:(?P<minutes>{_DIGITS})M)?"
    rf"(?:(?P<seconds>{_DIGITS})(?:[.,](?P<fraction>[0-9]{{0,9}}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_UNITS_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


def iso_duration_ms(text: str) -> int | None:
    """The milliseconds of a duration; None when it is not one, or is negative."""
    match = _DURATION.fullmatch(text)
    if (
        match is None
        or all(match[unit] is None for unit in _UNITS_MS)
        or match["time"] in {"T", "t"}
    ):
        return None
    total_ms = sum(int(match[unit] or 0) * each_ms for unit, each_ms in _UNITS_MS.items())
    fraction_ms = int((match["fraction"] or "").ljust(3, "0")[:3])
    total_ms += -fraction_ms if (match["seconds"] or "").startswith("-") else fraction_ms
    if match["sign"] == "-":
        total_ms = -total_ms
    return None if total_ms < 0 else total_ms
