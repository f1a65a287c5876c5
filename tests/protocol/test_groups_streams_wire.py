"""Streams groups on the wire: joining, statuses, internal topics, refusals, and restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kio.schema.errors import ErrorCode

from support import group_wire, streams_wire as wire
from support.groups import make_topic
from support.kafka_wire import WireClient
from support.server import ServerProcess, make_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCE = "lines"
INCREMENTAL_ALTER_CONFIGS, GROUP = 44, 32
STALE, NO_SOURCE, MISFIT, NO_INTERNAL, SHUTDOWN, DELAYED = range(6)
FLAGS = ("--groups-streams-initial-rebalance-delay", "0ms")
EVERY_TASK = {(each, number) for each in "01" for number in range(2)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = make_server(tmp_path_factory.mktemp("streams") / "data", *FLAGS).start()
    make_topic(process, SOURCE, 2)
    yield process
    process.close()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[WireClient]:
    with WireClient(server.kafka_address) as wire_client:
        yield wire_client


@pytest.fixture
def group() -> str:
    return f"app-{uuid4()}"


def codes(answer: Any) -> list[int]:
    assert answer.error_code is ErrorCode.none, answer.error_message
    return [each.status_code for each in answer.status]


def alone(client: WireClient, group: str, member_id: str = "m") -> int:
    """Join as the only member, and have every task; the epoch."""
    joined = wire.join(client, group, member_id, wire.counting(group, SOURCE))
    assert codes(joined) == [NO_INTERNAL]
    ready = wire.heartbeat(client, group, member_id, joined.member_epoch)
    assert wire.flat(ready.active_tasks) == EVERY_TASK
    return ready.member_epoch


def test_streams_version_1_is_finalized(client: WireClient) -> None:
    answer = client.call(18, 3, client_software_name="t", client_software_version="1")
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert levels["streams.version"] == 1


def test_internal_topics_are_created_with_the_settings_of_the_application(
    server: ServerProcess, client: WireClient, group: str
) -> None:
    alone(client, group)
    admin = AdminClient({"bootstrap.servers": server.kafka_address, "log_level": 0})
    topics = admin.list_topics(timeout=30).topics
    for name, policy in ((f"{group}-again", "delete"), (f"{group}-kept", "compact")):
        assert len(topics[name].partitions) == 2
        resource = ConfigResource(ResourceType.TOPIC, name)
        configs = admin.describe_configs([resource])[resource].result()
        assert configs["cleanup.policy"].value == policy


def test_two_members_share_the_tasks_and_none_is_ever_active_twice(
    client: WireClient, group: str
) -> None:
    epoch = alone(client, group)
    topology = wire.counting(group, SOURCE)
    joined = wire.join(client, group, "n", topology, process_id="another")
    assert (codes(joined), joined.active_tasks) == ([], ())
    told = wire.heartbeat(client, group, "m", epoch)
    assert told.member_epoch == epoch
    assert len(wire.flat(told.active_tasks)) == 2
    waiting = wire.heartbeat(client, group, "n", joined.member_epoch)
    assert waiting.active_tasks is None
    moved = wire.heartbeat(client, group, "m", epoch, **wire.owning(told.active_tasks))
    assert moved.member_epoch == joined.member_epoch
    given = wire.heartbeat(client, group, "n", joined.member_epoch)
    assert wire.flat(given.active_tasks) == EVERY_TASK - wire.flat(told.active_tasks)
    assert wire.describe(client, group).group_state == "Stable"


def test_a_group_is_described_with_topology_and_members(client: WireClient, group: str) -> None:
    epoch = alone(client, group)
    found = wire.describe(client, group)
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == (
        "Stable",
        epoch,
        epoch,
    )
    kept = found.topology.subtopologies[1].state_changelog_topics[0]
    assert (kept.name, kept.partitions) == (f"{group}-kept", 2)
    (member,) = found.members
    assert (member.member_id, member.process_id, member.is_classic) == (
        "m",
        "process of m",
        False,
    )
    assert wire.flat(member.assignment.active_tasks) == EVERY_TASK
    assert wire.flat(member.target_assignment.active_tasks) == EVERY_TASK


def test_what_is_no_streams_group_is_not_found(client: WireClient, group: str) -> None:
    assert wire.describe(client, group).error_code is ErrorCode.group_id_not_found
    answer = wire.heartbeat(client, group, "m", 1)
    assert answer.error_code is ErrorCode.group_id_not_found
    group_wire.join_fully(client, group)
    assert wire.describe(client, group).error_code is ErrorCode.group_id_not_found
    joined = wire.join(client, group, "m", wire.counting(group, SOURCE))
    assert joined.error_code is ErrorCode.group_id_not_found


def test_members_of_other_protocols_are_kept_out(client: WireClient, group: str) -> None:
    alone(client, group)
    joined = group_wire.join(client, group)
    assert joined.error_code is ErrorCode.inconsistent_group_protocol


def test_a_group_is_listed_as_streams_and_deleted_when_it_is_empty(
    client: WireClient, group: str
) -> None:
    alone(client, group)
    answer = client.call(16, 5, states_filter=[], types_filter=["Streams"])
    (line,) = [each for each in answer.groups if each.group_id == group]
    assert (line.group_type.lower(), line.protocol_type, line.group_state) == (
        "streams",
        "streams",
        "Stable",
    )
    assert group_wire.delete(client, group) == {group: ErrorCode.non_empty_group}
    assert wire.heartbeat(client, group, "m", -1).member_epoch == -1
    assert group_wire.delete(client, group) == {group: ErrorCode.none}


def test_commits_and_fetches_are_fenced_by_the_epoch(client: WireClient, group: str) -> None:
    epoch = alone(client, group)

    def commit(epoch: int, member_id: str = "m") -> ErrorCode:
        return group_wire.commit(client, group, SOURCE, 1, member_id=member_id, generation=epoch)

    assert commit(epoch) is ErrorCode.none
    assert commit(epoch - 1) is ErrorCode.stale_member_epoch
    assert commit(epoch, "stranger") is ErrorCode.unknown_member_id
    found = group_wire.fetch(client, group, SOURCE, member_id="m", epoch=epoch)
    assert found.topics[0].partitions[0].committed_offset == 1
    refused = group_wire.fetch(client, group, SOURCE, member_id="m", epoch=epoch + 1)
    assert refused.error_code is ErrorCode.stale_member_epoch


def test_missing_source_topics_are_told(client: WireClient, group: str) -> None:
    joined = wire.join(client, group, "m", wire.counting(group, f"{group}-nowhere"))
    assert codes(joined) == [NO_SOURCE]
    assert f"{group}-nowhere" in joined.status[0].status_detail
    found = wire.describe(client, group)
    assert (found.group_state, found.topology.subtopologies) == ("NotReady", None)


def test_joined_topics_of_different_width_are_told(
    server: ServerProcess, client: WireClient, group: str
) -> None:
    make_topic(server, f"{group}-wide", 3)
    joined = wire.join(
        client,
        group,
        "m",
        {
            "epoch": 0,
            "subtopologies": [
                wire.subtopology(
                    "0",
                    source_topics=[SOURCE, f"{group}-wide"],
                    copartition_groups=[
                        {
                            "source_topics": [0, 1],
                            "source_topic_regex": [],
                            "repartition_source_topics": [],
                        }
                    ],
                )
            ],
        },
    )
    assert codes(joined) == [MISFIT]


def test_internal_topics_that_cannot_be_created_are_told(client: WireClient, group: str) -> None:
    topology = wire.counting(group, SOURCE)
    topology["subtopologies"][1]["state_changelog_topics"] = [
        wire.internal(f"{group}-kept", replicas=4)
    ]
    joined = wire.join(client, group, "m", topology)
    assert codes(joined) == [NO_INTERNAL]
    assert "replication factor 4" in joined.status[0].status_detail


def test_an_older_topology_and_a_shutdown_are_told(client: WireClient, group: str) -> None:
    newer = {**wire.counting(group, SOURCE), "epoch": 1}
    first = wire.join(client, group, "m", newer)
    stale = wire.join(client, group, "n", wire.counting(group, SOURCE))
    assert STALE in codes(stale)
    answer = wire.heartbeat(client, group, "m", first.member_epoch, shutdown_application=True)
    assert SHUTDOWN in codes(answer)
    assert SHUTDOWN in codes(wire.heartbeat(client, group, "n", stale.member_epoch))


def test_members_learn_the_endpoints_of_each_other(client: WireClient, group: str) -> None:
    topology = wire.counting(group, SOURCE)
    endpoint = {"host": "here", "port": 8080}
    joined = wire.join(client, group, "m", topology, user_endpoint=endpoint)
    ready = wire.heartbeat(client, group, "m", joined.member_epoch)
    (found,) = ready.partitions_by_user_endpoint
    assert (found.user_endpoint.host, found.user_endpoint.port) == ("here", 8080)
    assert {each.topic for each in found.active_partitions} == {SOURCE, f"{group}-again"}
    known = ready.endpoint_information_epoch
    later = wire.heartbeat(client, group, "m", ready.member_epoch, endpoint_information_epoch=known)
    assert later.partitions_by_user_endpoint is None


def set_for_group(client: WireClient, group: str, **settings: str) -> ErrorCode:
    answer = client.call(
        INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            {
                "resource_type": GROUP,
                "resource_name": group,
                "configs": [
                    {
                        "name": f"streams.{name.replace('_', '.')}",
                        "config_operation": 0,
                        "value": to,
                    }
                    for name, to in settings.items()
                ],
            }
        ],
        validate_only=False,
    )
    return answer.responses[0].error_code


def test_a_group_follows_settings_of_its_own(client: WireClient, group: str) -> None:
    epoch = alone(client, group)
    assert set_for_group(client, group, heartbeat_interval_ms="7000") is ErrorCode.none
    answer = wire.heartbeat(client, group, "m", epoch)
    assert answer.heartbeat_interval.total_seconds() == 7
    for wrong in ({"heartbeat_interval_ms": "10"}, {"num_standby_replicas": "3"}):
        assert set_for_group(client, group, **wrong) is ErrorCode.invalid_config
    joined = wire.join(client, group, "n", wire.counting(group, SOURCE), process_id="another")
    assert set_for_group(client, group, num_standby_replicas="1") is ErrorCode.none
    told = wire.heartbeat(client, group, "m", epoch)
    moved = wire.heartbeat(client, group, "m", epoch, **wire.owning(told.active_tasks))
    given = wire.heartbeat(client, group, "n", joined.member_epoch)
    standbys = wire.flat(moved.standby_tasks or ()) | wire.flat(given.standby_tasks)
    standbys |= wire.flat(
        wire.heartbeat(client, group, "m", moved.member_epoch).standby_tasks or ()
    )
    assert standbys == {("1", 0), ("1", 1)}, "what has state is kept twice"


def test_settings_given_before_there_is_a_group_hold_for_its_first_member(
    client: WireClient, group: str
) -> None:
    assert set_for_group(client, group, initial_rebalance_delay_ms="600000") is ErrorCode.none
    topology = {"epoch": 0, "subtopologies": [wire.subtopology("0", source_topics=[SOURCE])]}
    joined = wire.join(client, group, "m", topology)
    assert (codes(joined), joined.active_tasks) == ([DELAYED], ())


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"instance_id": "static"}, ErrorCode.invalid_request),
        ({"process_id": None}, ErrorCode.invalid_request),
        ({"topology": None}, ErrorCode.invalid_request),
        ({"topology": {"epoch": 0, "subtopologies": []}}, ErrorCode.streams_invalid_topology),
        (
            {
                "topology": {
                    "epoch": 0,
                    "subtopologies": [wire.subtopology("0", source_topic_regex=[".*"])],
                }
            },
            ErrorCode.streams_invalid_topology,
        ),
        (
            {
                "topology": {
                    "epoch": 0,
                    "subtopologies": [
                        wire.subtopology(
                            "0",
                            source_topics=[SOURCE],
                            copartition_groups=[
                                {
                                    "source_topics": [-1],
                                    "source_topic_regex": [],
                                    "repartition_source_topics": [],
                                }
                            ],
                        )
                    ],
                }
            },
            ErrorCode.streams_invalid_topology,
        ),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_reason(
    client: WireClient, group: str, said: dict[str, Any], code: ErrorCode
) -> None:
    topology = said.pop("topology", wire.counting(group, SOURCE))
    answer = wire.join(client, group, "m", topology, **said)
    assert answer.error_code is code
    assert answer.error_message


def test_an_empty_group_waits_for_more_members(tmp_path: Path, group: str) -> None:
    flags = ("--groups-streams-initial-rebalance-delay", "2s")
    process = make_server(tmp_path / "data", *flags).start()
    try:
        make_topic(process, SOURCE, 2)
        with WireClient(process.kafka_address) as client:
            topology = {
                "epoch": 0,
                "subtopologies": [wire.subtopology("0", source_topics=[SOURCE])],
            }
            joined = wire.join(client, group, "m", topology)
            assert (codes(joined), joined.active_tasks) == ([DELAYED], ())
            eventually(
                lambda: wire.heartbeat(client, group, "m", joined.member_epoch).active_tasks,
                "the delay is over",
            )
    finally:
        process.close()


def test_members_go_on_where_they_were_after_kill_9(tmp_path: Path, group: str) -> None:
    process = make_server(tmp_path / "data", *FLAGS).start()
    try:
        make_topic(process, SOURCE, 2)
        with WireClient(process.kafka_address) as client:
            epoch = alone(client, group)
            commit = group_wire.commit(client, group, SOURCE, 5, member_id="m", generation=epoch)
            assert commit is ErrorCode.none
            before = wire.describe(client, group)
        process.kill()
        process.restart()
        with WireClient(process.kafka_address) as client:
            assert wire.describe(client, group) == before
            answer = wire.heartbeat(client, group, "m", epoch)
            assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, epoch)
            found = group_wire.fetch(client, group, SOURCE, member_id="m", epoch=epoch)
            assert found.topics[0].partitions[0].committed_offset == 5
    finally:
        process.close()
