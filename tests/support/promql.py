"""What PromQL expressions in rules, dashboards and pages refer to."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "deploy/prometheus/rules").glob("*.yml"))
DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))

OWN = re.compile(
    r"\bgoqueue_(?:broker|storage|consumer|process|cluster|audit|tls|metrics|webhook)_[a-z0-9_]+"
)
"""A metric of ours, wherever it is named; a histogram's may have a suffix."""
RECORDED = re.compile(r"\b(?:node|group):goqueue_\w+:\w+")
"""What a recording rule of ours makes."""
FOREIGN = re.compile(r"\b(?:process|python)_[a-z0-9_]+\b|\bup\b")
"""What Prometheus itself, or its client library, makes."""
_SELECTOR = re.compile(
    rf"(?:{RECORDED.pattern}|{OWN.pattern}|{FOREIGN.pattern})(?:\{{[^}}]*\}})?(?!\s*\()"
)
_COMPARISON = re.compile(r"\s(==|!=|>=|<=|>|<)\s(?!bool)")


class Rule(NamedTuple):
    """One rule, and the file it is in."""

    path: Path
    fields: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.fields.get("alert") or self.fields["record"])

    @property
    def expr(self) -> str:
        return str(self.fields["expr"])


def rules() -> list[Rule]:
    """Every rule there is."""
    return [
        Rule(path, fields)
        for path in RULES
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for fields in group["rules"]
    ]


def alerts() -> list[Rule]:
    return [rule for rule in rules() if "alert" in rule.fields]


def dashboard_queries() -> list[tuple[str, str]]:
    """Every expression of every panel with where it is, and of every choice of a label."""
    found = []
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        for panel in dashboard["panels"]:
            place = f"{path.stem}: {panel['title']}"
            found += [(place, each["expr"]) for each in panel.get("targets", ()) if "expr" in each]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                metric = re.fullmatch(r"label_values\((.+), \w+\)", variable["definition"])
                assert metric, variable
                found.append((f"{path.stem}: ${variable['name']}", metric[1]))
    return found


def selectors(expr: str) -> list[str]:
    """The series that an expression starts from, each a query of its own."""
    return _SELECTOR.findall(expr)


def without_thresholds(expr: str) -> list[str]:
    """Expressions that have a series for everything that an alert looks at, alarming or not.

    A comparison drops what it does not hold for; with `bool` it says 0 or 1 instead. What `unless`
    would drop, and what `absent` wants to be missing, is asked for on its own.
    """
    absent = re.fullmatch(r"absent\((.*)\)", expr)
    parts = re.split(r"\sunless (?:on \([^)]*\) )?", absent[1] if absent else expr)
    return [_COMPARISON.sub(r" \1 bool ", part) for part in parts]


def tool(name: str) -> str:
    """Where a program of Debian's package prometheus is; without it, CI fails and others skip."""
    path = shutil.which(name)
    if path is None:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(f"{name} is not installed: apt-get install prometheus")
        pytest.skip(f"{name} is not installed: apt-get install prometheus")
    return path
