"""Another commit of this project, built beside the checkout, to be measured against."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from benchmarks.harness import ROOT

if TYPE_CHECKING:
    from pathlib import Path

AGAINST: Final = os.environ.get("GOQUEUE_BENCH_AGAINST", "HEAD^")
"""The commit to compare with; the one before, if nothing is said."""
_FOLDER: Final = ROOT / "build" / "commits"


def commit_of(name: str) -> str:
    """The short id of a commit."""
    return _git("rev-parse", "--short", f"{name}^{{commit}}")


def checkout(name: str) -> Path:
    """The source of a commit with its compiled codec; made once and kept under `build/`."""
    folder = _FOLDER / commit_of(name)
    if not (folder / "setup.py").exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--force", "--detach", str(folder), name)
    if not list(folder.glob("src/goqueue/records/_native*.so")):
        build = [sys.executable, "setup.py", "build_ext", "--inplace"]
        subprocess.run(build, cwd=folder, check=True, capture_output=True)
    return with_bytecode(folder)


def with_bytecode(folder: Path) -> Path:
    """A source tree whose modules need not be compiled when a server starts."""
    compiled = [sys.executable, "-m", "compileall", "-q", "src/goqueue"]
    subprocess.run(compiled, cwd=folder, check=True)
    return folder


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()
