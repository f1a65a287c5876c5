"""Share groups as administrators see them: lists, settings, offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kio.schema.errors import ErrorCode

from support import group_wire
from support.groups import FAST_GROUPS, eventually, make_topic
from support.kafka_wire import WireClient
from support.server import ServerProcess
from support.share import (
    ACCEPT,
    ALTER_OFFSETS,
    DELETE_OFFSETS,
    DESCRIBE,
    DESCRIBE_OFFSETS,
    GROUP,
    WAIT_S,
    RawMember,
    acquired,
    configure,
    share_consumer,
    store,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

LIST_GROUPS, DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL = 16, 32, 33, 44
SET, DELETE, APPEND = range(3)
DEFAULT, OF_GROUP = 5, 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path_factory.mktemp("share") / "data", *FAST_GROUPS).start()
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


# --- Settings ------------------------------------------------------------------------------------


def settings_of(client: WireClient, group: str, *names: str) -> dict[str, tuple[str, int]]:
    answer = client.call(
        DESCRIBE_CONFIGS,
        4,
        resources=[
            {
                "resource_type": GROUP,
                "resource_name": group,
                "configuration_keys": list(names) or None,
            }
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    (result,) = answer.results
    assert result.error_code is ErrorCode.none
    assert all(each.documentation for each in result.configs)
    return {
        each.name: (each.value, each.config_source)
        for each in result.configs
        if each.name.startswith("share.")
    }


def change(
    client: WireClient, group: str, *changes: tuple[str, int, str | None], dry: bool = False
) -> ErrorCode:
    (result,) = client.call(
        INCREMENTAL,
        1,
        resources=[
            {
                "resource_type": GROUP,
                "resource_name": group,
                "configs": [
                    {"name": name, "config_operation": operation, "value": value}
                    for name, operation, value in changes
                ],
            }
        ],
        validate_only=dry,
    ).responses
    code: ErrorCode = result.error_code
    return code


def test_settings_of_groups_have_defaults_are_changed_and_go_back(
    client: WireClient, name: Callable[[str], str]
) -> None:
    group = name("settings")
    assert settings_of(client, group) == {
        "share.auto.offset.reset": ("latest", DEFAULT),
        "share.record.lock.duration.ms": ("30000", DEFAULT),
        "share.delivery.count.limit": ("3", DEFAULT),
        "share.isolation.level": ("read_uncommitted", DEFAULT),
        "share.heartbeat.interval.ms": ("5000", DEFAULT),
        "share.session.timeout.ms": ("45000", DEFAULT),
    }
    limit, lock = "share.delivery.count.limit", "share.record.lock.duration.ms"
    assert change(client, group, (limit, SET, "7"), (lock, SET, "15000")) is ErrorCode.none
    assert settings_of(client, group, limit, lock) == {
        limit: ("7", OF_GROUP),
        lock: ("15000", OF_GROUP),
    }
    assert change(client, group, (limit, DELETE, None)) is ErrorCode.none
    assert settings_of(client, group, limit)[limit] == ("3", DEFAULT)
    (replaced,) = client.call(
        ALTER_CONFIGS,
        2,
        resources=[
            {
                "resource_type": GROUP,
                "resource_name": group,
                "configs": [{"name": "share.isolation.level", "value": "read_committed"}],
            }
        ],
        validate_only=False,
    ).responses
    assert replaced.error_code is ErrorCode.none
    assert settings_of(client, group, lock)[lock] == ("30000", DEFAULT)
    assert settings_of(client, group)["share.isolation.level"] == ("read_committed", OF_GROUP)


@pytest.mark.parametrize(
    ("setting", "operation", "value"),
    [
        ("share.auto.offset.reset", SET, "by_duration:PT1H"),
        ("share.record.lock.duration.ms", SET, "99"),
        ("share.record.lock.duration.ms", SET, "soon"),
        ("share.delivery.count.limit", SET, "0"),
        ("share.delivery.count.limit", SET, "251"),
        ("share.isolation.level", SET, "none"),
        ("share.heartbeat.interval.ms", SET, "45000"),
        ("share.auto.offset.reset", APPEND, "earliest"),
        ("nonsense", DELETE, None),
    ],
)
def test_settings_that_groups_cannot_have_are_refused_and_change_nothing(
    client: WireClient,
    name: Callable[[str], str],
    setting: str,
    operation: int,
    value: str | None,
) -> None:
    group = name("settings")
    before = settings_of(client, group)
    assert change(client, group, (setting, operation, value)) is ErrorCode.invalid_config
    assert change(client, group, (setting, operation, value), dry=True) is ErrorCode.invalid_config
    assert settings_of(client, group) == before


def test_a_dry_run_checks_and_changes_nothing(
    client: WireClient, name: Callable[[str], str]
) -> None:
    group = name("settings")
    limit = "share.delivery.count.limit"
    assert change(client, group, (limit, SET, "9"), dry=True) is ErrorCode.none
    assert settings_of(client, group, limit)[limit] == ("3", DEFAULT)
    assert change(client, "", (limit, SET, "9")) is ErrorCode.invalid_request


def test_confluents_admin_client_reads_settings_of_groups(
    server: ServerProcess, name: Callable[[str], str]
) -> None:
    group = name("settings")
    configure(server, group, delivery_count_limit=11)
    admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.GROUP, group)]).values()
    assert future.result(WAIT_S)["share.delivery.count.limit"].value == "11"


def test_a_group_without_settings_begins_with_what_comes_next(
    server: ServerProcess, topic: str, topic_id: UUID, name: Callable[[str], str]
) -> None:
    store(server, topic, ["old"])
    member = RawMember(server, name("latest"))
    member.heartbeat(0, [topic])
    store(server, topic, ["new"])
    assert acquired(member.fetch([(topic_id, 0)])) == [(1, 1, 1)]
    member.close()


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
    assert starts(client, member.group) == {(topic, 0): (1, 1), (topic, 1): (0, 3)}
    asked = [{"topic_name": topic, "partitions": [1]}]
    assert starts(client, member.group, asked) == {(topic, 1): (0, 3)}
    v0 = client.call(DESCRIBE_OFFSETS, 0, groups=[{"group_id": member.group, "topics": asked}])
    assert v0.groups[0].topics[0].partitions[0].start_offset == 0


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
    assert nowhere.error_code is ErrorCode.group_id_not_found
    codes = {
        (each.topic_name, place.partition_index): place.error_code
        for each in found.topics
        for place in each.partitions
    }
    assert codes == {
        (topic, 0): ErrorCode.none,
        (topic, 7): ErrorCode.unknown_topic_or_partition,
        ("none", 0): ErrorCode.unknown_topic_or_partition,
    }


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
    assert alter(client, "nowhere", topic, {0: 1}).error_code is ErrorCode.group_id_not_found
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
    assert forget(client, "nowhere", topic).error_code is ErrorCode.group_id_not_found
    assert listed(client)[group] == ("share", "share", "Empty")  # until it is deleted
