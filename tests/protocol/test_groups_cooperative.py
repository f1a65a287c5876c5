"""Twelve partitions under load: what a member keeps through a rebalance, it never stops reading."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from support import group_wire as wire
from support.groups import (
    FAST_GROUPS,
    MORTAL_GROUPS,
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

    from support.groups import Member, TopicPartition
    from support.server import ServerProcess

__all__ = ["start_server"]

TOPIC = "busy"
GROUP = "g"
PARTITIONS = 12
EACH_S = 0.02

COOPERATIVE: dict[str, Any] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "heartbeat.interval.ms": 300,
}
CONSUMER_PROTOCOL: dict[str, Any] = {"group.protocol": "consumer"}
both_protocols = pytest.mark.parametrize(
    "settings", [COOPERATIVE, CONSUMER_PROTOCOL], ids=["cooperative-sticky", "kip-848"]
)


def session(settings: dict[str, Any], seconds: int) -> dict[str, Any]:
    """The settings, with the time after which a silent member is given up, where it says so."""
    return settings | ({"session.timeout.ms": 1000 * seconds} if settings is COOPERATIVE else {})


def is_stable(server: ServerProcess, settings: dict[str, Any]) -> bool:
    """Whether no rebalance is under way."""
    with WireClient(server.kafka_address) as client:
        if settings is COOPERATIVE:
            return bool(wire.describe(client, GROUP).group_state == "Stable")
        asked = {"group_ids": [GROUP], "include_authorized_operations": False}
        (found,) = client.call(wire.CONSUMER_DESCRIBE, 1, **asked).groups
        return bool(found.group_state == "Stable")


def all_read_on(members: list[Member]) -> float:
    """Wait until each partition has delivered something after now; returns now."""
    now_s = time.monotonic()

    def have_read() -> bool:
        return all(
            {each.partition for each in member.deliveries if each.at_s > now_s} >= member.partitions
            for member in members
        )

    eventually(have_read, "every partition is read")
    return now_s


def check_kept_partitions_stayed(
    before: dict[Member, set[TopicPartition]], from_s: float, to_s: float
) -> None:
    kept: set[TopicPartition] = set()
    for member, parts in before.items():
        stayed = parts & member.partitions
        revoked = {held.partition for held in member.held() if from_s <= held.to_s <= to_s}
        assert not stayed & revoked, "taken away only to be given back"
        kept |= stayed
    assert len(kept) >= PARTITIONS // 2, "most partitions stay where they are"


@both_protocols
def test_partitions_that_stay_are_read_on_while_a_rebalance_cannot_end(
    start_server: Callable[..., ServerProcess], settings: dict[str, Any]
) -> None:
    """One member stands still, so that the others cannot have done with the join of another."""
    server = start_server(*FAST_GROUPS)
    settled = session(settings, 120)
    make_topic(server, TOPIC, PARTITIONS)
    with Stream.into(server, TOPIC, PARTITIONS, EACH_S) as stream, cast() as start:
        members = [start("confluent", server, GROUP, topics=[TOPIC], **settled) for _ in range(3)]
        share_out(members, TOPIC, PARTITIONS)
        eventually(lambda: is_stable(server, settings), "nothing is under way")
        before = {member: set(member.partitions) for member in members}

        join_s = time.monotonic()
        still, *others = members
        still.freeze()
        members.append(start("confluent", server, GROUP, topics=[TOPIC], **settled))
        eventually(lambda: not is_stable(server, settings), "a rebalance")
        for _ in range(3):
            all_read_on(others)
            assert all(each.partitions & before[each] for each in others)
        assert not is_stable(server, settings)

        still.thaw()
        share_out(members, TOPIC, PARTITIONS)
        check_kept_partitions_stayed(before, join_s, all_read_on(members))
        check_all_delivered(members, stream.stop())
        check_one_owner(members)


@both_protocols
def test_a_death_under_load_loses_nothing_and_takes_nothing_from_those_who_live(
    start_server: Callable[..., ServerProcess], settings: dict[str, Any]
) -> None:
    server = start_server(*MORTAL_GROUPS)
    mortal = session(settings, 6)
    make_topic(server, TOPIC, PARTITIONS)
    with Stream.into(server, TOPIC, PARTITIONS, EACH_S) as stream, cast() as start:
        members = [start("confluent", server, GROUP, topics=[TOPIC], **mortal) for _ in range(4)]
        share_out(members, TOPIC, PARTITIONS)
        dead, *living = members
        before = {member: set(member.partitions) for member in living}
        death_s = time.monotonic()
        dead.kill()
        all_read_on(living)
        share_out(living, TOPIC, PARTITIONS)
        check_kept_partitions_stayed(before, death_s, all_read_on(living))
        check_all_delivered(members, stream.stop())
        check_one_owner(members)
