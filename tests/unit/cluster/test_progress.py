"""The leader's side of a partition: high watermark and in-sync set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.cluster.metadata import Revision
from goqueue.cluster.progress import ALONE_S, REPLICA_LAG_S, LeaderProgress
from goqueue.cluster.records import NodeState, PartitionRecord, decode
from goqueue.model.errors import InvariantError
from support.cluster_views import KEY, ViewMaker, tokens

if TYPE_CHECKING:
    from goqueue.cluster.proposals import Proposal


def leading(
    maker: ViewMaker, isr: tuple[int, ...] = (1, 2, 3), end: int = 0, **rest: Any
) -> LeaderProgress:
    stored = maker.partition(isr, **rest)
    return LeaderProgress(KEY, 1, stored, end=end, high_watermark=0, now_s=0.0, token=tokens())


def run_of(maker: ViewMaker, node_id: int) -> int:
    return maker.view.nodes[node_id].incarnation


def fetch(
    progress: LeaderProgress, maker: ViewMaker, node_id: int, position: int, now_s: float = 0.0
) -> None:
    progress.fetched(node_id, run_of(maker, node_id), position, now_s)


def store(maker: ViewMaker, proposal: Proposal) -> Revision:
    """Do what a proposal asks for; the view shows it at once."""
    (put,) = proposal.operations
    return maker.put(put.key, decode(put.value, PartitionRecord, put.key))  # type: ignore[union-attr]


def test_the_high_watermark_is_the_lowest_position_in_sync() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker)
    progress.appended(10)
    fetch(progress, maker, 2, 8)
    assert progress.hw == 0
    fetch(progress, maker, 3, 5)
    assert progress.hw == 5
    fetch(progress, maker, 3, 10)
    assert progress.hw == 8


def test_the_leader_counts_on_its_own_disk_only_where_it_is_told_so() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1, 2))
    progress.appended(10, position=4)
    fetch(progress, maker, 2, 10)
    assert progress.hw == 4
    assert progress.appended(10)
    assert progress.hw == 10


def test_nothing_is_committed_below_min_isr() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1,))
    progress.appended(10)
    assert progress.is_short
    assert progress.hw == 0


def test_a_replication_factor_below_min_isr_asks_for_every_replica_only() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1,), replicas=(1,), min_isr=2)
    progress.appended(10)
    assert progress.hw == 10


def test_a_replica_that_is_added_is_waited_for_before_that_is_stored() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1, 2))
    fetch(progress, maker, 3, 0)
    proposal = progress.tick(1.0, maker.view)
    assert proposal is not None
    assert progress.isr == (1, 2)
    assert progress.maximal == {1, 2, 3}
    progress.appended(10)
    fetch(progress, maker, 2, 10, 1.0)
    assert progress.hw == 0
    progress.unknown(proposal)
    fetch(progress, maker, 2, 10, 1.0)
    assert progress.hw == 0, "it may have been stored"


def test_a_replica_that_is_removed_is_waited_for_until_that_is_stored() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker)
    progress.appended(10)
    fetch(progress, maker, 2, 10)
    maker.fence(3)
    proposal = progress.tick(1.0, maker.view)
    assert proposal is not None
    assert progress.hw == 0
    assert progress.committed(proposal, Revision(99))
    assert (progress.isr, progress.hw) == ((1, 2), 10)


def test_an_entry_is_conditioned_on_the_registrations_of_both_nodes() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1, 2))
    fetch(progress, maker, 3, 0)
    proposal = progress.tick(1.0, maker.view)
    assert proposal is not None
    assert {each.key for each in proposal.conditions} == {"nodes/1", "nodes/3", str(KEY)}


def test_a_replica_enters_only_from_the_start_of_the_epoch_on() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1, 2), end=20)
    fetch(progress, maker, 3, 19)
    assert progress.tick(1.0, maker.view) is None
    fetch(progress, maker, 3, 20)
    assert progress.tick(1.0, maker.view) is not None


def test_a_replica_enters_only_in_the_run_that_is_registered() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1, 2))
    fetch(progress, maker, 3, 0)
    maker.node(3)
    assert progress.tick(1.0, maker.view) is None
    fetch(progress, maker, 3, 0)
    assert progress.tick(1.0, maker.view) is not None


@pytest.mark.parametrize("state", [NodeState.STARTING, NodeState.STOPPING])
def test_only_active_nodes_enter(state: NodeState) -> None:
    maker = ViewMaker(1, 2, 3)
    maker.node(3, state)
    progress = leading(maker, (1, 2))
    fetch(progress, maker, 3, 0)
    assert progress.tick(1.0, maker.view) is None


def test_a_fetch_of_an_earlier_run_or_of_a_stranger_does_not_count() -> None:
    maker = ViewMaker(1, 2, 3, 4)
    progress = leading(maker, (1, 2))
    progress.appended(10)
    old = run_of(maker, 2)
    new = maker.node(2)
    progress.fetched(2, new, 3, 0.0)
    assert not progress.is_current(2, old)
    assert not progress.fetched(2, old, 10, 0.0)
    assert not progress.is_current(4, run_of(maker, 4))
    assert progress.hw == 3


def test_a_follower_that_lags_for_too_long_leaves_and_stays_eligible() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1, 2))
    progress.appended(10)
    fetch(progress, maker, 2, 5, 1.0)
    assert progress.tick(REPLICA_LAG_S - 0.1, maker.view) is None
    fetch(progress, maker, 2, 6, REPLICA_LAG_S)
    proposal = progress.tick(REPLICA_LAG_S + 2.0, maker.view)
    assert proposal is not None
    store(maker, proposal)
    record = maker.view.partitions[KEY].value
    assert (record.isr, record.elr) == ((1,), (2,))


def test_a_follower_that_reaches_where_the_log_ended_at_its_last_fetch_had_caught_up() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1, 2))
    for turn in range(1, 30):
        progress.appended(turn * 10)
        fetch(progress, maker, 2, (turn - 1) * 10, float(turn))
        assert progress.tick(float(turn), maker.view) is None


def test_a_follower_that_lost_what_is_committed_leaves_and_is_not_eligible() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1, 2))
    progress.appended(10)
    fetch(progress, maker, 2, 10)
    fetch(progress, maker, 2, 4)
    proposal = progress.tick(1.0, maker.view)
    assert proposal is not None
    store(maker, proposal)
    assert maker.view.partitions[KEY].value.elr == ()
    assert progress.hw == 10


def test_a_proposal_with_a_lost_answer_is_sent_again_and_its_token_tells() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1, 2))
    fetch(progress, maker, 3, 0)
    proposal = progress.tick(1.0, maker.view)
    assert proposal is not None
    assert progress.tick(1.5, maker.view) is None, "its answer is awaited"
    stale = maker.view.partitions[KEY]
    store(maker, proposal)
    current = maker.conflict(proposal)
    maker.view.partitions[KEY] = stale  # the watch is late
    progress.unknown(proposal)
    assert progress.tick(2.0, maker.view) is proposal
    progress.conflicted(proposal, current)
    assert progress.is_leading
    assert progress.isr == (1, 2, 3)
    assert not progress.is_pending


def test_a_conflict_over_a_registration_drops_the_proposal() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1, 2))
    fetch(progress, maker, 3, 0)
    proposal = progress.tick(1.0, maker.view)
    assert proposal is not None
    maker.node(3)
    progress.conflicted(proposal, maker.conflict(proposal))
    assert progress.maximal == {1, 2}
    assert progress.is_leading


def test_a_leader_steps_down_when_the_record_shows_another_epoch() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker)
    maker.partition((1, 2, 3), 1, epoch=1)
    assert progress.tick(1.0, maker.view) is None
    assert not progress.is_leading


def test_an_older_record_than_the_known_one_is_ignored() -> None:
    maker = ViewMaker(1, 2, 3)
    old = maker.partition((1, 2, 3))
    progress = leading(maker, (1, 2))
    progress.observed(old)
    assert progress.isr == (1, 2)


def test_a_deleted_record_ends_leadership() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1, 2))
    fetch(progress, maker, 3, 0)
    proposal = progress.tick(1.0, maker.view)
    assert proposal is not None
    maker.put(str(KEY), None)
    progress.conflicted(proposal, maker.conflict(proposal))
    assert not progress.is_leading


def test_a_leader_forgets_who_was_struck_before_its_time() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker, (1,), struck=(2, 3))
    proposal = progress.tick(1.0, maker.view)
    assert proposal is not None
    store(maker, proposal)
    assert maker.view.partitions[KEY].value.struck == ()
    assert progress.tick(2.0, maker.view) is None


def test_a_leader_resigns_to_an_in_sync_replica() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker)
    proposal = progress.resign(1.0, maker.view)
    assert proposal is not None
    progress.committed(proposal, store(maker, proposal))
    assert not progress.is_leading
    assert maker.view.partitions[KEY].value.leader == 2


def test_a_leader_is_alone_when_neither_followers_nor_the_store_are_heard() -> None:
    maker = ViewMaker(1, 2, 3)
    progress = leading(maker)
    later_s = ALONE_S + 1.0
    assert progress.is_alone(later_s, 0.0)
    assert not progress.is_alone(later_s, later_s - 1.0)
    fetch(progress, maker, 3, 0, later_s - 1.0)
    assert not progress.is_alone(later_s, 0.0)
    assert not leading(maker, (1,)).is_alone(later_s, 0.0), "there is nobody to be heard"


def test_a_broken_invariant_is_told() -> None:
    progress = leading(ViewMaker(1, 2, 3))
    progress.hw = 5
    with pytest.raises(InvariantError):
        progress.check_invariants()


class LeaderTwin(RuleBasedStateMachine):
    """A store that answers late or not at all, and a check against what is really stored."""

    @initialize(min_isr=st.integers(1, 3))
    def begin(self, min_isr: int) -> None:
        self.maker = ViewMaker(1, 2, 3)
        self.progress = leading(self.maker, min_isr=min_isr)
        self.now_s = 0.0
        self.ends = {1: 0, 2: 0, 3: 0}
        self.waiting: Proposal | None = None
        self.hw = 0

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.ends[1] += count
        self.progress.appended(self.ends[1])

    @rule(node=st.sampled_from((2, 3)), count=st.integers(0, 4))
    def fetch(self, node: int, count: int) -> None:
        self.ends[node] = min(self.ends[1], self.ends[node] + count)
        fetch(self.progress, self.maker, node, self.ends[node], self.now_s)

    @rule(late_s=st.sampled_from((0.2, 1.0, 11.0)))
    def tick(self, late_s: float) -> None:
        self.now_s += late_s
        if self.waiting is None:
            self.waiting = self.progress.tick(self.now_s, self.maker.view)

    @rule(is_stored=st.booleans(), is_told=st.booleans())
    def answer(self, is_stored: bool, is_told: bool) -> None:
        if self.waiting is None:
            return
        proposal, self.waiting = self.waiting, None
        entry = self.maker.entries[str(KEY)]
        fits = all(
            self.maker.entries[each.key].revision == each.revision for each in proposal.conditions
        )
        if is_stored and fits:
            shown = self.maker.view.partitions[KEY]
            revision = store(self.maker, proposal)
            if is_told:
                self.progress.committed(proposal, revision)
                return
            self.maker.view.partitions[KEY] = shown
        elif not fits and is_told:
            self.progress.conflicted(proposal, self.maker.conflict(proposal))
            return
        del entry
        self.progress.unknown(proposal)

    @invariant()
    def committed_is_in_every_log_that_is_counted_on(self) -> None:
        if not hasattr(self, "progress"):
            return
        self.progress.check_invariants()
        assert self.progress.hw >= self.hw
        stored = self.maker.entries[str(KEY)]
        record = decode(stored.value, PartitionRecord, stored.key)
        if self.progress.hw > self.hw:
            for node in (*record.isr, *record.elr):
                assert self.ends[node] >= self.progress.hw
        self.hw = self.progress.hw


TestLeaderTwin = LeaderTwin.TestCase
