"""Members that join, leave and die, under every assignor of every client, while messages arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.groups import (
    MORTAL_GROUPS,
    Stream,
    cast,
    check_all_delivered,
    check_one_owner,
    make_topic,
    share_out,
)
from support.server import ServerProcess, make_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 6

LIBRDKAFKA: dict[str, Any] = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
PYTHON: dict[str, Any] = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200}

CLIENTS = [
    ("confluent", {**LIBRDKAFKA, "partition.assignment.strategy": "range"}),
    ("confluent", {**LIBRDKAFKA, "partition.assignment.strategy": "cooperative-sticky"}),
    ("confluent", {"group.protocol": "consumer", "group.remote.assignor": "uniform"}),
    ("kafka-python", {**PYTHON, "assignor": "sticky"}),
    ("kafka-python", {**PYTHON, "assignor": "cooperative-sticky"}),
    ("aiokafka", {**PYTHON, "assignor": "roundrobin"}),
    ("aiokafka", {**PYTHON, "assignor": "sticky"}),
]
MORE_CLIENTS = [
    ("confluent", {**LIBRDKAFKA, "partition.assignment.strategy": "roundrobin"}),
    ("confluent", {"group.protocol": "consumer", "group.remote.assignor": "range"}),
    ("kafka-python", {**PYTHON, "assignor": "range"}),
    ("kafka-python", {**PYTHON, "assignor": "roundrobin"}),
    ("aiokafka", {**PYTHON, "assignor": "range"}),
]
"""Each of these differs from one above in a single respect."""


def label(value: dict[str, Any]) -> str:
    parts = (value.get("group.protocol"), value.get("group.remote.assignor"))
    mine = (value.get("partition.assignment.strategy"), value.get("assignor"))
    return "-".join(part for part in (*parts, *mine) if part)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("groups") / "data", *MORTAL_GROUPS).start()
    yield process
    process.close()


@pytest.mark.parametrize(
    ("client", "settings"),
    [
        *(pytest.param(*each, id=f"{each[0]}-{label(each[1])}") for each in CLIENTS),
        *(
            pytest.param(*each, id=f"{each[0]}-{label(each[1])}", marks=pytest.mark.slow)
            for each in MORE_CLIENTS
        ),
    ],
)
def test_a_join_a_leave_and_a_death_lose_nothing_and_no_partition_ever_has_two_owners(
    server: ServerProcess, client: str, settings: dict[str, Any]
) -> None:
    topic = f"lively-{client}-{label(settings)}"
    make_topic(server, topic, PARTITIONS)
    with Stream.into(server, topic, PARTITIONS, each_s=0.05) as stream, cast() as start:
        first, second = (start(client, server, topic, topics=[topic], **settings) for _ in "ab")
        share_out([first, second], topic, PARTITIONS)
        third = start(client, server, topic, topics=[topic], **settings)
        share_out([first, second, third], topic, PARTITIONS)
        first.leave()
        share_out([second, third], topic, PARTITIONS)
        second.kill()
        share_out([third], topic, PARTITIONS)
        members = [first, second, third]
        check_all_delivered(members, stream.stop())
        check_one_owner(members)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_stood_still_too_long_is_replaced_and_comes_back(
    server: ServerProcess, protocol: str
) -> None:
    topic = f"frozen-{protocol}"
    make_topic(server, topic, PARTITIONS)
    settings = LIBRDKAFKA if protocol == "classic" else {"group.protocol": "consumer"}
    with Stream.into(server, topic, PARTITIONS, each_s=0.05) as stream, cast() as start:
        first, second = (
            start("confluent", server, topic, topics=[topic], **settings) for _ in "ab"
        )
        share_out([first, second], topic, PARTITIONS)
        first.freeze()
        share_out([second], topic, PARTITIONS)
        first.thaw()
        eventually(lambda: first.count("lost") == 1, "it hears that its partitions are lost")
        share_out([first, second], topic, PARTITIONS)
        check_all_delivered([first, second], stream.stop())
