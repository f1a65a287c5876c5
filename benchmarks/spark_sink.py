"""What comes out of a topic on its way to where it goes: another topic, or Parquet.

Broker and Spark share two cores. A batch write is one transaction over all partitions; its figure
ends with the driver's commit.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from benchmarks._spark_data import Topic
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark
from benchmarks.spark import MESSAGES, PARTITIONS, Bench, consume, filled

if TYPE_CHECKING:
    from pathlib import Path

TURNS: Final = 3
NOOP: Final = "a topic into nothing"
TO_TOPIC: Final = "a topic into a topic"
TO_TOPIC_KEYLESS: Final = "a topic into a topic, without keys"
TO_TOPIC_PLAIN: Final = "a topic into a topic, at least once"
TO_PARQUET: Final = "a topic into Parquet"
_PAIRS: Final = "key binary, value binary"


class Targets:
    """A new place for each turn: what was written before is in nobody's way."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench = bench
        self._folder = folder
        self._numbers = count()

    def topic(self, schema: str = _PAIRS, **options: str) -> str:
        """Copy the topic; returns where to."""
        name = f"target-{next(self._numbers)}"
        Topic(self._bench.address, name, PARTITIONS)
        writer = self._bench.read(schema).write.format("goqueue").mode("append")
        writer.options(**{"bootstrap.servers": self._bench.address}, topic=name, **options).save()
        return name

    def parquet(self) -> str:
        """Write the topic to a folder of files."""
        path = str(self._folder / f"rows-{next(self._numbers)}.parquet")
        self._bench.read(_PAIRS).write.parquet(path)
        return path


@benchmark("copy", "A topic into a topic and into Parquet, all of it in one batch")
def copy(run: Run) -> None:
    with filled(run, MESSAGES) as bench:
        targets = Targets(bench, run.scratch)
        ways: dict[str, Any] = {
            NOOP: lambda: consume(bench.read(_PAIRS)),
            TO_TOPIC: targets.topic,
            TO_TOPIC_KEYLESS: lambda: targets.topic("value binary"),
            TO_TOPIC_PLAIN: lambda: targets.topic(guarantee="at-least-once"),
            TO_PARQUET: targets.parquet,
        }
        name = targets.topic()
        reader = bench.spark.read.format("goqueue").option("bootstrap.servers", bench.address)
        copied = reader.option("subscribe", name).option("columns", "offset").load().count()
        expect(copied == bench.read("offset bigint").count(), f"{copied} rows were copied")
        for way in (NOOP, TO_PARQUET):
            ways[way]()
        turns = Turns(plain=NOOP)
        for _ in run.progress(TURNS, "copying"):
            for way, do in ways.items():
                turns.call(way, do)
        turns.report_rates(run, "rows from", MESSAGES, "rows/s")
    run.note(
        f"{MESSAGES} messages of 100 bytes, keys of 8, {PARTITIONS} partitions to {PARTITIONS}"
    )
    run.note(f"local[2], {TURNS} turns, planning and the driver's commit are in the figures")
