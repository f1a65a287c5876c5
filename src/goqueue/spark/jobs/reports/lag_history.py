"""What only the broker's HTTP API tells of groups: their lag over the last half hour."""

from __future__ import annotations

import urllib.error
import urllib.parse
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.jobs.showing import line_of, show_span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goqueue.spark.http_client import Http
    from goqueue.spark.jobs.report import Row

_MAX_GROUPS: Final = 200
"""That are asked about: a broker remembers no more of them."""
_WIDTH: Final = 30
"""Columns of a course; points that share one are the largest of them."""
_MOVED: Final = 0.1
"""A lag grows or shrinks when it does so by this share of its largest value."""


def history_rows(http: Http, groups: Sequence[str]) -> list[Row]:
    """The course of the lag of each group; nothing of those that nobody remembers."""
    rows = []
    for group, answer in _answers(http, groups[:_MAX_GROUPS], "/history"):
        with suppress(KeyError, TypeError, AttributeError):
            if (row := course_of(group, answer)) is not None:
                rows.append(row)
    return rows


def _answers(http: Http, groups: Sequence[str], below: str) -> Iterator[tuple[str, Any]]:
    """What the broker says of groups; whoever does not answer is not asked again."""
    for group in groups:
        try:
            yield group, http.ask(f"/groups/{urllib.parse.quote(group, safe='')}{below}")
        except urllib.error.HTTPError as error:
            error.close()  # not of this one; another may be known
        except OSError:
            return


def course_of(group: str, answer: Any) -> Row | None:
    """One group's lag over time in a row, or None where less than two points are known."""
    points = [each for each in answer["lag"] if each is not None]
    if len(points) < 2:
        return None
    return {
        "group": group,
        "over": show_span((len(answer["lag"]) - 1) * answer["step_ms"]),
        "least": min(points),
        "most": max(points),
        "now": points[-1],
        "trend": trend_of(points),
        "course": line_of(points, _WIDTH, together=max),
    }


def trend_of(points: Sequence[float]) -> str:
    """Whether a lag is another in its last third than in its first."""
    third = max(1, len(points) // 3)
    moved = (sum(points[-third:]) - sum(points[:third])) / third
    if abs(moved) <= _MOVED * max(points):
        return "steady"
    return "growing" if moved > 0 else "shrinking"
