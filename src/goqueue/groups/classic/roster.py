"""The members of a classic group: who is in, who waits for what, who leads, which protocols fit."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from goqueue.groups.classic.member import ClassicMember
from goqueue.groups.consumer.protocol import PROTOCOL_TYPE, subscribed_topics
from goqueue.groups.member_memory import held_by
from goqueue.groups.messages import JoinedMember, JoinRequest, Protocol
from goqueue.groups.roster import Roster
from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.groups.effects import Token


class ClassicRoster(Roster[ClassicMember]):
    """Also who waits for what, and which protocols all members can run."""

    def __init__(self) -> None:
        super().__init__()
        self.leader_id: str | None = None
        self.protocol_type: str | None = None
        self.pending: set[str] = set()
        """Ids that were handed out and have not come back with a join."""
        self.new: set[str] = set()
        """Members whose first join is not answered yet, so they cannot send heartbeats."""
        self.joining: dict[str, Token] = {}
        """Members whose join waits for the generation to begin."""
        self.syncing: dict[str, Token] = {}
        """Members whose sync waits for the leader's assignment."""
        self.unsynced: set[str] = set()
        """Members of this generation that have not asked for their assignment."""
        self._support: Counter[str] = Counter()
        """Protocol name to the number of members that can run it."""

    def add(self, member: ClassicMember, protocol_type: str | None) -> None:
        """Take a member in; the first one leads and decides the type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.held.put(member.member_id, member.held_bytes)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._support.update({name for name, _ in member.protocols})
        self.pending.discard(member.member_id)

    def expect(self, member_id: str) -> None:
        """An id was handed out; its member comes back with it, or is forgotten."""
        self.pending.add(member_id)
        self.held.put(member_id, held_by([member_id]))

    def forget_expected(self, member_id: str) -> None:
        """Nobody came with an id that was handed out."""
        self.pending.discard(member_id)
        self.held.remove(member_id)

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Give each member what the leader has decided for it."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            self.held.put(member.member_id, member.held_bytes)

    def remove(self, member_id: str) -> ClassicMember:
        """Let a member go; if it led, the member that has been in longest leads."""
        member = self.members.pop(member_id)
        self.held.remove(member_id)
        if member.instance_id is not None:
            self.static_ids.pop(member.instance_id, None)
        self._support.subtract({name for name, _ in member.protocols})
        self._support += Counter()  # drops the names that nobody supports any more
        self.unsynced.discard(member_id)
        self.new.discard(member_id)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def describe_again(self, member: ClassicMember, request: JoinRequest) -> None:
        """Take over what a known member says of itself in a new join."""
        self._support.subtract({name for name, _ in member.protocols})
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.client_id = request.client_id
        member.client_host = request.client_host
        self.held.put(member.member_id, member.held_bytes)
        self._support.update({name for name, _ in member.protocols})
        self._support += Counter()

    def replace_static(self, member: ClassicMember, new_id: str) -> None:
        """Give a static member the new id that its restarted process got, in its old place."""
        old_id = member.member_id
        member.member_id = new_id
        self.held.remove(old_id)
        self.held.put(new_id, member.held_bytes)
        self.members = {
            (new_id if member_id == old_id else member_id): each
            for member_id, each in self.members.items()
        }
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.new.discard(old_id)  # a retry replaces it: no need to drop it while it waits
        if old_id in self.unsynced:
            self.unsynced.discard(old_id)
            self.unsynced.add(new_id)

    def can_run_with(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether a member with these protocols fits in with all members."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self._support[name] == len(self.members) for name, _ in protocols
        )

    def elect_protocol(self) -> str | None:
        """Each member votes for the first of its protocols that all can run; most votes win.

        Between equals, the one that the longest-standing members prefer wins.
        """
        everyone = len(self.members)
        votes: Counter[str] = Counter()
        for member in self.members.values():
            common = (name for name, _ in member.protocols if self._support[name] == everyone)
            favourite = next(common, None)
            if favourite is not None:
                votes[favourite] += 1
        return max(votes, key=votes.__getitem__, default=None)

    def subscribed_topics(self, protocol_name: str | None) -> frozenset[str] | None:
        """The topics that the members read, or None when that cannot be known."""
        if self.protocol_type != PROTOCOL_TYPE or protocol_name is None:
            return None
        known = [subscribed_topics(m.metadata(protocol_name)) for m in self.members.values()]
        topics = [each for each in known if each is not None]
        return frozenset().union(*topics) if len(topics) == len(known) else None

    def for_leader(self, protocol_name: str | None) -> tuple[JoinedMember, ...]:
        """The list of members that the leader assigns partitions to."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(protocol_name))
            for member in self.members.values()
        )

    @property
    def has_all_joined(self) -> bool:
        """Nobody needs to be waited for any longer."""
        return len(self.joining) >= len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member may take to join again."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def check_invariants(self) -> None:  # type: ignore[override] # it knows who is expected
        """Raise `InvariantError` where the indexes and the members disagree."""
        super().check_invariants(self.pending)
        ids = self.members.keys()
        support = Counter(name for m in self.members.values() for name in dict(m.protocols))
        if (self.leader_id is None) != (not ids) or (ids and self.leader_id not in ids):
            raise InvariantError(f"the leader {self.leader_id} is not one of {list(ids)}")
        waiting = {*self.joining, *self.syncing, *self.unsynced, *self.new}
        if not waiting <= ids:
            raise InvariantError("a client that is not a member waits for a reply")
        if self.pending & ids:
            raise InvariantError("a member is still listed as pending")
        if support != self._support:
            raise InvariantError(f"protocol support is {support}, counted as {self._support}")
