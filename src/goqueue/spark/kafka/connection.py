"""One socket to one broker: requests go out in order, and so do their answers come back.

A request may be sent before the answer to the one before it was taken: that is how a task lets the
broker read the next chunk while Spark works on this one.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.errors import ConnectionLostError, LoginError
from goqueue.wire.kafka.errors import MalformedRequestError
from goqueue.wire.kafka.frames import CORRELATION_ID_BYTES, parse_response, request_frame

if TYPE_CHECKING:
    from goqueue.spark.kafka.settings import LinkSettings, Security
    from goqueue.wire.kafka.api_keys import ApiKey
    from goqueue.wire.kafka.reading import Struct

_LENGTH: Final = struct.Struct(">i")
_MAX_FRAME_BYTES: Final = 1 << 30
"""A longer answer is not one of ours: the stream is lost, and nothing is reserved for it."""
_MAX_ELEMENTS: Final = 1 << 24
"""Of all arrays in one answer; a broker is trusted with more than a client is."""


class Connection:
    """Calls one broker; every failure of the network is a `ConnectionLostError`, and ends it."""

    def __init__(self, host: str, port: int, settings: LinkSettings) -> None:
        self.address: Final = f"{host}:{port}"
        self._client_id = settings.client_id.encode()
        self._timeout_s = settings.request_timeout_s
        self._waiting: deque[tuple[int, ApiKey, int]] = deque()
        self._correlation_id = 0
        self.is_open = False
        """Once something went wrong, nobody knows what would come next: it stays closed."""
        try:
            plain = socket.create_connection((host, port), timeout=settings.connect_timeout_s)
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                security = settings.security
                self._socket = _wrapped(plain, host, security) if security.is_tls else plain
                self._socket.settimeout(self._timeout_s)
            except BaseException:
                plain.close()
                raise
        except ssl.SSLCertVerificationError as error:
            raise LoginError(
                f"the certificate of {self.address} cannot be trusted: {error.verify_message}"
            ) from error
        except OSError as error:
            raise ConnectionLostError(f"cannot connect to {self.address}: {error}") from error
        self.is_open = True

    def close(self) -> None:
        """Hang up; what was asked and not answered is forgotten."""
        self.is_open = False
        self._waiting.clear()
        self._socket.close()

    def call(self, api: ApiKey, version: int, /, wait_s: float = 0.0, **fields: Any) -> Struct:
        """Send a request and wait for its answer, `wait_s` longer than usual for a long poll."""
        self.send(api, version, **fields)
        return self.receive(wait_s)

    def send(self, api: ApiKey, version: int, /, **fields: Any) -> None:
        """Send a request; `receive` takes the answer."""
        self._correlation_id += 1
        out = request_frame(self._correlation_id, self._client_id, fields, api, version)
        try:
            self._socket.sendall(out)
        except OSError as error:
            raise self._lost(error) from error
        self._waiting.append((self._correlation_id, api, version))

    def receive(self, wait_s: float = 0.0) -> Struct:
        """The answer to the oldest request that has none; blobs in it are views of its frame."""
        if not self._waiting:
            raise self._lost("nothing is under way")
        expected, api, version = self._waiting.popleft()
        try:
            self._socket.settimeout(self._timeout_s + wait_s)
            (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
            if not CORRELATION_ID_BYTES <= size <= _MAX_FRAME_BYTES:
                raise self._lost(_no_broker(size))
            frame = self._exactly(size)
        except OSError as error:
            raise self._lost(error) from error
        try:
            answered, response = parse_response(frame, api, version, max_elements=_MAX_ELEMENTS)
        except MalformedRequestError as error:
            raise self._lost("it sent a malformed response") from error
        if answered != expected:
            raise self._lost("it answers another request than the one sent")
        return response

    def _exactly(self, size: int) -> memoryview:
        view = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            filled += count
        return view

    def _lost(self, why: object) -> ConnectionLostError:
        self.close()
        return ConnectionLostError(f"lost the connection to {self.address}: {why}")


def _no_broker(size: int) -> str:
    """What sends a frame of such a size is no broker; what it most often is has a name."""
    if _LENGTH.pack(size) == b"HTTP":
        return "it speaks HTTP: expected the port of Kafka's protocol, such as 9092"
    return f"it sent a frame of {size} bytes"


def _wrapped(plain: socket.socket, host: str, security: Security) -> ssl.SSLSocket:
    files = security.ca_file, security.certificate_file, security.key_file
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.certificate_file is not None:
            context.load_cert_chain(security.certificate_file, security.key_file)
    except OSError as error:
        raise LoginError(f"cannot use {', '.join(filter(None, files))}: {error}") from error
    if not security.check_host_name:
        context.check_hostname = False
    return context.wrap_socket(plain, server_hostname=host)
