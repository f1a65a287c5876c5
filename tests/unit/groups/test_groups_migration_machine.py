"""Random clients of both protocols in one group, judged by what they consume."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.groups.settings import GroupSettings
from goqueue.groups.topics import TopicCatalogue, TopicInfo
from goqueue.model.errors import (
    FencedMemberEpochError,
    GroupError,
    GroupNotFoundError,
    UnknownMemberError,
)
from goqueue.model.topic_partition import TopicPartition
from support.effort import examples
from unit.groups.group_driver import REBALANCE_MS, Driver
from unit.groups.migration_clients import ClassicClient, Partitions

COUNT = 6
TOPIC_ID = UUID(int=1)
SETTINGS = GroupSettings(initial_rebalance_delay_ms=0, offsets_check_interval_ms=10**15)
SESSION_MS = SETTINGS.consumer_session_timeout_ms


@dataclass
class ConsumerClient:
    """A client of the KIP-848 protocol."""

    driver: Driver
    member_id: str
    epoch: int = 0
    consumes: Partitions = frozenset()
    assignment: Partitions = field(default_factory=frozenset)

    def step(self) -> None:
        """Stop reading what was revoked, and send one heartbeat."""
        self.consumes &= self.assignment
        owned = frozenset((TOPIC_ID, number) for _, number in self.consumes)
        try:
            if self.epoch == 0:
                result = self.driver.consume_first(self.member_id)
            else:
                result = self.driver.consume(self.member_id, self.epoch, owned=owned)
        except (FencedMemberEpochError, UnknownMemberError, GroupNotFoundError):
            self.epoch, self.consumes, self.assignment = 0, frozenset(), frozenset()
            return
        self.epoch = result.epoch
        if result.assignment is not None:
            self.assignment = frozenset(
                TopicPartition("t", number) for _, number in result.assignment
            )
            self.consumes |= self.assignment

    def leave(self) -> None:
        self.consumes = frozenset()
        if self.epoch > 0:
            with contextlib.suppress(UnknownMemberError, GroupNotFoundError):
                self.driver.consume(self.member_id, -1)


class MigrationMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(SETTINGS)
        self.driver.catalogue = TopicCatalogue(1, {"t": TopicInfo(TOPIC_ID, COUNT)})
        self.clients: list[ClassicClient | ConsumerClient] = []
        self.newest_epoch = 0
        self.made = 0
        self.cooperative = False

    @initialize(cooperative=st.booleans())
    def choose_protocol(self, cooperative: bool) -> None:
        self.cooperative = cooperative

    # --- Clients -------------------------------------------------------------------------------

    @rule(is_classic=st.booleans())
    def start_client(self, is_classic: bool) -> None:
        if len(self.clients) >= 5:
            return
        self.made += 1
        if is_classic:
            client: ClassicClient | ConsumerClient = ClassicClient(self.driver, self.cooperative)
        else:
            client = ConsumerClient(self.driver, f"new{self.made}")
        self.clients.append(client)
        client.step()

    @rule(place=st.integers(0, 4), steps=st.integers(1, 3))
    def step(self, place: int, steps: int) -> None:
        for _ in range(steps if place < len(self.clients) else 0):
            self.clients[place].step()

    @rule()
    def everyone_steps(self) -> None:
        for client in self.clients:
            client.step()

    @rule(place=st.integers(0, 4))
    def leave(self, place: int) -> None:
        if place < len(self.clients):
            self.clients.pop(place).leave()

    @rule(place=st.integers(0, 4))
    def die(self, place: int) -> None:
        if place < len(self.clients):
            self.clients.pop(place)

    # --- The world -----------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 1_000, 5_000, REBALANCE_MS, SESSION_MS]))
    def pass_time(self, ms: int) -> None:
        self.driver.advance(ms)

    @rule()
    def crash_and_restart_the_broker(self) -> None:
        self.driver.restart()
        self.newest_epoch = 0  # a generation whose assignment was never stored is forgotten

    @rule(place=st.integers(0, 4))
    def a_member_of_either_kind_commits(self, place: int) -> None:
        """A client that the group knows and that is not between two generations may commit."""
        if place >= len(self.clients) or not self.clients[place].consumes:
            return
        client = self.clients[place]
        if client.member_id not in self.members():
            return
        epoch = client.epoch if isinstance(client, ConsumerClient) else client.generation
        token = self.driver.commit(
            ("t", 0, 7), member_id=client.member_id, generation_or_epoch=epoch
        )
        answer = self.driver.answers[token]
        if isinstance(answer, GroupError):
            # Its epoch moved on in a heartbeat whose answer was lost, or it must sync first.
            assert type(answer).__name__ in {
                "StaleMemberEpochError",
                "IllegalGenerationError",
                "RebalanceInProgressError",
            }

    # --- What must hold ------------------------------------------------------------------------

    def members(self) -> set[str]:
        for describe in (
            self.driver.coordinator.describe_consumer,
            self.driver.coordinator.describe_classic,
        ):
            with contextlib.suppress(GroupError):
                return {each.member_id for each in describe("g").members}
        return set()

    @invariant()
    def no_partition_is_consumed_by_two_members(self) -> None:
        members = self.members()
        consumed: dict[tuple[str, int], str] = {}
        for client in self.clients:
            if client.member_id not in members:
                continue  # the group has removed it; its commits are refused
            for part in client.consumes:
                other = consumed.setdefault(part, client.member_id)
                assert other == client.member_id, f"{part} is read by {other} and {client}"

    @invariant()
    def the_epoch_of_the_group_only_grows(self) -> None:
        if self.driver.state() == "missing":
            self.newest_epoch = 0
        epoch = self.driver.generation()
        assert epoch >= self.newest_epoch
        self.newest_epoch = epoch

    def teardown(self) -> None:
        """Everyone behaves from now on; the group settles in bounded time."""
        for _ in range((SESSION_MS + REBALANCE_MS) // 2_000 + 5):
            for client in self.clients:
                client.step()
                client.step()
            self.driver.advance(2_000)
        if not self.clients:
            assert self.driver.state() in ("Empty", "missing")
            return
        assert self.driver.state() == "Stable"
        is_consumer = any(isinstance(each, ConsumerClient) for each in self.clients)
        lines = self.driver.coordinator.list_groups()
        assert lines[0].group_type == ("consumer" if is_consumer else "classic")
        assert self.members() == {each.member_id for each in self.clients}
        consumed = sorted(part for client in self.clients for part in client.consumes)
        assert consumed == [("t", number) for number in range(COUNT)]


TestMigration = pytest.mark.timeout(300)(MigrationMachine.TestCase)
TestMigration.settings = settings(
    max_examples=examples(100),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
