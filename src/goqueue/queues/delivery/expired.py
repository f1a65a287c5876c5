"""The receipts that expired last, so that their holders learn that they were late."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_EXPIRED_RECEIPTS: Final = 10_000
"""Of one queue. Of an older one it is not known that it expired: it is unknown."""


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
