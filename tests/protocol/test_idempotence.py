"""Idempotent producers whose answers get lost: each message once, in order, none missing."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest
from aiokafka import AIOKafkaProducer

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.kafka_clients import CONFLUENT, confluent_producer, python_producer
from protocol.raw_kafka import RawKafka, sequenced
from support.proxies import Proxy
from support.server import make_server

COUNT = 300
LOST = 6
WAIT_S = 90

# A client whose broker dies leaves sockets behind without closing them, as its own affair.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def collect_what_clients_left():
    """Here, where it is expected, and not in some later test."""
    yield
    gc.collect()


@pytest.fixture
def behind_a_proxy(tmp_path):
    """A server that tells its clients to come through a proxy."""
    server = make_server(tmp_path / "data")
    proxy = Proxy(server.kafka_port)
    server.flags = ("--listeners-kafka-advertised", f"127.0.0.1:{proxy.port}")
    server.start()
    yield server, proxy
    proxy.close()
    server.close()


class Faults:
    """Loses an answer after every so many messages, and cuts the wire now and then."""

    def __init__(self, proxy):
        self._proxy = proxy
        self._every = COUNT // LOST

    def before(self, number):
        if number % self._every == self._every // 2:
            self._proxy.swallow_next_answer()
        if number % (2 * self._every) == self._every:
            self._proxy.cut()

    @property
    def are_under_way(self):
        """Whether an answer is still to be lost: then nothing more is sent."""
        return self._proxy.is_about_to_swallow


def _confluent(address, topic, faults):
    acked = []
    producer = confluent_producer(
        address,
        enable_idempotence=True,
        linger_ms=1,
        retry_backoff_ms=20,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=50,
    )
    for number in range(COUNT):
        faults.before(number)
        producer.produce(
            topic,
            b"%d" % number,
            partition=0,
            on_delivery=lambda error, message: acked.append(
                message.value() if error is None else error
            ),
        )
        producer.poll(0.005)
        while faults.are_under_way:
            producer.poll(0.005)
    assert producer.flush(WAIT_S) == 0
    return acked


def _python(address, topic, faults):
    options = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 10}
    with python_producer(address, enable_idempotence=True, linger_ms=1, **options) as producer:
        futures = []
        for number in range(COUNT):
            faults.before(number)
            futures.append((b"%d" % number, producer.send(topic, b"%d" % number, partition=0)))
            time.sleep(0.005)
            while faults.are_under_way:
                time.sleep(0.005)
        return [value for value, future in futures if future.get(timeout=WAIT_S) is not None]


def _aio(address, topic, faults):
    async def scenario():
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            enable_idempotence=True,
            linger_ms=1,
            retry_backoff_ms=20,
            request_timeout_ms=WAIT_S * 1000,
        )
        await producer.start()
        try:
            futures = []
            for number in range(COUNT):
                faults.before(number)
                futures.append(await producer.send(topic, b"%d" % number, partition=0))
                await asyncio.sleep(0.005)
                while faults.are_under_way:  # noqa: ASYNC110 - the proxy tells nobody
                    await asyncio.sleep(0.005)
            await asyncio.gather(*futures)
            return [b"%d" % number for number in range(COUNT)]
        finally:
            await producer.stop()

    return asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


@pytest.mark.parametrize(
    "produce", [_confluent, _python, _aio], ids=["confluent", "kafka-python", "aiokafka"]
)
def test_answers_that_get_lost_cost_neither_a_message_nor_a_repetition(behind_a_proxy, produce):
    server, proxy = behind_a_proxy
    with RawKafka(server.kafka_port) as raw:
        raw.create("ordered")
    acked = produce(f"127.0.0.1:{proxy.port}", "ordered", Faults(proxy))
    assert proxy.swallowed == LOST
    sent = [b"%d" % number for number in range(COUNT)]
    assert acked == sent
    assert _values(server.kafka_address, "ordered", COUNT) == sent


def _values(address, topic, count):
    """Everything in the topic; one more than was sent would show too."""
    found = CONFLUENT.consume(address, topic, [0], count)
    with RawKafka(int(address.rpartition(":")[2])) as raw:
        assert raw.fetch(topic, max_wait_ms=0).high_watermark == count
    return [message.value for message in found]


# --- Across kill -9 -------------------------------------------------------------------------------


def _init(raw):
    answer = raw.ask(ApiKey.INIT_PRODUCER_ID, 1, transactional_id=None, transaction_timeout_ms=1000)
    return answer.producer_id, answer.producer_epoch


def test_a_killed_broker_still_knows_its_producers(tmp_path):
    server = make_server(tmp_path / "data")
    server.start()
    try:
        with RawKafka(server.kafka_port) as raw:
            raw.create("killed")
            producer = _init(raw)
            for sequence in range(7):
                raw.produce("killed", sequenced(producer, sequence, b"%d" % sequence))
        server.kill()
        server.restart()
        with RawKafka(server.kafka_port) as raw:
            for sequence in range(2, 7):
                again = raw.produce("killed", sequenced(producer, sequence, b"%d" % sequence))
                assert (again.error_code, again.base_offset) == (0, sequence)
            assert raw.produce("killed", sequenced(producer, 9, b"gap")).error_code == 45
            assert raw.produce("killed", sequenced(producer, 7, b"7")).base_offset == 7
            assert _init(raw)[0] > producer[0]
    finally:
        server.close()


def test_killing_the_broker_again_and_again_loses_and_repeats_nothing(tmp_path):
    """Idempotent producers of three clients write while the broker is killed under them."""
    server = make_server(tmp_path / "data")
    server.start()
    try:
        with RawKafka(server.kafka_port) as raw:
            for topic in WRITERS:
                raw.create(topic)
        writers = [Writer(topic, server.kafka_address) for topic in WRITERS]
        for _ in range(2):
            for writer in writers:
                writer.wait_for_more(30)
            server.kill()
            time.sleep(0.2)
            server.start()
        for writer in writers:
            writer.wait_for_more(30)
            writer.stop()
        for writer in writers:
            assert writer.errors == []
            assert len(writer.acked) == writer.sent
            numbers = [int(value) for value in _values_of(server, writer)]
            assert numbers == list(range(writer.sent)), writer.topic
    finally:
        server.close()


def _values_of(server, writer):
    return _values(server.kafka_address, writer.topic, writer.sent)


class Writer(threading.Thread):
    """Sends numbers to a topic until it is told to stop, and notes which were acknowledged."""

    def __init__(self, topic, address):
        super().__init__(daemon=True)
        self.topic, self.address = topic, address
        self.sent = 0
        self.acked = []
        self.errors = []
        self.stopping = threading.Event()
        self.start()

    def run(self):
        try:
            WRITERS[self.topic](self)
        except Exception as error:  # noqa: BLE001 - told to the test, which fails then
            self.errors.append(error)

    def next_value(self):
        self.sent += 1
        return b"%d" % (self.sent - 1)

    def wait_for_more(self, count):
        goal, deadline = len(self.acked) + count, time.monotonic() + WAIT_S
        while len(self.acked) < goal:
            assert time.monotonic() < deadline, f"{self.topic} is stuck: {self.errors}"
            assert not self.errors
            time.sleep(0.02)

    def stop(self):
        self.stopping.set()
        self.join(WAIT_S)
        assert not self.is_alive()


def _confluent_writer(writer):
    producer = confluent_producer(
        writer.address,
        enable_idempotence=True,
        linger_ms=1,
        retry_backoff_ms=50,
        reconnect_backoff_ms=20,
        reconnect_backoff_max_ms=200,
    )

    def delivered(error, message):
        (writer.errors if error else writer.acked).append(error or message.value())

    while not writer.stopping.is_set():
        producer.produce(writer.topic, writer.next_value(), partition=0, on_delivery=delivered)
        producer.poll(0.01)
    assert producer.flush(WAIT_S) == 0


def _python_writer(writer):
    options = {"retry_backoff_ms": 50, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200}
    with python_producer(writer.address, enable_idempotence=True, **options) as producer:
        while not writer.stopping.is_set():
            future = producer.send(writer.topic, writer.next_value(), partition=0)
            future.add_callback(writer.acked.append)
            future.add_errback(writer.errors.append)
            time.sleep(0.01)
        producer.flush(timeout=WAIT_S)


def _aio_writer(writer):
    async def scenario():
        producer = AIOKafkaProducer(
            bootstrap_servers=writer.address,
            enable_idempotence=True,
            retry_backoff_ms=50,
            request_timeout_ms=WAIT_S * 1000,
        )
        await producer.start()
        try:
            while not writer.stopping.is_set():
                future = await producer.send(writer.topic, writer.next_value(), partition=0)
                future.add_done_callback(settled)
                await asyncio.sleep(0.01)
            await producer.flush()
        finally:
            await producer.stop()

    def settled(future):
        error = future.exception()
        (writer.errors if error else writer.acked).append(error or future.result())

    asyncio.run(scenario())


WRITERS = {
    "confluent": _confluent_writer,
    "kafka-python": _python_writer,
    "aiokafka": _aio_writer,
}
