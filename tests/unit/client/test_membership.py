"""A member's side of KIP-848 against a coordinator that knows what it was told, and no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.client.consuming.membership import Membership
from support.effort import examples

T, U = UUID(int=1), UUID(int=2)
EVERYTHING = frozenset((topic, number) for topic in (T, U) for number in range(3))


def answer(epoch: int, assignment: Any = None) -> Any:
    """A heartbeat's answer."""
    parts = None
    if assignment is not None:
        parts = SimpleNamespace(
            topic_partitions=[
                SimpleNamespace(topic_id=topic, partitions=[n for t, n in assignment if t == topic])
                for topic in (T, U)
            ]
        )
    return SimpleNamespace(member_epoch=epoch, heartbeat_interval_ms=5000, assignment=parts)


class Coordinator:
    """Knows of a member what it has said, and nothing else."""

    def __init__(self) -> None:
        self.epoch = 0
        self.assigned: frozenset[Any] = frozenset()
        self.is_news = False
        """Whether the member has not been told what is assigned to it."""
        self.owned: frozenset[Any] = frozenset()
        self.names: list[str] | None = None

    def hear(self, said: dict[str, Any]) -> Any:
        is_full = said["subscribed_topic_names"] is not None
        if said["member_epoch"] == 0:
            assert is_full
            assert said["topic_partitions"] == []
        if is_full:
            assert said["rebalance_timeout_ms"] > 0
            self.names = said["subscribed_topic_names"]
        owned = said["topic_partitions"]
        if owned is not None:
            self.owned = frozenset((e["topic_id"], n) for e in owned for n in e["partitions"])
        self.epoch += 1
        is_behind = owned is not None and self.owned != self.assigned
        tells = is_full or is_behind or self.is_news
        self.is_news = False
        return answer(self.epoch, self.assigned if tells else None)


class MembershipMachine(RuleBasedStateMachine):
    """Whatever is lost, both end up with the same view."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator()
        self.member = Membership("g", ["t", "u"], "m")

    @rule(partitions=st.sets(st.sampled_from(sorted(EVERYTHING))))
    def assign(self, partitions):
        self.coordinator.assigned = frozenset(partitions)
        self.coordinator.is_news = True

    @rule(is_lost=st.booleans())
    def heartbeat(self, is_lost):
        told = self.coordinator.hear(self.member.heartbeat())
        if not is_lost:
            self.member.answered(told)
            if told.assignment is not None:
                assert self.member.target == self.coordinator.assigned

    @rule()
    def the_group_removes_the_member(self):
        self.coordinator = Coordinator()
        self.member.rejoin()
        assert not self.member.is_settled

    @rule()
    def reconcile(self):
        """As a consumer does it: give up first, take over then."""
        target = self.member.target
        if target is None:
            return
        gone = self.member.owned - target
        self.member.own(self.member.owned - gone if gone else target)

    @rule()
    def all_settles(self):
        for _ in range(4):
            self.heartbeat(is_lost=False)
            self.reconcile()
        self.heartbeat(is_lost=False)
        assert self.member.is_settled
        assert self.coordinator.owned == self.member.owned
        assert self.coordinator.names == ["t", "u"]

    @invariant()
    def a_member_that_has_not_joined_owns_nothing(self):
        if self.member.epoch == 0:
            assert not self.member.owned


TestMembership = MembershipMachine.TestCase
TestMembership.settings = settings(max_examples=examples(200), stateful_step_count=30)


def test_a_heartbeat_without_news_says_only_that_the_member_is_there():
    member = Membership("g", ["t"], "m")
    assert not member.has_spoken
    member.heartbeat()
    assert member.has_spoken
    member.answered(answer(1, {(T, 0)}))
    member.own(frozenset({(T, 0)}))
    assert member.heartbeat()["topic_partitions"] == [{"topic_id": T, "partitions": [0]}]
    member.answered(answer(1))
    said = member.heartbeat()
    assert (said["topic_partitions"], said["subscribed_topic_names"]) == (None, None)
    assert member.leaving()["member_epoch"] == -1
