"""Keys, moments, lengths and courses as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_MAX_KEY: Final = 60
_MS: Final = 1000
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))


def show_key(key: bytes | None) -> str:
    """A key as its owner may recognise it."""
    if key is None:
        return "(none)"
    try:
        text = bytes(key).decode()
    except UnicodeDecodeError:
        text = "0x" + bytes(key).hex()
    return text if len(text) <= _MAX_KEY else text[: _MAX_KEY - 1] + "…"


def show_time(moment_ms: int | None) -> str | None:
    """A moment in UTC, as it can be given to `--since`."""
    if moment_ms is None:
        return None
    try:
        found = datetime.fromtimestamp(moment_ms / _MS, UTC)
    except (ValueError, OverflowError, OSError):
        return str(moment_ms)  # a producer may write any time that it likes
    precision = "milliseconds" if moment_ms % _MS else "seconds"
    return found.isoformat(timespec=precision).replace("+00:00", "Z")


def show_span(length_ms: float | None) -> str | None:
    """A length of time in at most two units: `3d4h`, `2m5s`, `12.5ms`."""
    if length_ms is None:
        return None
    if length_ms < _MS:
        return f"{length_ms:.3g}ms"
    left = round(length_ms / _MS) * _MS
    parts: list[tuple[int, str]] = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append((count, unit))
    return "".join(f"{count}{unit}" for count, unit in parts[:2] if count)


def show_bytes(size: float) -> str:
    """A size with a fitting unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < _MS:
            return f"{size:.3g} {unit}"
        size /= _MS
    return f"{size:.3g} TB"


def line_of(
    values: Sequence[float],
    width: int = 72,
    *,
    together: Callable[[Iterable[float]], float] = sum,
) -> str:
    """A line of little columns; of values that share a column, what `together` makes of them."""
    if len(values) > width:
        values = [
            together(values[at * len(values) // width : (at + 1) * len(values) // width])
            for at in range(width)
        ]
    largest = max(values) or 1
    return "".join(_LEVELS[min(7, int(each * 8 // largest))] for each in values)
