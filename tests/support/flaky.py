"""Names the tests that failed among all others and pass alone, so that somebody fixes them.

`make test-again` runs those that failed last, one after the other. Whatever passes then depends on
time, order or load: it is counted in the output, and in the summary of a hosted workflow.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that hosted CI shows with a run."""


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not config.getoption("lf", default=False):
        return
    passed = sorted(each.nodeid for each in terminalreporter.getreports("passed"))
    title = f"{len(passed)} flaky: failed among all tests, passed alone"
    terminalreporter.section(title)
    for name in passed:
        terminalreporter.write_line(f"FLAKY {name}")
    if passed and (summary := os.environ.get(SUMMARY)):
        lines = [f"### {title}", "", *(f"- `{name}`" for name in passed), ""]
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write("\n".join(lines))
