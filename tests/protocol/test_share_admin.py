"""Share groups as administrators see them: lists and offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from support import group_wire
from support.groups import FAST_GROUPS, make_topic
from support.kafka_wire import WireClient
from support.server import ServerProcess, make_server
from support.share import (
    ACCEPT,
    ALTER_OFFSETS,
    DELETE_OFFSETS,
    DESCRIBE,
    DESCRIBE_OFFSETS,
    RELEASE,
    WAIT_S,
    RawMember,
    acquired,
    configure,
    limits_of,
    share_consumer,
    store,
)
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

LIST_GROUPS = 16


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("share") / "data", *FAST_GROUPS).start()
    yield process
    process.close()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[WireClient]:
    with WireClient(server.kafka_address) as wire_client:
        yield wire_client


@pytest.fixture
def topic(server: ServerProcess, name: Callable[[str], str]) -> str:
    made = name("share")
    make_topic(server, made, 2)
    return made


@pytest.fixture
def topic_id(client: WireClient, topic: str) -> UUID:
    return group_wire.topic_id(client, topic)


@pytest.fixture
def member(server: ServerProcess, topic: str, name: Callable[[str], str]) -> Iterator[RawMember]:
    """The one member of a group that reads the topic from its start."""
    group = name("group")
    configure(server, group, auto_offset_reset="earliest")
    made = RawMember(server, group)
    made.heartbeat(0, [topic])
    yield made
    made.close()


def listed(client: WireClient, **filters: Any) -> dict[str, tuple[str, str, str]]:
    filters = {"states_filter": (), "types_filter": (), **filters}
    return {
        each.group_id: (each.group_type, each.protocol_type, each.group_state)
        for each in client.call(LIST_GROUPS, 5, **filters).groups
    }


# --- Groups --------------------------------------------------------------------------------------


def test_share_groups_are_listed_with_their_type_and_state(
    client: WireClient, member: RawMember
) -> None:
    group = member.group
    assert listed(client)[group] == ("share", "share", "Stable")
    assert group in listed(client, types_filter=["Share"])
    assert group not in listed(client, types_filter=["consumer"])
    assert group not in listed(client, states_filter=["Empty"])
    member.heartbeat(-1)
    assert listed(client, states_filter=["empty"])[group] == ("share", "share", "Empty")


def test_a_name_that_only_has_settings_is_no_group_yet(
    server: ServerProcess, client: WireClient, name: Callable[[str], str]
) -> None:
    group = name("later")
    configure(server, group, auto_offset_reset="earliest")
    assert group not in listed(client)
    (described,) = client.call(
        DESCRIBE, 1, group_ids=[group], include_authorized_operations=False
    ).groups
    assert described.error_code is ErrorCode.group_id_not_found
    assert group_wire.join_fully(client, group).error_code is ErrorCode.none


def test_a_group_is_described_with_its_members_and_what_they_read(
    client: WireClient, member: RawMember, topic: str, topic_id: UUID
) -> None:
    found, missing = client.call(
        DESCRIBE, 1, group_ids=[member.group, "nowhere"], include_authorized_operations=False
    ).groups
    assert missing.error_code is ErrorCode.group_id_not_found
    assert (found.group_state, found.assignor_name) == ("Stable", "simple")
    assert found.group_epoch == found.assignment_epoch == member.epoch
    (shown,) = found.members
    assert (shown.member_id, shown.client_id) == (member.member_id, "wire")
    assert (shown.member_epoch, shown.client_host) == (member.epoch, "127.0.0.1")
    assert shown.subscribed_topic_names == (topic,)
    (reads,) = shown.assignment.topic_partitions
    assert (reads.topic_id, reads.topic_name, reads.partitions) == (topic_id, topic, (0, 1))


def test_other_descriptions_do_not_know_share_groups(client: WireClient, member: RawMember) -> None:
    assert group_wire.describe(client, member.group).group_state == "Dead"
    newest = group_wire.describe(client, member.group, 6)
    assert newest.error_code is ErrorCode.group_id_not_found


def test_a_share_group_is_deleted_when_everyone_has_left(
    client: WireClient, member: RawMember, topic_id: UUID
) -> None:
    group = member.group
    codes = group_wire.delete(client, group, "nowhere")
    assert codes == {group: ErrorCode.non_empty_group, "nowhere": ErrorCode.group_id_not_found}
    member.heartbeat(-1)
    assert group_wire.delete(client, group) == {group: ErrorCode.none}
    assert group not in listed(client)
    assert member.fetch([(topic_id, 0)]).error_code is ErrorCode.group_id_not_found


def test_confluents_admin_client_deletes_share_groups(
    server: ServerProcess, client: WireClient, topic: str, name: Callable[[str], str]
) -> None:
    group = name("deleted")
    admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
    with share_consumer(server, group, topic) as consumer:
        eventually(lambda: consumer.poll(0.1) or group in listed(client), "it has joined")
        (refused,) = admin.delete_consumer_groups([group]).values()
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            refused.result(WAIT_S)
    (future,) = admin.delete_consumer_groups([group]).values()
    future.result(WAIT_S)
    assert group not in listed(client)


# --- Offsets -------------------------------------------------------------------------------------


def starts(
    client: WireClient, group: str, topics: list[dict[str, Any]] | None = None
) -> dict[tuple[str, int], tuple[int, int]]:
    """The start offset and the lag of each partition."""
    answer = client.call(DESCRIBE_OFFSETS, 1, groups=[{"group_id": group, "topics": topics}])
    (found,) = answer.groups
    assert found.error_code is ErrorCode.none
    return {
        (topic.topic_name, each.partition_index): (each.start_offset, each.lag)
        for topic in found.topics
        for each in topic.partitions
    }


def alter(client: WireClient, group: str, topic: str, offsets: dict[int, int]) -> Any:
    return client.call(
        ALTER_OFFSETS,
        0,
        group_id=group,
        topics=[
            {
                "topic_name": topic,
                "partitions": [
                    {"partition_index": number, "start_offset": offset}
                    for number, offset in offsets.items()
                ],
            }
        ],
    )


def forget(client: WireClient, group: str, *topics: str) -> Any:
    return client.call(
        DELETE_OFFSETS, 0, group_id=group, topics=[{"topic_name": each} for each in topics]
    )


def test_offsets_tell_where_a_group_is_and_how_much_is_left(
    server: ServerProcess, client: WireClient, member: RawMember, topic: str, topic_id: UUID
) -> None:
    for number in range(2):
        store(server, topic, list("abc"), number)
    place = (topic_id, 0)
    member.fetch([place])
    member.acknowledge({place: [(0, 0, [ACCEPT]), (2, 2, [ACCEPT])]})
    assert starts(client, member.group) == {(topic, 0): (1, 1), (topic, 1): (-1, -1)}
    asked = [{"topic_name": topic, "partitions": [0]}]
    assert starts(client, member.group, asked) == {(topic, 0): (1, 1)}
    v0 = client.call(DESCRIBE_OFFSETS, 0, groups=[{"group_id": member.group, "topics": asked}])
    assert v0.groups[0].topics[0].partitions[0].start_offset == 1


def test_a_partition_of_which_nothing_is_acknowledged_has_no_start_offset(
    server: ServerProcess, client: WireClient, member: RawMember, topic: str, topic_id: UUID
) -> None:
    store(server, topic, list("abc"))
    unread = {(topic, 0): (-1, -1), (topic, 1): (-1, -1)}
    assert starts(client, member.group) == unread
    member.fetch([(topic_id, 0)])
    assert starts(client, member.group) == unread
    member.acknowledge({(topic_id, 0): [(0, 0, [RELEASE])]})
    assert starts(client, member.group) == {**unread, (topic, 0): (0, 3)}


def test_offsets_of_what_is_not_there_are_told_one_by_one(
    client: WireClient, member: RawMember, topic: str
) -> None:
    asked = [{"topic_name": topic, "partitions": [0, 7]}, {"topic_name": "none", "partitions": [0]}]
    answer = client.call(
        DESCRIBE_OFFSETS,
        1,
        groups=[
            {"group_id": "nowhere", "topics": None},
            {"group_id": member.group, "topics": asked},
        ],
    )
    nowhere, found = answer.groups
    assert (nowhere.error_code, nowhere.topics) == (ErrorCode.none, ())
    shown = {
        (each.topic_name, place.partition_index): (place.error_code, place.start_offset)
        for each in found.topics
        for place in each.partitions
    }
    assert shown == dict.fromkeys([(topic, 0), (topic, 7), ("none", 0)], (ErrorCode.none, -1))


def test_the_offsets_of_a_group_that_does_not_exist_yet_are_set_and_make_it(
    server: ServerProcess,
    client: WireClient,
    topic: str,
    topic_id: UUID,
    name: Callable[[str], str],
) -> None:
    store(server, topic, list("abc"))
    group, only_set = name("ahead"), name("ahead")
    configure(server, only_set, delivery_count_limit=4)
    for each in (group, only_set):
        assert alter(client, each, topic, {0: 2}).error_code is ErrorCode.none
        assert listed(client)[each] == ("share", "share", "Empty")
        assert starts(client, each) == {(topic, 0): (2, 1)}
    assert limits_of(server, client, group) == ("5", 5)
    assert limits_of(server, client, only_set) == ("4", 4)
    member = RawMember(server, group)
    member.heartbeat(0, [topic])
    assert acquired(member.fetch([(topic_id, 0)])) == [(2, 2, 1)]
    member.acknowledge({}, epoch=-1)
    member.heartbeat(-1)
    assert alter(client, group, topic, {0: -1}).error_code is ErrorCode.none
    assert starts(client, group)[topic, 0] == (-1, -1)
    member.close()


def test_offsets_of_a_group_that_is_no_share_group_are_not_set(
    client: WireClient, topic: str, name: Callable[[str], str]
) -> None:
    group = name("consumers")
    assert group_wire.join_fully(client, group).error_code is ErrorCode.none
    assert alter(client, group, topic, {0: 0}).error_code is ErrorCode.group_id_not_found
    assert alter(client, "", topic, {0: 0}).error_code is ErrorCode.invalid_group_id


def test_a_share_group_without_topics_stays_until_it_is_deleted(
    server: ServerProcess, client: WireClient, name: Callable[[str], str]
) -> None:
    topic, joined, moved = name("short-lived"), name("group"), name("group")
    make_topic(server, topic, 1)
    member = RawMember(server, joined)
    member.heartbeat(0, [topic])
    member.heartbeat(-1)
    member.close()
    alter(client, moved, topic, {0: 0})
    client.call(20, 6, topics=[{"name": topic, "topic_id": None}], timeout=5000)
    for group in (joined, moved):
        assert listed(client)[group] == ("share", "share", "Empty")
        assert starts(client, group) == {}
    assert set(group_wire.delete(client, joined, moved).values()) == {ErrorCode.none}
    assert not {joined, moved} & set(listed(client))


def test_a_group_that_everyone_left_is_moved_and_reads_on_there(
    server: ServerProcess, client: WireClient, member: RawMember, topic: str, topic_id: UUID
) -> None:
    for number in range(2):
        store(server, topic, list("abc"), number)
    group, place = member.group, (topic_id, 0)
    assert alter(client, group, topic, {0: 1}).error_code is ErrorCode.non_empty_group
    member.fetch([place])
    member.acknowledge({place: [(0, 2, [ACCEPT])]}, epoch=-1)
    member.heartbeat(-1)
    answer = alter(client, group, topic, {0: 1, 1: 99, 7: 0})
    (moved,) = answer.responses
    assert moved.topic_id == topic_id
    assert {each.partition_index: each.error_code for each in moved.partitions} == {
        0: ErrorCode.none,
        1: ErrorCode.offset_out_of_range,
        7: ErrorCode.unknown_topic_or_partition,
    }
    assert starts(client, group)[topic, 0] == (1, 2)
    member.heartbeat(0, [topic])
    member.session_epoch = 0
    assert acquired(member.fetch([place])) == [(1, 2, 1)]


def test_a_group_that_everyone_left_forgets_topics(
    client: WireClient, member: RawMember, topic: str
) -> None:
    group = member.group
    assert forget(client, group, topic).error_code is ErrorCode.non_empty_group
    member.heartbeat(-1)
    answer = forget(client, group, topic, "none")
    assert {each.topic_name: each.error_code for each in answer.responses} == {
        topic: ErrorCode.none,
        "none": ErrorCode.unknown_topic_or_partition,
    }
    (again,) = forget(client, group, topic).responses
    assert again.error_code is ErrorCode.unknown_topic_or_partition
    assert forget(client, "nowhere", topic).error_code is ErrorCode.group_id_not_found
    assert listed(client)[group] == ("share", "share", "Empty")  # until it is deleted
