"""A member of a classic group."""

from __future__ import annotations

import msgspec

from goqueue.groups.member_memory import held_by
from goqueue.groups.messages import JoinRequest, Protocol


class ClassicMember(msgspec.Struct, array_like=True):
    """One member, as it described itself in its newest join; stored as it is."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    carried_generation: int | None = None
    """The epoch that the member had reached in the KIP-848 group that this group was before. It
    speaks for it until the next generation begins."""

    @classmethod
    def from_join(cls, member_id: str, request: JoinRequest) -> ClassicMember:
        """A member that was not in the group before."""
        return cls(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocols,
        )

    @property
    def held_bytes(self) -> int:
        """What the member costs."""
        texts = (self.member_id, self.instance_id, self.client_id, self.client_host)
        return held_by(texts, self.protocols, assignment=self.assignment)

    def metadata(self, protocol_name: str | None) -> bytes:
        """What the member says to the leader under a protocol."""
        return next((data for name, data in self.protocols if name == protocol_name), b"")
