"""Backups against `cp`, and what the second one copies."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka

from benchmarks._turns import expect
from benchmarks.harness import Run, benchmark, timed
from goqueue.cli.api import Api
from goqueue.cli.contexts import Target
from goqueue.protocols.http.backups.backup_shapes import BackupDetails, BackupJob
from goqueue.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

SIZE_BYTES: Final = round(float(os.environ.get("GOQUEUE_BENCH_BACKUP_GB", "0.5")) * 1e9)
"""10 for the figures of the page."""
TURNS: Final = 3
VALUE: Final = os.urandom(10_000)
PARTITIONS: Final = 4


def _fill(broker: Broker, size_bytes: int) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.kafka_address,
            "batch.size": 1_000_000,
            "linger.ms": 20,
            "queue.buffering.max.kbytes": 200_000,
        }
    )
    for number in range(size_bytes // len(VALUE)):
        while True:
            try:
                producer.produce("orders", VALUE, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    expect(producer.flush(300) == 0, "not everything was published")


def _run(api: Api, destination: Path, path: str, **body: Any) -> dict[str, Any]:
    job = api.post(BackupJob, path, body={"destination": str(destination), **body})
    while job.state == "running":
        time.sleep(0.02)
        job = api.get(BackupDetails, "/admin/backup/{}", job.id).job or job
    expect(job.state == "done", f"{job.kind}: {job.error}")
    return job.result


@benchmark("copy", "Back up a broker to a folder, against cp of its files; both until on the disk")
def copy(run: Run) -> None:
    ratios: list[float] = []
    rates: list[float] = []
    copies: list[float] = []
    with Broker(data_dir=run.scratch / "data") as broker:
        broker.create_topic("orders", partitions=PARTITIONS)
        _fill(broker, SIZE_BYTES)
        api = Api(Target(broker.http_url, "the benchmark"))
        topics = broker.data_dir / "topics"
        for _ in run.progress(TURNS, "copy"):
            with timed() as copied:
                subprocess.run(["cp", "-r", topics, run.scratch / "copy"], check=True)
                os.sync()
            with timed() as backed_up:
                result = _run(api, run.scratch / "backups", "/admin/backup", full=True)
            expect(result["copied_bytes"] >= SIZE_BYTES, f"{result['copied_bytes']} were copied")
            ratios.append(copied.seconds / backed_up.seconds)
            rates.append(result["copied_bytes"] / backed_up.seconds)
            copies.append(result["copied_bytes"] / copied.seconds)
            shutil.rmtree(run.scratch / "copy")
            last = _run(api, run.scratch / "backups", "/admin/backup")
            expect(last["copied_bytes"] == 0, "the second backup copies nothing")
            _run(api, run.scratch / "backups", "/admin/backup/latest/verify")
            shutil.rmtree(run.scratch / "backups")
        api.close()
    run.row("cp", statistics.median(copies), "B/s")
    run.row(
        "backup",
        statistics.median(rates),
        "B/s",
        ratio=statistics.median(ratios),
        against="cp",
    )
    run.note(
        f"{SIZE_BYTES / 1e9:g} GB in {PARTITIONS} partitions, checked and hashed by the backup"
    )
