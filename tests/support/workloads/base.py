"""What every workload is: clients that begin anew when they fail, progress, and findings."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.pace import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from support.history import Finding

PROGRESS_S: Final = 120.0 * PATIENCE
DRAIN_S: Final = 120.0 * PATIENCE
"""Within which something more of what was published is worked off at the end."""
MAX_DRAIN_S: Final = 5 * DRAIN_S
STOP_S: Final = 120.0
MESSAGE_TIMEOUT_MS: Final = 600_000
"""Longer than any outage: when it gives a message up, librdkafka takes another epoch, and sends
again what may be stored already."""


class Client(ABC):
    """A thread that works until it is told to stop; a failure makes it begin anew."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopping = threading.Event()
        self.errors: list[str] = []
        """Why it had to begin anew, or worse."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float = STOP_S) -> None:
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _run(self) -> None:
        turn = 0
        while not self.stopping.is_set():
            turn += 1
            try:
                self.work(f"{self.name}.{turn}")
            except Exception as error:  # noqa: BLE001 - whatever a client says is told
                self.errors.append(f"{time.monotonic():.1f}: {type(error).__name__}: {error}")
                self.stopping.wait(0.5)

    @abstractmethod
    def work(self, name: str) -> None:
        """One life of the client, under a name of its own."""


class Workload(ABC):
    """Clients of one capability, from `start` to `finish`."""

    topics: dict[str, int]
    """What they work on: the partitions of each topic."""
    clients: list[Client]

    def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Make what the clients need besides topics."""

    def start(self) -> None:
        for each in self.clients:
            each.start()

    def stop(self) -> None:
        """End all clients."""
        for each in self.clients:
            each.stopping.set()
        for each in self.clients:
            each.join()

    def give_up(self) -> None:
        """End all clients, and do not wait for them."""
        for each in self.clients:
            each.stopping.set()

    def coordinators(self) -> list[tuple[int, str]]:
        """The keys that the cluster has coordinators for: a kind of FindCoordinator, and a name."""
        return []

    @abstractmethod
    def done(self) -> dict[str, int]:
        """How much each part of it has done; each must grow while the cluster is whole."""

    def wait_for_progress(self, within_s: float = PROGRESS_S, count: int = 5) -> None:
        """Every part gets something done from now on."""
        before = self.done()
        deadline = time.monotonic() + within_s
        while True:
            now = self.done()
            slow = [name for name, done in before.items() if now[name] < done + count]
            if not slow:
                return
            assert time.monotonic() < deadline, f"{slow} make no progress: {self.errors()}"
            time.sleep(0.05)

    def errors(self) -> dict[str, list[str]]:
        """What clients had to begin anew for."""
        return {each.name: each.errors[-5:] for each in self.clients if each.errors}

    @abstractmethod
    def finish(self) -> list[Finding]:
        """End the clients once everything is done; what is wrong."""

    def drain(self, left: Callable[[], Any], what: str) -> None:
        """Wait until nothing is left, or nothing is done any more; the rest is for the judge."""
        latest_s = time.monotonic() + MAX_DRAIN_S
        rest, deadline = None, 0.0
        while (now_left := left()) and time.monotonic() < latest_s:
            if now_left != rest:
                rest, deadline = now_left, time.monotonic() + DRAIN_S
            elif time.monotonic() > deadline:
                break
            time.sleep(0.2)
        if now_left:
            self.clients[0].errors.append(f"{what}: {now_left}"[:500])


def make_topics(bootstrap: str, topics: dict[str, int], **config: str) -> None:
    """Every partition on three nodes."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + PROGRESS_S
    for topic, partitions in topics.items():
        while not _is_made(admin, NewTopic(topic, partitions, 3, config=config)):
            assert time.monotonic() < deadline, f"{topic} cannot be made"
            time.sleep(0.2)


def _is_made(admin: AdminClient, topic: NewTopic) -> bool:
    """Make a topic; whether it is there."""
    try:
        admin.create_topics([topic])[topic.topic].result(30)
    except TimeoutError:
        return False
    except KafkaException as error:
        code = error.args[0]
        if code.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return True
        if not code.retriable():
            raise
        return False
    return True


class Feeder(Client):
    """An idempotent producer that sends numbered values to topics in turn."""

    def __init__(self, bootstrap: str, topics: Iterable[str], partitions: int, rate: float) -> None:
        super().__init__("feeder")
        self.acked: dict[str, set[str]] = {each: set() for each in topics}
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._pause_s = 1 / rate

    def work(self, name: str) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "socket.timeout.ms": 3000,
                "request.timeout.ms": 3000,
                "message.timeout.ms": MESSAGE_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
                "error_cb": lambda error: None,
            }
        )
        life = name.rpartition(".")[2]
        number = 0
        while not self.stopping.wait(self._pause_s):
            for topic, acked in self.acked.items():

                def told(error: Any, message: Any, acked: set[str] = acked) -> None:
                    if error is None:
                        acked.add(message.value().decode())

                value = f"{life}-{number}"
                at = number % self._partitions
                producer.produce(topic, value, partition=at, on_delivery=told)
            number += 1
            producer.poll(0)
        assert producer.flush(STOP_S - 10) == 0, "messages are neither stored nor refused"
