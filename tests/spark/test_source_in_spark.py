"""The source in a real Spark, against a real broker. One Spark serves all of these."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from itertools import count

import confluent_kafka
import pytest
from pyspark.errors import PySparkException

from goqueue.records import Record
from goqueue.spark import track
from goqueue.testing import Broker
from support.streamed_rows import Rows, wait_for
from support.topic_writer import TopicWriter

topics = (f"seen-by-spark-{number}" for number in count())


@pytest.fixture
def topic(broker):
    # The numbers' times are long ago, and are to stay.
    return broker.create_topic(next(topics), partitions=2, settings={"retention.ms": -1})


@pytest.fixture
def writer(broker):
    with TopicWriter(broker.kafka_address) as made:
        yield made


@pytest.fixture
def read(spark, broker, topic):
    """`read(option=value)`: a data frame of the topic."""

    def make(schema=None, address=None, **options):
        reader = spark.read.format("goqueue").option("kafka.default.api.timeout.ms", "60000")
        reader = reader.option("bootstrap.servers", address or broker.kafka_address)
        if not {"subscribePattern", "assign", "subscribe"} & options.keys():
            reader = reader.option("subscribe", topic)
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        return (reader.schema(schema) if schema else reader).load()

    return make


@pytest.fixture
def stream(spark, broker, topic, tmp_path):
    """`stream(sink, option=value)`: a query that has read what is there and has ended."""

    def start(sink, *, trigger=None, address=None, checkpoint="checkpoint", **options):
        given = {
            "bootstrap.servers": address or broker.kafka_address,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "kafka.default.api.timeout.ms": "60000",
            **{name.replace("__", "."): value for name, value in options.items()},
        }
        reader = spark.readStream.format("goqueue").options(**given)
        writer = reader.load().writeStream.option("checkpointLocation", tmp_path / checkpoint)
        writer = writer.queryName(topic.replace("-", "_")).foreachBatch(sink)
        return writer.trigger(**trigger or {"availableNow": True}).start()

    return start


def failure(frame):
    with pytest.raises(PySparkException) as caught:
        frame.count()
    return str(caught.value)


# --- Batch -------------------------------------------------------------------------------------


def test_spark_finds_the_source_by_itself_and_sees_every_column(read, broker, topic):
    first = broker.publish(topic, "one", key="k", partition=1, headers={"a": "b"})
    broker.publish(topic, "two", partition=1, headers={"goqueue-priority": "high"})
    frame = read(includeHeaders="true")
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
        ("priority", "string"),
    ]
    one, two = frame.orderBy("offset").collect()
    assert (bytes(one.key), bytes(one.value), one.topic) == (b"k", b"one", topic)
    assert (one.partition, one.offset, one.timestampType, one.priority) == (1, 0, 0, "normal")
    sent = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
    assert one.timestamp.astimezone(UTC) == sent
    assert [(each.key, bytes(each.value)) for each in one.headers] == [("a", b"b")]
    assert (two.key, two.priority) == (None, "high")


def test_a_topic_with_nothing_in_it_is_an_empty_table(read):
    assert read().collect() == []


def test_columns_are_pruned_by_a_schema_or_an_option(read, writer, topic):
    writer.numbers(topic, 0, 0, 3)
    frame = read(schema="value binary, offset bigint")
    assert frame.columns == ["value", "offset"]
    assert sorted((row.offset, bytes(row.value)) for row in frame.collect()) == [
        (0, b"0"),
        (1, b"1"),
        (2, b"2"),
    ]
    assert read(columns="offset,partition").columns == ["offset", "partition"]
    assert read(schema="OFFSET bigint").collect()[0].OFFSET == 0
    text = failure(read(schema="value string, ofset bigint"))
    assert "no column ofset; did you mean offset?" in text
    assert "value is binary, not string. Cast in the query" in failure(read(schema="value string"))


def test_ranges_by_offsets_and_times_read_exactly_that(read, writer, topic):
    for partition in (0, 1):
        writer.numbers(topic, partition, 0, 100, at_ms=1000)
    by_offset = read(
        startingOffsets=f'{{"{topic}": {{"0": 10, "1": -2}}}}',
        endingOffsets=f'{{"{topic}": {{"0": -1, "1": 5}}}}',
        minPartitions="7",
    )
    assert by_offset.rdd.getNumPartitions() == 7
    found = sorted((row.partition, row.offset) for row in by_offset.collect())
    assert found == [(0, n) for n in range(10, 100)] + [(1, n) for n in range(5)]
    by_time = read(startingTimestamp="20000", endingTimestamp="23000")
    assert sorted(row.offset for row in by_time.collect()) == [20, 20, 21, 21, 22, 22]
    by_partition = read(
        startingOffsetsByTimestamp=f'{{"{topic}": {{"0": 95000, "1": 99000}}}}',
        endingOffsetsByTimestamp=f'{{"{topic}": {{"0": 97000, "1": 900000}}}}',
    )
    assert sorted((row.partition, row.offset) for row in by_partition.collect()) == [
        (0, 95),
        (0, 96),
        (1, 99),
    ]


def test_a_filter_on_a_frame_does_not_change_another_query_on_it(read, writer, topic):
    for partition in (0, 1):
        writer.numbers(topic, partition, 0, 10)
    frame = read()
    assert frame.where("partition = 1").count() == 10
    assert frame.count() == 20
    assert frame.where("partition = 1").unionAll(frame.where("offset < 5")).count() == 20


def test_patterns_assignments_and_several_topics(read, broker, writer, topic):
    other = broker.create_topic(f"{topic}-other", settings={"retention.ms": -1})
    writer.numbers(topic, 0, 0, 2)
    writer.numbers(topic, 1, 0, 3)
    writer.numbers(other, 0, 0, 5)
    assert read(subscribePattern=f"{topic}.*").count() == 10
    assert read(subscribe=f"{topic},{other}").count() == 10
    assert read(assign=f'{{"{topic}": [1]}}').count() == 3


def test_sql_sees_a_topic_as_a_view(spark, broker, writer, topic):
    writer.numbers(topic, 0, 0, 4)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW orders USING goqueue OPTIONS "
        f"(`bootstrap.servers` '{broker.kafka_address}', subscribe '{topic}')"
    )
    (row,) = spark.sql("SELECT sum(CAST(CAST(value AS STRING) AS INT)) AS s FROM orders").collect()
    assert row.s == 6


def test_json_values_are_a_struct(read, broker, topic):
    broker.publish(topic, '{"id": 7, "name": "x"}')
    broker.publish(topic, "nonsense")
    frame = read(valueFormat="json", valueSchema="id bigint, name string")
    rows = frame.select("value.id", "value.name").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(None, None), (7, "x")]
    raw = read(valueFormat="json", valueSchema="id int", columns="value,rawValue")
    (bad,) = raw.where("value IS NULL").collect()
    assert bytes(bad.rawValue) == b"nonsense"


def test_compressed_and_aborted_messages(read, broker, topic):
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.kafka_address,
            "transactional.id": topic,
            "compression.type": "zstd",
        }
    )
    producer.init_transactions(10)
    for number in range(4):
        producer.begin_transaction()
        for _ in range(50):
            producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(10)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(10)
    assert {bytes(row.value) for row in read().collect()} == {b"0", b"2"}
    assert read().count() == 100
    assert read(kafka__isolation__level="read_uncommitted").count() == 200


def test_what_is_wrong_is_said_in_words(read, topic):
    text = failure(read(subscribe="nowhere"))
    assert "there is no topic 'nowhere'" in text
    out_of_range = read(
        startingOffsets=f'{{"{topic}": {{"0": 5, "1": 0}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 9, "1": 0}}}}',
    )
    assert f"{topic}-0 [5, 9) is not all there: the partition holds [0, 0)" in failure(out_of_range)
    with pytest.raises(PySparkException) as caught:
        read(startingOffset="earliest", minPartitions="none")
    text = str(caught.value)
    assert "did you mean startingOffsets?" in text
    assert "minPartitions: expected a number" in text
    away = read(address="127.0.0.1:9", kafka__default__api__timeout__ms="200")
    assert "gave up on 127.0.0.1:9" in failure(away)


# --- Streams -----------------------------------------------------------------------------------


def test_a_stream_goes_on_from_its_checkpoint_and_keeps_to_its_limit(stream, writer, topic):
    writer.numbers(topic, 0, 0, 50)
    writer.numbers(topic, 1, 0, 20)
    rows = Rows()
    query = stream(rows, maxOffsetsPerTrigger="30")
    query.awaitTermination(250)
    assert [len(batch) for batch in rows.batches.values()] == [30, 30, 10]
    writer.numbers(topic, 0, 50, 25)
    writer.create_partitions(topic, 3)
    writer.numbers(topic, 2, 0, 5)
    stream(rows, maxOffsetsPerTrigger="30").awaitTermination(250)
    assert rows.all == [
        (partition, n, b"%d" % n) for partition, size in enumerate((75, 20, 5)) for n in range(size)
    ]
    assert [len(batch) for batch in rows.batches.values()] == [30, 30, 10, 30]


def test_a_batch_that_failed_is_read_again_as_it_was(stream, writer, topic):
    writer.numbers(topic, 0, 0, 10)
    rows = Rows()

    def fails_once(frame, number):
        rows(frame, number)
        if number == 0 and not failed:
            failed.append(list(rows.all))
            raise RuntimeError("the sink is away")

    failed = []
    with pytest.raises(PySparkException, match="the sink is away"):
        stream(fails_once).awaitTermination(250)
    writer.numbers(topic, 0, 10, 5)
    stream(fails_once).awaitTermination(250)
    assert failed[0] == rows.batches[0]
    assert [row[1] for row in rows.all] == list(range(15))


def test_lost_data_ends_a_stream_unless_it_is_told_to_go_on(stream, broker, writer, topic):
    writer.numbers(topic, 0, 0, 10)
    stream(Rows()).awaitTermination(250)
    broker.delete_topic(topic)
    broker.create_topic(topic, partitions=2, settings={"retention.ms": -1})
    writer.numbers(topic, 0, 0, 3)
    with pytest.raises(PySparkException, match=f"{topic} was deleted and recreated"):
        stream(Rows()).awaitTermination(250)
    rows = Rows()
    stream(rows, failOnDataLoss="false").awaitTermination(250)
    assert [row[1] for row in rows.all] == [0, 1, 2]


def test_a_running_stream_outlives_its_broker_and_is_seen_by_the_brokers_tools(
    spark, stream, tmp_path, topic
):
    rows = Rows()
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic(topic, partitions=2, settings={"retention.ms": -1})
        listener = track(spark, broker.kafka_address)
        with TopicWriter(broker.kafka_address) as writer:
            writer.numbers(topic, 0, 0, 10)
            query = stream(
                rows,
                address=broker.kafka_address,
                trigger={"processingTime": "0 seconds"},
                groupId="mine",
            )
            try:
                wait_for(lambda: len(rows.all) == 10, query, "the first rows")
                broker.restart()
                writer.numbers(topic, 1, 0, 20)
                wait_for(lambda: len(rows.all) == 30, query, "rows after the restart")
                name = f"spark-{topic.replace('-', '_')}"
                for group in ("mine", name):
                    wait_for(
                        partial(has_committed, broker, group, {0: 10, 1: 20}),
                        query,
                        f"offsets of {group}",
                    )
            finally:
                query.stop()
                spark.streams.removeListener(listener)
    assert rows.all == [(0, n, b"%d" % n) for n in range(10)] + [
        (1, n, b"%d" % n) for n in range(20)
    ]


def has_committed(broker, group, offsets):
    return committed(broker, group) == offsets


def committed(broker, group):
    """What `goqueue group describe` says, by partition."""
    done = subprocess.run(
        [sys.executable, "-m", "goqueue.cli", "group", "describe", group,
         "--server", broker.http_url, "-o", "json"],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    if done.returncode:
        return {}
    (offsets,) = json.loads(done.stdout)["offsets"].values() or [{}]
    return {int(number): offset for number, offset in offsets.items()}


def test_a_time_stamp_from_the_log_is_marked_as_such(spark, broker, read, writer):
    topic = broker.create_topic(next(topics), settings={"message.timestamp.type": "LogAppendTime"})
    writer.append(topic, 0, [Record(0, 5, None, b"x")])
    (row,) = read(subscribe=topic).collect()
    assert row.timestampType == 1
    assert row.timestamp.year >= 2024
