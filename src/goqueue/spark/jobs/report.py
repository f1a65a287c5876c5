"""What a job tells whoever runs it: how far it is, and in the end what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None
Row: TypeAlias = Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with the same columns, under a title."""

    title: str
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class JobReport:
    """What a job did, for people as tables and for programs as JSON."""

    job: str
    summary: Row
    tables: Sequence[Table] = ()
    files: Sequence[str] = ()
    """What it wrote for people to look at, such as a plot."""
    warnings: Sequence[str] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """The report as `-o json` prints it."""
        return {
            "job": self.job,
            **self.summary,
            **{table.title.replace(" ", "_"): list(table.rows) for table in self.tables},
            "files": list(self.files),
            "warnings": list(self.warnings),
        }


class Progress(Protocol):
    """Is told how far a job is; the command line draws a bar of it."""

    def __call__(self, stage: str, done: int, total: int | None = None) -> None:
        """So much of a stage is done, of so much if that is known."""


def silent(stage: str, done: int, total: int | None = None) -> None:
    """For programs that do not want to know."""
