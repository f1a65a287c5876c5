"""aiokafka as its users write it, in a process of its own (see `_client.py`); on uvloop."""

from __future__ import annotations

import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks._client import serve_calls
from benchmarks._client_ways import VALUE_BYTES, VALUES, run_async, taken, values
from benchmarks._turns import expect


def publish(address: str, topic: str, count: int, way: str) -> dict[str, Any]:
    """Send so many messages and await the future of each."""
    expect(way == "send", f"there is no way {way}")

    async def work() -> dict[str, Any]:
        async with AIOKafkaProducer(bootstrap_servers=address) as producer:
            await producer.send_and_wait(topic, VALUES[0])
            cpu_s, started = time.process_time(), time.perf_counter()
            futures = [await producer.send(topic, value) for value in values(count)]
            for future in futures:
                await future
            return taken(started, cpu_s)

    return run_async(work())


def consume(address: str, topic: str, count: int, way: str) -> dict[str, Any]:
    """Read so many messages from the start of a partition, and look at each value."""
    expect(way == "async for", f"there is no way {way}")

    async def work() -> dict[str, Any]:
        async with AIOKafkaConsumer(bootstrap_servers=address) as consumer:
            place = TopicPartition(topic, 0)
            read = size_bytes = 0
            cpu_s, started = time.process_time(), time.perf_counter()
            consumer.assign([place])
            consumer.seek(place, 0)
            async for message in consumer:
                size_bytes += len(message.value)
                read += 1
                if read >= count:
                    break
            found = taken(started, cpu_s)
        expect(size_bytes == read * VALUE_BYTES, f"{read} messages had {size_bytes} bytes")
        return found

    return run_async(work())


if __name__ == "__main__":
    serve_calls({each.__name__: each for each in (publish, consume)})
