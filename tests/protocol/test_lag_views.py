"""The lag of a group is one number, whoever asks: API, command line, metrics and Spark's report."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

import goqueue
from goqueue.cli.root import app
from goqueue.spark.jobs.reports.lag import lag_report
from protocol.kafka_clients import confluent_consumer
from support.http_api import HttpApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import Consumer

    from support.server import ServerProcess

WAIT_S = 60.0


class Seen(NamedTuple):
    """What one view tells of a group."""

    lag: int
    uncommitted: int


class Reader(NamedTuple):
    group: str
    topic: str
    consumer: Consumer


@pytest.fixture
def api(broker: ServerProcess) -> Iterator[HttpApi]:
    made = HttpApi(broker.http_port)
    yield made
    made.close()


@pytest.fixture
def topic(api: HttpApi, name: Callable[[str], str]) -> str:
    """Three partitions with 100, 40 and 7 messages."""
    made = name("lagging")
    api.post("/topics", {"name": made, "num_partitions": 3})
    for number, count in enumerate((100, 40, 7)):
        api.publish(made, *(f"{each}" for each in range(count)), partition=number)
    return made


def command(broker: ServerProcess, *words: str) -> Any:
    done = CliRunner().invoke(app, [*words, "-s", broker.http_url, "-o", "json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def views(broker: ServerProcess, api: HttpApi, group: str) -> dict[str, Seen]:
    """The lag of a group as every view has it."""
    found: dict[str, Seen] = {}
    (listed,) = (each for each in api.get("/groups")["groups"] if each["group"] == group)
    found["list"] = Seen(listed["total_lag"], listed["uncommitted_lag"])
    for kind, path in (("group", f"/groups/{group}"), ("offsets", f"/groups/{group}/offsets")):
        answer = api.get(path)
        assert answer["total_lag"] == sum(sum(each.values()) for each in answer["lag"].values())
        uncommitted = sum(
            answer["lag"][topic][number]
            for topic, offsets in answer["offsets"].items()
            for number, offset in offsets.items()
            if offset is None
        )
        assert uncommitted == answer["uncommitted_lag"]
        found[kind] = Seen(answer["total_lag"], uncommitted)
    described = command(broker, "group", "describe", group)
    found["command"] = Seen(described["total_lag"], described["uncommitted_lag"])
    with goqueue.Client(broker.kafka_address) as client:
        for kind, offsets in (
            ("grpc", client.offsets.fetch(group)),
            ("grpc group", client.groups.describe(group).offsets),
        ):
            missing = sum(each.lag for each in offsets if each.offset is None)
            found[kind] = Seen(sum(each.lag for each in offsets), missing)
    metrics = api.metrics()
    sums = [
        sum(
            float(line.rpartition(" ")[2])
            for line in metrics.splitlines()
            if line.startswith(f"goqueue_consumer_{metric}{{") and f'"{group}"' in line
        )
        for metric in ("lag", "uncommitted_lag")
    ]
    found["metrics"] = Seen(*map(int, sums))
    summary = lag_report(broker.kafka_address, groups=group).summary
    found["spark"] = Seen(int(summary["lag"]), int(summary["uncommitted_lag"]))
    return found


def agreed(broker: ServerProcess, api: HttpApi, group: str) -> Seen:
    found = views(broker, api, group)
    assert len(set(found.values())) == 1, found
    return found["group"]


def assigned_all(consumer: Consumer, topic: str) -> None:
    """Poll until the consumer has all partitions; what comes meanwhile is read and forgotten."""
    deadline_s = time.monotonic() + WAIT_S
    while len(consumer.assignment()) < 3:
        assert time.monotonic() < deadline_s
        consumer.poll(0.1)


@pytest.fixture
def reader(broker: ServerProcess, topic: str, name: Callable[[str], str]) -> Iterator[Reader]:
    """A member of a log group that has every partition and has committed nothing."""
    group = name("reader")
    options = {"group_id": group, "enable_auto_commit": False}
    with confluent_consumer(broker.kafka_address, **options) as consumer:
        consumer.subscribe([topic])
        assigned_all(consumer, topic)
        yield Reader(group, topic, consumer)


def test_a_log_group_that_has_committed_nothing_shows_its_lag(api: HttpApi, reader: Reader) -> None:
    shown = api.get(f"/groups/{reader.group}")
    assert shown["lag"] == {reader.topic: {"0": 100, "1": 40, "2": 7}}
    assert shown["total_lag"] == 147


def test_the_lag_of_a_group_falls_with_its_first_commit(api: HttpApi, reader: Reader) -> None:
    """What the charts of the console and of Prometheus are drawn from."""

    def drawn() -> tuple[int, float]:
        lines = api.metrics().splitlines()
        of_group = (
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith("goqueue_consumer_lag{") and f'"{reader.group}"' in line
        )
        return api.get(f"/groups/{reader.group}")["total_lag"], sum(of_group)

    assert drawn() == (147, 147)
    reader.consumer.commit(offsets=[TopicPartition(reader.topic, 0, 90)], asynchronous=False)
    assert drawn() == (57, 57)


def test_group_describe_has_a_row_for_partitions_without_a_commit(
    broker: ServerProcess, reader: Reader
) -> None:
    reader.consumer.commit(offsets=[TopicPartition(reader.topic, 0, 90)], asynchronous=False)
    done = CliRunner().invoke(app, ["group", "describe", reader.group, "-s", broker.http_url])
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines() if reader.topic in line.split()]
    assert {row[row.index(reader.topic) + 1] for row in rows} >= {"0", "1", "2"}, done.stdout


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_assigned_partitions_without_a_commit_count_from_the_log_start_in_every_view(
    broker: ServerProcess, api: HttpApi, topic: str, name: Callable[[str], str], protocol: str
) -> None:
    group = name(f"views-{protocol}")
    options = {"group_id": group, "group_protocol": protocol, "enable_auto_commit": False}
    with confluent_consumer(broker.kafka_address, **options) as consumer:
        consumer.subscribe([topic])
        assigned_all(consumer, topic)
        assert agreed(broker, api, group) == Seen(147, 147)
        assert api.get(f"/groups/{group}")["offsets"][topic] == {"0": None, "1": None, "2": None}

        consumer.commit(offsets=[TopicPartition(topic, 0, 90)], asynchronous=False)
        assert agreed(broker, api, group) == Seen(10 + 47, 47)
        rows = command(broker, "group", "describe", group)
        assert rows["offsets"][topic] == {"0": 90, "1": None, "2": None}
    # The members are gone, and what they had not committed is still to be read.
    deadline_s = time.monotonic() + WAIT_S
    while api.get(f"/groups/{group}")["member_count"]:
        assert time.monotonic() < deadline_s
    assert agreed(broker, api, group) == Seen(10 + 47, 47)


def test_offsets_committed_from_outside_say_nothing_of_other_partitions(
    broker: ServerProcess, api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    group = name("outside")
    api.post(f"/groups/{group}/offsets", {"offsets": {topic: {"1": 25}}})
    assert agreed(broker, api, group) == Seen(15, 0)


def test_messages_that_were_removed_are_nobody_s_lag(
    broker: ServerProcess, api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    group = name("removed")
    api.post(f"/groups/{group}/offsets", {"offsets": {topic: {"0": 25}}})
    admin = AdminClient({"bootstrap.servers": broker.kafka_address})
    admin.delete_records([TopicPartition(topic, 0, 60)])[TopicPartition(topic, 0)].result(WAIT_S)
    assert agreed(broker, api, group) == Seen(40, 0)


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_a_queue_group_has_one_lag_too(
    broker: ServerProcess, api: HttpApi, topic: str, name: Callable[[str], str], mode: str
) -> None:
    group = name(f"queue-{mode}")
    joined = api.post(f"/groups/{group}/join", {"topics": [topic], "assignment": mode})
    polled = api.get(f"/groups/{group}/poll?member_id={joined['member_id']}&timeout=60s&limit=1000")
    first = [each for each in polled["messages"] if each["partition"] == 2]
    receipts = [each["receipt_handle"] for each in first]
    if receipts:
        api.post("/messages/ack/batch", {"receipt_handles": receipts})
    assert agreed(broker, api, group) == Seen(147 - len(first), 0)


def test_the_lag_of_an_open_transaction_is_the_same_in_spark(
    broker: ServerProcess, api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    group = name("open")
    api.post(f"/groups/{group}/offsets", {"offsets": {topic: {"2": 7}}})
    producer = Producer({"bootstrap.servers": broker.kafka_address, "transactional.id": group})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=2)
    producer.flush()
    assert agreed(broker, api, group) == Seen(1, 0)
    producer.abort_transaction()
