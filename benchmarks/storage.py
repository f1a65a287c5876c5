"""The log of one partition, against what the operating system does with the same bytes."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import shutil
import time
import tracemalloc
from functools import partial
from statistics import median
from typing import Final

from benchmarks._killed import KilledLog, append_and_kill
from benchmarks._logs import (
    FIRST_TIMESTAMP_MS,
    GB,
    KB,
    MB,
    MESSAGES,
    batch_of,
    keyed_million,
    million,
    open_files,
    own_memory_bytes,
    run_loop,
)
from benchmarks._reads import look_up, look_up_cold, newest, pread_all, read_all, read_one
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark, peak_rss_bytes, reset_peak_rss, timed
from goqueue.storage.compaction.compaction import compact
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.flushing.flusher import Flusher
from goqueue.storage.log import Log

# --- Append ------------------------------------------------------------------------------------

SIZES: Final = {"1 KB": KB, "16 KB": 16 * KB, "64 KB": 64 * KB, "1 MB": MB}
TURNS: Final = 16
TURN_BYTES: Final = 32 * MB  # every second turn rolls to a new segment
TURN_APPENDS: Final = 8000
INTERVAL_MS: Final = 20  # the default is 1000: a turn would end before the first sync
APPENDS_A_BREATH: Final = 16
ALONE: Final = "append alone"
CHECKED: Final = "never, checked before"
WAYS: Final = {
    ALONE: Fsync.NEVER,
    CHECKED: Fsync.NEVER,
    Fsync.NEVER.value: Fsync.NEVER,
    Fsync.INTERVAL.value: Fsync.INTERVAL,
}
SYNCED_APPENDS: Final = 150


@benchmark("append", "Append batches, by size and fsync policy, against os.write of the same bytes")
def append(run: Run) -> None:
    for name, size in SIZES.items():
        batch = batch_of(size)
        count = min(TURN_APPENDS, TURN_BYTES // len(batch))
        turns = run_loop(_append_in_turns(run, name, batch, count))
        turns.report_rates(run, name, count * len(batch), "B/s")
    run.note(
        f"{TURNS} turns of up to {TURN_BYTES // MB} MB each way; time is until the last append is "
        f"acknowledged; interval is {INTERVAL_MS} ms here, so that a turn has a sync in it"
    )
    run.note(
        "append alone: without a flusher, so that nothing is synced, not even a sealed segment: "
        "the price of the path itself"
    )
    run.note(
        "checked before: as the broker appends, which has validated the checksum when it admitted "
        "the batch; the other ways validate it in the append"
    )


async def _append_in_turns(run: Run, name: str, batch: bytearray, count: int) -> Turns:
    turns = Turns(plain="os.write")
    logs = {
        way: Log(run.scratch / way, LogConfig(fsync=policy, fsync_interval_ms=INTERVAL_MS))
        for way, policy in WAYS.items()
    }
    for log in logs.values():
        log.append(batch)  # the first one also stores the leader's epoch
    plain = os.open(run.scratch / "plain", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for _ in run.progress(TURNS, f"append {name}"):
        with timed() as watch:
            for _ in range(count):
                os.write(plain, batch)
        turns.add("os.write", watch.seconds)
        turns.add(ALONE, _append_alone(logs[ALONE], batch, count))
        turns.add(CHECKED, await _append_and_settle(logs[CHECKED], batch, count, checked=True))
        for way in (Fsync.NEVER, Fsync.INTERVAL):
            turns.add(way, await _append_and_settle(logs[way], batch, count))
    written = TURNS * count * len(batch)
    expect(os.fstat(plain).st_size == written, "plain bytes are missing")
    os.close(plain)
    for log in logs.values():
        expect(log.size_bytes == written + len(batch), "appended bytes are missing")
        log.delete()
    return turns


def _append_alone(log: Log, batch: bytearray, count: int) -> float:
    with timed() as watch:
        for _ in range(count):
            log.append(batch)
    return watch.seconds


async def _append_and_settle(
    log: Log, batch: bytearray, count: int, *, checked: bool = False
) -> float:
    """The seconds of so many appends; what runs behind them has ended on return."""
    flusher = Flusher(log)
    with timed() as watch:
        for number in range(count):
            await flusher.durable(log.append(batch, checked=checked).end_offset)
            if number % APPENDS_A_BREATH == 0:
                await asyncio.sleep(0)  # a broker goes back to its sockets
    await flusher.stop()
    return watch.seconds


@benchmark("append_synced", "One appender that waits for the disk, against os.write and fdatasync")
def append_synced(run: Run) -> None:
    for name, size in SIZES.items():
        turns = run_loop(_append_synced(run, name, batch_of(size)))
        turns.report_rates(run, name, 1, "appends/s")
    run.note(f"{SYNCED_APPENDS} appends each way, one of each in turn")


async def _append_synced(run: Run, name: str, batch: bytearray) -> Turns:
    turns = Turns(plain="os.write + fdatasync")
    log = Log(run.scratch / "log", LogConfig(fsync=Fsync.ALWAYS))
    flusher = Flusher(log)
    await flusher.durable(log.append(batch).end_offset)
    plain = os.open(run.scratch / "plain", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for _ in run.progress(SYNCED_APPENDS, f"append and wait {name}"):
        with timed() as watch:
            os.write(plain, batch)
            os.fdatasync(plain)
        turns.add("os.write + fdatasync", watch.seconds)
        with timed() as watch:
            await flusher.durable(log.append(batch).end_offset)
        turns.add("always", watch.seconds)
    os.close(plain)
    expect(log.flushed_offset == log.end_offset, "an acknowledged append is not on the disk")
    log.delete()
    return turns


# --- Group commit ------------------------------------------------------------------------------

APPENDERS: Final = 64
COMMIT_TURNS: Final = 9
APPENDS_OF_ONE: Final = 200
APPENDS_OF_EACH: Final = 40


@benchmark("group_commit", "Appends that wait for the disk: one appender, and 64 at a time")
def group_commit(run: Run) -> None:
    batch = batch_of(KB)
    log = Log(run.scratch / "log", LogConfig(fsync=Fsync.ALWAYS))
    log.append(batch)
    log.flush()
    turns, shared = Turns(plain="1 appender"), []
    for _ in run.progress(COMMIT_TURNS, "group commit"):
        turns.add("1 appender", run_loop(_commit(log, batch, 1, APPENDS_OF_ONE)))
        syncs = log.stats.syncs
        many = f"{APPENDERS} appenders"
        turns.add(many, run_loop(_commit(log, batch, APPENDERS, APPENDS_OF_EACH)))
        shared.append(APPENDERS * APPENDS_OF_EACH / (log.stats.syncs - syncs))
    total = 1 + COMMIT_TURNS * (APPENDS_OF_ONE + APPENDERS * APPENDS_OF_EACH)
    expect(log.size_bytes == total * len(batch), "appends are missing")
    expect(log.flushed_offset == log.end_offset, "an acknowledged append is not on the disk")
    turns.report_rates(run, "1 KB", 1, "appends/s")
    run.row("appends that shared a sync", median(shared), "appends")
    run.note(f"{COMMIT_TURNS} turns; each appender waits for its append before the next one")
    log.close()


async def _commit(log: Log, batch: bytearray, appenders: int, each: int) -> float:
    """The seconds an acknowledged append takes when so many appenders are at it."""
    flusher = Flusher(log)
    await asyncio.to_thread(time.monotonic)  # the loop starts its first thread here

    async def appender() -> None:
        for _ in range(each):
            await flusher.durable(log.append(batch).end_offset)

    with timed() as watch:
        await asyncio.gather(*(appender() for _ in range(appenders)))
    return watch.seconds / (appenders * each)


# --- Read --------------------------------------------------------------------------------------

PER_BATCH: Final = (10, 500)
LOOKUPS: Final = 4000
COLD_LOOKUPS: Final = 200
READ_TURNS: Final = 7
STEP: Final = 50


@benchmark("lookup", "Find and read one message of a million, by offset and by time")
def lookup(run: Run) -> None:
    for per_batch in PER_BATCH:
        log = million(run, per_batch)
        warm, cold = Turns(plain="pread"), Turns(plain="pread")
        places = random.Random(per_batch)
        for _ in run.progress(LOOKUPS // STEP, f"{per_batch} a batch: look up"):
            for _ in range(STEP):
                look_up(log, places.randrange(MESSAGES), warm)
        for _ in run.progress(COLD_LOOKUPS // STEP, f"{per_batch} a batch: look up, cold"):
            for _ in range(STEP):
                look_up_cold(log, places.randrange(MESSAGES), cold)
        warm.report_latencies(run, f"{per_batch} a batch,")
        cold.report_latencies(run, f"{per_batch} a batch, cold,")
        log.delete()
    run.note("pread: of the batch alone, where it is already known to lie")
    run.note("cold: the page cache forgets the segments before each read")


@benchmark("sequential", "Read a million messages from end to end, against pread of the same bytes")
def sequential(run: Run) -> None:
    for per_batch in PER_BATCH:
        log = million(run, per_batch)
        turns = Turns(plain="pread")
        for _ in run.progress(READ_TURNS, f"{per_batch} a batch: read all"):
            read = turns.call("pread", partial(pread_all, log))
            same = turns.call("log", partial(read_all, log))
            expect(read == same == log.size_bytes, "bytes are missing")
        turns.report_rates(run, f"{per_batch} a batch,", log.size_bytes, "B/s")
        log.delete()
    run.note(f"1 MB at a time from the page cache, {READ_TURNS} turns; the log checks checksums")


# --- A large log -------------------------------------------------------------------------------

LARGE_BYTES: Final = 10 * GB
SMALL_BYTES: Final = 100 * MB
SPARE_BYTES: Final = 2 * GB
OPENINGS: Final = 7


@benchmark("large", "A log of 10 GB: killed in the middle of appends, recovered, read; and memory")
def large(run: Run) -> None:
    small = _large(run, "100 MB", SMALL_BYTES)
    large_bytes = _that_fits(run, LARGE_BYTES)
    big = _large(run, f"{large_bytes / GB:.3g} GB", large_bytes)
    scanned = _open_in_turns(run, small, big, "after a kill")
    expect(all(scanned), "a log had been stopped, not killed")
    run.row(f"scanned of {small.name}", scanned[0] / MB, "MB")
    run.row(
        f"scanned of {big.name}",
        scanned[1] / MB,
        "MB",
        scanned[1] / scanned[0],
        f"scanned of {small.name}",
    )
    for each in (small, big):
        Log(each.folder).close()
        each.keep_tail()
    scanned = _open_in_turns(run, small, big, "after a clean stop")
    expect(not any(scanned), "a log had been killed, not stopped")
    _report_memory(run, big)
    run.note("filled at the speed of the disk, with 64 KB batches and never; killed by SIGKILL")
    run.note("opening looks at the size of each segment: a clean stop leaves nothing else to do")


def _large(run: Run, name: str, size_bytes: int) -> KilledLog:
    """A log that is killed about half-way through a segment, whatever its size."""
    bar = run.progress(size_bytes // LogConfig().segment_bytes + 2, f"{name}: append and kill")
    next(bar)
    killed = append_and_kill(name, run.scratch, size_bytes, lambda: next(bar, None))
    for _ in bar:
        pass  # to its end, so that it is taken off the screen
    return killed


def _that_fits(run: Run, wanted: int) -> int:
    free = shutil.disk_usage(run.scratch).free - SPARE_BYTES
    if free >= wanted:
        return wanted
    run.note(f"the disk has {free / GB:.1f} GB to spare: the large log is no larger than that")
    expect(free > 4 * SMALL_BYTES, "there is not enough disk space for a large log")
    return free


def _open_in_turns(run: Run, small: KilledLog, big: KilledLog, when: str) -> list[int]:
    """Open both a few times in turn, as they were found; returns how much each had to scan."""
    turns = Turns(plain=small.name)
    scanned = [0, 0]
    for _ in run.progress(OPENINGS, f"open {when}"):
        for number, each in enumerate((small, big)):
            each.restore_tail()
            log = turns.call(each.name, partial(Log, each.folder))
            expect(log.end_offset >= each.last.end_offset, "an acknowledged append is missing")
            scanned[number] = log.recovery.scanned_bytes
    label = f"open {small.name} {when}"
    run.row(label, turns.seconds(small.name) * 1000, "ms")
    slower = turns.times_slower(big.name)
    run.row(f"open {big.name} {when}", turns.seconds(big.name) * 1000, "ms", slower, label)
    return scanned


def _report_memory(run: Run, big: KilledLog) -> None:
    first, last = big.first, big.last
    log = Log(big.folder)
    segments = len(log.segments)
    chunks = log.chunks(0, max_bytes=MB)
    read = len(next(chunks).data)  # the first one also warms up what every reader shares
    gc.collect()
    reset_peak_rss()
    files, memory, peak = open_files(), own_memory_bytes(), peak_rss_bytes()
    with timed() as watch:
        for chunk in run.progress(chunks, f"read {big.name}"):
            read += len(chunk.data)
    expect(read == log.size_bytes, "bytes are missing")
    run.row(f"read {big.name}", read / watch.seconds, "B/s")
    run.row(
        "own memory: growth while appending", (last.memory_bytes - first.memory_bytes) / KB, "KB"
    )
    run.row("own memory: growth while reading", (own_memory_bytes() - memory) / KB, "KB")
    run.row("peak with mapped files: growth while reading", (peak_rss_bytes() - peak) / KB, "KB")
    run.row(
        "descriptors a segment, appended", (last.open_files - first.open_files) / segments, "files"
    )
    run.row("descriptors a segment, read", (open_files() - files) / segments, "files")


# --- An idle log -------------------------------------------------------------------------------

IDLE_LOGS: Final = 200


@benchmark("idle", "What an open log costs that nobody uses, and one that was used")
def idle(run: Run) -> None:
    batch = batch_of(KB)
    folders = [run.scratch / f"log-{number}" for number in range(IDLE_LOGS)]
    for folder in run.progress(folders, "make logs"):
        log = Log(folder)
        log.append(batch)
        log.close()
    with timed() as watch:
        logs = [Log(folder) for folder in folders]
    del logs
    gc.collect()
    files = open_files()
    tracemalloc.start()
    logs = [Log(folder) for folder in folders]
    idle_memory, idle_files = tracemalloc.get_traced_memory()[0], open_files() - files
    for log in logs:
        log.append(batch)
        read_one(log, 0)
    used_memory, used_files = tracemalloc.get_traced_memory()[0], open_files() - files
    tracemalloc.stop()
    per_log = "memory of an idle log"
    run.row("open a log", watch.seconds / IDLE_LOGS * 1000, "ms")
    run.row(per_log, idle_memory / IDLE_LOGS, "B")
    run.row(
        "memory of a log that was written and read",
        used_memory / IDLE_LOGS,
        "B",
        used_memory / idle_memory,
        per_log,
    )
    run.row("descriptors of an idle log", idle_files / IDLE_LOGS, "files")
    run.row("descriptors of a log that was written and read", used_files / IDLE_LOGS, "files")
    run.note(f"{IDLE_LOGS} logs of one small batch each, opened again after a clean stop")
    run.note("memory: of Python objects, as tracemalloc counts it")


# --- Compaction --------------------------------------------------------------------------------

KEYS: Final = 10_000
COMPACTED_SEGMENT_BYTES: Final = 16 * MB
COMPACTIONS: Final = 3


@benchmark("compaction", "Compact a million records of 10 thousand keys, against decoding them")
def compaction(run: Run) -> None:
    turns = Turns(plain="decode_rows")
    for number in range(COMPACTIONS):
        log = keyed_million(run, KEYS, COMPACTED_SEGMENT_BYTES, f"log {number + 1}")
        latest = turns.call("decode_rows", partial(newest, log))
        stats = turns.call("compact", partial(compact, log, FIRST_TIMESTAMP_MS))
        expect(stats.records_before == MESSAGES, "records were not looked at")
        expect(stats.records_after == len(latest) == KEYS, "records are missing or left over")
        expect(newest(log) == latest, "a newest value is lost or has another offset")
        log.delete()
    turns.report_rates(run, "1 million records,", MESSAGES, "records/s")
    run.row("bytes before", stats.bytes_before, "B")
    run.row("bytes after", stats.bytes_after, "B", stats.bytes_after / stats.bytes_before, "before")
    run.note(f"{COMPACTIONS} turns; decode_rows: read it all once and keep the newest of each key")
