"""The yardstick: a Kafka server that parses, checks, writes and acknowledges, and nothing else.

It knows as much of the protocol as librdkafka needs to produce to it and to consume from it by
assignment, it trusts everything it is told, and it forgets everything when it ends. So it shows
what a broker in Python can reach at best on the cores it runs on. It shares no code with goqueue.

    python -m benchmarks._null_broker FOLDER PARTITIONS     (prints its port when it listens)
"""

from __future__ import annotations

import asyncio
import os
import sys
from bisect import bisect_right
from itertools import count as counting
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final

import uvloop
from crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable

HOST: Final = "127.0.0.1"
VERSIONS: Final = {0: (0, 10), 1: (4, 11), 2: (1, 1), 3: (0, 4), 18: (0, 3), 22: (0, 1)}
"""Produce is hand-read in the version that librdkafka 2.16 chooses; so is all else in old ones."""

_I2, _I4, _I8 = Struct(">h"), Struct(">i"), Struct(">q")
_HEADER: Final = Struct(">ihhih")
_PRODUCED: Final = Struct(">ihqqqBBB")
_ASKED: Final = Struct(">iiiibii")
_READ: Final = Struct(">iiqqi")
_FETCHED: Final = Struct(">ihqqqiii")
_PRODUCER: Final = Struct(">ihqh")
_CRC: Final = Struct(">I")
_BUFFER_BYTES: Final = 4 * 1024 * 1024
_MAX_BATCH: Final = 1024 * 1024 + 1024


class Partition:
    """A file, and where in it each batch begins."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC)
        self.end, self.size = 0, 0
        self.offsets: list[int] = []
        self.positions: list[int] = []

    def append(self, batch: memoryview) -> int:
        """Check, stamp, write."""
        if crc32c(batch[21:]) != _CRC.unpack_from(batch, 17)[0]:
            raise ValueError("the checksum is wrong")
        first = self.end
        _I8.pack_into(batch, 0, first)
        os.write(self.file, batch)
        self.offsets.append(first)
        self.positions.append(self.size)
        self.end += _I4.unpack_from(batch, 23)[0] + 1
        self.size += len(batch)
        return first

    def read(self, offset: int, max_bytes: int) -> bytes:
        """From the batch that holds `offset` on, straight from the file; the last may be cut."""
        if offset >= self.end:
            return b""
        position = self.positions[bisect_right(self.offsets, offset) - 1]
        return os.pread(self.file, min(max_bytes, self.size - position), position)


class Broker:
    """Topics by name, made when they are asked for; and the fetches that wait for an append."""

    def __init__(self, folder: Path, partitions: int) -> None:
        self.folder, self.count, self.port = folder, partitions, 0
        self.topics: dict[str, list[Partition]] = {}
        self.waiting: list[Callable[[], None]] = []
        self.producer_ids = counting()

    def topic(self, name: str) -> list[Partition]:
        """The partitions of a topic."""
        if name not in self.topics:
            paths = (self.folder / f"{name}-{number}.log" for number in range(self.count))
            self.topics[name] = [Partition(path) for path in paths]
        return self.topics[name]

    def wake(self) -> None:
        """Answer the fetches that wait."""
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            answer()


class Connection(asyncio.BufferedProtocol):
    """Requests are parsed where the socket left them; nothing is copied."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.buffer = bytearray(_BUFFER_BYTES)
        self.view = memoryview(self.buffer)
        self.start = self.end = 0
        self.handlers = {
            0: self.produce,
            1: self.fetch,
            2: self.list_offsets,
            3: self.metadata,
            18: self.api_versions,
            22: self.init_producer_id,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's own

    def get_buffer(self, _sizehint: int) -> memoryview:
        if len(self.buffer) - self.end < _MAX_BATCH:
            rest = self.buffer[self.start : self.end]
            self.buffer[: len(rest)] = rest
            self.start, self.end = 0, len(rest)
        return self.view[self.end :]

    def buffer_updated(self, nbytes: int) -> None:
        self.end += nbytes
        while self.end - self.start >= _HEADER.size:
            size, key, version, correlation, client = _HEADER.unpack_from(self.buffer, self.start)
            stop = self.start + 4 + size
            if stop > self.end:
                return
            body = self.start + _HEADER.size + max(client, 0)
            self.start = stop
            self.handlers[key](body, version, correlation)
        if self.start == self.end:
            self.start = self.end = 0

    def answer(self, correlation: int, *parts: bytes | bytearray) -> None:
        """Send a frame."""
        size = 4 + sum(map(len, parts))
        if self.transport.is_closing():
            return
        self.transport.writelines([_I4.pack(size) + _I4.pack(correlation), *parts])

    # --- The two that count ----------------------------------------------------------------------

    def produce(self, at: int, version: int, correlation: int) -> None:
        """Version 9 or 10, one topic, as librdkafka sends it."""
        assert version >= 9, version
        buffer = self.buffer
        at += 2 + 6  # tagged fields, no transactional id; acks, timeout
        assert buffer[at] == 2, "one topic at a time"
        name_end = at + 1 + buffer[at + 1]
        name = bytes(buffer[at + 2 : name_end])
        count, at = _uvarint(buffer, name_end)
        partitions = self.broker.topic(name.decode())
        out = bytearray((0, 2, len(name) + 1)) + name
        out += _uvarint_bytes(count)
        for _ in range(count - 1):
            number = _I4.unpack_from(buffer, at)[0]
            length, at = _uvarint(buffer, at + 4)
            first = partitions[number].append(self.view[at : at + length - 1])
            at += length  # with its tagged fields: none
            out += _PRODUCED.pack(number, 0, first, -1, 0, 1, 0, 0)
        self.answer(correlation, out + bytes(6))
        self.broker.wake()

    def fetch(self, at: int, version: int, correlation: int) -> None:
        """Version 11."""
        assert version == 11, version
        _, wait_ms, _, max_bytes, _, _, _ = _ASKED.unpack_from(self.buffer, at)
        at += _ASKED.size
        wanted: list[tuple[bytes, list[tuple[int, ...]]]] = []
        topics, at = _I4.unpack_from(self.buffer, at)[0], at + 4
        for _ in range(topics):
            name_end = at + 2 + _I2.unpack_from(self.buffer, at)[0]
            name = bytes(self.buffer[at:name_end])
            at, stop = name_end + 4, _I4.unpack_from(self.buffer, name_end)[0] * _READ.size
            reads = list(_READ.iter_unpack(self.view[at : at + stop]))
            wanted.append((name, reads))
            at += stop
        if not self.send_fetched(wanted, max_bytes, correlation, is_last=False):
            self.wait(wanted, max_bytes, correlation, wait_ms)

    def wait(
        self,
        wanted: list[tuple[bytes, list[tuple[int, ...]]]],
        max_bytes: int,
        correlation: int,
        wait_ms: int,
    ) -> None:
        """Answer at the next append that helps, or when the client has waited enough."""

        def again() -> None:
            if not self.send_fetched(wanted, max_bytes, correlation, is_last=False):
                self.broker.waiting.append(again)
            else:
                timer.cancel()

        def give_up() -> None:
            self.broker.waiting.remove(again)
            self.send_fetched(wanted, max_bytes, correlation, is_last=True)

        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, give_up)
        self.broker.waiting.append(again)

    def send_fetched(
        self,
        wanted: list[tuple[bytes, list[tuple[int, ...]]]],
        max_bytes: int,
        correlation: int,
        *,
        is_last: bool,
    ) -> bool:
        """Answer a fetch, unless there is nothing to tell and it may still wait."""
        parts: list[bytes] = [bytes(10) + _I4.pack(len(wanted))]
        is_empty = True
        for name, reads in wanted:
            partitions = self.broker.topic(name[2:].decode())
            parts.append(name + _I4.pack(len(reads)))
            for number, _, offset, _, limit in reads:
                partition = partitions[number]
                data = partition.read(offset, min(limit, max_bytes)) if max_bytes > 0 else b""
                max_bytes -= len(data)
                is_empty = is_empty and not data
                end = partition.end
                parts += (_FETCHED.pack(number, 0, end, end, 0, 0, -1, len(data)), data)
        if is_empty and not is_last:
            return False
        self.answer(correlation, *parts)
        return True

    # --- What a client asks before it begins -----------------------------------------------------

    def api_versions(self, _at: int, version: int, correlation: int) -> None:
        """Version 3, and 0 for a client that starts there."""
        tag = bytes(version >= 3)
        items = [Struct(">hhh").pack(key, *span) + tag for key, span in VERSIONS.items()]
        count = bytes([len(items) + 1]) if version >= 3 else _I4.pack(len(items))
        end = bytes(5) if version >= 3 else b""
        self.answer(correlation, bytes(2) + count + b"".join(items) + end)

    def metadata(self, at: int, _version: int, correlation: int) -> None:
        """Version 4: one broker, and every topic that is asked for."""
        count, at = _I4.unpack_from(self.buffer, at)[0], at + 4
        names = list(self.broker.topics) if count < 0 else []
        for _ in range(count):
            size = _I2.unpack_from(self.buffer, at)[0]
            names.append(self.buffer[at + 2 : at + 2 + size].decode())
            at += 2 + size
        node = _I4.pack(1) + _string(HOST) + _I4.pack(self.broker.port) + _I2.pack(-1)
        out = bytes(4) + _I4.pack(1) + node + _string("null") + _I4.pack(1)
        out += _I4.pack(len(names))
        for name in names:
            partitions = self.broker.topic(name)
            out += bytes(2) + _string(name) + bytes(1) + _I4.pack(len(partitions))
            for number in range(len(partitions)):
                out += Struct(">hiiiiii").pack(0, number, 1, 1, 1, 1, 1)
        self.answer(correlation, out)

    def init_producer_id(self, _at: int, _version: int, correlation: int) -> None:
        """Version 0 or 1: an id that nobody has; what its batches say is not looked at."""
        self.answer(correlation, _PRODUCER.pack(0, 0, next(self.broker.producer_ids), 0))

    def list_offsets(self, at: int, _version: int, correlation: int) -> None:
        """Version 1: the start or the end of each partition."""
        at += 4
        topics, at = _I4.unpack_from(self.buffer, at)[0], at + 4
        out = _I4.pack(topics)
        for _ in range(topics):
            name_end = at + 2 + _I2.unpack_from(self.buffer, at)[0]
            name = bytes(self.buffer[at:name_end])
            partitions = self.broker.topic(name[2:].decode())
            count, at = _I4.unpack_from(self.buffer, name_end)[0], name_end + 4
            out += name + _I4.pack(count)
            for _ in range(count):
                number, when = Struct(">iq").unpack_from(self.buffer, at)
                offset = partitions[number].end if when == -1 else 0
                out += Struct(">ihqq").pack(number, 0, -1, offset)
                at += 12
        self.answer(correlation, out)


def _string(text: str) -> bytes:
    return _I2.pack(len(text)) + text.encode()


def _uvarint(buffer: bytearray, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _uvarint_bytes(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


async def _serve(folder: Path, partitions: int) -> None:
    broker = Broker(folder, partitions)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(broker), HOST, 0)
    broker.port = server.sockets[0].getsockname()[1]
    print(broker.port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
