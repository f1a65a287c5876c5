"""Charts as SVG: bars and lines on white, one column of panels, nothing to install.

Everything that comes from outside is escaped, and what XML cannot hold is left out, so a picture is
well-formed whatever keys are called.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH: Final = 860
_LEFT: Final = 150
_RIGHT: Final = 40
_PANEL: Final = 200
_ROW: Final = 20
_GAP: Final = 64
_ROW_GAP: Final = 40
_TOP: Final = 88
_MAX_LABEL: Final = 20
_MAX_LABELS: Final = 16
_INK: Final = "#1f2933"
_SOFT: Final = "#7b8794"
_GRID: Final = "#e4e7eb"
_FILL: Final = "#2b6cb0"
_MARK: Final = "#c53030"
_STEPS: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 20)
_SMALLEST: Final = 1e-6
_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


@dataclass(frozen=True, slots=True)
class Columns:
    """Upright bars, one a label."""

    title: str
    labels: Sequence[str]
    values: Sequence[float]
    mean: float | None = None
    """A line across, to compare with."""
    marked: frozenset[int] = field(default_factory=frozenset)
    """Which bars stand out."""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Lying bars, one a label, with what is written behind each."""

    title: str
    labels: Sequence[str]
    values: Sequence[float]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Lines:
    """Values over time, connected."""

    title: str
    labels: Sequence[str]
    values: Sequence[float]
    unit: str = ""


Panel = Columns | Rows | Lines


def chart(title: str, subtitle: str, panels: Sequence[Panel]) -> str:
    """A picture of some panels, one below the other."""
    parts: list[str] = []
    top = _TOP
    for panel in panels:
        parts.append(_text(_LEFT, top, panel.title, size=14, weight="600"))
        height = _height(panel)
        parts += _drawn(panel, top + 14, height)
        top += height + (_ROW_GAP if isinstance(panel, Rows) else _GAP)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {_size(top)} role="img">',
            f"<title>{_clean(title)}</title>",
            f'<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>',
            _text(24, 30, title, size=18, weight="700"),
            _text(24, 48, subtitle, size=12, fill=_SOFT),
            *parts,
            "</svg>",
            "",
        ]
    )


def _height(panel: Panel) -> int:
    return _ROW * max(1, len(panel.labels)) + 8 if isinstance(panel, Rows) else _PANEL


def _drawn(panel: Panel, top: int, height: int) -> Iterator[str]:
    if not panel.values:
        yield _text(_LEFT, top + 20, "nothing", fill=_SOFT)
    elif isinstance(panel, Rows):
        yield from _rows(panel, top)
    else:
        highest = nice(max([*panel.values, getattr(panel, "mean", None) or 0.0]))
        yield from _grid(highest, panel.unit, top, height)
        yield from _labels(panel.labels, top + height)
        if isinstance(panel, Columns):
            yield from _columns(panel, highest, top, height)
        else:
            yield from _lines(panel, highest, top, height)


def _rows(panel: Rows, top: int) -> Iterator[str]:
    room = WIDTH - _LEFT - _RIGHT - 130
    largest = max(panel.values) or 1
    for at, (label, value, note) in enumerate(
        zip(panel.labels, panel.values, panel.notes, strict=True)
    ):
        y = top + _ROW * at
        width = room * value / largest
        yield _text(_LEFT - 8, y + 14, _short(label), anchor="end")
        yield _rect(_LEFT, y + 3, width, _ROW - 6, _FILL)
        yield _text(_LEFT + width + 6, y + 14, note, fill=_SOFT)


def _columns(panel: Columns, highest: float, top: int, height: int) -> Iterator[str]:
    room = WIDTH - _LEFT - _RIGHT
    step = room / len(panel.values)
    for at, value in enumerate(panel.values):
        tall = height * value / highest
        fill = _MARK if at in panel.marked else _FILL
        yield _rect(_LEFT + step * at + step * 0.1, top + height - tall, step * 0.8, tall, fill)
    if panel.mean is not None:
        y = top + height - height * panel.mean / highest
        yield _line(_LEFT, y, WIDTH - _RIGHT, y, _INK, dashed=True)
        yield _text(WIDTH - _RIGHT, y - 4, "mean", fill=_INK, anchor="end")


def _lines(panel: Lines, highest: float, top: int, height: int) -> Iterator[str]:
    room = WIDTH - _LEFT - _RIGHT
    step = room / len(panel.values)
    points = [
        (_LEFT + step * (at + 0.5), top + height - height * value / highest)
        for at, value in enumerate(panel.values)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{_FILL}" stroke-width="2"/>'
    if len(points) <= 48:
        for x, y in points:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{_FILL}"/>'


def _grid(highest: float, unit: str, top: int, height: int) -> Iterator[str]:
    for part in range(5):
        y = top + height - height * part / 4
        yield _line(_LEFT, y, WIDTH - _RIGHT, y, _GRID)
        label = f"{short_number(highest * part / 4)}{unit}"
        yield _text(_LEFT - 8, y + 4, label, fill=_SOFT, anchor="end")


def _labels(labels: Sequence[str], y: int) -> Iterator[str]:
    room = WIDTH - _LEFT - _RIGHT
    step = room / len(labels)
    widest = max(len(_short(each)) for each in labels) * 6.5 + 12
    every = max(1, math.ceil(widest / step), math.ceil(len(labels) / _MAX_LABELS))
    for at in range(0, len(labels), every):
        middle = _LEFT + step * (at + 0.5)
        yield _text(middle, y + 16, _short(labels[at]), fill=_SOFT, anchor="middle")


def _size(height: int) -> str:
    return (
        f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif"'
    )


# --- Small things --------------------------------------------------------------------------------


def nice(value: float) -> float:
    """A round number that is not below a value."""
    if value < _SMALLEST:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in _STEPS if step * power >= value)


def short_number(value: float) -> str:
    """A number in few characters: 950, 1.5k, 20M."""
    for unit in ("", "k", "M", "G"):
        if abs(value) < 1000:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}T"


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 11,
    weight: str = "400",
    fill: str = _INK,
    anchor: str = "start",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="{anchor}">{_clean(text)}</text>'
    )


def _rect(x: float, y: float, width: float, height: float, fill: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" '
        f'height="{max(height, 0.5):.1f}" rx="2" fill="{fill}"/>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"{dash}/>'
    )


def _short(label: str) -> str:
    return label if len(label) <= _MAX_LABEL else label[: _MAX_LABEL - 1] + "…"


def _clean(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))
