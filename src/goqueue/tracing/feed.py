"""Getting entries out: to files, to standard output, to a collector, each at its own pace.

An exporter works in a thread of its own: the event loop waits for none, and a slow one keeps no
other waiting. What it cannot take is dropped, the oldest first, and counted.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TextIO

import msgspec

from goqueue.runtime.tasks import in_thread
from goqueue.tracing.events import Entry, span_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.runtime.clock import Clock
    from goqueue.tracing.files import TraceFiles

logger = logging.getLogger(__name__)

_MAX_WAITING: Final = 100_000
"""Entries that wait for one exporter; of more, the oldest is dropped."""
_STOP_S: Final = 5.0


class Exporter(Protocol):
    """Somewhere that entries go."""

    name: str

    def export(self, entries: list[Entry]) -> None:
        """Take entries; in a thread. Raises whatever it likes: they are lost then."""

    def close(self) -> None:
        """Take no more; what is under way may be cut off."""


class Feed:
    """What waits for one exporter."""

    def __init__(
        self, exporter: Exporter, batch: int, flush_s: float, limit: int = _MAX_WAITING
    ) -> None:
        self.exporter = exporter
        self.exported = self.dropped = 0
        self._batch = batch
        self._flush_s = flush_s
        self._waiting: deque[Entry] = deque(maxlen=limit)
        self._limit = limit
        self._full = asyncio.Event()
        self._sending = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._fails = False

    def put(self, entry: Entry) -> None:
        """Let an entry go out soon."""
        waiting = self._waiting
        if len(waiting) == self._limit:
            self.dropped += 1
        waiting.append(entry)
        if len(waiting) == self._batch:
            self._full.set()

    def put_all(self, entries: list[Entry]) -> None:
        """Let entries go out soon."""
        waiting = self._waiting
        before = len(waiting)
        waiting.extend(entries)
        self.dropped += max(before + len(entries) - self._limit, 0)
        if before < self._batch <= len(waiting):
            self._full.set()

    def start(self) -> None:
        """Send when there is a batch, or some time is over."""
        name = f"traces to {self.exporter.name}"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    async def stop(self) -> None:
        """Send what waits, as far as that is possible soon."""
        if self._task is None or self._thread is None:
            return
        self._task.cancel()
        done, _ = await asyncio.wait((self._task,), timeout=_STOP_S)
        is_late = not done
        if done:
            try:
                async with asyncio.timeout(_STOP_S):
                    await self.flush(self.exporter.close)
            except TimeoutError:
                is_late = True
        if is_late:
            self.dropped += len(self._waiting)
            self._waiting.clear()
            logger.warning("traces to %s are lost: the export timed out", self.exporter.name)
        self.exporter.close()
        self._thread.shutdown(wait=False)

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._flush_s):
                    await self._full.wait()
            except TimeoutError:
                pass
            self._full.clear()
            await self.flush()

    async def flush(self, on_cancel: Callable[[], None] | None = None) -> None:
        """Return when what waits now was sent, or lost; `on_cancel` is to make the exporter hurry.

        What is under way already is waited for, too.
        """
        if self._thread is None:
            return
        async with self._sending:
            while self._waiting:
                count = min(len(self._waiting), 10 * self._batch)
                portion = [self._waiting.popleft() for _ in range(count)]
                await self._send(self._thread, portion, on_cancel)

    async def _send(
        self, thread: Executor, portion: list[Entry], on_cancel: Callable[[], None] | None
    ) -> None:
        try:
            await in_thread(thread, partial(self.exporter.export, portion), on_cancel)
        except Exception as error:  # noqa: BLE001 - a collector may fail in any way
            self.dropped += len(portion)
            if not self._fails:
                logger.warning("traces to %s are lost: %s", self.exporter.name, error)
            self._fails = True
        else:
            self.exported += len(portion)
            self._fails = False


class FileExporter:
    """Keeps entries for the next start, and for queries of old ones."""

    name = "files"

    def __init__(self, files: TraceFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock

    def export(self, entries: list[Entry]) -> None:
        """Append them."""
        self._files.write(entries, self._clock.now_ms())

    def close(self) -> None:
        """Close the file."""
        self._files.close()


class StdoutExporter:
    """Prints spans, a line of JSON each."""

    name = "stdout"

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def export(self, entries: list[Entry]) -> None:
        """Print one line for each message."""
        stream = sys.stdout if self._stream is None else self._stream
        for entry in entries:
            for _, offset in entry.traces():
                stream.write(msgspec.json.encode(span_of(entry, offset)).decode() + "\n")
        stream.flush()

    def close(self) -> None:
        """Nothing to do: the stream is not ours."""
