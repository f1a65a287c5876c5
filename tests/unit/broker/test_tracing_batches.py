"""What of a batch is traced, with whatever its records say."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.model.errors import DelayTooLongError
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.requests import PublishRequest
from goqueue.publishing.traces import traced_batch
from goqueue.records import Compression, Record, encode
from goqueue.tracing.context import TraceContext
from goqueue.tracing.index import parts_of
from goqueue.tracing.search import TraceQuery
from goqueue.tracing.store import TracingSettings
from goqueue.tracing.views import Status
from support.brokers import publish, running_broker
from support.clocks import ManualClock

OWN = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
SAMPLED = (("traceparent", OWN.traceparent),)
UNSAMPLED = (("traceparent", OWN.traceparent[:-1] + b"0"),)
BROKEN = (("traceparent", b"\xff?"),)


def batch(*headers, **options):
    records = [Record(at, 0, None, b"v", each) for at, each in enumerate(headers)]
    return memoryview(encode(records, **options))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4, Compression.ZSTD])
def test_records_are_traced_as_they_say(codec):
    found = traced_batch(batch((), SAMPLED, UNSAMPLED, BROKEN, (), compression=codec), 100, 105)
    assert list(parts_of(found, 100, 105)) == [
        (None, 100, 101),
        (OWN, 101, 102),
        (None, 103, 105),
    ]


def test_only_those_that_name_a_trace_go_on_after_a_redrive():
    found = traced_batch(batch((), SAMPLED, UNSAMPLED, BROKEN), 100, 104, only_named=True)
    assert list(parts_of(found, 100, 104)) == [(OWN, 101, 102)]


def test_places_without_a_record_have_no_trace():
    records = [Record(at, 0, None, b"v", ()) for at in (0, 3)]
    found = traced_batch(memoryview(encode(records, last_offset_delta=4)), 10, 15)
    assert list(parts_of(found, 10, 15)) == [(None, 10, 11), (None, 13, 14)]


def test_a_batch_that_cannot_be_opened_names_nothing():
    data = bytearray(batch(SAMPLED, compression=Compression.LZ4))
    data[61:] = b"\xff" * (len(data) - 61)
    assert traced_batch(memoryview(data), 0, 1).own == {}


def traces_of(folder, settings, topic_settings, count):
    async def scenario():
        async with running_broker(folder, tracing=settings) as broker:
            await broker.create_topic("t", 1, topic_settings)
            for _ in range(count):
                publish(broker, "t", b"v")
            found = await broker.traces.search(TraceQuery(topic="t", limit=1000))
            return len(found.traces), len(broker.tracer.index)

    return asyncio.run(scenario())


def test_a_busy_broker_traces_no_more_than_it_may(tmp_path):
    settings = TracingSettings(max_batches_a_second=20)
    assert traces_of(tmp_path, settings, {}, 100) == (20, 20)


def test_trace_files_stay_small_beside_the_data(tmp_path, monkeypatch):
    monkeypatch.setattr("goqueue.tracing.sampling.SHARE_FLOOR_BYTES", 20_000)

    async def scenario():
        settings = TracingSettings(max_batches_a_second=0)
        async with running_broker(tmp_path, tracing=settings) as broker:
            await broker.create_topic("t", 1, {})
            for _ in range(40):
                for _ in range(50):
                    publish(broker, "t", b"v" * 100)
                await broker.traces.flush()
        return sum(each.stat().st_size for each in (tmp_path / "traces").iterdir())

    # 2000 messages of about 170 bytes: everything would be traced in 1.5 MB.
    assert 20_000 < asyncio.run(scenario()) < 20_000 + 2000 * 17 + 50 * 1000


def test_a_topic_that_says_so_is_traced_whole(tmp_path):
    settings = TracingSettings(sampling=0, max_batches_a_second=1)
    assert traces_of(tmp_path, settings, {"goqueue.trace": "1"}, 100) == (100, 100)


def test_a_topic_that_says_so_is_not_traced(tmp_path):
    assert traces_of(tmp_path, TracingSettings(), {"goqueue.trace": "0"}, 10) == (0, 0)


def test_nothing_is_noted_while_tracing_is_off(tmp_path):
    settings = TracingSettings(is_on=False)
    assert traces_of(tmp_path, settings, {"goqueue.trace": "1"}, 10) == (0, 0)
    assert not (tmp_path / "traces").exists()


def test_a_batch_that_is_stored_already_is_noted_once(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            for _ in range(2):
                data = batch((), producer_id=7, producer_epoch=0, base_sequence=0)
                broker.publisher.publish(PublishRequest(TopicPartition("t", 0), data))
            (trace,) = (await broker.traces.search(TraceQuery())).traces
            assert len(trace.spans) == 3

    asyncio.run(scenario())


def test_messages_that_are_refused_for_what_they_say_have_failed_traces(tmp_path):
    too_late = ("goqueue-deliver-at", b"99999999999999")

    async def scenario():
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1, {"goqueue.kafka.headers": "true"})
            for headers in ((too_late,), (too_late, *SAMPLED)):
                with pytest.raises(DelayTooLongError):
                    broker.publisher.publish(PublishRequest(TopicPartition("t", 0), batch(headers)))
            found = (await broker.traces.search(TraceQuery(status=Status.FAILED))).traces
            assert {each.spans[0].event for each in found} == {"publish.validation_failed"}
            assert len(found) == 2
            assert OWN.trace_id in {each.trace_id for each in found}
            assert all("goqueue.delay.max.ms" in each.spans[0].error for each in found)

    asyncio.run(scenario())


def test_refused_messages_cost_no_more_traces_than_others(tmp_path):
    too_late = ("goqueue-deliver-at", b"99999999999999")

    async def scenario():
        settings = TracingSettings(max_batches_a_second=5)
        async with running_broker(tmp_path, tracing=settings) as broker:
            await broker.create_topic("t", 1, {"goqueue.kafka.headers": "true"})
            for _ in range(20):
                with pytest.raises(DelayTooLongError):
                    broker.publisher.publish(
                        PublishRequest(TopicPartition("t", 0), batch((too_late,)))
                    )
            assert len((await broker.traces.search(TraceQuery())).traces) == 5

    asyncio.run(scenario())


def test_a_rebalance_is_one_trace_however_often_it_begins_again(tmp_path):
    async def told(after_restart):
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            tell = broker.log_group_traces.rebalanced
            for number, reason, took_ms in (
                (1, "member_joined", None),
                (2, "member_left", None),
                (2, "", 50),
                (3, "member_joined", None),
            ):
                clock.advance(1)
                tell("g", number, reason, took_ms)
            found = (await broker.traces.search(TraceQuery(group="g"))).traces
            return [(each.status, len(each.spans)) for each in found][: 2 + after_restart]

    assert asyncio.run(told(0)) == [(Status.IN_PROGRESS, 1), (Status.COMPLETED, 3)]
    assert sorted(asyncio.run(told(2))) == sorted(
        2 * [(Status.IN_PROGRESS, 1), (Status.COMPLETED, 3)]
    )
