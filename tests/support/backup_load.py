"""What clients do while a broker is killed and backed up, and when each of it was acknowledged.

Each client is a thread that goes on after whatever fails. `before(moment)` of a client is what was
acknowledged before a backup's moment, and therefore is in the backup.
"""

from __future__ import annotations

import http.client
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self, TypeVar

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Message, Producer

from goqueue import Client
from goqueue.model.errors import GoQueueError
from goqueue.model.topic_partition import TopicPartition
from support.http_api import HttpApi
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable

ORDERS, JOBS, PAID = "orders", "jobs", "paid"
READERS, WORKERS, PAYERS = "readers", "workers", "payers"
PARTITIONS: Final = 4
HELD: Final = "held"
_SIZE: Final = 4000
_WAIT_S: Final = 60.0
_PAUSE_S: Final = 0.05
"""Between steps, and before the next try: enough happens, and what is left after it is little."""
_MARGIN_S: Final = 0.005
"""The moment is told in whole milliseconds."""
_LONG_S: Final = 1.0
_ABORTS: Final = 5
"""Of so many transactions, one is aborted."""
_JOBS: Final = 6
_LEFT: Final = 3
"""Of so many jobs, one is delivered and never acknowledged."""

_T = TypeVar("_T")


class _Client:
    """Takes one step after another in a thread, until the end of a `with`."""

    pause_s = _PAUSE_S

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.close()

    def _run(self) -> None:
        while not self._stop.wait(self.pause_s):
            with suppress(GoQueueError, KafkaException, OSError, http.client.HTTPException):
                self.step()  # or the broker is away

    def step(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of connections."""


class Publisher(_Client):
    """Publishes numbered messages with an idempotent producer, as fast as it can."""

    pause_s = 0.0

    def __init__(self, address: str) -> None:
        super().__init__()
        self._producer = Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5}
        )
        self._number = 0
        self._acknowledged: dict[bytes, float] = {}
        """By value: when its acknowledgement had come."""
        self.ends: dict[int, int] = {}
        """By partition: the offset after the newest that was acknowledged."""

    def step(self) -> None:
        with suppress(BufferError):
            value = str(self._number).encode().ljust(_SIZE, b".")
            self._producer.produce(ORDERS, value, key=str(self._number), on_delivery=self._told)
            self._number += 1
        self._producer.poll(0.001)

    def _told(self, error: object, message: Message) -> None:
        value, partition, offset = message.value(), message.partition(), message.offset()
        if error is None and value is not None and partition is not None and offset is not None:
            self._acknowledged[bytes(value)] = time.time()
            self.ends = {**self.ends, partition: max(self.ends.get(partition, 0), offset + 1)}

    def wait_for_more(self, size_bytes: int) -> None:
        """Returns when so much more is acknowledged."""
        wanted = len(self._acknowledged) + size_bytes // _SIZE
        eventually(lambda: len(self._acknowledged) >= wanted, f"{size_bytes} bytes acknowledged")

    def before(self, moment: float) -> set[bytes]:
        return _before(self._acknowledged.copy().items(), moment)

    def close(self) -> None:
        self._producer.flush(_WAIT_S)


class Committer(_Client):
    """Commits, for a group of consumers, the end of what is acknowledged."""

    def __init__(self, address: str, publisher: Publisher) -> None:
        super().__init__()
        self._consumer = Consumer({"bootstrap.servers": address, "group.id": READERS})
        self._publisher = publisher
        self._acknowledged: list[tuple[dict[int, int], float]] = []

    def step(self) -> None:
        ends = self._publisher.ends
        if not ends:
            return
        places = [
            confluent_kafka.TopicPartition(ORDERS, number, offset)
            for number, offset in ends.items()
        ]
        told = self._consumer.commit(offsets=places, asynchronous=False)
        if all(each.error is None for each in told or ()):
            self._acknowledged.append((ends, time.time()))

    def before(self, moment: float) -> dict[int, int]:
        """What was committed last."""
        return [ends for ends, when in self._acknowledged if when < moment - _MARGIN_S][-1]

    def close(self) -> None:
        self._consumer.close()


class Worker(_Client):
    """Publishes jobs, and acknowledges most of those that a queue group delivers to it."""

    def __init__(self, http_port: int) -> None:
        super().__init__()
        self._api = HttpApi(http_port)
        self._member = ""
        self._number = 0
        self._published: dict[str, float] = {}
        self._acknowledged: dict[str, float] = {}
        self.settled: set[str] = set()
        """Those that may be acknowledged, whether or not the answer came."""

    def step(self) -> None:
        try:
            self._publish()
            self._work()
        except Exception:
            self._api.close()
            raise

    def _publish(self) -> None:
        values = [str(self._number + more) for more in range(_JOBS)]
        self._number += _JOBS
        body = {"messages": [{"value": value, "key": value} for value in values]}
        answer = self._api.ask("POST", f"/topics/{JOBS}/messages", body)
        if answer.status < 300:
            results = zip(values, answer.json["results"], strict=True)
            good = [value for value, result in results if result["status"] == 200]
            self._published |= dict.fromkeys(good, time.time())

    def _work(self) -> None:
        self._member = self._member or join_workers(self._api)
        path = f"/groups/{WORKERS}/poll?member_id={self._member}&limit=100&timeout=0"
        answer = self._api.ask("GET", path)
        if answer.status != 200:
            self._member = ""
            return
        found = [each for each in answer.json["messages"] if int(each["value"]) % _LEFT]
        receipts = {each["receipt_handle"]: each["value"] for each in found}
        if not receipts:
            return
        self.settled.update(receipts.values())
        answer = self._api.ask("POST", "/messages/ack/batch", {"receipt_handles": list(receipts)})
        if answer.status < 300:
            good = [each for each in answer.json["results"] if each["status"] == 200]
            now = time.time()
            self._acknowledged |= {receipts[each["receipt_handle"]]: now for each in good}

    def before(self, moment: float) -> tuple[set[str], set[str]]:
        """The jobs that were published, and those of them that were done."""
        return _before(self._published.items(), moment), _before(self._acknowledged.items(), moment)

    def close(self) -> None:
        self._api.close()


def join_workers(api: HttpApi) -> str:
    """Become a member of the queue group; its id, or none while it cannot be joined."""
    body = {
        "topics": [JOBS],
        "assignment": "shared",
        "start": "earliest",
        "visibility_timeout": "2s",
        "max_deliveries": 250,
    }
    answer = api.ask("POST", f"/groups/{WORKERS}/join", body)
    return str(answer.json["member_id"]) if answer.status < 300 else ""


class Payer(_Client):
    """Writes to all partitions and commits an offset in each transaction; aborts some.

    The offset tells which transaction was committed last. With the Python client: librdkafka does
    not come back from `send_offsets_to_transaction` when the coordinator dies meanwhile.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        self._client = Client(address)
        self._number = 0
        self._acknowledged: dict[int, float] = {}

    def step(self) -> None:
        number = self._number
        self._number += 1
        try:
            with suppress(_TakenBackError):
                self._transaction(number)
                self._acknowledged[number] = time.time()
        except GoQueueError:
            self._stop.wait(_LONG_S)  # or the numbers would outrun what is stored
            raise

    def _transaction(self, number: int) -> None:
        with self._client.transaction("payer") as transaction:
            for partition in range(PARTITIONS):
                transaction.publish(PAID, str(number), partition=partition)
            transaction.send_offsets(PAYERS, {TopicPartition(PAID, 0): number + 1})
            if is_aborted(number):
                raise _TakenBackError

    def before(self, moment: float) -> set[int]:
        return _before(self._acknowledged.items(), moment)

    def close(self) -> None:
        self._client.close()


class _TakenBackError(Exception):
    pass


def is_aborted(number: int) -> bool:
    """Whether the payer takes back the transaction of this number."""
    return number % _ABORTS == 0


def transactional(address: str, name: str) -> Producer:
    """A producer of transactions; ends what another of that name has begun."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": name})
    producer.init_transactions(_WAIT_S)
    return producer


def write_everywhere(producer: Producer, value: str) -> None:
    """A message for each partition, stored but not committed when this returns."""
    for number in range(PARTITIONS):
        producer.produce(PAID, value, partition=number)
    producer.flush(_WAIT_S)


def _before(acknowledged: Iterable[tuple[_T, float]], moment: float) -> set[_T]:
    return {what for what, when in list(acknowledged) if when < moment - _MARGIN_S}
