"""The synchronous client against a real broker: ranges out, whatever happens in between."""

from __future__ import annotations

import socket
from dataclasses import replace
from itertools import count

import confluent_kafka
import pyarrow as pa
import pytest

from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record
from goqueue.spark.errors import (
    BrokerAwayError,
    BrokerRefusedError,
    ConnectionLostError,
    DataLossError,
    LoginError,
    TopicMissingError,
)
from goqueue.spark.kafka.cluster import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Cluster,
    check_code,
)
from goqueue.spark.kafka.fetching import RangeFetcher
from goqueue.spark.kafka.ranges import OffsetRange
from goqueue.spark.kafka.settings import LinkSettings, Security
from goqueue.spark.kafka.waiting import sample_record_bytes, wait_for_news
from goqueue.spark.reading.columns import ARROW_TYPES, RowBuilder
from goqueue.testing import Broker
from goqueue.wire.kafka.api_keys import ApiKey
from support.certificates import Authority
from support.topic_writer import TopicWriter

NAMES = ["partition", "offset", "value"]
SCHEMA = pa.schema([pa.field(name, ARROW_TYPES[name]) for name in NAMES])

topics = (f"fetched-{number}" for number in count())


def link_to(address, **options):
    host, _, port = address.rpartition(":")
    quick = {"patience_s": 5.0, "retry_backoff_s": 0.02, "max_backoff_s": 0.1}
    return LinkSettings(((host, int(port)),), **quick | options)


KEPT = {"retention.ms": -1}  # the numbers' times are long ago


@pytest.fixture
def topic(broker):
    return broker.create_topic(next(topics), partitions=2, settings=KEPT)


@pytest.fixture
def cluster(broker):
    made = Cluster(link_to(broker.kafka_address))
    yield made
    made.close()


@pytest.fixture
def writer(broker):
    with TopicWriter(broker.kafka_address) as made:
        yield made


def whole(cluster, topic, isolation=READ_COMMITTED):
    view = cluster.topics([topic])[topic]
    places = [(topic, number) for number in view.partitions]
    starts = cluster.offsets_at(dict.fromkeys(places, EARLIEST), isolation)
    ends = cluster.offsets_at(dict.fromkeys(places, LATEST), isolation)
    return [
        OffsetRange(topic, view.topic_id, number, starts[topic, number], ends[topic, number])
        for _, number in places
    ]


def fetcher(cluster, ranges, *, fails=True, chunk_bytes=1 << 20, isolation=READ_COMMITTED):
    return RangeFetcher(
        cluster, ranges, isolation=isolation, chunk_bytes=chunk_bytes, fail_on_data_loss=fails
    )


def rows(cluster, ranges, **options):
    builder = RowBuilder(SCHEMA, NAMES)
    return [
        (row["partition"], row["offset"], row["value"])
        for chunk in fetcher(cluster, ranges, **options).chunks()
        for batch in builder.batches(chunk)
        for row in batch.to_pylist()
    ]


def test_ranges_come_out_whole_and_in_order(cluster, writer, topic):
    for first in range(0, 300, 100):
        writer.numbers(topic, 0, first, 100)
        writer.numbers(topic, 1, first, 100)
    expected = [(part, n, b"%d" % n) for part in (0, 1) for n in range(300)]
    assert rows(cluster, whole(cluster, topic)) == expected
    one, two = whole(cluster, topic)
    some = [one._replace(start=150, end=151), two._replace(start=99, end=201)]
    found = rows(cluster, some)
    assert [row[1] for row in found] == [150, *range(99, 201)]
    assert rows(cluster, [one._replace(end=0)]) == []


def test_a_range_longer_than_a_chunk_is_read_chunk_by_chunk(cluster, writer, topic):
    for first in range(40):
        writer.append(topic, 0, [Record(0, 1, None, b"%05d" % first * 2000)])
    (one, two) = whole(cluster, topic)
    chunks = list(fetcher(cluster, [two, one], chunk_bytes=100_000).chunks())
    assert len(chunks) > 3
    assert max(len(chunk.data) for chunk in chunks) <= 100_000
    assert len(rows(cluster, [one], chunk_bytes=100_000)) == 40


def test_a_batch_larger_than_a_chunk_is_read_all_the_same(cluster, writer, topic):
    writer.append(topic, 0, [Record(0, 1, None, bytes(500_000))])
    writer.append(topic, 1, [Record(0, 1, None, bytes(500_000))])
    found = rows(cluster, whole(cluster, topic), chunk_bytes=65_536)
    assert [len(value) for _, _, value in found] == [500_000, 500_000]


def test_aborted_transactions_are_not_read(broker, cluster, topic):
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.kafka_address, "transactional.id": topic, "linger.ms": 0}
    )
    producer.init_transactions(10)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(10)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(10)
    assert [row[2] for row in rows(cluster, whole(cluster, topic))] == [b"0", b"2", b"4"]
    everything = whole(cluster, topic, READ_UNCOMMITTED)
    assert len(rows(cluster, everything, isolation=READ_UNCOMMITTED)) == 6


def test_offsets_that_retention_removed_are_named_or_stepped_over(cluster, writer, topic, caplog):
    for first in range(0, 30, 10):
        writer.numbers(topic, 0, first, 10)
    one, _ = whole(cluster, topic)
    writer.delete_records(topic, 0, 20)
    with pytest.raises(DataLossError, match=r"offsets 5 to 19 of .*-0 are gone.*starts at 20"):
        rows(cluster, [one._replace(start=5)])
    assert [row[1] for row in rows(cluster, [one._replace(start=5)], fails=False)] == list(
        range(20, 30)
    )
    assert "offsets 5 to 19" in caplog.text


def test_offsets_behind_the_end_of_the_log_are_named(cluster, writer, topic):
    writer.numbers(topic, 0, 0, 3)
    one, _ = whole(cluster, topic)
    with pytest.raises(DataLossError, match="offsets 7 to 8"):
        rows(cluster, [one._replace(start=7, end=9)])
    with pytest.raises(DataLossError, match=r"offsets 3 to 8 of .* the log ends at 3"):
        rows(cluster, [one._replace(start=1, end=9)])
    assert rows(cluster, [one._replace(start=7, end=9)], fails=False) == []


def test_a_topic_made_anew_is_not_taken_for_the_one_before(broker, cluster, writer, topic):
    writer.numbers(topic, 0, 0, 5)
    before, _ = whole(cluster, topic)
    broker.delete_topic(topic)
    with pytest.raises(DataLossError, match="the topic was deleted"):
        rows(cluster, [before])
    broker.create_topic(topic, partitions=2, settings=KEPT)
    writer.numbers(topic, 0, 100, 5)
    with pytest.raises(DataLossError, match="deleted and recreated"):
        rows(cluster, [before])
    assert rows(cluster, [before], fails=False) == []


def test_a_topic_deleted_during_the_read_is_named(broker, cluster, writer, topic):
    for _ in range(20):
        writer.append(topic, 0, [Record(0, 1, None, bytes(60_000))])
    chunks = fetcher(cluster, whole(cluster, topic), chunk_bytes=65_536).chunks()
    next(chunks)
    broker.delete_topic(topic)
    with pytest.raises(DataLossError, match="deleted"):
        list(chunks)


def test_a_broker_that_starts_again_midway_costs_and_doubles_nothing(tmp_path):
    with Broker(data_dir=tmp_path) as broker:
        topic = broker.create_topic(partitions=2, settings=KEPT)
        with TopicWriter(broker.kafka_address) as writer:
            for number in range(60):
                writer.append(topic, number % 2, [Record(0, 1, None, b"%02d" % number * 8000)])
        cluster = Cluster(link_to(broker.kafka_address, patience_s=20.0))
        chunks = fetcher(cluster, whole(cluster, topic), chunk_bytes=65_536).chunks()
        builder, found = RowBuilder(SCHEMA, NAMES), []
        for number, chunk in enumerate(chunks):
            if number in {2, 9}:
                broker.restart()
            for batch in builder.batches(chunk):
                found += batch.column(2).to_pylist()
        cluster.close()
    assert [value[:2] for value in found] == [
        b"%02d" % number for part in (0, 1) for number in range(part, 60, 2)
    ]


# --- Looking things up -------------------------------------------------------------------------


def test_offsets_of_moments(cluster, writer, topic):
    writer.numbers(topic, 0, 0, 10, at_ms=1000)
    place = (topic, 0)
    for moment, offset in ((0, 0), (1, 1), (3000, 3), (3001, 4), (9001, -1)):
        assert cluster.offsets_at({place: moment}, READ_COMMITTED) == {place: offset}


def test_topics_that_are_not_there_are_left_out_and_not_made(cluster, topic):
    assert set(cluster.topics([topic, "nowhere"])) == {topic}
    assert "nowhere" not in cluster.topics(None)
    with pytest.raises(TopicMissingError, match="nowhere"):
        cluster.leader_of(TopicPartition("nowhere", 0))


def test_waiting_ends_with_the_first_news(broker, cluster, writer, topic):
    view = cluster.topics([topic])[topic]
    ends = {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}
    ids = {topic: view.topic_id}
    wait_for_news(cluster, ids, ends, READ_COMMITTED, 0.05)  # nothing comes
    writer.numbers(topic, 1, 0, 1)
    wait_for_news(cluster, ids, ends, READ_COMMITTED, 60.0)  # would outlast the test


def test_a_sample_tells_how_long_records_are(cluster, writer, topic):
    view = cluster.topics([topic])[topic]
    writer.append(topic, 0, [Record(n, 1, None, bytes(1000)) for n in range(100)])
    writer.append(topic, 1, [Record(n, 1, None, bytes(10)) for n in range(100)])
    sizes = sample_record_bytes(
        cluster,
        {topic: view.topic_id},
        {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0},
        READ_COMMITTED,
    )
    assert sizes[TopicPartition(topic, 0)] == pytest.approx(1010, rel=0.02)
    assert sizes[TopicPartition(topic, 1)] == pytest.approx(18, rel=0.2)


def test_codes_are_tried_again_or_not():
    check_code(0, "x")
    with pytest.raises(BrokerAwayError, match="leader_not_available"):
        check_code(5, "x")
    with pytest.raises(BrokerRefusedError, match="topic_authorization_failed") as caught:
        check_code(29, "x")
    assert caught.value.code == 29


def test_a_broker_that_is_not_there_is_named_with_the_option_that_waits_longer():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        cluster = Cluster(link_to(f"127.0.0.1:{unused.getsockname()[1]}", patience_s=0.2))
        with pytest.raises(BrokerAwayError, match=r"127.0.0.1:\d+ after .*default.api.timeout"):
            cluster.topics(["any"])


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP: expected the port of Kafka's"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "a frame of 1397966893 bytes"),
    ],
)
def test_something_else_than_a_broker_is_no_reason_to_reserve_memory(said, reason):
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster = Cluster(
            link_to(f"127.0.0.1:{server.getsockname()[1]}", patience_s=0.0, request_timeout_s=5.0)
        )
        connection = cluster.to_any()
        peer, _ = server.accept()
        peer.sendall(said)
        with peer, pytest.raises(BrokerAwayError, match=reason):
            cluster.topics(["any"])
        assert not connection.is_open


def test_a_connection_with_an_answer_that_came_too_late_is_never_used_again():
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster = Cluster(link_to(f"127.0.0.1:{server.getsockname()[1]}", request_timeout_s=0.05))
        connection = cluster.to_any()
        with pytest.raises(ConnectionLostError, match="timed out"):
            connection.call(ApiKey.API_VERSIONS, 0)
        with pytest.raises(ConnectionLostError):
            connection.send(ApiKey.API_VERSIONS, 0)
        with pytest.raises(ConnectionLostError, match="nothing is under way"):
            connection.receive()
        assert cluster.to_any() is not connection
        with pytest.raises(BrokerAwayError, match="no broker 7"):
            cluster.to_node(7)
        cluster.close()


# --- Logging in --------------------------------------------------------------------------------

PASSWORD = "wonder:land="


@pytest.fixture(scope="module", params=["plain", "tls"])
def guarded(request, tmp_path_factory):
    """A broker that asks who we are, and how to trust it."""
    settings = {"sasl.enabled": True, "sasl.users": [f"alice:{PASSWORD}"]}
    ca_file = None
    if request.param == "tls":
        authority = Authority(tmp_path_factory.mktemp("authority"))
        certificate, key = authority.issue("server")
        settings |= {"tls.enabled": True, "tls.cert_file": certificate, "tls.key_file": key}
        ca_file = str(authority.ca_file)
    with Broker(settings=settings) as running:
        running.create_topic("guarded")
        yield running, Security(is_tls=ca_file is not None, ca_file=ca_file)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_logging_in(guarded, mechanism):
    broker, security = guarded
    _, port = broker.kafka_address.split(":")

    def seen(password):
        access = replace(security, mechanism=mechanism, user="alice", password=password)
        cluster = Cluster(link_to(f"localhost:{port}", security=access, patience_s=2.0))
        try:
            return set(cluster.topics(["guarded"]))
        finally:
            cluster.close()

    assert seen(PASSWORD) == {"guarded"}
    with pytest.raises(LoginError):
        seen("wrong")


@pytest.mark.parametrize("guarded", ["tls"], indirect=True)
def test_a_broker_that_is_not_trusted_is_not_tried_again(guarded, tmp_path):
    broker, security = guarded
    for file, reason in (
        (Authority(tmp_path).ca_file, "cannot be trusted: .*certificate"),
        (tmp_path / "none.pem", "cannot use .*none.pem: .*No such file"),
    ):
        strict = replace(security, ca_file=str(file))
        cluster = Cluster(link_to(broker.kafka_address, security=strict, patience_s=600.0))
        with pytest.raises(LoginError, match=reason):
            cluster.topics([])
