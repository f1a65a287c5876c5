"""The metadata of one node as tables: every call runs in the one thread that owns the connection.

`entries` holds the keys as they are, `history` what each recent revision did. Watchers read the
history, so a slow one needs no queue of its own: it lags, and past the bound of the history
it is told to start over.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from goqueue.cluster.metadata import (
    ABSENT,
    Change,
    Changes,
    Committed,
    Condition,
    Conflict,
    Delete,
    Entry,
    Operation,
    Put,
    Revision,
    SessionId,
    Snapshot,
    TransactionResult,
    Unknown,
    encode_key,
)
from goqueue.cluster.sqlite_file import open_database, translate
from goqueue.model.errors import DiskFullError, MetadataCompactedError, MetadataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from goqueue.runtime.disk import Disk

_T = TypeVar("_T")

PAGE_CHANGES: Final = 1000
"""A watcher reads about this many changes at a time, and always whole transactions."""

_ROW_BYTES: Final = "length(key) + ifnull(length(value), 0)"


class HistoryLimits(msgspec.Struct, frozen=True):
    """How much a watcher may lie behind; beyond either bound the oldest quarter is forgotten."""

    revisions: int = 10_000
    size_bytes: int = 16 * 1024 * 1024


class Page(msgspec.Struct, frozen=True):
    """Some changes, and the revision up to which there are no others."""

    changes: tuple[Changes, ...]
    revision: Revision
    complete: bool


class _Marks(msgspec.Struct, frozen=True):
    """The store's own counters; `compacted <= revision`, and both only grow.

    `revision` moves with every transaction that changes something. `compacted` is the newest
    revision whose changes are forgotten; it moves when the history is over a bound.
    """

    revision: Revision
    compacted: Revision
    history_bytes: int


class SqliteCore:
    """Reads and transactions on the tables."""

    def __init__(self, path: Path, disk: Disk, limits: HistoryLimits) -> None:
        self._path = path
        self._limits = limits
        self._failure: str | None = None
        self._connection = open_database(path, disk)
        revision, compacted = self._one("SELECT revision, compacted FROM marks")
        (size,) = self._one(f"SELECT ifnull(sum({_ROW_BYTES}), 0) FROM history")  # noqa: S608 - a constant of this file
        self._marks = _Marks(Revision(revision), Revision(compacted), size)

    # --- reading

    def get(self, key: str) -> Entry | None:
        """One key."""
        return self._read(lambda: self._entry(key))

    def range(self, prefix: str) -> Snapshot:
        """The keys under a prefix, sorted."""
        low, high = _bounds(prefix)

        def read() -> Snapshot:
            rows = self._connection.execute(
                "SELECT key, value, revision, session FROM entries"
                " WHERE key >= ? AND key < ? ORDER BY key",
                (low, high),
            )
            return Snapshot(tuple(_entry_of(row) for row in rows), self._marks.revision)

        return self._read(read)

    def changes(self, prefix: str, after: Revision) -> Page:
        """The next page of what happened under a prefix after a revision."""
        return self._read(lambda: self._changes(prefix, after))

    def measure(self) -> tuple[Revision, Revision, int]:
        """Revision, oldest watchable revision, bytes in use."""

        def read() -> tuple[Revision, Revision, int]:
            (pages,) = self._one("PRAGMA page_count")
            (page_bytes,) = self._one("PRAGMA page_size")
            return self._marks.revision, self._marks.compacted, pages * page_bytes

        return self._read(read)

    # --- changing

    def transact(
        self, conditions: Sequence[Condition], operations: Sequence[Operation]
    ) -> TransactionResult:
        """Check and do, or do nothing."""

        def attempt() -> Conflict | Sequence[Operation]:
            current = {condition.key: self._entry(condition.key) for condition in conditions}
            if any(_revision_of(current[item.key]) != item.revision for item in conditions):
                return Conflict(current)
            return operations

        return self._write(attempt)

    def end_session(self, session: SessionId) -> TransactionResult:
        """Remove the keys that are bound to a session."""
        return self._delete_where("session = ?", (session,))

    def end_all_sessions(self) -> TransactionResult:
        """Remove every key that is bound to a session; on opening, none has a living owner."""
        return self._delete_where("session IS NOT NULL", ())

    def close(self) -> None:
        """Fold the write-ahead log into the file and close it."""
        self._connection.close()
        self._failure = "it was closed"

    # --- inside

    def _read(self, read: Callable[[], _T]) -> _T:
        """Run a read with the errors of SQLite made ours."""
        self._require_open()
        try:
            return read()
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    def _write(self, attempt: Callable[[], Conflict | Sequence[Operation]]) -> TransactionResult:
        """One transaction. Past the line that commits, what it did is durable and may be told."""
        self._require_open()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            plan = attempt()
            marks = self._marks if isinstance(plan, Conflict) else self._apply(plan)
            if marks is self._marks:
                self._connection.execute("ROLLBACK")
                return plan if isinstance(plan, Conflict) else Committed(marks.revision)
        except sqlite3.Error as error:
            self._roll_back()
            raise translate(error, self._path) from error
        failure = self._commit()
        if failure is not None:
            return Unknown(failure)
        self._marks = marks
        return Committed(marks.revision)

    def _commit(self) -> str | None:
        """Make the transaction durable, or say why nobody can tell whether it is.

        A full disk is not such a case: the write stopped before the part that commits.
        """
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            translated = translate(error, self._path)
            if isinstance(translated, DiskFullError):
                raise translated from error
            self._failure = f"a commit failed: {error}"
            return str(translated)
        return None

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._failure = f"a transaction could not be rolled back: {error}"

    def _apply(self, operations: Sequence[Operation]) -> _Marks:
        """Write keys and history inside the open transaction; the marks that it would lead to."""
        revision = Revision(self._marks.revision + 1)
        size = self._marks.history_bytes
        changed = False
        for operation in operations:
            key = encode_key(operation.key)
            value = operation.value if isinstance(operation, Put) else None
            if isinstance(operation, Put):
                self._connection.execute(
                    "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)",
                    (key, operation.value, revision, operation.session),
                )
            elif not self._connection.execute("DELETE FROM entries WHERE key = ?", (key,)).rowcount:
                continue
            self._connection.execute("INSERT INTO history VALUES (?, ?, ?)", (revision, key, value))
            size += len(key) + len(value or b"")
            changed = True
        if not changed:
            return self._marks
        marks = self._trim(_Marks(revision, self._marks.compacted, size))
        self._connection.execute(
            "UPDATE marks SET revision = ?, compacted = ?", (marks.revision, marks.compacted)
        )
        return marks

    def _trim(self, marks: _Marks) -> _Marks:
        """Forget the oldest quarter of the history when it is over one of its bounds."""
        floor = marks.compacted
        if marks.revision - floor > self._limits.revisions:
            floor = Revision(marks.revision - self._limits.revisions * 3 // 4)
        if marks.history_bytes > self._limits.size_bytes:
            floor = max(floor, self._floor_by_size())
        if floor == marks.compacted:
            return marks
        (freed,) = self._one(
            f"SELECT ifnull(sum({_ROW_BYTES}), 0) FROM history WHERE revision <= ?",  # noqa: S608 - a constant of this file
            floor,
        )
        self._connection.execute("DELETE FROM history WHERE revision <= ?", (floor,))
        return _Marks(marks.revision, floor, marks.history_bytes - freed)

    def _floor_by_size(self) -> Revision:
        kept = 0
        rows = self._connection.execute(
            f"SELECT revision, {_ROW_BYTES} FROM history ORDER BY revision DESC"  # noqa: S608 - a constant of this file
        )
        for revision, size in rows:
            kept += size
            if kept > self._limits.size_bytes * 3 // 4:
                return Revision(revision)
        return self._marks.compacted

    def _delete_where(self, condition: str, parameters: tuple[int, ...]) -> TransactionResult:
        def attempt() -> Sequence[Operation]:
            rows = self._connection.execute(
                f"SELECT key FROM entries WHERE {condition} ORDER BY key",  # noqa: S608 - ours
                parameters,
            )
            return [Delete(key.decode()) for (key,) in rows]

        return self._write(attempt)

    def _changes(self, prefix: str, after: Revision) -> Page:
        if after < self._marks.compacted:
            raise MetadataCompactedError(after, self._marks.compacted)
        low, high = _bounds(prefix)
        rows = self._connection.execute(
            "SELECT revision, key, value FROM history"
            " WHERE revision > ? AND key >= ? AND key < ? ORDER BY revision, key",
            (after, low, high),
        )
        grouped: dict[Revision, list[Change]] = {}
        for count, (revision, key, value) in enumerate(rows):
            if count >= PAGE_CHANGES and revision not in grouped:
                return Page(_changes_of(grouped), max(grouped), complete=False)
            grouped.setdefault(revision, []).append(Change(key.decode(), value))
        return Page(_changes_of(grouped), max(after, self._marks.revision), complete=True)

    def _entry(self, key: str) -> Entry | None:
        row = self._connection.execute(
            "SELECT key, value, revision, session FROM entries WHERE key = ?", (encode_key(key),)
        ).fetchone()
        return None if row is None else _entry_of(row)

    def _one(self, query: str, *parameters: int) -> tuple[int, ...]:
        row: tuple[int, ...] = self._connection.execute(query, parameters).fetchone()
        return row

    def _require_open(self) -> None:
        if self._failure is not None:
            raise MetadataUnavailableError(
                f"the metadata in {self._path} cannot be used, {self._failure}: open it again"
            )


def _entry_of(row: tuple[bytes, bytes, int, int | None]) -> Entry:
    key, value, revision, session = row
    bound = None if session is None else SessionId(session)
    return Entry(key.decode(), value, Revision(revision), bound)


def _revision_of(entry: Entry | None) -> Revision:
    return ABSENT if entry is None else entry.revision


def _changes_of(grouped: dict[Revision, list[Change]]) -> tuple[Changes, ...]:
    return tuple(Changes(revision, tuple(changes)) for revision, changes in grouped.items())


def _bounds(prefix: str) -> tuple[bytes, bytes]:
    """The half-open range of keys under a prefix; no UTF-8 ends in 0xff, so one can be added."""
    if not prefix:
        return b"", b"\xff"
    low = encode_key(prefix)
    return low, low[:-1] + bytes([low[-1] + 1])
