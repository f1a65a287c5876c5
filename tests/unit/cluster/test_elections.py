"""Who may lead a partition."""

from __future__ import annotations

from goqueue.cluster import elections
from goqueue.cluster.elections import LogEnd
from goqueue.cluster.records import NodeState
from support.cluster_views import KEY, ViewMaker, tokens


def test_a_partition_with_a_live_leader_is_left_alone() -> None:
    maker = ViewMaker(1, 2, 3)
    assert elections.elected(maker.partition(), maker.view) is None


def test_a_dead_leader_is_replaced_by_an_in_sync_replica_in_a_new_epoch() -> None:
    maker = ViewMaker(1, 2, 3)
    stored = maker.partition(epoch=4)
    maker.gone(1)
    record = elections.elected(stored, maker.view)
    assert record is not None
    assert (record.leader, record.epoch, record.last_leader) == (2, 5, 1)
    assert (record.isr, record.elr) == ((2, 3), ())
    assert record.leader_incarnation == maker.view.nodes[2].incarnation


def test_who_leaves_an_in_sync_set_that_is_too_small_stays_eligible() -> None:
    maker = ViewMaker(1, 2, 3)
    stored = maker.partition((1, 2))
    maker.gone(1)
    record = elections.elected(stored, maker.view)
    assert record is not None
    assert (record.leader, record.isr, record.elr) == (2, (2,), (1,))


def test_an_eligible_replica_leads_when_nobody_in_sync_is_left() -> None:
    maker = ViewMaker(1, 2, 3)
    stored = maker.partition((1,), elr=(3,))
    maker.gone(1)
    record = elections.elected(stored, maker.view)
    assert record is not None
    assert (record.leader, record.isr, record.elr) == (3, (3,), (1,))


def test_nobody_leads_when_neither_in_sync_nor_eligible_replicas_are_left() -> None:
    maker = ViewMaker(1, 2, 3)
    stored = maker.partition((1,), min_isr=1)
    maker.gone(1)
    record = elections.elected(stored, maker.view)
    assert record is not None
    assert (record.leader, record.isr, record.epoch) == (None, (1,), 1)
    again = maker.partition((1,), None, epoch=1, min_isr=1)
    assert elections.elected(again, maker.view) is None


def test_a_leader_that_was_restarted_leads_in_a_new_epoch_only() -> None:
    maker = ViewMaker(1, 2, 3)
    stored = maker.partition((1,), min_isr=1)
    run = maker.view.nodes[1].incarnation
    assert elections.may_lead(stored, 1, run)
    newer = maker.node(1)
    assert not elections.may_lead(stored, 1, newer)
    record = elections.elected(stored, maker.view)
    assert record is not None
    assert (record.leader, record.epoch, record.leader_incarnation) == (1, 1, newer)


def test_a_stopping_leader_is_left_to_hand_over_by_itself() -> None:
    maker = ViewMaker(1, 2, 3)
    stored = maker.partition()
    run = maker.view.nodes[1].incarnation
    maker.node(1, NodeState.STOPPING, incarnation=run)
    assert elections.elected(stored, maker.view) is None


def test_fenced_starting_and_stopping_nodes_are_not_elected() -> None:
    maker = ViewMaker(1, 2, 3)
    stored = maker.partition()
    maker.gone(1)
    maker.fence(2)
    maker.node(3, NodeState.STOPPING)
    record = elections.elected(stored, maker.view)
    assert record is not None
    assert record.leader is None


def test_a_replica_that_lost_data_is_struck_while_another_leads() -> None:
    maker = ViewMaker(1, 2, 3)
    stored = maker.partition()
    maker.node(3, NodeState.STARTING, is_clean=False)
    record = elections.elected(stored, maker.view)
    assert record is not None
    assert (record.leader, record.epoch, record.isr, record.struck) == (1, 0, (1, 2), (3,))


def test_the_last_replica_that_lost_data_makes_way_for_eligible_ones() -> None:
    maker = ViewMaker(1, 2, 3)
    stored = maker.partition((1,), elr=(2, 3))
    maker.node(1, NodeState.STARTING, is_clean=False)
    record = elections.elected(stored, maker.view)
    assert record is not None
    assert (record.leader, record.isr, record.elr) == (2, (2, 3), ())


def test_the_last_replica_that_lost_data_stays_noted() -> None:
    maker = ViewMaker(1, 2, 3)
    record = maker.partition((1,), min_isr=1).value
    struck = elections.strike(record, 1)
    assert struck is not None
    assert (struck.leader, struck.isr, struck.struck) == (None, (1,), (1,))
    assert elections.strike(struck, 1) is None
    assert elections.strike(record, 2) is None
    assert list(elections.candidates(struck, maker.view)) == []


def test_a_recovery_waits_for_everybody_who_was_in_sync_or_eligible() -> None:
    maker = ViewMaker(1, 2, 3)
    record = maker.partition((1, 2, 3)).value
    for node_id in (1, 2):
        record = elections.strike(record, node_id) or record
    maker.put(str(KEY), record)
    assert not elections.is_recoverable(maker.view.partitions[KEY], maker.view)
    record = elections.strike(record, 3) or record
    maker.put(str(KEY), record)
    assert elections.is_recoverable(maker.view.partitions[KEY], maker.view)
    maker.gone(2)
    assert not elections.is_recoverable(maker.view.partitions[KEY], maker.view)


def test_a_recovery_takes_the_log_of_the_newest_epoch_then_the_longest() -> None:
    maker = ViewMaker(1, 2, 3)
    record = maker.partition((3,), None, epoch=5, struck=(1, 2, 3)).value
    ends = {1: LogEnd(3, 90), 2: LogEnd(4, 20), 3: LogEnd(4, 21)}
    record = elections.recovered(record, ends, maker.view)
    assert (record.leader, record.isr, record.epoch, record.struck) == (3, (3,), 6, (1, 2))


def test_a_node_that_loses_its_disk_once_it_is_chosen_does_not_take_the_other_logs_along() -> None:
    maker = ViewMaker(1, 2, 3)
    before = maker.partition((3,), None, epoch=5, struck=(1, 2, 3)).value
    ends = {1: LogEnd(4, 19), 2: LogEnd(4, 20), 3: LogEnd(4, 21)}
    chosen = elections.recovered(before, ends, maker.view)
    record = elections.strike(chosen, 3)
    assert record is not None
    maker.put(str(KEY), record)
    assert elections.is_recoverable(maker.view.partitions[KEY], maker.view)
    record = elections.recovered(record, ends | {3: LogEnd(-1, 0)}, maker.view)
    assert record.leader == 2


def test_a_recovery_takes_no_log_that_ends_before_another_starts() -> None:
    maker = ViewMaker(1, 2, 3)
    record = maker.partition((3,), None, epoch=5, struck=(1, 2, 3)).value
    ends = {1: LogEnd(4, 20), 2: LogEnd(-1, 25, 25), 3: LogEnd(4, 19)}
    assert elections.recovered(record, ends, maker.view).leader == 2


def test_a_change_of_min_isr_ends_every_eligibility() -> None:
    record = ViewMaker(1, 2, 3).partition((1,), elr=(2, 3)).value
    changed = elections.with_min_isr(record, 1)
    assert (changed.min_isr, changed.elr, changed.isr) == (1, (), (1,))


def test_the_preferred_replica_leads_again_once_it_is_in_sync() -> None:
    maker = ViewMaker(1, 2, 3)
    record = elections.preferred(maker.partition((1, 2, 3), 2, epoch=3), maker.view)
    assert record is not None
    assert (record.leader, record.epoch, record.isr) == (1, 4, (1, 2, 3))
    assert elections.preferred(maker.partition((2, 3), 2), maker.view) is None
    assert elections.preferred(maker.partition((1, 2, 3), 1), maker.view) is None


def test_a_leader_that_resigns_leaves_the_in_sync_set() -> None:
    maker = ViewMaker(1, 2, 3)
    record = elections.handed_over(maker.partition((1, 2)).value, maker.view)
    assert record is not None
    assert (record.leader, record.isr, record.elr) == (2, (2,), (1,))
    failed = elections.handed_over(maker.partition((1, 2)).value, maker.view, lost=True)
    assert failed is not None
    assert (failed.leader, failed.isr, failed.elr) == (2, (2,), ())
    assert elections.handed_over(maker.partition((1,)).value, maker.view) is None


def test_a_follower_that_found_damage_leaves_under_the_same_leader_in_the_next_epoch() -> None:
    maker = ViewMaker(1, 2, 3)
    before = maker.partition((1, 2, 3)).value
    record = elections.expelled(before, 2, maker.view)
    assert record is not None
    assert (record.leader, record.epoch) == (1, before.epoch + 1)
    assert (record.isr, record.elr, record.struck) == ((1, 3), (), (2,))
    assert list(elections.candidates(record, maker.view)) == [1, 3]
    # Out of sync already: what the leader is about to conclude from a fetch must not count either.
    outside = elections.expelled(maker.partition((1, 3)).value, 2, maker.view)
    assert outside is not None
    assert (outside.isr, outside.epoch) == ((1, 3), before.epoch + 1)
    short = elections.expelled(maker.partition((1, 2)).value, 2, maker.view)
    assert short is not None
    assert (short.isr, short.elr) == ((1,), ())  # it lacks something, and is not eligible
    assert elections.expelled(before, 1, maker.view) is None  # a leader hands over instead


def test_a_failed_log_is_given_up_in_another_epoch_or_later() -> None:
    maker = ViewMaker(1, 2, 3)
    before = maker.partition((1, 2, 3)).value
    record = elections.given_up(before, 2, maker.view)
    assert record is not None
    assert (record.leader, record.epoch, record.isr) == (1, before.epoch + 1, (1, 3))
    own = elections.given_up(before, 1, maker.view)  # elected, and not leading yet
    assert own is not None
    assert (own.leader, own.epoch, own.isr) == (None, before.epoch + 1, (2, 3))
    maker.node(1, NodeState.STOPPING, incarnation=before.leader_incarnation)
    assert elections.given_up(before, 2, maker.view) is None, "it hands over first"


def test_a_replica_counts_until_no_leader_can_have_heard_of_what_it_had() -> None:
    maker = ViewMaker(1, 2, 3)
    record = maker.partition((1, 2)).value
    assert elections.is_counted(record, 2, -1)
    assert elections.is_counted(record, 3, record.epoch), "it may be about to enter"
    assert not elections.is_counted(record, 3, record.epoch - 1)
    nobody = elections.led_by(record, None, record, maker.view)
    assert not elections.is_counted(nobody, 3, nobody.epoch)


def test_a_node_is_struck_from_many_partitions_in_few_transactions() -> None:
    maker = ViewMaker(1, 2, 3)
    for number in range(130):
        maker.partition(key=KEY._replace(partition=number))
    proposals = list(elections.strikes(maker.view, 2, tokens()))
    assert [len(each.operations) for each in proposals] == [60, 60, 10]
    assert all(each.conditions[0].key == "nodes/2" for each in proposals)
    one = list(elections.strikes(maker.view, 2, tokens(), [KEY]))
    assert [each.keys for each in one] == [(str(KEY),)]
