"""Spans of time as Spark takes them, `10 seconds` or `1 hour 30 minutes`, judged without Spark."""

from __future__ import annotations

import re
from typing import Final

_UNITS_US: Final = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT: Final = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "secs": "second",
    "m": "minute",
    "min": "minute",
    "mins": "minute",
    "h": "hour",
    "hr": "hour",
    "hrs": "hour",
    "d": "day",
    "w": "week",
}
_PART: Final = re.compile(r"(\d{1,12})\s+([a-z]+)", re.ASCII)
_SHORT_PART: Final = re.compile(r"(\d{1,12})\s*([a-z]+)", re.ASCII)
_MAX_US: Final = 2**62
_EXPECTED: Final = "10 seconds, 1 minute, 1 hour 30 minutes and the like"


def duration_us(text: str) -> int:
    """The microseconds of a span of time.

    Raises:
        ValueError: it is none, or one that windows and triggers do not take; says what is meant.
    """
    words = text.strip().lower()
    words = re.sub(r"^interval\s+", "", words)
    parts = _PART.findall(words)
    if not parts or re.sub(r"\s+", " ", words) != " ".join(" ".join(each) for each in parts):
        raise ValueError(f"{text!r} is no span of time: expected {_EXPECTED}{duration_hint(words)}")
    total = 0
    for count, unit in parts:
        singular = unit.removesuffix("s")
        if singular in {"month", "year"}:
            raise ValueError(f"{text!r}: months and years have no fixed length: count in days")
        if singular not in _UNITS_US:
            raise ValueError(
                f"{text!r} is no span of time: expected {_EXPECTED}{duration_hint(words)}"
            )
        total += int(count) * _UNITS_US[singular]
    if total > _MAX_US:
        raise ValueError(f"{text!r} is longer than Spark can count")
    return total


def duration_hint(text: str) -> str:
    """The end of a sentence: what to write for `10s`, `1h30m` or `5min`, which are clear to us."""
    words = text.strip().lower()
    parts = _SHORT_PART.findall(words)
    if "".join(f"{count}{unit}" for count, unit in parts) != re.sub(r"\s+", "", words) or not parts:
        return ""
    said = []
    for count, unit in parts:
        full = _SHORT.get(unit, unit.removesuffix("s"))
        if full not in _UNITS_US:
            return ""
        said.append(f"{int(count)} {full}{'' if int(count) == 1 else 's'}")
    return f"; write {' '.join(said)}"
