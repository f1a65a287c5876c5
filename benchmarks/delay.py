"""Delayed messages: how fast they are taken in, what one costs, how late it comes, a start.

Everything but `stream` happens in one process, with a broker that the benchmark holds; kills are of
a process of its own. Linux only: what a process uses is read from /proc.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks._brokers import HOST, start_goqueue
from benchmarks._client import ClientProcess
from benchmarks._delay_broker import (
    DAY_MS,
    TOPIC,
    lateness_ms,
    make_broker,
    publish_all,
    write_far,
)
from benchmarks._turns import expect
from benchmarks.harness import ROOT, Run, benchmark, percentiles

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

MILLION: Final = 1_000_000
BATCH: Final = 1000
TURNS: Final = 3
AT_ONCE: Final = 10_000
GOAL_RATE: Final = 100_000
GOAL_BYTES: Final = 150
GOAL_LATE_MS: Final = 50
GOAL_START_S: Final = 5.0
_GRPC: Final = re.compile(rf"gRPC on {re.escape(HOST)}:(\d+)")


def _play(scenario: Callable[[], Coroutine[None, None, Any]]) -> Any:
    return asyncio.run(scenario())


@benchmark("schedule", "Take in a million delayed messages of 100 bytes, against plain ones")
def schedule(run: Run) -> None:
    async def scenario() -> dict[str, list[float]]:
        broker = await make_broker(run.scratch / "schedule")
        rates: dict[str, list[float]] = {"plain": [], "delayed": []}
        for _ in run.progress(TURNS, "schedule"):
            for way, delay_ms in (("plain", None), ("delayed", DAY_MS)):
                count = MILLION // TURNS // BATCH * BATCH
                started_s = time.perf_counter()
                await publish_all(broker, count, BATCH, delay_ms)
                rates[way].append(count / (time.perf_counter() - started_s))
        pending = broker.delays.stats().pending
        expect(pending == TURNS * (MILLION // TURNS // BATCH * BATCH), f"{pending} wait")
        await broker.stop()
        return rates

    rates = _play(scenario)
    plain, delayed = median(rates["plain"]), median(rates["delayed"])
    run.row("plain", plain, "messages/s")
    run.row("delayed by a day", delayed, "messages/s", delayed / plain, "plain")
    run.note(f"the goal is {GOAL_RATE:,} messages/s; reached {delayed / GOAL_RATE:.2f}")
    run.note(
        f"requests of {BATCH}, one partition, fsync=interval; nothing between it and the writer"
    )


@benchmark("stream", "Delay messages in a gRPC stream, against plain ones in the same stream")
def stream(run: Run) -> None:
    count, rates = 200_000, {"plain": list[float](), "delayed": list[float]()}
    with (
        start_goqueue(run.scratch / "data") as server,
        ClientProcess("_delay_client") as client,
    ):
        found = next(found for line in server.log if (found := _GRPC.search(line)))
        address = f"{HOST}:{found[1]}"
        client.call("create", address=address, topic=TOPIC)
        for turn in run.progress(TURNS + 1, "stream"):
            for way, delay_ms in (("plain", 0), ("delayed", DAY_MS)):
                asked = {"topic": TOPIC, "count": count, "batch": 100, "delay_ms": delay_ms}
                taken = client.call("stream", address=address, **asked)
                expect(not taken["failed"], f"{way}: {taken}")
                if turn:
                    rates[way].append(count / taken["seconds"])
    plain, delayed = median(rates["plain"]), median(rates["delayed"])
    run.row("plain", plain, "messages/s")
    run.row("delayed by a day", delayed, "messages/s", delayed / plain, "plain")
    run.note("requests of 100 in one stream, 20 on the way; server and client on the same machine")


@benchmark("memory", "What a delayed message costs in memory, soon and far")
def memory(run: Run) -> None:
    for label, delay_ms in (("due in two minutes", 120_000), ("due in an hour", 3_600_000)):
        code = (
            "from benchmarks._delay_broker import measure_memory; "
            f"measure_memory({str(run.scratch / label.replace(' ', '-'))!r}, {MILLION}, {delay_ms})"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        traced, resident = (float(word) for word in done.stdout.split())
        run.row(f"{label}: allocated by Python", traced, "B/message", traced / 100, "its value")
        run.row(
            f"{label}: growth of the process", resident, "B/message", resident / 100, "its value"
        )
    run.note(f"{MILLION:,} messages of 100 bytes wait; the goal is at most {GOAL_BYTES} bytes each")


@benchmark("lateness", "How late 10,000 messages come that fall due in the same second")
def lateness(run: Run) -> None:
    async def scenario() -> list[float]:
        broker = await make_broker(run.scratch / "late")
        found: list[float] = []
        for _ in run.progress(TURNS, "lateness"):
            found += await lateness_ms(broker, AT_ONCE)
        await broker.stop()
        return found

    late_ms = _play(scenario)
    expect(len(late_ms) == TURNS * AT_ONCE, f"{len(late_ms)} came")
    expect(min(late_ms) >= 0, f"one came {min(late_ms)} ms late, so early")
    shown = percentiles(late_ms, (50, 99))
    run.row("p50", shown["p50"], "ms")
    run.row("p99", shown["p99"], "ms", shown["p99"] / 10, "a tick of the wheel")
    run.row("most", max(late_ms), "ms")
    run.note(f"by the time stamp of the append; the goal is a p99 below {GOAL_LATE_MS} ms")


@benchmark("start", "Start with messages pending: a million after a kill, ten million far away")
def start(run: Run) -> None:
    folder = run.scratch / "killed"
    code = (
        "from benchmarks._delay_broker import publish_and_wait; "
        f"publish_and_wait({str(folder)!r}, {MILLION}, {BATCH})"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline()
    process.kill()
    process.wait()
    expect(line == b"published\n", f"the publisher said {line!r}")
    killed_s, pending = _started(folder)
    expect(pending == MILLION, f"{pending} of {MILLION} are there after a kill")
    run.row("a million, after kill -9", killed_s, "s")
    empty_s, _ = _started(run.scratch / "empty")
    run.row("none", empty_s, "s")
    count = 10 * MILLION
    _play(lambda: write_far(run.scratch / "far", count))
    far_s, pending = _started(run.scratch / "far")
    expect(pending == count, f"{pending} of {count} are there")
    run.row("ten million, far in the future", far_s, "s", far_s / GOAL_START_S, "the goal of 5 s")
    run.note(
        "a start is that of the whole broker, in a process of its own; all pending were counted"
    )


def _started(folder: Path) -> tuple[float, int]:
    """How long a broker takes to start there, and how many messages wait then."""
    code = f"from benchmarks._delay_broker import time_start; time_start({str(folder)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    seconds, pending = done.stdout.split()
    return float(seconds), int(pending)
