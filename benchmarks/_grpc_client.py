"""What gRPC clients are asked to do, in a process of their own (see `_client.py`).

`stream` is the contract at its plainest: requests of one partition each on one stream, a window of
them on the way. `unary` asks one by one, as many at a time as it is told.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from typing import TYPE_CHECKING, Any, Final, TypeVar

from grpc import aio

from benchmarks._client import serve_calls
from benchmarks.harness import percentiles
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import AdminServiceStub, PublishServiceStub

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_T = TypeVar("_T")

VALUE: Final = bytes(100)
WINDOW: Final = 20
"""Requests on the way in a stream."""


def create(address: str, topic: str, partitions: int) -> int:
    """Make a topic."""

    async def ask(channel: aio.Channel) -> int:
        request = pb.CreateTopicRequest(name=topic, partitions=partitions)
        made = await AdminServiceStub(channel).CreateTopic(request)
        return len(made.partitions)

    return _run(address, ask)


def stored(address: str, topic: str) -> int:
    """How many messages the broker has, by its own account."""

    async def ask(channel: aio.Channel) -> int:
        seen = await AdminServiceStub(channel).DescribeTopic(pb.TopicRequest(name=topic))
        return sum(each.log_end for each in seen.partitions)

    return _run(address, ask)


def stream(address: str, topic: str, count: int, batch: int, partitions: int) -> dict[str, Any]:
    """Publish on one stream, in requests of `batch` messages."""

    async def publish(channel: aio.Channel) -> dict[str, Any]:
        call: Any = PublishServiceStub(channel).PublishStream()
        window = asyncio.Semaphore(WINDOW)
        sent_at: list[float] = []
        latencies_s = array("d")
        failed = 0

        async def read() -> None:
            nonlocal failed
            for number in range(count // batch):
                response = await call.read()
                latencies_s.append(time.perf_counter() - sent_at[number])
                whole = response.correlation_id == number and len(response.results) == batch
                failed += not whole or response.results[-1].HasField("error")
                window.release()

        reader = asyncio.create_task(read())
        cpu_s, started = time.process_time(), time.perf_counter()
        for number in range(count // batch):
            await window.acquire()
            request = _request(topic, number, batch, number % partitions)
            sent_at.append(time.perf_counter())
            await call.write(request)
        await reader
        return _result(started, cpu_s, latencies_s, failed)

    return _run(address, publish)


def unary(address: str, topic: str, count: int, at_once: int, partitions: int) -> dict[str, Any]:
    """Publish one message a call, so many calls at a time."""

    async def publish(channel: aio.Channel) -> dict[str, Any]:
        ask: Any = PublishServiceStub(channel).Publish
        latencies_s = array("d")
        failed = 0

        async def work(worker: int) -> None:
            nonlocal failed
            for number in range(count // at_once):
                began = time.perf_counter()
                response = await ask(_request(topic, number, 1, worker % partitions))
                latencies_s.append(time.perf_counter() - began)
                failed += response.results[0].HasField("error")

        cpu_s, started = time.process_time(), time.perf_counter()
        await asyncio.gather(*(work(worker) for worker in range(at_once)))
        return _result(started, cpu_s, latencies_s, failed)

    return _run(address, publish)


def _request(topic: str, number: int, batch: int, partition: int) -> pb.PublishRequest:
    request = pb.PublishRequest(topic=topic, correlation_id=number)
    add = request.messages.add
    for _ in range(batch):
        add(value=VALUE, partition=partition)
    return request


def _result(started: float, cpu_s: float, latencies_s: array[float], failed: int) -> dict[str, Any]:
    return {
        "seconds": time.perf_counter() - started,
        "cpu_s": time.process_time() - cpu_s,
        "failed": failed,
        "p99_ms": percentiles(latencies_s, (99,))["p99"] * 1000,
    }


def _run(address: str, work: Callable[[aio.Channel], Awaitable[_T]]) -> _T:
    async def main() -> _T:
        async with aio.insecure_channel(address) as channel:
            return await work(channel)

    try:
        import uvloop  # noqa: PLC0415 - there is none for Windows
    except ImportError:
        return asyncio.run(main())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


if __name__ == "__main__":
    serve_calls({each.__name__: each for each in (create, stored, stream, unary)})
