"""A gRPC client that delays what it publishes, in a process of its own (see `_client.py`)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import Consumer, TopicPartition
from grpc import aio

from benchmarks._client import serve_calls
from benchmarks._turns import expect
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import AdminServiceStub, PublishServiceStub

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

VALUE: Final = bytes(100)
WINDOW: Final = 20
DELIVER_AT: Final = "goqueue-deliver-at"
_AHEAD_MS: Final = 6000
_LONGEST_S: Final = 30.0


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
            window, failed, last_id, error = asyncio.Semaphore(WINDOW), 0, 0, ""
            request = pb.PublishRequest(topic=topic)
            for _ in range(batch):
                request.messages.add(value=VALUE, partition=0, delay_ms=delay_ms)

            async def read() -> None:
                nonlocal failed, last_id, error
                for _ in range(count // batch):
                    response = await call.read()
                    failed += len(response.results) != batch
                    last = response.results[-1]
                    if last.HasField("error"):
                        failed, error = failed + 1, f"{last.error}"
                    last_id = last.delayed_id
                    window.release()

            reader = asyncio.create_task(read())
            started_s = time.perf_counter()
            for _ in range(count // batch):
                await window.acquire()
                await call.write(request)
            await reader
            took_s = time.perf_counter() - started_s
            return {"seconds": took_s, "failed": failed, "last_id": last_id, "error": error}

    return _run(main())


def due_at_once(address: str, kafka: str, topic: str, count: int) -> list[float]:
    """Publish messages that are due within one second; how late each was appended, in ms."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "late"})
    partition = TopicPartition(topic, 0)
    start = consumer.get_watermark_offsets(partition, timeout=_LONGEST_S)[1]
    _run(_publish_due(address, topic, count, int(time.time() * 1000) + _AHEAD_MS))
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[float] = []
    give_up_s = time.monotonic() + _LONGEST_S
    while len(found) < count and time.monotonic() < give_up_s:
        for message in consumer.consume(count - len(found), 0.5):
            due = dict(message.headers() or ())[DELIVER_AT]
            found.append(float(message.timestamp()[1] - int(due or 0)))
    consumer.close()
    return found


async def _publish_due(address: str, topic: str, count: int, first_ms: int) -> None:
    async with aio.insecure_channel(address) as channel:
        stub = PublishServiceStub(channel)
        for start in range(0, count, 100):
            request = pb.PublishRequest(topic=topic)
            for number in range(start, start + 100):
                due_ms = first_ms + number * 7919 % 1000
                request.messages.add(value=VALUE, partition=0, deliver_at_ms=due_ms)
            answer: Any = await stub.Publish(request)
            expect(not any(each.HasField("error") for each in answer.results), f"{answer}")


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        import uvloop  # noqa: PLC0415 - there is none for Windows
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


if __name__ == "__main__":
    serve_calls({each.__name__: each for each in (create, stream, due_at_once)})
