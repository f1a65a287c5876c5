"""Whatever is counted in two places is the same number in both."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from typer.testing import CliRunner

from goqueue.cli.root import app
from protocol.kafka_clients import confluent_consumer
from support.http_api import HttpApi
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.server import ServerProcess

WAIT_S = 60.0


@pytest.fixture
def api(broker: ServerProcess) -> Iterator[HttpApi]:
    made = HttpApi(broker.http_port)
    yield made
    made.close()


@pytest.fixture
def topic(api: HttpApi, name: Callable[[str], str]) -> str:
    made = name("counted")
    api.post("/topics", {"name": made, "num_partitions": 1})
    return made


def command(broker: ServerProcess, *words: str) -> list[list[str]]:
    """The cells of a table."""
    done = CliRunner().invoke(app, [*words, "-s", broker.http_url])
    assert done.exit_code == 0, done.output
    return [line.split("  ") for line in done.stdout.splitlines()]


def rows(broker: ServerProcess, *words: str) -> dict[str, dict[str, str]]:
    """A table by its first column."""
    head, *lines = (
        [cell.strip() for cell in line if cell.strip()] for line in command(broker, *words)
    )
    return {line[0]: dict(zip(head, line, strict=False)) for line in lines if line}


def metric(api: HttpApi, name: str, *parts: str) -> float:
    """The sum of the series of a metric that have all these parts."""
    lines = api.metrics().splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith(f"goqueue_{name}{{") and all(part in line for part in parts)
    )


def join(api: HttpApi, group: str, topic: str, **fields: Any) -> str:
    member: str = api.post(f"/groups/{group}/join", {"topics": [topic], **fields})["member_id"]
    return member


def test_the_list_and_the_statistics_of_queues_tell_of_the_same_dead_messages(
    broker: ServerProcess, api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    group = name("dead")
    api.publish(topic, *(str(each) for each in range(4)))
    member = join(api, group, topic, assignment="shared")
    taken = api.get(f"/groups/{group}/poll?member_id={member}&timeout=60s&limit=4")["messages"]
    for each in taken:
        api.post("/messages/reject", {"receipt_handle": each["receipt_handle"], "reason": "bad"})
    eventually(lambda: api.get(f"/groups/{group}")["total_lag"] == 0)
    assert rows(broker, "queue", "list")[group]["dead"] == "4"
    assert rows(broker, "queue", "stats")[group]["dead"] == "4"
    assert metric(api, "broker_dead_letters_total", f'"{group}"') == 4
    assert api.get(f"/groups/{group}")["queue"]["dead"] == 4


def test_the_place_of_a_delayed_message_is_no_message(
    broker: ServerProcess, api: HttpApi, name: Callable[[str], str]
) -> None:
    topic = name("delayed")
    settings = {"goqueue.kafka.headers": "true"}
    api.post("/topics", {"name": topic, "num_partitions": 1, "settings": settings})
    producer = Producer({"bootstrap.servers": broker.kafka_address, "enable.idempotence": True})
    due = str(round(time.time() * 1000) + 3_600_000).encode()
    for headers in ({}, {"goqueue-deliver-at": due}, {}):
        producer.produce(topic, b"x", headers=dict[str, str | bytes | None](headers))
        assert producer.flush(WAIT_S) == 0
    messages = api.get(f"/topics/{topic}/partitions/0/messages?offset=0&limit=10")["messages"]
    assert len(messages) == 2
    assert api.get(f"/topics/{topic}")["total_messages"] == 2
    assert api.get(f"/topics/{topic}/delayed")["total"] == 1


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_a_queue_group_of_a_deleted_topic_is_a_queue_group_in_every_list(
    broker: ServerProcess, api: HttpApi, name: Callable[[str], str], mode: str
) -> None:
    topic, group = name("deleted"), name(f"left-{mode}")
    api.post("/topics", {"name": topic, "num_partitions": 1})
    api.publish(topic, "x")
    member = join(api, group, topic, assignment=mode)
    api.get(f"/groups/{group}/poll?member_id={member}&timeout=60s")
    assert api.ask("DELETE", f"/topics/{topic}").status == 200
    listed = {each["group"]: each for each in api.get("/groups")["groups"]}
    assert (listed[group]["type"], listed[group]["mode"]) == ("queue", mode)
    assert group in api.get("/reliability/stats")["groups"]
    assert group in api.get("/priority/stats")["groups"]
    assert group in rows(broker, "queue", "list")
    api.post(f"/groups/{group}/leave", {"member_id": member})
    assert api.get(f"/groups/{group}")["type"] == "queue"
    assert api.ask("DELETE", f"/groups/{group}").status == 200
    assert group not in api.get("/reliability/stats")["groups"]


def test_an_exclusive_queue_group_is_a_queue_before_it_has_read_anything(
    api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    group = name("fresh")
    join(api, group, topic, assignment="exclusive")
    assert api.get(f"/groups/{group}")["type"] == "queue"


def test_settings_that_wait_for_a_group_are_in_no_list(
    broker: ServerProcess, api: HttpApi, name: Callable[[str], str]
) -> None:
    group = name("waiting")
    entry = ConfigEntry(
        "share.record.lock.duration.ms", "20000", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.kafka_address})
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    assert group not in {each["group"] for each in api.get("/groups")["groups"]}
    assert group not in api.get("/reliability/stats")["groups"]
    assert group not in api.get("/priority/stats")["groups"]


def test_rebalances_are_the_same_in_metrics_and_statistics(
    broker: ServerProcess, api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    gone, group = name("gone"), name("rebalancing")
    for each in (gone, group):
        first = join(api, each, topic, assignment="log")
        second = join(api, each, topic, assignment="log")
        for member in (first, second, first):
            api.post(f"/groups/{each}/heartbeat", {"member_id": member})
        api.post(f"/groups/{each}/leave", {"member_id": second})
    api.post(
        f"/groups/{gone}/leave",
        {"member_id": api.get(f"/groups/{gone}")["members"][0]["member_id"]},
    )
    assert api.ask("DELETE", f"/groups/{gone}").status == 200
    for path, label in (
        (f"/groups/{group}/rebalance/stats", f'"{group}"'),
        ("/rebalance/stats", ""),
    ):
        stats = api.get(path)
        assert stats["total"] == metric(api, "consumer_rebalances_total", label) > 0
        assert stats["joins"] == metric(api, "consumer_group_joins_total", label)
        assert sum(stats["leaves"].values()) == metric(api, "consumer_group_leaves_total", label)
        assigned = metric(api, "consumer_partitions_assigned_total", label)
        assert stats["partitions_assigned"] == assigned


def test_messages_that_a_log_group_has_committed_are_its_consumed_messages(
    broker: ServerProcess, api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    group = name("reading")
    api.publish(topic, *(str(each) for each in range(10)))
    options = {"group_id": group, "auto_offset_reset": "earliest"}
    with confluent_consumer(broker.kafka_address, **options) as consumer:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) is not None)
        for offset in (3, 8):
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumed = "broker_messages_consumed_total"
    assert metric(api, consumed, f'"{group}"', f'"{topic}"') == 8
    assert api.get(f"/groups/{group}")["total_lag"] == 2
    assert metric(api, "broker_messages_fetched_total", f'"{topic}"') == 10

    eventually(lambda: not api.get(f"/groups/{group}")["member_count"])
    reset = {"topic": topic, "strategy": "latest"}
    api.post(f"/groups/{group}/offsets/reset", reset)
    assert metric(api, consumed, f'"{group}"') == 8  # nobody has read what was skipped
    api.post(f"/groups/{group}/offsets/reset", {"topic": topic, "strategy": "earliest"})
    assert metric(api, consumed, f'"{group}"') == 8


def test_offsets_of_a_transaction_count_when_it_commits(
    broker: ServerProcess, api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    group = name("staged")
    api.publish(topic, *(str(each) for each in range(5)))
    producer = Producer({"bootstrap.servers": broker.kafka_address, "transactional.id": group})
    producer.init_transactions()
    with confluent_consumer(broker.kafka_address, group_id=group) as consumer:
        for ends, offset in ((producer.abort_transaction, 2), (producer.commit_transaction, 4)):
            producer.begin_transaction()
            place = TopicPartition(topic, 0, offset)
            producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata())
            ends()
    eventually(lambda: api.get(f"/groups/{group}")["total_lag"] == 1)
    assert metric(api, "broker_messages_consumed_total", f'"{group}"') == 4
    commits = metric(api, "consumer_offset_commits_total", f'"{group}"')
    assert commits == api.get(f"/groups/{group}/rebalance/stats")["offset_commits"] == 1


@pytest.mark.parametrize("assignment", ["log", "exclusive"])
def test_commits_that_are_refused_are_counted(
    api: HttpApi, topic: str, name: Callable[[str], str], assignment: str
) -> None:
    group = name("refused")
    member = join(api, group, topic, assignment=assignment)
    good = {"offsets": {topic: {"0": 0}}}
    for body in (
        {**good, "member_id": "nobody"},
        {**good, "member_id": member, "generation": 99},
        {"offsets": {topic: {"7": 0}}, "member_id": member},
        good,  # the group has a member, so nobody else commits for it
    ):
        answer = api.ask("POST", f"/groups/{group}/offsets", body)
        assert answer.status >= 400, body
    errors = metric(api, "consumer_offset_commit_errors_total", f'"{group}"')
    assert errors == 4
    assert api.get(f"/groups/{group}/rebalance/stats")["offset_commit_errors"] == 4


def test_the_lanes_of_a_group_have_rates(
    broker: ServerProcess, api: HttpApi, topic: str, name: Callable[[str], str]
) -> None:
    group = name("lanes")
    member = join(api, group, topic, assignment="shared")

    def rate() -> float | None:
        lanes = api.get(f"/priority/stats?group={group}")["groups"][group]["lanes"]
        found: float | None = lanes["normal"]["served_per_s"]
        return found

    eventually(lambda: rate() is not None)
    api.publish(topic, "a", "b")
    api.get(f"/groups/{group}/poll?member_id={member}&timeout=60s")
    eventually(lambda: bool(rate()))
