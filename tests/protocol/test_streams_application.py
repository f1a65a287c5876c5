"""Kafka Streams itself, with `group.protocol=streams`: exactly once, whoever is killed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from support.groups import make_topic, publish
from support.kafka_streams import WordCount, compile_word_count
from support.server import ServerProcess, make_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PARTITIONS = 4
APPLICATION = "word-count"
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")
FAST_STREAMS = (
    *("--groups-streams-initial-rebalance-delay", "0ms"),
    *("--groups-streams-heartbeat-interval", "300ms"),
    *("--groups-streams-session-timeout", "10s"),
    *("--groups-streams-standby-replicas", "1"),
)
WAIT_S = 180.0


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_word_count(tmp_path_factory.mktemp("classes"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = make_server(tmp_path / "data", *FAST_STREAMS).start()
    make_topic(process, "lines", PARTITIONS)
    make_topic(process, "counted", PARTITIONS)
    yield process
    process.close()


class Lines:
    """What was published, and what it must come to."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._expected: Counter[str] = Counter()

    def publish(self, count: int) -> None:
        lines = [f"{WORDS[n % 5]} {WORDS[n * 7 % 3]}" for n in range(count)]
        publish(self._server, "lines", lines, PARTITIONS)
        self._expected.update(word for line in lines for word in line.split())

    def are_counted(self) -> bool:
        return newest_values(self._server, "counted") == {
            word: str(count) for word, count in self._expected.items()
        }


def newest_values(server: ServerProcess, topic: str) -> dict[str, str]:
    """The newest committed value of each key."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.kafka_address,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: dict[str, str] = {}
    ended = 0
    while ended < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            ended += 1
        else:
            found[message.key().decode()] = message.value().decode()
    consumer.close()
    return found


def test_words_are_counted_exactly_once_though_an_instance_and_the_broker_are_killed(
    server: ServerProcess, class_path: str, tmp_path: Path
) -> None:
    lines = Lines(server)
    first = WordCount(server, class_path, tmp_path / "first", APPLICATION)
    second = None
    try:
        lines.publish(200)
        eventually(lines.are_counted, "the first instance counts", WAIT_S)
        second = WordCount(server, class_path, tmp_path / "second", APPLICATION)
        eventually(lambda: len(members(server)) == 4, "both have joined", WAIT_S)
        eventually(lambda: all(members(server).values()), "both have tasks", WAIT_S)
        lines.publish(200)
        eventually(lines.are_counted, "both count", WAIT_S)

        first.kill()
        lines.publish(200)
        eventually(lines.are_counted, "the second takes over", WAIT_S)
        eventually(lambda: len(members(server)) == 2, "the first is given up", WAIT_S)

        server.kill()
        server.restart()
        assert len(members(server)) == 2, "the group has survived"
        lines.publish(200)
        eventually(lines.are_counted, "the second goes on", WAIT_S)
        assert second.stop() in {0, 143}
        eventually(lambda: not members(server), "it has left", WAIT_S)
        assert not [line for line in second.states if "FAILED" in line or "ERROR" in line]
        check_administration(server)
    finally:
        for each in (first, second):
            if each is not None:
                each.kill()


def members(server: ServerProcess) -> dict[str, int]:
    """Members of the group, and how many partitions each of them reads."""
    _, group = server.get(f"/groups/{APPLICATION}")
    return {
        each["member_id"]: sum(map(len, each["partitions"].values())) for each in group["members"]
    }


def check_administration(server: ServerProcess) -> None:
    """Nothing is left to read, and the group can be deleted."""
    admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
    asked = [ConsumerGroupTopicPartitions(APPLICATION)]
    offsets = admin.list_consumer_group_offsets(asked)[APPLICATION].result().topic_partitions
    assert {each.topic for each in offsets} == {"lines", f"{APPLICATION}-counts-repartition"}
    assert sum(each.offset for each in offsets if each.topic == "lines") >= 800
    admin.delete_consumer_groups([APPLICATION])[APPLICATION].result()
