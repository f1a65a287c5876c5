"""How fast a node that was away copies what it missed."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Final

from benchmarks._client import ClientProcess
from benchmarks._logs import MB
from benchmarks._pairs import send
from benchmarks._turns import expect
from benchmarks.harness import timed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks._clusters import ClusterProcesses
    from benchmarks.harness import Run

AWAY: Final = 3
TOPIC: Final = "missed"
_MESSAGE_BYTES: Final = 108
"""What a message of 100 bytes takes in a large batch."""
_CHUNK: Final = 500_000
_POLL_S: Final = 0.01
_GIVE_UP_S: Final = 600.0


def caught_up(run: Run, cluster: ClusterProcesses, size_mb: int, partitions: int) -> float:
    """Let a node miss so much, start it, and wait until it has it; the ratio to `cp`."""
    with ClientProcess("_cluster_client") as admin, ClientProcess("_kafka_client") as client:
        admin.call("make", address=cluster.address, topics=[TOPIC], partitions=partitions)
        cluster.settle()
        cluster.stop(AWAY)
        chunks = max(1, round(size_mb * MB / _MESSAGE_BYTES / _CHUNK))
        for _ in run.progress(chunks, "what a node misses"):
            send(client, cluster, TOPIC, _CHUNK, reports=False)
    wanted = _size(cluster.data_of(1))
    expect(wanted >= 0.9 * chunks * _CHUNK * _MESSAGE_BYTES, f"only {wanted} bytes are stored")
    copied_s = [_cp(run, cluster.data_of(1)) for _ in range(2)]
    before, cpu_before_s = _size(cluster.data_of(AWAY)), cluster.cpu_s()
    spawned = time.perf_counter()
    cluster.start(AWAY, wait=False)
    began = _grown(cluster.data_of(AWAY), before + 1)
    ended = _grown(cluster.data_of(AWAY), wanted)
    cpu_s = cluster.cpu_s() - cpu_before_s
    copied_s.append(_cp(run, cluster.data_of(1)))
    missed_mb = (wanted - before) / MB
    plain = wanted / MB / min(copied_s)
    rate = missed_mb / (ended - began)
    run.row("cp -r of the leader's files", plain, "MB/s")
    run.row("a follower catches up", rate, "MB/s", rate / plain, "cp -r of the leader's files")
    run.row("from the start of its process", ended - spawned, "s")
    run.row("CPU of all brokers for a megabyte", cpu_s / missed_mb * 1000, "ms")
    run.note(f"{missed_mb:.0f} MB in {partitions} partitions; the page cache is warm")
    cluster.settle()
    return rate / plain


def _cp(run: Run, folder: Path) -> float:
    """The seconds of a copy, the best yardstick there is for how fast files can be copied."""
    copy = run.scratch / "copy"
    copy.mkdir()
    sources = [str(path) for path in sorted({file.parent for file in _files(folder)})]
    with timed() as watch:
        subprocess.run(["cp", "-r", *sources, str(copy)], check=True)
    shutil.rmtree(copy)
    return watch.seconds


def _files(folder: Path) -> Iterator[Path]:
    return folder.rglob(f"*{TOPIC}*/**/*.log")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in _files(folder))


def _grown(folder: Path, size: int) -> float:
    """The moment at which the files have so many bytes."""
    give_up = time.perf_counter() + _GIVE_UP_S
    while time.perf_counter() < give_up:
        if _size(folder) >= size:
            return time.perf_counter()
        time.sleep(_POLL_S)
    raise TimeoutError(f"{_size(folder)} bytes of {size} after {_GIVE_UP_S:.0f} s")
