"""A member of a KIP-848 group: what it says of itself, what it has, and what of it is stored."""

from __future__ import annotations

import msgspec

from goqueue.groups.encoding import ConsumerMemberValue, by_topic, flatten
from goqueue.groups.member_memory import held_by
from goqueue.groups.messages import (
    JOINING_EPOCH,
    ClassicProtocols,
    ConsumerHeartbeat,
    PollingTerms,
)
from goqueue.groups.reconciled.member import Reconciling, updated_by
from goqueue.model.topic_partition import TopicIdPartition


class ConsumerMember(Reconciling[TopicIdPartition], frozen=True, kw_only=True):
    """A member; what it owns are partitions."""

    subscribed_names: frozenset[str] = msgspec.field(default_factory=frozenset)
    subscribed_regex: str = ""
    server_assignor: str | None = None
    session_timeout_ms: int | None = None
    """Its own, in place of the group's; stored with `polling`, or not at all where whoever can say
    it joins again."""
    polling: PollingTerms | None = None
    """Set for a member that the broker reads for, in a cluster."""
    classic: ClassicProtocols | None = None
    """Set for a member that speaks the classic protocol; its epoch is its generation."""

    @property
    def held_bytes(self) -> int:
        """What the member says of itself; its partitions are those that exist."""
        texts = (
            self.member_id,
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.subscribed_regex,
        )
        protocols = () if self.classic is None else self.classic.protocols
        return held_by(texts, protocols, self.subscribed_names)

    def updated_by(self, request: ConsumerHeartbeat) -> ConsumerMember:
        """The member with what it says of itself; silence keeps what it said before.

        A member that joins says what it reads: what its former process read is no part of that.
        """
        is_joining = request.epoch == JOINING_EPOCH
        names, regex = request.subscribed_names, request.subscribed_regex
        if names is None:
            names = frozenset() if is_joining else self.subscribed_names
        if regex is None:
            regex = "" if is_joining else self.subscribed_regex
        return updated_by(
            self,
            request,
            subscribed_names=names,
            subscribed_regex=regex,
            server_assignor=request.server_assignor or self.server_assignor,
            classic=request.classic,
            session_timeout_ms=request.session_timeout_ms or self.session_timeout_ms,
            polling=request.polling if is_joining else self.polling,
        )

    def is_assigned_like(self, other: ConsumerMember) -> bool:
        """Whether two members read the same topics for the same reasons."""
        return (
            self.subscribed_names == other.subscribed_names
            and self.subscribed_regex == other.subscribed_regex
        )

    def to_value(self) -> ConsumerMemberValue:
        """What of the member is stored: everything."""
        return ConsumerMemberValue(
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            tuple(sorted(self.subscribed_names)),
            self.subscribed_regex,
            self.server_assignor,
            self.epoch,
            self.previous_epoch,
            self.state,
            by_topic(self.assigned),
            by_topic(self.pending_revocation),
            by_topic(self.target),
            self.classic,
            self.polling,
        )

    @classmethod
    def from_value(cls, member_id: str, value: ConsumerMemberValue) -> ConsumerMember:
        """A member as it was stored."""
        return cls(
            member_id=member_id,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            subscribed_names=frozenset(value.subscribed_names),
            subscribed_regex=value.subscribed_regex,
            server_assignor=value.server_assignor,
            epoch=value.epoch,
            previous_epoch=value.previous_epoch,
            state=value.state,
            assigned=flatten(value.assigned),
            pending_revocation=flatten(value.pending_revocation),
            target=flatten(value.target),
            classic=value.classic,
            polling=value.polling,
            session_timeout_ms=None if value.polling is None else value.polling.session_timeout_ms,
        )
