"""No page, rule, dashboard or screen names a metric that the broker does not record.

That each of the names is really recorded by a broker, `unit/server/test_metrics_recorded.py` shows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from goqueue.metrics import names
from goqueue.metrics.exposition import PREFIX, exposition
from goqueue.metrics.kinds import HistogramName
from goqueue.metrics.registry import Metrics
from support.promql import DASHBOARDS, FOREIGN, OWN, RECORDED, ROOT, RULES, dashboard_queries, rules

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = (".md", ".yml", ".yaml", ".json", ".html", ".js", ".ts", ".tsx", ".mjs", ".css", ".py")
PLACES = [
    ROOT / "README.md",
    ROOT / "docs",
    ROOT / "deploy",
    ROOT / "src/goqueue/console",
    ROOT / "src/goqueue/cli",
]
NOT_OURS = {"node_modules", "dist", "__pycache__"}


def pages() -> list[Path]:
    """Every text in which a metric may be named."""
    found = [place for place in PLACES if place.is_file()]
    for place in PLACES:
        found += [
            path
            for path in place.rglob("*")
            if path.suffix in TEXTS and not NOT_OURS & set(path.parts)
        ]
    return sorted(found)


def known() -> set[str]:
    """Every name that a sample of ours can have."""
    found = {PREFIX + name.name for name in names.ALL}
    for name in names.ALL:
        if isinstance(name, HistogramName):
            found |= {f"{PREFIX}{name.name}_{suffix}" for suffix in ("bucket", "count", "sum")}
    return found


def test_every_metric_that_is_named_anywhere_is_one_that_is_recorded() -> None:
    recorded = known()
    unknown = {
        (str(path.relative_to(ROOT)), name)
        for path in pages()
        for name in OWN.findall(path.read_text(encoding="utf-8"))
        if name not in recorded
    }
    assert unknown == set()


def test_the_places_that_name_metrics_are_looked_at() -> None:
    looked_at = set(pages())
    assert looked_at >= {*RULES, *DASHBOARDS, ROOT / "docs/how-to/monitoring.md"}
    named = {name for path in looked_at for name in OWN.findall(path.read_text(encoding="utf-8"))}
    assert named >= {PREFIX + name.name for name in names.ALL}  # the reference page has them all


def test_what_top_reads_is_recorded() -> None:
    text = (ROOT / "src/goqueue/cli/top_view.py").read_text(encoding="utf-8")
    read = set(re.findall(r'"((?:broker|storage|consumer|cluster|process)_[a-z_]+)"', text))
    read.discard("consumer_group")  # a label
    assert read
    assert read <= {name.name for name in names.ALL}


def _expressions() -> list[tuple[str, str]]:
    return [(rule.name, rule.expr) for rule in rules()] + dashboard_queries()


@pytest.mark.parametrize("pattern", [RECORDED, FOREIGN], ids=["recorded", "foreign"])
def test_what_others_make_exists(pattern: re.Pattern[str]) -> None:
    """Series of recording rules, of Prometheus itself and of its library."""
    _, body = exposition(Metrics("n").read())
    samples = {
        sample.name
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    made = {rule.name for rule in rules()} | samples | {"up"}
    used = {(where, name) for where, expr in _expressions() for name in pattern.findall(expr)}
    assert used
    assert {each for each in used if each[1] not in made} == set()


def test_labels_that_expressions_choose_by_are_those_of_the_metric() -> None:
    by_name = {PREFIX + name.name: {*name.labels, "node_id", "le"} for name in names.ALL}
    chosen = re.compile(rf"({OWN.pattern})\{{([^}}]*)\}}")
    for where, expr in _expressions():
        for name, matchers in chosen.findall(expr):
            base = re.sub(r"_(bucket|count|sum)$", "", name) if name not in by_name else name
            for label in re.findall(r"(\w+)(?:=~|!~|!=|=)\"", matchers):
                assert label in by_name[base], (where, name, label)
