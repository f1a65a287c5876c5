from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st

from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.classic.state import LEGAL_MOVES, ClassicState
from goqueue.groups.consumer.protocol import encode_assignment
from goqueue.groups.coordinator import GroupCoordinator
from goqueue.groups.effects import Entry
from goqueue.groups.settings import GroupSettings
from goqueue.groups.stats import GroupStats, RebalanceReason
from goqueue.groups.topics import TopicCatalogue, TopicInfo
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GroupNotFoundError,
    InvariantError,
    NonEmptyGroupError,
)
from goqueue.model.topic_partition import TopicPartition
from support.effort import examples
from unit.groups.group_driver import SESSION_MS, Driver, metadata

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.catalogue = TopicCatalogue(1, {"t": TopicInfo(UUID(int=1), 2)})
    return driver


class TestListing:
    def fill(self, driver: Driver) -> None:
        driver.stable(group_id="stable")
        driver.commit(("t", 0, 1), group_id="simple")
        driver.consume_first("m", "new")

    def test_every_group_is_listed_with_its_type_and_state(self, driver: Driver) -> None:
        self.fill(driver)
        assert {
            (each.group_id, each.group_type.value, each.state, each.protocol_type)
            for each in driver.coordinator.list_groups()
        } == {
            ("stable", "classic", "Stable", "consumer"),
            ("simple", "classic", "Empty", ""),
            ("new", "consumer", "Stable", "consumer"),
        }

    @pytest.mark.parametrize(
        ("states", "types", "expected"),
        [
            (["stable"], [], {"stable", "new"}),
            (["EMPTY"], [], {"simple"}),
            ([], ["Classic"], {"stable", "simple"}),
            (["Stable"], ["consumer"], {"new"}),
            (["PreparingRebalance"], [], set()),
            (["no such state"], [], set()),
        ],
    )
    def test_lists_are_filtered_by_state_and_type(
        self, driver: Driver, states: list[str], types: list[str], expected: set[str]
    ) -> None:
        self.fill(driver)
        found = driver.coordinator.list_groups(states, types)
        assert {each.group_id for each in found} == expected


class TestDescribing:
    def test_a_stable_group_shows_metadata_and_assignments(self, driver: Driver) -> None:
        member = driver.stable(client_id="c", client_host="/10.0.0.1")[0]
        described = driver.coordinator.describe_classic("g")
        assert (described.state, described.protocol_name) == ("Stable", "range")
        (shown,) = described.members
        assert (shown.member_id, shown.client_id, shown.client_host) == (member, "c", "/10.0.0.1")
        assert (shown.metadata, shown.assignment) == (metadata("t"), member.encode())

    def test_a_rebalancing_group_shows_its_members_alone(self, driver: Driver) -> None:
        driver.stable()
        driver.join()
        described = driver.coordinator.describe_classic("g")
        assert described.state is ClassicState.PREPARING_REBALANCE
        assert [each.metadata for each in described.members] == [b"", b""]

    def test_what_does_not_exist_is_not_described(self, driver: Driver) -> None:
        driver.stable()
        for describe in (
            lambda: driver.coordinator.describe_classic("nowhere"),
            lambda: driver.coordinator.describe_consumer("nowhere"),
            lambda: driver.coordinator.describe_consumer("g"),
            lambda: driver.coordinator.group_stats("nowhere"),
        ):
            with pytest.raises(GroupNotFoundError):
                describe()


class TestDeleting:
    def delete(self, driver: Driver, *group_ids: str) -> list[object]:
        token = driver.token()
        driver.apply(driver.coordinator.delete_groups(group_ids, token, driver.now_ms))
        outcomes = driver.result(token).groups
        assert [group_id for group_id, _ in outcomes] == list(group_ids)
        return [error for _, error in outcomes]

    def test_every_group_asked_for_has_its_outcome(self, driver: Driver) -> None:
        driver.stable(group_id="live")
        driver.consume_first("m", "new")
        driver.commit(("t", 0, 1), group_id="idle")
        errors = self.delete(driver, "live", "idle", "nowhere", "new", "idle")
        assert [type(error) for error in errors] == [
            NonEmptyGroupError,
            type(None),
            GroupNotFoundError,
            NonEmptyGroupError,
            GroupNotFoundError,
        ]

    def test_a_deleted_group_leaves_nothing_behind(self, driver: Driver) -> None:
        member = driver.stable()[0]
        driver.commit(("t", 0, 1), member_id=member, generation_or_epoch=1)
        driver.leave(member)
        self.delete(driver, "g")
        assert driver.log == {}
        driver.restart()
        assert driver.coordinator.list_groups() == []

    def test_a_deleted_consumer_group_leaves_nothing_behind(self, driver: Driver) -> None:
        driver.consume_first("m")
        driver.consume("m", -1)
        self.delete(driver, "g")
        assert driver.log == {}


class TestTime:
    def test_a_coordinator_without_groups_waits_only_for_its_next_look_at_offsets(self) -> None:
        coordinator = GroupCoordinator(GroupSettings(), str)
        assert coordinator.next_deadline_ms() is None
        list(coordinator.resume(5))
        assert coordinator.next_deadline_ms() == 600_005

    def test_the_earliest_deadline_of_all_groups_is_the_next(self, driver: Driver) -> None:
        driver.stable(group_id="slow", session_timeout_ms=60_000)
        driver.stable(group_id="fast", session_timeout_ms=7_000)
        assert driver.coordinator.next_deadline_ms() == driver.now_ms + 7_000

    def test_a_tick_looks_at_the_groups_that_are_due_and_no_others(
        self, driver: Driver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(50):
            driver.commit(("t", 0, 1), group_id=f"idle{number}")
        driver.stable()
        looked_at = []
        tick = ClassicGroup.tick
        monkeypatch.setattr(
            ClassicGroup, "tick", lambda self, *args: (looked_at.append(self), tick(self, *args))
        )
        driver.advance(SESSION_MS)
        assert {group.group_id for group in looked_at} == {"g"}


class TestStatistics:
    def test_rebalances_are_counted_with_their_reasons(self, driver: Driver) -> None:
        driver.stable(2)
        driver.leave(*[m.member_id for m in driver.coordinator.describe_classic("g").members])
        stats = driver.coordinator.group_stats("g")
        assert (stats.total, stats.successful, stats.failed) == (3, 2, 0)
        assert stats.superseded == 1
        assert stats.reasons == {
            RebalanceReason.MEMBER_JOINED: 2,
            RebalanceReason.MEMBER_LEFT: 1,
        }
        assert (stats.joins, sum(stats.leaves.values())) == (2, 2)

    def test_moved_partitions_are_counted_where_the_assignment_can_be_read(
        self, driver: Driver
    ) -> None:
        first = driver.result(driver.join()).member_id
        share = encode_assignment(frozenset({T0, T1}))
        driver.sync(first, 1, {first: share})
        second = driver.join()
        driver.join(member_id=first)
        halves = {
            first: encode_assignment(frozenset({T0})),
            driver.result(second).member_id: encode_assignment(frozenset({T1})),
        }
        driver.sync(first, 2, halves)
        stats = driver.coordinator.group_stats("g")
        assert (stats.partitions_assigned, stats.partitions_revoked) == (3, 1)

    def test_members_that_do_not_sync_fail_a_rebalance(self, driver: Driver) -> None:
        driver.join(session_timeout_ms=100_000)
        driver.advance(30_000)
        stats = driver.coordinator.group_stats("g")
        assert stats.failed == 1
        assert stats.reasons[RebalanceReason.SYNC_TIMEOUT] == 1

    def test_durations_are_smoothed(self) -> None:
        whole = GroupStats()
        stats = GroupStats(parent=whole)
        for start, end in ((0, 1_000), (2_000, 2_500)):
            stats.started(RebalanceReason.MEMBER_JOINED, start)
            stats.completed(end)
        assert (stats.last_duration_ms, stats.last_at_ms) == (500, 2_500)
        assert stats.average_duration_ms == pytest.approx(850)
        assert whole.average_duration_ms == pytest.approx(850)

    def test_a_trigger_during_a_rebalance_supersedes_it(self) -> None:
        stats = GroupStats()
        stats.started(RebalanceReason.MEMBER_JOINED, 0)
        stats.started(RebalanceReason.MEMBER_LEFT, 5)
        stats.completed(10)
        assert (stats.total, stats.superseded, stats.successful) == (2, 1, 1)

    def test_the_sum_over_all_groups_outlives_them(self, driver: Driver) -> None:
        driver.stable(group_id="a")
        driver.consume_first("m", "b")
        driver.consume("m", -1, "b")
        token = driver.token()
        driver.apply(driver.coordinator.delete_groups(["b"], token, driver.now_ms))
        assert driver.coordinator.stats.total == 3
        assert driver.coordinator.stats.partitions_assigned == 2
        assert driver.coordinator.stats.partitions_revoked == 2


class TestTheGate:
    @pytest.mark.parametrize("state", ClassicState)
    @pytest.mark.parametrize("target", ClassicState)
    def test_only_legal_moves_are_made(self, state: ClassicState, target: ClassicState) -> None:
        group = ClassicGroup("g", GroupSettings(), GroupStats())
        group._state = state
        if target in LEGAL_MOVES[state]:
            group.transition_to(target, 7)
            assert (group.state, group.state_since_ms) == (target, 7)
        else:
            with pytest.raises(InvariantError):
                group.transition_to(target, 7)


def test_abandoning_tells_everyone_who_waits_to_look_elsewhere(driver: Driver) -> None:
    driver.stable()
    token = driver.join()
    effects = driver.coordinator.abandon()
    assert [each.token for each in effects.replies] == [token]
    assert isinstance(effects.replies[0].result, CoordinatorUnavailableError)
    assert list(driver.coordinator.dump()) == []


@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_log_loads_to_the_same_groups_in_any_order_that_compaction_leaves(
    data: st.DataObject,
) -> None:
    driver = Driver()
    driver.catalogue = TopicCatalogue(1, {"t": TopicInfo(UUID(int=1), 4)})
    for step in data.draw(st.lists(st.integers(0, 5), max_size=20)):
        if step == 0:
            driver.join()
        elif step == 1:
            driver.commit(("t", step, 5), group_id="h")
        elif step == 2:
            driver.leave(*[each.member_id for each in members(driver, "g")])
        elif step == 3:
            driver.advance(5_000)
        elif step == 4:
            driver.stable(group_id=f"s{len(driver.log)}")
        else:
            driver.consume_first(f"m{len(driver.log)}", "c")
    order = data.draw(st.permutations(sorted(driver.log.items())))
    loaded = GroupCoordinator(driver.settings, str)
    loaded.load(Entry(key, value) for key, value in order)
    list(loaded.resume(driver.now_ms))
    loaded.check_invariants()
    assert dict(loaded.dump()) == driver.log


def members(driver: Driver, group_id: str) -> tuple[Any, ...]:
    try:
        return driver.coordinator.describe_classic(group_id).members
    except GroupNotFoundError:
        return ()
