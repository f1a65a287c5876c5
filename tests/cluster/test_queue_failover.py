"""Queue groups on several nodes: the first poll, and `kill -9` of the node that keeps a group.

After a kill its messages, receipts and dead letters are judged.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.queues.delivery.group import REDRIVE_GROUP
from goqueue.testing.cluster import Cluster
from goqueue.wire.kafka.api_keys import ApiKey
from support.cluster_queue import QueueClient, RefusedError
from support.etcd import need_etcd
from support.kafka_wire import WireClient

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(400)

PARTITIONS = 3
WITHIN_S = 150.0


@pytest.fixture(scope="module", params=[False, True], ids=["from replicas", "from leaders"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Nodes whose queue groups read replicas of their own, or only the leaders of partitions."""
    need_etcd()
    with Cluster(3, settings={"cluster.remote_queue_sources": request.param}) as made:
        yield made


def make_topic(cluster: Cluster, values: list[str]) -> str:
    """A topic on all nodes with these messages."""
    topic = cluster.unique_name("jobs")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 3)]).values():
        made.result(60)
    publish(cluster, topic, values)
    return topic


def publish(cluster: Cluster, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def read_all(cluster: Cluster, topic: str, count: int) -> list[str]:
    """Everything in a topic, once so many messages are there and no more come."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": cluster.unique_name("reader"),
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found: list[str] = []
    deadline = time.monotonic() + WITHIN_S
    quiet_until = time.monotonic() + 3.0
    try:
        while len(found) < count or time.monotonic() < quiet_until:
            assert time.monotonic() < deadline, f"{len(found)} of {count} are there"
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value().decode())
                quiet_until = time.monotonic() + 3.0
    finally:
        consumer.close()
    return found


def test_the_first_poll_of_a_group_gives_the_most_urgent_of_all_partitions(
    cluster: Cluster,
) -> None:
    topic, client = make_topic(cluster, []), QueueClient(cluster)
    messages = [
        {"value": priority, "priority": priority, "partition": partition}
        for partition, priority in enumerate(("background", "normal", "critical"))
    ]
    client.ask("POST", f"/topics/{topic}/messages", {"messages": messages})
    for _ in range(6):  # kept on all of the nodes
        group = cluster.unique_name("group")
        member = client.join(group, topic, assignment="shared")
        (first,) = client.poll(group, member, 1)
        assert first["value"] == "critical"


class Member(threading.Thread):
    """Works until all is done: acknowledges most messages, returns some, rejects a few."""

    def __init__(self, cluster: Cluster, group: str, topic: str, shared: Shared) -> None:
        super().__init__(daemon=True)
        self.client = QueueClient(cluster)
        self.group, self.topic, self.shared = group, topic, shared
        self.luck = random.Random(shared.seed + id(self) % 97)
        self.joins = 0

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            self.shared.errors.append(error)

    def _run(self) -> None:
        member = self._join()
        while not self.shared.is_done.is_set():
            try:
                messages = self.client.poll(self.group, member, 20)
            except RefusedError:
                member = self._join()
                continue
            self.shared.delivered(messages)
            by_verdict: dict[str, list[dict[str, Any]]] = {"ack": [], "nack": [], "reject": []}
            for each in messages:
                chance = self.luck.random()
                verdict = "reject" if each["value"] in self.shared.bad else "ack"
                if verdict == "ack" and chance < 0.2:
                    verdict = "nack"
                by_verdict[verdict].append(each)
            for verdict, some in by_verdict.items():
                if some:
                    self._settle(verdict, some)

    def _join(self) -> str:
        self.joins += 1
        return self.client.join(
            self.group,
            self.topic,
            assignment="shared",
            visibility_timeout="8s",
            backoff="50ms",
            max_deliveries=100,
            session_timeout="20s",
        )

    def _settle(self, verdict: str, messages: list[dict[str, Any]]) -> None:
        values = {each["receipt_handle"]: each["value"] for each in messages}
        said = {"reason": "bad"} if verdict == "reject" else {}
        counted = set(self.client.settled(verdict, list(values), **said))
        for receipt, value in values.items():
            self.shared.settled(verdict if receipt in counted else "in doubt", value)


class Shared:
    """What all members know: the oracle."""

    def __init__(self, values: list[str], bad: set[str], seed: int) -> None:
        self.values, self.bad, self.seed = set(values), bad, seed
        self.is_done = threading.Event()
        self.errors: list[BaseException] = []
        self.counts: dict[str, list[int]] = {}
        self.acked: dict[str, float] = {}
        self.rejected: set[str] = set()
        self.in_doubt: set[str] = set()
        """What was said of them was lost with a node: they are done, or come again."""
        self.again: list[str] = []
        """Delivered after they were acknowledged or rejected."""
        self._lock = threading.Lock()

    def delivered(self, messages: list[dict[str, Any]]) -> None:
        with self._lock:
            for each in messages:
                value = each["value"]
                if value in self.acked or value in self.rejected:
                    self.again.append(value)
                self.counts.setdefault(value, []).append(each["delivery_count"])

    def settled(self, verdict: str, value: str) -> None:
        with self._lock:
            if verdict == "ack":
                self.acked[value] = time.monotonic()
            elif verdict == "reject":
                self.rejected.add(value)
            elif verdict == "in doubt":
                self.in_doubt.add(value)

    @property
    def done_count(self) -> int:
        return len({*self.acked, *self.rejected, *self.in_doubt})

    def check(self) -> None:
        assert not self.errors, self.errors
        assert self.again == []
        assert self.counts.keys() == self.values
        for value, counts in self.counts.items():
            assert len(set(counts)) == len(counts), f"{value} has a delivery count twice: {counts}"


def coordinator_of(cluster: Cluster, group: str) -> int:
    """The node that keeps a group, as any node says that is alive."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        for node in (1, 2, 3):
            with suppress(OSError), WireClient(cluster.kafka_address(node)) as client:
                asked = {"key_type": 0, "coordinator_keys": [group]}
                (found,) = client.call(ApiKey.FIND_COORDINATOR, 4, **asked).coordinators
                if found.error_code == 0:
                    return int(found.node_id)
        assert time.monotonic() < deadline, f"nobody coordinates {group}"
        time.sleep(0.1)


def is_empty(client: QueueClient, group: str) -> bool:
    """Whether there is nothing left to do in a group."""
    by_topic = client.ask("GET", f"/groups/{group}")["queue"]["partitions"]
    partitions = [each for topic in by_topic.values() for each in topic.values()]
    names = ("ready", "in_flight", "waiting", "dead")
    return not any(each[name] for each in partitions for name in names)


def test_nothing_acknowledged_is_redelivered_and_each_dead_letter_is_there_once(
    cluster: Cluster,
) -> None:
    values = [str(number) for number in range(1500)]
    bad = set(values[::25])
    topic, group = make_topic(cluster, values[:500]), cluster.unique_name("workers")
    shared = Shared(values, bad, 7)
    members = [Member(cluster, group, topic, shared) for _ in range(3)]
    for each in members:
        each.start()
    client = QueueClient(cluster)
    deadline = time.monotonic() + WITHIN_S
    for part in (1, 2):
        while shared.done_count < part * 500 - 350:
            assert time.monotonic() < deadline, f"{shared.done_count} are done"
            time.sleep(0.01)
        node = coordinator_of(cluster, group)
        cluster.kill(node)
        publish(cluster, topic, values[part * 500 : (part + 1) * 500])
        time.sleep(2)
        cluster.start(node)
    while shared.done_count < len(values) or not is_empty(client, group):
        assert not shared.errors, shared.errors
        assert time.monotonic() < deadline, f"{shared.done_count} are done, {shared.errors}"
        time.sleep(0.2)
    shared.is_done.set()
    for each in members:
        each.join(60)
    shared.check()
    assert [each.joins for each in members] == [1, 1, 1]
    assert Counter(read_all(cluster, f"{topic}.dlq", len(bad))) == Counter(bad)


def test_receipts_and_members_from_before_a_failover_count_after_it(cluster: Cluster) -> None:
    values = [str(number) for number in range(300)]
    topic = make_topic(cluster, values)
    for mode in ("shared", "exclusive"):
        group, client = cluster.unique_name("group"), QueueClient(cluster)
        member = client.join(group, topic, assignment=mode, visibility_timeout="120s")
        held: list[dict[str, Any]] = []
        while len(held) < 200:
            held += client.poll(group, member, 200 - len(held))
        receipts = [each["receipt_handle"] for each in held]
        assert set(client.settled("ack", receipts[:50])) == set(receipts[:50])
        node = coordinator_of(cluster, group)
        cluster.kill(node)
        try:
            late = QueueClient(cluster, [each for each in (1, 2, 3) if each != node])
            # The member goes on; what it has is not handed out again.
            rest: list[dict[str, Any]] = []
            deadline = time.monotonic() + WITHIN_S
            while len(rest) < 100:
                assert time.monotonic() < deadline, f"{mode}: {len(rest)} of 100 came"
                rest += late.poll(group, member, 100)
            assert {each["value"] for each in rest} == {*values} - {each["value"] for each in held}
            assert {each["delivery_count"] for each in rest} == {1}
            assert set(late.settled("ack", receipts[50:])) == set(receipts[50:])
            assert {each["status"] for each in late.settle("ack", receipts[:50])} == {404}
            assert late.ask("GET", f"/groups/{group}")["queue"]["in_flight"] == 100
        finally:
            cluster.start(node)


def test_what_is_stored_of_a_partition_that_is_not_on_the_node_counts(cluster: Cluster) -> None:
    """Neither the node that dies nor, at least once, the one that takes over has the partition."""
    group, client = cluster.unique_name("group"), QueueClient(cluster)
    client.join(group, make_topic(cluster, []), assignment="shared")
    for attempt in range(12):
        node = coordinator_of(cluster, group)
        holder = [each for each in (1, 2, 3) if each != node][attempt % 2]
        topic = cluster.unique_name("single")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        wanted = NewTopic(topic, num_partitions=1, replica_assignment=[[holder]])
        for made in admin.create_topics([wanted]).values():
            made.result(60)
        publish_to(cluster, topic, [str(number) for number in range(100)])
        member = client.join(group, topic, assignment="shared", visibility_timeout="120s")
        held: list[dict[str, Any]] = []
        while len(held) < 60:
            held += client.poll(group, member, 60 - len(held))
        receipts = [each["receipt_handle"] for each in held]
        assert set(client.settled("ack", receipts[:30])) == set(receipts[:30])
        node = coordinator_of(cluster, group)
        if node == holder:
            continue  # it would take the partition with it
        cluster.kill(node)
        try:
            late = QueueClient(cluster, [each for each in (1, 2, 3) if each != node])
            rest: list[str] = []
            deadline = time.monotonic() + WITHIN_S
            while len(rest) < 40:
                assert time.monotonic() < deadline, f"{len(rest)} of 40 came"
                rest += [each["value"] for each in late.poll(group, member, 100)]
            assert sorted(rest) == sorted({*map(str, range(100))} - {e["value"] for e in held})
            assert set(late.settled("ack", receipts[30:])) == set(receipts[30:])
            successor = coordinator_of(cluster, group)
        finally:
            cluster.start(node)
        if successor not in (node, holder):
            return
    raise AssertionError("whoever took over had the partition each time")


def publish_to(cluster: Cluster, topic: str, values: list[str]) -> None:
    """Publish to the only partition of a topic."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(60) == 0


def test_a_receipt_from_before_there_was_a_cluster_still_counts(cluster: Cluster) -> None:
    """It names no shard: every node is asked."""
    topic = make_topic(cluster, [str(number) for number in range(30)])
    group, client = cluster.unique_name("group"), QueueClient(cluster)
    member = client.join(group, topic, assignment="shared", visibility_timeout="120s")
    held = client.poll(group, member, 30, timeout="20s")
    old = [each["receipt_handle"][:-2] for each in held]
    assert set(client.settled("ack", old)) == set(old)
    assert {each["status"] for each in client.settle("ack", old)} == {404}


def test_each_letter_is_redriven_once_when_the_node_that_does_it_is_killed(
    cluster: Cluster,
) -> None:
    values = [str(number) for number in range(120)]
    topic = make_topic(cluster, values)
    group, client = cluster.unique_name("group"), QueueClient(cluster)
    member = client.join(group, topic, assignment="shared", visibility_timeout="120s")
    held: list[dict[str, Any]] = []
    while len(held) < len(values):
        held += client.poll(group, member, 100)
    receipts = [each["receipt_handle"] for each in held]
    assert set(client.settled("reject", receipts, reason="bad")) == set(receipts)
    assert len(read_all(cluster, f"{topic}.dlq", len(values))) == len(values)
    client.ask("POST", f"/topics/{topic}/dlq/redrive", {"rate": 40})
    time.sleep(1)
    node = coordinator_of(cluster, REDRIVE_GROUP)
    cluster.kill(node)
    try:
        late = QueueClient(cluster, [each for each in (1, 2, 3) if each != node])
        redrive = late.ask("POST", f"/topics/{topic}/dlq/redrive", {})
        deadline = time.monotonic() + WITHIN_S
        while redrive["state"] in ("counting", "running"):
            assert time.monotonic() < deadline, redrive
            time.sleep(0.2)
            redrive = late.ask("GET", f"/redrives/{redrive['id']}")
        assert redrive["state"] == "done", redrive
    finally:
        cluster.start(node)
    assert Counter(read_all(cluster, topic, 2 * len(values))) == Counter([*values, *values])
