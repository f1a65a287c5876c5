"""What was published and is not settled yet: how much, whether there is room, what went wrong."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from goqueue.client.errors import BufferFullError, ClientClosedError
from goqueue.client.types import SendStats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.client.producing.deliveries import Stored
    from goqueue.client.producing.lanes import Batch
    from goqueue.client.settings import ClientSettings

_ROOM: Final = 0.75
"""Publishers that wait for room go on when no more than this share of the buffer is in use: to
wake up for each batch would cost more than the messages do."""


class Ledger:
    """Counts messages from the moment they are put into a batch until that is settled.

    Publishers may be in other threads than the loop: what they change, they change under `lock`.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.lock: Final = threading.Lock()
        self.room: Final = threading.Condition(self.lock)
        """Told when there is room again; for publishers in threads."""
        self.unsettled = 0
        """Messages in batches that are not settled."""
        self.is_full = False
        """Whether as much waits as the settings allow."""
        self.last_error: Exception | None = None
        self.failure: Exception | None = None
        """The first since the last flush."""
        self.is_closed = False
        self._settings = settings
        self._closed_bytes = 0
        """Of batches that are closed, and not settled."""
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._acknowledged = self._failed = self._batches = self._bytes = 0

    @property
    def stats(self) -> SendStats:
        """What became of the messages so far."""
        return SendStats(
            self._acknowledged + self._failed + self.unsettled,
            self._acknowledged,
            self._failed,
            self._batches,
            self._bytes,
            self.last_error,
        )

    # --- In --------------------------------------------------------------------------------------

    def taken(self, count: int) -> None:
        """So many messages are in a batch now."""
        self.unsettled += count
        if self.unsettled >= self._settings.buffer_messages:
            self.is_full = True

    def closed(self, size_bytes: int) -> None:
        """A batch of that size is closed."""
        self._closed_bytes += size_bytes
        if self._closed_bytes >= self._settings.buffer_bytes:
            self.is_full = True

    def check(self) -> None:
        """Raise `ClientClosedError` when nothing can be published any more."""
        if self.is_closed:
            raise ClientClosedError("the client is closed: create another one")

    def check_room(self) -> None:
        """Raise `BufferFullError` when there is no room, and publishers are not to wait."""
        self.check()
        if self.is_full and self._settings.when_full == "raise":
            raise BufferFullError(
                f"{self.unsettled} messages ({self._closed_bytes} bytes in batches) wait to be "
                "acknowledged: publish more slowly, or raise buffer_messages or buffer_bytes"
            )

    async def wait_for_room(self) -> None:
        """Until there is room; raises as `check_room`."""
        while self.is_full:
            self.check_room()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    # --- Out; only in the thread of the loop -----------------------------------------------------

    def stored(
        self, batches: Sequence[tuple[Batch, Stored, Mapping[int, tuple[int | None, int]]]]
    ) -> None:
        """Batches are stored; tell those who wait for them."""
        count = size_bytes = 0
        for batch, placed, delayed in batches:
            batch.fate.settle(placed, delayed=delayed)
            count += batch.count
            size_bytes += batch.size_bytes
        self._acknowledged += count
        self._batches += len(batches)
        self._bytes += size_bytes
        self._free(count, size_bytes)

    def failed(self, batches: Sequence[Batch], error: Exception) -> None:
        """Batches are not stored; tell those who wait for them."""
        for batch in batches:
            batch.fate.settle(error=error)
            self._failed += batch.count
            self._free(batch.count, batch.size_bytes)
        if batches:
            self.last_error = error
            self.failure = self.failure or error

    def refused(self, error: Exception) -> None:
        """A message could not even be put into a batch."""
        with self.lock:
            self._failed += 1
            self.last_error = error
            self.failure = self.failure or error

    def _free(self, count: int, size_bytes: int) -> None:
        """There is room for so much more."""
        settings = self._settings
        with self.lock:
            self.unsettled -= count
            self._closed_bytes -= size_bytes
            has_room = (
                self.unsettled <= settings.buffer_messages * _ROOM
                and self._closed_bytes <= settings.buffer_bytes * _ROOM
            )
            if has_room:
                self.is_full = False
                self.room.notify_all()
        if has_room:
            self._wake_all()

    def _wake_all(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """Take nothing more; those who wait for room are told."""
        self.is_closed = True
        with self.lock:
            self.room.notify_all()
        self._wake_all()
