"""Random members of a Streams group, judged by what they run: never two of them the same task."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from goqueue.groups.streams.assignor import Role, Task
from goqueue.groups.streams.topology import Topology
from goqueue.groups.topics import TopicCatalogue
from goqueue.model.errors import (
    FencedMemberEpochError,
    GroupError,
    GroupNotFoundError,
    StaleMemberEpochError,
    UnknownMemberError,
)
from support.effort import examples
from unit.groups.group_driver import AT_ONCE, REBALANCE_MS, TOPOLOGY, Driver, subtopology

if TYPE_CHECKING:
    from goqueue.groups.messages import StreamsHeartbeatResult

SETTINGS = replace(
    AT_ONCE,
    offsets_check_interval_ms=10**15,
    streams_initial_rebalance_delay_ms=1_000,
    streams_standby_count=1,
)
SESSION_MS = SETTINGS.streams_session_timeout_ms
WIDER = Topology(1, (*TOPOLOGY.subtopologies, subtopology("2", "others", keeps=("kept too",))))
TOPOLOGIES = [TOPOLOGY, TOPOLOGY, TOPOLOGY, WIDER]


@dataclass
class Client:
    member_id: str
    process_id: str
    joining: dict[str, object]
    epoch: int = 0
    runs: frozenset[Task] = frozenset()
    """What the client really runs."""
    assignment: frozenset[Task] = field(default=frozenset())
    """What it was told to run; it stops the rest when it gets to it."""

    def lose_everything(self) -> None:
        self.epoch, self.runs, self.assignment = 0, frozenset(), frozenset()

    def hear(self, result: StreamsHeartbeatResult) -> None:
        self.epoch = result.epoch
        if result.assignment is not None:
            self.assignment = result.assignment
            self.runs |= result.assignment

    def stop_revoked(self) -> None:
        self.runs &= self.assignment


class StreamsGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(SETTINGS)
        self.driver.create(**{"lines": 3, "others": 2, "again": 3, "kept": 3, "kept too": 2})
        self.clients: list[Client] = []
        self.newest_epoch = 0
        self.made = 0

    # --- Clients -------------------------------------------------------------------------------

    @rule(
        process=st.sampled_from("AABBC"),
        topology=st.sampled_from(TOPOLOGIES),
        timeout_ms=st.sampled_from([5_000, REBALANCE_MS]),
    )
    def start_client(self, process: str, topology: Topology, timeout_ms: int) -> None:
        if len(self.clients) >= 6:
            return
        self.made += 1
        joining = {"topology": topology, "rebalance_timeout_ms": timeout_ms, "process_id": process}
        self.clients.append(Client(f"m{self.made}", process, joining))
        self.beat(self.clients[-1])

    @rule(
        place=st.integers(0, 4), tells=st.booleans(), is_lost=st.sampled_from([False] * 3 + [True])
    )
    def heartbeat(self, place: int, tells: bool, is_lost: bool) -> None:
        if place < len(self.clients):
            self.beat(self.clients[place], tells=tells, is_lost=is_lost)

    def beat(self, client: Client, *, tells: bool = True, is_lost: bool = False) -> None:
        if client.epoch == 0:
            client.lose_everything()
            fields: dict[str, Any] = client.joining | {"owned": frozenset()}
        else:
            fields = {"owned": client.runs} if tells else {}
        try:
            result = self.driver.stream(client.member_id, client.epoch, **fields)
        except (FencedMemberEpochError, UnknownMemberError, GroupNotFoundError):
            client.lose_everything()
        else:
            self.driver.create(
                **{each.name: each.partition_count for each in result.missing_topics}
            )
            if not is_lost:
                client.hear(result)
        self.no_task_is_active_in_two_members_or_twice_in_a_process()

    @rule(rounds=st.integers(1, 4))
    def settle(self, rounds: int) -> None:
        """Everyone behaves for a while, so that there are tasks to be moved."""
        for _ in range(rounds):
            for client in list(self.clients):
                client.stop_revoked()
                self.beat(client)
            self.driver.advance(1_000)

    @rule(place=st.integers(0, 4))
    def stop_what_was_revoked(self, place: int) -> None:
        if place < len(self.clients):
            self.clients[place].stop_revoked()

    @rule(place=st.integers(0, 4), process=st.sampled_from("AABBC"))
    def join_again_from_another_process(self, place: int, process: str) -> None:
        if place < len(self.clients):
            client = self.clients[place]
            client.lose_everything()
            client.process_id = process
            client.joining = client.joining | {"process_id": process}
            self.beat(client)

    @rule(place=st.integers(0, 9))
    def leave(self, place: int) -> None:
        if place < len(self.clients):
            client = self.clients.pop(place)
            with contextlib.suppress(UnknownMemberError, GroupNotFoundError):
                self.driver.stream(client.member_id, -1)

    @rule(place=st.integers(0, 9))
    def die(self, place: int) -> None:
        if place < len(self.clients):
            self.clients.pop(place)

    # --- The world -----------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 1_000, 1_000, 1_000, 5_000, REBALANCE_MS, SESSION_MS]))
    def pass_time(self, ms: int) -> None:
        self.driver.advance(ms)

    @rule(topic=st.sampled_from(["none", "none", "none", "lines", "others", "again"]))
    def delete_topic(self, topic: str) -> None:
        topics = {
            name: info for name, info in self.driver.catalogue.topics.items() if name != topic
        }
        self.driver.catalogue = TopicCatalogue(self.driver.catalogue.version + 1, topics)

    @rule(count=st.integers(0, 1))
    def set_standbys(self, count: int) -> None:
        with contextlib.suppress(KeyError):
            group = self.driver.coordinator.slots["g"].core
            group.settings = replace(group.settings, streams_standby_count=count)

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
            ("lines", 0, 1), member_id=self.clients[place].member_id, generation_or_epoch=epoch
        )
        assert isinstance(self.driver.answers[token], StaleMemberEpochError)

    def members(self) -> dict[str, int]:
        try:
            described = self.driver.coordinator.describe_streams("g")
        except GroupError:
            return {}
        return {each.member.member_id: each.member.epoch for each in described.members}

    # --- What must hold ------------------------------------------------------------------------

    @invariant()
    def no_task_is_active_in_two_members_or_twice_in_a_process(self) -> None:
        members = self.members()
        active: dict[tuple[str, int], str] = {}
        in_process: dict[tuple[str, str, int], str] = {}
        for client in self.clients:
            if client.member_id not in members:
                continue  # the group has removed it; its commits are refused
            for role, subtopology_id, number in client.runs:
                if role is Role.ACTIVE:
                    other = active.setdefault((subtopology_id, number), client.member_id)
                    assert other == client.member_id, "active twice"
                where = (client.process_id, subtopology_id, number)
                other = in_process.setdefault(where, client.member_id)
                assert other == client.member_id, "two members share a folder of state"

    @invariant()
    def the_epoch_of_the_group_only_grows(self) -> None:
        epoch = self.driver.generation()
        assert epoch >= self.newest_epoch
        self.newest_epoch = epoch

    def teardown(self) -> None:
        """Everyone behaves from now on; the group settles in bounded time."""
        self.driver.create(lines=3, others=2)
        for _ in range((SESSION_MS + REBALANCE_MS) // 2_000 + 8):
            for client in list(self.clients):
                client.stop_revoked()
                self.beat(client)
            self.driver.advance(2_000)
        if not self.clients:
            assert self.driver.state() in ("Empty", "missing")
            return
        assert self.driver.state() == "Stable"
        assert self.members() == {each.member_id: each.epoch for each in self.clients}
        self.check_tasks()

    def check_tasks(self) -> None:
        topology = self.driver.coordinator.describe_streams("g").topology
        assert topology is not None
        widths = {"0": 3, "1": 3, "2": 2}
        tasks = [
            (each.subtopology_id, number)
            for each in topology.subtopologies
            for number in range(widths[each.subtopology_id])
        ]
        running = Counter(task for client in self.clients for task in client.runs)
        newest = [c for c in self.clients if c.joining["topology"].epoch == topology.epoch]  # type: ignore[attr-defined]
        if not newest:
            assert not running  # who knows the topology is gone, and the others are told so
            return
        assert {task for task in running if task[0] is Role.ACTIVE} == {
            (Role.ACTIVE, *task) for task in tasks
        }
        assert max(running.values()) == 1  # there is at most one standby, too
        loads = [sum(role is Role.ACTIVE for role, _, _ in client.runs) for client in newest]
        assert max(loads) - min(loads) <= 1


TestStreamsGroups = pytest.mark.timeout(300)(StreamsGroupMachine.TestCase)
TestStreamsGroups.settings = settings(
    max_examples=examples(200),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
