"""Write the dashboards: `python deploy/grafana/generate.py`. A test holds the files to it."""
# ruff: noqa: INP001 - scripts beside what they write, not a package

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dashboards_groups import GROUPS, QUEUES
from dashboards_node import OVERVIEW, STORAGE
from dashboards_objectives import OBJECTIVES, TRANSACTIONS

if TYPE_CHECKING:
    from panels import Dashboard

FOLDER: Final = Path(__file__).parent / "dashboards"
DASHBOARDS: Final = (OVERVIEW, GROUPS, QUEUES, STORAGE, OBJECTIVES, TRANSACTIONS)


def text_of(dashboard: Dashboard) -> str:
    """The file of one dashboard."""
    return json.dumps(dashboard.to_json(), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every file."""
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.uid}.json").write_text(text_of(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
