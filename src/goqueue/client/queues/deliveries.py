"""Ranges of messages as the broker hands them over: what an acknowledgement has to say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from uuid import UUID

NONCE_BYTES: Final = 8


class Deliveries:
    """Messages in a row of one partition and one lane that were handed over together."""

    __slots__ = (
        "count",
        "first",
        "lane",
        "left",
        "nonces",
        "owner",
        "partition",
        "settled",
        "topic_id",
        "until_s",
    )

    def __init__(
        self,
        owner: Any,
        topic_id: UUID,
        partition: int,
        *,
        first: int,
        count: int,
        lane: int,
        nonces: memoryview,
        until_s: float,
    ) -> None:
        self.owner = owner
        self.topic_id = topic_id
        self.partition = partition
        self.first = first
        """The offset of the first."""
        self.count = count
        """How often they were delivered to the group."""
        self.lane = lane
        self.nonces = nonces
        """Eight bytes each."""
        self.left = len(nonces) // NONCE_BYTES
        """How many of them the broker counts as this member's."""
        self.until_s = until_s
        """When they are not any more, on the loop's clock."""
        self.settled = bytearray(self.left)
        """1 where the program has said what became of the message."""

    def nonce(self, at: int) -> int:
        """What tells the delivery of a message from all others."""
        return int.from_bytes(self.nonces[at * NONCE_BYTES : (at + 1) * NONCE_BYTES], "little")
