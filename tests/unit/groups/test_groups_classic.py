from __future__ import annotations

from typing import Any

import pytest

from goqueue.groups.settings import GroupSettings
from goqueue.model.errors import (
    FencedInstanceError,
    GroupMaxSizeError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    TooManyGroupsError,
    UnknownMemberError,
)
from unit.groups.group_driver import AT_ONCE, REBALANCE_MS, SESSION_MS, Driver, metadata


@pytest.fixture
def driver() -> Driver:
    return Driver()


class TestJoining:
    def test_a_new_member_is_told_an_id_to_join_again_with(self, driver: Driver) -> None:
        token = driver.join(require_known_member_id=True)
        with pytest.raises(MemberIdRequiredError) as error:
            driver.result(token)
        assert error.value.member_id == "client-uuid1"
        joined = driver.result(driver.join(member_id="client-uuid1", require_known_member_id=True))
        assert joined.member_id == "client-uuid1"
        assert joined.generation == 1

    def test_an_old_client_joins_without_being_asked_for_its_id(self, driver: Driver) -> None:
        assert driver.result(driver.join()).member_id == "client-uuid1"

    def test_a_made_up_member_id_is_refused(self, driver: Driver) -> None:
        driver.stable()
        with pytest.raises(UnknownMemberError):
            driver.result(driver.join(member_id="made-up"))

    def test_a_member_id_does_not_bring_a_group_into_being(self, driver: Driver) -> None:
        with pytest.raises(UnknownMemberError):
            driver.result(driver.join(member_id="of-a-group-that-was-deleted"))
        assert driver.state() == "missing"

    def test_an_empty_group_id_is_refused(self, driver: Driver) -> None:
        with pytest.raises(InvalidGroupIdError):
            driver.result(driver.join(""))

    @pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001])
    def test_a_session_timeout_out_of_bounds_is_refused(
        self, driver: Driver, session_ms: int
    ) -> None:
        with pytest.raises(InvalidSessionTimeoutError):
            driver.result(driver.join(session_timeout_ms=session_ms))

    def test_the_leader_alone_gets_the_list_of_members(self, driver: Driver) -> None:
        first = driver.stable()[0]
        second = driver.join()
        again = driver.join(member_id=first)
        leader, follower = driver.result(again), driver.result(second)
        assert leader.leader_id == follower.leader_id == first
        assert {each.member_id for each in leader.members} == {first, follower.member_id}
        assert {each.metadata for each in leader.members} == {metadata("t")}
        assert follower.members == ()

    def test_a_join_waits_for_the_members_of_the_last_generation(self, driver: Driver) -> None:
        first = driver.stable()[0]
        second = driver.join()
        assert second in driver.waiting
        assert driver.state() == "PreparingRebalance"
        driver.join(member_id=first)
        assert driver.result(second).generation == 2

    def test_a_pending_member_is_waited_for_until_its_session_would_end(
        self, driver: Driver
    ) -> None:
        first = driver.stable()[0]
        driver.join(require_known_member_id=True)
        again = driver.join(member_id=first)
        assert again in driver.waiting
        driver.advance(SESSION_MS)
        assert driver.result(again).generation == 2

    def test_a_pending_member_that_leaves_is_not_waited_for(self, driver: Driver) -> None:
        first = driver.stable()[0]
        with pytest.raises(MemberIdRequiredError) as error:
            driver.result(driver.join(require_known_member_id=True))
        again = driver.join(member_id=first)
        driver.leave(error.value.member_id)
        assert driver.result(again).generation == 2

    def test_a_pending_member_that_leaves_a_stable_group_disturbs_nobody(
        self, driver: Driver
    ) -> None:
        driver.stable()
        with pytest.raises(MemberIdRequiredError) as error:
            driver.result(driver.join(require_known_member_id=True))
        driver.leave(error.value.member_id)
        assert (driver.state(), driver.generation()) == ("Stable", 1)

    def test_a_follower_that_joins_again_unchanged_hears_of_the_same_generation(
        self, driver: Driver
    ) -> None:
        _, follower = driver.stable(2)
        joined = driver.result(driver.join(member_id=follower))
        assert (joined.generation, joined.members) == (2, ())
        assert driver.state() == "Stable"

    def test_a_follower_with_new_metadata_starts_a_rebalance(self, driver: Driver) -> None:
        _, follower = driver.stable(2)
        token = driver.join(member_id=follower, protocols=(("range", metadata("t", "u")),))
        assert token in driver.waiting
        assert driver.state() == "PreparingRebalance"

    def test_the_leader_that_joins_again_unchanged_starts_a_rebalance(self, driver: Driver) -> None:
        leader, _ = driver.stable(2)
        assert driver.join(member_id=leader) in driver.waiting
        assert driver.state() == "PreparingRebalance"

    def test_a_join_whose_reply_was_lost_gets_the_same_generation(self, driver: Driver) -> None:
        member = driver.result(driver.join()).member_id
        again = driver.result(driver.join(member_id=member))
        assert again.generation == 1
        assert [each.member_id for each in again.members] == [member]

    def test_a_retried_join_answers_the_older_one_too(self, driver: Driver) -> None:
        driver.stable(2)
        first = driver.join(client_id="new")
        with pytest.raises(AssertionError, match="not answered"):
            driver.result(first)
        ids = [m.member_id for m in driver.coordinator.describe_classic("g").members]
        second = driver.join(member_id=ids[-1])
        with pytest.raises(RebalanceInProgressError):
            driver.result(first)
        assert second in driver.waiting

    def test_a_full_group_refuses_one_more(self) -> None:
        driver = Driver(GroupSettings(initial_rebalance_delay_ms=0, max_group_size=2))
        driver.stable(2)
        with pytest.raises(GroupMaxSizeError):
            driver.result(driver.join())
        assert driver.state() == "Stable"

    def test_ids_handed_out_count_against_the_size_of_a_group(self) -> None:
        driver = Driver(GroupSettings(initial_rebalance_delay_ms=0, max_group_size=3))
        for _ in range(3):
            driver.join(require_known_member_id=True)
        with pytest.raises(GroupMaxSizeError):
            driver.result(driver.join(require_known_member_id=True))

    def test_one_group_too_many_is_refused(self) -> None:
        driver = Driver(GroupSettings(initial_rebalance_delay_ms=0, max_groups=1))
        driver.stable()
        with pytest.raises(TooManyGroupsError):
            driver.result(driver.join("another"))


class TestProtocols:
    def test_the_protocol_that_most_members_prefer_and_all_support_wins(
        self, driver: Driver
    ) -> None:
        prefers_range = (("range", b"r"), ("sticky", b"s"), ("own", b"o"))
        prefers_sticky = (("sticky", b"s"), ("range", b"r"))
        first = driver.result(driver.join(protocols=prefers_range)).member_id
        second = driver.join(protocols=prefers_sticky)
        driver.join(member_id=first, protocols=prefers_range)
        second_id = driver.result(second).member_id
        third = driver.join(protocols=prefers_sticky)
        driver.join(member_id=first, protocols=prefers_range)
        driver.join(member_id=second_id, protocols=prefers_sticky)
        assert driver.result(third).protocol_name == "sticky"

    def test_a_member_that_shares_no_protocol_is_refused(self, driver: Driver) -> None:
        driver.stable()
        with pytest.raises(InconsistentGroupProtocolError):
            driver.result(driver.join(protocols=(("other", b""),)))

    def test_a_member_of_another_type_is_refused(self, driver: Driver) -> None:
        driver.stable()
        with pytest.raises(InconsistentGroupProtocolError):
            driver.result(driver.join(protocol_type="connect"))

    @pytest.mark.parametrize(("kind", "protocols"), [("", (("range", b""),)), ("consumer", ())])
    def test_the_first_member_must_name_a_type_and_a_protocol(
        self, driver: Driver, kind: str, protocols: tuple[tuple[str, bytes], ...]
    ) -> None:
        with pytest.raises(InconsistentGroupProtocolError):
            driver.result(driver.join(protocol_type=kind, protocols=protocols))
        assert driver.state() == "missing"

    @pytest.mark.parametrize("kind", ["sr", "connect", "anything"])
    def test_types_other_than_consumer_work_the_same(self, driver: Driver, kind: str) -> None:
        members = driver.stable(2, protocol_type=kind, protocols=(("v0", b"\x00opaque"),))
        listing = driver.coordinator.list_groups()[0]
        assert (listing.protocol_type, listing.member_count) == (kind, len(members))
        assert driver.state() == "Stable"

    def test_an_empty_group_may_change_its_type(self, driver: Driver) -> None:
        driver.leave(driver.stable()[0])
        driver.stable(protocol_type="connect", protocols=(("v0", b""),))
        assert driver.coordinator.list_groups()[0].protocol_type == "connect"

    def test_a_sync_for_another_protocol_is_refused(self, driver: Driver) -> None:
        member = driver.result(driver.join()).member_id
        with pytest.raises(InconsistentGroupProtocolError):
            driver.result(driver.sync(member, 1, protocol_type="connect"))
        with pytest.raises(InconsistentGroupProtocolError):
            driver.result(driver.sync(member, 1, protocol_name="sticky"))
        token = driver.sync(member, 1, {member: b"x"}, protocol_type="consumer")
        assert driver.result(token).assignment == b"x"


class TestTheInitialDelay:
    def test_an_empty_group_waits_for_company(self) -> None:
        driver = Driver(GroupSettings())
        first = driver.join()
        driver.advance(2_999)
        assert first in driver.waiting
        driver.advance(1)
        assert driver.result(first).generation == 1

    def test_each_arrival_extends_the_wait_up_to_the_rebalance_timeout(self) -> None:
        driver = Driver(GroupSettings())
        first = driver.join(rebalance_timeout_ms=10_000)
        for _ in range(3):
            driver.advance(2_500)
            driver.join(rebalance_timeout_ms=10_000)
        driver.advance(2_499)
        assert first in driver.waiting
        driver.advance(1)
        joined = driver.result(first)
        assert (joined.generation, len(joined.members)) == (1, 4)

    def test_two_members_that_arrive_together_share_the_first_generation(self) -> None:
        driver = Driver(GroupSettings())
        tokens = [driver.join(), driver.join()]
        driver.advance(6_000)
        assert [driver.result(token).generation for token in tokens] == [1, 1]

    def test_a_group_that_everyone_leaves_while_it_waits_becomes_empty(self) -> None:
        driver = Driver(GroupSettings())
        with pytest.raises(MemberIdRequiredError) as error:
            driver.result(driver.join(require_known_member_id=True))
        token = driver.join(member_id=error.value.member_id)
        driver.leave(error.value.member_id)
        with pytest.raises(UnknownMemberError):
            driver.result(token)
        driver.advance(3_000)
        assert driver.state() == "Empty"


class TestSyncing:
    def test_followers_wait_for_the_leader(self, driver: Driver) -> None:
        first = driver.stable()[0]
        second = driver.join()
        driver.join(member_id=first)
        follower = driver.result(second).member_id
        waits = driver.sync(follower, 2)
        assert waits in driver.waiting
        driver.sync(first, 2, {first: b"one", follower: b"two"})
        assert driver.result(waits).assignment == b"two"
        assert driver.state() == "Stable"

    def test_the_assignment_is_stored_before_anyone_is_told(self, driver: Driver) -> None:
        member = driver.result(driver.join()).member_id
        assert driver.log == {}
        token = driver.sync(member, 1, {member: b"mine"})
        assert driver.result(token).assignment == b"mine"
        assert len(driver.log) == 1

    def test_a_member_that_the_leader_forgot_gets_an_empty_assignment(self, driver: Driver) -> None:
        member = driver.result(driver.join()).member_id
        assert driver.result(driver.sync(member, 1, {"other": b"x"})).assignment == b""

    def test_a_late_sync_of_a_stable_group_is_answered_at_once(self, driver: Driver) -> None:
        member = driver.stable()[0]
        assert driver.result(driver.sync(member, 1)).assignment == member.encode()

    def test_waiting_syncs_are_refused_when_a_rebalance_starts(self, driver: Driver) -> None:
        first = driver.stable()[0]
        second = driver.join()
        driver.join(member_id=first)
        waits = driver.sync(driver.result(second).member_id, 2)
        driver.join()
        with pytest.raises(RebalanceInProgressError):
            driver.result(waits)

    def test_a_sync_during_a_rebalance_is_refused(self, driver: Driver) -> None:
        member = driver.stable()[0]
        driver.join()
        with pytest.raises(RebalanceInProgressError):
            driver.result(driver.sync(member, 1))

    def test_a_sync_of_another_generation_is_refused(self, driver: Driver) -> None:
        member = driver.stable()[0]
        for generation in (0, 2, -1):
            with pytest.raises(IllegalGenerationError):
                driver.result(driver.sync(member, generation))

    def test_a_member_that_never_syncs_is_removed(self, driver: Driver) -> None:
        first = driver.stable()[0]
        second = driver.join(session_timeout_ms=60_000, rebalance_timeout_ms=20_000)
        driver.join(member_id=first, session_timeout_ms=60_000, rebalance_timeout_ms=20_000)
        silent = driver.result(second).member_id
        driver.result(driver.sync(first, 2, {}))
        driver.advance(20_000)
        with pytest.raises(UnknownMemberError):
            driver.result(driver.heartbeat(silent, 2))
        with pytest.raises(RebalanceInProgressError):
            driver.result(driver.heartbeat(first, 2))

    def test_a_leader_that_never_syncs_makes_way_for_another(self, driver: Driver) -> None:
        first = driver.stable()[0]
        second = driver.join()
        driver.join(member_id=first)
        follower = driver.result(second).member_id
        waits = driver.sync(follower, 2)
        driver.advance(SESSION_MS)
        with pytest.raises(RebalanceInProgressError):
            driver.result(waits)
        joined = driver.result(driver.join(member_id=follower))
        assert (joined.leader_id, joined.generation) == (follower, 3)


class TestHeartbeatsAndSessions:
    def test_a_heartbeat_tells_of_a_rebalance(self, driver: Driver) -> None:
        member = driver.stable()[0]
        driver.result(driver.heartbeat(member, 1))
        driver.join()
        with pytest.raises(RebalanceInProgressError):
            driver.result(driver.heartbeat(member, 1))

    def test_a_zombie_is_refused(self, driver: Driver) -> None:
        member = driver.stable()[0]
        with pytest.raises(IllegalGenerationError):
            driver.result(driver.heartbeat(member, 0))
        with pytest.raises(UnknownMemberError):
            driver.result(driver.heartbeat("stranger", 1))
        with pytest.raises(UnknownMemberError):
            driver.result(driver.heartbeat(member, 1, group_id="elsewhere"))

    def test_heartbeats_keep_a_session_alive(self, driver: Driver) -> None:
        member = driver.stable()[0]
        for _ in range(5):
            driver.advance(SESSION_MS - 1)
            driver.result(driver.heartbeat(member, 1))

    def test_a_silent_member_is_removed_and_the_rest_rebalances(self, driver: Driver) -> None:
        leader, silent = driver.stable(2)
        driver.advance(SESSION_MS - 1)
        driver.result(driver.heartbeat(leader, 2))
        driver.advance(1)
        with pytest.raises(RebalanceInProgressError):
            driver.result(driver.heartbeat(leader, 2))
        assert driver.result(driver.join(member_id=leader)).generation == 3
        with pytest.raises(UnknownMemberError):
            driver.result(driver.heartbeat(silent, 3))

    def test_the_last_member_to_fall_silent_leaves_an_empty_group(self, driver: Driver) -> None:
        driver.stable()
        driver.advance(SESSION_MS)
        assert driver.state() == "Empty"
        assert driver.generation() == 2

    def test_members_that_do_not_rejoin_in_time_are_left_behind(self, driver: Driver) -> None:
        first = driver.stable(session_timeout_ms=100_000)[0]
        second = driver.join(session_timeout_ms=100_000)
        driver.advance(REBALANCE_MS)
        assert driver.result(second).generation == 2
        with pytest.raises(UnknownMemberError):
            driver.result(driver.heartbeat(first, 2))

    def test_the_longest_rebalance_timeout_of_all_members_counts(self, driver: Driver) -> None:
        driver.stable(session_timeout_ms=100_000, rebalance_timeout_ms=50_000)
        second = driver.join(session_timeout_ms=100_000, rebalance_timeout_ms=20_000)
        driver.advance(49_999)
        assert second in driver.waiting
        driver.advance(1)
        assert driver.result(second).generation == 2

    def test_a_member_whose_join_waits_does_not_lose_its_session(self, driver: Driver) -> None:
        first = driver.stable()[0]
        driver.join(require_known_member_id=True, session_timeout_ms=25_000)
        again = driver.join(member_id=first)
        driver.advance(SESSION_MS + 1)
        assert again in driver.waiting
        driver.advance(25_000)
        assert driver.result(again).generation == 2

    def test_a_new_member_whose_client_is_gone_is_dropped_in_the_end(self) -> None:
        driver = Driver(
            GroupSettings(initial_rebalance_delay_ms=0, new_member_join_timeout_ms=40_000)
        )
        driver.stable(session_timeout_ms=600_000, rebalance_timeout_ms=500_000)
        token = driver.join()
        driver.advance(40_000)
        with pytest.raises(UnknownMemberError):
            driver.result(token)


class TestLeaving:
    def test_a_leaver_makes_the_rest_rebalance(self, driver: Driver) -> None:
        leader, follower = driver.stable(2)
        outcome = driver.result(driver.leave(follower)).members
        assert [error for _, error in outcome] == [None]
        with pytest.raises(RebalanceInProgressError):
            driver.result(driver.heartbeat(leader, 2))

    def test_several_leave_at_once_with_an_outcome_each(self, driver: Driver) -> None:
        members = driver.stable(2)
        outcome = driver.result(driver.leave(members[0], "stranger", members[1])).members
        assert [type(error) for _, error in outcome] == [
            type(None),
            UnknownMemberError,
            type(None),
        ]
        assert (driver.state(), driver.generation()) == ("Empty", 3)

    def test_leaving_a_group_that_does_not_exist_is_refused(self, driver: Driver) -> None:
        with pytest.raises(UnknownMemberError):
            driver.result(driver.leave("somebody", group_id="nowhere"))

    def test_a_leader_that_leaves_is_followed_by_the_member_longest_there(
        self, driver: Driver
    ) -> None:
        leader, *others = driver.stable(3)
        driver.leave(leader)
        tokens = [driver.join(member_id=each) for each in others]
        assert driver.result(tokens[0]).leader_id in others


class TestStaticMembers:
    def static(self, driver: Driver, instance_id: str = "i1", **fields: Any) -> str:
        token = driver.join(instance_id=instance_id, **fields)
        return driver.result(token).member_id

    def stable(self, driver: Driver) -> str:
        member = self.static(driver)
        driver.result(driver.sync(member, 1, {member: b"mine"}))
        return member

    def test_a_restart_takes_the_old_place_without_a_rebalance(self, driver: Driver) -> None:
        old = self.stable(driver)
        joined = driver.result(driver.join(instance_id="i1"))
        assert joined.member_id != old
        assert (joined.generation, driver.state()) == (1, "Stable")
        assert driver.result(driver.sync(joined.member_id, 1)).assignment == b"mine"

    def test_the_new_id_of_a_restarted_member_survives_a_crash_of_the_broker(
        self, driver: Driver
    ) -> None:
        self.stable(driver)
        member = driver.result(driver.join(instance_id="i1")).member_id
        driver.restart()
        driver.result(driver.heartbeat(member, 1, instance_id="i1"))

    def test_the_former_process_is_fenced(self, driver: Driver) -> None:
        old = self.stable(driver)
        driver.result(driver.join(instance_id="i1"))
        for attempt in (
            driver.heartbeat(old, 1, instance_id="i1"),
            driver.sync(old, 1, instance_id="i1"),
            driver.join(member_id=old, instance_id="i1"),
            driver.commit(("t", 0, 5), member_id=old, generation_or_epoch=1, instance_id="i1"),
        ):
            with pytest.raises(FencedInstanceError):
                driver.result(attempt)
        outcome = driver.result(driver.leave((old, "i1"))).members
        assert isinstance(outcome[0][1], FencedInstanceError)

    def test_a_waiting_join_of_the_former_process_is_fenced(self, driver: Driver) -> None:
        driver.stable()
        first = driver.join(instance_id="i1")
        driver.join(instance_id="i1")
        with pytest.raises(FencedInstanceError):
            driver.result(first)

    def test_a_returning_leader_of_a_new_client_is_told_to_skip_the_assignment(
        self, driver: Driver
    ) -> None:
        self.stable(driver)
        joined = driver.result(driver.join(instance_id="i1", supports_skip_assignment=True))
        assert joined.skip_assignment
        assert joined.leader_id == joined.member_id
        assert [each.instance_id for each in joined.members] == ["i1"]

    def test_a_returning_leader_of_an_old_client_does_not_see_itself_as_leader(
        self, driver: Driver
    ) -> None:
        old = self.stable(driver)
        joined = driver.result(driver.join(instance_id="i1"))
        assert (joined.leader_id, joined.members, joined.skip_assignment) == (old, (), False)

    def test_a_return_with_other_topics_starts_a_rebalance(self, driver: Driver) -> None:
        self.stable(driver)
        joined = driver.result(driver.join(instance_id="i1", protocols=(("range", metadata("u")),)))
        assert joined.generation == 2

    def test_a_return_while_the_leader_assigns_starts_over(self, driver: Driver) -> None:
        self.static(driver)
        joined = driver.result(driver.join(instance_id="i1"))
        assert joined.generation == 2

    def test_an_absent_static_member_keeps_its_place_through_a_rebalance(
        self, driver: Driver
    ) -> None:
        first = driver.stable(session_timeout_ms=100_000)[0]
        static = driver.join(instance_id="i1", session_timeout_ms=100_000)
        driver.join(member_id=first, session_timeout_ms=100_000)
        absent = driver.result(static).member_id
        driver.sync(absent, 2, instance_id="i1")
        driver.sync(first, 2)
        again = driver.join(member_id=first, session_timeout_ms=100_000)
        driver.advance(REBALANCE_MS)
        members = {each.member_id for each in driver.result(again).members}
        assert members == {first, absent}

    def test_an_absent_static_member_goes_when_its_session_ends(self, driver: Driver) -> None:
        self.stable(driver)
        driver.advance(SESSION_MS)
        assert driver.state() == "Empty"

    def test_an_unknown_instance_id_is_an_unknown_member(self, driver: Driver) -> None:
        member = self.stable(driver)
        for attempt in (
            driver.heartbeat(member, 1, instance_id="other"),
            driver.join(member_id=member, instance_id="other"),
            driver.sync(member, 1, instance_id="other"),
        ):
            with pytest.raises(UnknownMemberError):
                driver.result(attempt)

    def test_an_administrator_removes_a_static_member_by_its_instance_id(
        self, driver: Driver
    ) -> None:
        self.stable(driver)
        outcome = driver.result(driver.leave(("", "i1"), ("", "unknown"))).members
        assert [type(error) for _, error in outcome] == [type(None), UnknownMemberError]
        assert driver.state() == "Empty"


class TestRestarts:
    def test_a_stable_group_goes_on_after_a_restart(self, driver: Driver) -> None:
        members = driver.stable(3)
        driver.restart()
        assert (driver.state(), driver.generation()) == ("Stable", 3)
        for member in members:
            driver.result(driver.heartbeat(member, 3))
            assert driver.result(driver.sync(member, 3)).assignment == member.encode()

    def test_members_have_a_whole_session_after_a_restart(self, driver: Driver) -> None:
        member = driver.stable()[0]
        driver.now_ms += 100 * SESSION_MS
        driver.restart()
        driver.advance(SESSION_MS - 1)
        driver.result(driver.heartbeat(member, 1))

    def test_a_rebalance_that_a_crash_interrupts_starts_again(self, driver: Driver) -> None:
        first = driver.stable()[0]
        second = driver.join()
        driver.join(member_id=first)
        newcomer = driver.result(second).member_id
        driver.restart()
        with pytest.raises(IllegalGenerationError):
            driver.result(driver.heartbeat(first, 2))
        with pytest.raises(UnknownMemberError):
            driver.result(driver.heartbeat(newcomer, 2))
        assert driver.result(driver.join(member_id=first)).generation == 2

    def test_abandoning_the_coordinator_answers_everyone_who_waits(self) -> None:
        driver = Driver(AT_ONCE)
        driver.stable()
        waiting = driver.join()
        driver.log.clear()
        driver.apply(driver.coordinator.abandon())
        assert waiting not in driver.waiting
        assert driver.coordinator.next_deadline_ms() is None
