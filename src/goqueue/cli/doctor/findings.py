"""What a check found, and what to do about it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """How bad it is. Only a failure changes the exit code."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


class Finding(NamedTuple):
    """The result of one check."""

    check: str
    level: Level
    found: str
    advice: str | None = None
    """What to do; none where all is well."""


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, found)


def warning(check: str, found: str, advice: str) -> Finding:
    """It works, or only a part is missing."""
    return Finding(check, Level.WARNING, found, advice)


def failure(check: str, found: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(check, Level.FAILURE, found, advice)
