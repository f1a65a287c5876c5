"""How many files and connections the process may have open."""

from __future__ import annotations

import sys


def allow_many_files() -> int | None:
    """Raise the limit as far as the system allows; returns it, or None where there is none.

    The usual default of 1024 is less than a few hundred segments and a few hundred clients need,
    and a log that cannot open its next segment refuses appends.
    """
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - absent on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS says "no limit" and means another number
            return soft
    return hard
