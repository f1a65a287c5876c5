"""What a start says about itself: how long it took, where it listens, what it recovered."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import goqueue
from goqueue.records import IMPLEMENTATION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.partitions.partition import Partition
    from goqueue.server.node import Node

logger = logging.getLogger(__name__)

_NAMED_PARTITIONS: Final = 20
"""How many partitions with something to say are named; the others are counted."""


def report_start(node: Node, took_s: float) -> None:
    """One line that says "ready", and before it what recovery had to do."""
    for line in recovery_lines(node.broker.partitions):
        logger.warning("recovery: %s", line)
    logger.info(
        "ready in %.0f ms: goqueue %s (%s codec, %s), %s on %s:%d, HTTP on %s:%d, gRPC on %s:%d, "
        "data in %s, topics: %d, partitions: %d",
        took_s * 1000,
        goqueue.__version__,
        IMPLEMENTATION,
        type(asyncio.get_running_loop()).__module__.partition(".")[0],
        node.kafka.settings.name,
        node.kafka.settings.host,
        node.kafka.port,
        node.http.host,
        node.http.port,
        node.grpc.settings.host,
        node.grpc.port,
        node.config.broker.data_dir,
        len(node.broker.topics.catalogue.by_name),
        len(node.broker.partitions),
    )


def recovery_lines(partitions: Iterable[Partition]) -> list[str]:
    """What recovery scanned in all, and what it found wrong partition by partition."""
    reports = [(partition.id, partition.recovery) for partition in partitions]
    scanned = sum(report.scanned_bytes for _, report in reports)
    lines = []
    if scanned:
        count = sum(1 for _, report in reports if report.scanned_bytes)
        lines.append(f"scanned {scanned} bytes in {count} partitions that were not closed cleanly")
    for partition_id, report in reports:
        said = []
        if report.cut_bytes:
            said.append(f"cut a torn tail of {report.cut_bytes} bytes ({report.cut_reason})")
        if report.damage:
            said.append(f"{len(report.damage)} damaged stretches, left for readers to step over")
        if report.missing_below_checkpoint:
            said.append(f"{report.missing_below_checkpoint} offsets that were on the disk are gone")
        if report.finished_swaps:
            said.append(f"finished {report.finished_swaps} interrupted compactions")
        if said:
            lines.append(f"{partition_id}: {'; '.join(said)}")
    if len(lines) > _NAMED_PARTITIONS:
        lines[_NAMED_PARTITIONS:] = [f"and {len(lines) - _NAMED_PARTITIONS} partitions more"]
    return lines


def process_age_s() -> float | None:
    """How long this process has been running, to 10 ms; None where nobody can tell."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
    except (OSError, ValueError, IndexError, AttributeError):
        return None
