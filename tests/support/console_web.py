"""The console's source, and the npm packages that building and judging it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CONSOLE = Path(__file__).parents[2] / "src" / "goqueue" / "console"
WEB = CONSOLE / "web"


def find_npm() -> str:
    """Where npm is; a test without it is skipped, but in CI it fails."""
    found = shutil.which("npm")
    if found is None:
        reason = "npm is not installed (Debian: apt-get install npm)"
        pytest.fail(reason) if "CI" in os.environ else pytest.skip(reason)
    return found


def add_packages(copy: Path) -> Path:
    """Give a copy of the source the packages that its lock names (the tree's, if it has them)."""
    npm = find_npm()
    packages = copy / "node_modules"
    lock = WEB / "package-lock.json"
    installed = WEB / "node_modules" / ".package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        packages.symlink_to(WEB / "node_modules")
    else:
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(WEB / name, copy)
        subprocess.run([npm, "ci", "--silent"], cwd=copy, check=True, timeout=100)
    return packages
