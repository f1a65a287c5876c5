"""What an attempt of a writing task does, and what becomes of attempts, without a Spark."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count

import mmh3
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyspark.taskcontext import TaskContext

from goqueue.spark.errors import (
    BrokerRefusedError,
    ColumnsError,
    OptionsError,
    RowError,
    SparkSourceError,
    TopicMissingError,
    TransactionLostError,
)
from goqueue.spark.kafka.atomic_commit import (
    abort_atomically,
    commit_atomically,
)
from goqueue.spark.kafka.producing import Producer
from goqueue.spark.kafka.sharing import close_shared, shared_cluster
from goqueue.spark.options.write_options import parse_write_options
from goqueue.spark.writing import batches
from goqueue.spark.writing.batches import BatchMaker, Partitioner
from goqueue.spark.writing.rows import byte_strings, rows_of
from goqueue.spark.writing.shape import write_columns
from goqueue.spark.writing.task import write_rows
from goqueue.spark.writing.task_identity import Attempt
from goqueue.spark.writing.writers import GoQueueBatchWriter, GoQueueStreamWriter
from goqueue.testing import Broker
from support.cluster_broker import SparkCluster, own_broker
from support.committed import committed
from support.pace import TooLateError, unhurried

names = (f"written-{number}" for number in count())
KEEP_MS = 60_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with own_broker(tmp_path_factory.mktemp("broker"), kind=SparkCluster) as running:
        yield running
    close_shared()


@pytest.fixture
def topic(broker):
    return broker.create_topic(next(names), partitions=3)


def options_for(broker, topic, **more):
    given = {"bootstrap.servers": broker.kafka_address, "topic": topic}
    return parse_write_options(given | more, "batch")


def rows(*numbers):
    return pa.RecordBatch.from_arrays(
        [pa.array([b"%d" % each for each in numbers], pa.binary())], names=["value"]
    )


class Job:
    """A driver and its tasks, which do what a test says."""

    def __init__(self, broker, topic, **more):
        self.options = options_for(broker, topic, **more)
        self.series = f"spark-{topic}"
        self.attempts = count()

    def task(self, number, *batches, partition=0):
        attempt = Attempt(self.series, number, partition, next(self.attempts))
        return write_rows(iter(batches), self.options, {"value": 0}, attempt)[0]

    def commit(self, number, *winners):
        cluster = shared_cluster(self.options.link)
        return commit_atomically(cluster, self.series, number, winners, KEEP_MS)

    def abort(self, number, *written):
        abort_atomically(shared_cluster(self.options.link), self.series, number, written)


@pytest.fixture
def job(broker, topic):
    return Job(broker, topic)


@pytest.fixture
def seen(broker, topic):
    return lambda: sorted(int(each.value) for each in committed(broker, topic))


# --- Attempts and commits ----------------------------------------------------------------------


def test_nothing_is_visible_before_the_drivers_commit(job, seen):
    winners = [job.task(0, rows(1, 2), rows(3)), job.task(0, rows(4), partition=1)]
    assert seen() == []
    assert job.commit(0, *winners) is True
    assert seen() == [1, 2, 3, 4]
    assert job.commit(0, *winners) is False
    assert seen() == [1, 2, 3, 4]


def test_an_attempt_that_fails_leaves_nothing_behind(job, seen, broker, topic):
    def dies():
        yield rows(*range(1000))
        raise RuntimeError("killed")

    attempt = Attempt(job.series, 0, 0, next(job.attempts))
    with pytest.raises(RuntimeError, match="killed"):
        write_rows(dies(), options_for(broker, topic, batchBytes="1k"), {"value": 0}, attempt)
    broker.publish(topic, "7", partition=0)  # nobody waits for the lost attempt
    broker.publish(topic, "8", partition=1)
    broker.publish(topic, "9", partition=2)
    assert seen() == [7, 8, 9]
    job.commit(0, job.task(0, rows(*range(5))))
    assert seen() == [0, 1, 2, 3, 4, 7, 8, 9]


def test_of_two_attempts_at_the_same_time_the_winner_counts(job, seen):
    first, second = job.task(0, rows(1, 2)), job.task(0, rows(1, 2))
    assert job.commit(0, second) is True
    assert seen() == [1, 2]
    with pytest.raises(TransactionLostError, match=r"kafka\.transaction\.timeout\.ms"):
        job.commit(1, first)
    assert seen() == [1, 2]


def test_a_batch_that_is_replayed_is_dropped(job, seen):
    job.commit(0, job.task(0, rows(1)))
    assert job.commit(0, job.task(0, rows(1))) is False
    job.commit(1, job.task(1, rows(2)))
    assert seen() == [1, 2]


def test_a_batch_that_is_given_up_is_dropped_with_its_unknown_attempts(job, seen):
    known, _unknown = job.task(0, rows(1)), job.task(0, rows(2), partition=1)
    job.abort(0, known)
    assert seen() == []
    job.commit(0, job.task(0, rows(1, 2)))
    assert seen() == [1, 2]


def test_a_batch_of_more_tasks_than_the_broker_takes_is_refused_with_what_to_do(job):
    tasks = [Producer(f"{job.series}::0-{number}-0", number, 0) for number in range(10_001)]
    with pytest.raises(BrokerRefusedError, match=r"10001 tasks with rows .* Coalesce the rows"):
        job.commit(0, *tasks)


def test_a_task_without_rows_writes_nothing(job, seen):
    assert job.task(0, rows()) is None
    assert job.commit(0) is True
    assert seen() == []


def test_a_transaction_that_takes_too_long_fails_its_batch(broker, topic, seen):
    def scenario(time_ms):
        job = Job(broker, topic, **{"kafka.transaction.timeout.ms": str(time_ms)})
        try:
            late = job.task(0, rows(1))
        except TransactionLostError:
            raise TooLateError from None
        broker.publish(topic, "7", partition=0)
        deadline = time.monotonic() + 90
        while seen() != [7]:  # the broker gives up on the task, and lets readers go on
            assert time.monotonic() < deadline
        with pytest.raises(TransactionLostError):
            job.commit(0, late)

    unhurried(scenario)
    assert seen() == [7]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_write_survives_a_broker_that_restarts(tmp_path, compression):
    with Broker(data_dir=tmp_path) as broker:
        topic = broker.create_topic(next(names), partitions=2)
        job = Job(broker, topic, batchBytes="4k", **{"kafka.compression.type": compression})

        def interrupted():
            for start in range(0, 20_000, 2000):
                yield rows(*range(start, start + 2000))
                if start in {4000, 12_000}:
                    broker.restart()

        winner = job.task(0, rows(20_000), partition=1)
        attempt = Attempt(job.series, 0, 0, 99)
        other = write_rows(interrupted(), job.options, {"value": 0}, attempt)[0]
        broker.restart()
        assert committed(broker, topic) == []
        job.commit(0, winner, other)
        broker.restart()
        found = Counter(int(each.value) for each in committed(broker, topic))
        assert found == Counter(range(20_001))


def test_a_missing_topic_is_said(broker):
    with pytest.raises(TopicMissingError, match="there is no topic 'nowhere' to write to"):
        Job(broker, "nowhere").task(0, rows(1))


# --- Rows --------------------------------------------------------------------------------------

keys = st.one_of(st.none(), st.binary(max_size=6))


@given(st.lists(keys), st.integers(0, 5), st.booleans())
def test_bytes_are_cut_out_of_any_slice(values, skip, as_text):
    if as_text:
        values = [None if each is None else each.hex() for each in values]
    column = pa.array(values, pa.string() if as_text else pa.binary())[skip:]
    expected = [each.encode() if isinstance(each, str) else each for each in values[skip:]]
    assert byte_strings(column) == expected


far_us = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)  # the years 1 to 9999


@given(
    st.lists(st.one_of(st.none(), st.integers(-5000, 5000), far_us)),
    st.sampled_from(["UTC", "Asia/Kolkata"]),  # the session's
)
def test_time_stamps_are_rounded_down_to_milliseconds(micros, zone):
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(["x"] * len(micros), pa.string()),
            pa.array(micros, pa.timestamp("us", zone)),
        ],
        names=["value", "timestamp"],
    )
    found = rows_of(batch, {"value": 0, "timestamp": 1}).timestamps_ms
    now_ms = time.time() * 1000
    for given_us, found_ms in zip(micros, found, strict=True):
        if given_us is None:
            assert abs(found_ms - now_ms) < 60_000
        else:
            assert found_ms == given_us // 1000


def test_delivery_goes_into_headers():
    due = datetime(2030, 1, 1, tzinfo=UTC) + timedelta(milliseconds=5)
    kinds: dict[str, pa.DataType] = {
        "value": pa.string(),
        "priority": pa.string(),
        "deliver_at": pa.timestamp("us", "UTC"),
    }
    batch = pa.RecordBatch.from_pylist(
        [
            {"value": "a", "priority": "Critical", "deliver_at": due},
            {"value": "b", "priority": "2", "deliver_at": None},
            {"value": "c", "priority": None, "deliver_at": None},
        ],
        schema=pa.schema(kinds),
    )  # fmt: skip
    found = rows_of(batch, {"value": 0, "priority": 1, "deliver_at": 2}).headers
    moment = b"%d" % round(due.timestamp() * 1000)
    assert found == [
        (("goqueue-priority", b"critical"), ("goqueue-deliver-at", moment)),
        (),
        (),
    ]
    bad = pa.RecordBatch.from_pylist([{"value": "a", "priority": "soon"}])
    with pytest.raises(RowError, match="'soon' is no priority"):
        rows_of(bad, {"value": 0, "priority": 1})


def test_a_priority_that_is_named_goes_before_the_one_in_the_headers():
    was = [{"key": "goqueue-priority", "value": b"high"}, {"key": "a", "value": None}]
    rest = (("a", None),)
    batch = pa.RecordBatch.from_pylist(
        [{"value": "x", "headers": was, "priority": each} for each in ("low", "normal", None)]
    )
    assert rows_of(batch, {"value": 0, "headers": 1, "priority": 2}).headers == [
        (*rest, ("goqueue-priority", b"low")),
        rest,
        (("goqueue-priority", b"high"), *rest),
    ]


def test_a_topic_that_would_not_heed_a_priority_is_refused(broker, topic):
    batch = pa.RecordBatch.from_pylist([{"value": "a", "priority": "high"}])
    columns = {"value": 0, "priority": 1}
    options = options_for(broker, topic)
    with pytest.raises(RowError, match=r"set goqueue\.kafka\.headers=true"):
        write_rows(iter([batch]), options, columns, Attempt("spark-h", 0, 0, 0))
    plain = pa.RecordBatch.from_pylist([{"value": "a", "priority": "normal"}])
    assert write_rows(iter([plain]), options, columns, Attempt("spark-h", 0, 0, 1))[1] == 1
    heeding = broker.create_topic(next(names), settings={"goqueue.kafka.headers": "true"})
    options = options_for(broker, heeding)
    assert write_rows(iter([batch]), options, columns, Attempt("spark-h", 0, 0, 2))[1] == 1


@given(
    st.lists(st.tuples(keys, st.binary(max_size=40), st.one_of(st.none(), st.integers(0, 3)))),
    st.integers(64, 400),
    st.integers(1, 7),
)
def test_batches_hold_every_row_once_in_order_and_are_no_longer_than_asked(given_rows, size, step):
    maker = BatchMaker(lambda _: 4, topic="t", partitioner="mmh3", batch_bytes=size)
    made = []
    for start in range(0, len(given_rows), step):
        part = given_rows[start : start + step]
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([key for key, _, _ in part], pa.binary()),
                pa.array([b"%d:" % (start + at) + v for at, (_, v, _) in enumerate(part)]),
                pa.array([number for _, _, number in part], pa.int32()),
            ],
            names=["key", "value", "partition"],
        )
        made += maker.add(rows_of(batch, {"key": 0, "value": 1, "partition": 2}))
    made += maker.rest()
    by_place = {}
    for place, pending in made:
        records = pending.records()
        assert [each[0] for each in records] == list(range(len(records)))
        assert pending.size_bytes <= size or len(records) == 1
        by_place.setdefault(place[1], []).extend(records)
    found = []
    for number, records in by_place.items():
        indexes = [int(record[3].split(b":")[0]) for record in records]
        assert indexes == sorted(indexes)
        for at, record in zip(indexes, records, strict=True):
            key, _, wanted = given_rows[at]
            assert record[2] == key
            if wanted is not None:
                assert number == wanted
            elif key is not None:
                assert number == mmh3.hash(key, signed=False) % 4
        found += indexes
    assert sorted(found) == list(range(len(given_rows)))


def test_a_task_with_many_partitions_keeps_to_its_memory(monkeypatch):
    monkeypatch.setattr(batches, "WAITING_BYTES", 4000)
    maker = BatchMaker(lambda _: 50, topic="t", partitioner="mmh3", batch_bytes=1000)
    sizes, count = Counter(), 0
    for start in range(0, 2000, 10):
        keys = [b"%d" % each for each in range(start, start + 10)]
        batch = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(keys)], names=["key", "value"])
        for place, pending in maker.add(rows_of(batch, {"key": 0, "value": 1})):
            count += len(pending.values)
            sizes[place] += 1
        assert sum(each.size_bytes for each in maker._pending.values()) <= 4000
    assert len(sizes) == 50
    assert count + sum(len(pending.values) for _, pending in maker.rest()) == 2000


def test_rows_without_keys_take_turns_by_the_batch():
    partitioner = Partitioner("mmh3", 3, first=2)
    assert [partitioner.turn() for _ in range(4)] == [2, 0, 1, 2]
    assert partitioner.partitions([None, None]) == [0, 0]
    assert partitioner.partitions([None]) == [1]


def test_long_keys_are_not_remembered_and_lead_to_the_same_partition_each_time():
    partitioner = Partitioner("mmh3", 1000, first=0)
    keys = [b"short", bytes(257)]
    expected = [mmh3.hash(key, signed=False) % 1000 for key in keys]
    assert partitioner.partitions(keys) == partitioner.partitions(keys) == expected
    assert list(partitioner._known) == [b"short"]


# --- Options and columns -----------------------------------------------------------------------


def test_all_problems_of_the_options_are_said_together():
    with pytest.raises(OptionsError) as caught:
        parse_write_options(
            {"tpoic": "x", "guarantee": "best", "txnVersion": "-1", "kafka.compression.type": "7z"},
            "batch",
        )
    text = str(caught.value)
    for problem in (
        "unknown option tpoic; did you mean topic?",
        "bootstrap.servers is missing",
        "guarantee: expected exactly-once or at-least-once",
        "txnVersion: expected a number",
        "belong together",
        "kafka.compression.type: expected none or",
    ):
        assert problem in text
    with pytest.raises(OptionsError, match="a stream has its own numbers"):
        parse_write_options(
            {"bootstrap.servers": "a:1", "txnAppId": "x", "txnVersion": "1"}, "stream"
        )
    with pytest.raises(OptionsError, match="txnVersion: expected a number from 0 to"):
        parse_write_options(
            {"bootstrap.servers": "a:1", "txnAppId": "x", "txnVersion": str(2**63)}, "batch"
        )


def columns_of(text, **options):
    given = {"bootstrap.servers": "a:1", **options}
    return write_columns(_parse_struct(text), parse_write_options(given, "batch"))


def _parse_struct(text):
    fields = []
    for each in text.split(", "):
        name, kind = each.split(" ", 1)
        fields.append({"name": name, "type": kind, "nullable": True, "metadata": {}})
    from pyspark.sql.types import StructType  # noqa: PLC0415 - only these tests need it

    return StructType.fromJson({"type": "struct", "fields": fields})


@pytest.fixture
def in_a_task(monkeypatch):
    """A task of a batch query, as Spark tells its workers."""
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    context = TaskContext()  # takes its place
    context._partitionId, context._taskAttemptId, context._localProperties = 0, 7, {}


@pytest.mark.usefixtures("in_a_task")
def test_one_number_of_an_application_counts_once_in_each_topic(broker, topic):
    other = broker.create_topic(next(names))
    for target in (topic, other, topic):
        options = options_for(broker, target, txnAppId=topic, txnVersion="3")
        writer = GoQueueBatchWriter(options, {"value": 0})
        writer.commit([writer.write(iter([rows(1, 2)]))])
    for each in (topic, other):
        assert [int(message.value) for message in committed(broker, each)] == [1, 2]


@pytest.mark.usefixtures("in_a_task")
def test_a_stream_that_is_written_at_least_once_needs_no_number(broker, topic):
    given = {"bootstrap.servers": broker.kafka_address, "topic": topic}
    strict = GoQueueStreamWriter(parse_write_options(given, "stream"), {"value": 0})
    with pytest.raises(SparkSourceError, match="write with guarantee=at-least-once"):
        strict.write(iter([rows(1)]))
    given["guarantee"] = "at-least-once"
    loose = GoQueueStreamWriter(parse_write_options(given, "stream"), {"value": 0})
    loose.commit([loose.write(iter([rows(1, 2)]))], 0)
    assert [each.value for each in committed(broker, topic)] == [b"1", b"2"]


def test_columns_are_found_whatever_their_case():
    found = columns_of("Value binary, KEY string, offset long", topic="t")
    assert found == {"value": 0, "key": 1, "offset": 2}


def test_a_column_that_is_there_twice_is_refused_and_not_taken_for_its_neighbour():
    for twice in ("value string, value string, key string", "value string, VALUE string"):
        with pytest.raises(ColumnsError, match="there are two columns value"):
            columns_of(twice, topic="t")


def test_all_problems_of_the_columns_are_said_together():
    with pytest.raises(ColumnsError) as caught:
        columns_of(
            "key integer, body string, deliver_at timestamp, delay_ms long, timestamp timestamp_ntz"
        )
    text = str(caught.value)
    for problem in (
        "key is int: expected binary or string",
        "a message has no body",
        "timestamp is timestamp_ntz: expected timestamp",
        "there is no column value",
        "neither an option nor a column topic",
        "deliver_at and delay_ms say the same",
    ):
        assert problem in text
