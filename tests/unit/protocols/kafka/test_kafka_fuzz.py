"""Frames of a fuzzer against a live listener, beside a connection that must never notice."""

from __future__ import annotations

import asyncio
import logging
import random
import struct
from typing import TYPE_CHECKING

import pytest

from goqueue.protocols.kafka.connection.deadlines import CloseReason
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.schemas import schema_of
from support.kio_twin import every_message, kio_bytes, random_message
from unit.protocols.kafka.live import (
    RawClient,
    SmallApi,
    connected,
    eventually,
    frame,
    listening,
    run,
)

if TYPE_CHECKING:
    from goqueue.protocols.kafka.connection.listener import Listener

SERVED = [
    (key, version)
    for key, version, direction in every_message()
    if direction == "request" and key in (0, 1, 2, 10, 12, 18, 22, 36, 42)
]
PING = frame(ApiKey.API_VERSIONS, 0, 0x7777_7777, b"")
MAX_REQUEST_BYTES = 1 << 20
NASTY = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff" * 10, b"\0" * 8)


class QuickApi(SmallApi):
    """Nothing of the fuzzer's is held: whatever it asks for is answered or refused at once."""

    def hold(self, ctx):
        future = super().hold(ctx)
        self.held.clear()
        self.started.clear()
        if not future.done():
            future.set_result({"responses": []} if ctx.api_key == ApiKey.PRODUCE else None)
        return future


class Fuzzer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.corpus = [
            (key, version, kio_bytes(random_message(self.rng, key, version, "request"))[:2000])
            for key, version in SERVED
            for _ in range(3)
        ]

    def frame(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.05:
            return rng.randbytes(rng.randrange(1, 60))
        key, version, body = rng.choice(self.corpus)
        flexible = schema_of(key, version, "request").has_flexible_header
        data = bytearray(frame(key, version, 1, body, header_tags=b"\0" if flexible else b""))
        for _ in range(rng.randrange(4)):
            self.mutate(data)
        if rng.random() < 0.9:
            # Most frames keep an honest length, so that what is inside is looked at.
            struct.pack_into(">i", data, 0, max(len(data) - 4, 0))
        return bytes(data)

    def mutate(self, data: bytearray) -> None:
        rng = self.rng
        at = rng.randrange(4, len(data) + 1)
        match rng.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(data):
                data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                data[at:at] = rng.choice(NASTY)
            case 3:
                del data[at : at + rng.randrange(1, 9)]
            case _:
                data[at : at + 4] = rng.choice(NASTY)


def ends_within_a_frame(stream: bytes) -> bool:
    """Whether a server that reads all of it would rightly wait for more."""
    while stream:
        size = int.from_bytes(stream[:4], "big", signed=True)
        if not 0 <= size <= MAX_REQUEST_BYTES:
            return False
        if len(stream) < 4 + size:
            return True
        stream = stream[4 + size :]
    return False


async def survives(client: RawClient, data: bytes) -> bool:
    """Whether the connection is still there after the frame. A ping behind it tells."""
    client.send(data, PING)
    if ends_within_a_frame(data + PING):
        await client.writer.drain()
        return False
    try:
        async with asyncio.timeout(60):
            while True:
                (size,) = struct.unpack(">i", await client.reader.readexactly(4))
                if (await client.reader.readexactly(size))[:4] == PING[8:12]:
                    return True
    except (asyncio.IncompleteReadError, ConnectionError):
        return False


async def fuzz(listener: Listener, fuzzer: Fuzzer, count: int) -> int:
    """Send that many frames, on new connections as needed; how many connections it took."""
    sent = connections = 0
    async with connected(listener) as witness:
        while sent < count:
            connections += 1
            async with connected(listener) as client:
                alive = True
                while alive and sent < count:
                    alive = await survives(client, fuzzer.frame())
                    sent += 1
            assert await witness.echo(f"after {sent}", sent) == f"after {sent}"
    return connections


def resident_mib() -> float:
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - a file of the kernel
        return int(statm.read().split()[1]) * 4 / 1024


async def attack(seed: int, count: int) -> None:
    async with listening(QuickApi(), max_request_bytes=MAX_REQUEST_BYTES) as listener:
        fuzzer = Fuzzer(seed)
        await fuzz(listener, fuzzer, count // 5)
        before = resident_mib()
        await fuzz(listener, fuzzer, count - count // 5)
        assert resident_mib() < before + 8
        await eventually(lambda: listener.budget.used_bytes == 0)
        assert listener.closed[CloseReason.BAD_REQUEST] > count // 10
        # The handlers that raise on purpose are the only ones that fail.
        assert listener.closed[CloseReason.HANDLER_FAILED] < count // 2


@pytest.fixture(autouse=True)
def _no_logs():
    # pytest keeps every log record with its traceback; that memory is not the listener's.
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_ten_thousand_mutated_frames_disturb_nobody():
    run(attack(seed=1, count=10_000))


@pytest.mark.slow
def test_a_hundred_thousand_mutated_frames_disturb_nobody():
    run(attack(seed=2, count=100_000))
