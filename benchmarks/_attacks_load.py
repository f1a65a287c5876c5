"""The other clients: a process (see `_client.py`) with a small and steady load on every listener.

Each kind of request has a connection of its own and is sent every `PACE_S`, or as soon as the one
before is answered. An answer that is not what it has to be stops the benchmark; one that does not
come is told.
"""

from __future__ import annotations

import asyncio
import json
import struct
import time
from typing import TYPE_CHECKING, Any, Final

import uvloop
from grpc import aio

from benchmarks._attacks import HOST
from benchmarks._client import serve_calls
from benchmarks._http_client import make_topic
from benchmarks._logs import batch_of
from benchmarks._raw_client import (
    NO_ERROR,
    frame,
    produce_error,
    produce_frame,
)
from benchmarks._turns import expect
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TOPIC: Final = "other"
PACE_S: Final = 0.01
GIVE_UP_S: Final = 60.0
_FETCH: Final = 1
_BATCH_BYTES: Final = 1024
_INT: Final = struct.Struct(">i")


async def _kafka(port: int, request: bytes) -> Callable[[], Awaitable[bytes]]:
    """A connection that asks the same again and again; the answers without their lengths."""
    reader, writer = await asyncio.open_connection(HOST, port)

    async def ask() -> bytes:
        writer.write(request)
        size = _INT.unpack(await reader.readexactly(_INT.size))[0]
        return await reader.readexactly(size)

    return ask


def _fetch_frame() -> bytes:
    """Fetch version 4: the first messages of a partition, without waiting."""
    start = struct.pack(">iiiib", -1, 0, 1, 1 << 20, 0) + _INT.pack(1)
    name = struct.pack(">h", len(TOPIC)) + TOPIC.encode()
    return frame(_FETCH, 4, start + name + struct.pack(">iiqi", 1, 0, 0, _BATCH_BYTES))


async def _produce(port: int) -> Callable[[], Awaitable[None]]:
    ask = await _kafka(port, produce_frame(TOPIC, 0, batch_of(_BATCH_BYTES)))

    async def once() -> None:
        expect(produce_error(await ask(), TOPIC) == NO_ERROR, "a message was refused")

    return once


async def _fetch(port: int) -> Callable[[], Awaitable[None]]:
    ask = await _kafka(port, _fetch_frame())

    async def once() -> None:
        expect(len(await ask()) > _BATCH_BYTES // 2, "nothing was read")

    return once


async def _http(port: int, method: str, path: str, body: bytes) -> Callable[[], Awaitable[None]]:
    reader, writer = await asyncio.open_connection(HOST, port)
    head = f"{method} {path} HTTP/1.1\r\nhost: {HOST}:{port}\r\ncontent-length: {len(body)}\r\n\r\n"

    async def once() -> None:
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        expect(answer.startswith(b"HTTP/1.1 200 "), f"{method} {path}: {answer[:500]!r}")
        length = answer.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))

    return once


async def _grpc(channel: aio.Channel) -> Callable[[], Awaitable[None]]:
    stub = services.PublishServiceStub(channel)
    request = pb.PublishRequest(topic=TOPIC, messages=[pb.NewMessage(value=b"x" * 100)])

    async def once() -> None:
        answer: pb.PublishResponse = await stub.Publish(request)
        expect(not answer.results[0].HasField("error"), f"refused: {answer}")

    return once


async def _repeat(once: Callable[[], Awaitable[None]], until_s: float) -> dict[str, float]:
    """Ask until the time is over; how often, and how long the slowest answer took.

    Whoever is not answered has waited for as long as it would have waited.
    """
    count, slowest_s = 0, 0.0
    while (began_s := time.monotonic()) < until_s:
        try:
            async with asyncio.timeout(GIVE_UP_S):
                await once()
        except (OSError, EOFError, aio.AioRpcError):  # a TimeoutError is an OSError
            return {"count": count, "slowest_ms": GIVE_UP_S * 1000}
        took_s = time.monotonic() - began_s
        count, slowest_s = count + 1, max(slowest_s, took_s)
        await asyncio.sleep(max(PACE_S - took_s, 0.0))
    return {"count": count, "slowest_ms": slowest_s * 1000}


async def _load(target: dict[str, int], seconds: float) -> dict[str, dict[str, float]]:
    body = json.dumps({"messages": [{"key": "a", "value": "x" * 100}]}).encode()
    async with aio.insecure_channel(f"{HOST}:{target['grpc_port']}") as channel:
        kinds = {
            "Kafka produce": await _produce(target["kafka_port"]),
            "Kafka fetch": await _fetch(target["kafka_port"]),
            "HTTP publish": await _http(
                target["http_port"], "POST", f"/topics/{TOPIC}/messages", body
            ),
            "HTTP health": await _http(target["http_port"], "GET", "/healthz", b""),
            "gRPC publish": await _grpc(channel),
        }
        until_s = time.monotonic() + seconds
        found = await asyncio.gather(*(_repeat(once, until_s) for once in kinds.values()))
    return dict(zip(kinds, found, strict=True))


def load(target: dict[str, int], seconds: float) -> dict[str, dict[str, float]]:
    """The load for so long; how many requests of each kind, and the slowest of them."""
    return uvloop.run(_load(target, seconds))


def prepare(target: dict[str, int]) -> Any:
    """Make the topic, and publish what is fetched."""
    status = make_topic(target["http_port"], TOPIC)
    return status, load(target, 1.0)


if __name__ == "__main__":
    serve_calls({"prepare": prepare, "load": load})
