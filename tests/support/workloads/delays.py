"""Delayed messages through every API: Kafka's header, HTTP, gRPC and the Python client.

Each API has publishers of its own; what HTTP, gRPC and the client have published is sometimes
cancelled, by way of any node.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from datetime import UTC, datetime
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final

import grpc
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from goqueue import AsyncClient
from goqueue.model.errors import GoQueueError
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from support.cluster_queue import call
from support.oracles.delays import Came, Delayed, judge
from support.workloads.base import MESSAGE_TIMEOUT_MS, STOP_S, Client, Workload

if TYPE_CHECKING:
    from support.cluster_nodes import ClusterNodes
    from support.history import Finding

TOPIC: Final = "delayed"
PARTITIONS: Final = 6
SOON_MS: Final = 1000
LATE_MS: Final = 15_000
"""Between which messages are due after they were published."""
PAUSE_S: Final = 0.1
_CANCELS: Final = 0.25
"""How many messages are cancelled."""
_ATTEMPTS: Final = 20


class Publisher(Client):
    """Publishes messages with values and times of its own."""

    api: str

    def __init__(self, workload: Delays, seed: int) -> None:
        super().__init__(f"delay-{self.api}")
        self.workload = workload
        self.luck = random.Random(seed)
        self._number = 0
        self.acked = 0

    def next(self) -> tuple[str, int]:
        """A message to publish, and when it is due."""
        self._number += 1
        value = f"{self.api}-{self._number}"
        now_ms = int(time.time() * 1000)
        due_ms = now_ms + self.luck.randint(SOON_MS, LATE_MS)
        self.workload.due_ms[value] = due_ms
        self.workload.made_ms[value] = now_ms
        return value, due_ms

    def told(self, value: str) -> None:
        """It is stored."""
        self.workload.acked.add(value)
        self.acked += 1

    @property
    def partition(self) -> int:
        return self._number % PARTITIONS

    @property
    def node(self) -> int:
        return self.luck.choice((1, 2, 3))

    def maybe_cancel(self, value: str, partition: int, delayed_id: int) -> None:
        """Cancel some, by way of any node, until it is known what became of them."""
        if self.luck.random() > _CANCELS:
            return
        with self.workload.lock:
            self.workload.in_doubt.add(value)
        for _ in range(_ATTEMPTS):
            path = f"/topics/{TOPIC}/delayed/{partition}/{delayed_id}"
            status, _answer = self.workload.ask(self.node, "DELETE", path)
            if status == 200:
                self.workload.was_cancelled(value)
            elif status == 409:  # it came before, or an earlier attempt was stored
                self._look(value, delayed_id)
            elif not self.stopping.wait(0.3):
                continue
            return

    def _look(self, value: str, delayed_id: int) -> None:
        path = f"/topics/{TOPIC}/delayed/{delayed_id}"
        status, answer = self.workload.ask(self.node, "GET", path)
        if status == 200 and answer["state"] == "cancelled":
            self.workload.was_cancelled(value)


class KafkaPublisher(Publisher):
    """An idempotent producer; a third of its messages is due at once, in the same batches."""

    api = "kafka"

    def work(self, name: str) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.workload.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "request.timeout.ms": 3000,
                "socket.timeout.ms": 3000,
                "message.timeout.ms": MESSAGE_TIMEOUT_MS,
                "log_level": 0,
                "error_cb": lambda error: None,
            }
        )

        def stored(error: Any, message: Any) -> None:
            if error is None:
                self.told(message.value().decode())

        while not self.stopping.wait(PAUSE_S):
            for _ in range(3):
                value, due_ms = self.next()
                is_delayed = self.luck.random() < 0.7
                if not is_delayed:
                    self.workload.due_ms[value] = 0
                headers: Any = [("goqueue-deliver-at", str(due_ms))] if is_delayed else []
                # All in one batch of one partition.
                at = self._number // 3 % PARTITIONS
                producer.produce(
                    TOPIC,
                    value,
                    partition=at,
                    timestamp=self.workload.made_ms[value],
                    headers=headers,
                    on_delivery=stored,
                )
            producer.poll(0)
        assert producer.flush(STOP_S - 20) == 0


class HttpPublisher(Publisher):
    api = "http"

    def work(self, name: str) -> None:
        while not self.stopping.wait(PAUSE_S):
            value, due_ms = self.next()
            made_ms = self.workload.made_ms[value]
            message = {"value": value, "deliverAt": due_ms, "timestamp": made_ms}
            message["partition"] = self.partition
            path, body = f"/topics/{TOPIC}/messages", {"messages": [message]}
            status, answer = self.workload.ask(self.node, "POST", path, body)
            if status == 200 and answer["results"][0]["status"] == 200:
                self.told(value)
                result = answer["results"][0]
                if result.get("id") is not None:
                    self.maybe_cancel(value, result["partition"], result["id"])


class GrpcPublisher(Publisher):
    api = "grpc"

    def work(self, name: str) -> None:
        channels = {
            number: grpc.insecure_channel(self.workload.cluster.grpc_address(number))
            for number in (1, 2, 3)
        }
        try:
            while not self.stopping.wait(PAUSE_S):
                value, due_ms = self.next()
                message = pb.NewMessage(
                    value=value.encode(),
                    timestamp_ms=self.workload.made_ms[value],
                    deliver_at_ms=due_ms,
                    partition=self.partition,
                )
                request = pb.PublishRequest(topic=TOPIC, messages=[message])
                stub = services.PublishServiceStub(channels[self.node])
                try:
                    (result,) = stub.Publish(request, timeout=5).results
                except grpc.RpcError:
                    continue
                if not result.HasField("error"):
                    self.told(value)
                    if result.HasField("delayed_id"):
                        self.maybe_cancel(value, result.partition, result.delayed_id)
        finally:
            for channel in channels.values():
                channel.close()


class ClientPublisher(Publisher):
    api = "client"

    def work(self, name: str) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        async with AsyncClient(self.workload.bootstrap) as client:
            while not self.stopping.is_set():
                await asyncio.sleep(PAUSE_S)
                value, due_ms = self.next()
                when = datetime.fromtimestamp(due_ms / 1000, UTC)
                handle = await client.publish(
                    TOPIC,
                    value,
                    partition=self.partition,
                    timestamp_ms=self.workload.made_ms[value],
                    deliver_at=when,
                )
                receipt = await handle
                self.told(value)
                if receipt.delayed_id is not None and self.luck.random() < _CANCELS:
                    await self._cancel(client, value, receipt.partition, receipt.delayed_id)

    async def _cancel(
        self, client: AsyncClient, value: str, partition: int, delayed_id: int
    ) -> None:
        with self.workload.lock:
            self.workload.in_doubt.add(value)
        try:
            await client.delayed.cancel(TOPIC, partition, delayed_id)
        except GoQueueError:
            return  # it came before, or nobody knows
        self.workload.was_cancelled(value)


class DelayReader(Client):
    """Reads the topic as it grows, by the clock on the wall."""

    def __init__(self, workload: Delays) -> None:
        super().__init__("delay-reader")
        self._workload = workload

    def work(self, name: str) -> None:
        consumer = reading(self._workload.bootstrap)
        try:
            while not self.stopping.is_set():
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    self._workload.seen.append(self._workload.came(message))
        finally:
            consumer.close()


def reading(bootstrap: str) -> Consumer:
    """A consumer of the whole topic, from its beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "delay-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "socket.timeout.ms": 6000,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
    return consumer


class Delays(Workload):
    """Publishers by every API, and one reader."""

    def __init__(self, cluster: ClusterNodes, seed: int) -> None:
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap
        self.topics = {TOPIC: PARTITIONS}
        self.lock = threading.Lock()
        self.due_ms: dict[str, int] = {}
        self.made_ms: dict[str, int] = {}
        """The timestamps that publishers gave."""
        self.acked: set[str] = set()
        self.cancelled: set[str] = set()
        self.in_doubt: set[str] = set()
        self.seen: list[Came] = []
        self._publishers: list[Publisher] = [
            KafkaPublisher(self, seed),
            HttpPublisher(self, seed + 1),
            GrpcPublisher(self, seed + 2),
            ClientPublisher(self, seed + 3),
        ]
        self.clients = [*self._publishers, DelayReader(self)]

    def came(self, message: Any) -> Came:
        """A message that was read; its timestamp counts when the broker gave it at the hand-over.

        One that was due by the time it was stored has its own: the publisher's, always given, or
        it would be that of the node that took it in, which may be long before.
        """
        value, stamped_ms = message.value().decode(), message.timestamp()[1]
        if stamped_ms == self.made_ms.get(value):
            stamped_ms = 0  # it was due when it was stored, and kept its own
        place = f"{message.partition()}@{message.offset()} of {message.timestamp()[1]}"
        headers = message.headers() or []
        return Came(value, stamped_ms, int(time.time() * 1000), f"{place}, {headers}")

    def was_cancelled(self, value: str) -> None:
        """It is confirmed that a message is cancelled."""
        with self.lock:
            self.in_doubt.discard(value)
            self.cancelled.add(value)

    def ask(self, node: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request to one node; 0 when it does not answer."""
        try:
            return call(self.cluster.http_url(node), method, path, body, timeout_s=5.0)
        except (OSError, HTTPException):
            return 0, None

    def done(self) -> dict[str, int]:
        return {each.name: each.acked for each in self._publishers} | {"read": len(self.seen)}

    def finish(self) -> list[Finding]:
        for each in self._publishers:
            each.stopping.set()
        for each in self._publishers:
            each.join()
        wanted = self.acked - self.cancelled - self.in_doubt
        last_s = max(self.due_ms.values(), default=0) / 1000 + 2
        time.sleep(max(0.0, last_s - time.time()))
        self.drain(lambda: wanted - {each.value for each in self.seen}, "due")
        time.sleep(2)  # nothing is doubled by then
        self.stop()
        stored = self._read_all()
        return judge(
            Delayed(self.due_ms, self.acked, self.cancelled, self.in_doubt, stored, self.seen)
        )

    def _read_all(self) -> list[Came]:
        consumer = reading(self.bootstrap)
        found, left = [], set(range(PARTITIONS))
        deadline = time.monotonic() + STOP_S
        try:
            while left:
                assert time.monotonic() < deadline, f"the end of {left} is not reached"
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if message.error() is None:
                    found.append(self.came(message))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
        finally:
            consumer.close()
        return found
