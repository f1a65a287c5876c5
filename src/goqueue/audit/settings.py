"""How much of an audit log is kept."""

from __future__ import annotations

import msgspec


class FileLimits(msgspec.Struct, frozen=True):
    """How much is kept."""

    file_bytes: int = 64 << 20
    """A file that has reached it is continued in another."""
    kept_files: int = 20
    """The oldest beyond it are deleted."""
