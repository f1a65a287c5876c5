from __future__ import annotations

from typing import Any

import pytest

from goqueue.groups.effects import Effects
from goqueue.groups.encoding import CommittedOffset
from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.groups.settings import GroupSettings
from goqueue.groups.transaction_fences import FENCE_MS
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    FencedCoordinatorError,
    GroupNotFoundError,
    GroupSubscribedError,
    IllegalGenerationError,
    NonEmptyGroupError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    UnknownMemberError,
    UnstableOffsetCommitError,
)
from goqueue.model.topic_partition import TopicPartition
from unit.groups.group_driver import AT_ONCE, Driver, metadata

DAY_MS = 24 * 60 * 60 * 1_000


T0 = TopicPartition("t", 0)


@pytest.fixture
def driver() -> Driver:
    return Driver()


class TestCommitting:
    def test_a_consumer_without_a_group_membership_commits_to_an_empty_group(
        self, driver: Driver
    ) -> None:
        driver.result(driver.commit(("t", 0, 5), ("t", 1, 6)))
        assert (driver.offset("t", 0), driver.offset("t", 1)) == (5, 6)
        assert driver.state() == "Empty"

    def test_the_newest_commit_counts_also_when_it_goes_back(self, driver: Driver) -> None:
        driver.commit(("t", 0, 5))
        driver.commit(("t", 0, 3))
        assert driver.offset("t", 0) == 3

    def test_a_member_commits_with_its_generation(self, driver: Driver) -> None:
        member = driver.stable()[0]
        driver.result(driver.commit(("t", 0, 5), member_id=member, generation_or_epoch=1))
        assert driver.offset("t", 0) == 5

    def test_a_zombie_cannot_commit(self, driver: Driver) -> None:
        member = driver.stable()[0]
        with pytest.raises(IllegalGenerationError):
            driver.result(driver.commit(("t", 0, 5), member_id=member, generation_or_epoch=0))
        with pytest.raises(UnknownMemberError):
            driver.result(driver.commit(("t", 0, 5), member_id="gone", generation_or_epoch=1))
        assert driver.offset("t", 0) is None

    def test_nobody_commits_past_the_members_of_a_group(self, driver: Driver) -> None:
        driver.stable()
        with pytest.raises(UnknownMemberError):
            driver.result(driver.commit(("t", 0, 5)))

    def test_a_generation_of_a_group_that_is_gone_is_refused(self, driver: Driver) -> None:
        with pytest.raises(IllegalGenerationError):
            driver.result(driver.commit(("t", 0, 5), member_id="m", generation_or_epoch=1))
        assert driver.state() == "missing"

    def test_members_may_commit_while_a_rebalance_is_prepared(self, driver: Driver) -> None:
        member = driver.stable()[0]
        driver.join()
        driver.result(driver.commit(("t", 0, 5), member_id=member, generation_or_epoch=1))

    def test_a_commit_before_the_sync_is_refused(self, driver: Driver) -> None:
        member = driver.result(driver.join()).member_id
        with pytest.raises(RebalanceInProgressError):
            driver.result(driver.commit(("t", 0, 5), member_id=member, generation_or_epoch=1))

    def test_a_commit_keeps_the_session_alive(self, driver: Driver) -> None:
        member = driver.stable()[0]
        for offset in range(5):
            driver.advance(9_000)
            driver.result(driver.commit(("t", 0, offset), member_id=member, generation_or_epoch=1))
        driver.result(driver.heartbeat(member, 1))

    def test_leader_epoch_and_metadata_are_kept(self, driver: Driver) -> None:
        item = OffsetToCommit(topic="t", partition=0, offset=5, leader_epoch=3, metadata="note")
        request = CommitRequest(group_id="g", offsets=(item,))
        driver.apply(driver.coordinator.commit(request, driver.token(), driver.now_ms))
        driver.restart()
        found = driver.coordinator.fetch_offsets("g", [T0])[T0]
        assert found is not None
        assert isinstance(found, CommittedOffset)
        assert (found.offset, found.leader_epoch, found.metadata) == (5, 3, "note")

    def test_metadata_that_is_too_long_is_refused_for_its_partition_alone(
        self, driver: Driver
    ) -> None:
        items = (
            OffsetToCommit(topic="t", partition=0, offset=5, metadata="x" * 4_096),
            OffsetToCommit(topic="t", partition=1, offset=5, metadata="x" * 4_097),
        )
        token = driver.token()
        request = CommitRequest(group_id="g", offsets=items)
        driver.apply(driver.coordinator.commit(request, token, driver.now_ms))
        outcomes = driver.result(token).partitions
        assert [type(error) for _, error in outcomes] == [type(None), OffsetMetadataTooLargeError]
        assert driver.offset("t", 1) is None
        stats = driver.coordinator.group_stats("g")
        assert (stats.offset_commits, stats.offset_commit_errors) == (1, 1)

    def test_a_group_that_no_offset_could_be_committed_to_does_not_stay(
        self, driver: Driver
    ) -> None:
        item = OffsetToCommit(topic="t", partition=0, offset=5, metadata="x" * 5_000)
        request = CommitRequest(group_id="g", offsets=(item,))
        driver.apply(driver.coordinator.commit(request, driver.token(), driver.now_ms))
        assert driver.state() == "missing"


class TestFetching:
    def test_all_offsets_of_a_group_can_be_asked_for(self, driver: Driver) -> None:
        driver.commit(("t", 0, 5), ("u", 2, 7))
        found = driver.coordinator.fetch_offsets("g")
        offsets = {p: e.offset for p, e in found.items() if isinstance(e, CommittedOffset)}
        assert offsets == {
            ("t", 0): 5,
            ("u", 2): 7,
        }

    def test_what_was_never_committed_is_unknown(self, driver: Driver) -> None:
        driver.commit(("t", 0, 5))
        assert driver.coordinator.fetch_offsets("g", [TopicPartition("t", 9)]) == {("t", 9): None}
        assert driver.coordinator.fetch_offsets("nowhere", [T0]) == {("t", 0): None}
        assert driver.coordinator.fetch_offsets("nowhere") == {}


class TestTransactions:
    def stage(self, driver: Driver, offset: int, producer_id: int = 7, **fields: Any) -> None:
        item = OffsetToCommit(topic="t", partition=0, offset=offset)
        request = CommitRequest(group_id="g", offsets=(item,), **fields)
        token = driver.token()
        driver.apply(driver.coordinator.stage(producer_id, request, token, driver.now_ms))
        driver.result(token)

    @pytest.mark.parametrize("restarts", [False, True])
    def test_staged_offsets_count_when_the_transaction_commits(
        self, driver: Driver, restarts: bool
    ) -> None:
        driver.commit(("t", 0, 1))
        self.stage(driver, 5)
        assert driver.offset("t", 0) == 1
        if restarts:
            driver.restart()
        driver.apply(driver.coordinator.complete_transaction(7, commit=True))
        assert driver.offset("t", 0) == 5

    def test_staged_offsets_never_were_when_the_transaction_aborts(self, driver: Driver) -> None:
        self.stage(driver, 5)
        driver.apply(driver.coordinator.complete_transaction(7, commit=False))
        assert driver.offset("t", 0) is None
        assert driver.log == {}

    def test_another_producers_transaction_stays_open(self, driver: Driver) -> None:
        self.stage(driver, 5, producer_id=7)
        self.stage(driver, 6, producer_id=8)
        driver.apply(driver.coordinator.complete_transaction(7, commit=True))
        assert driver.offset("t", 0) == 5
        driver.apply(driver.coordinator.complete_transaction(8, commit=True))
        assert driver.offset("t", 0) == 6

    def test_a_reader_that_wants_stable_offsets_is_told_to_wait(self, driver: Driver) -> None:
        self.stage(driver, 5)
        found = driver.coordinator.fetch_offsets("g", [T0], require_stable=True)
        assert isinstance(found[T0], UnstableOffsetCommitError)
        assert driver.coordinator.fetch_offsets("g", [T0])[T0] is None

    def test_a_producer_without_a_member_id_may_stage_into_a_live_group(
        self, driver: Driver
    ) -> None:
        driver.stable()
        self.stage(driver, 5)

    def test_a_zombie_cannot_stage(self, driver: Driver) -> None:
        member = driver.stable()[0]
        with pytest.raises(IllegalGenerationError):
            self.stage(driver, 5, member_id=member, generation_or_epoch=0)

    def test_a_deleted_topic_takes_its_staged_offsets_along(self, driver: Driver) -> None:
        self.stage(driver, 5)
        driver.commit(("u", 0, 1))
        driver.apply(driver.coordinator.delete_topics(["t"]))
        driver.apply(driver.coordinator.complete_transaction(7, commit=True))
        assert driver.offset("t", 0) is None
        assert driver.offset("u", 0) == 1

    def end(self, driver: Driver, coordinator_epoch: int, *, commit: bool) -> None:
        out = Effects()
        core = driver.coordinator
        core.fences.pass_through(7, coordinator_epoch, driver.now_ms, out)
        out.add(core.complete_transaction(7, commit=commit))
        driver.apply(out)

    @pytest.mark.parametrize("restarts", [False, True])
    def test_the_late_end_of_an_old_coordinator_leaves_the_next_transaction_alone(
        self, driver: Driver, restarts: bool
    ) -> None:
        self.stage(driver, 5)
        self.end(driver, 6, commit=True)
        self.stage(driver, 9)
        if restarts:
            driver.restart()
        with pytest.raises(FencedCoordinatorError, match="epoch 5, and epoch 6 has taken over"):
            self.end(driver, 5, commit=True)
        assert driver.offset("t", 0) == 5
        self.end(driver, 6, commit=True)
        assert driver.offset("t", 0) == 9

    def test_the_end_of_a_transaction_undoes_the_verification_of_a_producer(
        self, driver: Driver
    ) -> None:
        """Staged behind the end, the offsets would wait for one that never comes."""
        fences = driver.coordinator.fences
        guard = fences.verify(7)
        self.end(driver, 6, commit=True)
        with pytest.raises(CoordinatorUnavailableError, match="ended while it was verified"):
            fences.check_verified(7, guard)
        fences.check_verified(7, fences.verify(7))

    def test_the_epochs_of_coordinators_are_forgotten_after_a_day(self, driver: Driver) -> None:
        self.end(driver, 6, commit=True)
        assert driver.log
        out = Effects()
        driver.coordinator.fences.expire(driver.now_ms + FENCE_MS, out)
        driver.apply(out)
        assert not driver.log


class TestDeleting:
    def delete(self, driver: Driver, *parts: TopicPartition) -> list[object]:
        token = driver.token()
        driver.apply(driver.coordinator.delete_offsets("g", parts, token))
        return [error for _, error in driver.result(token).partitions]

    def test_offsets_of_a_topic_that_is_still_read_stay(self, driver: Driver) -> None:
        driver.commit(("t", 0, 5), ("old", 0, 5))
        driver.stable()
        errors = self.delete(driver, T0, TopicPartition("old", 0), TopicPartition("never", 0))
        assert [type(error) for error in errors] == [GroupSubscribedError, type(None), type(None)]
        assert driver.offset("t", 0) == 5
        assert driver.offset("old", 0) is None

    def test_offsets_of_a_live_group_of_another_type_stay(self, driver: Driver) -> None:
        driver.commit(("t", 0, 5))
        driver.stable(protocol_type="connect", protocols=(("v", b""),))
        with pytest.raises(NonEmptyGroupError):
            self.delete(driver, T0)

    def test_offsets_of_an_empty_group_can_be_deleted(self, driver: Driver) -> None:
        driver.commit(("t", 0, 5))
        self.delete(driver, T0)
        assert driver.log == {}

    def test_offsets_of_no_group_cannot_be_deleted(self, driver: Driver) -> None:
        with pytest.raises(GroupNotFoundError):
            self.delete(driver, T0)

    def test_offsets_of_a_deleted_topic_go_in_every_group(self, driver: Driver) -> None:
        driver.commit(("t", 0, 5), ("u", 0, 1))
        driver.commit(("t", 0, 5), group_id="h")
        driver.apply(driver.coordinator.delete_topics(["t"]))
        assert driver.offset("t", 0) is None
        assert driver.offset("t", 0, "h") is None
        assert driver.offset("u", 0) == 1


class TestExpiry:
    def test_offsets_expire_a_week_after_the_last_member_left(self, driver: Driver) -> None:
        member = driver.stable()[0]
        driver.commit(("t", 0, 5), member_id=member, generation_or_epoch=1)
        for _ in range(30):
            driver.advance(9_000)
            driver.result(driver.heartbeat(member, 1))
        driver.leave(member)
        driver.advance(7 * DAY_MS - 1)
        assert driver.offset("t", 0) == 5
        driver.advance(11 * 60_000)
        assert driver.offset("t", 0) is None
        assert driver.state() == "missing"
        assert driver.log == {}

    def test_the_week_goes_on_across_a_restart(self, driver: Driver) -> None:
        member = driver.stable()[0]
        driver.commit(("t", 0, 5), member_id=member, generation_or_epoch=1)
        driver.leave(member)
        driver.advance(6 * DAY_MS)
        driver.restart()
        driver.advance(DAY_MS + 11 * 60_000)
        assert driver.log == {}

    def test_a_commit_into_a_long_empty_group_lives_a_week_of_its_own(self, driver: Driver) -> None:
        driver.leave(driver.stable()[0])
        driver.commit(("t", 0, 5))
        driver.advance(6 * DAY_MS)
        driver.commit(("t", 1, 5))
        driver.advance(2 * DAY_MS)
        assert driver.offset("t", 0) is None
        assert driver.offset("t", 1) == 5

    def test_offsets_of_topics_that_a_live_group_reads_never_expire(self) -> None:
        driver = Driver(GroupSettings(initial_rebalance_delay_ms=0, offsets_retention_ms=60_000))
        driver.commit(("t", 0, 5), ("dropped", 0, 5))
        member = driver.stable(protocols=(("range", metadata("t")),))[0]
        for _ in range(100):
            driver.advance(9_000)
            driver.result(driver.heartbeat(member, 1))
        assert driver.offset("t", 0) == 5
        assert driver.offset("dropped", 0) is None

    def test_a_retention_that_the_client_asks_for_counts_instead(self, driver: Driver) -> None:
        driver.commit(("t", 0, 5), retention_ms=30 * 60_000)
        driver.advance(29 * 60_000)
        assert driver.offset("t", 0) == 5
        driver.advance(12 * 60_000)
        assert driver.offset("t", 0) is None

    def test_an_empty_group_without_offsets_goes_at_the_next_look(self) -> None:
        driver = Driver(AT_ONCE)
        driver.leave(driver.stable()[0])
        assert driver.state() == "Empty"
        driver.advance(11 * 60_000)
        assert driver.state() == "missing"

    def test_an_offset_with_an_open_transaction_does_not_expire(self, driver: Driver) -> None:
        driver.commit(("t", 0, 1))
        TestTransactions().stage(driver, 5)
        driver.advance(8 * DAY_MS)
        assert driver.offset("t", 0) == 1
