"""Who is probably dead, from pings; a reason to try something, never a proof.

Every node pings every other from a thread of its own, so that a busy event loop is not taken for a
dead node; the ping carries the loop's lag instead. A node is suspected when a connection to it was
refused, when it was silent for a while, or when its loop has stood still. The controller fences a
suspect only when another live node agrees, or when no other is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from goqueue.cluster.records import PartitionRecord
    from goqueue.cluster.view import ClusterView

PING_S: Final = 0.1
SILENCE_S: Final = 0.7
"""A node is suspected after so long without a ping from it."""

LOOP_LAG_MS: Final = 3000
"""A node is suspected when its event loop has stood still for so long."""

OWN_PAUSE_S: Final = 0.35
"""A longer gap between two own ticks means that this node was paused, and heard nobody for it."""

RETURN_S: Final = 3.0
"""How long a leader that is heard may be without a registration before another one is elected."""


class Ping(NamedTuple):
    """What nodes tell each other ten times a second."""

    node: int
    incarnation: int
    sequence: int
    wall_ms: int
    """The sender's wall clock, to measure skew."""
    lag_ms: int
    """How long the sender's event loop has not come round."""
    suspects: frozenset[int] = frozenset()


class _Peer:
    """What is known of another node."""

    def __init__(self, incarnation: int, now_s: float) -> None:
        self.incarnation = incarnation
        self.is_registered = True
        """False since its session has lapsed: it may be heard all the same."""
        self.heard_s = now_s
        self.is_refused = False
        self.ping: Ping | None = None


class Suspicion:
    """The pings of one node: in by `heard` and `refused`, out by `suspects` and `agreed`."""

    def __init__(self, node_id: int, now_s: float) -> None:
        self.node_id = node_id
        self._peers: dict[int, _Peer] = {}
        self._tick_s = now_s
        self._sequence = 0

    def watch(self, view: ClusterView, now_s: float) -> None:
        """Follow who is registered; a run that is new has the time of a silence to be heard."""
        for node_id in self._peers.keys() - view.nodes.keys() - view.lapsed.keys():
            del self._peers[node_id]
        for node_id, known in self._peers.items():
            known.is_registered = node_id in view.nodes
        for node_id, node in view.nodes.items():
            peer = self._peers.get(node_id)
            if node_id != self.node_id and (peer is None or peer.incarnation != node.incarnation):
                self._peers[node_id] = _Peer(node.incarnation, now_s)

    def tick(self, now_s: float) -> None:
        """To be called every `PING_S`. After a pause of this node nobody is silent."""
        gap_s = now_s - self._tick_s
        if gap_s > OWN_PAUSE_S:
            for peer in self._peers.values():
                peer.heard_s += gap_s
        self._tick_s = now_s

    def ping(self, now_s: float, *, incarnation: int, wall_ms: int, lag_ms: int) -> Ping:
        """What to send to every other node now."""
        self._sequence += 1
        suspects = self.suspects(now_s)
        return Ping(self.node_id, incarnation, self._sequence, wall_ms, lag_ms, suspects)

    def heard(self, ping: Ping, now_s: float) -> None:
        """A ping came, maybe late or twice: an older one, or of an earlier run, says nothing."""
        peer = self._peers.get(ping.node)
        if peer is None or ping.incarnation < peer.incarnation:
            return
        if peer.ping is not None and _age(peer.ping) >= _age(ping):
            return
        peer.ping, peer.heard_s, peer.is_refused = ping, now_s, False

    def refused(self, node_id: int) -> None:
        """The node's machine said that nobody listens there, or a connection was reset."""
        peer = self._peers.get(node_id)
        if peer is not None:
            peer.is_refused = True

    def suspects(self, now_s: float) -> frozenset[int]:
        """The nodes that this one takes for dead, or for as good as."""
        return frozenset(
            node_id
            for node_id, peer in self._peers.items()
            if peer.is_registered and _is_suspect(peer, now_s)
        )

    def lapsed(self, now_s: float) -> frozenset[int]:
        """The nodes that are heard, although their sessions have lapsed."""
        return frozenset(
            node_id
            for node_id, peer in self._peers.items()
            if not peer.is_registered and not _is_suspect(peer, now_s)
        )

    def agreed(self, now_s: float) -> frozenset[int]:
        """The suspects whom another live node suspects too; all, when no other is left."""
        suspects = self.suspects(now_s)
        others = {each for each, peer in self._peers.items() if peer.is_registered} - suspects
        return frozenset(
            suspect
            for suspect in suspects
            if not others or any(self._suspects_too(other, suspect) for other in others)
        )

    def may_take(self, view: ClusterView, now_s: float) -> bool:
        """Whether this node, which is not the controller, should try to become it.

        It is the first by id of the live nodes, and most of them do not hear the holder, or there
        is none: no record, its node is gone, or was started again since.
        """
        suspects = self.suspects(now_s)
        live = [node.node_id for node in view.active() if node.node_id not in suspects]
        if self.node_id not in live:
            return False
        holder = _holder(view)
        if holder is None or holder == self.node_id:
            return live[0] == self.node_id
        if holder not in suspects or live[0] != self.node_id:
            return False
        agreeing = sum(each == self.node_id or self._suspects_too(each, holder) for each in live)
        return agreeing * 2 > len(live)

    def _suspects_too(self, node_id: int, suspect: int) -> bool:
        ping = self._peers[node_id].ping if node_id in self._peers else None
        return ping is not None and suspect in ping.suspects


class Lapses:
    """Nodes whose sessions have lapsed although they run: what they lead is theirs for a while.

    A store that did not answer for longer than a session lasts forgets the registrations of all
    nodes. They register again, in the same incarnation, as soon as it answers. Nothing else has
    happened, so nothing is elected meanwhile. That is no matter of safety: an election is safe.
    """

    def __init__(self, node_id: int) -> None:
        """Decide as node `node_id`, which hears itself."""
        self._node_id = node_id
        self._since_s: dict[int, float] = {}
        """When it was first seen that the session of a node had lapsed."""
        self._returning: dict[int, int] = {}
        """Nodes that are likely to register again, with the incarnations that they had."""

    def note(self, view: ClusterView, heard: Collection[int], now_s: float) -> bool:
        """Look who is not registered and who of them is heard; whether elections depend on it."""
        before = self._returning
        self._since_s = {each: self._since_s.get(each, now_s) for each in view.lapsed}
        self._returning = {
            each: view.lapsed[each].incarnation
            for each, since_s in self._since_s.items()
            if (each in heard or each == self._node_id) and now_s - since_s < RETURN_S
        }
        return bool(before or self._returning)

    def is_returning(self, record: PartitionRecord, view: ClusterView) -> bool:
        """Whether a partition is left to its leader, in the run in which it became that."""
        leader = record.leader
        if leader is None or self._returning.get(leader) != record.leader_incarnation:
            return False
        fence = view.fences.get(leader)
        return fence is None or fence.value.incarnation < record.leader_incarnation


def _holder(view: ClusterView) -> int | None:
    """The node that is the controller, in the run in which it became that."""
    held = view.controller
    if held is None or not view.is_alive(held.value.node):
        return None
    node = view.nodes[held.value.node]
    return node.node_id if node.incarnation == held.value.incarnation else None


def _age(ping: Ping) -> tuple[int, int]:
    return ping.incarnation, ping.sequence


def _is_suspect(peer: _Peer, now_s: float) -> bool:
    if peer.is_refused or now_s - peer.heard_s > SILENCE_S:
        return True
    return peer.ping is not None and peer.ping.lag_ms >= LOOP_LAG_MS
