"""One answer that goes on: parts written as they come, none before the last one was accepted."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING

from goqueue.protocols.http.server.response_writer import LAST_CHUNK, chunk_of, stream_head

if TYPE_CHECKING:
    from goqueue.protocols.http.api.requests import Request
    from goqueue.protocols.http.api.responses import Stream

_log = logging.getLogger(__name__)


class Outflow:
    """A stream on its way to one client.

    What bounds it: a part is asked for only while the transport takes more, so at most one lies
    beside the transport's own buffer. A client that accepts nothing for too long is dropped by the
    connection, which knows the time.
    """

    def __init__(self, transport: asyncio.Transport, *, old_version: bool) -> None:
        self._transport = transport
        self._old_version = old_version
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._has_ended = False

    def pause(self) -> None:
        """The client does not read fast enough."""
        self._may_write.clear()

    def resume(self) -> None:
        """It has caught up."""
        self._may_write.set()

    async def pour(self, stream: Stream, request: Request, date: bytes) -> None:
        """Write all of a stream. Raises nothing but `CancelledError`."""
        write = self._transport.write
        write(stream_head(stream, request, date, old_version=self._old_version))
        async with aclosing(stream.parts) as parts:
            if request.method == "HEAD":
                self._has_ended = True  # its head was all
                return
            try:
                async for part in parts:
                    write(part if self._old_version else chunk_of(part))
                    await self._may_write.wait()
            except Exception:  # noqa: BLE001 - whatever it is, the client has to see a broken end
                # The head has promised success.
                _log.exception(
                    "%s %r failed after the response had started", request.method, request.target
                )
                self._transport.abort()
                return
        self.end()

    def end(self) -> None:
        """Tell the client that there will be no more parts; one that listens to none is dropped."""
        if self._has_ended or self._transport.is_closing():
            return
        self._has_ended = True
        if not self._may_write.is_set():
            self._transport.abort()
        elif not self._old_version:
            self._transport.write(LAST_CHUNK)
