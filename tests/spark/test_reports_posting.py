"""What a task does with dead letters, against a broker that refuses some. No Spark is needed."""

from __future__ import annotations

from itertools import count

import pyarrow as pa
import pytest

from goqueue.spark.errors import BrokerAwayError
from goqueue.spark.jobs.dead_letters.redrive_task import (
    COLUMNS,
    LetterId,
    Portion,
    answers_of,
    send_letters,
)
from goqueue.spark.kafka.atomic_commit import commit_atomically
from goqueue.spark.kafka.cluster import LATEST, READ_COMMITTED, READ_UNCOMMITTED
from goqueue.spark.kafka.sharing import shared_cluster
from goqueue.spark.options.write_options import parse_write_options

names = (f"posted-{number}" for number in count())
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = (
    pa.binary(), pa.binary(), HEADERS, pa.string(), pa.int32(), pa.int32(), pa.int64(),
)  # fmt: skip


def batch(rows):
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, TYPES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


@pytest.fixture
def send(broker):
    def run(series, *batches, **more):
        given = {"bootstrap.servers": broker.kafka_address, **more}
        options = parse_write_options(given, "batch")
        cluster = shared_cluster(options.link)
        portion = Portion(options, series, 0, "run")
        answer = list(send_letters(portion, cluster, "0-0", iter(batches)))
        return answers_of([row for each in answer for row in each.to_pylist()]), cluster

    return run


def is_settled(cluster, topic, number=0):
    """Whether no transaction is open in a partition."""
    ends = [
        cluster.offsets_at({(topic, number): LATEST}, isolation)
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED)
    ]
    return ends[0] == ends[1]


def test_letters_that_a_topic_refuses_are_put_aside_and_the_others_go_in_order(broker, send):
    topic = broker.create_topic(next(names), partitions=2, settings={"max.message.bytes": 400})
    sizes = [5, 500, 40, 40, 300, 600, 5, 5, 200, 900, 901, 5, 250, 5, 1000]
    rows = [
        (
            b"k",
            b"%03d" % at + b"x" * size,
            [{"key": "n", "value": b"%d" % at}],
            topic,
            at % 2,
            7,
            at,
        )
        for at, size in enumerate(sizes)
    ]
    answers, cluster = send("one", batch(rows[:6]), batch(rows)[:0], batch(rows[6:]))
    small = [at for at, size in enumerate(sizes) if size < 350]
    assert answers.stored == len(small)
    assert set(answers.refused) == {LetterId(7, at) for at in range(len(rows)) if at not in small}
    assert all("max.message.bytes" in error for error in answers.refused.values())
    assert broker.messages(topic) == []
    assert commit_atomically(cluster, "one", 0, answers.members, 60_000)
    found = broker.messages(topic)
    for number in (0, 1):
        ours = [each for each in found if each.partition == number]
        assert [int(each.value[:3]) for each in ours] == [at for at in small if at % 2 == number]
        assert [dict(each.headers)["n"] for each in ours] == [
            b"%d" % int(e.value[:3]) for e in ours
        ]


def test_a_task_whose_letters_are_all_refused_leaves_nothing_open(broker, send):
    topic = broker.create_topic(next(names), partitions=1, settings={"max.message.bytes": 400})
    answers, cluster = send("two", batch([(None, b"x" * 500, [], topic, 0, 1, 3)]))
    assert (answers.stored, answers.members, set(answers.refused)) == (0, [], {LetterId(1, 3)})
    assert is_settled(cluster, topic)
    assert send("two", batch([(b"k", b"v", [], topic, 0, 1, 3)])[:0])[0] == (0, [], {})


def test_a_topic_that_is_gone_is_no_fault_of_a_letter_and_ends_the_attempt(broker, send):
    topic = broker.create_topic(next(names), partitions=1)
    rows = [(b"k", b"v", [], topic, 0, 1, 3), (b"k", b"v", [], "absent", 0, 1, 4)]
    with pytest.raises(BrokerAwayError, match="adding absent-0"):
        send("three", batch(rows), **{"kafka.default.api.timeout.ms": "1000"})
    broker.publish(topic, b"seen")
    assert [each.value for each in broker.messages(topic)] == [b"seen"]
