"""One request on its way in, and what is known of how it will be answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.http.api.requests import Request

if TYPE_CHECKING:
    from goqueue.model.errors import GoQueueError
    from goqueue.protocols.http.api.router import Match


class Exchange:
    """A request and its place in the order of answers."""

    __slots__ = ("body", "keep_alive", "match", "old_version", "refusal", "request", "size_bytes")

    def __init__(self) -> None:
        self.request = Request("", b"")
        self.match: Match | None = None
        self.refusal: GoQueueError | None = None
        self.body: bytes | bytearray = b""
        self.size_bytes = 0
        """What the request counts for among the bodies of all requests under way."""
        self.keep_alive = False
        self.old_version = False
        """HTTP/1.0, which closes connections unless told otherwise."""

    @property
    def polls(self) -> bool:
        """Whether the answer waits for something to happen."""
        return self.match is not None and self.match.endpoint.route.polls

    def add(self, chunk: bytes) -> None:
        """Take some of the body. Most bodies are one chunk, some are millions of small ones."""
        if not self.body:
            self.body = chunk
        elif isinstance(self.body, bytearray):
            self.body += chunk
        else:
            self.body = bytearray(self.body) + chunk
        self.size_bytes += len(chunk)

    def end(self) -> None:
        """The body is whole."""
        self.request.body = bytes(self.body)
        self.body = b""
