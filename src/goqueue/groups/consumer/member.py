"""A member of a KIP-848 group: what it says of itself, what it has, and what of it is stored."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from goqueue.groups.encoding import (
    ClassicProtocolsValue,
    ConsumerMemberValue,
    by_topic,
    flatten,
)
from goqueue.groups.member_memory import held_by
from goqueue.groups.messages import JOINING_EPOCH, ClassicProtocols, Protocol
from goqueue.groups.reconciliation import MemberState, Reconciling
from goqueue.model.topic_partition import TopicIdPartition

if TYPE_CHECKING:
    from goqueue.groups.messages import ConsumerHeartbeat


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember(Reconciling[TopicIdPartition]):
    """A member; what it owns are partitions."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_names: frozenset[str] = field(default_factory=frozenset)
    subscribed_regex: str = ""
    server_assignor: str | None = None
    session_timeout_ms: int | None = None
    """Its own, in place of the group's; not stored, as whoever can say it joins again."""
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
        names = frozenset[str]() if is_joining else self.subscribed_names
        regex = "" if is_joining else self.subscribed_regex
        return replace(
            self,
            instance_id=self.instance_id if request.instance_id is None else request.instance_id,
            rack_id=self.rack_id if request.rack_id is None else request.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=(
                self.rebalance_timeout_ms
                if request.rebalance_timeout_ms == -1
                else request.rebalance_timeout_ms
            ),
            subscribed_names=names
            if request.subscribed_names is None
            else request.subscribed_names,
            subscribed_regex=regex
            if request.subscribed_regex is None
            else request.subscribed_regex,
            server_assignor=request.server_assignor or self.server_assignor,
            classic=request.classic,
            session_timeout_ms=request.session_timeout_ms or self.session_timeout_ms,
        )

    def subscribes_like(self, other: ConsumerMember) -> bool:
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
            self.state.value,
            by_topic(self.assigned),
            by_topic(self.pending_revocation),
            by_topic(self.target),
            self.classic and ClassicProtocolsValue(*self.classic),
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
            state=MemberState(value.state),
            assigned=flatten(value.assigned),
            pending_revocation=flatten(value.pending_revocation),
            target=flatten(value.target),
            classic=None if value.classic is None else _protocols(value.classic),
        )


def _protocols(value: ClassicProtocolsValue) -> ClassicProtocols:
    protocols = tuple(Protocol(name, metadata) for name, metadata in value.protocols)
    return ClassicProtocols(value.session_timeout_ms, protocols)
