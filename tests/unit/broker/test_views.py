"""What people see of groups and topics from outside."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from goqueue.groups.rebalances import rebalance_stats, total
from goqueue.groups.stats import GroupStats, RebalanceReason
from goqueue.model.errors import GroupNotFoundError
from goqueue.model.topic_partition import TopicPartition
from support.brokers import publish, running_broker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from goqueue.broker.broker import Broker


def with_topic(tmp_path: Path, scenario: Callable[[Broker], Awaitable[None]]) -> None:
    """Run a scenario over a topic `t` of two partitions, with five messages in partition 0."""

    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 2)
            for number in range(5):
                publish(broker, "t", b"x", timestamp_ms=1000 * number)
            await scenario(broker)

    asyncio.run(run())


def test_a_view_of_a_group_names_its_members_and_their_partitions(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        member = await broker.memberships.join("g", ["t"], client_id="me", client_host="here")
        assert [listing.group_id for listing in broker.group_views.all()] == ["g"]
        view = broker.group_views.view("g")
        (seen,) = view.members
        assert (seen.member_id, seen.client_id, seen.client_host) == (
            member.member_id,
            "me",
            "here",
        )
        assert seen.partitions == (TopicPartition("t", 0), TopicPartition("t", 1))
        with pytest.raises(GroupNotFoundError, match="'nobody'"):
            broker.group_views.view("nobody")

    with_topic(tmp_path, scenario)


def test_rebalances_of_all_groups_add_up() -> None:
    parts = [GroupStats(), GroupStats(), GroupStats()]
    for number, stats in enumerate(parts[:2]):
        stats.started(RebalanceReason.MEMBER_JOINED, 0)
        stats.completed(100 * (number + 1), assigned=3)
    whole = total(parts)
    assert (whole.total, whole.successful, whole.partitions_assigned) == (2, 2, 6)
    assert whole.reasons == {RebalanceReason.MEMBER_JOINED: 2}
    assert (whole.last_at_ms, whole.last_duration_ms, whole.average_duration_ms) == (200, 200, 150)


def test_the_rebalances_of_one_group_are_its_own(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        await broker.memberships.join("g", ["t"])
        assert rebalance_stats(broker.groups, "g").joins == 1
        assert rebalance_stats(broker.groups).joins == 1
        with pytest.raises(GroupNotFoundError):
            rebalance_stats(broker.groups, "nobody")

    with_topic(tmp_path, scenario)
