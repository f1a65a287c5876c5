"""Who has how much: messages that were handed out together are one lease."""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.model.ranges import Range

_MAX_EXPIRED_RECEIPTS: Final = 10_000
"""Of one queue. Of an older one it is not known that it expired: it is unknown."""
NUMBERS: Final = 2**32
"""Numbers of leases, from 1 on, are four bytes a message; when they are used up they begin anew."""


class Lease(msgspec.Struct, gc=False):
    """Messages that were handed to one member in one go, until one deadline.

    There may be hundreds of thousands: the garbage collector looks at none of them.
    """

    member: str
    at_ms: int
    deadline_ms: int
    bounds: array[int] = msgspec.field(default_factory=lambda: array("q"))
    """Which messages those were, as the first and the end of each range; some may have left
    since."""
    left: int = 0
    """How many are still there."""

    @property
    def ranges(self) -> Iterator[Range]:
        """The ranges, one by one."""
        return zip(self.bounds[::2], self.bounds[1::2], strict=True)


class Leases:
    """The leases of one partition, by their numbers; one that has nothing left is forgotten."""

    def __init__(self, unacked: dict[str, int]) -> None:
        """Keep count in `unacked` of what each member of the group has, here and elsewhere."""
        self.by_number: dict[int, Lease] = {}
        self._unacked = unacked
        self._holders: Counter[str] = Counter()
        """How many leases each member has here."""

    def add(self, number: int, lease: Lease) -> None:
        """Make a lease, which must be given messages at once."""
        if number in self.by_number:
            raise InvariantError(f"there is a lease {number} already")
        self.by_number[number] = lease
        self._holders[lease.member] += 1

    def unused(self, first: int, count: int) -> list[int]:
        """Numbers that no lease has, from `first` on."""
        found: list[int] = []
        while len(found) < count:
            if first not in self.by_number:
                found.append(first)
            first = first % (NUMBERS - 1) + 1
        return found

    def entered(self, lease: Lease, count: int) -> None:
        """So many messages are now in flight under a lease."""
        lease.left += count
        self._unacked[lease.member] = self._unacked.get(lease.member, 0) + count

    def left(self, number: int, count: int) -> None:
        """So many messages are no longer in flight under a lease."""
        lease = self.by_number[number]
        lease.left -= count
        self._unacked[lease.member] -= count
        if not lease.left:
            if not self._unacked[lease.member]:
                del self._unacked[lease.member]
            self.forget_empty(number)

    def forget_empty(self, number: int) -> None:
        """Forget a lease, when it has nothing."""
        lease = self.by_number[number]
        if lease.left:
            return
        del self.by_number[number]
        self._holders[lease.member] -= 1
        if not self._holders[lease.member]:
            del self._holders[lease.member]

    def detach(self) -> None:
        """Take what members have here out of the common count, and go on counting alone."""
        common, self._unacked = self._unacked, {}
        for lease in self.by_number.values():
            self._unacked[lease.member] = self._unacked.get(lease.member, 0) + lease.left
        for member, count in self._unacked.items():
            common[member] -= count
            if not common[member]:
                del common[member]

    def is_held_by_others(self, member: str) -> bool:
        """Whether anything here is in flight to somebody else."""
        return len(self._holders) > (member in self._holders)

    def check_invariants(self, in_flight: Counter[int]) -> None:
        """Raise `InvariantError` when these are not the leases of what is in flight."""
        if in_flight != {number: lease.left for number, lease in self.by_number.items()}:
            raise InvariantError("the leases do not hold what is in flight")
        if self._holders != Counter(lease.member for lease in self.by_number.values()):
            raise InvariantError(f"members are said to have {self._holders} leases")


class ExpiredReceipts:
    """The nonces of deliveries that ended by time, or because their member left.

    What happens to the message afterwards changes nothing for the late holder: the receipt has
    expired, whether another member has acknowledged the message, handed it back or still has it.
    Nothing here is stored: after a restart a late receipt is unknown. Whether the message is done
    is told with that (`UnknownReceiptError.is_done`).
    """

    __slots__ = ("_nonces",)

    def __init__(self) -> None:
        self._nonces: dict[int, None] = {}

    def __contains__(self, nonce: int) -> bool:
        return nonce in self._nonces

    def add(self, nonces: Iterable[int]) -> None:
        """Remember these, and forget the oldest past the bound."""
        self._nonces.update(dict.fromkeys(nonces))
        excess = len(self._nonces) - _MAX_EXPIRED_RECEIPTS
        if excess > 0:
            for nonce in list(islice(self._nonces, excess)):
                del self._nonces[nonce]
