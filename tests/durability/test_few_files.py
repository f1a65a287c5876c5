"""A broker that may open few files, with many partitions and segments: stopped, killed, started."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.server import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = 256
PARTITIONS = 400
SEGMENTED = 5
"""Partitions with many segments."""


_LIMITED = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
from goqueue.cli import main
main()
"""


class FewFiles(ServerProcess):
    """A server that may not have more files open."""

    COMMAND = (sys.executable, "-c", _LIMITED, "server")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    made = FewFiles(tmp_path / "data")
    made.start()
    yield made
    made.close()


def produce(server: ServerProcess, values: dict[tuple[str, int], list[bytes]]) -> None:
    settings = {"bootstrap.servers": server.kafka_address, "linger.ms": 0}
    # What is sent again because an answer was slow must not be there twice.
    producer = Producer({**settings, "enable.idempotence": True})
    failed = []
    for (topic, partition), batch in values.items():
        for value in batch:
            producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda e, _: failed.append(e) if e else None,
            )
            if len(value) > 1000:
                producer.flush(120)
    assert producer.flush(120) == 0
    assert not failed


def consume(server: ServerProcess, values: dict[tuple[str, int], list[bytes]]) -> None:
    """Insist on finding all of them."""
    consumer = Consumer({"bootstrap.servers": server.kafka_address, "group.id": "g"})
    consumer.assign([TopicPartition(*place, 0) for place in values])
    found: dict[tuple[str, int], list[bytes]] = {place: [] for place in values}
    left = sum(map(len, values.values()))
    while left:
        message = consumer.poll(120)
        assert message is not None, f"{left} messages did not come"
        assert message.error() is None, message.error()
        found[message.topic(), message.partition()].append(message.value())
        left -= 1
    consumer.close()
    assert found == values


def open_files(server: ServerProcess) -> int:
    return sum(1 for _ in Path(f"/proc/{server.pid}/fd").iterdir())


@pytest.mark.timeout(
    900
)  # it takes twenty seconds, or minutes beside others: only a hang gets there
def test_more_partitions_and_segments_than_files_outlive_a_stop_and_a_kill(
    server: ServerProcess,
) -> None:
    admin = AdminClient({"bootstrap.servers": server.kafka_address})
    topics = [
        NewTopic("wide", num_partitions=PARTITIONS),
        NewTopic("long", num_partitions=SEGMENTED, config={"segment.bytes": "1048576"}),
    ]
    for made in admin.create_topics(topics).values():
        made.result(120)
    values = {("wide", number): [b"%d" % number] for number in range(PARTITIONS)}
    values |= {
        ("long", number): [b"%d-%d" % (number, n) + bytes(600_000) for n in range(15)]
        for number in range(SEGMENTED)
    }
    produce(server, values)
    consume(server, values)
    assert open_files(server) < FILES
    server.stop()
    server.start()
    consume(server, values)
    server.kill()
    server.start()
    consume(server, values)
    again = {place: [b"again"] for place in values}
    produce(server, again)
    server.kill()
    server.start()
    consume(server, {place: [*values[place], *again[place]] for place in values})


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_broker_starts_with_more_partitions_than_it_may_have_files_open(
    tmp_path: Path, end: str
) -> None:
    values = {("wide", number): [b"%d" % number] for number in range(PARTITIONS)}
    before = ServerProcess(tmp_path / "data")
    before.start()
    try:
        admin = AdminClient({"bootstrap.servers": before.kafka_address})
        (made,) = admin.create_topics([NewTopic("wide", num_partitions=PARTITIONS)]).values()
        made.result(120)
        produce(before, values)
        getattr(before, end)()
    finally:
        before.close()
    after = FewFiles(tmp_path / "data")
    try:
        after.start()
        consume(after, values)
    finally:
        after.close()
