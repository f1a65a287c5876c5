"""What the storage benchmarks fill logs with, and what a process holds while it has them open."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from benchmarks._turns import expect
from benchmarks.harness import peak_rss_bytes
from goqueue.records import Record, encode
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.log import Log

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from benchmarks.harness import Run

T = TypeVar("T")

KB: Final = 1024
MB: Final = 1024 * KB
GB: Final = 1024 * MB

MESSAGES: Final = 1_000_000
FIRST_TIMESTAMP_MS: Final = 1_700_000_000_000
VALUE_BYTES: Final = 100
_KEYED_A_BATCH: Final = 100
_RECORD_BYTES: Final = 108  # with its lengths and deltas, in a batch of a few hundred
_HEADER_BYTES: Final = 61
_PROC: Final = Path("/proc/self")


def batch_of(size_bytes: int) -> bytearray:
    """One batch of 100-byte messages, about as large as asked for, dated now.

    Retention would delete messages of another year within a minute, in the middle of a measurement.
    """
    count = messages_in(size_bytes)
    value, now_ms = os.urandom(VALUE_BYTES), time.time_ns() // 1_000_000
    return encode([Record(n, now_ms, None, value) for n in range(count)])


def messages_in(size_bytes: int) -> int:
    """How many messages such a batch has."""
    return max(1, round((size_bytes - _HEADER_BYTES) / _RECORD_BYTES))


def numbered_value(offset: int) -> bytes:
    """A value that says which message it is, so that a reader can check what it got."""
    return b"%0*d" % (VALUE_BYTES, offset)


def numbered_batch(first: int, count: int) -> bytearray:
    """Messages that carry their own offset and are a millisecond apart."""
    return encode(
        [
            Record(n, FIRST_TIMESTAMP_MS + n, None, numbered_value(n))
            for n in range(first, first + count)
        ]
    )


def million(run: Run, per_batch: int) -> Log:
    """A million messages that say which they are, on the disk."""
    log = Log(run.scratch / f"log-{per_batch}", LogConfig(fsync=Fsync.NEVER))
    for first in run.progress(range(0, MESSAGES, per_batch), f"{per_batch} a batch: fill"):
        log.append(numbered_batch(first, per_batch))
    log.flush(checkpoint=True)
    expect(log.end_offset == MESSAGES, "messages are missing")
    return log


def keyed_million(run: Run, keys: int, segment_bytes: int, name: str) -> Log:
    """A million records, all in sealed segments, that write each of `keys` equally often."""
    config = LogConfig(fsync=Fsync.NEVER, segment_bytes=segment_bytes)
    log = Log(run.scratch / name.replace(" ", "-"), config)
    for first in run.progress(range(0, MESSAGES, _KEYED_A_BATCH), f"{name}: fill"):
        log.append(
            encode(
                [
                    Record(n, FIRST_TIMESTAMP_MS + n, b"key %d" % (n % keys), numbered_value(n))
                    for n in range(first, first + _KEYED_A_BATCH)
                ]
            )
        )
    log.store.roll()
    log.flush(checkpoint=True)
    return log


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on the event loop that a broker would use."""
    try:
        import uvloop  # noqa: PLC0415 - not everywhere
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


# --- What a process holds ----------------------------------------------------------------------


def own_memory_bytes() -> int:
    """Memory that is this process's alone; pages that the kernel holds for files are not in it."""
    status = _PROC / "status"
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * KB
    return peak_rss_bytes()


def open_files() -> int:
    """How many descriptors this process has open."""
    folder = _PROC / "fd" if _PROC.exists() else Path("/dev/fd")
    return sum(1 for _ in folder.iterdir())
