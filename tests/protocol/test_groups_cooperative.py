"""Twelve partitions under load: what a member keeps through a rebalance, it never stops reading."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from support.groups import (
    FAST_GROUPS,
    Stream,
    cast,
    check_all_delivered,
    check_one_owner,
    eventually,
    longest_pause_s,
    make_topic,
    share_out,
)
from support.server import start_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.groups import Member, TopicPartition
    from support.server import ServerProcess

__all__ = ["start_server"]

TOPIC = "busy"
PARTITIONS = 12
EACH_S = 0.02
ALLOWED_PAUSE_S = 1.0

COOPERATIVE: dict[str, Any] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 2000,
    "heartbeat.interval.ms": 300,
}
CONSUMER_PROTOCOL: dict[str, Any] = {"group.protocol": "consumer"}


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


def check_kept_partitions_flowed(
    before: dict[Member, set[TopicPartition]], from_s: float, to_s: float
) -> None:
    pauses: dict[TopicPartition, float] = {}
    for member, parts in before.items():
        kept = parts & member.partitions
        revoked = {held.partition for held in member.held() if from_s <= held.to_s <= to_s}
        assert not kept & revoked, "taken away only to be given back"
        pauses |= {part: longest_pause_s(member, part, from_s, to_s) for part in kept}
    assert len(pauses) >= PARTITIONS // 2, "most partitions stay where they are"
    assert max(pauses.values()) < ALLOWED_PAUSE_S, pauses


@pytest.mark.parametrize(
    "settings", [COOPERATIVE, CONSUMER_PROTOCOL], ids=["cooperative-sticky", "kip-848"]
)
def test_a_join_and_a_death_under_load_lose_nothing_and_pause_no_partition_that_stays(
    start_server: Callable[..., ServerProcess], settings: dict[str, Any]
) -> None:
    server = start_server(*FAST_GROUPS)
    make_topic(server, TOPIC, PARTITIONS)
    with Stream.into(server, TOPIC, PARTITIONS, EACH_S) as stream, cast() as start:
        members = [start("confluent", server, "g", topics=[TOPIC], **settings) for _ in range(3)]
        share_out(members, TOPIC, PARTITIONS)
        all_read_on(members)

        before = {member: set(member.partitions) for member in members}
        join_s = time.monotonic()
        members.append(start("confluent", server, "g", topics=[TOPIC], **settings))
        share_out(members, TOPIC, PARTITIONS)
        check_kept_partitions_flowed(before, join_s, all_read_on(members))

        before = {member: set(member.partitions) for member in members[1:]}
        death_s = time.monotonic()
        members[0].kill()
        share_out(members[1:], TOPIC, PARTITIONS)
        check_kept_partitions_flowed(before, death_s, all_read_on(members[1:]))

        check_all_delivered(members, stream.stop())
        check_one_owner(members)
