"""A gRPC client that delays what it publishes, in a process of its own (see `_client.py`)."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from grpc import aio

from benchmarks._client import serve_calls
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import AdminServiceStub, PublishServiceStub

VALUE: Final = bytes(100)
WINDOW: Final = 20


def create(address: str, topic: str) -> int:
    """Make a topic that takes any number of delayed messages."""

    async def main() -> int:
        async with aio.insecure_channel(address) as channel:
            request = pb.CreateTopicRequest(
                name=topic, partitions=1, settings={"goqueue.delay.max.pending": "0"}
            )
            return len((await AdminServiceStub(channel).CreateTopic(request)).partitions)

    return asyncio.run(main())


def stream(address: str, topic: str, count: int, batch: int, delay_ms: int) -> dict[str, Any]:
    """Publish on one stream, in requests of `batch` messages; without a delay when it is 0."""

    async def main() -> dict[str, Any]:
        async with aio.insecure_channel(address) as channel:
            call: Any = PublishServiceStub(channel).PublishStream()
            window, failed = asyncio.Semaphore(WINDOW), 0
            request = pb.PublishRequest(topic=topic)
            for _ in range(batch):
                request.messages.add(value=VALUE, partition=0, delay_ms=delay_ms)

            async def read() -> None:
                nonlocal failed
                for _ in range(count // batch):
                    response = await call.read()
                    failed += len(response.results) != batch
                    failed += response.results[-1].HasField("error")
                    window.release()

            reader = asyncio.create_task(read())
            started_s = time.perf_counter()
            for _ in range(count // batch):
                await window.acquire()
                await call.write(request)
            await reader
            return {"seconds": time.perf_counter() - started_s, "failed": failed}

    try:
        import uvloop  # noqa: PLC0415 - there is none for Windows
    except ImportError:
        return asyncio.run(main())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


if __name__ == "__main__":
    serve_calls({"create": create, "stream": stream})
