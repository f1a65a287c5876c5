"""The file under a single node's metadata: opened, checked, and its errors made ours.

Durability is SQLite's: a write-ahead log synced at every commit (`synchronous=FULL`), so that a
committed transaction survives `kill -9` and a power cut. One process has the file at a time; the
lock is the kernel's and dies with its holder.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    CorruptMetadataError,
    DiskError,
    DiskFullError,
    DiskPermissionError,
    ForeignFileError,
    GoQueueError,
    MetadataUnavailableError,
    UnsupportedFormatError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.runtime.disk import Disk

FORMAT_VERSION: Final = 1
"""The layout of the tables below; a file with a higher one is refused."""

APPLICATION_ID: Final = 0x476F5175
"""In the header of the file: "GoQu". A database of somebody else's does not have it."""

_SCHEMA: Final = (
    """CREATE TABLE entries (
        key BLOB PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL, session INTEGER
    ) WITHOUT ROWID""",
    "CREATE INDEX entries_of_session ON entries (session) WHERE session IS NOT NULL",
    """CREATE TABLE history (
        revision INTEGER NOT NULL, key BLOB NOT NULL, value BLOB, PRIMARY KEY (revision, key)
    ) WITHOUT ROWID""",
    "CREATE TABLE marks (revision INTEGER NOT NULL, compacted INTEGER NOT NULL)",
    "INSERT INTO marks VALUES (0, 0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)


def open_database(path: Path, disk: Disk) -> sqlite3.Connection:
    """Open the file, or make it, and make sure that it is whole and ours."""
    disk.make_folder(path.parent)
    # SQLite would let everyone read it, and gives the files beside it the mode of this one.
    disk.open(path, create=True).close()
    connection = None
    try:
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        # Before journal_mode: taken in this order, no other process ever shares the log.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        fresh = _identify(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if fresh:
            _create(connection)
            disk.sync_folder(path.parent)
        _check(connection, path)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise translate(error, path) from error
    except GoQueueError:
        if connection is not None:
            connection.close()
        raise
    return connection


def translate(error: sqlite3.Error, path: Path) -> GoQueueError:
    """The error of ours that says what is wrong with the file and what to do."""
    # The lowest byte is the kind; the rest tells where inside SQLite it was noticed.
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if kind in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return _corrupt(path, str(error))
    if kind == sqlite3.SQLITE_BUSY:
        return MetadataUnavailableError(
            f"another process has {path} open: stop it first, or use another data folder"
        )
    if kind == sqlite3.SQLITE_FULL:
        return DiskFullError(f"no space left while writing {path}: free some space")
    if kind in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN}:
        return DiskPermissionError(
            f"not allowed: opening {path} for writing ({error}); the user running this process "
            "must be able to read and write the folder"
        )
    return DiskError(f"writing {path} failed: {error}")


def _identify(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is empty; raises unless it is empty or ours."""
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    (table_count,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application_id == 0 and table_count == 0:
        return True
    if application_id != APPLICATION_ID:
        raise ForeignFileError(f"{path} is a database of another program: move it away")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"{path} has format {version}, this version knows {FORMAT_VERSION}: run a newer one"
        )
    return False


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Walk the whole file once; it is small, and a lie found now is not served later."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _corrupt(path, verdict)
    revision, compacted = connection.execute("SELECT revision, compacted FROM marks").fetchone()
    (newest,) = connection.execute("SELECT max(revision) FROM entries").fetchone()
    if not 0 <= compacted <= revision or (newest or 0) > revision:
        raise _corrupt(path, f"keys at revision {newest}, the store at {revision}")


def _corrupt(path: Path, reason: str) -> CorruptMetadataError:
    return CorruptMetadataError(
        f"{path} is damaged ({reason}): restore it, with the files beside it that share its name, "
        "from a backup; the messages themselves are not in this file"
    )
