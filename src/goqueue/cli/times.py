"""Moments and spans of time as people type them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from goqueue.cli.errors import UsageError

_UNITS_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_SPAN: Final = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def parse_span_ms(text: str) -> int | None:
    """The milliseconds of `90s`, `1h30m` or `7d`; None if it is nothing of the kind."""
    if not _SPAN.fullmatch(text):
        return None
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text)))


def span_ms(text: str | None, option: str, *, may_be_zero: bool = False) -> int | None:
    """The milliseconds of an option, if it was given.

    Raises:
        UsageError: it is no duration.
    """
    found = None if text is None else parse_span_ms(text)
    if text is not None and (found is None or not (found or may_be_zero)):
        raise UsageError(
            f"{option}: {text!r} is no duration; expected something like 500ms, 10m or 1h30m"
        )
    return found


def parse_time_ms(text: str, option: str, now_ms: int) -> int:
    """A moment in milliseconds since the epoch: a date and time, those milliseconds, or `15m` ago.

    A date without a zone is one of this machine's zone.

    Raises:
        UsageError: it is no moment between 1970 and 9999.
    """
    found: int | None = None
    if (span := parse_span_ms(text)) is not None:
        found = now_ms - span
    elif re.fullmatch(r"\d{1,15}", text, re.ASCII):
        found = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text).astimezone(UTC)
            found = (moment - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, OverflowError, OSError):
            found = None
    if found is None or not 0 <= found <= _MAX_TIME_MS:
        raise UsageError(
            f"{option}: {text!r} is no time; expected 2025-01-31T12:00:00Z, milliseconds since "
            "1970, or how long ago, such as 15m"
        )
    return found


def moment_ms(text: str | None, option: str) -> int | None:
    """The same as of now, where an option was given. Raises like `parse_time_ms`."""
    return None if text is None else parse_time_ms(text, option, time.time_ns() // 1_000_000)


def parse_retention_ms(text: str) -> int:
    """How long to keep messages: `168` and `168h` are hours, `7d` is a week, `forever` is -1.

    Raises:
        UsageError: it is none of these.
    """
    if text in {"-1", "forever"}:
        return -1
    found = parse_span_ms(f"{text}h" if re.fullmatch(r"\d+", text, re.ASCII) else text)
    if not found:
        raise UsageError(
            f"--retention: {text!r} is no duration; expected hours such as 168, or 7d, or forever"
        )
    return found


def show_time(timestamp_ms: int) -> str:
    """A moment for people, to the millisecond, in UTC."""
    if not 0 <= timestamp_ms <= _MAX_TIME_MS:
        return str(timestamp_ms)
    moment = _EPOCH + timedelta(milliseconds=timestamp_ms)  # a float of seconds would round
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def show_age(timestamp_ms: int) -> str:
    """How long ago a moment was, or how far it is ahead, as lists show it to people."""
    if not 0 <= timestamp_ms <= _MAX_TIME_MS:
        return str(timestamp_ms)
    seconds = time.time() - timestamp_ms / 1000
    return f"{show_span(seconds)} ago" if seconds >= 0 else f"in {show_span(-seconds)}"


def show_span(seconds: float) -> str:
    """A span for people: its two largest units."""
    rest = round(seconds)
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def show_size(size_bytes: float) -> str:
    """Bytes for people, in steps of 1024."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TB"
