"""Acknowledgements on their way to the broker: frames, answers, and lost ones.

Those of one kind that are made within one turn of the loop travel in one frame. Few frames are
under way at a time, so the busier it gets, the more each of them holds. A frame whose answer was
lost is sent again, by receipts: it counts for those whose message is done, and for no others. A
receipt may as well be unknown because it expired before the broker was restarted, and its message
is redelivered.

Nothing here knows gRPC's streams; the queue sends what `next_frame` gives it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goqueue.client.errors import BrokerUnavailableError, from_wire
from goqueue.model.errors import GoQueueError, ReceiptError, UnknownReceiptError
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from goqueue.client.delivered_messages import Delivered

_MAX_IN_FLIGHT: Final = 2
"""Frames that are sent and not answered. Others wait, and grow."""
_MAX_FRAME: Final = 1000
"""Messages of one frame."""

_GIVES_BACK: Final = frozenset({pb.VERDICT_NACK, pb.VERDICT_RELEASE, pb.VERDICT_RETURN})


class Acknowledgement(NamedTuple):
    """How the program acknowledges a message."""

    verdict: pb.Verdict.ValueType
    reason: str = ""
    delay_ms: int | None = None
    is_quiet: bool = False
    """It is the client's own: the program is not told that it failed."""


class Frame:
    """Messages with the same acknowledgement, in one request."""

    __slots__ = (
        "acknowledgement",
        "failures",
        "in_doubt",
        "is_done",
        "messages",
        "timer",
        "waiters",
    )

    def __init__(self, acknowledgement: Acknowledgement) -> None:
        self.acknowledgement = acknowledgement
        self.messages: list[Delivered] = []
        self.waiters: list[asyncio.Future[None]] = []
        self.failures: dict[Delivered, GoQueueError] = {}
        self.is_done = False
        self.in_doubt = False
        """It was sent, and the connection was lost before the answer came."""
        self.timer: asyncio.TimerHandle | None = None

    def fail(self, error: GoQueueError) -> None:
        """Nothing of it is known to be settled."""
        self.failures = dict.fromkeys(self.messages, error)
        self.finish()

    def finish(self) -> None:
        """Let those go on who wait for it."""
        self.is_done = True
        if self.timer is not None:
            self.timer.cancel()
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)

    def counts_anyway(self, error: GoQueueError) -> bool:
        """Whether the failure of a frame that was sent twice leaves things as the frame has them.

        The message is returned for redelivery, or acknowledged.
        """
        if not self.in_doubt:
            return False
        if self.acknowledgement.verdict in _GIVES_BACK:
            return isinstance(error, ReceiptError)
        return isinstance(error, UnknownReceiptError) and bool(error.is_done)

    async def done(self) -> None:
        """Return when it is answered, or given up."""
        if not self.is_done:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
            await waiter


class PendingAcknowledgement:
    """The acknowledgement of one message; await it to know that the broker has stored it."""

    __slots__ = ("_frame", "_message")

    def __init__(self, frame: Frame, message: Delivered) -> None:
        self._frame = frame
        self._message = message

    def __await__(self) -> Generator[Any, None, None]:
        frame = self._frame
        if not frame.is_done:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            frame.waiters.append(waiter)
            yield from waiter
        if frame.failures:
            error = frame.failures.get(self._message)
            if error is not None:
                raise error


class Acknowledger:
    """Every acknowledgement that the broker has not answered."""

    def __init__(self, timeout_s: float, on_work: Callable[[], None]) -> None:
        """Give up what is not answered in time; `on_work` is told that there is something."""
        self._timeout_s = timeout_s
        self._on_work = on_work
        self._open: dict[Acknowledgement, Frame] = {}
        self._waiting: deque[Frame] = deque()
        self._in_flight: dict[int, Frame] = {}
        self._numbers = count(1)
        self.failure: GoQueueError | None = None
        """The first since the last flush."""

    def __bool__(self) -> bool:
        return bool(self._waiting or self._in_flight)

    def add(self, message: Delivered, acknowledgement: Acknowledgement) -> Frame:
        """Put a message into a frame that is not sent yet."""
        frame = self._open.get(acknowledgement)
        if frame is None:
            frame = self._open[acknowledgement] = Frame(acknowledgement)
            loop = asyncio.get_running_loop()
            frame.timer = loop.call_later(self._timeout_s, self._expire, frame)
            self._waiting.append(frame)
            self._on_work()
        frame.messages.append(message)
        if len(frame.messages) >= _MAX_FRAME:
            del self._open[acknowledgement]
        return frame

    def next_frame(self, session: int) -> pb.SubscribeSettle | None:
        """What is to be sent now; None when there is nothing, or enough is under way."""
        if not self._waiting or len(self._in_flight) >= _MAX_IN_FLIGHT:
            return None
        frame = self._waiting.popleft()
        if self._open.get(frame.acknowledgement) is frame:
            del self._open[frame.acknowledgement]
        number = next(self._numbers)
        self._in_flight[number] = frame
        verdict, reason, delay_ms, _ = frame.acknowledgement
        settle = pb.SubscribeSettle(
            correlation_id=number, verdict=verdict, reason=reason, delay_ms=delay_ms
        )
        messages = frame.messages
        settle.delivery_ids.extend([m.delivery_id for m in messages if m.session == session])
        if len(settle.delivery_ids) < len(messages):
            settle.receipt_handles.extend(
                m.receipt_handle for m in messages if m.session != session
            )
        return settle

    def answered(self, result: pb.SettleResult) -> None:
        """The broker has stored a frame, or says why not."""
        frame = self._in_flight.pop(result.correlation_id, None)
        if frame is None:
            return
        if self._waiting:
            self._on_work()
        if frame.is_done:
            return
        if result.HasField("error"):
            self._fail(frame, from_wire(result.error))
            return
        if result.failures:
            self._note_failures(frame, result)
        frame.finish()

    def _note_failures(self, frame: Frame, result: pb.SettleResult) -> None:
        by_id = {each.delivery_id: each.error for each in result.failures if each.delivery_id}
        by_handle = {each.receipt_handle: each.error for each in result.failures}
        for message in frame.messages:
            found = by_id.get(message.delivery_id) or by_handle.get(message.receipt_handle)
            error = None if found is None else from_wire(found)
            if error is not None and not frame.counts_anyway(error):
                frame.failures[message] = error
                self._note(frame, error)

    def _fail(self, frame: Frame, error: GoQueueError) -> None:
        self._note(frame, error)
        frame.fail(error)

    def _note(self, frame: Frame, error: GoQueueError) -> None:
        if self.failure is None and not frame.acknowledgement.is_quiet:
            self.failure = error

    def _expire(self, frame: Frame) -> None:
        if self._open.get(frame.acknowledgement) is frame:
            del self._open[frame.acknowledgement]
        if frame in self._waiting:
            self._waiting.remove(frame)
        self._fail(
            frame,
            BrokerUnavailableError(
                f"no answer in {self._timeout_s:g} s: it is not known what became of "
                f"{len(frame.messages)} messages"
            ),
        )

    def lost(self) -> None:
        """The connection is gone. What was under way is sent again, on the next one."""
        for frame in reversed(self._in_flight.values()):
            if not frame.is_done:
                frame.in_doubt = True
                self._waiting.appendleft(frame)
        self._in_flight.clear()

    def fail_all(self, error: GoQueueError) -> None:
        """Nothing will be sent any more."""
        for frame in (*self._in_flight.values(), *self._waiting):
            if not frame.is_done:
                self._fail(frame, error)
        self._open.clear()
        self._waiting.clear()
        self._in_flight.clear()

    async def flush(self) -> None:
        """Return when every acknowledgement so far is answered.

        Raises:
            GoQueueError: the first failure since the last flush.
        """
        for frame in (*self._in_flight.values(), *self._waiting):
            await frame.done()
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
