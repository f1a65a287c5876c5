"""Queue and share groups through the death of the nodes that coordinate and lead them.

Nothing that was acknowledged is redelivered, everything else is, and delivery counts are true.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from goqueue import AsyncClient
from goqueue.client.link.link import GROUP_KEY
from goqueue.model.errors import GoQueueError
from goqueue.model.topic_partition import TopicPartition
from goqueue.testing import Cluster
from support.etcd import need_etcd
from support.oracles.queues import QueueHistory
from support.waiting import eventually
from support.workers import Tasks, WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from confluent_kafka import Message

    from goqueue.client.queues.messages import AsyncQueueMessage

PARTITIONS = 3
LOCK_MS = 3000
WITHIN_S = 90.0
LOST = KafkaException(KafkaError(KafkaError._TRANSPORT))
IN_DOUBT = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT)
"""The request was sent, and no answer came; or the broker does not know whether it is stored."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    fast = {
        "groups.share_min_session_timeout": "500ms",
        "groups.share_min_heartbeat_interval": "100ms",
        "groups.share_min_record_lock_duration": "100ms",
    }
    with Cluster(3, settings=fast) as made:
        yield made


def admin_of(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def make_topic(cluster: Cluster) -> str:
    name = cluster.unique_name("failover")
    admin = admin_of(cluster)
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 3)]).values():
        made.result(WITHIN_S)
    return name


def make_group(cluster: Cluster) -> str:
    name = cluster.unique_name("group")
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(LOCK_MS),
        "share.delivery.count.limit": "10",
        "share.heartbeat.interval.ms": "500",
    }
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=entries)
    admin = admin_of(cluster)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(WITHIN_S)
    return name


def asked(cluster: Cluster, question: Callable[[AsyncClient], Awaitable[int]]) -> int:
    """What a client of ours knows of the cluster."""

    async def ask() -> int:
        async with AsyncClient(cluster.bootstrap) as client:
            return await client.link.retry("asking", lambda: question(client))

    return asyncio.run(ask())


def coordinator(cluster: Cluster, group: str) -> int:
    return asked(cluster, lambda client: client.link.coordinator(GROUP_KEY, group))


def leader(cluster: Cluster, topic: str, partition: int) -> int:
    place = TopicPartition(topic, partition)
    return asked(cluster, lambda client: client.link.leader(place))


def kill_in_turn(cluster: Cluster, topic: str, group: str) -> None:
    """Kill the coordinator, then whoever leads a partition and does not coordinate."""
    time.sleep(1)
    first = coordinator(cluster, group)
    cluster.kill(first)
    time.sleep(3)
    cluster.start(first)
    time.sleep(1)
    here = coordinator(cluster, group)
    leaders = {leader(cluster, topic, number) for number in range(PARTITIONS)}
    second = min(leaders - {here}, default=here)
    cluster.kill(second)
    time.sleep(3)
    cluster.start(second)
    time.sleep(1)


@contextmanager
def publishing(cluster: Cluster, topic: str, history: QueueHistory) -> Iterator[None]:
    """Publish with an idempotent producer as long as it lasts."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "socket.timeout.ms": 3000,
            "log_level": 0,
        }
    )
    stopping = threading.Event()

    def stored(error: object, message: Message) -> None:
        if error is None:
            history.published.add(message.value().decode())

    def publish() -> None:
        number = 0
        while not stopping.is_set():
            for _ in range(20):
                producer.produce(topic, b"%d" % number, on_delivery=stored)
                number += 1
            producer.poll(0)
            stopping.wait(0.05)
        assert producer.flush(WITHIN_S) == 0

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


# --- confluent-kafka's share consumer ------------------------------------------------------------


class Sharing(threading.Thread):
    """A share consumer that acknowledges each message, and waits until that is stored."""

    def __init__(self, cluster: Cluster, topic: str, group: str, history: QueueHistory) -> None:
        super().__init__()
        self.consumer = ShareConsumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "share.acknowledgement.mode": "explicit",
                "socket.timeout.ms": 3000,
                "log_level": 0,
            }
        )
        self.consumer.subscribe([topic])
        self.history = history
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            messages = [each for each in self.consumer.poll(0.5) if not each.error()]
            for each in messages:
                self.history.delivered(each.value().decode(), each.delivery_count())
                self.consumer.acknowledge(each)
            if not messages:
                continue
            results = self.consumer.commit_sync(20)
            errors = {(at.topic, at.partition): error for at, error in results.items()}
            for each in messages:
                value = each.value().decode()
                error = errors.get((each.topic(), each.partition()), LOST)
                if error is None:
                    self.history.settled(value, each.delivery_count())
                elif error.args[0].code() in IN_DOUBT:
                    self.history.in_doubt(value)
                else:
                    self.history.refused(value, str(error))
        self.consumer.close()


@pytest.mark.timeout(300)
def test_share_consumers_lose_nothing_and_get_nothing_twice_through_two_deaths(cluster):
    topic, group = make_topic(cluster), make_group(cluster)
    history = QueueHistory()
    consumers = [Sharing(cluster, topic, group, history) for _ in range(2)]
    for each in consumers:
        each.start()
    try:
        with publishing(cluster, topic, history):
            kill_in_turn(cluster, topic, group)
        until_s = time.monotonic() + WITHIN_S
        while history.left and time.monotonic() < until_s:
            time.sleep(0.2)
    finally:
        for each in consumers:
            each.stopping.set()
        for each in consumers:
            each.join()
    history.check()


# --- Our own client ------------------------------------------------------------------------------


async def work(client: AsyncClient, topic: str, group: str, history: QueueHistory) -> None:
    async with (
        client.queue(group, [topic], visibility=LOCK_MS / 1000, max_deliveries=20) as queue,
        asyncio.TaskGroup() as tasks,
    ):
        async for message in queue:
            history.delivered(message.value.decode(), message.delivery_count)
            tasks.create_task(settle(message, history))


async def settle(message: AsyncQueueMessage, history: QueueHistory) -> None:
    try:
        await message.ack()
    except GoQueueError as error:
        history.refused(message.value.decode(), str(error))
        return
    history.settled(message.value.decode(), message.delivery_count)


@pytest.mark.timeout(300)
def test_members_of_a_queue_group_lose_nothing_and_get_nothing_twice_through_two_deaths(cluster):
    topic, group = make_topic(cluster), cluster.unique_name("group")
    history = QueueHistory()

    async def publish(client: AsyncClient, stopping: asyncio.Event) -> None:
        number, handles = 0, {}
        while not stopping.is_set():
            for _ in range(20):
                handles[str(number)] = await client.publish(topic, b"%d" % number)
                number += 1
            await asyncio.sleep(0.05)
        for value, handle in handles.items():
            await handle
            history.published.add(value)
        assert len(handles) == number

    async def scenario() -> None:
        async with AsyncClient(cluster.bootstrap) as client, asyncio.timeout(200):
            stopping = asyncio.Event()
            publisher = asyncio.create_task(publish(client, stopping))
            workers = [asyncio.create_task(work(client, topic, group, history)) for _ in range(2)]
            await asyncio.sleep(1)
            await asyncio.to_thread(kill_in_turn, cluster, topic, group)
            stopping.set()
            await publisher
            until_s = time.monotonic() + WITHIN_S
            while history.left and time.monotonic() < until_s:
                await asyncio.sleep(0.1)
                for each in workers:
                    assert not each.done(), each
            for each in workers:
                each.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    asyncio.run(scenario())
    history.check()


@pytest.mark.timeout(300)
def test_a_member_of_a_log_group_reads_everything_in_order_through_two_deaths(cluster):
    topic, group = make_topic(cluster), cluster.unique_name("group")
    history = QueueHistory()
    found: dict[int, list[int]] = {}

    async def read(client: AsyncClient) -> None:
        async with client.subscribe(group, [topic], start="earliest") as consumer:
            async for message in consumer:
                found.setdefault(message.partition, []).append(message.offset)
                history.settled(message.value.decode(), 1)

    async def scenario() -> None:
        async with AsyncClient(cluster.bootstrap) as client, asyncio.timeout(200):
            reading = asyncio.create_task(read(client))
            with publishing(cluster, topic, history):
                await asyncio.to_thread(kill_in_turn, cluster, topic, group)
            until_s = time.monotonic() + WITHIN_S
            while history.left and time.monotonic() < until_s:
                await asyncio.sleep(0.1)
                assert not reading.done(), reading
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    asyncio.run(scenario())
    assert not history.left
    for offsets in found.values():
        assert offsets == list(range(len(offsets)))  # one member: nothing is read twice


@pytest.mark.timeout(300)
def test_a_worker_runs_every_task_through_the_death_of_the_coordinator(cluster, tmp_path):
    tasks = Tasks(cluster.unique_name("app"), tmp_path, cluster.bootstrap)
    try:
        with WorkerProcess(tasks) as worker:
            worker.ready()
            for number in range(20):
                tasks.plain.send(f"before-{number}")
            first = coordinator(cluster, tasks.name)
            cluster.kill(first)
            for number in range(20):
                tasks.plain.send(f"after-{number}")
            for when in ("before", "after"):
                for number in range(20):
                    mark = f"{when}-{number}"
                    eventually(partial(tasks.records, mark), f"{mark} has run")
            cluster.start(first)
            assert worker.stop() == 0
    finally:
        tasks.app.close()
