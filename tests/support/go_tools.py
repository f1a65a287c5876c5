"""Programs that are built with Go: helm renders the chart, k6 makes load."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

_FINDER: Final = Path(__file__).parents[2] / ".ci/go-tool"


def go_tool(name: str) -> str:
    """Where it is; a test without it is skipped."""
    found = subprocess.run(
        [_FINDER, "--find", name], capture_output=True, text=True, timeout=60, check=False
    )
    if found.returncode != 0:
        pytest.skip(f"{name} is not here: `.ci/go-tool {name}` builds it where Go is")
    return found.stdout.strip()
