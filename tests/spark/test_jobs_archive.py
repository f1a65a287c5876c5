"""Topics to tables and back, in a real Spark against a real broker."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, datetime
from itertools import count

import pytest

from goqueue.spark import jobs
from goqueue.spark.errors import DataLossError, OptionsError, TopicMissingError
from goqueue.spark.lake import lake_table, read_table
from support.committed import committed
from support.copied_topics import BASE_MS, by_key, fill
from support.topic_writer import TopicWriter

names = (f"archived-{number}" for number in count())


@pytest.fixture(scope="module")
def writer(broker):
    with TopicWriter(broker.kafka_address) as made:
        yield made


def rows_of(spark, table, table_format="parquet"):
    frame = read_table(spark, lake_table(table_format, table))
    return [
        (row["partition"], row["offset"], row["key"] and bytes(row["key"]), row["date"].isoformat())
        for row in frame.select("partition", "offset", "key", "date").collect()
    ]


def wanted_rows(found):
    return [
        (e.partition, e.offset, e.key, f"{datetime.fromtimestamp(e.timestamp_ms / 1000, UTC):%F}")
        for e in found
    ]


def test_an_archive_grows_by_what_is_new_and_comes_back_as_it_was(spark, broker, writer, tmp_path):
    fill(writer, topic := next(names), rows=900)
    address, table = broker.kafka_address, tmp_path / "lake" / "orders"
    first = jobs.archive(
        spark, address, topic, table, until=BASE_MS + 500_000, piece_rows=300, merge=False
    )
    assert (first.summary["rows"], first.summary["lag"]) == (500, 400)
    second = jobs.archive(spark, address, topic, table)
    assert (second.summary["rows"], second.summary["lag"]) == (400, 0)
    assert second.summary["table_rows"] == 900
    assert second.summary["files_before"] == int(first.summary["files_written"]) > 1
    assert second.summary["files_after"] == 1 <= int(second.summary["files_written"])
    again = jobs.archive(spark, address, topic, table)
    assert (again.summary["rows"], again.summary["table_rows"]) == (0, 900)
    assert [again.summary[f"files_{at}"] for at in ("before", "written", "after")] == [1, 0, 1]
    found = committed(broker, topic)
    assert Counter(rows_of(spark, table)) == Counter(wanted_rows(found))
    assert (table / "date=2026-01-01").is_dir()

    report = jobs.restore(
        spark, address, table, target := next(names), partitions=5, piece_rows=500,
        start=datetime.fromtimestamp(BASE_MS / 1000 + 100, UTC), checkpoint=tmp_path / "restore",
    )  # fmt: skip
    back = committed(broker, target)
    assert by_key(back) == by_key(e for e in found if e.timestamp_ms >= BASE_MS + 100_000)
    assert (report.summary["rows"], report.summary["pieces"]) == (800, 2)
    assert "deletes what is older than retention.ms=604800000" in report.warnings[0]

    jobs.restore(
        spark, address, table, target := next(names),
        keep_partition=True, keys=[b"k1", b"k7"], end=BASE_MS + 700_000,
    )  # fmt: skip
    some = [e for e in found if e.key in {b"k1", b"k7"} and e.timestamp_ms < BASE_MS + 700_000]
    back = committed(broker, target)
    assert by_key(back) == by_key(some)
    assert Counter((e.partition, e.key) for e in back) == Counter(
        (e.partition, e.key) for e in some
    )


@pytest.mark.parametrize("table_format", ["delta", pytest.param("iceberg", marks=pytest.mark.slow)])
def test_an_archive_may_be_a_table_of_another_kind(spark, broker, writer, tmp_path, table_format):
    fill(writer, topic := next(names), rows=120)
    table = tmp_path / "lake"
    for _ in range(2):
        report = jobs.archive(spark, broker.kafka_address, topic, table, table_format=table_format)
    assert (report.summary["rows"], report.summary["table_rows"]) == (0, 120)
    jobs.restore(
        spark, broker.kafka_address, table, target := next(names), table_format=table_format
    )
    assert by_key(committed(broker, target)) == by_key(committed(broker, topic))


def test_what_was_deleted_before_it_was_archived_is_named(spark, broker, writer, tmp_path):
    writer.create(topic := next(names), 1)
    writer.numbers(topic, 0, 0, 10)
    address, table = broker.kafka_address, tmp_path / "table"
    jobs.archive(spark, address, topic, table, merge=False)
    writer.numbers(topic, 0, 10, 20)

    def killed(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # a piece of what is gone then is under way
        jobs.archive(spark, address, topic, table, progress=killed)
    writer.delete_records(topic, 0, 25)
    with pytest.raises(DataLossError, match="offsets 10 to 24 of partition 0 were deleted"):
        jobs.archive(spark, address, topic, table)
    report = jobs.archive(spark, address, topic, table, fail_on_data_loss=False)
    assert report.summary["rows"] == 5
    assert report.warnings == [
        "offsets 10 to 24 of partition 0 were deleted before they were processed"
    ]
    assert sorted(row[1] for row in rows_of(spark, table)) == [*range(10), *range(25, 30)]
    shutil.rmtree(table)
    with pytest.raises(OptionsError, match=r"15 messages were archived to .* no table any more"):
        jobs.archive(spark, address, topic, table)


def test_a_table_of_two_topics_gives_one_back_when_it_is_named(spark, broker, writer, tmp_path):
    one, two = next(names), next(names)
    address, table = broker.kafka_address, tmp_path / "both"
    for topic, rows in ((one, 30), (two, 40)):
        fill(writer, topic, rows=rows)
        jobs.archive(spark, address, topic, table, merge=False)
    with pytest.raises(OptionsError, match="belongs to another job: format was 'parquet'"):
        jobs.archive(spark, address, one, table, table_format="delta")
    with pytest.raises(OptionsError, match=f"several, say which: {one}, {two}"):
        jobs.restore(spark, address, table, "other")
    jobs.restore(spark, address, table, target := next(names), topic=two)
    assert by_key(committed(broker, target)) == by_key(committed(broker, two))


def test_what_is_not_there_is_said(spark, broker, writer, tmp_path):
    address = broker.kafka_address
    with pytest.raises(TopicMissingError, match="there is no topic 'absent'"):
        jobs.archive(spark, address, "absent", tmp_path / "table")
    with pytest.raises(OptionsError) as caught:
        jobs.restore(spark, address, tmp_path / "absent", "other", where="no_column > 1", rate=-1)
    assert [each.split(":")[0] for each in caught.value.problems] == ["rate", "where", "table"]
    writer.create(empty := next(names), 2)
    report = jobs.archive(spark, address, empty, tmp_path / "nothing")
    assert (report.summary["rows"], report.summary["table_rows"]) == (0, 0)
