"""How far the replicas of a partition have come, as its leader knows it; and who is in sync.

The high watermark is the offset below which everything is committed. It is the lowest position in
the *maximal* in-sync set: whoever is in the stored one, and whoever a proposal adds that may have
been committed already. A removal counts when it is known to be stored. While fewer replicas are in
sync than the record requires, the high watermark does not move (KIP-966).

`log_start <= high_watermark <= position <= log_end`; it never moves back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from goqueue.cluster.elections import handed_over, required, with_isr
from goqueue.cluster.proposals import PartitionChange, Proposal, bundles
from goqueue.cluster.records import NodeState, PartitionRecord, decode, new_token
from goqueue.cluster.view import Stored
from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goqueue.cluster.metadata import Entry, Revision
    from goqueue.cluster.records import PartitionKey
    from goqueue.cluster.view import ClusterView

REPLICA_LAG_S: Final = 10.0
"""A replica that has not caught up for so long leaves the in-sync set."""

UNREGISTERED_LAG_S: Final = 2.0
"""The same for one whose registration is gone; it may only have lost its session."""

RESEND_S: Final = 0.1
"""How long after it was last sent a proposal with a lost answer is sent again."""

ALONE_S: Final = 3.0
"""A leader that heard neither its followers nor the store for so long is probably cut off."""

_UNKNOWN: Final = -1


class FollowerProgress:
    """What the leader knows of one follower."""

    def __init__(self, now_s: float) -> None:
        self.position = _UNKNOWN
        """Where its last fetch began: it has everything below."""
        self.incarnation = 0
        self.caught_up_s = now_s
        """When it last had everything that the leader had."""
        self.fetched_s = now_s
        self._end_at_fetch = _UNKNOWN

    def fetched(self, incarnation: int, position: int, end: int, now_s: float) -> None:
        """Note a fetch; one that reaches the end of the fetch before had caught up by then."""
        if position >= end:
            self.caught_up_s = now_s
        elif position >= self._end_at_fetch >= 0:
            self.caught_up_s = max(self.caught_up_s, self.fetched_s)
        self.incarnation, self.position = incarnation, position
        self.fetched_s, self._end_at_fetch = now_s, end


class LeaderProgress:
    """One partition in one epoch of leadership.

    The shell calls `appended` and `fetched` as things happen and `tick` at least every 100 ms. It
    sends the proposal that `tick` returns and tells the result by `committed`, `conflicted` or
    `unknown`. It stops leading as soon as `is_leading` is false.
    """

    def __init__(
        self,
        key: PartitionKey,
        node_id: int,
        stored: Stored[PartitionRecord],
        *,
        end: int,
        position: int | None = None,
        high_watermark: int,
        now_s: float,
        lag_s: float = REPLICA_LAG_S,
        token: Callable[[], str] = new_token,
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.epoch = stored.value.epoch
        self.is_leading = True
        self.record = stored.value
        self.revision = stored.revision
        self.start = end
        """The end of the log when this epoch began. Everything committed before lies below."""
        self.end = end
        self.position = end if position is None else position
        """What this replica itself has: the end, or what is on its disk under `fsync=always`."""
        self.hw = min(high_watermark, end)
        self.followers = {
            each: FollowerProgress(now_s) for each in stored.value.replicas if each != node_id
        }
        self._lag_s = lag_s
        self._token = token
        self._pending: Proposal | None = None
        self._pending_record = stored.value
        self._is_sent = False
        """Whether the pending proposal's answer is awaited."""
        self._sent_s = now_s
        self._move()

    # --- What is known ---------------------------------------------------------------------------

    @property
    def isr(self) -> tuple[int, ...]:
        """The in-sync set as it is stored."""
        return self.record.isr

    @property
    def maximal(self) -> frozenset[int]:
        """Whoever may be in the in-sync set: what is stored, and what a proposal adds."""
        if self._pending is None:
            return frozenset(self.record.isr)
        return frozenset((*self.record.isr, *self._pending_record.isr))

    @property
    def is_short(self) -> bool:
        """Whether too few replicas are in sync for anything to be committed."""
        return len(self.record.isr) < required(self.record)

    @property
    def is_pending(self) -> bool:
        """Whether a proposal is under way whose outcome is not known."""
        return self._pending is not None

    def is_alone(self, now_s: float, store_heard_s: float) -> bool:
        """Whether neither a follower in sync nor the store was heard: every append is refused then.

        A leader without followers in sync may go on.
        """
        followers = [self.followers[each] for each in self.record.isr if each != self.node_id]
        newest_s = max((each.fetched_s for each in followers), default=now_s)
        return now_s - max(newest_s, store_heard_s) > ALONE_S

    # --- What happens ----------------------------------------------------------------------------

    def appended(self, end: int, position: int | None = None) -> bool:
        """The log reaches to `end`, and this replica has it up to `position` (all, when None).

        Returns whether the high watermark moved. To be called when more is on the disk, too.
        """
        self.end = end
        self.position = end if position is None else position
        return self._move()

    def fetched(self, node_id: int, incarnation: int, position: int, now_s: float) -> bool:
        """A follower asks for what lies at `position`, in this epoch, and does not diverge.

        Returns whether the high watermark moved. A fetch of an earlier run of the node, or of a
        node that holds no replica, is to be refused by the shell (`is_current`).
        """
        if not self.is_current(node_id, incarnation):
            return False
        self.followers[node_id].fetched(incarnation, position, self.end, now_s)
        return self._move()

    def is_current(self, node_id: int, incarnation: int) -> bool:
        """Whether a fetch comes from a replica, and not from a run of its node that is over."""
        follower = self.followers.get(node_id)
        return follower is not None and incarnation >= follower.incarnation

    def tick(self, now_s: float, view: ClusterView) -> Proposal | None:
        """What to propose to the store now, if anything; a proposal with a lost answer again."""
        self.observed(view.partitions.get(self.key))
        if not self.is_leading:
            return None
        if self._pending is not None:
            if self._is_sent or now_s - self._sent_s < RESEND_S:
                return None
            self._is_sent, self._sent_s = True, now_s
            return self._pending
        if now_s - self._sent_s < RESEND_S or self.node_id not in view.nodes:
            return None
        return self._propose_isr(now_s, view)

    def resign(self, now_s: float, view: ClusterView, *, lost: bool = False) -> Proposal | None:
        """Name a successor; None while a proposal is under way or when there is none.

        The shell has stopped appends, and waited a bounded time for the high watermark to reach the
        end. `lost`: this replica's log failed, and what it has is not to be counted on.
        """
        if not self.is_leading or self._pending is not None or self.node_id not in view.nodes:
            return None
        record = handed_over(self.record, view, lost=lost)
        if record is None or record.leader is None:
            return None
        nodes = frozenset({self.node_id, record.leader})
        return self._propose("resign", record, nodes, now_s, view)

    # --- What the store answered -----------------------------------------------------------------

    def committed(self, proposal: Proposal, revision: Revision) -> bool:
        """The proposal is stored at this revision. Returns whether the high watermark moved."""
        if proposal is not self._pending:
            return False
        return self._adopt(Stored(self._pending_record, revision))

    def conflicted(self, proposal: Proposal, current: Mapping[str, Entry | None]) -> bool:
        """A condition did not hold; `current` is what is stored. Returns whether the HW moved.

        A record with the proposal's own token means that it had been committed before.
        """
        if proposal is not self._pending:
            return False
        entry = current.get(str(self.key))
        if entry is None:
            self._step_down()
            return False
        if entry.revision > self.revision:
            record = decode(entry.value, PartitionRecord, entry.key)
            return self._adopt(Stored(record, entry.revision))
        # A registration changed; revisions only grow, so the proposal can never happen.
        self._pending = None
        return self._move()

    def unknown(self, proposal: Proposal) -> None:
        """The answer was lost: until it is known, both the old set and the new one hold."""
        if proposal is self._pending:
            self._is_sent = False

    def observed(self, stored: Stored[PartitionRecord] | None) -> bool:
        """A watch shows the record, maybe late. Returns whether the high watermark moved."""
        return stored is not None and self._adopt(stored)

    def deleted(self) -> None:
        """The record is gone, and the partition with it."""
        self._step_down()

    # --- Inside ----------------------------------------------------------------------------------

    def _move(self) -> bool:
        if self.is_short or not self.is_leading:
            return False
        lowest, followers = self.position, self.followers
        if lowest <= self.hw:
            return False
        members = self.record.isr if self._pending is None else self.maximal
        for node_id in members:
            if node_id != self.node_id and followers[node_id].position < lowest:
                lowest = followers[node_id].position
        if lowest <= self.hw:
            return False
        self.hw = lowest
        return True

    def _adopt(self, stored: Stored[PartitionRecord]) -> bool:
        if stored.revision <= self.revision:
            return False
        self._pending = None
        if stored.value.leader != self.node_id or stored.value.epoch != self.epoch:
            self._step_down()
            return False
        self.record, self.revision = stored.value, stored.revision
        for node_id in self.record.replicas:
            if node_id != self.node_id and node_id not in self.followers:
                self.followers[node_id] = FollowerProgress(self._sent_s)
        return self._move()

    def _step_down(self) -> None:
        self.is_leading = False
        self._pending = None

    def _propose_isr(self, now_s: float, view: ClusterView) -> Proposal | None:
        lost = {each for each in self.isr if self._has_lost(each)}
        gone = {each for each in self.isr if self._is_gone(each, now_s, view)}
        new = {each for each in self.followers if self._may_enter(each, now_s, view)}
        if not lost and not gone and not new and not self.record.struck:
            return None
        record = with_isr(self.record, {*self.isr, *new} - lost - gone, lost)
        return self._propose("isr", record, frozenset({self.node_id, *new}), now_s, view)

    def _propose(
        self,
        purpose: str,
        record: PartitionRecord,
        nodes: frozenset[int],
        now_s: float,
        view: ClusterView,
    ) -> Proposal:
        change = PartitionChange(self.key, self.revision, record, nodes)
        (proposal,) = bundles(purpose, [change], view, self._token)
        self._pending = proposal
        self._pending_record = replace(record, token=proposal.token)
        self._is_sent, self._sent_s = True, now_s
        return proposal

    def _has_lost(self, node_id: int) -> bool:
        """Whether a replica in sync asks for something that is committed: it lost it."""
        return node_id != self.node_id and 0 <= self.followers[node_id].position < self.hw

    def _is_gone(self, node_id: int, now_s: float, view: ClusterView) -> bool:
        if node_id == self.node_id:
            return False
        follower, node = self.followers[node_id], view.nodes.get(node_id)
        if now_s - follower.caught_up_s > self._lag_s or view.is_fenced(node_id):
            return True
        if node is None:
            return now_s - follower.fetched_s > UNREGISTERED_LAG_S
        return node.record.state is not NodeState.ACTIVE

    def _may_enter(self, node_id: int, now_s: float, view: ClusterView) -> bool:
        follower = self.followers[node_id]
        return (
            node_id not in self.record.isr
            and node_id in self.record.replicas
            and follower.position >= max(self.hw, self.start)
            and now_s - follower.fetched_s <= UNREGISTERED_LAG_S
            and view.is_active(node_id)
            and view.nodes[node_id].incarnation == follower.incarnation
        )

    def check_invariants(self) -> None:
        """Raise `InvariantError` when something that always holds does not."""
        if not self.hw <= self.end or self.position > self.end:
            raise InvariantError(
                f"{self.key}: high watermark {self.hw}, position {self.position}, end {self.end}"
            )
        if self.is_leading and self.node_id not in self.record.isr:
            raise InvariantError(f"{self.key}: its leader {self.node_id} is not in sync")
        if not set(self.record.isr) <= set(self.record.replicas):
            raise InvariantError(f"{self.key}: {self.record.isr} are not all replicas")
