"""acks 0, 1 and all under each fsync policy: stored once, in order, and readable."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer

from goqueue.records import decode_rows, walk
from protocol.kafka_clients import CLIENTS, WAIT_S, confluent_producer, kcat_run, python_producer

COUNT = 20
VALUES = [b"%d" % number for number in range(COUNT)]


def _confluent(address, topic, acks):
    producer = confluent_producer(address, acks=acks)
    for value in VALUES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0


def _python(address, topic, acks):
    options = {"acks": acks, "enable_idempotence": acks == "all"}
    with python_producer(address, **options) as producer:
        for value in VALUES:
            producer.send(topic, value, partition=0)
        producer.flush(timeout=WAIT_S)


def _aio(address, topic, acks):
    async def scenario():
        producer = AIOKafkaProducer(bootstrap_servers=address, acks=acks)
        await producer.start()
        try:
            for value in VALUES:
                await producer.send(topic, value, partition=0)
            await producer.flush()
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def _kcat(address, topic, acks):
    done = kcat_run(
        *("-P", "-b", address, "-t", topic, "-p", "0", "-X", f"acks={acks}"),
        input=b"\n".join(VALUES),
    )
    assert done.returncode == 0, done.stderr


PRODUCERS = dict(zip(CLIENTS, (_confluent, _python, _aio, _kcat), strict=True))


@pytest.mark.parametrize("policy", ["always", "interval", "never"])
@pytest.mark.parametrize("client", CLIENTS, ids=str, indirect=True)
def test_what_is_produced_is_readable_once_and_in_order(broker, raw, name, client, policy):
    for acks in (0, 1, "all"):
        topic = name(f"acks-{policy}")
        raw.create(topic, goqueue_fsync=policy)
        PRODUCERS[client](broker.kafka_address, topic, acks)
        assert _values(raw, topic) == VALUES, f"acks={acks}"


def _values(raw, topic):
    """Read until everything is there, woken by the broker."""
    found = []
    while len(found) < COUNT:
        answer = raw.fetch(topic, len(found), max_wait_ms=60_000)
        data = bytes(answer.records or b"")
        assert data, f"only {len(found)} came"
        found += [record.value for at, _ in walk(data) for record in decode_rows(data, at)]
    return found
