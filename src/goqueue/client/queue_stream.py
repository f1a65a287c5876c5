"""A member of a queue group: takes messages, acknowledges them, and joins again when it must.

Messages wait here until the program asks for them, no more than `prefetch` of them. While they do,
their visibility timeout is renewed; when the queue is closed they are returned as if they had never
been delivered. What the program has taken and not acknowledged is redelivered too, and that
delivery counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from grpc import aio

from goqueue.client.acknowledging import Acknowledgement, Acknowledger, PendingAcknowledgement
from goqueue.client.delivered_messages import Delivered, Run
from goqueue.client.errors import ClientClosedError
from goqueue.client.membership import Membership
from goqueue.client.reading import to_places
from goqueue.model.errors import GoQueueError, ReceiptError
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.client.channels import Channels

logger = logging.getLogger(__name__)

_RENEWALS: Final = 4
"""How often the time of a message that waits here is renewed before it would be over."""
_SHORTEST_RENEWAL_S: Final = 0.02


M = TypeVar("M", bound=Delivered)


class QueueStream(Membership, Generic[M]):
    """The stream behind a queue, whoever takes from it."""

    def __init__(
        self, channels: Channels, join: pb.SubscribeJoin, make: Callable[[Run, int], M]
    ) -> None:
        super().__init__(channels, join)
        self._make = make
        self.messages: deque[M] = deque()
        """What has come and was not taken; other threads may take from it."""
        self._work = asyncio.Event()
        """There is something to send, perhaps."""
        timeout_s = channels.settings.call_timeout_ms / 1000
        self.acknowledger = Acknowledger(timeout_s, self._work.set)
        self._number = 0
        """Of the session."""
        self._visibility_s = 0.0
        self._returning: list[M] = []
        """Messages of a lost stream that nobody has looked at."""

    # --- From joining to leaving -----------------------------------------------------------------

    async def open(self) -> None:
        """Join the group.

        Raises:
            GoQueueError: the group refuses, or no broker answers.
        """
        await self._enter(self._renew())

    async def close(self) -> None:
        """Return what nobody has taken, send acknowledgements, and leave the group."""
        if self.is_closed:
            return
        self.is_closed = True
        self._news.set()
        try:
            self._work.set()
            self._give_back(self._returning)
            self._give_back(self.messages)
            if self._call is not None:
                try:
                    await self.acknowledger.flush()
                except GoQueueError as error:
                    logger.warning("some acknowledgements were not stored: %s", error)
        finally:
            await self._end()

    async def _end(self) -> None:
        await super()._end()
        self.acknowledger.fail_all(ClientClosedError("the queue was closed"))

    def _give_back(self, messages: deque[M] | list[M]) -> None:
        """Make as if messages had never been delivered."""
        said = Acknowledgement(pb.VERDICT_RETURN, is_quiet=True)
        while messages:
            self.acknowledger.add(messages.pop(), said)

    # --- Taking and settling ---------------------------------------------------------------------

    async def wait(self) -> bool:
        """Until something has come; False when nothing will come any more.

        Raises:
            GoQueueError: the broker refuses to go on.
        """
        while not self.messages:
            if self._failure is not None:
                raise self._failure
            if self.is_closed:
                return False
            self._news.clear()
            await self._news.wait()
        return True

    def settle(self, message: M, acknowledgement: Acknowledgement) -> PendingAcknowledgement:
        """Acknowledge a message."""
        if self.is_closed:
            raise ClientClosedError("the queue was closed, and its messages were returned")
        if acknowledgement.verdict != pb.VERDICT_EXTEND:
            message.is_settled = True
        return PendingAcknowledgement(self.acknowledger.add(message, acknowledgement), message)

    async def _renew(self) -> None:
        """Keep what waits here from being handed to somebody else."""
        await self._is_joined.wait()
        while True:
            await asyncio.sleep(max(self._visibility_s / _RENEWALS, _SHORTEST_RENEWAL_S))
            delay_ms = round(self._visibility_s * 1000)
            said = Acknowledgement(pb.VERDICT_EXTEND, "", delay_ms, is_quiet=True)
            for frame in {self.acknowledger.add(message, said) for message in tuple(self.messages)}:
                await frame.done()
                for message, error in frame.failures.items():
                    if isinstance(error, ReceiptError) and message in self.messages:
                        self.messages.remove(cast("M", message))  # somebody else has it

    # --- The stream ------------------------------------------------------------------------------

    def _give_up(self, error: GoQueueError) -> None:
        self._call = None
        self.acknowledger.fail_all(error)
        super()._give_up(error)

    def _forget_session(self) -> None:
        """Acknowledgements under way are sent again; what nobody has taken is returned."""
        super()._forget_session()
        self._returning += self.messages
        self.messages.clear()
        self.acknowledger.lost()

    async def _session(self) -> None:
        call: Any = self._channels.next().consume.Subscribe(wait_for_ready=True)
        self._number += 1
        writer: asyncio.Task[None] | None = None
        try:
            await call.write(pb.SubscribeRequest(join=self._join))
            async for response in call:
                match response.WhichOneof("event"):
                    case "columns":
                        self._received(response.columns)
                    case "settled":
                        self.acknowledger.answered(response.settled)
                    case "assignment":
                        self._assigned(response.assignment)
                        if writer is None:
                            self._call = call
                            writer = asyncio.create_task(self._write(call))
                            self._give_back(self._returning)
                            self._is_joined.set()
        finally:
            if writer is not None:
                writer.cancel()
            call.cancel()

    def _received(self, batch: pb.ColumnBatch) -> None:
        make = self._make
        for columns in batch.runs:
            run = Run.of(columns, self._number)
            self.messages.extend([make(run, at) for at in range(len(run.offsets))])
        if self.is_closed:
            self._give_back(self.messages)
        self._news.set()

    def _assigned(self, assignment: pb.Assignment) -> None:
        """Give back what waits here of partitions that are somebody else's now."""
        self._join.member_id = assignment.member_id  # so that a new stream goes on as this member
        self._visibility_s = assignment.visibility_timeout_ms / 1000
        self.assignment = frozenset(to_places(assignment.partitions))
        others = [m for m in self.messages if (m.topic, m.partition) not in self.assignment]
        for message in others:
            self.messages.remove(message)
        self._give_back(others)

    async def _write(self, call: Any) -> None:
        """Send acknowledgements as they are made."""
        with suppress(aio.AioRpcError, asyncio.InvalidStateError):  # whoever reads hears of it
            has_drained = False
            while True:
                self._work.clear()
                if self.is_closed and not has_drained:
                    has_drained = True
                    await call.write(pb.SubscribeRequest(drain=pb.SubscribeDrain()))
                while (settle := self.acknowledger.next_frame(self._number)) is not None:
                    await call.write(pb.SubscribeRequest(settle=settle))
                await self._work.wait()
