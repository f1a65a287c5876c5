"""Who reads what in a share group, and whose turn it is where several read the same."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.wire.kafka.api_keys import ApiKey
from support import group_wire
from support.groups import FAST_GROUPS, make_topic, publish
from support.kafka_wire import WireClient
from support.server import ServerProcess, make_server
from support.share import (
    ACCEPT,
    DESCRIBE,
    FETCH,
    RawMember,
    acquired,
    configure,
    share_consumer,
    store,
    values,
)
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

DELETE_TOPICS = 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("share") / "data", *FAST_GROUPS).start()
    yield process
    process.close()


@pytest.fixture
def group(server: ServerProcess, name: Callable[[str], str]) -> str:
    """The name of a group that reads from the start."""
    made = name("group")
    configure(server, made, auto_offset_reset="earliest")
    return made


@pytest.fixture
def join(server: ServerProcess, group: str) -> Iterator[Callable[..., RawMember]]:
    """Makes members of the group that have not joined yet."""
    made: list[RawMember] = []

    def joined(*topics: str) -> RawMember:
        member = RawMember(server, group)
        made.append(member)
        told[member] = assigned(member.heartbeat(0, topics)) or {}
        return member

    told.clear()
    yield joined
    for member in made:
        member.close()


told: dict[RawMember, dict[UUID, list[int]]] = {}
"""What each member was last told to read."""


def assigned(answer: Any) -> dict[UUID, list[int]] | None:
    assert answer.error_code is ErrorCode.none
    if answer.assignment is None:
        return None
    return {each.topic_id: sorted(each.partitions) for each in answer.assignment.topic_partitions}


def reads(member: RawMember) -> list[list[int]]:
    """The partitions that a member is told to read, topic by topic."""
    said = assigned(member.heartbeat())
    if said is not None:
        told[member] = said
    return list(told[member].values())


def remake(server: ServerProcess, topic: str) -> UUID:
    """Delete a topic and create it again; returns its new id."""
    with WireClient(server.kafka_address) as client:
        client.call(DELETE_TOPICS, 6, topics=[{"name": topic, "topic_id": None}], timeout=5000)
        make_topic(server, topic, 1)
        return group_wire.topic_id(client, topic)


# --- Assignment ----------------------------------------------------------------------------------


def test_members_are_spread_over_the_partitions_and_hear_of_it_by_heartbeat(
    server: ServerProcess, join: Callable[..., RawMember], name: Callable[[str], str]
) -> None:
    topic = name("spread")
    make_topic(server, topic, 4)
    one = join(topic)
    assert reads(one) == [[0, 1, 2, 3]]
    two = join(topic)
    assert [len(each) for each in (*reads(one), *reads(two))] == [2, 2]
    assert sorted(reads(one)[0] + reads(two)[0]) == [0, 1, 2, 3]
    before = reads(two)
    assert one.heartbeat().assignment is None
    one.heartbeat(-1)
    (after,) = reads(two)
    assert after == [0, 1, 2, 3]
    assert set(before[0]) < set(after)


def test_more_members_than_partitions_read_one_each_and_share_it(
    server: ServerProcess, join: Callable[..., RawMember], name: Callable[[str], str]
) -> None:
    topic = name("crowd")
    make_topic(server, topic, 2)
    members = [join(topic) for _ in range(4)]
    assert sorted(reads(each) for each in members) == [[[0]], [[0]], [[1]], [[1]]]
    with WireClient(server.kafka_address) as client:
        (described,) = client.call(
            DESCRIBE, 1, group_ids=[members[0].group], include_authorized_operations=False
        ).groups
    shown = [each.assignment.topic_partitions[0].partitions for each in described.members]
    assert sorted(shown) == [(0,), (0,), (1,), (1,)]
    assert {each.member_epoch for each in described.members} == {described.group_epoch}


def test_partitions_that_are_added_are_shared_out_and_make_another_epoch(
    server: ServerProcess, join: Callable[..., RawMember], name: Callable[[str], str]
) -> None:
    topic = name("grown")
    make_topic(server, topic, 2)
    one, two = join(topic), join(topic)
    assert sorted(reads(one) + reads(two)) == [[0], [1]]
    epoch = one.epoch
    one.client.call(
        37,
        3,
        topics=[{"name": topic, "count": 4, "assignments": None}],
        timeout=5000,
        validate_only=False,
    )
    assert sorted(reads(one)[0] + reads(two)[0]) == [0, 1, 2, 3]
    assert one.epoch == two.epoch == epoch + 1


def test_two_share_consumers_get_half_of_the_messages_each(
    server: ServerProcess, group: str, name: Callable[[str], str]
) -> None:
    topic = name("halves")
    make_topic(server, topic, 2)
    with share_consumer(server, group, topic) as one, share_consumer(server, group, topic) as two:
        consumers = (one, two)

        def is_spread() -> bool:
            for consumer in consumers:
                consumer.poll(0.1)
            with WireClient(server.kafka_address) as client:
                (found,) = client.call(
                    DESCRIBE, 1, group_ids=[group], include_authorized_operations=False
                ).groups
            epochs = {each.member_epoch for each in found.members}
            return len(found.members) == 2 and epochs == {found.group_epoch}

        eventually(is_spread, "both consumers know of each other")
        rounds = count()

        def is_split() -> bool:
            """Whether each of two consumers got one whole partition of 400 more messages.

            It need not be so at once: a fetch that was waiting when the assignment changed still
            takes from both partitions, as it does in Kafka.
            """
            first = 400 * next(rounds)
            expected = {str(number) for number in range(first, first + 400)}
            publish(server, topic, sorted(expected, key=int), 2)
            seen: list[set[str]] = [set(), set()]

            def have_come() -> bool:
                for mine, consumer in zip(seen, consumers, strict=True):
                    mine.update(expected.intersection(values(consumer.poll(0.1))))
                return seen[0] | seen[1] == expected

            eventually(have_come, "all messages of a round came")
            read = [{int(each) % 2 for each in mine} for mine in seen]
            return read in ([{0}, {1}], [{1}, {0}])

        # Consumers that both read both partitions may be that lucky once, not again and again.
        eventually(lambda: all(is_split() for _ in range(5)), "each consumer reads one partition")


# --- Topics that come again ----------------------------------------------------------------------


def test_a_topic_that_is_deleted_and_made_again_is_assigned_by_its_new_id(
    server: ServerProcess, join: Callable[..., RawMember], name: Callable[[str], str]
) -> None:
    topic = name("again")
    make_topic(server, topic, 1)
    member = join(topic)
    (old,) = told[member]
    member.fetch([(old, 0)])
    new = remake(server, topic)
    assert assigned(member.heartbeat()) == {new: [0]} != {old: [0]}
    store(server, topic, ["a"])
    assert acquired(member.fetch([(new, 0)], forgotten=[(old, 0)])) == [(0, 0, 1)]


def test_a_share_consumer_reads_a_topic_that_was_made_again(
    server: ServerProcess, group: str, name: Callable[[str], str]
) -> None:
    topic = name("again")
    make_topic(server, topic, 1)
    publish(server, topic, ["before"], 1)
    with share_consumer(server, group, topic) as consumer:
        found: list[str] = []
        eventually(lambda: found.extend(values(consumer.poll(0.2))) or found, "the first came")
        remake(server, topic)
        publish(server, topic, ["after"], 1)
        eventually(
            lambda: (
                found.extend(m.value().decode() for m in consumer.poll(0.2) if not m.error())
                or found[1:]
            ),
            "the message of the new topic came",
        )
    assert found == ["before", "after"]


# --- Turns ---------------------------------------------------------------------------------------


def test_members_of_one_partition_are_served_in_the_order_in_which_they_asked(
    server: ServerProcess, join: Callable[..., RawMember], name: Callable[[str], str]
) -> None:
    topic, first = led_by_the_coordinator(server, join, name)
    members = [first, *(join(topic) for _ in range(7))]
    (topic_id,) = told[first]
    place = (topic_id, 0)
    for member in members[1:]:
        member.fetch([place])
    waiting = list(members)
    for member in waiting:
        ask(member)
    for offset in range(16):
        store(server, topic, [str(offset)])
        first = waiting.pop(0)
        answer = first.client.receive()
        first.session_epoch += 1
        assert acquired(answer) == [(offset, offset, 1)]
        ask(first, {place: [(offset, offset, [ACCEPT])]})  # behind all others
        waiting.append(first)


def led_by_the_coordinator(
    server: ServerProcess, join: Callable[..., RawMember], name: Callable[[str], str]
) -> tuple[str, RawMember]:
    """A topic whose leader coordinates the group too, and a member: what was read there waits."""
    for _ in range(30):
        topic = name("turns")
        make_topic(server, topic, 1)
        member = join(topic)
        (topic_id,) = told[member]
        member.fetch([(topic_id, 0)])
        coordinator = member.client.address_for(ApiKey.SHARE_GROUP_HEARTBEAT, group_id=member.group)
        if member.client.shared_address == coordinator:
            return topic, member
    raise AssertionError("no topic is led by the node that coordinates the group")


def ask(
    member: RawMember,
    acks: dict[tuple[UUID, int], list[tuple[int, int, list[int]]]] | None = None,
) -> None:
    """Wait for a message; returns when the node that hands it out knows."""
    member.client.send(FETCH, 2, **member.fetch_fields(acks=acks, max_wait_ms=60_000))
    with WireClient(member.client.shared_address) as client:  # what came later was read later
        client.call(18, 3, client_software_name="test", client_software_version="1")
