"""uvicorn's HTTP protocol with two bounds that it lacks: how long, and how large, a head may be.

Without them a client that sends its request a byte a minute holds a connection for ever, and one
that never ends its headers makes the server keep them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. Past either bound it is closed without an answer."""

    head_s: ClassVar[float] = 10.0
    """From the connection, or the first byte of a later request, to the end of its headers."""
    max_head_bytes: ClassVar[int] = 64 * 1024
    """Request line and headers together; a little more may have arrived with the last read."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Expect a request."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Count what belongs to a head, and read on."""
        if self._deadline is not None:
            self._head_bytes += len(data)
            if self._head_bytes > self.max_head_bytes + len(data):
                self.transport.abort()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Expect the rest of a head that has begun."""
        if self._deadline is None:
            self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Expect nothing more."""
        self._head_is_over()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave no timer behind."""
        self._head_is_over()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head_bytes = 0
        self._deadline = self.loop.call_later(self.head_s, self.transport.abort)

    def _head_is_over(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
