"""Groups that change between the classic and the KIP-848 protocol while their members read on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support import group_wire as wire
from support.groups import (
    FAST_GROUPS,
    PATIENT_GROUPS,
    Stream,
    cast,
    check_all_delivered,
    check_one_owner,
    make_topic,
    share_out,
)
from support.kafka_wire import WireClient
from support.server import start_server
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.groups import Member
    from support.server import ServerProcess

__all__ = ["start_server"]

TOPIC = "moving"
GROUP = "g"
PARTITIONS = 6
EACH_S = 0.05

NEW: tuple[str, dict[str, Any]] = ("confluent", {"group.protocol": "consumer"})
CONFLUENT = {"heartbeat.interval.ms": 200, "session.timeout.ms": 60_000}
PYTHON = {"heartbeat_interval_ms": 200, "session_timeout_ms": 60_000}
OLD: dict[str, tuple[str, dict[str, Any]]] = {
    "confluent-range": ("confluent", {**CONFLUENT, "partition.assignment.strategy": "range"}),
    "confluent-cooperative": (
        "confluent",
        {**CONFLUENT, "partition.assignment.strategy": "cooperative-sticky"},
    ),
    "kafka-python": ("kafka-python", {**PYTHON, "assignor": "range"}),
    "aiokafka": ("aiokafka", {**PYTHON, "assignor": "range"}),
}


def group_type(server: ServerProcess) -> str:
    with WireClient(server.kafka_address) as client:
        listed = client.call(wire.LIST, 5, states_filter=[], types_filter=[]).groups
        return next((each.group_type for each in listed if each.group_id == GROUP), "")


def member_types(server: ServerProcess) -> list[int]:
    with WireClient(server.kafka_address) as client:
        asked = {"group_ids": [GROUP], "include_authorized_operations": False}
        (found,) = client.call(wire.CONSUMER_DESCRIBE, 1, **asked).groups
        return sorted(each.member_type for each in found.members)


def check_no_complaints(members: list[Member]) -> None:
    """No client was told of an error or lost what it had."""
    for member in members:
        assert member.count("error", "fatal", "lost") == 0, (member.name, member.events)


@pytest.mark.parametrize("old", OLD)
def test_a_group_is_rolled_to_the_new_protocol_and_back_under_load(
    start_server: Callable[..., ServerProcess], old: str
) -> None:
    server = start_server(*FAST_GROUPS)
    make_topic(server, TOPIC, PARTITIONS)
    everyone: list[Member] = []
    with Stream.into(server, TOPIC, PARTITIONS, EACH_S) as stream, cast() as start:

        def add(client: str, settings: dict[str, Any]) -> Member:
            everyone.append(start(client, server, GROUP, topics=[TOPIC], **settings))
            return everyone[-1]

        members = [add(*OLD[old]) for _ in range(2)]
        share_out(members, TOPIC, PARTITIONS)
        for kind, types in ((NEW, ["consumer", "consumer"]), (OLD[old], ["consumer", "classic"])):
            for expected in types:
                members.append(add(*kind))
                share_out(members, TOPIC, PARTITIONS)
                assert group_type(server) == "consumer"
                members.pop(0).leave()
                share_out(members, TOPIC, PARTITIONS)
                assert group_type(server) == expected
        check_all_delivered(everyone, stream.stop())
        check_one_owner(everyone)
        check_no_complaints(everyone)
        for member in members:
            member.leave()


def test_members_of_both_kinds_are_shown_as_what_they_are(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server(*FAST_GROUPS)
    make_topic(server, TOPIC, PARTITIONS)
    with cast() as start:
        members = [
            start(client, server, GROUP, topics=[TOPIC], **settings)
            for client, settings in (OLD["confluent-range"], OLD["aiokafka"], NEW)
        ]
        share_out(members, TOPIC, PARTITIONS)
        assert member_types(server) == [0, 0, 1]
        for member in members:
            member.leave()


def test_a_mixed_group_goes_on_after_a_kill_of_the_broker(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server(*PATIENT_GROUPS)
    make_topic(server, TOPIC, PARTITIONS)
    with Stream.into(server, TOPIC, PARTITIONS, EACH_S) as stream, cast() as start:
        members = [
            start(client, server, GROUP, topics=[TOPIC], **settings)
            for client, settings in (OLD["confluent-cooperative"], NEW)
        ]
        everyone = [*members]
        share_out(members, TOPIC, PARTITIONS)
        assert member_types(server) == [0, 1]
        server.kill()
        server.start()
        share_out(members, TOPIC, PARTITIONS)
        eventually(lambda: member_types(server) == [0, 1], "the same members are back")
        members.pop().leave()
        share_out(members, TOPIC, PARTITIONS)
        assert group_type(server) == "classic"
        server.kill()
        server.start()
        share_out(members, TOPIC, PARTITIONS)
        check_all_delivered(everyone, stream.stop())
        members.pop().leave()
