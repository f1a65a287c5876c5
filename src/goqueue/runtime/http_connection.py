"""HTTP/1.1 as a client: for requests to etcd's JSON gateway and to the targets of webhooks.

One request at a time on a connection. An answer is a whole body, or a stream of lines for as long
as the other side keeps it open. A connection on which anything went wrong, or on which a caller
gave up, is closed and never used again: what comes next on it would be the answer to something
else. Redirects are answers like others: nothing here follows one.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""One answer, or one line of a stream; more is taken for an error of the connection."""
_MAX_HEAD_LINES: Final = 100
"""Of one answer, likewise."""
_HTTP_PORT: Final = 80
_HTTPS_PORT: Final = 443
_FIRST_FINAL: Final = 200
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class HttpConnectionError(Exception):
    """The connection failed, or the other side does not speak HTTP as it is expected to."""


class Endpoint(NamedTuple):
    """Where a server is reached."""

    host: str
    port: int
    is_tls: bool = False

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """The endpoint of a URL such as `http://127.0.0.1:7001`."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port is None:
            raise ValueError(f"{url!r} is no address of a server: expected http(s)://HOST:PORT")
        return cls(parts.hostname, parts.port, parts.scheme == "https")

    def __str__(self) -> str:
        return f"{self._host}:{self.port}"

    @property
    def authority(self) -> str:
        """What the header Host says: the port is left out where it is that of the scheme."""
        is_usual = self.port == (_HTTPS_PORT if self.is_tls else _HTTP_PORT)
        return self._host if is_usual else str(self)

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


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
    async def open(
        cls, endpoint: Endpoint, tls: ssl.SSLContext | None, *, address: str | None = None
    ) -> Connection:
        """Connect, to this IP address if one is given: the name is not resolved again then.

        The certificate is that of the endpoint's host either way.

        Raises:
            HttpConnectionError: there is no such place, nothing listens there, or the certificate
                is not to be trusted.
        """
        host = address or endpoint.host
        context = tls if endpoint.is_tls else None
        name = endpoint.host if context is not None else None
        try:
            opened = await asyncio.open_connection(
                host, endpoint.port, ssl=context, server_hostname=name
            )
        except (OSError, ValueError) as error:
            raise HttpConnectionError(str(error)) from error
        return cls(endpoint, *opened)

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent: neither side has closed it."""
        return not (self._is_last or self._writer.is_closing() or self._reader.at_eof())

    async def post(self, path: str, body: bytes, headers: Mapping[str, str] = NO_HEADERS) -> int:
        """Post JSON and wait for the head of the answer; returns the status."""
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.endpoint.authority}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{more}\r\n"
        )
        try:
            self._writer.write(head.encode() + body)
            await self._writer.drain()
            while (status := await self._head()) < _FIRST_FINAL:
                pass  # such as 103: the answer itself follows
        except (OSError, EOFError, ValueError) as error:
            raise self._failure(error) from error
        return status

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

    def _failure(self, error: Exception) -> HttpConnectionError:
        self.close()
        return HttpConnectionError(str(error))


def _check_size(count: int) -> None:
    if not 0 <= count <= _MAX_ANSWER_BYTES:
        raise ValueError(f"an answer of {count} bytes, expected at most {_MAX_ANSWER_BYTES}")
