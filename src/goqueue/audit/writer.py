"""The audit log that is on: events from the event loop, lines to a file by a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from goqueue.audit.chain import Link, encode_line
from goqueue.audit.events import NOBODY, AuditEvent, Event, Outcome
from goqueue.audit.files import AuditFiles
from goqueue.audit.limits import MAX_BATCH, MAX_QUEUED
from goqueue.audit.log import AuditLog
from goqueue.audit.settings import FileLimits
from goqueue.metrics import security_names as names
from goqueue.model.errors import DiskError

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.metrics.registry import Samples
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
"""After a write that failed; meanwhile events wait in the queue."""
_STOP_S: Final = 5.0
"""What the writer has at the end for what is still in the queue."""


class WrittenAuditLog(AuditLog):
    """Stores events as lines of a hash chain.

    An event is durable some milliseconds after `record`: the caller does not wait for it. What is
    still in the queue when the process is killed is lost; a line that was being written is cut off
    at the next start, and the chain goes on behind the one before it.
    """

    is_on = True

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        clock: Clock,
        node: str,
        limits: FileLimits | None = None,
        *,
        echo: bool = False,
    ) -> None:
        """Write to files in `folder`; `echo` prints every line on standard error too."""
        self._files = AuditFiles(disk, folder, limits or FileLimits())
        self._clock = clock
        self._node = node
        self._echo = echo
        self._queue: SimpleQueue[AuditEvent | None] = SimpleQueue()
        self._end = Link.start()
        self._dropped = self._dropped_written = 0
        self._written = 0
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # --- For callers ----------------------------------------------------------------------------

    def record(
        self,
        event: str,
        *,
        principal: str = NOBODY,
        host: str = NOBODY,
        resource: str = "",
        outcome: str = Outcome.SUCCESS,
        request_id: str | None = None,
        **details: object,
    ) -> None:
        """Queue an event; at the bound it is dropped, and the log says how many were."""
        if self._queue.qsize() >= MAX_QUEUED:
            self._dropped += 1
            return
        self._queue.put(
            AuditEvent(
                self._clock.now_ms(),
                event,
                principal,
                host,
                resource,
                outcome,
                request_id or "",
                details,
            )
        )

    @property
    def failure(self) -> str | None:
        """Why nothing can be written at the moment."""
        return self._failure

    def put(self, samples: Samples) -> None:
        """What there is to count."""
        samples.put(names.AUDIT_EVENTS, self._written)
        samples.put(names.AUDIT_DROPPED, self._dropped)
        samples.put(names.AUDIT_FAILED, self._failure is not None)

    # --- Starting and stopping ------------------------------------------------------------------

    async def start(self) -> None:
        """Find the end of the log, and begin to write.

        Raises:
            DiskError: the log cannot be opened.
        """
        found = await asyncio.to_thread(self._files.open)
        self._end = found.end
        if found.missing_lines:
            logger.error(
                "audit log: %d lines that were stored are missing: the log was cut, or an older "
                "copy was put back; `goqueue audit verify` shows where",
                found.missing_lines,
            )
        self.record(
            Event.AUDIT_STARTED,
            outcome=Outcome.FAILURE if found.missing_lines else Outcome.SUCCESS,
            torn_bytes=found.torn_bytes,
            missing_lines=found.missing_lines,
        )
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Write what is in the queue, and close the files."""
        if self._thread is None:
            return
        self.record(Event.AUDIT_STOPPED)
        self._stopping.set()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, _STOP_S)
        if self._thread.is_alive():
            logger.warning("audit log: the last events are not written: the disk did not answer")

    # --- The writer's thread --------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            batch, is_last = self._next_batch()
            try:
                self._store(batch)
            except Exception:  # the thread must go on: what comes next can be written
                logger.exception("audit log: %d events were not written", len(batch))
                self._dropped += len(batch)
            if is_last:
                self._files.close()
                return

    def _next_batch(self) -> tuple[list[AuditEvent], bool]:
        """What waits, once something does; and whether nothing follows."""
        batch: list[AuditEvent] = []
        event = self._queue.get()
        try:
            while event is not None:
                batch.append(event)
                if len(batch) >= MAX_BATCH:
                    return batch, False
                event = self._queue.get_nowait()
        except Empty:
            return batch, False
        return batch, True

    def _store(self, batch: list[AuditEvent]) -> None:
        """Write a batch, however often that has to be tried."""
        if (lost := self._dropped - self._dropped_written) > 0:
            self._dropped_written += lost
            batch.append(self._own(Event.AUDIT_DROPPED, Outcome.FAILURE, events=lost))
        while batch:
            try:
                self._write(batch)
            except DiskError as error:
                if self._failure is None:
                    logger.error("audit log: events wait, since nothing can be written: %s", error)  # noqa: TRY400 - the trace says nothing more
                self._failure = str(error)
                if self._stopping.wait(_RETRY_S):
                    logger.error("audit log: %d events were not written", len(batch))  # noqa: TRY400 - as above
                    return
            else:
                if self._failure is not None:
                    logger.info("audit log: it can be written again")
                self._failure = None
                self._written += len(batch)
                return

    def _write(self, batch: list[AuditEvent]) -> None:
        if self._files.is_full:
            kept_from = self._files.roll(self._end.sequence + 1)
            if kept_from is not None:
                batch.insert(0, self._own(Event.AUDIT_ROTATED, first_kept=kept_from))
        end, lines = self._end, []
        for event in batch:
            line, end = encode_line(end, self._node, event)
            lines.append(line)
        data = b"".join(lines)
        self._files.append(data, end)
        self._end = end
        if self._echo:
            sys.stderr.write(data.decode("ascii"))
        if self.on_written is not None:
            self.on_written(lines)

    def _own(self, event: Event, outcome: Outcome = Outcome.SUCCESS, **details: int) -> AuditEvent:
        return AuditEvent(self._clock.now_ms(), event, outcome=outcome, details=details)
