"""The messages of publish requests: how many there may be, and large requests in turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.limits import MAX_PUBLISHED_MESSAGES
from goqueue.protocols.grpc.conversions import new_messages, new_row
from goqueue.protocols.grpc.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.publishing.new_messages import NewMessage
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.tasks import Turns
    from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

TURN_MESSAGES: Final = 1000
"""Messages that are worked on in one go: a few milliseconds. A request with more waits for a turn
of the event loop after so many of them."""


class Incoming:
    """Turns what clients send into messages to be published."""

    def __init__(self, clock: Clock, turns: Turns) -> None:
        self._clock = clock
        self.turns = turns

    async def rows(self, sent: Sequence[pb.NewMessage]) -> list[NewMessage]:
        """Messages that were sent one by one.

        Raises:
            InvalidRequestError: there are too many, or one contradicts itself.
        """
        now_ms = self._clock.now_ms()
        if len(sent) <= TURN_MESSAGES:
            return new_messages(list(sent), now_ms)
        check_count(len(sent))
        messages: list[NewMessage] = []
        for start in range(0, len(sent), TURN_MESSAGES):
            async with self.turns.turn():
                messages += new_messages(sent[start : start + TURN_MESSAGES], now_ms)
        return messages

    def columns(self, sent: pb.NewColumns) -> list[NewMessage]:
        """Messages that were sent as columns. Raises like `rows`."""
        check_count(len(sent.values))
        return new_row(sent)


def check_count(count: int) -> None:
    """Refuse what is too much for one request, before anything of it is stored."""
    if count > MAX_PUBLISHED_MESSAGES:
        raise InvalidRequestError(
            f"the request has {count} messages and may have {MAX_PUBLISHED_MESSAGES}: send several "
            "smaller ones; none of these was stored"
        )
