"""What the three kinds of tables have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from goqueue.spark.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql.types import StructType

    from goqueue.spark.lake.address import LakeTable
    from goqueue.spark.lake.staging import DataFile, Staging


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file of a table, as it is now."""

    path: str
    """From the table's folder on."""
    size_bytes: int
    rows: int
    partition: dict[str, str | None]
    native: Any = None
    """What the table's library knows it by."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit does to a table, all of it or nothing."""

    schema: StructType
    """The table's columns from then on."""
    adds: Sequence[DataFile] = ()
    removes: Sequence[LiveFile] = ()
    is_rearranged: bool = False
    """The rows stay the same: files are merged."""
    series: str | None = None
    number: int = 0
    """The batch that counts from then on, if a series is named; it and those before, no more."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What a table's rows are."""

    schema: StructType
    partition_by: tuple[str, ...] = field(default=())


class Store(ABC):
    """One table. Who changes it holds its lock. The formats derive from this class."""

    staging: Staging
    data_folder: str
    """Where files go, from the table's folder on."""
    keeps_partition_columns: bool
    """Files have the partition columns, too."""

    def recover(self) -> None:  # noqa: B027 - most formats have nothing to recover
        """Finish what a writer that died has left half done; nothing where a commit is atomic."""

    @abstractmethod
    def columns(self) -> Columns | None:
        """None: there is no table yet."""

    @abstractmethod
    def create(self, columns: Columns) -> None:
        """Make an empty table."""

    @abstractmethod
    def last_number(self, series: str) -> int | None:
        """The last committed batch of a series."""

    @abstractmethod
    def files(self) -> list[LiveFile]:
        """The files of the table."""

    @abstractmethod
    def apply(self, change: Change) -> None:
        """Change the table, in one step that everybody sees or nobody."""

    def close(self) -> None:  # noqa: B027 - most formats keep nothing open
        """Close connections, if there are any."""


def check_there(table: LakeTable, change: Change, live: Iterable[LiveFile]) -> None:
    """Make sure that the files which are to go are still the table's.

    Others, who know nothing of our lock, may have merged them: their rows are elsewhere then, and
    would be there twice.

    Raises:
        LakeError: some are not.
    """
    gone = {each.path for each in change.removes} - {each.path for each in live}
    if gone:
        raise LakeError(
            f"{table}: others have replaced {len(gone)} files that were to be replaced, "
            f"{min(gone)} among them: nothing is committed"
        )


def lock_path(table: LakeTable) -> Path:
    """The file whose lock writers hold."""
    return table.own_folder / "lock"
