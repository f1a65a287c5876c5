"""The sink in a real Spark, against a real broker; an oracle reads what is committed."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import UTC, datetime
from itertools import count
from urllib.request import urlopen

import mmh3
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from goqueue.testing import Broker
from support.committed import committed
from support.topic_writer import TopicWriter

SETTINGS = {"retention.ms": -1, "goqueue.kafka.headers": "true"}
"""The messages of these tests are as old as 1970; retention must not take them away."""
names = (f"written-by-spark-{number}" for number in count())


@pytest.fixture
def topic(broker):
    return broker.create_topic(next(names), partitions=3, settings=SETTINGS)


@pytest.fixture
def write(broker, topic):
    """`write(frame, option=value)`: append the rows of a frame."""

    def append(frame, *, address=None, mode="append", **options):
        given = {
            "bootstrap.servers": address or broker.kafka_address,
            "topic": topic,
            "kafka.default.api.timeout.ms": "60000",
            **{name.replace("__", "."): value for name, value in options.items()},
        }
        given = {name: value for name, value in given.items() if value is not None}
        frame.write.format("goqueue").options(**given).mode(mode).save()

    return append


def failure(action, *args, **options):
    with pytest.raises(PySparkException) as caught:
        action(*args, **options)
    return str(caught.value)


def fetched(broker, path):
    with urlopen(f"{broker.http_url}{path}", timeout=60) as answer:
        return json.load(answer)


# --- Batch -------------------------------------------------------------------------------------


def test_rows_are_appended_where_their_keys_belong(spark, write, broker, topic):
    frame = spark.range(0, 1000, 1, 4).selectExpr(
        "CAST(id % 50 AS STRING) AS key", "CAST(id AS STRING) AS value"
    )
    write(frame)
    found = committed(broker, topic)
    assert Counter(int(each.value) for each in found) == Counter(range(1000))
    for each in found:
        assert each.partition == mmh3.hash(each.key, signed=False) % 3
        assert int(each.key) == int(each.value) % 50


def test_every_column_is_written_as_it_is_read(spark, write, broker, topic):
    at = datetime(2024, 5, 6, 7, 8, 9, 123000, UTC)
    rows = [
        (b"k", bytearray(b"one"), [("h", b"1"), ("h", None)], 2, at, "high"),
        (None, None, None, 1, None, None),
        (b"k", bytearray(b"three"), [], 0, at, "normal"),
    ]
    frame = spark.createDataFrame(
        rows,
        "key binary, value binary, headers array<struct<key:string,value:binary>>, "
        "partition int, timestamp timestamp, priority string",
    )
    before_ms = time.time_ns() // 1_000_000
    write(frame.withColumn("topic", F.lit("elsewhere")))  # the option goes first
    one, null, three = sorted(committed(broker, topic), key=lambda each: -each.partition)
    assert (one.key, one.value, one.partition, one.timestamp_ms) == (
        b"k", b"one", 2, round(at.timestamp() * 1000),
    )  # fmt: skip
    assert one.headers == [("h", b"1"), ("h", None), ("goqueue-priority", b"high")]
    assert (null.key, null.value, null.partition, null.headers) == (None, None, 1, [])
    assert null.timestamp_ms >= before_ms
    assert (three.value, three.headers) == (b"three", [])


def test_a_column_names_the_topic_of_each_row(spark, write, broker, topic):
    other = broker.create_topic(f"{topic}-other")
    frame = spark.range(20).selectExpr(
        f"IF(id % 2 = 0, '{topic}', '{other}') AS topic", "CAST(id AS STRING) AS value"
    )
    write(frame, topic=None)
    assert sorted(int(each.value) for each in committed(broker, topic)) == list(range(0, 20, 2))
    assert sorted(int(each.value) for each in committed(broker, other)) == list(range(1, 20, 2))


def test_a_write_with_a_version_is_done_once(spark, write, broker, topic):
    frame = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    for version in ("0", "0", "1", "0"):
        write(frame, txnAppId=topic, txnVersion=version)
    assert Counter(each.value for each in committed(broker, topic)) == {
        b"%d" % number: 2 for number in range(10)
    }


def test_delayed_rows_are_written_without_a_transaction(spark, write, broker, topic):
    frame = spark.range(3).selectExpr(
        "CAST(id AS STRING) AS value", "IF(id = 0, 1, 3600000) AS delay_ms"
    )
    assert "delay_ms: a transaction cannot hold delayed messages" in failure(write, frame)
    before_ms = time.time_ns() // 1_000_000
    write(frame, guarantee="at-least-once")
    waiting = fetched(broker, f"/topics/{topic}/delayed")["messages"]
    waiting = [each for each in waiting if each["value"] != "0"]
    assert sorted(each["value"] for each in waiting) == ["1", "2"]
    assert all(0 <= each["deliverAt"] - before_ms - 3_600_000 < 60_000 for each in waiting)
    deadline = time.monotonic() + 90
    while not (found := committed(broker, topic)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [each.value for each in found] == [b"0"]


def test_what_is_wrong_is_said_before_anything_is_written(spark, write, broker, topic):
    good = spark.range(2).selectExpr("CAST(id AS STRING) AS value")
    assert "there is no topic 'nowhere' to write to" in failure(write, good, topic="nowhere")
    bad = spark.range(2).selectExpr("id AS value", "1.5 AS partition", "'x' AS valeu")
    text = failure(write, bad)
    assert "value is bigint: expected binary or string" in text
    assert "partition is decimal(2,1): expected int" in text
    assert "a message has no valeu; did you mean value?" in text
    numbered = spark.range(2).selectExpr("CAST(id AS STRING) AS value", "CAST(7 AS INT) partition")
    assert "has 0 to 2" in failure(write, numbered)
    assert committed(broker, topic) == []


@pytest.mark.slow  # each costs a process, and what they say is tested without Spark
def test_options_that_cannot_be_are_said_before_anything_is_written(spark, write, broker, topic):
    good = spark.range(2).selectExpr("CAST(id AS STRING) AS value")
    assert "cannot be overwritten" in failure(write, good, mode="overwrite")
    away = failure(write, good, address="127.0.0.1:9", kafka__default__api__timeout__ms="300")
    assert "gave up on 127.0.0.1:9" in away
    text = failure(write, good, partitioner="crc", guarantee="maybe", topics="x")
    for problem in ("partitioner: expected", "guarantee: expected", "unknown option topics"):
        assert problem in text
    text = failure(write, good, kafka__transaction__timeout__ms="1h")
    assert "more than the broker allows" in text
    assert committed(broker, topic) == []


# --- Streams -----------------------------------------------------------------------------------


@pytest.fixture
def source(broker, topic):
    return broker.create_topic(f"{topic}-source", partitions=2, settings=SETTINGS)


@pytest.fixture
def stream(spark, broker, source, topic, tmp_path):
    """`stream()`: a query that copies the source, or what `change` makes of it, to the topic."""

    def start(change=lambda frame: frame, trigger=None, address=None, **options):
        address = address or broker.kafka_address
        reader = spark.readStream.format("goqueue").options(
            **{"bootstrap.servers": address, "subscribe": source},
            startingOffsets="earliest",
            maxOffsetsPerTrigger="60",
        )
        frame = change(reader.load().select("key", "value"))
        return (
            frame.writeStream.format("goqueue")
            .option("bootstrap.servers", address)
            .option("topic", topic)
            .option("checkpointLocation", tmp_path / "checkpoint")
            .options(**options)
            .trigger(**trigger or {"availableNow": True})
            .start()
        )

    return start


def once(number):
    return Counter(b"%d" % each for each in range(number))


def seen(broker, topic):
    return Counter(each.value for each in committed(broker, topic))


def test_a_stream_copies_a_topic_and_a_lost_commit_log_doubles_nothing(
    stream, broker, source, topic, tmp_path
):
    with TopicWriter(broker.kafka_address) as writer:
        writer.numbers(source, 0, 0, 60)
        writer.numbers(source, 1, 60, 40)
        query = stream()
        assert query.awaitTermination(250)
        assert seen(broker, topic) == once(100)
        # The driver dies after the sink's commit, before Spark has noted it: the batch comes again.
        commits = tmp_path / "checkpoint" / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for path in (commits / f"{last}", commits / f".{last}.crc"):
            path.unlink(missing_ok=True)
        writer.numbers(source, 0, 100, 10)
        assert stream().awaitTermination(250)
        assert seen(broker, topic) == once(110)


def test_a_batch_whose_task_fails_is_invisible_and_comes_again_whole(
    stream, broker, source, topic, tmp_path
):
    with TopicWriter(broker.kafka_address) as writer:
        writer.numbers(source, 0, 0, 30)
        writer.numbers(source, 1, 30, 10)
    marker = tmp_path / "failed"

    def fails_at_the_last_row(value):
        if bytes(value) == b"29" and not marker.exists():
            marker.touch()
            raise RuntimeError("the task is lost")
        return value

    risky = F.udf(fails_at_the_last_row, "binary", useArrow=False)

    def change(frame):
        return frame.select("key", risky("value").alias("value"))

    with pytest.raises(PySparkException, match="the task is lost"):
        stream(change).awaitTermination(250)
    assert seen(broker, topic) == Counter()
    assert stream(change).awaitTermination(250)
    assert seen(broker, topic) == once(40)


def test_a_stream_outlives_its_broker(stream, source, topic, tmp_path):
    with Broker(data_dir=tmp_path / "data") as broker:
        for name in (source, topic):
            broker.create_topic(name, partitions=2, settings=SETTINGS)
        with TopicWriter(broker.kafka_address) as writer:
            writer.numbers(source, 0, 0, 50)
            query = stream(address=broker.kafka_address, trigger={"processingTime": "0 seconds"})
            try:
                broker.restart()
                writer.numbers(source, 1, 50, 150)
                broker.restart()
                deadline = time.monotonic() + 200
                while sum(seen(broker, topic).values()) < 200:
                    assert query.exception() is None, query.exception()
                    assert time.monotonic() < deadline
                    time.sleep(0.2)
            finally:
                query.stop()
        assert seen(broker, topic) == once(200)


def test_a_stream_says_what_is_wrong_with_its_columns(stream):
    def later(frame):
        return frame.withColumn("deliver_at", F.current_timestamp())

    text = failure(lambda: stream(later).awaitTermination(250))
    assert "deliver_at: a transaction cannot hold delayed messages" in text
    assert "guarantee=at-least-once" in text


def test_spark_still_tells_tasks_their_query_and_batch(stream, broker, source):
    """The names that the sink relies on are no documented API."""
    with TopicWriter(broker.kafka_address) as writer:
        writer.numbers(source, 0, 0, 1)
    query = stream()
    assert query.awaitTermination(250)
    told = fetched(broker, "/transactions")["transactions"]
    listed = [each["transactional_id"] for each in told]
    assert any(name.startswith(f"spark-{query.id}::0-") for name in listed)
