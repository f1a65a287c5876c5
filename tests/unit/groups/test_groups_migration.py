"""A group with members changes its protocol: who is told what, and what stays."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from goqueue.groups.consumer.protocol import assigned_partitions, encode_assignment
from goqueue.groups.settings import GroupSettings, MigrationPolicy
from goqueue.groups.topics import TopicCatalogue, TopicInfo
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    FencedInstanceError,
    GroupNotFoundError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidRegularExpressionError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberError,
)
from goqueue.model.topic_partition import TopicPartition
from unit.groups.group_driver import REBALANCE_MS, SESSION_MS, Driver
from unit.groups.migration_clients import subscription

ID = UUID(int=1)
EAGER = (("range", subscription()),)


def driver_with(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> Driver:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=0, migration_policy=policy))
    driver.catalogue = TopicCatalogue(1, {"t": TopicInfo(ID, 4)})
    return driver


@pytest.fixture
def driver() -> Driver:
    return driver_with()


def parts(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("t", number) for number in numbers)


def ids(*numbers: int) -> frozenset[tuple[UUID, int]]:
    return frozenset((ID, number) for number in numbers)


def classic_member(driver: Driver, **fields: Any) -> str:
    """The only member of a stable classic group, which has all four partitions."""
    joined = driver.result(driver.join(**{"protocols": EAGER, **fields}))
    assignments = {joined.member_id: encode_assignment(parts(0, 1, 2, 3))}
    driver.result(driver.sync(joined.member_id, joined.generation, assignments))
    return str(joined.member_id)


def group_type(driver: Driver) -> str:
    return driver.coordinator.list_groups()[0].group_type


def assigned(driver: Driver, member_id: str, generation: int) -> frozenset[TopicPartition]:
    found = driver.result(driver.sync(member_id, generation)).assignment
    return assigned_partitions(found) or frozenset()


class TestUpgrade:
    def test_a_classic_member_keeps_its_partitions_until_it_gives_them_up(
        self, driver: Driver
    ) -> None:
        old = classic_member(driver, protocols=(("cooperative-sticky", subscription()),))
        assert driver.consume_first("new").assignment == frozenset()
        assert (group_type(driver), driver.generation()) == ("consumer", 2)
        with pytest.raises(RebalanceInProgressError):
            driver.result(driver.heartbeat(old, 1))
        has = (("cooperative-sticky", subscription(parts(0, 1, 2, 3))),)
        joined = driver.result(driver.join(member_id=old, protocols=has))
        assert (joined.generation, joined.leader_id, joined.members) == (1, "", ())
        kept = assigned(driver, old, 1)
        assert len(kept) == 2
        assert driver.consume("new", 2, owned=frozenset()).assignment is None
        has = (("cooperative-sticky", subscription(kept)),)
        assert driver.result(driver.join(member_id=old, protocols=has)).generation == 2
        assert assigned(driver, old, 2) == kept
        driver.result(driver.heartbeat(old, 2))
        assert driver.consume("new", 2, owned=frozenset()).assignment == ids(
            *({0, 1, 2, 3} - {number for _, number in kept})
        )

    def test_an_eager_member_takes_one_join(self, driver: Driver) -> None:
        old = classic_member(driver)
        driver.consume_first("new")
        joined = driver.result(driver.join(member_id=old, protocols=EAGER))
        assert (joined.generation, joined.protocol_name) == (2, "range")
        assert len(assigned(driver, old, 2)) == 2
        assert len(driver.consume("new", 2, owned=frozenset()).assignment) == 2

    def test_whoever_waits_is_told_to_join_again(self, driver: Driver) -> None:
        old = classic_member(driver)
        waiting = driver.join(protocols=EAGER)
        driver.consume_first("new")
        with pytest.raises(CoordinatorUnavailableError):
            driver.result(waiting)
        members = driver.coordinator.describe_consumer("g").members
        assert {each.member_id: each.classic is not None for each in members} == {
            old: True,
            "new": False,
        }

    def test_an_id_that_the_classic_group_gave_out_is_good_for_the_new_one(
        self, driver: Driver
    ) -> None:
        with pytest.raises(MemberIdRequiredError) as required:
            driver.result(driver.join(protocols=EAGER, require_known_member_id=True))
        driver.consume_first("new")
        member_id = required.value.member_id
        joined = driver.result(driver.join(member_id=member_id, protocols=EAGER))
        assert joined.member_id == member_id

    def test_a_join_that_is_refused_leaves_the_classic_group_as_it_was(
        self, driver: Driver
    ) -> None:
        old = classic_member(driver)
        waiting = driver.join(protocols=EAGER)
        with pytest.raises(InvalidRegularExpressionError):
            driver.consume_first("new", subscribed_regex="(")
        assert group_type(driver) == "classic"
        driver.join(member_id=old, protocols=EAGER)
        assert driver.result(waiting).generation == 2

    @pytest.mark.parametrize("policy", ["disabled", "downgrade"])
    def test_the_policy_forbids_it(self, policy: str) -> None:
        driver = driver_with(MigrationPolicy(policy))
        classic_member(driver)
        with pytest.raises(GroupNotFoundError):
            driver.consume_first("new")

    def test_members_that_are_no_consumers_stay_what_they_are(self, driver: Driver) -> None:
        driver.stable(protocol_type="connect", protocols=(("default", b""),))
        with pytest.raises(GroupNotFoundError):
            driver.consume_first("new")

    def test_assignments_that_do_not_parse_stay_what_they_are(self, driver: Driver) -> None:
        driver.stable()
        with pytest.raises(GroupNotFoundError):
            driver.consume_first("new")

    @pytest.mark.parametrize(("name", "may"), [("own", False), ("cooperative-sticky", True)])
    def test_data_of_a_custom_assignor_is_not_thrown_away(
        self, driver: Driver, name: str, may: bool
    ) -> None:
        joined = driver.result(driver.join(protocols=((name, subscription()),)))
        data = encode_assignment(parts(0))[:-4] + b"\0\0\0\1x"
        driver.result(driver.sync(joined.member_id, 1, {joined.member_id: data}))
        if may:
            driver.consume_first("new")
        else:
            with pytest.raises(GroupNotFoundError):
                driver.consume_first("new")

    def test_it_outlives_a_crash(self, driver: Driver) -> None:
        old = classic_member(driver)
        driver.consume_first("new")
        driver.restart()
        with pytest.raises(RebalanceInProgressError):
            driver.result(driver.heartbeat(old, 1))
        driver.result(driver.join(member_id=old, protocols=EAGER))
        driver.restart()
        assert len(assigned(driver, old, 2)) == 2


class TestClassicMembers:
    @pytest.fixture
    def old(self, driver: Driver) -> str:
        """A classic member of generation 2, beside `new` at epoch 2."""
        member_id = classic_member(driver)
        driver.consume_first("new")
        driver.result(driver.join(member_id=member_id, protocols=EAGER))
        driver.result(driver.sync(member_id, 2))
        driver.consume("new", 2, owned=frozenset())
        return member_id

    def keep_alive(self, driver: Driver, ms: int) -> None:
        for _ in range(ms // 2_000):
            driver.advance(2_000)
            members = driver.coordinator.describe_consumer("g").members
            driver.consume("new", next(m.epoch for m in members if m.member_id == "new"))

    def test_each_kind_commits_with_its_own_number(self, driver: Driver, old: str) -> None:
        for member_id in (old, "new"):
            driver.result(driver.commit(("t", 0, 5), member_id=member_id, generation_or_epoch=2))
        with pytest.raises(IllegalGenerationError):
            driver.result(driver.commit(("t", 0, 5), member_id=old, generation_or_epoch=1))
        with pytest.raises(StaleMemberEpochError):
            driver.result(driver.commit(("t", 0, 5), member_id="new", generation_or_epoch=1))
        with pytest.raises(IllegalGenerationError):
            driver.coordinator.fetch_offsets("g", [TopicPartition("t", 0)], member_id=old, epoch=1)
        assert driver.offset("t", 0) == 5

    def test_another_generation_is_refused(self, driver: Driver, old: str) -> None:
        with pytest.raises(IllegalGenerationError):
            driver.result(driver.heartbeat(old, 1))
        with pytest.raises(IllegalGenerationError):
            driver.result(driver.sync(old, 3))

    def test_other_protocols_are_refused(self, driver: Driver, old: str) -> None:
        with pytest.raises(InconsistentGroupProtocolError):
            driver.result(driver.join(protocols=(("roundrobin", subscription()),)))
        with pytest.raises(InconsistentGroupProtocolError):
            driver.result(driver.join(protocol_type="connect", protocols=EAGER))
        with pytest.raises(InconsistentGroupProtocolError):
            driver.result(driver.join(protocols=(("range", b"garbage"),)))
        with pytest.raises(InconsistentGroupProtocolError):
            driver.result(driver.sync(old, 2, protocol_name="sticky"))

    def test_its_own_session_timeout_counts(self, driver: Driver, old: str) -> None:
        self.keep_alive(driver, SESSION_MS)
        with pytest.raises(UnknownMemberError):
            driver.result(driver.heartbeat(old, 2))

    def test_one_that_does_not_join_again_in_time_is_removed(
        self, driver: Driver, old: str
    ) -> None:
        driver.consume_first("third")
        for _ in range(REBALANCE_MS // 2_000):
            with pytest.raises(RebalanceInProgressError):
                driver.result(driver.heartbeat(old, 2))
            self.keep_alive(driver, 2_000)
        with pytest.raises(UnknownMemberError):
            driver.result(driver.heartbeat(old, 2))

    def test_one_that_never_syncs_is_removed(self, driver: Driver, old: str) -> None:
        joined = driver.result(driver.join(protocols=EAGER))
        for _ in range(REBALANCE_MS // 2_000):
            self.keep_alive(driver, 2_000)
            driver.answers[driver.heartbeat(joined.member_id, joined.generation)]
        with pytest.raises(UnknownMemberError):
            driver.result(driver.heartbeat(joined.member_id, joined.generation))

    def test_the_place_of_a_static_member_goes_from_one_protocol_to_the_other(
        self, driver: Driver, old: str
    ) -> None:
        static = driver.result(driver.join(protocols=EAGER, instance_id="i")).member_id
        moved = driver.consume_first("static-new", instance_id="i")
        assert moved.epoch == driver.generation()
        with pytest.raises(FencedInstanceError):
            driver.result(driver.heartbeat(static, 3, instance_id="i"))
        back = driver.result(driver.join(protocols=EAGER, instance_id="i"))
        assert back.member_id.startswith("i-")
        with pytest.raises(FencedInstanceError):
            driver.consume("static-new", moved.epoch, instance_id="i")


class TestDowngrade:
    @pytest.fixture
    def old(self, driver: Driver) -> str:
        member_id = classic_member(driver)
        driver.consume_first("new")
        driver.result(driver.join(member_id=member_id, protocols=EAGER))
        driver.result(driver.sync(member_id, 2))
        return member_id

    @pytest.mark.parametrize("way", ["leave", "expire", "restart"])
    def test_the_last_new_member_goes(self, driver: Driver, old: str, way: str) -> None:
        driver.result(driver.commit(("t", 0, 5), member_id=old, generation_or_epoch=2))
        if way == "expire":
            while group_type(driver) == "consumer":
                driver.advance(2_000)
                driver.heartbeat(old, 2)
        else:
            driver.consume("new", -1)
        if way == "restart":
            driver.restart()
        assert (group_type(driver), driver.state()) == ("classic", "PreparingRebalance")
        with pytest.raises(RebalanceInProgressError):
            driver.result(driver.heartbeat(old, 2))
        driver.result(driver.commit(("t", 0, 6), member_id=old, generation_or_epoch=2))
        joined = driver.result(driver.join(member_id=old, protocols=EAGER))
        assert (joined.generation, joined.leader_id) == (4, old)
        with pytest.raises(IllegalGenerationError):
            driver.result(driver.heartbeat(old, 2))
        assert driver.offset("t", 0) == 6

    def test_it_is_converted_again_while_it_rebalances(self, driver: Driver, old: str) -> None:
        driver.consume("new", -1)
        driver.consume_first("newer")
        assert (group_type(driver), driver.generation()) == ("consumer", 4)
        with pytest.raises(RebalanceInProgressError):
            driver.result(driver.heartbeat(old, 2))

    @pytest.mark.parametrize("policy", ["disabled", "upgrade"])
    def test_the_policy_forbids_it(self, policy: str) -> None:
        driver = driver_with(MigrationPolicy(policy))
        driver.consume_first("new")
        joined = driver.result(driver.join(protocols=EAGER))
        driver.consume("new", -1)
        assert group_type(driver) == "consumer"
        with pytest.raises(RebalanceInProgressError):
            driver.result(driver.heartbeat(joined.member_id, joined.generation))
        joined = driver.result(driver.join(member_id=joined.member_id, protocols=EAGER))
        assert assigned(driver, joined.member_id, joined.generation) == parts(0, 1, 2, 3)

    def test_an_administrator_removes_the_last_new_member(self, driver: Driver, old: str) -> None:
        driver.result(driver.leave("new"))
        assert group_type(driver) == "classic"
        driver.result(driver.leave(old))
        assert driver.state() == "Empty"
