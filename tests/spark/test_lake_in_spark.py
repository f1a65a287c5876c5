"""Tables in a real Spark: streams into each format, batches that come again, reading back."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from goqueue.spark.errors import LakeError
from goqueue.spark.lake import (
    describe_table,
    lake_table,
    last_number,
    merge_small_files,
    read_table,
)
from support.lake import ids_by_others, leftovers, visible_files

pytestmark = pytest.mark.timeout(300)
FORMATS = ("parquet", "delta", "iceberg")
COLUMNS = "id bigint, day date, place string"
PLACES = ("01", "a:b/c", None)


@pytest.fixture(params=FORMATS)
def table(request, tmp_path):
    return lake_table(request.param, tmp_path / "lake" / "orders")


@pytest.fixture
def feed(tmp_path):
    """`feed(numbers)`: one more file of rows, which is one more micro-batch."""
    folder = tmp_path / "feed"
    folder.mkdir()

    def add(numbers, **more):
        rows = [json.dumps({**expected_row(each), **more}) for each in numbers]
        fresh = folder / f"{len(list(folder.iterdir())):03}.json"
        fresh.write_text("\n".join(rows))

    vars(add)["folder"] = folder
    return add


def expected_row(number):
    return {
        "id": number,
        "day": f"2024-01-0{1 + number % 2}",
        "place": PLACES[number % len(PLACES)],
    }


@pytest.fixture
def stream(spark, feed, table, tmp_path):
    """`stream()`: everything that was fed and not yet written, a batch a file."""

    def run(change=lambda frame: frame, columns=COLUMNS, mode="append", **options):
        frame = (
            spark.readStream.schema(columns)
            .option("maxFilesPerTrigger", 1)
            .json(str(feed.folder))
            .repartition(2)
        )
        return (
            change(frame)
            .writeStream.format("goqueue_lake")
            .options(**table.options(), **options)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .outputMode(mode)
            .trigger(availableNow=True)
            .start()
        )

    return run


def rows_in(rows):
    return Counter((row.id, row.day, row.place) for row in rows)


def expected(numbers):
    rows = (expected_row(each) for each in numbers)
    return Counter((row["id"], date.fromisoformat(row["day"]), row["place"]) for row in rows)


def failure(action):
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


def test_a_stream_fills_a_table_and_a_lost_commit_log_doubles_nothing(
    spark, stream, feed, table, tmp_path
):
    feed(range(40))
    feed(range(40, 70))
    query = stream(partitionBy="day,place")
    assert query.awaitTermination(250)
    assert ids_by_others(table) == Counter(range(70))
    assert last_number(table, query.id) == 1  # a stream's name is its query's id
    # The driver dies after the table's commit, before Spark has noted it: the batch comes again.
    for path in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        path.unlink()
    feed(range(70, 80), more="x")
    query = stream(columns=f"{COLUMNS}, more string")
    assert query.awaitTermination(250)
    assert ids_by_others(table) == Counter(range(80))
    assert not leftovers(table)
    assert len(visible_files(table.path)) == describe_table(table).file_count
    found = read_table(spark, table)
    assert found.columns == ["id", "day", "place", "more"]
    rows = found.collect()
    assert rows_in(rows) == expected(range(80))
    assert sorted(row.id for row in rows if row.more == "x") == list(range(70, 80))
    merge_small_files(table)
    merged = read_table(spark, table).where("place = '01' AND day = DATE'2024-01-01'")
    assert rows_in(merged.collect()) == expected(each for each in range(80) if each % 6 == 0)
    assert ids_by_others(table) == Counter(range(80))


@pytest.mark.parametrize("table", ["delta"], indirect=True)
def test_a_batch_whose_task_fails_is_invisible_and_comes_again_whole(
    spark, stream, feed, table, tmp_path
):
    feed(range(30))
    marker = tmp_path / "failed"

    def fails_once(number):
        if number == 29 and not marker.exists():
            marker.touch()
            raise RuntimeError("the task is lost")
        return number

    def change(frame):
        return frame.withColumn("id", F.udf(fails_once, "bigint", useArrow=False)("id"))

    assert "the task is lost" in failure(lambda: stream(change).awaitTermination(250))
    assert read_table(spark, table).count() == 0  # the table is there, and nothing in it
    assert stream(change).awaitTermination(250)
    assert ids_by_others(table) == Counter(range(30))
    assert not leftovers(table)


@pytest.mark.parametrize("table", ["iceberg"], indirect=True)
def test_batch_writes_append_overwrite_and_count_once_by_their_number(spark, table):
    frame = spark.range(0, 20, 1, 2).selectExpr("id", "timestamp_micros(id) AS at")

    def write(mode="append", rows=frame, **options):
        given = {**table.options(), **options}
        rows.write.format("goqueue_lake").options(**given).mode(mode).save()

    for version in (0, 0, 1):
        write(txnAppId="job", txnVersion=version)
    assert ids_by_others(table) == Counter(dict.fromkeys(range(20), 2))
    assert read_table(spark, table).selectExpr("max(unix_micros(at))").first()[0] == 19
    write(mode="overwrite", rows=frame.where("id < 5"))
    assert ids_by_others(table) == Counter(range(5))
    assert not leftovers(table)
    assert "id is string, and bigint in the table" in failure(
        lambda: write(rows=frame.selectExpr("string(id) AS id"))
    )
    assert "unknown option partition" in failure(lambda: write(partition="id"))
    assert ids_by_others(table) == Counter(range(5))


def test_in_complete_mode_each_batch_takes_the_place_of_the_one_before(spark, feed, tmp_path):
    table = lake_table("parquet", tmp_path / "totals")
    for first in (0, 10, 20):
        feed(range(first, first + 10))
    frame = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(feed.folder))
    query = (
        frame.groupBy("day").agg(F.count("*").alias("rows"))
        .writeStream.format("goqueue_lake").options(**table.options())
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .outputMode("complete").trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(250)
    assert [row.rows for row in read_table(spark, table).collect()] == [15, 15]
    assert last_number(table, query.id) == 2


def test_reading_says_what_is_wrong(spark, tmp_path):
    with pytest.raises(LakeError, match="there is no delta table at"):
        read_table(spark, lake_table("delta", tmp_path / "nowhere"))
    text = failure(lambda: spark.read.format("goqueue_lake").load(str(tmp_path)))
    assert "read with goqueue.spark.lake.read_table" in text
