"""Static members: a restart within the session moves nothing; a second process fences the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.groups import (
    FAST_GROUPS,
    cast,
    check_all_delivered,
    make_topic,
    publish,
    share_out,
)
from support.server import ServerProcess, make_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 4
REBALANCE = ("assigned", "revoked", "lost")
LIBRDKAFKA: dict[str, Any] = {"session.timeout.ms": 120_000, "heartbeat.interval.ms": 200}
PYTHON: dict[str, Any] = {"session_timeout_ms": 120_000, "heartbeat_interval_ms": 200}

CLIENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "confluent": ("confluent", "group.instance.id", LIBRDKAFKA),
    "kip-848": ("confluent", "group.instance.id", {"group.protocol": "consumer"}),
    "kafka-python": ("kafka-python", "group_instance_id", PYTHON),
    "aiokafka": ("aiokafka", "group_instance_id", PYTHON),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("groups") / "data", *FAST_GROUPS).start()
    yield process
    process.close()


@pytest.mark.parametrize("which", ["confluent", "kafka-python", "aiokafka"])
def test_a_member_killed_and_started_again_has_its_partitions_and_nobody_else_noticed(
    server: ServerProcess, which: str
) -> None:
    client, instance, settings = CLIENTS[which]
    topic = f"static-{which}"
    make_topic(server, topic, PARTITIONS)
    with cast() as start:
        one, other = (
            start(client, server, topic, topics=[topic], **{**settings, instance: name})
            for name in "ab"
        )
        share_out([one, other], topic, PARTITIONS)
        noticed = other.count(*REBALANCE)
        mine = one.partitions
        one.kill()
        again = start(client, server, topic, topics=[topic], **{**settings, instance: "a"})
        eventually(lambda: again.partitions == mine, "it has what it had")
        values = [f"value-{number}" for number in range(40)]
        publish(server, topic, values, PARTITIONS)
        check_all_delivered([again, other], set(values))
        assert other.count(*REBALANCE) == noticed, other.events


def test_a_static_member_of_the_consumer_protocol_comes_back_to_its_partitions(
    server: ServerProcess,
) -> None:
    """Here the process must say that it will be back; a killed one holds its name to the end."""
    client, instance, settings = CLIENTS["kip-848"]
    topic = "static-kip-848"
    make_topic(server, topic, PARTITIONS)
    with cast() as start:
        one, other = (
            start(client, server, topic, topics=[topic], **{**settings, instance: name})
            for name in "ab"
        )
        share_out([one, other], topic, PARTITIONS)
        noticed = other.count(*REBALANCE)
        mine = one.partitions
        one.leave()
        again = start(client, server, topic, topics=[topic], **{**settings, instance: "a"})
        eventually(lambda: again.partitions == mine, "it has what it had")
        assert other.count(*REBALANCE) == noticed, other.events


def test_a_second_process_with_the_same_instance_fences_the_first(server: ServerProcess) -> None:
    client, instance, settings = CLIENTS["confluent"]
    topic = "fenced"
    make_topic(server, topic, PARTITIONS)
    mine = {**settings, instance: "same"}
    with cast() as start:
        first = start(client, server, topic, topics=[topic], **mine)
        share_out([first], topic, PARTITIONS)
        second = start(client, server, topic, topics=[topic], **mine)
        eventually(lambda: len(second.partitions) == PARTITIONS, "the newer one has them")
        eventually(lambda: first.count("fatal") == 1, "the older one is told to give up")
        (told,) = (event for event in first.events if event[1] == "fatal")
        assert "FENCED_INSTANCE_ID" in str(told) or "fenced" in str(told).lower()
        values = [f"value-{number}" for number in range(8)]
        publish(server, topic, values, PARTITIONS)
        check_all_delivered([second], set(values))
