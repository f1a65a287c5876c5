"""`client.receipts`: acknowledgements by receipt handle, wherever that was received."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.client.administration.calls import Calls
from goqueue.client.errors import error_named
from goqueue.client.times import to_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.client.link.link import Link
    from goqueue.client.types import Time
    from goqueue.model.errors import GoQueueError

_RECEIPTS_A_CALL: Final = 5_000


class _Result(msgspec.Struct):
    error_name: str | None = None
    error: str = ""

    def refusal(self) -> GoQueueError | None:
        return None if self.error_name is None else error_named(self.error_name, self.error, {})


class _Results(msgspec.Struct):
    results: list[_Result]


class AsyncReceipts:
    """`client.receipts`: whoever has a receipt may acknowledge its message.

    All of them raise `UnknownReceiptError` for a receipt that was used, was never given or expired
    before a restart of the broker, and `ExpiredReceiptError` for one whose time is over.
    """

    def __init__(self, link: Link) -> None:
        self._calls = Calls(link)

    async def ack(self, receipt_handle: str) -> None:
        """It is processed."""
        body = {"receipt_handle": receipt_handle}
        await self._calls.post(msgspec.Raw, "/messages/ack", body=body)

    async def nack(
        self, receipt_handle: str, *, delay: Time | None = None, reason: str = ""
    ) -> None:
        """It failed for now. It is redelivered after a delay (seconds), or the group's back-off."""
        body = {"receipt_handle": receipt_handle, "reason": reason, "delay": to_ms(delay)}
        await self._calls.post(msgspec.Raw, "/messages/nack", body=body)

    async def reject(self, receipt_handle: str, reason: str) -> None:
        """It will never succeed: it is dead-lettered."""
        body = {"receipt_handle": receipt_handle, "reason": reason}
        await self._calls.post(msgspec.Raw, "/messages/reject", body=body)

    async def extend(self, receipt_handle: str, seconds: Time) -> None:
        """It takes so much longer from now on."""
        body = {"receipt_handle": receipt_handle, "extension": to_ms(seconds) or 0}
        await self._calls.post(msgspec.Raw, "/messages/visibility", body=body, again=True)

    async def ack_all(self, receipt_handles: Sequence[str]) -> list[GoQueueError | None]:
        """All of them are processed; for each, why that does not count, or None."""
        found: list[GoQueueError | None] = []
        for start in range(0, len(receipt_handles), _RECEIPTS_A_CALL):
            body = {"receipt_handles": [*receipt_handles[start : start + _RECEIPTS_A_CALL]]}
            answer = await self._calls.post(_Results, "/messages/ack/batch", body=body)
            found += [each.refusal() for each in answer.results]
        return found
