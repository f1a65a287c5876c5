"""The synchronous client against a real broker: ranges out, whatever happens in between."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections import Counter
from itertools import count

import confluent_kafka
import pyarrow as pa
import pytest

from goqueue.client.consuming.log_offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from goqueue.client.link.addresses import parse_addresses
from goqueue.client.link.codes import check_code
from goqueue.client.settings import ClientSettings
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record
from goqueue.spark.errors import (
    BrokerAwayError,
    BrokerRefusedError,
    DataLossError,
    LoginError,
    TopicMissingError,
)
from goqueue.spark.kafka.cluster import Cluster
from goqueue.spark.kafka.fetching import RangeFetcher
from goqueue.spark.kafka.ranges import OffsetRange
from goqueue.spark.kafka.settings import LinkSettings
from goqueue.spark.kafka.sharing import shared_cluster
from goqueue.spark.kafka.waiting import sample_record_bytes, wait_for_news
from goqueue.spark.reading.columns import ARROW_TYPES, RowBuilder
from goqueue.testing import Broker
from support.certificates import Authority
from support.topic_writer import TopicWriter

NAMES = ["partition", "offset", "value"]
SCHEMA = pa.schema([pa.field(name, ARROW_TYPES[name]) for name in NAMES])

topics = (f"fetched-{number}" for number in count())


def link_to(address, patience_s=5.0, **options):
    client = ClientSettings(**{"backoff_ms": 20, "max_backoff_ms": 100} | options)
    return LinkSettings(parse_addresses(address), client, patience_s)


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
    places = [TopicPartition(topic, number) for number in view.partitions]
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
    place = TopicPartition(topic, 0)
    for moment, offset in ((0, 0), (1, 1), (3000, 3), (3001, 4), (9001, -1)):
        assert cluster.offsets_at({place: moment}, READ_COMMITTED) == {place: offset}


def test_topics_that_are_not_there_are_left_out_and_not_made(cluster, topic):
    assert set(cluster.topics([topic, "nowhere"])) == {topic}
    assert "nowhere" not in cluster.topics(None)
    with pytest.raises(TopicMissingError, match="nowhere"):
        cluster.offsets_at({TopicPartition("nowhere", 0): LATEST}, READ_COMMITTED)


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
    cluster = Cluster(link_to("127.0.0.1:9", patience_s=0.2))
    tried = Counter()

    async def refused(code):
        tried[code] += 1
        check_code(code, "x")

    with pytest.raises(BrokerAwayError, match=r"gave up on .* last: x: .* leader_not_available"):
        cluster.retry("asking", lambda: refused(5))
    with pytest.raises(BrokerRefusedError, match="topic_authorization_failed"):
        cluster.retry("asking", lambda: refused(29))
    assert tried[5] > 1
    assert tried[29] == 1


def test_a_broker_that_is_not_there_is_named_with_the_option_that_waits_longer():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        cluster = Cluster(link_to(f"127.0.0.1:{unused.getsockname()[1]}", patience_s=0.2))
        with pytest.raises(BrokerAwayError, match=r"127.0.0.1:\d+ after .*default.api.timeout"):
            cluster.topics(["any"])


def test_something_else_than_a_broker_is_named_and_not_tried_again():
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster = Cluster(link_to(f"127.0.0.1:{server.getsockname()[1]}", patience_s=600.0))

        def answer():
            peer, _ = server.accept()
            with peer:
                peer.recv(1024)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(BrokerRefusedError, match="does not speak Kafka's protocol but HTTP"):
            cluster.topics(["any"])
        answering.join()


def test_a_broker_that_does_not_answer_in_time_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        cluster = Cluster(link_to(address, patience_s=0.2, call_timeout_ms=50))
        with pytest.raises(BrokerAwayError, match=f"no answer from {address} within 0.05 s"):
            cluster.topics([])


def test_a_forked_child_makes_connections_of_its_own(broker, topic):
    settings = link_to(broker.kafka_address)
    own = shared_cluster(settings)
    assert set(own.topics([topic])) == {topic}
    with (
        pytest.warns(DeprecationWarning, match="fork")
        if sys.version_info >= (3, 12)
        else (contextlib.nullcontext())
    ):
        child = os.fork()
    if not child:
        its = shared_cluster(settings)
        os._exit(0 if its is not own and set(its.topics([topic])) == {topic} else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert shared_cluster(settings) is own
    assert set(own.topics([topic])) == {topic}


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
        yield running, {"ca_file": ca_file}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_logging_in(guarded, mechanism):
    broker, security = guarded
    _, port = broker.kafka_address.split(":")

    def seen(password):
        access = {"sasl_mechanism": mechanism, "username": "alice", "password": password}
        cluster = Cluster(link_to(f"localhost:{port}", patience_s=2.0, **security, **access))
        try:
            return set(cluster.topics(["guarded"]))
        finally:
            cluster.close()

    assert seen(PASSWORD) == {"guarded"}
    with pytest.raises(LoginError):
        seen("wrong")


@pytest.mark.parametrize("guarded", ["tls"], indirect=True)
def test_a_broker_that_is_not_trusted_is_not_tried_again(guarded, tmp_path):
    broker, _ = guarded
    for file, reason in (
        (Authority(tmp_path).ca_file, "cannot be trusted: .*certificate"),
        (tmp_path / "none.pem", r"cannot be used \(.*none.pem\): .*No such file"),
    ):
        cluster = Cluster(link_to(broker.kafka_address, patience_s=600.0, ca_file=str(file)))
        with pytest.raises(LoginError, match=reason):
            cluster.topics([])
