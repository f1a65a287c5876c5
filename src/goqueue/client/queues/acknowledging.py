"""Acknowledgements on their way to the broker: frames, answers, and lost ones.

Those of one kind that are made within one turn of the loop travel in one frame. Few frames are
under way at a time, so the busier it gets, the more each of them holds. A frame whose answer was
lost is sent again: it counts for those whose message is done, and for no others. A delivery may as
well be unknown because it expired before the broker was restarted, and its message is redelivered.

Nothing here knows connections; the session sends what `next_frames` gives it.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from goqueue.client.errors import BrokerUnavailableError
from goqueue.client.link.codes import error_named
from goqueue.client.queues.acknowledgements import GIVES_BACK, Acknowledgement
from goqueue.client.queues.deliveries import NONCE_BYTES
from goqueue.model.errors import GoQueueError, ReceiptError, TopicError, UnknownReceiptError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from uuid import UUID

    from goqueue.client.queues.deliveries import Deliveries
    from goqueue.wire.kafka.reading import Struct

_MAX_IN_FLIGHT: Final = 2
"""Requests that are sent and not answered. Others wait, and grow."""
_MAX_FRAME: Final = 2000
"""Messages of one frame; a request has up to two."""
_FRAMES: Final = 2
_RANGE: Final = struct.Struct(">qi")


class Frame:
    """Messages with the same acknowledgement, in one request."""

    __slots__ = ("count", "failures", "in_doubt", "is_done", "places", "said", "timer", "waiters")

    def __init__(self, said: Acknowledgement) -> None:
        self.said = said
        self.places: dict[Deliveries, list[int]] = {}
        """The messages, by those they came with."""
        self.count = 0
        self.waiters: list[asyncio.Future[None]] = []
        self.failures: dict[tuple[Deliveries, int], GoQueueError] = {}
        self.is_done = False
        self.in_doubt = False
        """It was sent, and the connection was lost before the answer came."""
        self.timer: asyncio.TimerHandle | None = None

    def fail(self, error: GoQueueError) -> None:
        """Nothing of it is known to be settled."""
        self.failures = {(each, at): error for each, places in self.places.items() for at in places}
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
        if self.said.verdict in GIVES_BACK:
            return isinstance(error, ReceiptError)
        return isinstance(error, UnknownReceiptError) and bool(error.is_done)

    async def done(self) -> None:
        """Return when it is answered, or given up."""
        if not self.is_done:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
            await waiter

    def settlements(self) -> Iterator[tuple[tuple[UUID, int], dict[str, Any]]]:
        """What is to be said, by partition."""
        verdict, reason, delay_ms, _ = self.said
        by_partition: dict[tuple[UUID, int], tuple[bytearray, bytearray]] = {}
        for deliveries, places in self.places.items():
            key = (deliveries.topic_id, deliveries.partition)
            ranges, nonces = by_partition.setdefault(key, (bytearray(), bytearray()))
            for first, end in _runs(places):
                ranges += _RANGE.pack(deliveries.first + first, end - first)
                nonces += deliveries.nonces[first * NONCE_BYTES : end * NONCE_BYTES]
        for key, (ranges, nonces) in by_partition.items():
            yield (
                key,
                {
                    "acknowledge_type": verdict,
                    "delay_ms": -1 if delay_ms is None else delay_ms,
                    "reason": reason or None,
                    "ranges": bytes(ranges),
                    "nonces": bytes(nonces),
                },
            )


def settlements_of(frames: Iterable[Frame]) -> list[dict[str, Any]]:
    """What frames say, as a request has it: by topic and partition."""
    by_topic: dict[UUID, dict[int, list[dict[str, Any]]]] = {}
    for frame in frames:
        for (topic_id, number), settlement in frame.settlements():
            by_topic.setdefault(topic_id, {}).setdefault(number, []).append(settlement)
    return [
        {
            "topic_id": topic_id,
            "partitions": [
                {
                    "partition_index": number,
                    "acknowledgement_batches": [],
                    "settlements": settlements,
                }
                for number, settlements in partitions.items()
            ],
        }
        for topic_id, partitions in by_topic.items()
    ]


def _runs(places: list[int]) -> Iterator[tuple[int, int]]:
    """Places as ranges; most come in their order, without a gap."""
    if places[-1] - places[0] == len(places) - 1 and places == list(
        range(places[0], places[-1] + 1)
    ):
        yield places[0], places[-1] + 1
        return
    places = sorted(set(places))
    first = end = places[0]
    for at in places:
        if at != end:
            yield first, end
            first = at
        end = at + 1
    yield first, end


class PendingAcknowledgement:
    """The acknowledgement of one message; await it to know that the broker has stored it."""

    __slots__ = ("_at", "_deliveries", "_frame")

    def __init__(self, frame: Frame, deliveries: Deliveries, at: int) -> None:
        self._frame = frame
        self._deliveries = deliveries
        self._at = at

    def __await__(self) -> Generator[Any, None, None]:
        frame = self._frame
        if not frame.is_done:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            frame.waiters.append(waiter)
            yield from waiter
        if frame.failures:
            error = frame.failures.get((self._deliveries, self._at))
            if error is not None:
                raise error


class Acknowledger:
    """Every acknowledgement that the broker has not answered."""

    def __init__(
        self,
        timeout_s: float,
        on_work: Callable[[], None],
        on_answer: Callable[[Frame], None],
    ) -> None:
        """Give up what is not answered in time.

        `on_work` is told that there is something to send, `on_answer` of each frame that is
        answered, or given up.
        """
        self._timeout_s = timeout_s
        self._on_work = on_work
        self._on_answer = on_answer
        self._open: dict[Acknowledgement, Frame] = {}
        self._waiting: deque[Frame] = deque()
        self._in_flight: list[list[Frame]] = []
        self.failure: GoQueueError | None = None
        """The first since the last flush."""

    @property
    def has_work(self) -> bool:
        """Whether there is something to send now."""
        return bool(self._waiting) and len(self._in_flight) < _MAX_IN_FLIGHT

    def add(self, deliveries: Deliveries, at: int, said: Acknowledgement) -> Frame:
        """Put a message into a frame that is not sent yet."""
        frame = self._open.get(said)
        if frame is None:
            frame = self._open[said] = Frame(said)
            loop = asyncio.get_running_loop()
            frame.timer = loop.call_later(self._timeout_s, self._expire, frame)
            self._waiting.append(frame)
            self._on_work()
        places = frame.places.get(deliveries)
        if places is None:
            frame.places[deliveries] = [at]
        else:
            places.append(at)
        frame.count += 1
        if frame.count >= _MAX_FRAME:
            del self._open[said]
        return frame

    def next_frames(self) -> list[Frame]:
        """What is to be sent now, in one request; none when there is nothing."""
        frames: list[Frame] = []
        while self._waiting and len(frames) < _FRAMES:
            frame = self._waiting.popleft()
            if self._open.get(frame.said) is frame:
                del self._open[frame.said]
            frames.append(frame)
        if frames:
            self._in_flight.append(frames)
        return frames

    def answered(self, frames: list[Frame], results: Iterable[tuple[UUID, Struct]]) -> None:
        """The broker has stored frames, or says why not; `results` are those of partitions."""
        self._landed(frames)
        errors: dict[tuple[UUID, int], GoQueueError] = {}
        failures: dict[tuple[UUID, int, int], GoQueueError] = {}
        for topic_id, result in results:
            place = (topic_id, result.partition_index)
            error = _refusal(result)
            if error is not None:
                errors[place] = error
            for each in result.failures:
                told = error_named(each.error_name, each.message)
                if isinstance(told, UnknownReceiptError):
                    told.is_done = each.is_done
                failures[*place, each.nonce] = told
        for frame in frames:
            if frame.is_done:
                continue
            if errors or failures:
                self._note_failures(frame, errors, failures)
            self._on_answer(frame)
            frame.finish()

    def _note_failures(
        self,
        frame: Frame,
        errors: dict[tuple[UUID, int], GoQueueError],
        failures: dict[tuple[UUID, int, int], GoQueueError],
    ) -> None:
        for deliveries, places in frame.places.items():
            key = (deliveries.topic_id, deliveries.partition)
            for at in places:
                error = errors.get(key) or failures.get((*key, deliveries.nonce(at)))
                if error is not None and not frame.counts_anyway(error):
                    frame.failures[deliveries, at] = error
                    self._note(frame, error)

    def refused(self, frames: list[Frame], error: GoQueueError) -> None:
        """The broker has stored nothing of frames, and never will."""
        self._landed(frames)
        for frame in frames:
            if not frame.is_done:
                self._fail(frame, error)

    def lost(self, frames: list[Frame]) -> None:
        """The answer is lost: they are sent again."""
        self._landed(frames)
        for frame in reversed(frames):
            if not frame.is_done:
                frame.in_doubt = True
                self._waiting.appendleft(frame)

    def _landed(self, frames: list[Frame]) -> None:
        if frames in self._in_flight:
            self._in_flight.remove(frames)
        if self._waiting:
            self._on_work()

    def _fail(self, frame: Frame, error: GoQueueError) -> None:
        self._note(frame, error)
        self._on_answer(frame)
        frame.fail(error)

    def _note(self, frame: Frame, error: GoQueueError) -> None:
        if self.failure is None and not frame.said.is_quiet:
            self.failure = error

    def _expire(self, frame: Frame) -> None:
        if self._open.get(frame.said) is frame:
            del self._open[frame.said]
        if frame in self._waiting:
            self._waiting.remove(frame)
        self._fail(
            frame,
            BrokerUnavailableError(
                f"no answer in {self._timeout_s:g} s: it is not known what became of "
                f"{frame.count} messages"
            ),
        )

    def _all(self) -> list[Frame]:
        return [*(frame for frames in self._in_flight for frame in frames), *self._waiting]

    def fail_all(self, error: GoQueueError) -> None:
        """Nothing will be sent any more."""
        for frame in self._all():
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
        for frame in self._all():
            await frame.done()
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure


def results_of(answer: Struct) -> list[tuple[UUID, Struct]]:
    """What an answer says of partitions."""
    return [(topic.topic_id, each) for topic in answer.responses for each in topic.partitions]


def _refusal(result: Struct) -> GoQueueError | None:
    """Why nothing of a partition was settled, as either answer says it."""
    code = getattr(result, "acknowledge_error_code", 0) or result.error_code
    if not code:
        return None
    told = getattr(result, "acknowledge_error_message", None) or result.error_message
    error = error_named(result.error_name, told, code)
    if isinstance(error, TopicError):  # the messages are gone with it
        return UnknownReceiptError(f"the topic was deleted: {told}")
    return error
