"""Transactions on three nodes against one, and the death of the node that coordinates many."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager
from itertools import count, islice
from statistics import median
from typing import TYPE_CHECKING, Final

import mmh3

from benchmarks._client import ClientProcess
from benchmarks._clusters import CLUSTER, NODES, ClusterProcesses
from benchmarks._loop_lag import LATE_MS, LoopLag
from benchmarks._turns import Turns, expect
from goqueue.client.errors import ClientError
from goqueue.client.link.addresses import Address
from goqueue.client.link.connection import Connection
from goqueue.client.settings import ClientSettings
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks._brokers import BrokerProcess
    from benchmarks.harness import Run

TURNS: Final = int(os.environ.get("GOQUEUE_BENCH_TURNS", "5"))
PRODUCED: Final = 100_000
SIZE: Final = 100
PARTITIONS: Final = 3
SIZES: Final = (10_000, 100)
LEAST: Final = 0.4
OPEN: Final = 1000
MOVES: Final = int(os.environ.get("GOQUEUE_BENCH_MOVES", "3"))
"""20 for the record."""
MEDIAN_S: Final = 2.0
LONGEST_S: Final = 4.0
SHARDS: Final = 16
"""Partitions of the transactions' topic, as a cluster makes it."""
TOPIC: Final = "transactions"
_WAIT_S: Final = 60.0


def throughput(
    run: Run, one: BrokerProcess, cluster: ClusterProcesses, client: ClientProcess
) -> None:
    """Messages in transactions of 100 and of 10 000, in alternating turns."""
    brokers: tuple[BrokerProcess | ClusterProcesses, ...] = (one, cluster)
    for each in SIZES:
        topic = f"transactions-{each}"
        for broker in brokers:
            client.call("make", address=broker.address, topic=topic, partitions=PARTITIONS)
        taken = Turns(plain=one.name)
        for turn in run.progress(TURNS + 1, f"{each} a transaction"):
            for broker in brokers if turn % 2 else brokers[::-1]:
                asked = {"topic": topic, "size": SIZE, "count": PRODUCED, "each": each}
                sent = client.call("produce", address=broker.address, **asked)
                expect(sent["left"] == 0, f"{broker.name}: {sent['left']} messages were left")
                if turn:
                    taken.add(broker.name, sent["seconds"] / PRODUCED)
        for broker in brokers:
            asked = {"topic": topic, "partitions": PARTITIONS, "isolation": "read_committed"}
            count = PRODUCED * (TURNS + 1)
            client.call("consume", address=broker.address, count=count, **asked)
        taken.report_rates(run, f"messages, {each} a transaction:", 1, "a second")
        ratio = 1 / taken.times_slower(CLUSTER)
        if ratio < LEAST:
            run.note(f"MISSED: {each} a transaction: {ratio:.2f} of one node, {LEAST} is asked for")


def take_over(run: Run, cluster: ClusterProcesses) -> None:
    """Kill the coordinator of 1000 open transactions, again and again."""
    names = _names_of_one_shard()
    with ClientProcess("_cluster_client") as admin:
        admin.call("make", address=cluster.address, topics=[TOPIC], partitions=PARTITIONS)
    cluster.settle()
    asyncio.run(_open(cluster.address, names))
    took_s, late_ms = [], []
    for _ in run.progress(MOVES, "take-over"):
        node = asyncio.run(_coordinator(cluster.address, names[0]))
        lag = LoopLag(cluster, [each for each in range(1, NODES + 1) if each != node])
        began = time.perf_counter()
        cluster.kill(node)
        took_s.append(asyncio.run(_answered(cluster.address, names, began)))
        late_ms.append(lag.most_ms())
        cluster.start(node)
        cluster.settle()
    run.row(f"take-over, {OPEN} open transactions: p50", median(took_s), "s")
    run.row(f"take-over, {OPEN} open transactions: most", max(took_s), "s")
    run.row(f"event loop late, {OPEN} open transactions: at most", max(late_ms), "ms")
    if max(late_ms) > LATE_MS:
        run.note(f"MISSED: the event loop was {max(late_ms):.0f} ms late")
    if median(took_s) > MEDIAN_S or max(took_s) > LONGEST_S:
        run.note(f"MISSED: take-over: {MEDIAN_S} / {LONGEST_S} s are asked for")


def _names_of_one_shard() -> list[str]:
    found = (f"open-{number}" for number in count())
    return list(
        islice((each for each in found if mmh3.hash(each, signed=False) % SHARDS == 0), OPEN)
    )


@asynccontextmanager
async def _connected(address: str) -> AsyncIterator[Connection]:
    host, _, port = address.rpartition(":")
    connection = Connection(Address(host, int(port)), ClientSettings())
    await asyncio.get_running_loop().create_connection(lambda: connection, host, int(port))
    try:
        yield connection
    finally:
        connection.close()


async def _find(bootstrap: str, name: str) -> tuple[int, str]:
    """The node that coordinates an id, and its address; raises `TimeoutError`."""
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        for address in bootstrap.split(","):
            try:
                async with _connected(address) as connection:
                    answer = await connection.ask(
                        ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[name]
                    )
            except (OSError, ClientError):
                continue
            (found,) = answer.coordinators
            if not found.error_code:
                return found.node_id, f"{found.host}:{found.port}"
        await asyncio.sleep(0.02)
    raise TimeoutError(name)


async def _coordinator(bootstrap: str, name: str) -> int:
    return (await _find(bootstrap, name))[0]


async def _open(bootstrap: str, names: list[str]) -> None:
    _, address = await _find(bootstrap, names[0])
    async with _connected(address) as connection:
        for name in names:
            made = await connection.ask(
                ApiKey.INIT_PRODUCER_ID,
                4,
                transactional_id=name,
                transaction_timeout_ms=900_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            expect(not made.error_code, f"{name}: {made}")
            await connection.ask(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                3,
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=made.producer_id,
                v3_and_below_producer_epoch=made.producer_epoch,
                v3_and_below_topics=[{"name": TOPIC, "partitions": [0, 1, 2]}],
            )


async def _answered(bootstrap: str, names: list[str], began: float) -> float:
    """Seconds until somebody else describes the transactions, which are all still open."""
    while True:
        _, address = await _find(bootstrap, names[0])
        try:
            async with _connected(address) as connection:
                answer = await connection.ask(
                    ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=names
                )
        except (OSError, ClientError):
            continue
        took_s = time.perf_counter() - began
        states = {(each.error_code, each.transaction_state) for each in answer.transaction_states}
        if states == {(0, "Ongoing")}:
            return took_s
        known = {state for code, state in states if not code}
        expect(known <= {"Ongoing"}, f"a transaction is not open any more: {known}")
        await asyncio.sleep(0.01)
