"""An HTTP client that costs as little as one can, in a process of its own (see `_client.py`).

Each connection writes the same bytes again when it has the whole answer. Answers are not parsed
beyond their status and their length; what was stored is counted afterwards, by the end offsets.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import time
from typing import Any, Final

import uvloop

from benchmarks._client import serve_calls
from benchmarks.harness import percentiles

HOST: Final = "127.0.0.1"
VALUE: Final = "x" * 100
_LENGTH: Final = re.compile(rb"content-length: (\d+)\r\n")
_MS: Final = 1000.0


class _Connection(asyncio.Protocol):
    def __init__(self, request: bytes, until_s: float, samples: list[float]) -> None:
        self._request = request
        self._until_s = until_s
        self._samples = samples
        self._sent_s = 0.0
        self._received = b""
        self._transport: asyncio.Transport
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's own kind
        self._send()

    def _send(self) -> None:
        self._sent_s = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(b"\r\n\r\n")
        length = _LENGTH.search(self._received, 0, head_end + 2)
        if head_end < 0 or length is None or len(self._received) < head_end + 4 + int(length[1]):
            return
        now_s = time.perf_counter()
        if not self._received.startswith(b"HTTP/1.1 200 ") or b'"error"' in self._received:
            self.done.set_exception(RuntimeError(f"refused: {self._received[:500]!r}"))
            self._transport.abort()
            return
        self._samples.append(now_s - self._sent_s)
        self._answers += 1
        self._received = b""
        if now_s < self._until_s:
            self._send()
        else:
            self.done.set_result(self._answers)
            self._transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError("the server closed the connection"))


def publish(
    port: int, topic: str, *, messages: int, connections: int, seconds: float
) -> dict[str, Any]:
    """Publish so many messages a request, on so many connections at once, for so long."""
    body = json.dumps(
        {"messages": [{"key": f"key-{n}", "value": VALUE} for n in range(messages)]}
    ).encode()
    head = f"POST /topics/{topic}/messages HTTP/1.1\r\nhost: {HOST}:{port}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return uvloop.run(_publish(port, head.encode() + body, connections, seconds))


async def _publish(port: int, request: bytes, count: int, seconds: float) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    samples: list[float] = []
    cpu_s, started_s = time.process_time(), time.perf_counter()
    clients = [_Connection(request, started_s + seconds, samples) for _ in range(count)]
    for client in clients:
        await loop.create_connection(lambda client=client: client, HOST, port)  # type: ignore[misc]
    answers = await asyncio.gather(*(client.done for client in clients))
    found = percentiles(samples, (50, 99))
    return {
        "requests": sum(answers),
        "seconds": time.perf_counter() - started_s,
        "cpu_s": time.process_time() - cpu_s,
        "p50_ms": found["p50"] * _MS,
        "p99_ms": found["p99"] * _MS,
    }


def make_topic(port: int, topic: str) -> int:
    """Make a topic; returns the status."""
    connection = http.client.HTTPConnection(HOST, port)
    connection.request("POST", "/topics", json.dumps({"name": topic}))
    status = connection.getresponse().status
    connection.close()
    return status


if __name__ == "__main__":
    serve_calls({"publish": publish, "make_topic": make_topic})
