"""Random KIP-848 clients, judged by what they consume: never two of them the same partition."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.groups.settings import GroupSettings
from goqueue.groups.topics import TopicCatalogue, TopicInfo
from goqueue.model.errors import (
    FencedInstanceError,
    FencedMemberEpochError,
    GroupError,
    GroupNotFoundError,
    StaleMemberEpochError,
    UnknownMemberError,
    UnreleasedInstanceError,
)
from support.effort import examples
from unit.groups.group_driver import REBALANCE_MS, Driver

if TYPE_CHECKING:
    from goqueue.groups.messages import ConsumerHeartbeatResult
    from goqueue.model.topic_partition import TopicIdPartition

SETTINGS = GroupSettings(offsets_check_interval_ms=10**15)
SESSION_MS = SETTINGS.consumer_session_timeout_ms
SUBSCRIPTIONS = [
    {"subscribed_names": frozenset({"t"})},
    {"subscribed_names": frozenset({"u"})},
    {"subscribed_names": frozenset({"t", "u"})},
    {"subscribed_names": frozenset(), "subscribed_regex": "t|u"},
]


@dataclass
class Client:
    member_id: str
    instance_id: str | None
    epoch: int = 0
    consumes: frozenset[TopicIdPartition] = frozenset()
    """What the client really reads from."""
    assignment: frozenset[TopicIdPartition] = frozenset()
    """What it was told to read from; it stops reading the rest when it gets to it."""
    subscription: dict[str, object] = field(default_factory=dict)

    def lose_everything(self) -> None:
        self.epoch, self.consumes, self.assignment = 0, frozenset(), frozenset()

    def hear(self, result: ConsumerHeartbeatResult) -> None:
        self.epoch = result.epoch
        if result.assignment is not None:
            self.assignment = result.assignment
            self.consumes |= result.assignment

    def stop_revoked(self) -> None:
        self.consumes &= self.assignment


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(SETTINGS)
        self.clients: list[Client] = []
        self.newest_epoch = 0
        self.counts = {"t": 4, "u": 2}
        self.topic_ids = {"t": UUID(int=1), "u": UUID(int=2)}
        self.publish_topics()
        self.made = 0

    def publish_topics(self) -> None:
        topics = {
            name: TopicInfo(self.topic_ids[name], count) for name, count in self.counts.items()
        }
        self.driver.catalogue = TopicCatalogue(self.driver.catalogue.version + 1, topics)

    # --- Clients -------------------------------------------------------------------------------

    @rule(
        instance=st.sampled_from([None, None, "i1", "i2"]),
        subscription=st.sampled_from(SUBSCRIPTIONS),
        timeout_ms=st.sampled_from([5_000, REBALANCE_MS]),
    )
    def start_client(
        self, instance: str | None, subscription: dict[str, object], timeout_ms: int
    ) -> None:
        if len(self.clients) >= 5:
            return
        self.made += 1
        client = Client(f"m{self.made}", instance)
        client.subscription = subscription | {"rebalance_timeout_ms": timeout_ms}
        self.clients.append(client)
        self.beat(client)

    @rule(
        place=st.integers(0, 4), tells=st.booleans(), is_lost=st.sampled_from([False] * 3 + [True])
    )
    def heartbeat(self, place: int, tells: bool, is_lost: bool) -> None:
        if place < len(self.clients):
            self.beat(self.clients[place], tells=tells, is_lost=is_lost)

    def beat(self, client: Client, *, tells: bool = True, is_lost: bool = False) -> None:
        if client.epoch == 0:
            client.lose_everything()
            fields: dict[str, Any] = client.subscription | {"owned": frozenset()}
        else:
            fields = {"owned": client.consumes} if tells else {}
        try:
            result = self.driver.consume(
                client.member_id, client.epoch, instance_id=client.instance_id, **fields
            )
        except (FencedMemberEpochError, UnknownMemberError, GroupNotFoundError):
            client.lose_everything()
        except (UnreleasedInstanceError, FencedInstanceError):
            self.clients.remove(client)
        else:
            if not is_lost:
                client.hear(result)

    @rule(place=st.integers(0, 4))
    def stop_reading_what_was_revoked(self, place: int) -> None:
        if place < len(self.clients):
            self.clients[place].stop_revoked()

    @rule(place=st.integers(0, 4), subscription=st.sampled_from(SUBSCRIPTIONS))
    def subscribe_to_something_else(self, place: int, subscription: dict[str, object]) -> None:
        if place >= len(self.clients) or self.clients[place].epoch == 0:
            return
        client = self.clients[place]
        client.subscription = client.subscription | {"subscribed_regex": ""} | subscription
        try:
            said: dict[str, Any] = {
                k: v for k, v in client.subscription.items() if k.startswith("sub")
            }
            client.hear(
                self.driver.consume(
                    client.member_id,
                    client.epoch,
                    instance_id=client.instance_id,
                    owned=client.consumes,
                    **said,
                )
            )
        except (FencedMemberEpochError, UnknownMemberError, GroupNotFoundError):
            client.lose_everything()
        except FencedInstanceError:
            self.clients.remove(client)

    @rule(place=st.integers(0, 4), for_good=st.booleans())
    def leave(self, place: int, for_good: bool) -> None:
        if place >= len(self.clients):
            return
        client = self.clients.pop(place)
        epoch = -1 if for_good or client.instance_id is None else -2
        with contextlib.suppress(UnknownMemberError, GroupNotFoundError, FencedInstanceError):
            self.driver.consume(client.member_id, epoch, instance_id=client.instance_id)

    @rule(place=st.integers(0, 4))
    def die(self, place: int) -> None:
        if place < len(self.clients):
            self.clients.pop(place)

    # --- The world -----------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 1_000, 5_000, REBALANCE_MS, SESSION_MS]))
    def pass_time(self, ms: int) -> None:
        self.driver.advance(ms)

    @rule(topic=st.sampled_from("tu"))
    def grow_topic(self, topic: str) -> None:
        if self.counts.get(topic, 9) < 6:
            self.counts[topic] += 1
            self.publish_topics()

    @rule(topic=st.sampled_from("tu"))
    def remake_topic(self, topic: str) -> None:
        self.topic_ids[topic] = UUID(int=self.topic_ids[topic].int + 10)
        self.counts[topic] = 2
        self.publish_topics()

    @rule()
    def crash_and_restart_the_broker(self) -> None:
        self.driver.restart()

    @rule(place=st.integers(0, 4), wrong_by=st.sampled_from([-1, 1, 5]))
    def a_commit_with_another_epoch_is_refused(self, place: int, wrong_by: int) -> None:
        members = self.members()
        if place >= len(self.clients) or self.clients[place].member_id not in members:
            return
        epoch = members[self.clients[place].member_id] + wrong_by
        token = self.driver.commit(
            ("t", 0, 1), member_id=self.clients[place].member_id, generation_or_epoch=epoch
        )
        assert isinstance(self.driver.answers[token], StaleMemberEpochError)

    def members(self) -> dict[str, int]:
        try:
            described = self.driver.coordinator.describe_consumer("g")
        except GroupError:
            return {}
        return {each.member_id: each.epoch for each in described.members}

    # --- What must hold ------------------------------------------------------------------------

    @invariant()
    def no_partition_is_consumed_by_two_members(self) -> None:
        members = self.members()
        consumed: dict[TopicIdPartition, str] = {}
        for client in self.clients:
            if client.member_id not in members:
                continue  # the group has removed it; its commits are refused
            for part in client.consumes:
                other = consumed.setdefault(part, client.member_id)
                assert other == client.member_id, f"{part} is read twice"

    @invariant()
    def the_epoch_of_the_group_only_grows(self) -> None:
        epoch = self.driver.generation()
        assert epoch >= self.newest_epoch
        self.newest_epoch = epoch

    def teardown(self) -> None:
        """Everyone behaves from now on; the group settles in bounded time."""
        for _ in range((SESSION_MS + REBALANCE_MS) // 2_000 + 5):
            for client in list(self.clients):
                client.stop_revoked()
                self.beat(client)
            self.driver.advance(2_000)
        if not self.clients:
            assert self.driver.state() in ("Empty", "missing")
            return
        assert self.driver.state() == "Stable"
        assert self.members() == {each.member_id: each.epoch for each in self.clients}
        wanted = set()
        for client in self.clients:
            names = set(client.subscription["subscribed_names"])  # type: ignore[call-overload]
            names |= {"t", "u"} if client.subscription.get("subscribed_regex") else set()
            wanted |= {
                (self.topic_ids[name], number)
                for name in names
                for number in range(self.counts[name])
            }
            assert client.consumes == client.assignment
        consumed = [part for client in self.clients for part in client.consumes]
        assert sorted(consumed) == sorted(wanted)


TestConsumerGroups = pytest.mark.timeout(300)(ConsumerGroupMachine.TestCase)
TestConsumerGroups.settings = settings(
    max_examples=examples(100),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
