"""Sizes, spans and moments of tables, as people read them. `-o json` has the numbers.

The unit is the end of a field's name: `size_bytes` is shown as `size`, `1.2 MB`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.cli.times import show_size, show_span, show_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LEAST_MOMENT_MS: Final = 100_000_000_000
"""Milliseconds since the epoch in 1973: a smaller number is a span."""
_MOMENTS: Final = ("_at", "timestamp", "deliverAt", "_until", "_since")
_NOT_SPANS: Final = ("_per_s", "/s")


def for_people(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a thing with their numbers as texts, and no units in their names."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        shown_name, shown = _shown(name, value)
        # Two fields that would be called the same keep their names.
        found[name if shown_name in fields or shown_name in found else shown_name] = shown
    return found


def _shown(name: str, value: Any) -> tuple[str, Any]:
    if name.endswith(_NOT_SPANS) or isinstance(value, bool | str | list | dict):
        return name, value
    if name.endswith(_MOMENTS):
        is_moment = value is not None and value >= _LEAST_MOMENT_MS
        return name, show_time(int(value)) if is_moment else value
    for unit, show in _UNITS.items():
        if name.endswith(unit):
            return name.removesuffix(unit), None if value is None else show(value)
    return name, value


def _show_ms(span_ms: float) -> str:
    if span_ms < 1000:
        return f"{span_ms:g} ms"
    return f"{span_ms / 1000:.1f} s" if span_ms < 10_000 else show_span(span_ms / 1000)


_UNITS: Final[dict[str, Callable[[float], str]]] = {
    "_bytes": show_size,
    "_ms": _show_ms,
    "_s": show_span,
}
