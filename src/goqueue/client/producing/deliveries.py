"""What becomes of a batch, and the handles by which programs wait for its messages.

A handle is its batch and a place in it, and nothing is made of it before somebody asks: a million
messages that nobody waits for one by one cost a million small structs, and no futures.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.client.types import Receipt
from goqueue.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from concurrent.futures import Future

_NO_OFFSET: Final = -1

_monotonic_s: Final = SystemClock.monotonic_s


class Stored(msgspec.Struct, frozen=True, gc=False):
    """Where a batch was stored."""

    base_offset: int
    """-1 when the broker was not asked."""
    append_time_ms: int = -1
    """-1 where messages keep the timestamps that they came with."""


class Deadline:
    """Until when a thread waits, however many batches it waits for."""

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self._end_s = None if timeout_s is None else _monotonic_s() + timeout_s

    def left_s(self) -> float | None:
        """How much longer; None for ever."""
        return None if self._end_s is None else max(self._end_s - _monotonic_s(), 0)


class Fate:
    """What became of the messages of one batch: pending, stored, failed, or gone two ways."""

    __slots__ = (
        "_callbacks",
        "_waiting",
        "delayed",
        "error",
        "halves",
        "middle",
        "partition",
        "stored",
        "topic",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.stored: Stored | None = None
        self.error: Exception | None = None
        self.delayed: Mapping[int, tuple[int | None, int]] = {}
        """Of messages that wait until they are due: their ids and when that is, by their places."""
        self.halves: tuple[Fate, Fate] | None = None
        """A batch that was too large was split before the message at `middle`."""
        self.middle = 0
        self._waiting: asyncio.Future[None] | None = None
        self._callbacks: list[Callable[[], object]] = []
        """Threads add to it while the loop tells: whoever adds looks again whether it has."""

    @property
    def is_settled(self) -> bool:
        """Whether it is known."""
        return self.stored is not None or self.error is not None

    def is_pending(self) -> bool:
        """Whether there will be news of it: it is neither settled nor split."""
        return self.halves is None and not self.is_settled

    def settle(
        self,
        stored: Stored | None = None,
        error: Exception | None = None,
        delayed: Mapping[int, tuple[int | None, int]] | None = None,
    ) -> None:
        """Now it is; whoever waits is told."""
        if delayed:
            self.delayed = delayed
        self.stored, self.error = stored, error
        self._tell()

    def split(self, middle: int) -> tuple[Fate, Fate]:
        """Let the messages before and from `middle` on go separate ways."""
        self.middle = middle
        self.halves = (Fate(self.topic, self.partition), Fate(self.topic, self.partition))
        self._tell()  # they wait on for a half
        return self.halves

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, None
        callbacks, self._callbacks = self._callbacks, []
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        for callback in callbacks:
            callback()

    def waiter(self) -> asyncio.Future[None]:
        """A future that is done at the next news; only for the loop that sends."""
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
        return self._waiting

    def on_news(self, callback: Callable[[], object]) -> None:
        """Call it at the next news, in the thread that brings them."""
        self._callbacks.append(callback)

    def error_within(self, first: int, end: int) -> Exception | None:
        """Why one of the messages at these places was not stored, if one was not."""
        if self.halves is None:
            return self.error
        before, after = self.halves
        error = before.error_within(first, min(end, self.middle)) if first < self.middle else None
        if error is None and end > self.middle:
            error = after.error_within(max(first - self.middle, 0), end - self.middle)
        return error

    def leaves(self) -> Iterator[Fate]:
        """What it was split into, if it was; else itself."""
        if self.halves is None:
            yield self
        else:
            for half in self.halves:
                yield from half.leaves()

    async def settled(self) -> None:
        """Until it is known what became of all messages of the batch."""
        for fate in self.leaves():
            while fate.is_pending():
                # One waiter for all that wait for the batch: who is cancelled must not end it.
                await asyncio.shield(fate.waiter())
            if fate.halves is not None:
                await fate.settled()

    def wait(self, deadline: Deadline) -> None:
        """The same for a thread other than the one that sends.

        Raises:
            TimeoutError: it was not known in time.
        """
        for fate in self.leaves():
            while fate.is_pending():
                news = threading.Event()
                fate.on_news(news.set)
                # It may have been told while we asked to be: look again before waiting.
                if fate.is_pending() and not news.wait(deadline.left_s()):
                    raise TimeoutError(f"not acknowledged within {deadline.timeout_s:g} s")
            if fate.halves is not None:
                fate.wait(deadline)


class Delivery(msgspec.Struct, eq=False, gc=False):
    """The delivery of one published message.

    Await it to know where the message was stored; awaiting raises the error of one that was not.
    """

    _fate: Fate
    _at: int
    timestamp_ms: int

    def _found(self) -> tuple[Fate, int]:
        """The fate that is the message's now, and its place there.

        That of the half that it went with, if its batch was split. Nothing is noted: another thread
        may be looking, too.
        """
        fate, at = self._fate, self._at
        while fate.halves is not None:
            in_second = at >= fate.middle
            at -= fate.middle if in_second else 0
            fate = fate.halves[in_second]
        return fate, at

    def done(self) -> bool:
        """Whether it is known what became of the message."""
        return self._found()[0].is_settled

    def cancel(self) -> bool:
        """False: what was published cannot be called back."""
        return False

    def cancelled(self) -> bool:
        """False: see `cancel`."""
        return False

    def told(self) -> Receipt:
        """What is known of the message.

        Raises:
            asyncio.InvalidStateError: nothing is, yet.
            GoQueueError: it was not stored.
        """
        fate, at = self._found()
        if fate.error is not None:
            raise fate.error
        if fate.stored is None:
            raise asyncio.InvalidStateError("it is not known yet: await it first")
        later = fate.delayed.get(at) if fate.delayed else None
        if later is not None:
            return Receipt(fate.topic, fate.partition, _NO_OFFSET, self.timestamp_ms, *later)
        base_offset, append_time_ms = fate.stored.base_offset, fate.stored.append_time_ms
        return Receipt(
            fate.topic,
            fate.partition,
            base_offset + at if base_offset >= 0 else _NO_OFFSET,
            append_time_ms if append_time_ms >= 0 else self.timestamp_ms,
        )


class AsyncDelivery(Delivery, eq=False, gc=False):
    """A handle of `AsyncClient.publish`."""

    def __await__(self) -> Generator[Any, None, Receipt]:
        while not (fate := self._found()[0]).is_settled:
            yield from asyncio.shield(fate.waiter()).__await__()
        return self.told()

    def result(self) -> Receipt:
        """Where the message was stored.

        Raises:
            asyncio.InvalidStateError: that is not known yet.
            GoQueueError: it was not stored.
        """
        return self.told()

    def exception(self) -> Exception | None:
        """Why the message was not stored; None when it was."""
        fate, _ = self._found()
        if not fate.is_settled:
            raise asyncio.InvalidStateError("it is not known yet: await it first")
        return fate.error

    def add_done_callback(self, callback: Callable[[AsyncDelivery], object]) -> None:
        """Call it with this handle when it is known what became of the message."""
        if self.done():
            asyncio.get_running_loop().call_soon(callback, self)
        else:
            self._found()[0].on_news(lambda: self.add_done_callback(callback))


class BlockingDelivery(Delivery, eq=False, gc=False):
    """A handle of `Client.publish`; may be used in any thread."""

    def result(self, timeout: float | None = None) -> Receipt:
        """Where the message was stored; waits until that is known.

        Args:
            timeout: How long to wait, in seconds.

        Raises:
            TimeoutError: it was not known in time.
            GoQueueError: it was not stored.
        """
        self._wait(timeout)
        return self.told()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Why the message was not stored, or None when it was; waits until that is known."""
        self._wait(timeout)
        return self._found()[0].error

    def _wait(self, timeout: float | None) -> None:
        deadline = Deadline(timeout)
        while not (fate := self._found()[0]).is_settled:
            fate.wait(deadline)

    def add_done_callback(self, callback: Callable[[BlockingDelivery], object]) -> None:
        """Call it with this handle when its fate is known, as a rule in another thread."""
        self._when_done([callback])

    def _when_done(self, left: list[Callable[[BlockingDelivery], object]]) -> None:
        """Two threads may find that it is done: the one that takes the callback out calls it."""
        fate, _ = self._found()
        if not fate.is_settled:
            fate.on_news(lambda: self._when_done(left))
        if self.done():
            try:
                callback = left.pop()
            except IndexError:
                return
            callback(self)

    def future(self) -> Future[Receipt]:
        """The same as a future of `concurrent.futures`, for those who need one."""
        from concurrent.futures import Future  # noqa: PLC0415 - few do

        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # what is handed over cannot be called back

        def settle(delivery: BlockingDelivery) -> None:
            error = delivery.exception()
            if error is None:
                future.set_result(delivery.told())
            else:
                future.set_exception(error)

        self.add_done_callback(settle)
        return future
