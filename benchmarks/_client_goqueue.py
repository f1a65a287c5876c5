"""GoQueue's own client, in a process of its own (see `_client.py`); the async one on uvloop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks._client import serve_calls
from benchmarks._client_ways import VALUE_BYTES, VALUES, run_async, taken, values
from benchmarks._turns import expect
from goqueue import AsyncClient, Client

if TYPE_CHECKING:
    from collections.abc import Callable

_BATCH: Final = 1000


# --- Publishing --------------------------------------------------------------------------------


_TABLE: Final = pa.table({"value": pa.array(VALUES, pa.binary())})
_CONTENTS: Final[dict[str, Any]] = {
    "list": VALUES,
    "columns": {"value": VALUES},
    "arrow": _TABLE,
    "pandas": _TABLE.to_pandas(),
}


def publish(address: str, topic: str, count: int, way: str) -> dict[str, Any]:
    """Send so many messages and look at what became of each."""
    if way == "sync":
        return _publish_blocking(address, topic, count)
    if way == "sync list":
        return _publish_many_blocking(address, topic, count)
    if way == "async":
        return run_async(_publish(address, topic, count))
    return run_async(_publish_many(address, topic, count, way))


async def _publish(address: str, topic: str, count: int) -> dict[str, Any]:
    async with AsyncClient(address) as client:
        await (await client.publish(topic, VALUES[0]))
        cpu_s, started = time.process_time(), time.perf_counter()
        handles = [await client.publish(topic, value) for value in values(count)]
        for handle in handles:
            await handle
        return taken(started, cpu_s)


async def _publish_many(address: str, topic: str, count: int, way: str) -> dict[str, Any]:
    """10 000 at a time, which are there before, as a program would have them."""
    content = _CONTENTS[way]
    async with AsyncClient(address) as client:
        await (await client.publish(topic, VALUES[0]))
        cpu_s, started = time.process_time(), time.perf_counter()
        sent = [await client.publish_many(topic, content) for _ in range(count // len(VALUES))]
        for deliveries in sent:
            await deliveries
        return taken(started, cpu_s)


def _publish_blocking(address: str, topic: str, count: int) -> dict[str, Any]:
    with Client(address) as client:
        client.publish(topic, VALUES[0]).result()
        cpu_s, started = time.process_time(), time.perf_counter()
        handles = [client.publish(topic, value) for value in values(count)]
        for handle in handles:
            handle.result()
        return taken(started, cpu_s)


def _publish_many_blocking(address: str, topic: str, count: int) -> dict[str, Any]:
    with Client(address) as client:
        client.publish(topic, VALUES[0]).result()
        cpu_s, started = time.process_time(), time.perf_counter()
        sent = [client.publish_many(topic, VALUES) for _ in range(count // len(VALUES))]
        for deliveries in sent:
            deliveries.result()
        return taken(started, cpu_s)


# --- Consuming ---------------------------------------------------------------------------------


Seen: TypeAlias = "list[tuple[int, int]]"
"""Messages and the bytes of their values, batch by batch."""


def _bytes_of_messages(messages: Any) -> tuple[int, int]:
    return len(messages), sum(len(message.value) for message in messages)


def _bytes_of_table(table: Any) -> tuple[int, int]:
    return table.num_rows, pc.sum(pc.binary_length(table["value"])).as_py()


def _bytes_of_frame(frame: Any) -> tuple[int, int]:
    return len(frame), int(frame["value"].map(len).sum())


_BATCHES: Final[dict[str, tuple[Any, Callable[[Any], tuple[int, int]]]]] = {
    "batches": (_BATCH, _bytes_of_messages),
    "arrow batches": ("arrow", _bytes_of_table),
    "pandas batches": ("pandas", _bytes_of_frame),
}


def consume(address: str, topic: str, count: int, way: str) -> dict[str, Any]:
    """Read a partition from its start to its end, and look at each value."""
    cpu_s, started = time.process_time(), time.perf_counter()
    if way == "async":
        seen = run_async(_consume(address, topic))
    elif way == "sync":
        seen = _consume_blocking(address, topic)
    elif way == "sync batches":
        seen = _consume_batches_blocking(address, topic)
    else:
        seen = run_async(_consume_batches(address, topic, way))
    found = taken(started, cpu_s)
    read, size_bytes = map(sum, zip(*seen, strict=True))
    expect(read == count, f"{read} of {count} messages were read")
    expect(size_bytes == count * VALUE_BYTES, f"they had {size_bytes} bytes")
    return found


async def _consume(address: str, topic: str) -> Seen:
    read = size_bytes = 0
    async with AsyncClient(address) as client:
        async for message in client.consume(topic, partition=0, until_end=True):
            size_bytes += len(message.value or b"")
            read += 1
    return [(read, size_bytes)]


def _consume_blocking(address: str, topic: str) -> Seen:
    read = size_bytes = 0
    with Client(address) as client:
        for message in client.consume(topic, partition=0, until_end=True):
            size_bytes += len(message.value or b"")
            read += 1
    return [(read, size_bytes)]


async def _consume_batches(address: str, topic: str, way: str) -> Seen:
    batch, look_at = _BATCHES[way]
    async with AsyncClient(address) as client:
        batches = client.consume(topic, partition=0, until_end=True, batch=batch)
        return [look_at(each) async for each in batches]


def _consume_batches_blocking(address: str, topic: str) -> Seen:
    with Client(address) as client:
        batches = client.consume(topic, partition=0, until_end=True, batch=_BATCH)
        return [_bytes_of_messages(each) for each in batches]


if __name__ == "__main__":
    serve_calls({each.__name__: each for each in (publish, consume)})
