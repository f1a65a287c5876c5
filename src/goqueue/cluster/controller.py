"""What the controller decides: who is fenced, who leads, which records go.

The controller is whoever wrote the record `controller` last. Everything it writes is conditioned on
that record's revision: a controller that was replaced while it was paused changes nothing. Beside
that, each record is conditioned on the revision that was decided on, and each new leader on its
registration.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from goqueue.cluster import elections
from goqueue.cluster.metadata import ABSENT, Condition, Put
from goqueue.cluster.proposals import (
    PARTITIONS_PER_TRANSACTION,
    PartitionChange,
    Proposal,
    bundles,
    registration,
)
from goqueue.cluster.records import (
    CONTROLLER,
    ControllerRecord,
    Fence,
    PartitionKey,
    encode,
    fence_key,
    new_token,
)
from goqueue.cluster.suspicion import Lapses
from goqueue.cluster.units import NO_UNITS, handed_out, members, reunited
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from uuid import UUID

    from goqueue.cluster.elections import LogEnd
    from goqueue.cluster.metadata import Entry, Revision
    from goqueue.cluster.records import PartitionRecord
    from goqueue.cluster.units import Units
    from goqueue.cluster.view import ClusterView, Stored

RESEND_S: Final = 0.2
"""How long after it was last sent a proposal with a lost answer is sent again."""

PREFERRED_EVERY_S: Final = 60.0
PREFERRED_AFTER_JOIN_S: Final = 30.0
PREFERRED_PAUSE_S: Final = 1.0
"""Between two steps of moving leaders to their preferred replicas."""

PREFERRED_SHARE: Final = 10
"""At most one partition in so many changes its leader in a step."""

SWEEP_S: Final = 1.0
"""How often records without a topic are looked for."""

ORPHAN_S: Final = 120.0
"""Records without a topic go after so long; a topic that is being created has its records first."""


class Inquiry(NamedTuple):
    """A partition of which every replica lost something, whose nodes are to be asked what is left.

    What they answer counts while the record is the one that they were asked about.
    """

    key: PartitionKey
    revision: Revision
    nodes: tuple[int, ...]


class _Sent:
    """A proposal that may be under way."""

    def __init__(self, proposal: Proposal, now_s: float) -> None:
        self.proposal = proposal
        self.sent_s = now_s
        self.is_lost = False
        """Whether its answer was lost."""


class ControllerCore:
    """Views in, transactions out.

    The shell sends every proposal, in any order and together, and tells each result by `committed`,
    `conflicted` or `unknown`. A proposal whose answer was lost is returned again, as it was.
    """

    def __init__(self, node_id: int, token: Callable[[], str] = new_token) -> None:
        self.node_id = node_id
        self.epoch = 0
        self.revision: Revision | None = None
        """Of the record `controller` that this node wrote; None while another is controller."""
        self._token = token
        self._taking: ControllerRecord | None = None
        self._sent: dict[str, _Sent] = {}
        """By token: at most one for each key that there is."""
        self._busy: set[str] = set()
        """The keys that they change."""
        self._await: dict[str, Revision] = {}
        """Keys that were written, until the view shows them so."""
        self._scanned: Revision | None = None
        self._active: frozenset[int] = frozenset()
        self._preferred_s: float | None = None
        self._orphans: dict[PartitionKey, float] = {}
        self._swept_s = -SWEEP_S
        self._lapses = Lapses(node_id)

    @property
    def is_controller(self) -> bool:
        """Whether this node is the controller, as far as it knows."""
        return self.revision is not None

    # --- Becoming the controller -----------------------------------------------------------------

    def take(self, view: ClusterView, incarnation: int, now_s: float) -> Proposal | None:
        """Try to become the controller, when `Suspicion.may_take`; None while that is under way.

        An answer that was lost is resolved by `decide`.
        """
        if self.is_controller or self.node_id not in view.nodes:
            return None
        if self._taking is not None:
            return None
        held = view.controller
        token = self._token()
        epoch = 1 if held is None else held.value.epoch + 1
        self._taking = ControllerRecord(self.node_id, epoch, incarnation, token)
        conditions = (
            Condition(CONTROLLER, ABSENT if held is None else held.revision),
            registration(view, self.node_id),
        )
        operations = (Put(CONTROLLER, encode(self._taking)),)
        return self._send(Proposal("take", token, conditions, operations), now_s)

    def deposed(self) -> None:
        """Another node is the controller: nothing that is under way can happen any more."""
        self.revision, self._taking, self._scanned = None, None, None
        self._sent.clear()
        self._busy.clear()
        self._await.clear()
        self._orphans.clear()

    # --- Deciding --------------------------------------------------------------------------------

    def decide(
        self,
        view: ClusterView,
        now_s: float,
        suspected: Collection[int] = (),
        topics: Mapping[UUID, int] | None = None,
        units: Units = NO_UNITS,
        *,
        lapsed: Collection[int] = (),
    ) -> list[Proposal]:
        """What must happen in this view; to be called whether or not this node is the controller.

        `suspected` are those whom `Suspicion.agreed` names, `topics` how many partitions each has;
        without them no record is swept. One node leads each of the `units`. `lapsed` are heard
        without being registered.
        """
        self._observe(view)
        if self.revision is None:
            return [*self._resend(now_s)]
        self._settle(view)
        proposals = [*self._resend(now_s)]
        proposals += self._fence(view, suspected, now_s)
        if self._lapses.note(view, lapsed, now_s):
            self._scanned = None
        if view.revision != self._scanned:
            self._scanned = view.revision
            proposals += self._propose("elect", self._elections(view, suspected), view, now_s)
            proposals += self._propose("unit", self._reunited(units, view), view, now_s)
        proposals += self._propose("preferred", self._preferred(units, view, now_s), view, now_s)
        if topics is not None:
            proposals += self._propose("sweep", self._sweep(view, topics, now_s), view, now_s)
        return proposals

    def inquiries(self, view: ClusterView) -> Iterator[Inquiry]:
        """What nodes are to be asked, so that one of them can lead what all lost something of."""
        return (
            Inquiry(key, stored.revision, stored.value.struck)
            for key, stored in view.partitions.items()
            if self._is_recoverable(key, stored, view)
        )

    def _is_recoverable(
        self, key: PartitionKey, stored: Stored[PartitionRecord], view: ClusterView
    ) -> bool:
        is_due = self.is_controller and self._is_free(key)
        return is_due and elections.is_recoverable(stored, view)

    def recover(
        self, inquiry: Inquiry, ends: Mapping[int, LogEnd], view: ClusterView, now_s: float
    ) -> Proposal | None:
        """Let the replica whose log reaches furthest lead, once every one of them has answered.

        None when they are to be asked again: a node that answered has been started anew since, and
        may have less now, or the record is another one.
        """
        key, stored = inquiry.key, view.partitions.get(inquiry.key)
        if stored is None or stored.revision != inquiry.revision:
            return None
        if not self._is_recoverable(key, stored, view) or ends.keys() != set(inquiry.nodes):
            return None
        if any(view.nodes[each].incarnation != end.incarnation for each, end in ends.items()):
            return None
        record = elections.recovered(stored.value, ends, view)
        change = PartitionChange(key, stored.revision, record, frozenset(ends))
        return next(self._propose("recover", iter([change]), view, now_s), None)

    # --- What the store answered -----------------------------------------------------------------

    def committed(self, proposal: Proposal, revision: Revision) -> None:
        """The proposal is stored at this revision."""
        if not self._answered(proposal):
            return
        if proposal.purpose == "take":
            self._taken(revision)
            return
        self._await.update(dict.fromkeys(proposal.keys, revision))
        self._scanned = None

    def conflicted(self, proposal: Proposal, current: Mapping[str, Entry | None]) -> None:
        """A condition did not hold; `current` is what is stored under the keys they named."""
        if not self._answered(proposal):
            return
        revision = proposal.found(current)
        if proposal.purpose == "take":
            if revision is None:
                self._taking = None
            else:
                self._taken(revision)
            return
        holder = current.get(CONTROLLER)
        if CONTROLLER in current and (holder is None or holder.revision != self.revision):
            self.deposed()
            return
        for key in proposal.keys:
            entry = current.get(key)
            if entry is not None:
                self._await[key] = entry.revision
        self._scanned = None

    def unknown(self, proposal: Proposal) -> None:
        """The answer was lost; the proposal is sent again as it is."""
        sent = self._sent.get(proposal.token)
        if sent is not None:
            sent.is_lost = True

    # --- Inside ----------------------------------------------------------------------------------

    def _taken(self, revision: Revision) -> None:
        taken, self._taking = self._taking, None
        if taken is not None:
            self.epoch, self.revision, self._scanned = taken.epoch, revision, None
            self._preferred_s = None

    def _send(self, proposal: Proposal, now_s: float) -> Proposal:
        self._sent[proposal.token] = _Sent(proposal, now_s)
        self._busy.update(proposal.keys)
        return proposal

    def _answered(self, proposal: Proposal) -> bool:
        if self._sent.pop(proposal.token, None) is None:
            return False
        self._busy.difference_update(proposal.keys)
        return True

    def _resend(self, now_s: float) -> Iterator[Proposal]:
        for sent in self._sent.values():
            if sent.is_lost and now_s - sent.sent_s >= RESEND_S:
                sent.is_lost, sent.sent_s = False, now_s
                yield sent.proposal

    def _propose(
        self, purpose: str, changes: Iterator[PartitionChange], view: ClusterView, now_s: float
    ) -> Iterator[Proposal]:
        if self.revision is None:
            return
        guard = (Condition(CONTROLLER, self.revision),)
        for proposal in bundles(purpose, changes, view, self._token, guard):
            yield self._send(proposal, now_s)

    def _observe(self, view: ClusterView) -> None:
        """Learn from the view who is the controller; it may show what an answer did not."""
        held = view.controller
        if held is None:
            return
        if self._taking is not None and held.value.token == self._taking.token:
            self._sent.pop(held.value.token, None)
            self._taken(held.revision)
        elif self.revision is not None and held.revision > self.revision:
            self.deposed()

    def _settle(self, view: ClusterView) -> None:
        """Forget the keys that the view shows as they were written."""
        for key, revision in list(self._await.items()):
            if view.revision >= revision:
                del self._await[key]

    def _is_free(self, key: PartitionKey) -> bool:
        """Whether nothing that this controller wrote, or may have written, is still to be seen."""
        name = str(key)
        return name not in self._await and name not in self._busy

    def _fence(
        self, view: ClusterView, suspected: Collection[int], now_s: float
    ) -> Iterator[Proposal]:
        for node_id in sorted(suspected):
            if node_id == self.node_id or not view.is_alive(node_id) or self.revision is None:
                continue
            key = fence_key(node_id)
            if key in self._await or key in self._busy:
                continue
            conditions = (Condition(CONTROLLER, self.revision), registration(view, node_id))
            fence = Fence(view.nodes[node_id].incarnation, "suspected by the controller")
            put = Put(key, encode(fence))
            yield self._send(Proposal("fence", self._token(), conditions, (put,)), now_s)

    def _elections(
        self, view: ClusterView, suspected: Collection[int]
    ) -> Iterator[PartitionChange]:
        for key, stored in view.partitions.items():
            record = elections.elected(stored, view)
            if record is None or not self._is_free(key):
                continue
            if self._lapses.is_returning(stored.value, view):
                continue
            if record.leader in suspected:
                self._scanned = None  # once it is fenced, or heard again
            else:
                yield _change(key, stored, record)

    def _reunited(self, units: Units, view: ClusterView) -> Iterator[PartitionChange]:
        moves = chain(reunited(units, view), handed_out(units, view))
        return (each for each in moves if self._is_free(each.key))

    def _preferred(
        self, units: Units, view: ClusterView, now_s: float
    ) -> Iterator[PartitionChange]:
        active = frozenset(node.node_id for node in view.active())
        if self._preferred_s is None:
            self._preferred_s = now_s + PREFERRED_EVERY_S
        if active - self._active:
            self._preferred_s = min(self._preferred_s, now_s + PREFERRED_AFTER_JOIN_S)
        self._active = active
        if now_s < self._preferred_s:
            return
        left = max(1, len(view.partitions) // PREFERRED_SHARE)
        self._preferred_s = now_s + PREFERRED_EVERY_S
        following = members(units)
        for key, stored in view.partitions.items():
            record = None if key in following else elections.preferred(stored, view)
            if record is None or not self._is_free(key):
                continue
            if not left:
                self._preferred_s = now_s + PREFERRED_PAUSE_S
                return
            left -= 1
            yield _change(key, stored, record)

    def _sweep(
        self, view: ClusterView, topics: Mapping[UUID, int], now_s: float
    ) -> Iterator[PartitionChange]:
        """Records of no topic, one transaction at a time, the first partitions first.

        Whoever makes a topic of many partitions writes its key only while the first of the new
        records is still there: so none is made of which others are gone.
        """
        is_under_way = any(sent.proposal.purpose == "sweep" for sent in self._sent.values())
        if is_under_way or now_s - self._swept_s < SWEEP_S:
            return
        orphans = sorted(
            key for key in view.partitions if key.partition >= topics.get(key.topic_id, 0)
        )
        self._orphans = {key: self._orphans.get(key, now_s) for key in orphans}
        due = [
            key
            for key, since_s in self._orphans.items()
            if now_s - since_s >= ORPHAN_S and self._is_free(key)
        ]
        if len(due) <= PARTITIONS_PER_TRANSACTION:
            self._swept_s = now_s
        for key in due[:PARTITIONS_PER_TRANSACTION]:
            yield PartitionChange(key, view.partitions[key].revision, None)


def _change(
    key: PartitionKey, stored: Stored[PartitionRecord], record: PartitionRecord
) -> PartitionChange:
    """A change that holds only while the new leader is registered as it was."""
    nodes = frozenset(() if record.leader is None else (record.leader,))
    return PartitionChange(key, stored.revision, record, nodes)
