"""Topics as tables: how fast Spark reads them, how soon, and what a task holds meanwhile.

Broker and Spark share the machine, two cores in all of the figures. Spark's own share is shown by
the same rows out of memory, through the same decoder, and out of a Parquet file.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks._brokers import start_goqueue
from benchmarks._logs import FIRST_TIMESTAMP_MS, MB
from benchmarks._processes import below, cpu_s, peak_bytes, spark_workers
from benchmarks._spark_data import PER_BATCH, MemorySource, Topic, batch_at
from benchmarks._spark_session import TUNED, running_spark
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark, percentiles, timed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MESSAGES: Final = int(os.environ.get("GOQUEUE_BENCH_SPARK_MESSAGES", "5000000"))
TOPIC: Final = "bench"
PARTITIONS: Final = 6
TURNS: Final = 5
MEMORY: Final = "the same decoder, from memory"
PARQUET: Final = "Parquet, all in the JVM"
WHOLE: Final = "a topic, all columns"
FIVE: Final = "a topic, five columns"
PAIRS: Final = "a topic, key and value"
FIVE_COLUMNS: Final = "key binary, value binary, partition int, offset bigint, timestamp timestamp"


class Bench(NamedTuple):
    """A broker with a topic in it, and a Spark that reads it."""

    spark: SparkSession
    address: str

    def read(self, schema: str | None = None, **options: str) -> DataFrame:
        """The topic as a table."""
        reader = self.spark.read.format("goqueue").option("bootstrap.servers", self.address)
        reader = reader.option("subscribe", TOPIC).options(**options)
        return (reader.schema(schema) if schema else reader).load()


@contextmanager
def filled(run: Run, messages: int, settings: Mapping[str, str] | None = None) -> Iterator[Bench]:
    with start_goqueue(run.scratch / "broker") as broker:
        topic = Topic(broker.address, TOPIC, PARTITIONS)
        topic.fill(messages)
        with running_spark(run.scratch, settings) as spark:
            bench = Bench(spark, broker.address)
            count = bench.read(schema="offset bigint").count()
            expect(count == messages // PARTITIONS // 500 * 500 * PARTITIONS, f"{count} rows")
            yield bench


def consume(frame: DataFrame) -> None:
    """Let Spark make every row, and throw it away."""
    frame.write.format("noop").mode("overwrite").save()


@benchmark("read", "A warm batch read of 100-byte messages, against memory and Parquet")
def read(run: Run) -> None:
    with filled(run, MESSAGES) as bench:
        spark = bench.spark
        spark.dataSource.register(MemorySource)
        parquet = str(run.scratch / "rows.parquet")
        bench.read().write.parquet(parquet)
        ways: dict[str, Any] = {
            MEMORY: lambda: spark.read.format("memory_batches").option("rows", MESSAGES).load(),
            WHOLE: bench.read,
            FIVE: lambda: bench.read(FIVE_COLUMNS),
            PAIRS: lambda: bench.read("key binary, value binary"),
            PARQUET: lambda: spark.read.parquet(parquet),
        }
        for make in ways.values():
            consume(make())
        turns = Turns(plain=MEMORY)
        used_s = dict.fromkeys(ways, 0.0)
        for _ in run.progress(TURNS, "reading"):
            for way, make in ways.items():
                before_s = cpu_s(below())
                with timed() as watch:
                    consume(make())
                turns.add(way, watch.seconds)
                used_s[way] += cpu_s(below()) - before_s
        turns.report_rates(run, "rows from", MESSAGES, "rows/s")
        for way, seconds in used_s.items():
            run.row(f"rows a CPU second, {way}", TURNS * MESSAGES / seconds, "rows/s")
    run.note(
        f"{MESSAGES} messages of 100 bytes, keys of 8, batches of 500, {PARTITIONS} partitions"
    )
    run.note("a CPU second is one of all processes together: JVM, Python workers, broker")
    run.note(f"local[2], {TURNS} turns, into Spark's noop sink; planning is in the figures")


# --- A range of time ---------------------------------------------------------------------------

RANGE_TURNS: Final = 5
RANGE_MESSAGES: Final = 4 * MESSAGES
"""So many that what any query costs, some 200 ms, does not hide what the range does."""


@benchmark("time_range", "A time range that touches 1 % of a topic, against all of it")
def time_range(run: Run) -> None:
    with filled(run, RANGE_MESSAGES) as bench:
        span = RANGE_MESSAGES // PARTITIONS
        start = FIRST_TIMESTAMP_MS + span // 2
        times = {"startingTimestamp": str(start), "endingTimestamp": str(start + span // 100)}
        expect(bench.read(**times).count() == span // 100 * PARTITIONS, "one per cent of the rows")
        nothing = {"startingTimestamp": str(start), "endingTimestamp": str(start)}
        for frame in (bench.read(), bench.read(**times), bench.read(**nothing)):
            consume(frame)
        taken: dict[str, list[float]] = {"all": [], "range": [], "nothing": []}
        for _ in run.progress(RANGE_TURNS, "reading"):
            for way, options in (("all", {}), ("range", times), ("nothing", nothing)):
                with timed() as watch:
                    consume(bench.read(**options))
                taken[way].append(watch.seconds)
        whole, part, empty = (median(taken[way]) for way in ("all", "range", "nothing"))
        run.row("all of the topic", whole * 1000, "ms")
        run.row("1 % of it by time", part * 1000, "ms", part / whole, "all of the topic")
        run.row(
            "nothing of it: what a query costs",
            empty * 1000,
            "ms",
            empty / whole,
            "all of the topic",
        )
        extra = max(part - empty, 0.0)
        run.row(
            "1 %, without what a query costs", extra * 1000, "ms", extra / whole, "all of the topic"
        )
    run.note(f"{RANGE_MESSAGES} messages; medians of {RANGE_TURNS} turns")


# --- Micro-batches -----------------------------------------------------------------------------

STREAM_PARTITIONS: Final = 16
PER_PARTITION: Final = 100
WARM_UP: Final = 15
SAMPLES: Final = 40


@benchmark("latency", "From an acknowledged append to the end of its micro-batch, 16 partitions")
def latency(run: Run) -> None:
    for name, settings in (("as it comes", {}), ("tuned", TUNED)):
        folder = run.scratch / name.replace(" ", "-")
        with (
            start_goqueue(folder / "broker") as broker,
            running_spark(folder, settings) as spark,
        ):
            topic = Topic(broker.address, TOPIC, STREAM_PARTITIONS)
            query = _start(spark, broker.address, folder / "checkpoint")
            try:
                found = [_one_batch(query, topic) for _ in range(WARM_UP + SAMPLES)][WARM_UP:]
            finally:
                query.stop()
        for label, value in percentiles(found, (50, 95)).items():
            run.row(f"{name}: {label}", value * 1000, "ms")
    run.note(f"{PER_PARTITION} messages a partition and batch, noop sink, default trigger")
    run.note("tuned: " + ", ".join(f"{name}={value}" for name, value in TUNED.items()))


def _start(spark: SparkSession, address: str, checkpoint: Path) -> StreamingQuery:
    frame = (
        spark.readStream.format("goqueue")
        .option("bootstrap.servers", address)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )
    sink = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return sink.start()


def _one_batch(query: StreamingQuery, topic: Topic) -> float:
    """Append to all partitions; the time until a micro-batch that ends behind it is done."""
    batch = batch_at(0, count=PER_PARTITION)
    before = _rows_done(query)
    topic.send([(number, batch) for number in range(STREAM_PARTITIONS)])
    started = time.perf_counter()
    expected = before + STREAM_PARTITIONS * PER_PARTITION
    while _rows_done(query) < expected:
        expect(query.isActive, "the query runs")
        time.sleep(0.004)
    return time.perf_counter() - started


def _rows_done(query: StreamingQuery) -> int:
    """Offsets behind the last finished micro-batch, over all partitions."""
    progress: Any = query.lastProgress
    end = progress["sources"][0]["endOffset"] if progress else None
    return sum(json.loads(end)[TOPIC]["offsets"].values()) if end else 0


# --- Memory ------------------------------------------------------------------------------------


@benchmark("memory", "What a task holds at its peak, by the size of what it reads")
def memory(run: Run) -> None:
    with filled(run, MESSAGES) as bench:
        peaks = {}
        for share in (10, 1):
            end = MESSAGES // PARTITIONS // PER_BATCH * PER_BATCH // share
            ends = ", ".join(f'"{number}": {end}' for number in range(PARTITIONS))
            options = {"endingOffsets": f'{{"{TOPIC}": {{{ends}}}}}', "minPartitions": "2"}
            for process in spark_workers():
                (process / "clear_refs").write_text("5")
            consume(bench.read(**options))
            peaks[share] = max(map(peak_bytes, spark_workers()), default=0)
        run.row("a tenth of the topic", peaks[10] / MB, "MB")
        run.row("all of it", peaks[1] / MB, "MB", peaks[1] / peaks[10], "a tenth of the topic")
    run.note("peak resident memory of the largest Python worker, libraries and all; two tasks")
