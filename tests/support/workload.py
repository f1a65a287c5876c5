"""Clients nobody here wrote, at work on one topic while a cluster is troubled.

Idempotent producers with acks=all and consumer groups of both protocols. Everything they see goes
into a `History`. Their request timeout is 3 s: librdkafka waits for 60 s by default, which hides a
paused leader from it, whatever the server does.
"""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import aiokafka
import confluent_kafka as ck

from support.history import Ack, Assign, Commit, Fail, History, Poll, Send, value_of
from support.workloads import base

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its own files in an old way
    import kafka

if TYPE_CHECKING:
    from collections.abc import Iterable

REQUEST_TIMEOUT_MS: Final = 3000
DELIVERY_TIMEOUT_MS: Final = base.MESSAGE_TIMEOUT_MS
FLUSH_S: Final = 100.0
"""Within which everything is acknowledged once the cluster is whole."""
SESSION_TIMEOUT_MS: Final = 8000
PAUSE_S: Final = 0.02
"""Between two messages of one producer."""
COMMIT_EVERY: Final = 25
"""Messages of a consumer between two commits."""


class Client(base.Client):
    """A client of the topic."""

    def __init__(self, workload: Workload, name: str) -> None:
        super().__init__(name)
        self.workload = workload
        self.history = workload.history


# --- Producers -----------------------------------------------------------------------------------


class Producer(Client):
    """Sends numbered values to partitions in turn."""

    acked = 0

    def sent(self, name: str, number: int) -> int:
        """Note that a value is sent; the partition it goes to."""
        partition = number % self.workload.partitions
        self.history.add(Send(self.history.now(), name, number, partition))
        return partition

    def told(self, name: str, number: int, partition: int, offset: int | None) -> None:
        self.history.add(Ack(self.history.now(), name, number, partition, offset))
        self.acked += 1

    def failed(self, name: str, number: int, error: object) -> None:
        self.history.add(Fail(self.history.now(), name, number, str(error)))


class ConfluentProducer(Producer):
    def work(self, name: str) -> None:
        producer = ck.Producer(
            {
                "bootstrap.servers": self.workload.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "request.timeout.ms": REQUEST_TIMEOUT_MS,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "retry.backoff.max.ms": 500,
                "reconnect.backoff.max.ms": 1000,
                "linger.ms": 5,
                "error_cb": lambda error: None,
            }
        )
        number = 0
        while not self.stopping.is_set():
            partition = self.sent(name, number)

            def done(error: Any, message: Any, number: int = number) -> None:
                if error is None:
                    self.told(name, number, message.partition(), message.offset())
                else:
                    self.failed(name, number, error)

            value = value_of(name, number)
            producer.produce(
                self.workload.topic, value.encode(), partition=partition, on_delivery=done
            )
            number += 1
            producer.poll(PAUSE_S)
            if self.stopping.wait(PAUSE_S):
                break
        left = producer.flush(FLUSH_S)
        assert not left, f"{left} messages are neither acknowledged nor failed"


class KafkaPythonProducer(Producer):
    def work(self, name: str) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.workload.bootstrap.split(","),
            enable_idempotence=True,
            acks="all",
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            max_block_ms=int(FLUSH_S * 1000),
            reconnect_backoff_max_ms=1000,
            metadata_max_age_ms=5000,
            linger_ms=5,
        )
        number = 0
        try:
            while not self.stopping.wait(PAUSE_S):
                partition = self.sent(name, number)
                value = value_of(name, number).encode()
                sent = producer.send(self.workload.topic, value, partition=partition)
                sent.add_callback(self._done, name, number)
                sent.add_errback(lambda error, number=number: self.failed(name, number, error))
                number += 1
                if sent.failed():
                    raise sent.exception
        finally:
            with suppress(Exception):
                producer.flush(FLUSH_S)
            producer.close(timeout=1)

    def _done(self, name: str, number: int, metadata: Any) -> None:
        self.told(name, number, metadata.partition, metadata.offset)


class AioKafkaProducer(Producer):
    """It gives a batch up after a while, and never gets another one stored in that partition."""

    _is_broken = False

    def work(self, name: str) -> None:
        asyncio.run(self._work(name))

    async def _work(self, name: str) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.workload.bootstrap,
            enable_idempotence=True,
            acks="all",
            # It gives a batch up after this, too.
            request_timeout_ms=10 * REQUEST_TIMEOUT_MS,
            metadata_max_age_ms=5000,
            linger_ms=5,
        )
        await producer.start()
        under_way: set[asyncio.Task[None]] = set()
        number = 0
        self._is_broken = False
        try:
            while not self.stopping.is_set():
                if self._is_broken:
                    raise RuntimeError("a batch was given up: its successors are out of order")
                partition = self.sent(name, number)
                value = value_of(name, number).encode()
                sent = await producer.send(self.workload.topic, value, partition=partition)
                task = asyncio.create_task(self._settle(sent, name, number))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                number += 1
                await asyncio.sleep(PAUSE_S)
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await producer.stop()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _settle(self, sent: Any, name: str, number: int) -> None:
        try:
            found = await sent
        except Exception as error:  # noqa: BLE001 - whatever it says
            self.failed(name, number, error)
            self._is_broken |= isinstance(error, aiokafka.errors.OutOfOrderSequenceNumber)
        else:
            self.told(name, number, found.partition, found.offset)


# --- Consumers -----------------------------------------------------------------------------------


class Consumer(Client):
    """A member of a group, which commits what it has got."""

    def __init__(self, workload: Workload, group: str, name: str) -> None:
        super().__init__(workload, f"{group}/{name}")
        self.group = group
        self.positions: dict[int, int] = {}
        """By partition: the offset after the last message."""

    def assigned(self, name: str, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self.positions.pop(partition, None)
            self.history.add(Assign(self.history.now(), self.group, name, partition))

    def got(self, name: str, partition: int, offset: int, value: bytes | None) -> None:
        text = (value or b"").decode()
        found = [(offset, text)]
        self.history.add(Poll(self.history.now(), self.group, name, partition, found))
        self.positions[partition] = offset + 1
        self.workload.reached(self.group, partition, offset + 1)

    def committed(self, name: str, offsets: dict[int, int], asked_s: float) -> None:
        now_s = self.history.now()
        for partition, offset in offsets.items():
            self.history.add(Commit(now_s, self.group, name, partition, offset, asked_s))


class ConfluentConsumer(Consumer):
    protocol = "classic"

    def work(self, name: str) -> None:
        consumer = ck.Consumer(
            {
                "bootstrap.servers": self.workload.bootstrap,
                "group.id": self.group,
                "group.protocol": self.protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "socket.timeout.ms": 2 * REQUEST_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 1000,
                "error_cb": lambda error: None,
                **(
                    {"session.timeout.ms": SESSION_TIMEOUT_MS} if self.protocol == "classic" else {}
                ),
            }
        )
        consumer.subscribe(
            [self.workload.topic],
            on_assign=lambda _, given: self.assigned(name, [each.partition for each in given]),
        )
        since = 0
        try:
            while not self.stopping.is_set():
                message = consumer.poll(0.2)
                if message is None:
                    continue
                if message.error() is not None:
                    self.errors.append(str(message.error()))
                    continue
                self.got(name, message.partition(), message.offset(), message.value())
                since += 1
                if since >= COMMIT_EVERY:
                    since = 0
                    self._commit(consumer, name)
        finally:
            consumer.close()

    def _commit(self, consumer: ck.Consumer, name: str) -> None:
        asked_s = self.history.now()
        with suppress(ck.KafkaException):
            found = consumer.commit(asynchronous=False) or []
            done = {each.partition: each.offset for each in found if each.error is None}
            self.committed(name, {at: to for at, to in done.items() if to >= 0}, asked_s)


class NewConfluentConsumer(ConfluentConsumer):
    """The same by KIP-848."""

    protocol = "consumer"


class KafkaPythonConsumer(Consumer):
    def work(self, name: str) -> None:
        client = self

        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            def on_partitions_assigned(self, assigned: Any) -> None:
                client.assigned(name, [each.partition for each in assigned])

        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.workload.bootstrap.split(","),
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=1000,
            request_timeout_ms=SESSION_TIMEOUT_MS + 2000,
            reconnect_backoff_max_ms=1000,
            metadata_max_age_ms=5000,
        )
        consumer.subscribe([self.workload.topic], listener=Listener())
        assigned_s = time.monotonic()
        try:
            while not self.stopping.is_set():
                # A poll that ends between its SyncGroup and the answer leaves this client without
                # partitions for ever: polls are long, and a client like that begins anew.
                polled = consumer.poll(timeout_ms=2000, max_records=COMMIT_EVERY)
                for found in polled.values():
                    for each in found:
                        self.got(name, each.partition, each.offset, each.value)
                    self._commit(consumer, name)
                if consumer.assignment():
                    assigned_s = time.monotonic()
                elif time.monotonic() > assigned_s + 2 * SESSION_TIMEOUT_MS / 1000:
                    raise TimeoutError("no partitions")
        finally:
            consumer.close(autocommit=False)

    def _commit(self, consumer: Any, name: str) -> None:
        asked_s = self.history.now()
        offsets = {
            kafka.TopicPartition(self.workload.topic, at): kafka.OffsetAndMetadata(to, "", -1)
            for at, to in self.positions.items()
        }
        with suppress(kafka.errors.KafkaError):
            consumer.commit(offsets)
            self.committed(name, {at.partition: to.offset for at, to in offsets.items()}, asked_s)


class AioKafkaConsumer(Consumer):
    def work(self, name: str) -> None:
        asyncio.run(self._work(name))

    async def _work(self, name: str) -> None:
        client = self

        class Listener(aiokafka.ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            def on_partitions_assigned(self, assigned: Any) -> None:
                client.assigned(name, [each.partition for each in assigned])

        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.workload.bootstrap,
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=1000,
            request_timeout_ms=SESSION_TIMEOUT_MS + 2000,
            metadata_max_age_ms=5000,
        )
        consumer.subscribe([self.workload.topic], listener=Listener())
        await consumer.start()
        try:
            while not self.stopping.is_set():
                polled = await consumer.getmany(timeout_ms=200, max_records=COMMIT_EVERY)
                for found in polled.values():
                    for each in found:
                        self.got(name, each.partition, each.offset, each.value)
                if polled:
                    await self._commit(consumer, name)
        finally:
            await consumer.stop()

    async def _commit(self, consumer: Any, name: str) -> None:
        asked_s = self.history.now()
        offsets = dict(self.positions)
        topic = self.workload.topic
        with suppress(aiokafka.errors.KafkaError):
            await consumer.commit(
                {aiokafka.TopicPartition(topic, at): to for at, to in offsets.items()}
            )
            self.committed(name, offsets, asked_s)


# --- All of them ---------------------------------------------------------------------------------


class Workload:
    """Producers and groups on one topic, from `start` to `stop`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, history: History) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.history = history
        self._lock = threading.Lock()
        self._reached: dict[tuple[str, int], int] = {}
        self.producers: list[Producer] = [
            ConfluentProducer(self, "confluent"),
            KafkaPythonProducer(self, "kafka-python"),
            AioKafkaProducer(self, "aiokafka"),
        ]
        self.consumers: list[Consumer] = [
            ConfluentConsumer(self, "classic", "1"),
            ConfluentConsumer(self, "classic", "2"),
            NewConfluentConsumer(self, "new", "1"),
            NewConfluentConsumer(self, "new", "2"),
            KafkaPythonConsumer(self, "kafka-python", "1"),
            AioKafkaConsumer(self, "aiokafka", "1"),
        ]

    @property
    def clients(self) -> list[Client]:
        return [*self.producers, *self.consumers]

    def start(self) -> None:
        for each in self.clients:
            each.start()

    def reached(self, group: str, partition: int, offset: int) -> None:
        """A member of a group has got everything before an offset."""
        with self._lock:
            key = group, partition
            self._reached[key] = max(offset, self._reached.get(key, 0))

    def wait_for_progress(self, within_s: float, count: int = 10) -> None:
        """Every producer gets acknowledgements, and every group messages, from now on."""
        before = {each.name: each.acked for each in self.producers}
        groups = {each.group for each in self.consumers}
        with self._lock:
            read = {each: self._position(each) for each in groups}
        deadline = time.monotonic() + within_s
        while True:
            slow = [each.name for each in self.producers if each.acked < before[each.name] + count]
            with self._lock:
                slow += [each for each in groups if self._position(each) < read[each] + count]
            if not slow:
                return
            assert time.monotonic() < deadline, f"{slow} make no progress: {self.errors()}"
            time.sleep(0.05)

    def _position(self, group: str) -> int:
        return sum(to for (each, _), to in self._reached.items() if each == group)

    def errors(self) -> dict[str, list[str]]:
        """What clients had to begin anew for."""
        return {each.name: each.errors[-5:] for each in self.clients if each.errors}

    def finish(self, within_s: float = 120.0) -> dict[int, dict[int, str]]:
        """End the producers, let every group read to the end, and return the whole log."""
        for producer in self.producers:
            producer.stopping.set()
        for producer in self.producers:
            producer.join(FLUSH_S + 30)
        log = self.read_all()
        deadline = time.monotonic() + within_s
        groups = {each.group for each in self.consumers}
        while behind := self._behind(groups, log):
            assert time.monotonic() < deadline, f"never read: {behind}; {self.errors()}"
            time.sleep(0.1)
        self.stop()
        return log

    def _behind(self, groups: set[str], log: dict[int, dict[int, str]]) -> list[str]:
        with self._lock:
            return [
                f"{group}: {partition} at {self._reached.get((group, partition), 0)} of {max(at)}"
                for group in sorted(groups)
                for partition, at in log.items()
                if at and self._reached.get((group, partition), 0) <= max(at)
            ]

    def stop(self) -> None:
        """End all of them."""
        for each in self.clients:
            each.stopping.set()
        for each in self.clients:
            each.join(FLUSH_S + 30)

    def read_all(self) -> dict[int, dict[int, str]]:
        """The topic from its beginning to its end."""
        consumer = ck.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "socket.timeout.ms": 2 * REQUEST_TIMEOUT_MS,
                "error_cb": lambda error: None,
            }
        )
        log: dict[int, dict[int, str]] = {each: {} for each in range(self.partitions)}
        consumer.assign([ck.TopicPartition(self.topic, each, 0) for each in log])
        left = set(log)
        deadline = time.monotonic() + 60
        try:
            while left:
                assert time.monotonic() < deadline, f"the end of {left} is not reached"
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if message.error() is None:
                    value = (message.value() or b"").decode()
                    log[message.partition()][message.offset()] = value
                elif message.error().code() == ck.KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
        finally:
            consumer.close()
        return log
