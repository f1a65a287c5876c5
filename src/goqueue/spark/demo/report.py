"""What the demonstration did, as a page: one file with its plots inside, that needs no network."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.jobs.reports import svg

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SHOWN: Final = 12
"""Rows of a table; the page says how many there are."""
_ABOUT: Final = (
    "A demonstration of <code>goqueue pipeline</code>: orders come in over a topic, are checked, "
    "joined with customers, summed up by the minute, and archived."
)
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2933; margin: 2rem auto; max-width: 56rem;
  padding: 0 1rem }
h1 { font-size: 1.6rem; margin: 0 } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem }
p { margin: .3rem 0 } svg { max-width: 100%; height: auto }
dl { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.5rem 0 0 }
dl div { border: 1px solid #e4e7eb; border-radius: .5rem; padding: .6rem 1rem }
dt { color: #52606d; font-size: .85rem } dd { font-size: 1.3rem; font-weight: 600; margin: 0 }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: .85rem }
th, td { padding: .25rem .75rem .25rem 0; text-align: left; border-bottom: 1px solid #e4e7eb }
td.number { text-align: right; font-variant-numeric: tabular-nums } code { font-size: .9em }
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """The pipeline at one moment of its run."""

    at_s: float
    """Since the run began."""
    rows: int
    """Read so far by all queries."""
    lag: int
    """Messages that all queries together have not read yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFacts:
    """Everything that the page tells."""

    orders: int
    invalid: int
    took_s: float
    """From the start of the broker to the end of the pipeline."""
    moments: Sequence[Moment]
    revenue: Sequence[Mapping[str, Any]]
    """A row for each minute and country."""
    letters: int
    reasons: Sequence[Mapping[str, Any]]
    """Why messages were dead-lettered: `why`, `letters` and an example."""
    archived: int
    countries: Sequence[Mapping[str, Any]]
    """What the archive holds of each country: `country`, `orders`, `revenue`."""
    rows: Sequence[Mapping[str, Any]]
    """Some rows of the archive."""
    pipeline: str
    """The text of the pipeline's file."""


def page(facts: DemoFacts) -> str:
    """The whole page."""
    parts = [
        "<h1>Orders: what the pipeline did</h1>",
        f"<p>{_ABOUT}</p>",
        _tiles(facts),
        *_section("Rates and lag", "While the pipeline ran, seen every few seconds.", _run(facts)),
        *_section(
            "Windows",
            "Revenue by the minute and country, from the topic <code>revenue</code>.",
            _windows(facts),
            _table("The last windows", facts.revenue[-_SHOWN:], len(facts.revenue)),
        ),
        *_section(
            "Dead letters",
            "Messages that broke a rule, from the topic <code>orders.dlq</code>.",
            _letters(facts),
            _table("An example of each", facts.reasons, len(facts.reasons)),
        ),
        *_section(
            "The table",
            "Valid orders in Parquet, partitioned by day, from the folder <code>archive</code>.",
            _archive(facts),
            _table("Some rows", facts.rows[:_SHOWN], facts.archived),
        ),
        *_section(
            "The pipeline",
            "Change <code>orders.yaml</code> and run it again.",
            f'<div class="scroll"><pre>{escape(facts.pipeline)}</pre></div>',
        ),
    ]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>GoQueue: the demo pipeline</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            *parts,
            "</body>\n</html>\n",
        ]
    )


def _section(title: str, text: str, *parts: str) -> Iterable[str]:
    return (f"<h2>{title}</h2>", f"<p>{text}</p>", *parts)


def _tiles(facts: DemoFacts) -> str:
    shown = {
        "orders published": f"{facts.orders:,}",
        "of them invalid": f"{facts.invalid:,}",
        "windows": f"{len(facts.revenue):,}",
        "dead letters": f"{facts.letters:,}",
        "rows in the table": f"{facts.archived:,}",
        "time": f"{facts.took_s:.0f} s",
    }
    tiles = (f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in shown.items())
    return f"<dl>{''.join(tiles)}</dl>"


# --- Plots ---------------------------------------------------------------------------------------


def _run(facts: DemoFacts) -> str:
    moments = _from_first_row(facts.moments)
    spans = [each for each in pairwise(moments) if each[1].at_s > each[0].at_s]
    rates = [(new.rows - old.rows) / (new.at_s - old.at_s) for old, new in spans]
    known = [each for each in moments if each.rows or each.lag]  # before, no lag was reported
    panels = [
        svg.Lines("Rows a second, all queries", [_seconds(new) for _, new in spans], rates),
        svg.Lines(
            "Lag, all queries",
            [_seconds(each) for each in known],
            [each.lag for each in known],
        ),
    ]
    return svg.chart("The run", "by seconds since the pipeline was started", panels)


def _from_first_row(moments: Sequence[Moment]) -> Sequence[Moment]:
    """Without the time in which Spark starts, but for its last moment."""
    idle = next((at for at, each in enumerate(moments) if each.rows or each.lag), 0)
    return moments[max(idle - 1, 0) :]


def _seconds(moment: Moment) -> str:
    return f"{moment.at_s:.0f} s"


def _windows(facts: DemoFacts) -> str:
    revenue: dict[str, float] = {}
    orders: dict[str, int] = {}
    for each in facts.revenue:
        start = str(each["window_start"])[11:16]
        revenue[start] = revenue.get(start, 0.0) + each["revenue"]
        orders[start] = orders.get(start, 0) + each["orders"]
    panels = [
        svg.Columns("Revenue by the minute", list(revenue), list(revenue.values())),
        svg.Columns("Orders by the minute", list(orders), list(orders.values())),
    ]
    return svg.chart("Windows of a minute", "of the orders' own time, all countries", panels)


def _letters(facts: DemoFacts) -> str:
    counts = [each["letters"] for each in facts.reasons]
    panel = svg.Rows(
        "Dead letters by rule",
        [str(each["why"]).removeprefix("rule ").partition(":")[0] for each in facts.reasons],
        counts,
        [f"{count:,}" for count in counts],
    )
    return svg.chart("Dead letters", f"{facts.letters:,} in all", [panel])


def _archive(facts: DemoFacts) -> str:
    panel = svg.Rows(
        "Revenue by country",
        [str(each["country"]) for each in facts.countries],
        [each["revenue"] for each in facts.countries],
        [f"{each['revenue']:,.0f} of {each['orders']:,} orders" for each in facts.countries],
    )
    return svg.chart("The table", f"{facts.archived:,} rows", [panel])


# --- Tables --------------------------------------------------------------------------------------


def _table(title: str, rows: Sequence[Mapping[str, Any]], total: int) -> str:
    if not rows:
        return "<p>none</p>"
    head = "".join(f"<th>{escape(str(name))}</th>" for name in rows[0])
    body = "".join(f"<tr>{''.join(map(_cell, row.values()))}</tr>" for row in rows)
    more = f" ({len(rows)} of {total:,})" if len(rows) < total else ""
    return (
        f'<h3>{title}{more}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape(str(value))}</td>"
