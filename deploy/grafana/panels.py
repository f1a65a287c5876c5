"""The words that dashboards are written in: panels, rows of them, and what a reader can choose.

A dashboard is a list of rows, a row a heading and some panels that share its width. Where a panel
sits, which number it has and how Grafana spells it follows from that.
"""
# ruff: noqa: INP001 - scripts beside what they write, not a package

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

SCHEMA: Final = 39
"""Of Grafana 10.4 and newer; older ones are migrated when they are loaded."""
COLUMNS: Final = 24
PROMETHEUS: Final = {"type": "prometheus", "uid": "${datasource}"}

GREEN, YELLOW, RED = "green", "yellow", "red"


@dataclass(frozen=True)
class Query:
    """One expression, and how its series are called; `{{label}}` stands for a label."""

    expr: str
    legend: str = ""
    instant: bool = False


@dataclass(frozen=True)
class Panel:
    """One picture."""

    title: str
    description: str
    queries: list[Query]
    unit: str = "short"
    kind: str = "timeseries"
    steps: list[tuple[float | None, str]] = field(default_factory=lambda: [(None, GREEN)])
    """From which value on which colour; the first has none."""
    low: float | None = None
    high: float | None = None
    decimals: int | None = None
    stacked: bool = False
    height: int = 8
    datasource: dict[str, str] = field(default_factory=lambda: PROMETHEUS)


@dataclass(frozen=True)
class Row:
    """A heading and the panels below it."""

    title: str
    panels: list[Panel]


@dataclass(frozen=True)
class Choice:
    """Values of a label that the reader can choose from, all of them to begin with."""

    name: str
    label: str
    query: str


@dataclass(frozen=True)
class Dashboard:
    """One page."""

    uid: str
    title: str
    description: str
    rows: list[Row]
    choices: list[Choice]
    variables: list[dict[str, Any]] = field(default_factory=list)
    """Others, as Grafana spells them."""

    def to_json(self) -> dict[str, Any]:
        """As Grafana reads it."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["goqueue"],
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "links": [_link_to_others()],
            "annotations": {"list": [_alerts()]},
            "templating": {"list": [_datasource(), *map(_variable, self.choices), *self.variables]},
            "panels": _laid_out(self.rows),
        }


def _laid_out(rows: list[Row]) -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = []
    numbers = count(1)
    top = 0
    for row in rows:
        place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        panels.append(
            {
                "id": next(numbers),
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": place,
                "panels": [],
            }
        )
        top += 1
        width = COLUMNS // len(row.panels)
        for at, panel in enumerate(row.panels):
            place = {"x": at * width, "y": top, "w": width, "h": panel.height}
            panels.append({"id": next(numbers), "gridPos": place, **_panel(panel)})
        top += max(panel.height for panel in row.panels)
    return panels


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": panel.datasource,
        "targets": [
            _target(panel, query, chr(ord("A") + at)) for at, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
    }


def _target(panel: Panel, query: Query, letter: str) -> dict[str, Any]:
    if panel.datasource["type"] == "tempo":
        return {
            "refId": letter,
            "datasource": panel.datasource,
            "queryType": "traceql",
            "query": query.expr,
            "limit": 20,
            "tableType": "traces",
        }
    instant = query.instant or panel.kind == "table"
    return {
        "refId": letter,
        "datasource": panel.datasource,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "instant": instant,
        "range": not instant,
        "format": "table" if panel.kind == "table" else "time_series",
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "thresholds": {
            "mode": "absolute",
            "steps": [{"value": value, "color": colour} for value, colour in panel.steps],
        },
    }
    if panel.low is not None:
        defaults["min"] = panel.low
    if panel.high is not None:
        defaults["max"] = panel.high
    if panel.decimals is not None:
        defaults["decimals"] = panel.decimals
    if panel.kind == "timeseries":
        defaults["min"] = 0 if panel.low is None else panel.low
        defaults["custom"] = {
            "lineWidth": 1,
            "fillOpacity": 20 if panel.stacked else 8,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "line" if len(panel.steps) > 1 else "off"},
        }
    return defaults


def _options(panel: Panel) -> dict[str, Any]:
    calculation = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    match panel.kind:
        case "timeseries":
            return {
                "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["mean", "max"]},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        case "stat":
            return {
                "reduceOptions": calculation,
                "colorMode": "background" if len(panel.steps) > 1 else "value",
                "graphMode": "area",
                "textMode": "auto",
            }
        case "gauge":
            return {"reduceOptions": calculation, "showThresholdMarkers": True}
        case _:
            return {"showHeader": True, "cellHeight": "sm"}


def _datasource() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
        "includeAll": False,
        "multi": False,
    }


def _variable(choice: Choice) -> dict[str, Any]:
    return {
        "name": choice.name,
        "label": choice.label,
        "type": "query",
        "datasource": PROMETHEUS,
        "query": {"query": choice.query, "refId": "variable"},
        "definition": choice.query,
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _link_to_others() -> dict[str, Any]:
    return {
        "type": "dashboards",
        "title": "GoQueue",
        "tags": ["goqueue"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
    }


def _alerts() -> dict[str, Any]:
    """Alerts, as marks in every picture."""
    return {
        "name": "Alerts",
        "datasource": PROMETHEUS,
        "enable": True,
        "expr": 'ALERTS{alertname=~"GoQueue.+",alertstate="firing"}',
        "titleFormat": "{{alertname}}",
        "iconColor": "red",
    }
