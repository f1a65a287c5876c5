"""HTTP/1.1 as far as etcd's JSON gateway needs it: one request at a time on a connection.

An answer is a whole body, or a stream of lines for as long as the other side keeps it open. A
connection on which anything went wrong, or on which a caller gave up, is closed and never used
again: what comes next on it would be the answer to something else.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    import ssl

_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""One answer, or one line of a stream; more is taken for an error of the connection."""
_MAX_HEAD_LINES: Final = 100
"""Of one answer, likewise."""


class GatewayError(Exception):
    """The connection failed, or the other side does not speak as etcd's gateway does."""


class Endpoint(NamedTuple):
    """Where a member of etcd is reached."""

    host: str
    port: int
    is_tls: bool = False

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """The endpoint of a URL such as `http://127.0.0.1:7001`."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port is None:
            raise ValueError(f"{url!r} is no address of etcd: expected http(s)://HOST:PORT")
        return cls(parts.hostname, parts.port, parts.scheme == "https")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Answer(NamedTuple):
    """Status and body."""

    status: int
    body: bytes


class Connection:
    """Made by `open`. Nothing here waits for ever but `line`: the caller has the deadlines."""

    def __init__(
        self, endpoint: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.endpoint = endpoint
        self._reader = reader
        self._writer = writer
        self._is_chunked = False
        self._length = 0
        self._is_last = False
        self._streamed = bytearray()
        """What has come of a stream and was not asked for yet."""

    @classmethod
    async def open(cls, endpoint: Endpoint, tls: ssl.SSLContext | None) -> Connection:
        """Connect.

        Raises:
            GatewayError: there is no such place, or nothing listens there.
        """
        context = tls if endpoint.is_tls else None
        try:
            opened = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
        except (OSError, ValueError) as error:
            raise GatewayError(str(error)) from error
        return cls(endpoint, *opened)

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent: neither side has closed it."""
        return not (self._is_last or self._writer.is_closing() or self._reader.at_eof())

    async def send(self, path: str, body: bytes, *, need_leader: bool) -> int:
        """Send a request and wait for the head of its answer; returns the status."""
        need = "Grpc-Metadata-hasleader: true\r\n" if need_leader else ""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.endpoint}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{need}\r\n"
        )
        try:
            self._writer.write(head.encode() + body)
            await self._writer.drain()
            return await self._head()
        except (OSError, EOFError, ValueError) as error:
            raise self._failure(error) from error

    async def body(self) -> bytes:
        """The whole body of the answer; another request may follow."""
        try:
            if not self._is_chunked:
                return await self._reader.readexactly(self._length)
            found = bytearray()
            while (chunk := await self._chunk()) is not None:
                found += chunk
                _check_size(len(found))
            return bytes(found)
        except (OSError, EOFError, ValueError) as error:
            raise self._failure(error) from error

    async def line(self) -> bytes | None:
        """The next line of a stream; None when the other side has ended it."""
        try:
            while (end := self._streamed.find(b"\n")) < 0:
                chunk = await self._chunk()
                if chunk is None:
                    return None
                self._streamed += chunk
                _check_size(len(self._streamed))
        except (OSError, EOFError, ValueError) as error:
            raise self._failure(error) from error
        found = bytes(self._streamed[:end])
        del self._streamed[: end + 1]
        return found

    def close(self) -> None:
        """Close it at once, whatever is under way."""
        self._writer.transport.abort()

    # --- Inside ----------------------------------------------------------------------------------

    async def _head(self) -> int:
        version, status, *_ = (await self._line()).split(b" ", 2)
        if not version.startswith(b"HTTP/1."):
            raise ValueError("this is no HTTP")
        self._is_chunked, self._length, self._is_last = False, 0, version != b"HTTP/1.1"
        for _ in range(_MAX_HEAD_LINES):
            line = await self._line()
            if not line:
                return int(status)
            name, _, value = line.partition(b":")
            self._header(name.strip().lower(), value.strip().lower())
        raise ValueError(f"more than {_MAX_HEAD_LINES} headers")

    def _header(self, name: bytes, value: bytes) -> None:
        if name == b"content-length":
            self._length = int(value)
            _check_size(self._length)
        elif name == b"transfer-encoding":
            self._is_chunked = value == b"chunked"
        elif name == b"connection" and value == b"close":
            self._is_last = True

    async def _chunk(self) -> bytes | None:
        """The next chunk; None when that was the last."""
        size = int((await self._line()).partition(b";")[0], 16)
        _check_size(size)
        if size == 0:
            while await self._line():  # trailers
                pass
            return None
        return (await self._reader.readexactly(size + 2))[:-2]

    async def _line(self) -> bytes:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the connection was closed")
        return line.rstrip(b"\r\n")

    def _failure(self, error: Exception) -> GatewayError:
        self.close()
        return GatewayError(str(error))


def _check_size(count: int) -> None:
    if not 0 <= count <= _MAX_ANSWER_BYTES:
        raise ValueError(f"an answer of {count} bytes, expected at most {_MAX_ANSWER_BYTES}")
