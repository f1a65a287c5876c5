"""confluent-kafka's own share consumer, unmodified, over queue groups."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from support.groups import FAST_SHARE, make_topic, publish
from support.server import ServerProcess, make_server
from support.share import WAIT_S, configure, open_consumer, poll, share_consumer, store, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import Message, ShareConsumer

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("share") / "data", *FAST_SHARE).start()
    yield process
    process.close()


@pytest.fixture
def topic(server: ServerProcess, name: Callable[[str], str]) -> str:
    made = name("share")
    make_topic(server, made, 1)
    return made


@pytest.fixture
def group(server: ServerProcess, name: Callable[[str], str]) -> str:
    """The name of a group that reads from the start."""
    made = name("group")
    configure(server, made, auto_offset_reset="earliest")
    return made


def everything(consumer: ShareConsumer, count: int) -> list[Message]:
    """So many messages, over as many polls as it takes."""
    found: list[Message] = []
    while len(found) < count:
        messages = poll(consumer)
        assert messages, f"{len(found)} of {count} came"
        found += messages
    return found


def judge(consumer: ShareConsumer, messages: list[Message], kind: AcknowledgeType) -> None:
    for message in messages:
        consumer.acknowledge(message, kind)


def dead_letters(server: ServerProcess, topic: str, group: str, count: int) -> list[Message]:
    configure(server, group, auto_offset_reset="earliest")
    with share_consumer(server, group, f"{topic}.dlq") as consumer:
        return everything(consumer, count)


# --- Modes ---------------------------------------------------------------------------------------


def test_in_implicit_mode_the_next_poll_accepts_what_the_last_one_gave(
    server: ServerProcess, topic: str, group: str
) -> None:
    publish(server, topic, ["a", "b", "c"], 1)
    with share_consumer(server, group, topic) as consumer:
        assert values(poll(consumer)) == ["a", "b", "c"]
        assert poll(consumer, 0.5) == []
        publish(server, topic, ["d"], 1)
        (message,) = poll(consumer)
        assert (message.value(), message.offset(), message.delivery_count()) == (b"d", 3, 1)
        assert list(consumer.commit_sync().values()) == [None]
    with share_consumer(server, group, topic) as consumer:
        assert poll(consumer, 1.0) == []


def test_in_explicit_mode_accepted_messages_are_done_with_and_released_ones_come_again(
    server: ServerProcess, topic: str, group: str
) -> None:
    publish(server, topic, ["keep", "again", "keep too"], 1)
    with share_consumer(server, group, topic, explicit=True) as consumer:
        first, second, third = poll(consumer)
        judge(consumer, [first, third], ACCEPT)
        judge(consumer, [second], RELEASE)
        (outcome,) = consumer.commit_sync().items()
        assert (outcome[0].topic, outcome[0].partition, outcome[1]) == (topic, 0, None)
        (again,) = poll(consumer)
        assert (again.value(), again.offset(), again.delivery_count()) == (b"again", 1, 2)
        judge(consumer, [again], ACCEPT)
        assert list(consumer.commit_sync().values()) == [None]
        assert poll(consumer, 0.5) == []


def test_acknowledgements_that_ride_on_the_next_poll_count_as_well(
    server: ServerProcess, topic: str, group: str
) -> None:
    publish(server, topic, ["a", "b"], 1)
    told: list[tuple[set[int], KafkaException | None]] = []
    with share_consumer(server, group, topic, explicit=True) as consumer:
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, error: told.append((set().union(*offsets.values()), error))
        )
        first, second = poll(consumer)
        judge(consumer, [first], ACCEPT)
        judge(consumer, [second], RELEASE)
        (again,) = poll(consumer)
        assert (again.value(), again.delivery_count()) == (b"b", 2)
        judge(consumer, [again], ACCEPT)
    assert {error for _, error in told} == {None}
    assert set().union(*(offsets for offsets, _ in told)) == {0, 1}


def test_rejected_messages_go_to_the_dead_letter_topic_with_what_they_were(
    server: ServerProcess, topic: str, group: str, name: Callable[[str], str]
) -> None:
    producer = Producer({"bootstrap.servers": server.kafka_address, "log_level": 0})
    producer.produce(topic, b"poison", b"key", headers=[("colour", b"red")])
    assert producer.flush(WAIT_S) == 0
    with share_consumer(server, group, topic, explicit=True) as consumer:
        judge(consumer, poll(consumer), REJECT)
        assert list(consumer.commit_sync().values()) == [None]
        assert poll(consumer, 0.5) == []
    (dead,) = dead_letters(server, topic, name("undertaker"), 1)
    headers = dict(dead.headers())
    assert (dead.key(), dead.value(), headers["colour"]) == (b"key", b"poison", b"red")
    assert headers["goqueue-dlq-reason"] == b"REJECTED"


# --- Time and counts -----------------------------------------------------------------------------


def test_a_message_whose_lock_ran_out_goes_to_somebody_else_and_its_late_accept_is_refused(
    server: ServerProcess, topic: str, group: str
) -> None:
    configure(server, group, record_lock_duration_ms=700)
    publish(server, topic, ["slow"], 1)
    with (
        share_consumer(server, group, topic, explicit=True) as slow,
        share_consumer(server, group, topic, explicit=True) as other,
    ):
        (mine,) = poll(slow)
        configure(server, group, record_lock_duration_ms=60_000)
        (taken_over,) = poll(other)
        assert (taken_over.value(), taken_over.delivery_count()) == (b"slow", 2)
        judge(slow, [mine], ACCEPT)
        (refusal,) = slow.commit_sync().values()
        assert isinstance(refusal, KafkaException)
        assert refusal.args[0].name() == "INVALID_RECORD_STATE"
        judge(other, [taken_over], ACCEPT)
        assert list(other.commit_sync().values()) == [None]


def test_a_message_that_is_released_too_often_is_dead(
    server: ServerProcess, topic: str, group: str, name: Callable[[str], str]
) -> None:
    configure(server, group, delivery_count_limit=2)
    publish(server, topic, ["hopeless", "fine"], 1)
    counts: list[int] = []
    with share_consumer(server, group, topic, explicit=True) as consumer:
        while len(counts) < 2:
            for message in everything(consumer, 1):
                is_fine = message.value() == b"fine"
                consumer.acknowledge(message, ACCEPT if is_fine else RELEASE)
                if not is_fine:
                    counts.append(message.delivery_count())
            consumer.commit_sync()
        assert poll(consumer, 1.0) == []
    assert counts == [1, 2]
    (dead,) = dead_letters(server, topic, name("undertaker"), 1)
    assert dead.value() == b"hopeless"
    headers = dict(dead.headers())
    assert headers["goqueue-dlq-reason"] == b"MAX_RETRIES_EXCEEDED"
    assert headers["goqueue-dlq-attempts"] == b"2"


# --- Several consumers ---------------------------------------------------------------------------


def test_two_consumers_share_one_partition_and_no_message_goes_to_both(
    server: ServerProcess, topic: str, group: str
) -> None:
    with (
        share_consumer(server, group, topic, max_poll_records=20) as one,
        share_consumer(server, group, topic, max_poll_records=20) as two,
    ):
        for consumer in (one, two):
            poll(consumer, 0.3)
        sent = [str(number) for number in range(400)]
        for first in range(0, len(sent), 10):  # a batch goes to one consumer
            store(server, topic, sent[first : first + 10])
        seen: dict[str, list[str]] = {"one": [], "two": []}
        while sum(map(len, seen.values())) < len(sent):
            for who, consumer in (("one", one), ("two", two)):
                seen[who] += values(poll(consumer, 1.0))
        assert sorted(seen["one"] + seen["two"]) == sorted(sent)
        assert seen["one"]
        assert seen["two"]


def test_what_a_consumer_has_when_it_closes_goes_to_the_others_at_once(
    server: ServerProcess, topic: str, group: str
) -> None:
    publish(server, topic, ["a", "b"], 1)
    leaving = open_consumer(server, group, topic, explicit=True)
    assert values(poll(leaving)) == ["a", "b"]
    with share_consumer(server, group, topic) as staying:
        assert poll(staying, 0.5) == []
        leaving.close()
        started = time.monotonic()
        again = poll(staying)
        assert time.monotonic() - started < 25
        assert [(m.value(), m.delivery_count()) for m in again] == [(b"a", 2), (b"b", 2)]


def test_a_topic_that_grows_is_read_whole(server: ServerProcess, topic: str, group: str) -> None:
    configure(server, group, heartbeat_interval_ms=200)
    with share_consumer(server, group, topic, topic_metadata_refresh_interval_ms=300) as consumer:
        publish(server, topic, ["old"], 1)
        assert values(poll(consumer)) == ["old"]
        grow(server, topic, 3)
        publish(server, topic, ["0", "1", "2"], 3)
        assert sorted(values(everything(consumer, 3))) == ["0", "1", "2"]


def grow(server: ServerProcess, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
    for future in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result(WAIT_S)
