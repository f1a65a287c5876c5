"""Many partitions: what it costs to write to them, to have them, to stop and to start with them.

The yardstick of writing is the same number of messages into 10 partitions, one message a request on
both sides; that of starting and stopping is the start of the same tree on an empty folder. Linux
only: what a process uses is read from /proc.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks._brokers import start_goqueue
from benchmarks._client import ClientProcess
from benchmarks._logs import MB
from benchmarks._turns import expect
from benchmarks.harness import Run, benchmark, timed

if TYPE_CHECKING:
    from benchmarks._brokers import BrokerProcess

CLIENT: Final = "_partition_client"
CONNECTIONS: Final = 8
FEW: Final = 10
EMPTY_STARTS: Final = 3
IDLE_S: Final = 20.0
SETTLED_S: Final = 75.0
"""By then the first passes of maintenance, which look at all that was appended, are over."""
EMPTY: Final = "empty start"

MAX_WRITE: Final = 5.0
MAX_START_STOP: Final = 15.0
MAX_OPEN_FILES: Final = 2000
MAX_IDLE_PERCENT: Final = 5.0
MAX_MEMORY_MB: Final = 250.0


class Shape(NamedTuple):
    """How messages are spread."""

    topics: int
    partitions: int
    each: int

    @property
    def messages(self) -> int:
        """In all."""
        return self.topics * self.partitions * self.each


@benchmark(
    "wide", "A message into each of 10 000 partitions of one topic; kill, start, stop, start"
)
def wide(run: Run) -> None:
    _measure(run, Shape(1, 10_000, 1))


@benchmark(
    "topics", "A message into each of 1 000 partitions of 10 topics; kill, start, stop, start"
)
def topics(run: Run) -> None:
    _measure(run, Shape(10, 1_000, 1))


@benchmark(
    "single", "A message into each of 10 000 topics of one partition; kill, start, stop, start"
)
def single(run: Run) -> None:
    _measure(run, Shape(10_000, 1, 1))


@benchmark("deep", "1 000 messages into each of 1 000 partitions; kill, start, stop, start")
def deep(run: Run) -> None:
    _measure(run, Shape(1, 1_000, 1_000))


def _measure(run: Run, shape: Shape) -> None:
    empty_s = _empty_start(run)
    folder = run.scratch / "data"
    missed: list[str] = []

    def bounded(label: str, value: float, unit: str, bound: float) -> None:
        run.row(label, value, unit)
        if value > bound:
            missed.append(f"{label}: {value:.1f} {unit}, at most {bound:g}")

    def against_empty(label: str, seconds: float) -> None:
        ratio = seconds / empty_s
        run.row(label, seconds, "s", ratio, EMPTY)
        if ratio > MAX_START_STOP:
            missed.append(f"{label}: {ratio:.1f} times an {EMPTY}, at most {MAX_START_STOP:g}")

    run.row(EMPTY, empty_s, "s")
    with ClientProcess(CLIENT) as client:
        server = start_goqueue(folder)
        few_s = _write(client, server, "few", Shape(1, FEW, shape.messages // FEW))
        many_s = _write(client, server, "many", shape)
    few = f"{shape.messages} messages into {FEW} partitions"
    run.row(few, few_s, "s")
    run.row(f"into {shape.topics * shape.partitions}", many_s, "s", many_s / few_s, few)
    if many_s / few_s > MAX_WRITE:
        missed.append(f"writing: {many_s / few_s:.1f} times, at most {MAX_WRITE:g}")
    time.sleep(SETTLED_S)
    bounded("idle", _idle_percent(server), "% of a core", MAX_IDLE_PERCENT)
    bounded("open files", _open_files(server), "files", MAX_OPEN_FILES)
    bounded("memory", server.memory().rss_bytes / MB, "MB", MAX_MEMORY_MB)
    server.kill()
    server = start_goqueue(folder)
    against_empty("start after a kill", _ready_s(server))
    against_empty("stop", _stop_s(server))
    server = start_goqueue(folder)
    against_empty("start after a stop", _ready_s(server))
    bounded("memory after a start", server.memory().rss_bytes / MB, "MB", MAX_MEMORY_MB)
    bounded("open files after a start", _open_files(server), "files", MAX_OPEN_FILES)
    server.stop()
    run.note(f"{CONNECTIONS} connections, each with one request of one message at a time, acks=all")
    run.note(f"{EMPTY}: median of {EMPTY_STARTS} of this tree, from spawning to the ready line")
    for each in missed:
        run.note(f"MISSED {each}")


def _empty_start(run: Run) -> float:
    taken = []
    for number in run.progress(EMPTY_STARTS, EMPTY):
        with start_goqueue(run.scratch / f"empty-{number}") as server:
            taken.append(_ready_s(server))
    return median(taken)


def _write(client: ClientProcess, server: BrokerProcess, topic: str, shape: Shape) -> float:
    """The seconds that publishing takes, on topics that are there."""
    place = {"topic": topic, "topics": shape.topics, "partitions": shape.partitions}
    client.call("create", address=server.address, **place)
    sent = client.call(
        "publish", port=server.port, each=shape.each, connections=CONNECTIONS, **place
    )
    expect(sent["acknowledged"] == shape.messages and not sent["failed"], f"{topic}: {sent}")
    return float(sent["seconds"])


def _ready_s(server: BrokerProcess) -> float:
    expect(server.port, "it has no port")
    return server.ready_at - server.spawned_at


def _stop_s(server: BrokerProcess) -> float:
    with timed() as watch:
        server.stop()
    return watch.seconds


def _idle_percent(server: BrokerProcess) -> float:
    before_s = server.cpu_s()
    time.sleep(IDLE_S)
    return 100 * (server.cpu_s() - before_s) / IDLE_S


def _open_files(server: BrokerProcess) -> int:
    return sum(1 for _ in Path(f"/proc/{server.pid}/fd").iterdir())
