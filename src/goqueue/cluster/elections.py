"""Who may lead a partition: pure functions from a record and a view to the next record.

The rules, each of which a planted mistake in `tests/simulation` breaks:

- Every in-sync replica has all that is committed; so has every eligible leader (ELR, KIP-966), for
  nothing is committed while the in-sync set is smaller than `required`.
- A leader comes from the in-sync set, else from the eligible ones, else there is none.
- A replica that came back without all it had is struck from both before anything else is decided.
- An epoch grows whenever the leader changes, to none and to itself included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from goqueue.cluster.proposals import PartitionChange, bundles
from goqueue.cluster.records import NodeState, new_token
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from goqueue.cluster.proposals import Proposal
    from goqueue.cluster.records import PartitionKey, PartitionRecord
    from goqueue.cluster.view import ClusterView, Stored


class LogEnd(NamedTuple):
    """How far a replica's log reaches."""

    last_epoch: int
    """The epoch of its last record, -1 without one."""
    end: int
    start: int = 0
    """Everything below was committed, for nothing else is removed."""
    incarnation: int = 0
    """Of the run of the node that said so: another one may have less."""


# --- The in-sync set ------------------------------------------------------------------------------


def required(record: PartitionRecord) -> int:
    """How many replicas must be in sync before anything is committed."""
    return min(record.min_isr, len(record.replicas))


def with_isr(
    record: PartitionRecord, isr: Collection[int], lost: Collection[int] = ()
) -> PartitionRecord:
    """The same with another in-sync set; who left it stays eligible while nothing is committed.

    `lost` are replicas that lack something which is committed: they are eligible for nothing.
    """
    kept = tuple(each for each in record.replicas if each in isr)
    eligible: tuple[int, ...] = ()
    if len(kept) < required(record):
        had_all = {*record.isr, *record.elr}.difference(kept, lost)
        eligible = tuple(each for each in record.replicas if each in had_all)
    return replace(record, isr=kept, elr=eligible, struck=())


def with_min_isr(record: PartitionRecord, min_isr: int) -> PartitionRecord:
    """The same after `min.insync.replicas` was changed.

    Nobody stays eligible: under the new value something may be committed without them.
    """
    return replace(record, min_isr=min_isr, elr=())


def strike(record: PartitionRecord, node_id: int) -> PartitionRecord | None:
    """The same after a replica has lost data; None when the record promises nothing of it.

    The last one stays in the in-sync set, noted as struck: it is the best that there is, and
    `recovered` decides. A leader that is struck leads no longer.
    """
    promised = node_id in record.isr or node_id in record.elr
    if not promised or (node_id in record.struck and record.isr == (node_id,)):
        return None
    struck = tuple(each for each in record.replicas if each in {*record.struck, node_id})
    left = replace(record, struck=struck)
    if record.leader == node_id:
        left = replace(
            left, leader=None, leader_incarnation=0, epoch=record.epoch + 1, last_leader=node_id
        )
    isr = tuple(each for each in record.isr if each != node_id)
    elr = tuple(each for each in record.elr if each != node_id)
    if isr:
        return replace(with_isr(left, isr, struck), struck=struck)
    # Eligible leaders have all that is committed; without a leader the two sets are one.
    return replace(left, isr=elr or (node_id,), elr=())


def strikes(
    view: ClusterView,
    node_id: int,
    token: Callable[[], str] = new_token,
    keys: Collection[PartitionKey] | None = None,
) -> Iterator[Proposal]:
    """What a node that lost data puts into the store before it may be active.

    `keys` are the partitions it lost data of; all, when None. The node has registered anew before:
    a fetch that it sent when it had the data must not bring it into an in-sync set afterwards.
    """
    changes = (
        PartitionChange(key, stored.revision, struck, frozenset({node_id}))
        for key, stored in view.partitions.items()
        if (keys is None or key in keys) and (struck := strike(stored.value, node_id)) is not None
    )
    return bundles("strike", changes, view, token)


# --- Electing -------------------------------------------------------------------------------------


def may_lead(stored: Stored[PartitionRecord], node_id: int, incarnation: int) -> bool:
    """Whether this run of a node leads: an earlier run's epoch is never resumed."""
    record = stored.value
    return record.leader == node_id and record.leader_incarnation == incarnation


def needs_leader(stored: Stored[PartitionRecord], view: ClusterView) -> bool:
    """Whether nobody leads, or a node that is gone, or one that was started since."""
    leader = stored.value.leader
    if leader is None or not view.is_alive(leader):
        return True
    node = view.nodes[leader]
    is_other_run = node.incarnation != stored.value.leader_incarnation
    return node.record.state is NodeState.STARTING or is_other_run


def elected(stored: Stored[PartitionRecord], view: ClusterView) -> PartitionRecord | None:
    """The record as it should be in this view; None when it is.

    Replicas that lost data are struck, a leader that is gone is replaced, and with it every member
    of the in-sync set that is gone too. Without a candidate everybody stays where they are.
    """
    record = stored.value
    for node_id in (*record.isr, *record.elr):
        if _lost_data(node_id, view):
            record = strike(record, node_id) or record
    if not needs_leader(stored._replace(value=record), view):
        return None if record == stored.value else record
    leader = next(iter(candidates(record, view)), None)
    if leader is not None:
        alive = {each for each in record.isr if view.is_active(each)}
        new = with_isr(record, alive | {leader}, record.struck)
        # Whoever is elected may be gone already: only a leader that acts forgets who was struck.
        return led_by(replace(new, struck=record.struck), leader, stored.value, view)
    if record.leader is not None:
        record = led_by(record, None, stored.value, view)
    return None if record == stored.value else record


def candidates(record: PartitionRecord, view: ClusterView) -> Iterator[int]:
    """Who may lead without a loss, the best first: the in-sync, then the eligible.

    Among each, those with room on their disks come first.
    """
    for group in (record.isr, record.elr):
        for node_id in sorted(record.replicas, key=view.is_full):
            if node_id in group and node_id not in record.struck and view.is_active(node_id):
                yield node_id


def led_by(
    record: PartitionRecord, leader: int | None, before: PartitionRecord, view: ClusterView
) -> PartitionRecord:
    """The same with another leader, in the epoch after the one that `before` was in."""
    return replace(
        record,
        leader=leader,
        epoch=before.epoch + 1,
        leader_incarnation=0 if leader is None else view.nodes[leader].incarnation,
        last_leader=before.last_leader if before.leader is None else before.leader,
    )


def preferred(stored: Stored[PartitionRecord], view: ClusterView) -> PartitionRecord | None:
    """The record led by its preferred replica; None when it is, or may not be."""
    record = stored.value
    best = record.preferred
    if record.leader in {None, best} or best not in record.isr or not view.is_active(best):
        return None
    if view.is_full(best):
        return None
    return led_by(record, best, record, view)


def handed_over(
    record: PartitionRecord, view: ClusterView, *, lost: bool = False
) -> PartitionRecord | None:
    """The record after its leader has gone of its own accord; None without a successor.

    `lost`: the leader's log failed, so it is eligible no more.
    """
    leader = record.leader
    successor = next((each for each in candidates(record, view) if each != leader), None)
    if leader is None or successor is None:
        return None
    isr = {each for each in record.isr if each != leader} | {successor}
    return led_by(with_isr(record, isr, {leader} if lost else ()), successor, record, view)


def expelled(record: PartitionRecord, node_id: int, view: ClusterView) -> PartitionRecord | None:
    """The record after a follower has found what it has damaged; None while nobody else leads.

    The leader stays, in the next epoch: what the follower has fetched in this one, or the leader is
    about to conclude from it, counts nowhere then.
    """
    leader = record.leader
    if leader is None or leader == node_id or not view.is_active(leader):
        return None
    if view.nodes[leader].incarnation != record.leader_incarnation:
        return None  # it leads in no epoch of this run: the controller decides
    return led_by(strike(record, node_id) or record, leader, record, view)


def is_counted(record: PartitionRecord, node_id: int, fetched_in: int) -> bool:
    """Whether a replica is counted on, or may be, for what it has fetched in an epoch or before.

    Out of sync, it may be about to enter: the leader of that epoch has heard of what it had.
    """
    promised = node_id in record.isr or node_id in record.elr
    return promised or (record.leader is not None and record.epoch <= fetched_in)


def given_up(record: PartitionRecord, node_id: int, view: ClusterView) -> PartitionRecord | None:
    """The record after the log of a replica has failed that does not lead; None for the moment.

    While a leader is about to go, nothing is written: in its epoch it would count what the replica
    has fetched, bring it back, and leave the partition to it.
    """
    if record.leader is None or record.leader == node_id:
        return strike(record, node_id)
    return expelled(record, node_id, view)


def is_relievable(record: PartitionRecord, view: ClusterView) -> bool:
    """Whether a leader without room on its disk has a successor that has some."""
    successor = next((each for each in candidates(record, view) if each != record.leader), None)
    return successor is not None and not view.is_full(successor)


def _lost_data(node_id: int, view: ClusterView) -> bool:
    node = view.nodes.get(node_id)
    return node is not None and not node.record.is_clean and node.record.state is NodeState.STARTING


# --- When everybody lost data ---------------------------------------------------------------------


def is_recoverable(stored: Stored[PartitionRecord], view: ClusterView) -> bool:
    """Whether all who were in sync or eligible have lost something, and all of them are back."""
    record = stored.value
    last: Iterable[int] = {*record.isr, *record.elr}
    return (
        record.leader is None
        and set(record.struck).issuperset(last)
        and all(view.is_active(each) for each in record.struck)
    )


def recovered(
    record: PartitionRecord, ends: Mapping[int, LogEnd], view: ClusterView
) -> PartitionRecord:
    """The record led by the replica whose log reaches furthest; what the others have is lost.

    That is the newest epoch, then the greatest end, among those that reach where every log starts:
    a log that was trimmed to its end has no record left to tell an epoch. The others stay noted as
    struck until it acts: should it have lost its disk since it was asked, they are asked again.
    """
    floor = max(each.start for each in ends.values())
    best = max(
        (each for each in record.replicas if each in ends and ends[each].end >= floor),
        key=lambda each: (*ends[each][:2], -record.replicas.index(each)),
    )
    others = tuple(each for each in record.struck if each != best)
    return led_by(replace(record, isr=(best,), elr=(), struck=others), best, record, view)
