"""A client process that publishes one message a request, to as many partitions as it is told."""

from __future__ import annotations

import asyncio
import struct
import time
from typing import TYPE_CHECKING, Any, Final

import uvloop
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks._brokers import HOST
from benchmarks._client import serve_calls
from benchmarks._logs import batch_of
from benchmarks._raw_client import NO_ERROR, produce_error, produce_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

_INT: Final = struct.Struct(">i")
_MESSAGE_BYTES: Final = 100
_TOPICS_A_REQUEST: Final = 500
_PATIENCE_S: Final = 600.0


def topic_names(topic: str, topics: int) -> list[str]:
    """The topics of one shape."""
    return [f"{topic}-{number}" for number in range(topics)]


def create(address: str, topic: str, topics: int, partitions: int) -> None:
    """Make so many topics of so many partitions each."""
    admin = AdminClient({"bootstrap.servers": address})
    named = topic_names(topic, topics)
    for start in range(0, topics, _TOPICS_A_REQUEST):
        wanted = [
            NewTopic(each, num_partitions=partitions)
            for each in named[start : start + _TOPICS_A_REQUEST]
        ]
        for made in admin.create_topics(wanted, request_timeout=_PATIENCE_S).values():
            made.result(_PATIENCE_S)


def publish(
    *, port: int, topic: str, topics: int, partitions: int, each: int, connections: int
) -> dict[str, Any]:
    """Publish `each` messages to every partition; the seconds and what was acknowledged."""
    batch, names = batch_of(_MESSAGE_BYTES), topic_names(topic, topics)
    requests = (
        (name, produce_frame(name, partition, batch))
        for _ in range(each)
        for partition in range(partitions)
        for name in names
    )
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with runner:
        return runner.run(_publish(port, requests, connections))


async def _publish(
    port: int, requests: Iterator[tuple[str, bytes]], connections: int
) -> dict[str, Any]:
    """Each connection waits for its answer before it sends the next request."""
    opened = [await asyncio.open_connection(HOST, port) for _ in range(connections)]
    acknowledged = failed = 0
    slowest_s = 0.0

    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal acknowledged, failed, slowest_s
        for name, request in requests:
            sent_at = time.perf_counter()
            writer.write(request)
            size = _INT.unpack(await reader.readexactly(_INT.size))[0]
            answer = await reader.readexactly(size)
            slowest_s = max(slowest_s, time.perf_counter() - sent_at)
            if produce_error(answer, name) == NO_ERROR:
                acknowledged += 1
            else:
                failed += 1

    started = time.perf_counter()
    await asyncio.gather(*(work(*each) for each in opened))
    seconds = time.perf_counter() - started
    for _, writer in opened:
        writer.close()
    return {
        "seconds": seconds,
        "acknowledged": acknowledged,
        "failed": failed,
        "slowest_s": slowest_s,
    }


if __name__ == "__main__":
    serve_calls({"create": create, "publish": publish})
