"""The one way into a partition: what it takes, what it refuses, and what it changes on the way."""

from __future__ import annotations

import asyncio
import struct
import threading
from typing import Any

import pytest
from crc32c import crc32c

from goqueue.broker.log_broker import DISK_THREADS
from goqueue.metrics.names import BYTES_PUBLISHED, MESSAGES_PUBLISHED
from goqueue.model.errors import (
    BatchTooLargeError,
    ChecksumMismatchError,
    DecompressionError,
    DiskFullError,
    FencedProducerError,
    ForeignMagicError,
    InternalTopicError,
    MalformedBatchError,
    MalformedHeadersError,
    MalformedRecordError,
    OutOfOrderSequenceError,
    TruncatedBatchError,
    UnknownCompressionError,
    UnknownPartitionError,
    UnknownProducerError,
    UnknownTopicError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.new_messages import NewMessage
from goqueue.publishing.requests import Acks, PublishRequest
from goqueue.records import LOG_APPEND_TIME, Compression, Record, encode
from goqueue.records.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL, peek
from support.brokers import publish, read_all, running_broker
from support.clocks import ManualClock


def _batch(*values: bytes | None, key: bytes | None = b"k", **fields) -> bytearray:
    return encode([Record(n, 1000 + n, key, value) for n, value in enumerate(values)], **fields)


GOOD = _batch(b"a", b"b")


def _changed(at: int, layout: str, value: int, *, seal: bool = True) -> bytearray:
    """The good batch with one field of its header changed."""
    data = bytearray(GOOD)
    struct.pack_into(layout, data, at, value)
    if seal:
        struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return data


def _run(folder, scenario, **options):
    async def main():
        async with running_broker(folder, **options) as broker:
            await broker.create_topic("t", 1)
            await scenario(broker)

    asyncio.run(main())


def _publish(broker, batch, topic="t", number=0, **options):
    return broker.publisher.publish(
        PublishRequest(TopicPartition(topic, number), memoryview(batch), **options)
    )


REFUSED: dict[str, tuple[type[Exception], bytes | bytearray, dict[str, Any]]] = {
    "an unknown topic": (UnknownTopicError, GOOD, {"topic": "absent"}),
    "an unknown partition": (UnknownPartitionError, GOOD, {"number": 1}),
    "a negative partition": (UnknownPartitionError, GOOD, {"number": -1}),
    "an internal topic": (InternalTopicError, GOOD, {"topic": "__consumer_offsets"}),
    "nothing": (TruncatedBatchError, b"", {}),
    "a cut batch": (TruncatedBatchError, GOOD[:-1], {}),
    "a cut header": (TruncatedBatchError, GOOD[:40], {}),
    "bytes behind the batch": (MalformedBatchError, GOOD + b"x", {}),
    "an old format": (ForeignMagicError, _changed(16, ">b", 1, seal=False), {}),
    "a wrong checksum": (ChecksumMismatchError, _changed(57, ">i", 2, seal=False)[:-1] + b"!", {}),
    "an unknown codec": (UnknownCompressionError, _changed(21, ">h", 7), {}),
    "a marker": (MalformedBatchError, _batch(b"a", attributes=CONTROL), {}),
    "a delete horizon": (MalformedBatchError, _batch(None, attributes=DELETE_HORIZON), {}),
    "a transaction": (UnknownProducerError, _batch(b"a", attributes=TRANSACTIONAL), {}),
    "no records": (MalformedBatchError, _changed(57, ">i", 0), {}),
    "more offsets than records": (MalformedBatchError, _changed(23, ">i", 7), {}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_stored_is_refused_and_leaves_no_trace(tmp_path, what):
    error, batch, options = REFUSED[what]

    async def scenario(broker):
        with pytest.raises(error):
            _publish(broker, bytearray(batch), **options)
        assert await read_all(broker, "t") == []
        assert _publish(broker, bytearray(GOOD)).placed.first_offset == 0

    _run(tmp_path, scenario)


def test_the_limit_is_that_of_the_topic_and_holds_to_the_byte(tmp_path):
    async def scenario(broker):
        await broker.create_topic("exact", 1, {"max.message.bytes": str(len(GOOD))})
        await broker.create_topic("less", 1, {"max.message.bytes": str(len(GOOD) - 1)})
        _publish(broker, bytearray(GOOD), "exact")
        with pytest.raises(BatchTooLargeError, match="less"):
            _publish(broker, bytearray(GOOD), "less")

    _run(tmp_path, scenario)


def test_a_batch_that_outgrows_the_limit_when_it_is_stored_is_refused(tmp_path):
    async def scenario(broker):
        settings = {"compression.type": "uncompressed", "max.message.bytes": "500"}
        await broker.create_topic("plain", 1, settings)
        batch = _batch(b"0" * 1000, compression=Compression.GZIP)
        assert len(batch) < 500
        with pytest.raises(BatchTooLargeError):
            _publish(broker, batch, "plain")
        assert await read_all(broker, "plain") == []

    _run(tmp_path, scenario)


def test_records_that_do_not_decode_are_refused_where_they_would_be_stored_anew(tmp_path):
    async def scenario(broker):
        await broker.create_topic("zstd", 1, {"compression.type": "zstd"})
        batch = _batch(b"0" * 1000, compression=Compression.GZIP)
        batch[70:80] = b"not gzip!!"
        struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
        with pytest.raises(DecompressionError):
            _publish(broker, batch, "zstd")

    _run(tmp_path, scenario)


def test_a_full_disk_refuses_everything_until_there_is_room(tmp_path):
    async def scenario(broker):
        broker.publisher.disk_full = "no room"
        with pytest.raises(DiskFullError, match="no room"):
            _publish(broker, bytearray(GOOD))
        broker.publisher.disk_full = None
        _publish(broker, bytearray(GOOD))

    _run(tmp_path, scenario)


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_a_compacted_topic_wants_a_key_on_every_record(tmp_path, codec):
    async def scenario(broker):
        await broker.create_topic("table", 1, {"cleanup.policy": "compact"})
        kind = Compression.GZIP if codec else Compression.NONE
        with pytest.raises(MalformedRecordError):
            _publish(broker, _batch(b"v", key=None, compression=kind), "table")
        _publish(broker, _batch(b"v", None, key=b"", compression=kind), "table")

    _run(tmp_path, scenario)


def test_the_broker_itself_writes_internal_topics(tmp_path):
    async def scenario(broker):
        _publish(broker, bytearray(GOOD), "__consumer_offsets", internal=True)

    _run(tmp_path, scenario)


# --- Idempotent producers -------------------------------------------------------------------------


def test_a_producers_batches_are_stored_once_and_in_order(tmp_path):
    async def scenario(broker):
        producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1}
        assert publish(broker, "t", b"a", b"b", base_sequence=0, **producer).placed == (0, 2, False)
        assert publish(broker, "t", b"a", b"b", base_sequence=0, **producer).placed == (0, 2, True)
        with pytest.raises(OutOfOrderSequenceError):
            publish(broker, "t", b"d", base_sequence=3, **producer)
        with pytest.raises(FencedProducerError):
            publish(broker, "t", b"c", base_sequence=2, producer_id=7, producer_epoch=0)
        assert publish(broker, "t", b"c", base_sequence=2, **producer).placed.first_offset == 2
        assert [record.value for record in await read_all(broker, "t")] == [b"a", b"b", b"c"]

    _run(tmp_path, scenario)


def test_what_the_topic_changes_in_a_batch_does_not_hide_a_repetition(tmp_path):
    async def scenario(broker):
        settings = {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"}
        await broker.create_topic("anew", 1, settings)
        for _ in range(2):
            placed = publish(
                broker, "anew", b"a", producer_id=7, producer_epoch=0, base_sequence=0
            ).placed
            assert placed.first_offset == 0
        assert placed.duplicate

    _run(tmp_path, scenario)


# --- What a topic changes -------------------------------------------------------------------------


@pytest.mark.parametrize("sent", list(Compression))
@pytest.mark.parametrize("chosen", ["producer", "uncompressed", "gzip", "zstd"])
def test_a_topic_stores_batches_in_its_own_codec(tmp_path, sent, chosen):
    async def scenario(broker):
        await broker.create_topic("codec", 1, {"compression.type": chosen})
        _publish(broker, _batch(b"a", None, b"c", compression=sent), "codec")
        expected = {
            "producer": sent,
            "uncompressed": Compression.NONE,
            "gzip": Compression.GZIP,
            "zstd": Compression.ZSTD,
        }[chosen]
        partition = broker.partitions.partition(TopicPartition("codec", 0))
        (chunk,) = partition.chunks(0)
        assert peek(chunk.data).compression == expected
        records = await read_all(broker, "codec")
        assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in records] == [
            (0, 1000, b"k", b"a"),
            (1, 1001, b"k", None),
            (2, 1002, b"k", b"c"),
        ]

    _run(tmp_path, scenario)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_a_topic_may_stamp_records_with_the_time_of_the_append(tmp_path, codec):
    clock = ManualClock(now_ms=5_000_000)

    async def scenario(broker):
        await broker.create_topic("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
        published = _publish(broker, _batch(b"a", b"b", compression=codec), "stamped")
        assert published.append_time_ms == 5_000_000
        partition = broker.partitions.partition(TopicPartition("stamped", 0))
        (chunk,) = partition.chunks(0)
        info = peek(chunk.data)
        assert info.attributes & LOG_APPEND_TIME
        assert (info.compression, info.max_timestamp) == (codec, 5_000_000)
        assert {r.timestamp_ms for r in await read_all(broker, "stamped")} == {5_000_000}
        assert _publish(broker, bytearray(GOOD)).append_time_ms == -1

    _run(tmp_path, scenario, clock=clock)


@pytest.mark.parametrize("acks", Acks)
@pytest.mark.parametrize("policy", ["always", "interval", "never"])
def test_only_what_must_be_on_the_disk_is_waited_for(tmp_path, acks, policy):
    async def scenario(broker):
        await broker.create_topic("kept", 1, {"goqueue.fsync": policy})
        published = _publish(broker, bytearray(GOOD), "kept", acks=acks)
        waits = policy == "always" and acks is not Acks.NONE
        assert (published.durable is not None) == waits
        if published.durable is not None:
            await asyncio.wait_for(published.durable, 60)
            assert broker.partitions.partition(TopicPartition("kept", 0)).synced_to == 2

    _run(tmp_path, scenario)


def test_a_publisher_waits_for_its_sync_and_not_behind_cold_reads(tmp_path):
    async def scenario(broker):
        may_go_on = threading.Event()
        try:
            for _ in range(DISK_THREADS):
                broker.executor.submit(may_go_on.wait, 30)
            published = _publish(broker, bytearray(GOOD))
            assert published.durable is not None
            await asyncio.wait_for(published.durable, 60)
        finally:
            may_go_on.set()

    _run(tmp_path, scenario, topic_defaults={"goqueue.fsync": "always"})


def test_headers_beyond_the_limit_are_refused_and_their_neighbours_are_stored(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            large = NewMessage(b"large", headers=(("h", bytes(64 * 1024)),))
            results = await broker.writer.publish("t", [NewMessage(b"a"), large, NewMessage(b"b")])
            assert isinstance(results[1].error, MalformedHeadersError)
            assert [each.value for each in await read_all(broker, "t")] == [b"a", b"b"]

    asyncio.run(scenario())


def test_a_message_counts_as_published_once_and_when_it_is_in_the_log(tmp_path):
    async def scenario(broker):
        seen = [0]

        def counted():
            seen.append(broker.metrics.total(MESSAGES_PUBLISHED))
            return seen[-1] - seen[-2]

        for expected in (2, 0):
            publish(broker, "t", b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
            assert counted() == expected
        size = broker.metrics.total(BYTES_PUBLISHED)
        publish(broker, "t", b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
        assert broker.metrics.total(BYTES_PUBLISHED) == size
        late = [NewMessage(b"%d" % n, deliver_at_ms=2_000_000) for n in range(2)]
        await broker.writer.publish("t", [*(NewMessage(b"%d" % n) for n in range(3)), *late])
        assert counted() == 3
        headers = (("goqueue-deliver-at", b"2000000"),)
        records = [Record(0, 0, None, b"now", ()), Record(1, 0, None, b"later", headers)]
        _publish(broker, encode(records))
        assert counted() == 1

    _run(tmp_path, scenario, topic_defaults={"goqueue.kafka.headers": "true"})
