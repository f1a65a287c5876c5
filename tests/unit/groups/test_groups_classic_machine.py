"""Random clients against a classic group, judged by what the clients see and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from goqueue.groups.consumer.protocol import assigned_partitions, encode_assignment
from goqueue.groups.messages import JoinResult, SyncResult
from goqueue.groups.settings import GroupSettings
from goqueue.model.errors import (
    FencedInstanceError,
    GroupError,
    IllegalGenerationError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberError,
)
from goqueue.model.topic_partition import TopicPartition
from support.effort import examples
from unit.groups.group_driver import REBALANCE_MS, SESSION_MS, Driver, metadata

if TYPE_CHECKING:
    from goqueue.groups.effects import Token

PARTITIONS = [TopicPartition("t", number) for number in range(5)]


@dataclass
class Client:
    """A consumer that follows the protocol, when it is allowed to act."""

    number: int
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    must_join: bool = True
    joining: Token | None = None
    syncing: Token | None = None
    joined: JoinResult | None = None
    is_fenced: bool = False

    def handle(self, answer: object) -> None:
        if isinstance(answer, MemberIdRequiredError):
            self.member_id = answer.member_id
        elif isinstance(answer, UnknownMemberError | IllegalGenerationError):
            self.member_id, self.generation, self.must_join = "", -1, True
        elif isinstance(answer, RebalanceInProgressError):
            self.must_join = True
        elif isinstance(answer, FencedInstanceError):
            self.is_fenced = True
        elif isinstance(answer, GroupError):
            raise answer


class ClassicGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clients: list[Client] = []
        self.owners: dict[tuple[int, tuple[str, int]], str] = {}
        self.newest_generation = 0
        self.newest_stored = 0

    @initialize(delay_ms=st.sampled_from([0, 3_000]))
    def start(self, delay_ms: int) -> None:
        self.driver = Driver(
            GroupSettings(
                initial_rebalance_delay_ms=delay_ms,
                offsets_check_interval_ms=10**15,
                new_member_join_timeout_ms=60_000,
            )
        )

    # --- What clients do -----------------------------------------------------------------------

    def live(self) -> list[Client]:
        return [each for each in self.clients if not each.is_fenced]

    @precondition(lambda self: len(self.live()) < 5)
    @rule(instance=st.sampled_from([None, None, "i1", "i2"]))
    def add_client(self, instance: str | None) -> None:
        self.clients.append(Client(len(self.clients), instance))

    @precondition(lambda self: self.live())
    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        self.do_join(data.draw(st.sampled_from(self.live())))

    def do_join(self, client: Client, topics: tuple[str, ...] = ("t",)) -> None:
        token = self.driver.join(
            client_id=f"c{client.number}",
            member_id=client.member_id,
            instance_id=client.instance_id,
            require_known_member_id=True,
            protocols=(("range", metadata(*topics)),),
        )
        client.joining, client.syncing, client.must_join = token, None, False
        self.collect()

    @precondition(lambda self: self.live())
    @rule(data=st.data())
    def join_with_another_subscription(self, data: st.DataObject) -> None:
        self.do_join(data.draw(st.sampled_from(self.live())), ("t", "u"))

    @precondition(lambda self: self.live())
    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.live()))
        if client.joined is not None and client.joining is None:
            self.do_sync(client)

    def do_sync(self, client: Client) -> None:
        assert client.joined is not None
        members = [each.member_id for each in client.joined.members]
        shares = {
            member: encode_assignment(frozenset(PARTITIONS[place :: len(members)]))
            for place, member in enumerate(members)
        }
        if client.joined.skip_assignment:
            shares = {}
        client.syncing = self.driver.sync(client.member_id, client.generation, shares)
        self.collect()

    @precondition(lambda self: self.live())
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.live()))
        if client.generation >= 0:
            self.do_heartbeat(client)

    def do_heartbeat(self, client: Client) -> None:
        token = self.driver.heartbeat(
            client.member_id, client.generation, instance_id=client.instance_id
        )
        client.handle(self.driver.answers[token])

    @precondition(lambda self: self.live())
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.live()))
        self.driver.leave((client.member_id, client.instance_id))
        self.collect()
        self.clients.remove(client)

    @precondition(lambda self: self.live())
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.clients.remove(data.draw(st.sampled_from(self.live())))

    @rule(ms=st.sampled_from([1, 500, 3_000, SESSION_MS, REBALANCE_MS, 70_000]))
    def pass_time(self, ms: int) -> None:
        self.driver.advance(ms)
        self.collect()

    @rule()
    def crash_and_restart_the_broker(self) -> None:
        self.driver.restart()
        self.newest_generation = self.newest_stored
        # A take-over that no rebalance had confirmed yet is forgotten with the crash.
        self.clients = self.live()
        for client in self.clients:
            if client.joining is not None or client.syncing is not None:
                client.must_join = True
            client.joining = client.syncing = None

    # --- What zombies do -----------------------------------------------------------------------

    @rule(behind=st.integers(1, 3), what=st.sampled_from(["heartbeat", "sync", "commit"]))
    def a_member_of_an_old_generation_is_refused(self, behind: int, what: str) -> None:
        for client in self.live():
            if not client.member_id or client.generation < 0:
                continue
            stale = self.driver.generation() - behind
            if what == "heartbeat":
                token = self.driver.heartbeat(client.member_id, stale)
            elif what == "sync":
                token = self.driver.sync(client.member_id, stale)
            elif stale < 0:
                continue
            else:
                token = self.driver.commit(
                    ("t", 0, 1), member_id=client.member_id, generation_or_epoch=stale
                )
            assert isinstance(
                self.driver.answers[token], IllegalGenerationError | UnknownMemberError
            )

    @rule()
    def a_fenced_process_stays_fenced(self) -> None:
        for client in self.clients:
            if client.is_fenced and client.member_id:
                token = self.driver.heartbeat(
                    client.member_id, client.generation, instance_id=client.instance_id
                )
                assert isinstance(
                    self.driver.answers[token], FencedInstanceError | UnknownMemberError
                )

    # --- What clients see ----------------------------------------------------------------------

    def collect(self) -> None:
        """Hand out the answers that have come."""
        for client in self.clients:
            if client.joining is not None and client.joining not in self.driver.waiting:
                self.see_join(client, self.driver.answers[client.joining])
            if client.syncing is not None and client.syncing not in self.driver.waiting:
                self.see_sync(client, self.driver.answers[client.syncing])

    def see_join(self, client: Client, answer: object) -> None:
        client.joining = None
        if not isinstance(answer, JoinResult):
            client.must_join = True
            client.handle(answer)
            return
        assert answer.generation >= self.newest_generation
        self.newest_generation = max(answer.generation, self.newest_generation)
        client.joined, client.member_id = answer, answer.member_id
        client.generation = answer.generation

    def see_sync(self, client: Client, answer: object) -> None:
        client.syncing = None
        if not isinstance(answer, SyncResult):
            client.handle(answer)
            return
        self.newest_stored = max(client.generation, self.newest_stored)
        parts = assigned_partitions(answer.assignment)
        assert parts is not None
        identity = client.instance_id or client.member_id
        for part in parts:
            owner = self.owners.setdefault((client.generation, part), identity)
            assert owner == identity, f"{part} has two owners in {client.generation}"

    # --- What must hold ------------------------------------------------------------------------

    @invariant()
    def clients_that_wait_are_the_only_ones_waited_for(self) -> None:
        for token in self.driver.waiting:
            assert token not in self.driver.answers

    def settle(self) -> None:
        """Every client that is left behaves; nobody comes or goes."""
        for client in self.clients:
            client.is_fenced |= any(
                other.instance_id == client.instance_id and other.number > client.number
                for other in self.clients
                if client.instance_id is not None
            )
        for _ in range(3 * (REBALANCE_MS + 60_000) // 1_000):
            for client in self.live():
                self.act(client)
            self.driver.advance(1_000)
            self.collect()

    def act(self, client: Client) -> None:
        if client.joining is not None or client.syncing is not None:
            return
        if client.must_join or client.generation < 0:
            self.do_join(client)
            if client.joining is None and not client.is_fenced and client.must_join:
                self.do_join(client)
        elif client.joined is not None:
            self.do_sync(client)
            client.joined = None
        else:
            self.do_heartbeat(client)

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        self.collect()
        self.settle()
        live = self.live()
        if live:
            assert self.driver.state() == "Stable"
            assert {each.generation for each in live} == {self.driver.generation()}
            owned = {part for gen, part in self.owners if gen == self.driver.generation()}
            assert owned == set(PARTITIONS)
        else:
            assert self.driver.state() in ("Empty", "missing")
        assert not self.driver.waiting


TestClassicGroups = pytest.mark.timeout(300)(ClassicGroupMachine.TestCase)
TestClassicGroups.settings = settings(
    max_examples=examples(100),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
