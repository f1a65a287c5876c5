"""The pictures of a skew report: one for a browser, one for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.jobs.reports import histograms, svg
from goqueue.spark.jobs.reports.balance import EVEN
from goqueue.spark.jobs.showing import line_of, show_bytes, show_key, show_time

if TYPE_CHECKING:
    from goqueue.spark.jobs.report import JobReport
    from goqueue.spark.jobs.reports.skew_counts import Skew

_SIZE_BINS: Final = 24
_KEYS: Final = 15
_BAR: Final = 40
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"


def skew_plot(topic: str, skew: Skew, top: int) -> str:
    """Partitions, hot keys, sizes and the course of time, as SVG."""
    messages = [int(each["messages"] or 0) for each in skew.partitions]
    mean = skew.messages / max(1, len(messages))
    keys = skew.keys[: min(top, _KEYS)]
    bins = histograms.rebinned(skew.sizes, _SIZE_BINS)
    panels: list[svg.Panel] = [
        svg.Columns(
            "Messages by partition",
            [str(each["partition"]) for each in skew.partitions],
            messages,
            mean,
            frozenset(at for at, count in enumerate(messages) if count > EVEN * mean),
        ),
        svg.Rows(
            "Hottest keys",
            [show_key(key) for key, _, _ in keys],
            [count for _, count, _ in keys],
            [f"{svg.short_number(count)} ({count / skew.messages:.1%})" for _, count, _ in keys],
        ),
        svg.Columns(
            "Messages by size", [show_bytes(each[0]) for each in bins], [each[2] for each in bins]
        ),
        svg.Lines(
            "Messages over time",
            [(show_time(at) or "")[5:16].replace("T", " ") for at, _, _ in skew.moments],
            [count for _, count, _ in skew.moments],
        ),
    ]
    subtitle = (
        f"{skew.messages:,} messages, {show_bytes(skew.bytes)}, {len(messages)} partitions, "
        f"{skew.distinct_keys:,} keys"
    )
    return svg.chart(f"Skew of {topic}", subtitle, panels)


def text_plot(report: JobReport) -> str:
    """Partitions and keys as bars, and the course of time, for a terminal."""
    tables: dict[str, Any] = {each.title: each.rows for each in report.tables}
    bars = [
        ("partition", [(str(each["partition"]), each) for each in tables["partitions"]]),
        ("key", [(str(each["key"]), each) for each in tables["keys"]]),
    ]
    lines: list[str] = []
    for name, rows in bars:
        if not rows:
            continue
        largest = max(each["messages"] for _, each in rows) or 1
        width = max(len(name), *(len(label) for label, _ in rows))
        lines.append(f"{name:<{width}}  messages")
        for label, each in rows:
            drawn = bar(each["messages"] / largest)
            lines.append(f"{label:<{width}}  {drawn} {each['share']:>6.1%}")
        lines.append("")
    counts = [each["messages"] for each in tables["times"]]
    if len(counts) > 1:
        lines += [f"{tables['times'][0]['from']}  {line_of(counts)}  {tables['times'][-1]['from']}"]
    return "\n".join(lines)


def bar(share: float, width: int = _BAR) -> str:
    """A bar of a share of the width, to an eighth of a character, filled up with spaces."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[part] if part else "")).ljust(width)
