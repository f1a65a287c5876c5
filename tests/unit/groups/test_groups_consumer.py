from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from goqueue.groups.settings import GroupSettings
from goqueue.groups.topics import TopicCatalogue, TopicInfo
from goqueue.model.errors import (
    FencedInstanceError,
    FencedMemberEpochError,
    GroupMaxSizeError,
    GroupNotFoundError,
    InconsistentGroupProtocolError,
    InvalidGroupRequestError,
    InvalidRegularExpressionError,
    StaleMemberEpochError,
    UnknownMemberError,
    UnreleasedInstanceError,
    UnsupportedAssignorError,
)
from goqueue.model.topic_partition import TopicPartition
from unit.groups.group_driver import REBALANCE_MS, Driver

T = UUID(int=1)
U = UUID(int=2)
INTERNAL = UUID(int=3)
SESSION_MS = GroupSettings().consumer_session_timeout_ms


def parts(*numbers: int, topic: UUID = T) -> frozenset[tuple[UUID, int]]:
    return frozenset((topic, number) for number in numbers)


def catalogue(version: int, **counts: int) -> TopicCatalogue:
    ids = {"t": T, "u": U, "__internal": INTERNAL}
    return TopicCatalogue(
        version,
        {name: TopicInfo(ids[name], n, name.startswith("__")) for name, n in counts.items()},
    )


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    driver.catalogue = catalogue(1, t=4)
    return driver


class TestJoining:
    def test_the_first_member_gets_every_partition(self, driver: Driver) -> None:
        result = driver.consume_first("m1")
        assert (result.member_id, result.epoch) == ("m1", 1)
        assert result.assignment == parts(0, 1, 2, 3)
        assert result.heartbeat_interval_ms == 5_000
        assert driver.state() == "Stable"

    def test_an_ongoing_heartbeat_says_nothing_new(self, driver: Driver) -> None:
        driver.consume_first("m1")
        assert driver.consume("m1", 1).assignment is None

    def test_a_full_heartbeat_is_told_everything_again(self, driver: Driver) -> None:
        driver.consume_first("m1")
        result = driver.consume(
            "m1",
            1,
            rebalance_timeout_ms=1_000,
            subscribed_names=frozenset({"t"}),
            owned=parts(0, 1, 2, 3),
        )
        assert result.assignment == parts(0, 1, 2, 3)

    def test_a_member_that_missed_an_answer_is_told_its_assignment_again(
        self, driver: Driver
    ) -> None:
        driver.consume_first("m1")
        joined = driver.consume_first("m2")
        driver.consume("m1", -1)
        everything = parts(0, 1, 2, 3)
        assert driver.consume("m2", joined.epoch).assignment == everything
        again = driver.consume("m2", joined.epoch, owned=frozenset())  # it did not hear that
        assert (again.epoch, again.assignment) == (3, everything)
        assert driver.consume("m2", 3, owned=parts(0)).assignment == everything
        assert driver.consume("m2", 3, owned=everything).assignment is None

    def test_topics_that_do_not_exist_are_simply_not_assigned(self, driver: Driver) -> None:
        result = driver.consume_first("m1", subscribed_names=frozenset({"t", "absent"}))
        assert result.assignment == parts(0, 1, 2, 3)

    def test_a_member_may_join_again_with_its_own_id(self, driver: Driver) -> None:
        driver.consume_first("m1")
        assert driver.consume_first("m1").assignment == parts(0, 1, 2, 3)
        assert driver.generation() == 1

    def test_a_full_group_refuses_one_more(self) -> None:
        driver = Driver(GroupSettings(max_group_size=1))
        driver.consume_first("m1")
        with pytest.raises(GroupMaxSizeError):
            driver.consume_first("m2")
        driver.consume_first("m1")

    @pytest.mark.parametrize(
        "fields",
        [
            {"rebalance_timeout_ms": -1},
            {"owned": None},
            {"owned": parts(0)},
            {"subscribed_names": None},
            {"instance_id": ""},
            {"rack_id": ""},
            {"member_id": ""},
            {"group_id": ""},
            {"epoch": -3},
            {"epoch": -2},
        ],
    )
    def test_a_request_that_contradicts_itself_is_refused(
        self, driver: Driver, fields: dict[str, Any]
    ) -> None:
        whole: dict[str, Any] = {
            "member_id": "m1",
            "epoch": 0,
            "subscribed_names": frozenset({"t"}),
            "rebalance_timeout_ms": 1_000,
            "owned": frozenset(),
        }
        with pytest.raises(InvalidGroupRequestError):
            driver.consume(**(whole | fields))
        assert driver.state() == "missing"

    def test_an_assignor_that_does_not_exist_is_refused(self, driver: Driver) -> None:
        with pytest.raises(UnsupportedAssignorError):
            driver.consume_first("m1", server_assignor="best")

    def test_members_can_choose_the_range_assignor(self, driver: Driver) -> None:
        driver.consume_first("m1", server_assignor="range")
        driver.consume_first("m2", server_assignor="range")
        described = driver.coordinator.describe_consumer("g")
        assert described.assignor == "range"
        assert described.members[0].target == parts(0, 1)


class TestReconciliation:
    def test_a_partition_is_given_only_after_its_owner_let_it_go(self, driver: Driver) -> None:
        driver.consume_first("m1")
        joined = driver.consume_first("m2")
        assert (joined.epoch, joined.assignment) == (2, frozenset())
        revoking = driver.consume("m1", 1)
        assert revoking.epoch == 1
        kept = revoking.assignment
        assert len(kept) == 2
        assert driver.consume("m2", 2).assignment is None
        still_has_all = driver.consume("m1", 1, owned=parts(0, 1, 2, 3))
        assert still_has_all.epoch == 1
        assert driver.consume("m1", 1, owned=kept).epoch == 2
        assert driver.consume("m2", 2).assignment == parts(0, 1, 2, 3) - kept
        assert driver.state() == "Stable"

    def test_a_member_that_keeps_its_partitions_is_not_disturbed(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.consume_first("m2")
        kept = driver.consume("m1", 1).assignment
        driver.consume("m1", 1, owned=kept)
        driver.consume("m2", 2)
        driver.consume("m2", -1)
        grown = driver.consume("m1", 2)
        assert (grown.epoch, grown.assignment) == (3, parts(0, 1, 2, 3))

    def test_a_member_that_does_not_let_go_in_time_is_removed(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.consume_first("m2")
        driver.consume("m1", 1)
        for _ in range(REBALANCE_MS // 10_000):
            driver.advance(10_000)
            result = driver.consume("m2", 2)
        assert (result.epoch, result.assignment) == (3, parts(0, 1, 2, 3))
        with pytest.raises(UnknownMemberError):
            driver.consume("m1", 1)
        assert driver.coordinator.group_stats("g").revocation_timeouts == 1

    def test_the_reply_that_was_lost_is_sent_again(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.consume_first("m2")
        kept = driver.consume("m1", 1).assignment
        driver.consume("m1", 1, owned=kept)
        assert driver.consume("m1", 1, owned=kept).epoch == 2

    def test_an_epoch_that_is_not_the_members_own_is_fenced(self, driver: Driver) -> None:
        driver.consume_first("m1")
        for epoch in (2, 99):
            with pytest.raises(FencedMemberEpochError):
                driver.consume("m1", epoch)

    def test_the_previous_epoch_with_foreign_partitions_is_fenced(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.consume_first("m2")
        kept = driver.consume("m1", 1).assignment
        driver.consume("m1", 1, owned=kept)
        with pytest.raises(FencedMemberEpochError):
            driver.consume("m1", 1, owned=parts(0, 1, 2, 3))
        with pytest.raises(FencedMemberEpochError):
            driver.consume("m1", 1)

    def test_a_stranger_is_refused(self, driver: Driver) -> None:
        driver.consume_first("m1")
        with pytest.raises(UnknownMemberError):
            driver.consume("m2", 1)
        with pytest.raises(GroupNotFoundError):
            driver.consume("m1", 1, "nowhere")

    def test_a_silent_member_is_removed(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.advance(SESSION_MS - 1)
        driver.consume("m1", 1)
        driver.advance(SESSION_MS)
        assert driver.state() == "Empty"
        with pytest.raises(UnknownMemberError):
            driver.consume("m1", 1)

    def test_a_group_with_a_session_timeout_of_its_own_follows_it(self, driver: Driver) -> None:
        own = replace(driver.settings, consumer_session_timeout_ms=SESSION_MS + 10_000)
        driver.consume_first("m1")
        driver.settings_of["g"] = own
        driver.coordinator.follow_settings("g")
        driver.consume("m1", 1)
        driver.advance(SESSION_MS + 9_999)
        assert driver.state() == "Stable"
        driver.restart()
        driver.advance(SESSION_MS + 9_999)
        assert driver.state() == "Stable"
        driver.advance(1)
        assert driver.state() == "Empty"


class TestTopics:
    def test_new_partitions_are_assigned_at_the_next_heartbeat(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.catalogue = catalogue(2, t=6)
        grown = driver.consume("m1", 1)
        assert (grown.epoch, grown.assignment) == (2, parts(0, 1, 2, 3, 4, 5))

    def test_a_topic_that_nobody_reads_changes_nothing(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.catalogue = catalogue(2, t=4, u=9)
        assert driver.consume("m1", 1).epoch == 1

    def test_another_subscription_changes_the_assignment(self, driver: Driver) -> None:
        driver.catalogue = catalogue(1, t=1, u=1)
        driver.consume_first("m1")
        revoking = driver.consume("m1", 1, subscribed_names=frozenset({"u"}))
        assert (revoking.epoch, revoking.assignment) == (1, frozenset())
        moved = driver.consume("m1", 1, owned=frozenset())
        assert (moved.epoch, moved.assignment) == (2, parts(0, topic=U))

    def test_a_topic_made_again_under_its_name_is_another_topic(self, driver: Driver) -> None:
        driver.consume_first("m1")
        again = TopicInfo(UUID(int=9), 1)
        driver.catalogue = TopicCatalogue(2, {"t": again})
        driver.consume("m1", 1)
        moved = driver.consume("m1", 1, owned=frozenset())
        assert moved.assignment == parts(0, topic=UUID(int=9))

    def test_a_pattern_stands_for_the_topics_it_matches_as_a_whole(self, driver: Driver) -> None:
        driver.catalogue = catalogue(1, t=1, u=1, __internal=1)
        joined = driver.consume_first("m1", subscribed_names=None, subscribed_regex="[tu]")
        assert joined.assignment == parts(0) | parts(0, topic=U)

    def test_a_new_topic_that_a_pattern_matches_is_assigned(self, driver: Driver) -> None:
        driver.consume_first("m1", subscribed_names=frozenset(), subscribed_regex=".*")
        driver.catalogue = catalogue(2, t=4, u=1, __internal=1)
        assert driver.consume("m1", 1).assignment == parts(0, 1, 2, 3) | parts(0, topic=U)

    @pytest.mark.parametrize("pattern", ["(", "a**(", r"(a)\1", "(?=a)", "x" * 1_001])
    def test_a_pattern_that_does_not_compile_is_refused(self, driver: Driver, pattern: str) -> None:
        with pytest.raises(InvalidRegularExpressionError):
            driver.consume_first("m1", subscribed_regex=pattern)
        assert driver.state() == "missing"

    def test_a_pattern_made_to_explode_is_harmless(self, driver: Driver) -> None:
        driver.catalogue = TopicCatalogue(1, {"a" * 249: TopicInfo(T, 1)})
        joined = driver.consume_first("m1", subscribed_regex="(a+)+(a|aa)+b")
        assert joined.assignment == frozenset()

    def test_a_change_of_topics_during_a_restart_is_noticed(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.restart()
        assert driver.consume("m1", 1).epoch == 1
        driver.restart()
        driver.catalogue = catalogue(1, t=5)
        assert driver.consume("m1", 1).assignment == parts(0, 1, 2, 3, 4)


class TestLeaving:
    def test_a_leaver_frees_its_partitions_at_once(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.consume_first("m2")
        assert driver.consume("m1", -1).epoch == -1
        assert driver.consume("m2", 2).assignment == parts(0, 1, 2, 3)

    def test_an_administrator_removes_members(self, driver: Driver) -> None:
        driver.consume_first("m1", instance_id="i1")
        driver.consume_first("m2")
        outcome = driver.result(driver.leave(("", "i1"), "m2", "stranger", ("x", "i1"))).members
        assert [type(error) for _, error in outcome] == [
            type(None),
            type(None),
            UnknownMemberError,
            UnknownMemberError,
        ]
        assert driver.state() == "Empty"


class TestStaticMembers:
    def test_a_static_member_that_steps_out_finds_its_partitions_again(
        self, driver: Driver
    ) -> None:
        driver.consume_first("m1", instance_id="i1")
        assert driver.consume("m1", -2, instance_id="i1").epoch == -2
        back = driver.consume_first("m2", instance_id="i1")
        assert (back.epoch, back.assignment) == (1, parts(0, 1, 2, 3))
        assert driver.generation() == 1

    def test_its_partitions_are_kept_from_others_until_its_session_ends(
        self, driver: Driver
    ) -> None:
        driver.consume_first("m1", instance_id="i1")
        driver.consume("m1", -2, instance_id="i1")
        driver.advance(SESSION_MS - 1)
        assert driver.consume_first("m2").assignment == frozenset()
        driver.advance(1)
        assert driver.consume("m2", 2).assignment == parts(0, 1, 2, 3)

    def test_what_it_was_giving_up_is_free_when_it_steps_out(self, driver: Driver) -> None:
        driver.consume_first("m1", instance_id="i1")
        driver.consume_first("m2")
        kept = driver.consume("m1", 1, instance_id="i1").assignment
        driver.consume("m1", -2, instance_id="i1")
        assert driver.consume("m2", 2).assignment == parts(0, 1, 2, 3) - kept

    def test_a_second_process_with_the_same_instance_id_is_refused(self, driver: Driver) -> None:
        driver.consume_first("m1", instance_id="i1")
        with pytest.raises(UnreleasedInstanceError):
            driver.consume_first("m2", instance_id="i1")

    def test_the_former_process_is_fenced(self, driver: Driver) -> None:
        driver.consume_first("m1", instance_id="i1")
        driver.consume("m1", -2, instance_id="i1")
        driver.consume_first("m2", instance_id="i1")
        for epoch in (1, -1, -2):
            with pytest.raises(FencedInstanceError):
                driver.consume("m1", epoch, instance_id="i1")

    def test_an_unknown_instance_id_is_an_unknown_member(self, driver: Driver) -> None:
        driver.consume_first("m1")
        with pytest.raises(UnknownMemberError):
            driver.consume("m1", 1, instance_id="i1")

    def test_a_member_id_cannot_be_in_two_places(self, driver: Driver) -> None:
        driver.consume_first("m1", instance_id="i1")
        driver.consume("m1", -2, instance_id="i1")
        driver.consume_first("m2")
        with pytest.raises(InvalidGroupRequestError):
            driver.consume_first("m2", instance_id="i1")

    def test_leaving_for_good_frees_the_instance_id(self, driver: Driver) -> None:
        driver.consume_first("m1", instance_id="i1")
        driver.consume("m1", -1, instance_id="i1")
        assert driver.consume_first("m2", instance_id="i1").assignment == parts(0, 1, 2, 3)


class TestBothProtocols:
    def test_an_empty_classic_group_becomes_a_consumer_group_with_its_offsets(
        self, driver: Driver
    ) -> None:
        member = driver.stable()[0]
        driver.commit(("t", 0, 7), member_id=member, generation_or_epoch=1)
        driver.leave(member)
        joined = driver.consume_first("m1")
        assert joined.epoch == 3
        assert driver.offset("t", 0) == 7
        assert driver.coordinator.list_groups()[0].group_type == "consumer"
        driver.restart()
        assert driver.consume("m1", 3).epoch == 3

    def test_an_empty_consumer_group_becomes_a_classic_one(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.consume("m1", -1)
        member = driver.stable()[0]
        assert driver.generation() == 3
        driver.restart()
        driver.result(driver.heartbeat(member, 3))

    def test_an_empty_consumer_group_is_not_touched_by_a_join_that_fails(
        self, driver: Driver
    ) -> None:
        driver.consume_first("m1")
        driver.consume("m1", -1)
        with pytest.raises(InconsistentGroupProtocolError):
            driver.result(driver.join(protocols=()))
        assert driver.coordinator.list_groups()[0].group_type == "consumer"

    def test_a_member_of_the_new_protocol_speaks_no_other(self, driver: Driver) -> None:
        driver.consume_first("m1")
        with pytest.raises(UnknownMemberError):
            driver.result(driver.heartbeat("m1", 1))
        with pytest.raises(UnknownMemberError):
            driver.result(driver.sync("m1", 1))
        with pytest.raises(UnknownMemberError):
            driver.result(driver.join(member_id="m1"))


class TestCommits:
    def test_a_member_commits_with_its_epoch(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.result(driver.commit(("t", 0, 5), member_id="m1", generation_or_epoch=1))
        assert driver.offset("t", 0) == 5

    def test_a_stale_epoch_or_a_stranger_is_refused(self, driver: Driver) -> None:
        driver.consume_first("m1")
        with pytest.raises(StaleMemberEpochError):
            driver.result(driver.commit(("t", 0, 5), member_id="m1", generation_or_epoch=0))
        with pytest.raises(UnknownMemberError):
            driver.result(driver.commit(("t", 0, 5), member_id="m2", generation_or_epoch=1))
        with pytest.raises(UnknownMemberError):
            driver.result(driver.commit(("t", 0, 5)))

    def test_a_fetch_with_a_stale_epoch_is_refused(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.coordinator.fetch_offsets("g", [TopicPartition("t", 0)])
        driver.coordinator.fetch_offsets("g", [TopicPartition("t", 0)], member_id="m1", epoch=1)
        with pytest.raises(StaleMemberEpochError):
            driver.coordinator.fetch_offsets("g", [TopicPartition("t", 0)], member_id="m1", epoch=0)
        with pytest.raises(UnknownMemberError):
            driver.coordinator.fetch_offsets("g", [TopicPartition("t", 0)], member_id="m2", epoch=1)

    def test_anyone_may_commit_to_a_group_without_members(self, driver: Driver) -> None:
        driver.consume_first("m1")
        driver.consume("m1", -1)
        driver.result(driver.commit(("t", 0, 5)))
        assert driver.offset("t", 0) == 5


def test_a_description_shows_what_each_member_has_and_shall_have(driver: Driver) -> None:
    driver.consume_first("m1", rack_id="r", client_id="c", client_host="h")
    driver.consume_first("m2")
    described = driver.coordinator.describe_consumer("g")
    assert (described.state, described.epoch, described.target_epoch) == ("Reconciling", 2, 2)
    first, second = described.members
    assert (first.rack_id, first.client_id, first.client_host) == ("r", "c", "h")
    assert first.assigned == parts(0, 1, 2, 3)
    assert first.target | second.target == parts(0, 1, 2, 3)
    with pytest.raises(GroupNotFoundError):
        driver.coordinator.describe_classic("g")
