"""What tests of consumer groups share: fast settings, members in processes, a judge of logs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from support.server import ServerProcess

FAST_SHARE: Final = (
    *("--groups-share-min-session-timeout", "500ms"),
    *("--groups-share-min-heartbeat-interval", "100ms"),
    *("--groups-share-min-record-lock-duration", "100ms"),
)
"""Share groups may be set to shorter times than Kafka's bounds allow."""
_FAST: Final = (
    *("--groups-initial-rebalance-delay", "0ms"),
    *("--groups-min-session-timeout", "500ms"),
    *("--groups-consumer-heartbeat-interval", "300ms"),
    *FAST_SHARE,
)
FAST_GROUPS: Final = (*_FAST, "--groups-consumer-session-timeout", "2m")
"""For tests in which nobody is silent for so long, however busy the machine is."""
PATIENT_GROUPS: Final = (*_FAST, "--groups-consumer-session-timeout", "30s")
"""For tests in which a client may leave while it has no connection, and nobody hears of it."""
MORTAL_GROUPS: Final = (*_FAST, "--groups-consumer-session-timeout", "6s")
"""For tests that wait until somebody is given up."""
WAIT_S: Final = 90.0
"""Far longer than anything here takes; only a hang gets there."""

TopicPartition = tuple[str, int]


# --- Topics and messages -------------------------------------------------------------------------


def make_topic(server: ServerProcess, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result(WAIT_S)


def publish(server: ServerProcess, topic: str, values: Iterable[str], partitions: int) -> None:
    """Publish values in turn to each partition, and wait for all acknowledgements."""
    producer = Producer({"bootstrap.servers": server.kafka_address, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(WAIT_S) == 0


class Stream:
    """A producer that goes on until told to stop; every value names its time and is unique."""

    def __init__(self, server: ServerProcess, topic: str, partitions: int, each_s: float) -> None:
        self.acknowledged: set[str] = set()
        self._topic = topic
        self._partitions = partitions
        self._each_s = each_s
        self._stop = threading.Event()
        settings = {"bootstrap.servers": server.kafka_address, "linger.ms": 0, "log_level": 0}
        self._producer = Producer({**settings, "enable.idempotence": True})
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        number = 0
        due = time.monotonic()
        while not self._stop.is_set():
            for partition in range(self._partitions):
                value = f"{partition}/{number} {time.monotonic()}"
                self._producer.produce(
                    self._topic, value, partition=partition, on_delivery=self._delivered
                )
            number += 1
            due += self._each_s
            self._producer.poll(0)
            self._stop.wait(max(due - time.monotonic(), 0))

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.add(message.value().decode())

    def stop(self) -> set[str]:
        """Every value that was acknowledged."""
        self._stop.set()
        self._thread.join(WAIT_S)
        assert self._producer.flush(WAIT_S) == 0
        return self.acknowledged

    @classmethod
    @contextmanager
    def into(
        cls, server: ServerProcess, topic: str, partitions: int, each_s: float
    ) -> Iterator[Stream]:
        """Publish one message a partition every `each_s` seconds."""
        stream = cls(server, topic, partitions, each_s)
        stream._thread.start()
        try:
            yield stream
        finally:
            stream._stop.set()
            stream._thread.join(WAIT_S)


# --- Members -------------------------------------------------------------------------------------


class Delivery(NamedTuple):
    at_s: float
    partition: TopicPartition
    offset: int
    value: str


class Held(NamedTuple):
    """From when to when a member had a partition, by its own account."""

    partition: TopicPartition
    from_s: float
    to_s: float


class Member:
    """A `group_member.py` process and what it has told so far."""

    def __init__(self, client: str, server: ServerProcess, group: str, **options: Any) -> None:
        self.name = f"{client}-{id(self)}"
        self.events: list[list[Any]] = []
        self.deliveries: list[Delivery] = []
        self.killed_at_s: float | None = None
        self._held: dict[TopicPartition, float] = {}
        self._was_held: list[Held] = []
        said = {
            "client": client,
            "bootstrap": server.kafka_address,
            "group": group,
            "topics": options.pop("topics"),
            "settings": options,
        }
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("group_member.py")), json.dumps(said)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                at_s, event, *details = json.loads(line)
            except ValueError:
                continue  # the last line of a process that was killed while it wrote
            if event == "message":
                (topic, partition), offset, value = details
                self.deliveries.append(Delivery(at_s, (topic, partition), offset, value))
            else:
                self.events.append([at_s, event, *details])
                self._take_note(at_s, event, details)
        self._process.stdout.close()

    def _take_note(self, at_s: float, event: str, details: list[Any]) -> None:
        if event in ("assigned", "revoked", "lost"):
            parts = [(topic, number) for topic, number in details[0]]
        if event == "assigned":
            self._held.update((part, self._held.get(part, at_s)) for part in parts)
        elif event in ("revoked", "lost"):
            for part in parts:
                self._let_go(part, at_s)
        elif event == "leaves":
            for part in list(self._held):
                self._let_go(part, at_s)

    def _let_go(self, part: TopicPartition, at_s: float) -> None:
        from_s = self._held.pop(part, None)
        if from_s is not None:
            self._was_held.append(Held(part, from_s, at_s))

    @property
    def partitions(self) -> set[TopicPartition]:
        """What it has now."""
        return set(self._held)

    def held(self) -> list[Held]:
        """Everything that it has, or had at a time."""
        end_s = time.monotonic() if self.killed_at_s is None else self.killed_at_s
        return [*self._was_held, *(Held(part, at_s, end_s) for part, at_s in self._held.items())]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def values(self) -> list[str]:
        return [each.value for each in self.deliveries]

    def count(self, *events: str) -> int:
        """How often something happened."""
        return sum(each[1] in events for each in self.events)

    def leave(self) -> None:
        """Let it leave the group in order."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(WAIT_S) == 0
        self._reader.join(WAIT_S)
        assert self.events[-1][1] == "left"

    def kill(self) -> None:
        """`kill -9`: the group is not told."""
        self.killed_at_s = time.monotonic()
        self._process.kill()
        self._process.wait(WAIT_S)
        self._reader.join(WAIT_S)

    def freeze(self) -> None:
        """Stop it in its tracks, as a long pause of its machine would."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self.kill()


@contextmanager
def cast() -> Iterator[Callable[..., Member]]:
    """Starts members, and ends those that are left."""
    members: list[Member] = []

    def start(*args: Any, **options: Any) -> Member:
        member = Member(*args, **options)
        members.append(member)
        return member

    try:
        yield start
    finally:
        for member in members:
            member.end()


def share_out(members: list[Member], topic: str, partitions: int) -> None:
    """Wait until members have all partitions between them, evenly, each with one owner."""
    everything = Counter((topic, number) for number in range(partitions))

    def is_shared() -> bool:
        assert all(member.is_running for member in members), "a member ended by itself"
        owned = Counter(part for member in members for part in member.partitions)
        fair = range(partitions // len(members), -(-partitions // len(members)) + 1)
        return owned == everything and all(len(each.partitions) in fair for each in members)

    try:
        eventually(is_shared, "every partition has one owner")
    except AssertionError as error:
        told = "\n".join(f"{member.name}: {member.events}" for member in members)
        raise AssertionError(f"{error}\n{told}") from None


# --- Judging -------------------------------------------------------------------------------------


def check_one_owner(members: list[Member]) -> None:
    """No partition had two owners at a time, by the members' own accounts."""
    by_partition: dict[TopicPartition, list[tuple[Held, str]]] = {}
    for member in members:
        for held in member.held():
            by_partition.setdefault(held.partition, []).append((held, member.name))
    for partition, all_held in by_partition.items():
        for (earlier, who), (later, other) in pairwise(sorted(all_held)):
            assert earlier.to_s <= later.from_s, (
                f"{partition} belonged to {who} until {earlier.to_s} and to {other} "
                f"from {later.from_s}"
            )


def check_all_delivered(members: list[Member], values: set[str]) -> None:
    """Wait until everything that was acknowledged has been delivered to somebody."""
    eventually(
        lambda: values <= {value for member in members for value in member.values()},
        f"all of {len(values)} messages delivered",
    )
