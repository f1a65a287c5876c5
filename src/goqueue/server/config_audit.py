"""The settings of the audit log."""

# ruff: noqa: FBT003 - the first argument of `setting` is its default

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.audit.settings import FileLimits
from goqueue.server.config_kinds import FilePath, Size, Switch, Whole
from goqueue.server.config_table import Section, setting

if TYPE_CHECKING:
    from pathlib import Path

_FILES: Final = FileLimits()


class AuditSection(Section):
    """Who did what; see the page on security."""

    enabled: bool | None = setting(
        None,
        Switch(),
        "Write an audit log. Not set: where clients have to log in.",
    )
    folder: Path | None = setting(
        None,
        FilePath("a folder, or a path where one can be made"),
        "The folder of its files. Not set: `audit` in the data folder.",
    )
    file_bytes: int = setting(
        _FILES.file_bytes,
        Size(64 * 1024, 1 << 40),
        "A new file is started at this size.",
        name="file_size",
    )
    kept_files: int = setting(
        _FILES.kept_files,
        Whole(2, 10_000),
        "Files that are retained; the oldest beyond it are deleted.",
    )
    topic: bool = setting(
        False, Switch(), "Publish the events to the internal topic `__audit`, too."
    )
    stderr: bool = setting(False, Switch(), "Print the events on standard error, too.")

    @property
    def limits(self) -> FileLimits:
        """How much is kept."""
        return FileLimits(self.file_bytes, self.kept_files)
