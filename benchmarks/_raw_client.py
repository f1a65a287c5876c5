"""Kafka requests without a client library: one that cannot wait, and thousands that mostly do.

As a module it is a client process (see `_client.py`) that holds many connections at once.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import uvloop
from crc32c import crc32c

from benchmarks._brokers import HOST, PARTITIONS
from benchmarks._client import serve_calls
from benchmarks._logs import batch_of

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCE: Final = 0
METADATA: Final = 3
API_VERSIONS: Final = 18
INIT_PRODUCER_ID: Final = 22
NO_ERROR: Final = 0

_INT: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_HEADER: Final = struct.Struct(">hhi")
_NEW_PRODUCER: Final = struct.Struct(">iihqh")
_PRODUCER: Final = struct.Struct(">qh")
_NO_TAGS: Final = bytes(3)
_CRC_AT, _CHECKED_AT, _LAST_DELTA_AT, _PRODUCER_AT, _SEQUENCE_AT = 17, 21, 23, 43, 53
"""Where a batch has its checksum and some of what that is of."""
_SEQUENCES: Final = 1 << 31
_GIVE_UP_S: Final = 30.0
_RETRY_S: Final = 0.001
_UNTIL_SETTLED_S: Final = 0.3


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def compact_string(text: str) -> bytes:
    """As newer versions write strings."""
    return uvarint(len(text) + 1) + text.encode()


def uvarint(value: int) -> bytes:
    """A number as newer versions write lengths and tags."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def frame(key: int, version: int, body: bytes = b"") -> bytes:
    """A request with its length and header."""
    content = _HEADER.pack(key, version, 1) + _string("bench") + body
    return _INT.pack(len(content)) + content


def produce_frame(topic: str, partition: int, batch: bytes | bytearray) -> bytes:
    """Produce version 9: one batch, acks=all; three times no tagged fields."""
    start = struct.pack(">BBhiB", 0, 0, -1, 30_000, 2) + compact_string(topic)
    place = struct.pack(">Bi", 2, partition) + uvarint(len(batch) + 1)
    return frame(PRODUCE, 9, start + place + batch + _NO_TAGS)


def produce_error(answer: bytes, topic: str) -> int:
    """The error code in the answer to that, without its length."""
    at = 4 + 1 + 1 + len(compact_string(topic)) + 1 + 4
    code: int = struct.unpack_from(">h", answer, at)[0]
    return code


# --- The first message -------------------------------------------------------------------------


def first_acknowledged(port: int, topic: str, batch: bytes | bytearray) -> float:
    """Knock until the broker opens, publish to a topic that it has to make; the moment of the ack.

    Before it publishes it asks for ApiVersions and Metadata, as every client does.

    Raises:
        TimeoutError: no acknowledgement in half a minute.
    """
    give_up = time.perf_counter() + _GIVE_UP_S
    while time.perf_counter() < give_up:
        try:
            with socket.create_connection((HOST, port), timeout=_GIVE_UP_S) as sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # Version 4: this one topic, and it may be made.
                ask = frame(METADATA, 4, _INT.pack(1) + _string(topic) + b"\1")
                publish = produce_frame(topic, 0, batch)
                _exchange(sock, frame(API_VERSIONS, 0))
                while time.perf_counter() < give_up:
                    _exchange(sock, ask)
                    if produce_error(_exchange(sock, publish), topic) == NO_ERROR:
                        return time.perf_counter()
        except ConnectionError:
            time.sleep(_RETRY_S)
    raise TimeoutError("no message was acknowledged")


def new_producer_id(port: int) -> int:
    """The id that an idempotent producer gets before its first batch."""
    with socket.create_connection((HOST, port), timeout=_GIVE_UP_S) as sock:
        answer = _exchange(sock, frame(INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, 60_000)))
    _, _, error, producer_id, _ = _NEW_PRODUCER.unpack(answer)
    if error != NO_ERROR:
        raise RuntimeError(f"InitProducerId was answered with error {error}")
    return int(producer_id)


def _exchange(sock: socket.socket, request: bytes) -> bytes:
    sock.sendall(request)
    size = _INT.unpack(_receive(sock, _INT.size))[0]
    return _receive(sock, size)


def _receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise ConnectionResetError("the broker closed the connection")
        data += more
    return data


# --- Many connections --------------------------------------------------------------------------


class _Waiting(asyncio.Protocol):
    """Says hello and then nothing."""

    def __init__(self, on_answer: Callable[[], None]) -> None:
        self._on_answer = on_answer
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's own
        self.transport.write(frame(API_VERSIONS, 0))

    def data_received(self, _data: bytes) -> None:
        self._on_answer()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.is_lost = True


class _Publishing(asyncio.Protocol):
    """Publishes a batch each time that the one before is acknowledged."""

    def __init__(self, topic: str, request: bytes) -> None:
        self._topic = topic
        self._request = request
        self._answer = bytearray()
        self.acknowledged = 0
        self.slowest_s = 0.0
        self.failed = 0
        self.is_over = False
        self.begun = asyncio.Event()
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's own

    def begin(self) -> None:
        """Publish the first batch; the others follow by themselves."""
        self._send()

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self.transport.write(self._next_request())

    def _next_request(self) -> bytes | bytearray:
        return self._request

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if len(self._answer) < 4 or len(self._answer) < 4 + _INT.unpack_from(self._answer)[0]:
            return
        self.failed += produce_error(bytes(self._answer[4:]), self._topic) != NO_ERROR
        self.acknowledged += 1
        self.slowest_s = max(self.slowest_s, time.perf_counter() - self._sent_at)
        if self.acknowledged == 1:
            self.begun.set()
        self._answer.clear()
        if self.is_over:
            self.transport.close()
        else:
            self._send()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.failed += not self.is_over
        self.closed.set()


class _Idempotent(_Publishing):
    """Numbers its batches, as a producer does whose retries must not be stored twice."""

    def __init__(self, topic: str, request: bytes, batch_bytes: int, producer_id: int) -> None:
        super().__init__(topic, request)
        self._frame = bytearray(request)
        # The answer to the one before has come, so the socket has nothing of the frame any more.
        self._batch = memoryview(self._frame)[-batch_bytes - len(_NO_TAGS) : -len(_NO_TAGS)]
        self._count = _INT.unpack_from(self._batch, _LAST_DELTA_AT)[0] + 1
        self._sequence = 0
        _PRODUCER.pack_into(self._batch, _PRODUCER_AT, producer_id, 0)

    def _next_request(self) -> bytes | bytearray:
        _INT.pack_into(self._batch, _SEQUENCE_AT, self._sequence)
        _CRC.pack_into(self._batch, _CRC_AT, crc32c(self._batch[_CHECKED_AT:]))
        self._sequence = (self._sequence + self._count) % _SEQUENCES
        return self._frame


class _Crowd:
    """The connections of this process."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self.idle: list[_Waiting] = []

    async def open(self, port: int, count: int) -> float:
        """Open so many, and wait until each has been answered; the seconds that it took."""
        started = time.perf_counter()
        answered = asyncio.Event()
        answers = 0

        def on_answer() -> None:
            nonlocal answers
            answers += 1
            if answers == count:
                answered.set()

        for _ in range(count):
            _, made = await self.loop.create_connection(lambda: _Waiting(on_answer), HOST, port)
            self.idle.append(made)
        await asyncio.wait_for(answered.wait(), _GIVE_UP_S)
        return time.perf_counter() - started

    async def close(self) -> int:
        """Close them all; how many the broker had closed before."""
        lost = sum(each.is_lost for each in self.idle)
        for each in self.idle:
            each.transport.close()
        self.idle.clear()
        await asyncio.sleep(_UNTIL_SETTLED_S)
        return lost

    async def publish(
        self,
        port: int | list[int],
        topic: str,
        count: int,
        batch_bytes: int,
        seconds: float,
        *,
        idempotent: bool = False,
    ) -> dict[str, Any]:
        """Publish on so many connections for so long, counted from when all are under way.

        With a list of ports, each partition has its own: that of the node that leads it.
        """
        batch = batch_of(batch_bytes)
        made: list[_Publishing] = []
        ports = [port] * PARTITIONS if isinstance(port, int) else port
        for number in range(count):
            partition = number % len(ports)
            port = ports[partition]
            request = produce_frame(topic, partition, batch)
            make: Callable[[], _Publishing] = partial(_Publishing, topic, request)
            if idempotent:
                make = partial(_Idempotent, topic, request, len(batch), new_producer_id(port))
            _, protocol = await self.loop.create_connection(make, HOST, port)
            made.append(protocol)
        for each in made:
            each.begin()
        for each in made:
            await asyncio.wait_for(each.begun.wait(), _GIVE_UP_S)
            each.slowest_s = 0.0
        before, started = sum(each.acknowledged for each in made), time.perf_counter()
        await asyncio.sleep(seconds)
        after, took = sum(each.acknowledged for each in made), time.perf_counter() - started
        for each in made:
            each.is_over = True
        for each in made:
            await asyncio.wait_for(each.closed.wait(), _GIVE_UP_S)
        return {
            "batches_a_second": (after - before) / took,
            "acknowledged": sum(each.acknowledged for each in made),
            "failed": sum(each.failed for each in made),
            "least": min(each.acknowledged for each in made),
            "slowest_s": max(each.slowest_s for each in made),
        }


def _main() -> None:
    crowd = _Crowd()
    run = crowd.loop.run_until_complete
    serve_calls(
        {
            "open": lambda **given: run(crowd.open(**given)),
            "close": lambda: run(crowd.close()),
            "publish": lambda **given: run(crowd.publish(**given)),
        }
    )


if __name__ == "__main__":
    _main()
