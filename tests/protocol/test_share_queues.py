"""Queue groups on Kafka's wire, with our own fields: delivery, acknowledgement, membership."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.records import Record, encode
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.queue_wire import (
    ACK,
    EXCLUSIVE,
    EXTEND,
    NACK,
    REJECT,
    RELEASE,
    RETURN,
    QueueWire,
    failures,
    messages,
    settlement,
    settlements,
)
from protocol.raw_kafka import RawKafka
from support.groups import FAST_GROUPS, make_topic
from support.server import ServerProcess, make_server, siblings
from support.share import store
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from protocol.queue_wire import Delivered

LONG_MS = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("queues") / "data", *FAST_GROUPS).start()
    yield process
    process.close()


@pytest.fixture
def topic(server: ServerProcess, name: Callable[[str], str]) -> str:
    made = name("queue")
    make_topic(server, made, 1)
    return made


@pytest.fixture
def open_member(
    server: ServerProcess, topic: str, name: Callable[[str], str]
) -> Iterator[Callable[..., QueueWire]]:
    """Makes members of a group that read the topic."""
    group = name("group")
    made: list[QueueWire] = []

    def opened(**queue: Any) -> QueueWire:
        member = QueueWire(server, group)
        made.append(member)
        answer = member.join(topic, **queue)
        assert answer.error_code == 0, answer.error_message
        return member

    yield opened
    for member in made:
        member.close()


@pytest.fixture
def member(open_member: Callable[..., QueueWire]) -> QueueWire:
    return open_member()


def values(taken: list[Delivered]) -> list[str]:
    return [each.value.decode() for each in taken]


def offsets(taken: list[Delivered]) -> list[int]:
    return [each.offset for each in taken]


# --- Members -------------------------------------------------------------------------------------


def test_a_member_is_told_its_partitions_and_the_visibility_that_counts(
    server: ServerProcess, topic: str, name: Callable[[str], str]
) -> None:
    first, second = QueueWire(server, name("g")), QueueWire(server, "")
    answer = first.join(topic, visibility_ms=7000, max_deliveries=2)
    assert answer.visibility_ms == 7000
    (assigned,) = answer.assignment.topic_partitions
    assert assigned.partitions == (0,)
    second.group = first.group
    assert second.join(topic).visibility_ms == 7000, "the group's, which the first has made"
    assert second.join(topic, visibility_ms=90).visibility_ms == 90
    assert first.heartbeat().error_code == 0
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ({"mode": 2}, "queue.mode is 2"),
        ({"visibility_ms": -1}, "queue.visibility_ms is -1"),
        ({"max_deliveries": 251}, "queue.max_deliveries is 251"),
        ({"max_unacked": 10**6 + 1}, "queue.max_unacked is 1000001"),
    ],
)
def test_a_join_that_makes_no_sense_is_refused(
    member: QueueWire, topic: str, queue: dict[str, int], expected: str
) -> None:
    answer = member.join(topic, **queue)
    assert answer.error_code == ErrorCode.invalid_request
    assert answer.error_name == "InvalidGroupRequestError"
    assert expected in answer.error_message


def test_errors_are_told_by_their_class(member: QueueWire, topic: str) -> None:
    assert member.join(topic, mode=EXCLUSIVE).error_name == "GroupModeError"
    assert member.join("not-there").error_name == "UnknownTopicError"
    assert member.heartbeat(0, []).error_name == "InvalidGroupRequestError"
    member.member_id = "stranger"
    assert member.heartbeat(3).error_code == ErrorCode.unknown_member_id
    assert member.fetch().error_name == "UnknownMemberError"
    member.group = "nowhere"
    assert member.heartbeat(3).error_name == "UnknownMemberError"
    assert member.fetch().error_code == ErrorCode.unknown_member_id
    member.member_id = ""
    assert member.join(topic).error_name == "InvalidGroupRequestError"


def test_who_leaves_hands_over_at_once_what_it_has(
    server: ServerProcess, topic: str, open_member: Callable[..., QueueWire]
) -> None:
    one, two = open_member(), open_member()
    store(server, topic, ["a", "b"])
    assert offsets(one.take()) == [0, 1]
    assert two.take() == []
    assert one.heartbeat(-1).member_epoch == -1
    assert [each.delivery_count for each in two.take(max_wait_ms=LONG_MS)] == [2, 2]
    assert one.fetch().error_name == "UnknownMemberError"


def test_who_leaves_while_it_waits_is_answered_at_once(
    server: ServerProcess, topic: str, open_member: Callable[..., QueueWire]
) -> None:
    one, two = open_member(), open_member()
    one.fetching.send(ApiKey.SHARE_FETCH, 2, **one.fetch_fields(max_wait_ms=LONG_MS))
    one.heartbeat(-1)
    answer = one.fetching.answer(ApiKey.SHARE_FETCH, 2)
    assert answer.error_name == "UnknownMemberError"
    store(server, topic, ["a"])
    assert offsets(two.take(max_wait_ms=LONG_MS)) == [0]


def test_a_member_that_drains_gets_nothing_more_and_may_still_acknowledge(
    server: ServerProcess, topic: str, open_member: Callable[..., QueueWire]
) -> None:
    one, two = open_member(), open_member()
    store(server, topic, ["a", "b"])
    had = one.take(max_records=1)
    fields = one.fetch_fields(max_wait_ms=LONG_MS)
    assert offsets(two.take()) == [1]
    one.fetching.send(ApiKey.SHARE_FETCH, 2, **fields)
    assert one.heartbeat(is_draining=True).error_code == 0
    assert messages(one.fetching.answer(ApiKey.SHARE_FETCH, 2)) == []
    store(server, topic, ["c"])
    assert one.take() == []
    assert one.settle(ACK, *had) == {}
    assert offsets(two.take(max_wait_ms=LONG_MS)) == [2]
    one.join(topic)
    store(server, topic, ["d"])
    assert offsets(one.take(max_wait_ms=LONG_MS)) == [3]


def test_a_lost_connection_takes_its_member_along(
    server: ServerProcess, topic: str, open_member: Callable[..., QueueWire]
) -> None:
    one, two = open_member(), open_member()
    store(server, topic, ["a", "b"])
    taken = one.take()
    one.fetching.close()
    assert [each.delivery_count for each in two.take(max_wait_ms=LONG_MS)] == [2, 2]
    assert set(one.settle(ACK, *taken).values()) == {"ExpiredReceiptError"}
    assert one.heartbeat().error_code == ErrorCode.unknown_member_id


def test_a_connection_that_was_given_up_takes_nobody_along(
    server: ServerProcess, topic: str, member: QueueWire
) -> None:
    store(server, topic, ["a", "b", "c"])
    first = member.take(max_records=1)
    old, member.fetching = member.fetching, RawKafka(server.kafka_port)
    second = member.take(max_records=1)
    old.close()
    member.take(max_records=0)
    third = member.take(max_records=1)
    assert member.settle(ACK, *first, *second, *third) == {}


def test_who_joins_again_keeps_what_it_has(
    server: ServerProcess, topic: str, member: QueueWire
) -> None:
    store(server, topic, ["a"])
    taken = member.take()
    member.fetching.close()
    back = QueueWire(server, member.group, member.member_id)
    back.join(topic)
    # Whether the server has noticed the loss first, or the member has come back first.
    assert set(back.settle(ACK, *taken).values()) <= {"ExpiredReceiptError"}
    back.close()


def test_a_member_that_comes_back_after_a_kill_goes_on_with_what_it_had(tmp_path: Path) -> None:
    server = make_server(tmp_path / "data", *FAST_GROUPS).start()
    try:
        make_topic(server, "t", 1)
        member = QueueWire(server, "g", "me")
        member.join("t")
        store(server, "t", ["a", "b", "c"])
        taken = member.take()
        assert member.settle(ACK, taken[0]) == {}
        server.kill()
        server.start()
        member.close()
        member = QueueWire(server, "g", "me")
        if len(siblings(server.kafka_port)) == 1:  # a cluster keeps members where it keeps groups
            assert member.heartbeat(5).error_code == ErrorCode.unknown_member_id
        assert member.join("t").error_code == 0
        assert member.take() == []
        answer = member.acknowledge(settlements(ACK, taken))
        (failure,) = failures(answer)
        assert (failure.offset, failure.error_name) == (0, "UnknownReceiptError")
        assert failure.is_done == 1
        member.close()
    finally:
        server.close()


# --- Delivery ------------------------------------------------------------------------------------


def test_messages_come_most_urgent_first_with_their_lanes(
    server: ServerProcess, name: Callable[[str], str]
) -> None:
    topic, member = name("lanes"), QueueWire(server, name("urgent"))
    lanes = ["normal", "low", "critical", "normal", "background", "high"]
    with RawKafka(server.kafka_port) as raw:
        raw.create(topic, goqueue_kafka_headers="true")
        now_ms = time.time_ns() // 1_000_000
        records = [
            Record(at, now_ms, None, lane.encode(), (("goqueue-priority", lane.encode()),))
            for at, lane in enumerate(lanes)
        ]
        assert raw.produce(topic, bytes(encode(records))).error_code == 0
    member.join(topic)
    taken = member.take()
    assert values(taken) == ["critical", "high", "normal", "normal", "low", "background"]
    assert [each.lane for each in taken] == [0, 1, 2, 2, 3, 4]
    assert member.settle(ACK, *taken) == {}
    member.close()


def test_a_poll_has_the_visibility_that_it_asks_for(
    server: ServerProcess, topic: str, member: QueueWire
) -> None:
    store(server, topic, ["a", "b"])
    (topic_answer,) = member.fetch(max_records=1, visibility_ms=10 * LONG_MS).responses
    (partition,) = topic_answer.partitions
    left_ms = partition.visible_until_ms - time.time_ns() // 1_000_000
    assert 5 * LONG_MS < left_ms <= 10 * LONG_MS
    (brief,) = member.take(visibility_ms=50)
    (again,) = member.take(max_wait_ms=LONG_MS)
    assert (again.offset, again.delivery_count) == (1, 2)
    assert again.nonce != brief.nonce
    assert member.settle(ACK, brief) == {1: "ExpiredReceiptError"}, "the same member has it anew"
    assert member.settle(ACK, again) == {}
    refused = member.fetch(visibility_ms=13 * 3600 * 1000)
    assert refused.error_code == ErrorCode.invalid_request


def test_a_fetch_never_gives_more_than_the_member_has_room_for(
    server: ServerProcess, topic: str, member: QueueWire
) -> None:
    store(server, topic, [str(number) for number in range(10)])
    assert offsets(member.take(max_records=3)) == [0, 1, 2]
    assert offsets(member.take(max_records=1, share_acquire_mode=0)) == list(range(3, 10))


# --- Acknowledgement -----------------------------------------------------------------------------


def test_each_acknowledgement_does_its_own(
    server: ServerProcess, topic: str, open_member: Callable[..., QueueWire]
) -> None:
    member = open_member(max_deliveries=5)
    store(server, topic, ["ack", "release", "reject", "nack", "return", "extend"])
    ack, release, reject, nack, back, longer = member.take(visibility_ms=LONG_MS)
    assert member.settle(ACK, ack) == {}
    assert member.settle(RELEASE, release) == {}
    assert member.settle(REJECT, reject, reason="no good") == {}
    assert member.settle(NACK, nack, delay_ms=40, reason="later") == {}
    assert member.settle(RETURN, back) == {}
    assert member.settle(EXTEND, longer, delay_ms=100) == {}
    found: dict[str, int] = {}

    def all_came_back() -> bool:
        for each in member.take():
            found[each.value.decode()] = each.delivery_count
        return len(found) == 4

    eventually(all_came_back)
    assert found == {"release": 2, "nack": 2, "return": 1, "extend": 2}


def test_acknowledgements_ride_on_a_fetch(
    server: ServerProcess, topic: str, member: QueueWire
) -> None:
    store(server, topic, ["a", "b", "c"])
    first, second = member.take(max_records=2)
    stale = first._replace(nonce=first.nonce ^ 1)
    answer = member.fetch(topics=settlements(ACK, [first, second]))
    assert offsets(messages(answer)) == [2]
    assert failures(answer) == []
    answer = member.fetch(topics=settlements(ACK, [stale]), max_wait_ms=LONG_MS)
    (failure,) = failures(answer)
    assert (failure.offset, failure.nonce, failure.is_done) == (0, stale.nonce, 1)


def test_what_does_not_count_is_told_and_the_rest_is_settled(
    server: ServerProcess, topic: str, open_member: Callable[..., QueueWire]
) -> None:
    member, other = open_member(), open_member()
    store(server, topic, ["a", "b", "c", "d"])
    taken = member.take(max_records=3)
    (theirs,) = other.take()
    guessed = theirs._replace(nonce=1)
    wrong = [*taken, taken[0], guessed, theirs._replace(offset=99)]
    answer = member.acknowledge(settlements(ACK, wrong))
    told = [(each.offset, each.error_name, each.is_done) for each in failures(answer)]
    unknown = "UnknownReceiptError"
    assert told == [(0, unknown, 0), (3, unknown, 0), (99, unknown, 0)]
    assert other.settle(ACK, theirs) == {}
    assert member.settle(ACK, *taken) == {0: unknown, 1: unknown, 2: unknown}
    assert all(each.is_done for each in failures(member.acknowledge(settlements(ACK, taken))))


def test_several_settlements_of_one_message_count_once_in_their_order(
    server: ServerProcess, topic: str, member: QueueWire
) -> None:
    store(server, topic, ["a", "b"])
    taken = member.take()
    (said,) = settlements(EXTEND, taken, delay_ms=LONG_MS)
    (partition,) = said["partitions"]
    partition["settlements"] += [
        settlement(EXTEND, taken[1:], delay_ms=2 * LONG_MS),
        settlement(ACK, taken[:1]),
        settlement(NACK, taken),
    ]
    told = [(each.offset, each.is_done) for each in failures(member.acknowledge([said]))]
    assert told == [(0, 1)]
    assert offsets(member.take(max_wait_ms=LONG_MS)) == [1]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"acknowledge_type": 5}, "there is no acknowledgement of type 5"),
        ({"ranges": b"123"}, "expected 12 bytes each"),
        ({"ranges": struct.pack(">qi", 0, 0)}, "expected 1 or more"),
        ({"ranges": struct.pack(">qi", -1, 1)}, "expected 1 or more, from 0 on"),
        ({"nonces": b"1234567"}, "expected 8 each"),
        ({"ranges": struct.pack(">qi", 0, 2**31 - 1)}, "expected 8 each"),
        ({"acknowledge_type": NACK, "reason": "x" * 1001}, "1001 characters"),
        ({"acknowledge_type": NACK, "delay_ms": -2}, "-2 ms"),
    ],
)
def test_a_settlement_that_makes_no_sense_is_refused(
    server: ServerProcess, topic: str, member: QueueWire, said: dict[str, Any], expected: str
) -> None:
    store(server, topic, ["a"])
    taken = member.take()
    answer = member.acknowledge(settlements(ACK, taken, **said))
    ((partition,),) = [each.partitions for each in answer.responses]
    assert partition.error_code == ErrorCode.invalid_request
    assert partition.error_name == "InvalidGroupRequestError"
    assert expected in partition.error_message
    assert member.settle(ACK, *taken) == {}


def test_a_request_with_too_many_messages_is_refused(member: QueueWire, topic: str) -> None:
    said = {
        "acknowledge_type": ACK,
        "ranges": struct.pack(">qi", 0, 5001),
        "nonces": bytes(8 * 5001),
    }
    partition = {"partition_index": 0, "acknowledgement_batches": [], "settlements": [said]}
    (assigned,) = member.join(topic).assignment.topic_partitions
    answer = member.acknowledge([{"topic_id": assigned.topic_id, "partitions": [partition]}])
    assert answer.error_name == "InvalidGroupRequestError"
    assert "5001" in answer.error_message


# --- Exclusive groups ----------------------------------------------------------------------------


def test_an_exclusive_group_hands_partitions_over_in_order(
    server: ServerProcess, name: Callable[[str], str]
) -> None:
    topic, group = name("ordered"), name("owners")
    make_topic(server, topic, 2)
    one, two = QueueWire(server, group), QueueWire(server, group)
    answer = one.join(topic, mode=EXCLUSIVE)
    (assigned,) = answer.assignment.topic_partitions
    assert sorted(assigned.partitions) == [0, 1]
    for partition in (0, 1):
        store(server, topic, ["a", "b", "c"], partition)
    held = one.take(max_records=6)
    held += one.take(max_records=6 - len(held)) if len(held) < 6 else []
    assert len(held) == 6
    assert two.join(topic, mode=EXCLUSIVE).error_code == 0

    def is_shared() -> bool:
        one.heartbeat()
        mine = two.heartbeat().assignment.topic_partitions
        return sum(len(each.partitions) for each in mine) == 1

    eventually(is_shared)
    assert two.take() == [], "nothing before its former owner is through"
    assert one.settle(NACK, held[0], delay_ms=0) == {}
    assert one.settle(ACK, *held[1:]) == {}
    store(server, topic, ["d"], 0)
    store(server, topic, ["d"], 1)
    found: list[tuple[int, str]] = []

    def all_are_there() -> bool:
        for each in (one, two):
            taken = each.take()
            assert each.settle(ACK, *taken) == {}
            found.extend((message.place[1], message.value.decode()) for message in taken)
        return len(found) == 3

    eventually(all_are_there)
    again = held[0].place[1]
    assert [value for number, value in found if number == again] == ["a", "d"]
    one.heartbeat(-1)
    eventually(lambda: len(two.heartbeat().assignment.topic_partitions[0].partitions) == 2)
    one.close()
    two.close()
