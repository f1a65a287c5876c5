"""Dashboards are what their source says, and hold together."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.promql import DASHBOARDS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

GRAFANA = ROOT / "deploy/grafana"
BUILT_IN = {"__rate_interval", "__range", "__all"}


def load(path: Path) -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return dashboard


def test_the_files_are_what_their_source_says() -> None:
    program = (
        "import json, generate;"
        "print(json.dumps({d.uid: generate.text_of(d) for d in generate.DASHBOARDS}))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=GRAFANA, capture_output=True, text=True, timeout=200, check=True
    )
    hint = "run: .venv/bin/python deploy/grafana/generate.py"
    found = {path.stem: path.read_text(encoding="utf-8") for path in DASHBOARDS}
    assert found == json.loads(done.stdout), hint


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_holds_together(path: Path) -> None:
    dashboard = load(path)
    assert dashboard["uid"] == path.stem
    assert len(dashboard["uid"]) <= 40  # more is refused by Grafana
    assert dashboard["schemaVersion"] >= 39
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert "datasource" in variables
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard["panels"])))
    assert used - BUILT_IN <= variables
    assert variables <= used | {"datasource"}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_panel_says_what_it_shows_and_in_which_unit(path: Path) -> None:
    for panel in load(path)["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] in {"${datasource}", "${tempo}"}
        assert panel["targets"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_do_not_overlap_and_fit(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in load(path)["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_grafana_is_told_where_dashboards_and_data_are() -> None:
    (source,) = (GRAFANA / "provisioning/datasources").glob("*.yml")
    kinds = [each["type"] for each in yaml.safe_load(source.read_text())["datasources"]]
    assert kinds == ["prometheus", "tempo"]
    (provider,) = (GRAFANA / "provisioning/dashboards").glob("*.yml")
    assert [each["type"] for each in yaml.safe_load(provider.read_text())["providers"]] == ["file"]
