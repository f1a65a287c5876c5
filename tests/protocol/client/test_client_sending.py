"""Sending against brokers that a test leads by the nose: what is acknowledged is stored once."""

from __future__ import annotations

import asyncio
import random

import pytest

from goqueue.client.errors import BrokerError, DeliveryTimeoutError
from goqueue.model.errors import BatchError, BatchTooLargeError
from goqueue.wire.kafka.error_codes import ErrorCode
from support.fake_cluster import UNANSWERED, UNHEARD, fake_cluster
from support.linked import linked


def faked(scenario, **settings):
    async def main():
        async with fake_cluster() as cluster:
            settings.setdefault("backoff_ms", 2)
            settings.setdefault("tries", 100)
            settings.setdefault("linger_ms", 1)
            async with linked(f"127.0.0.1:{cluster.ports[0]}", **settings) as client:
                await asyncio.wait_for(scenario(client, cluster), 120)

    asyncio.run(main())


async def published(client, count, first=0):
    return [await client.publish("t", b"%d" % number) for number in range(first, first + count)]


def check(cluster, handles):
    """Each message is stored once, in order, where its handle says."""
    count = len(handles)
    assert cluster.stored == [b"%d" % number for number in range(count)]
    assert [each.result().offset for each in handles] == list(range(count))


@pytest.mark.parametrize("hints", [True, False])
def test_batches_follow_the_leader(hints):
    async def scenario(client, cluster):
        cluster.hints = hints
        handles = []
        for number in range(6):
            handles += await published(client, 10, first=10 * number)
            await client.flush()
            cluster.leader = 1 - cluster.leader
            cluster.leader_epoch += 1
        check(cluster, handles)

    faked(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_becomes_of_requests_and_answers_each_message_is_stored_once(seed):
    luck = random.Random(seed)
    faults = [
        *(UNHEARD, UNANSWERED, None),
        *(ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error),
        ErrorCode.request_timed_out,
    ]

    async def scenario(client, cluster):
        cluster.produce_faults.extend(luck.choices(faults, k=40))
        handles = []
        while len(handles) < 300:
            handles += await published(client, luck.randint(1, 20), first=len(handles))
            await asyncio.sleep(luck.choice([0, 0, 0.003]))
        await client.flush()
        check(cluster, handles)

    faked(scenario, batch_messages=7)


def test_a_broker_that_has_forgotten_the_producer_loses_nothing():
    async def scenario(client, cluster):
        handles = []
        for number in range(4):
            handles += await published(client, 10, first=10 * number)
            await client.flush()
            cluster.sequences.clear()
            cluster.knows_all_producers = True
        check(cluster, handles)

    faked(scenario)


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_batches_that_are_too_large_are_split_until_they_fit(most):
    async def scenario(client, cluster):
        cluster.most_messages = most
        handles = await published(client, 40)
        await client.flush()
        check(cluster, handles)

    faked(scenario)


@pytest.mark.parametrize("code", [ErrorCode.message_too_large, ErrorCode.invalid_record])
def test_a_message_that_cannot_be_stored_fails_alone(code):
    async def scenario(client, cluster):
        cluster.refused = {b"7": code, b"23": code}
        handles = await published(client, 40)
        with pytest.raises(BatchError):
            await client.flush()
        assert [n for n, each in enumerate(handles) if each.exception()] == [7, 23]
        kept = [b"%d" % number for number in range(40) if number not in {7, 23}]
        assert cluster.stored == kept
        found = [each.result().offset for each in handles if not each.exception()]
        assert found == list(range(38))
        kind = BatchTooLargeError if code is ErrorCode.message_too_large else BatchError
        assert isinstance(handles[7].exception(), kind)

    faked(scenario)


def test_a_refusal_for_good_is_told_by_the_handle_and_by_flush():
    async def scenario(client, cluster):
        cluster.produce_faults.append(ErrorCode.topic_authorization_failed)
        (handle,) = await published(client, 1)
        with pytest.raises(BrokerError):
            await handle
        with pytest.raises(BrokerError):
            await client.flush()
        await published(client, 1)
        await client.flush()
        assert cluster.stored == [b"0"]

    faked(scenario)


def test_a_refusal_for_now_is_final_after_so_many_tries():
    async def scenario(client, cluster):
        cluster.produce_faults.extend([ErrorCode.request_timed_out] * 2)
        (handle,) = await published(client, 1)
        assert isinstance(await asyncio.wait_for(_failure(handle), 60), Exception)
        assert cluster.stored == []
        with pytest.raises(Exception, match="request_timed_out"):
            await client.flush()

    faked(scenario, tries=2)


async def _failure(handle):
    try:
        await handle
    except Exception as error:  # noqa: BLE001 - what it is, is what is asked
        return error
    return None


@pytest.mark.parametrize(
    "nonsense",
    [
        {"responses": []},
        {"index": 5},
        {"delayed": b"\0\0\0"},
    ],
)
def test_an_answer_that_does_not_say_what_became_of_a_batch_is_asked_for_again(nonsense):
    async def scenario(client, cluster):
        cluster.produce_faults.extend([nonsense] * 3)
        handles = await published(client, 5)
        await client.flush()
        check(cluster, handles)

    faked(scenario)


def test_a_broker_that_does_not_answer_is_given_up_when_the_time_of_its_messages_is_over():
    async def scenario(client, cluster):
        cluster.is_mute = True
        handles = await published(client, 3)
        started_s = asyncio.get_running_loop().time()
        for handle in handles:
            error = await asyncio.wait_for(_failure(handle), 60)
            assert isinstance(error, DeliveryTimeoutError)
            assert str(cluster.ports[0]) in str(error)
            assert "within 0.3 s" in str(error)
        # Far less than the 30 s that a broker may take for messages that may wait for longer.
        assert asyncio.get_running_loop().time() - started_s < 20
        cluster.is_mute = False
        with pytest.raises(DeliveryTimeoutError):
            await client.flush()

    faked(scenario, delivery_timeout_ms=300, call_timeout_ms=200)
