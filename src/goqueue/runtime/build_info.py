"""The commit and the time that this package was built from.

`setup.py` writes both into wheels and source distributions. A checkout is not built: its commit is
read from the repository, without starting git.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Final

from goqueue.model.tuples import NamedTuple

UNKNOWN: Final = "unknown"
_PACKAGE: Final = Path(__file__).parents[1]
_WRITTEN: Final = _PACKAGE / "build_info.json"
_CHECKOUT: Final = _PACKAGE.parents[1]


class BuildInfo(NamedTuple):
    """Where the installed code comes from."""

    commit: str
    """The full hash, or `unknown`."""
    built: str
    """When the package was built, in UTC; `checkout` where it runs from its sources."""


@cache
def build_info() -> BuildInfo:
    """What is installed here."""
    try:
        written = json.loads(_WRITTEN.read_text(encoding="utf-8"))
        return BuildInfo(str(written["commit"]), str(written["built"]))
    except (OSError, ValueError, LookupError):
        return BuildInfo(commit_of(_CHECKOUT), "checkout")


def commit_of(checkout: Path) -> str:
    """The commit that is checked out in a folder, or `unknown`."""
    try:
        git = _git_folder(checkout)
        head = _text(git / "HEAD")
        name = head.removeprefix("ref: ")
        if name == head:
            return head
        common = git / "commondir"
        shared = (git / _text(common)).resolve() if common.exists() else git
        loose = shared / name
        return _text(loose) if loose.exists() else _packed(shared, name)
    except OSError:
        return UNKNOWN


def _git_folder(checkout: Path) -> Path:
    """The repository's own folder; a linked work tree has a file that names it."""
    git = checkout / ".git"
    return git if git.is_dir() else checkout / _text(git).removeprefix("gitdir: ")


def _packed(shared: Path, name: str) -> str:
    for line in _text(shared / "packed-refs").splitlines():
        commit, _, ref = line.partition(" ")
        if ref == name:
            return commit
    return UNKNOWN


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()
