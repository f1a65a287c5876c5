"""What is SQLite's alone: its file, its history, its sessions that end with the process."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.cluster.metadata import (
    Change,
    Changes,
    Committed,
    Put,
    Revision,
    Unknown,
)
from goqueue.cluster.sqlite_core import HistoryLimits
from goqueue.cluster.sqlite_file import APPLICATION_ID, FORMAT_VERSION
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.model.errors import (
    CorruptMetadataError,
    DiskFullError,
    ForeignFileError,
    MetadataCompactedError,
    MetadataUnavailableError,
    UnsupportedFormatError,
)
from goqueue.runtime.disk import SystemDisk
from support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

TTL_MS = 60_000


@asynccontextmanager
async def opened(
    folder: Path, clock: ManualClock | None = None, history: HistoryLimits | None = None
) -> AsyncIterator[SqliteMetadataStore]:
    store = await SqliteMetadataStore.open(
        folder / "metadata.db", disk=SystemDisk(), clock=clock or ManualClock(), history=history
    )
    try:
        yield store
    finally:
        await store.close()


async def take(watch: AsyncIterator[Changes], count: int) -> list[Changes]:
    return [await anext(watch) for _ in range(count)]


@contextmanager
def files_at_most(size_bytes: int) -> Iterator[None]:
    """The kernel refuses to let this process write any file past so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --- history and sessions


@pytest.mark.parametrize(
    "limits", [HistoryLimits(revisions=100), HistoryLimits(size_bytes=1000)], ids=["count", "bytes"]
)
def test_old_changes_are_forgotten_and_whoever_asks_for_them_is_told(
    memory_folder: Path, limits: HistoryLimits
) -> None:
    async def scenario() -> None:
        async with opened(memory_folder, history=limits) as store:
            for number in range(500):
                await store.transact([], [Put("k", b"%03d" % number)])
            oldest = (await store.status()).oldest_watchable
            assert 0 < 500 - oldest <= 250
            with pytest.raises(MetadataCompactedError) as caught:
                await anext(store.watch("", Revision(oldest - 1)))
            assert caught.value.oldest == oldest
            seen = await take(store.watch("", oldest), 500 - oldest)
            assert [changes.revision for changes in seen] == list(range(oldest + 1, 501))
        async with opened(memory_folder, history=limits) as store:
            await store.transact([], [Put("k", b"500")])  # one more does not forget one more
            assert (await store.status()).oldest_watchable == oldest

    asyncio.run(scenario())


def test_the_keys_of_a_session_go_together_when_its_deadline_passes(memory_folder: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with opened(memory_folder, clock) as store:
            session = await store.open_session(TTL_MS)
            await store.transact([], [Put("n/1", b"", session), Put("n/2", b"", session)])
            await store.transact([], [Put("n/3", b"stays")])
            clock.advance(TTL_MS - 1)
            await store.end_lapsed_sessions()
            assert len((await store.range("n/")).entries) == 3
            clock.advance(1)
            await store.end_lapsed_sessions()
            assert [entry.key for entry in (await store.range("n/")).entries] == ["n/3"]
            (changes,) = await take(store.watch("n/", Revision(2)), 1)
            assert changes.changes == (Change("n/1", None), Change("n/2", None))

    asyncio.run(scenario())


def test_a_lapsed_session_is_tidied_up_without_being_asked(memory_folder: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with opened(memory_folder, clock) as store:
            session = await store.open_session(TTL_MS)
            await store.transact([], [Put("n", b"", session)])
            clock.advance(TTL_MS - 1)
            store._arm()  # the timer is the loop's, which knows nothing of this test's clock
            clock.advance(1)
            (changes,) = await take(store.watch("n", Revision(1)), 1)
            assert changes.changes == (Change("n", None),)

    asyncio.run(scenario())


def test_keys_of_sessions_do_not_outlive_the_process(memory_folder: Path) -> None:
    async def scenario() -> None:
        async with opened(memory_folder) as store:
            session = await store.open_session(TTL_MS)
            await store.transact([], [Put("a", b"", session), Put("b", b"")])
        async with opened(memory_folder) as store:
            assert [entry.key for entry in (await store.range("")).entries] == ["b"]
            (changes,) = await take(store.watch("", Revision(1)), 1)
            assert changes == Changes(Revision(2), (Change("a", None),))

    asyncio.run(scenario())


# --- the file


def test_a_second_opener_is_told_that_the_file_is_in_use(memory_folder: Path) -> None:
    async def scenario() -> None:
        async with opened(memory_folder):
            with pytest.raises(MetadataUnavailableError, match="another process"):
                async with opened(memory_folder):
                    pass
        async with opened(memory_folder) as store:
            assert (await store.status()).revision == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("damage", ["header", "middle", "cut", "text"])
def test_a_damaged_file_is_refused_with_its_name_and_what_to_do(
    memory_folder: Path, damage: str
) -> None:
    path = memory_folder / "metadata.db"

    async def scenario() -> None:
        async with opened(memory_folder) as store:
            for number in range(500):
                await store.transact([], [Put(f"topics/{number:04}", b"x" * 100)])
        data = bytearray(path.read_bytes())
        if damage == "header":
            data[:16] = b"\0" * 16
        elif damage == "middle":
            data[5000:9000] = b"\xa5" * 4000
        elif damage == "cut":
            del data[len(data) // 2 :]
        else:
            data[:] = b"not a database, and longer than a header of one" * 100
        path.write_bytes(data)
        with pytest.raises(CorruptMetadataError, match="restore it"):
            async with opened(memory_folder):
                pass

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("application_id", "version", "error"),
    [
        (0, 0, ForeignFileError),
        (APPLICATION_ID, FORMAT_VERSION + 1, UnsupportedFormatError),
    ],
    ids=["of another program", "of a newer version"],
)
def test_a_database_that_is_not_ours_is_left_alone(
    memory_folder: Path, application_id: int, version: int, error: type[Exception]
) -> None:
    path = memory_folder / "metadata.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.execute(f"PRAGMA application_id = {application_id}")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = path.read_bytes()

    async def scenario() -> None:
        with pytest.raises(error):
            async with opened(memory_folder):
                pass

    asyncio.run(scenario())
    assert path.read_bytes() == before


def test_a_commit_that_the_disk_refused_is_unknown_and_stops_the_store(
    memory_folder: Path,
) -> None:
    async def scenario() -> None:
        async with opened(memory_folder) as store:
            await store.transact([], [Put("a", b"acknowledged")])
            log = memory_folder / "metadata.db-wal"
            with files_at_most(log.stat().st_size + 100):
                result = await store.transact([], [Put("a", b"token-7")])
            assert isinstance(result, Unknown)
            with pytest.raises(MetadataUnavailableError, match="open it again"):
                await store.get("a")
        async with opened(memory_folder) as store:
            entry = await store.get("a")
            assert entry is not None
            assert entry.value in {b"acknowledged", b"token-7"}
            assert (await store.status()).revision == entry.revision

    asyncio.run(scenario())


def test_a_full_disk_refuses_the_transaction_and_the_store_goes_on(memory_folder: Path) -> None:
    async def scenario() -> None:
        async with opened(memory_folder) as store:
            await store.transact([], [Put("a", b"1")])
            store._core._connection.execute("PRAGMA max_page_count = 20")
            with pytest.raises(DiskFullError):
                await store.transact([], [Put("big", b"x" * 500_000)])
            assert await store.get("big") is None
            store._core._connection.execute("PRAGMA max_page_count = 100000")
            result = await store.transact([], [Put("big", b"x" * 500_000)])
            assert result == Committed(Revision(2))

    asyncio.run(scenario())


class FullWhenItCommits:
    """A connection whose disk has no room for the log when a transaction wants to end."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement == "COMMIT":
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self.connection.execute(statement, *parameters)


def test_a_disk_that_fills_up_during_the_commit_is_no_reason_to_doubt(memory_folder: Path) -> None:
    async def scenario() -> None:
        async with opened(memory_folder) as store:
            real = store._core._connection
            vars(store._core)["_connection"] = FullWhenItCommits(real)
            with pytest.raises(DiskFullError):
                await store.transact([], [Put("a", b"1")])
            store._core._connection = real
            assert await store.get("a") is None
            assert await store.transact([], [Put("a", b"2")]) == Committed(Revision(1))

    asyncio.run(scenario())


def test_a_caller_that_gives_up_does_not_keep_watchers_from_the_change(memory_folder: Path) -> None:
    async def scenario() -> None:
        async with opened(memory_folder) as store:
            waiting = asyncio.ensure_future(take(store.watch("", Revision(0)), 1))
            await store.status()
            writing = asyncio.ensure_future(store.transact([], [Put("a", b"1")]))
            await asyncio.sleep(0)
            store._worker.submit(int).result()  # the write is through, the loop has not heard
            assert writing.cancel()
            ((change,),) = [changes.changes for changes in await waiting]
            assert change == Change("a", b"1")

    asyncio.run(scenario())
