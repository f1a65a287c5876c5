"""A metadata transaction that was acknowledged survives `kill -9`, at whatever moment it comes.

The child commits transactions one after another, each over two keys, and prints the number of each
only when the store has answered. The parent kills it while it writes, opens the file and looks.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.cluster.metadata import ABSENT, Committed, Condition, Put, Revision
from goqueue.cluster.sqlite_core import HistoryLimits
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.model.errors import MetadataUnavailableError
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk

HISTORY = HistoryLimits(revisions=50)


async def open_store(path: Path) -> SqliteMetadataStore:
    return await SqliteMetadataStore.open(
        path, disk=SystemDisk(), clock=SystemClock(), history=HISTORY
    )


async def write_for_ever(path: Path) -> None:
    store = await open_store(path)
    session = await store.open_session(60_000)
    await store.transact([], [Put("alive", b"", session)])
    entry = await store.get("count")
    number, last = (0, ABSENT) if entry is None else (int(entry.value), entry.revision)
    while True:
        number += 1
        value = b"%d" % number
        result = await store.transact(
            [Condition("count", last)], [Put("count", value), Put(f"log/{number:06}", value)]
        )
        assert isinstance(result, Committed)
        last = result.revision
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


async def judge(path: Path, acknowledged: int) -> int:
    """Open what the dead process left and hold it against what it had acknowledged."""
    store = await open_store(path)
    try:
        entry = await store.get("count")
        stored = 0 if entry is None else int(entry.value)
        assert acknowledged <= stored <= acknowledged + 1
        log = (await store.range("log/")).entries
        assert [int(item.value) for item in log] == list(range(1, stored + 1))
        assert await store.get("alive") is None
        status = await store.status()
        watch = store.watch("", status.oldest_watchable)
        seen = [await anext(watch) for _ in range(status.revision - status.oldest_watchable)]
        expected = range(status.oldest_watchable + 1, status.revision + 1)
        assert [changes.revision for changes in seen] == [Revision(r) for r in expected]
    finally:
        await store.close()
    return stored


def run_and_kill(path: Path, wanted: int, delay_s: float) -> int:
    """How many transactions the child had acknowledged when it was killed."""
    with subprocess.Popen(
        [sys.executable, __file__, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        first = [child.stdout.readline() for _ in range(wanted)]
        assert all(first), "the child ended by itself"
        try:
            child.wait(timeout=delay_s)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
    assert child.returncode == -signal.SIGKILL
    complete = ("".join(first) + rest).split("\n")[:-1]
    return int(complete[-1])


def test_acknowledged_metadata_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    chance = random.Random(20240607)
    stored = 0
    for _ in range(6):
        acknowledged = run_and_kill(path, chance.randint(1, 60), chance.uniform(0.0, 0.03))
        assert acknowledged > stored
        stored = asyncio.run(judge(path, acknowledged))


def test_a_living_process_keeps_others_out_and_a_dead_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with subprocess.Popen(
        [sys.executable, __file__, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "1\n"
        with pytest.raises(MetadataUnavailableError, match="another process"):
            asyncio.run(open_store(path))
        child.kill()
        acknowledged = len(child.stdout.read().split("\n")[:-1]) + 1
    asyncio.run(judge(path, acknowledged))


if __name__ == "__main__":
    asyncio.run(write_for_ever(Path(sys.argv[1])))
