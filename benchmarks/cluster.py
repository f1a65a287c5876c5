"""Three nodes against one, on the same machine and in alternating turns.

    goqueue bench cluster

Both run at the same time with the settings they come with, and the same clients ask one and then
the other. Every partition has three replicas, acks=all waits for those in sync, and two must be.
A note that begins with MISSED names what is beyond its bar.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks._brokers import BrokerProcess, start_goqueue
from benchmarks._catch_up import caught_up
from benchmarks._client import ClientProcess
from benchmarks._cluster_deaths import many_partitions, through_kills
from benchmarks._cluster_delays import measure_delays
from benchmarks._cluster_http import through_another_node
from benchmarks._cluster_queues import measure_queues, measure_sources
from benchmarks._cluster_spark import measure_reads
from benchmarks._cluster_take_over import take_over as states_taken_over
from benchmarks._cluster_transactions import take_over as transactions_taken_over, throughput
from benchmarks._clusters import CLUSTER, ClusterProcesses, start_by_command
from benchmarks._latency import Pace
from benchmarks._loop_lag import WATCHED
from benchmarks._pairs import in_turn, send
from benchmarks._turns import Turns, expect
from benchmarks.harness import Run, benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks._pairs import Asked

TURNS: Final = int(os.environ.get("GOQUEUE_BENCH_TURNS", "7"))
"""Fewer only to see that it works."""
WIDE: Final = 12
TOPIC: Final = "measured"
ONE: Final = "one node"
MICROSECONDS: Final = 1e6


class Both(NamedTuple):
    """One node, and the cluster."""

    one: BrokerProcess
    cluster: ClusterProcesses

    def in_turn(self, turn: int) -> tuple[Asked, Asked]:
        """One after the other, and each as often the first."""
        pair: tuple[Asked, Asked] = self.one, self.cluster
        return in_turn(pair, turn)


@contextmanager
def _both(run: Run, **settings: str) -> Iterator[Both]:
    """One node and three, each with a topic of twelve partitions."""
    with (
        ClusterProcesses(run.scratch / "cluster") as cluster,
        start_goqueue(run.scratch / "one") as one,
        ClientProcess("_cluster_client") as admin,
    ):
        one.name = ONE
        for address in (one.address, cluster.address):
            asked = {"topics": [TOPIC], "partitions": WIDE, "settings": settings}
            admin.call("make", address=address, **asked)
        required = admin.call("min_isr", address=cluster.address, topic=TOPIC)
        expect(required == "2", f"min.insync.replicas is {required}")
        cluster.settle()
        yield Both(one, cluster)


def _in_turns(
    run: Run,
    brokers: Both,
    what: str,
    done_by: Callable[[Asked], tuple[float, float]],
    *,
    least: float,
) -> None:
    """Measure both in turn; `done_by` tells how many it did and the seconds that they took."""
    taken, used = Turns(plain=ONE), {ONE: 0.0, CLUSTER: 0.0}
    counts = dict.fromkeys(used, 0.0)
    for turn in run.progress(TURNS + 1, what):
        for broker in brokers.in_turn(turn):
            before_s = broker.cpu_s()
            count, seconds = done_by(broker)
            if turn:  # the first connects, and fills caches
                taken.add(broker.name, seconds / count)
                used[broker.name] += broker.cpu_s() - before_s
                counts[broker.name] += count
    taken.report_rates(run, f"{what}:", 1, "a second")
    for name, cpu_s in used.items():
        run.row(f"{what}: CPU of the brokers, {name}", cpu_s / counts[name] * MICROSECONDS, "µs")
    ratio = 1 / taken.times_slower(CLUSTER)
    if ratio < least:
        run.note(f"MISSED: {what}: {ratio:.2f} of one node, at least {least} is asked for")


# --- Messages ----------------------------------------------------------------------------------

PRODUCED: Final = 500_000
CONSUMED: Final = PRODUCED * (TURNS + 1) // 2
"""More than a client fetches ahead: that takes its time, and is thrown away in the end."""


@benchmark("bulk", "librdkafka produces and consumes 100-byte messages on three nodes")
def bulk(run: Run) -> None:
    with _both(run) as brokers, ClientProcess("_kafka_client") as client:

        def produced(broker: Asked) -> tuple[float, float]:
            sent = send(client, broker, TOPIC, PRODUCED, reports=False)
            return PRODUCED, float(sent["seconds"])

        def consumed(broker: Asked) -> tuple[float, float]:
            asked: dict[str, Any] = {"topic": TOPIC, "starts": [0] * WIDE, "count": CONSUMED}
            read = client.call("consume", address=broker.address, **asked)
            expect(read["read"] >= CONSUMED and not read["wrong"], f"{broker.name}: {read}")
            return float(read["read"]), float(read["seconds"])

        _in_turns(run, brokers, "messages produced", produced, least=0.5)
        _in_turns(run, brokers, "messages consumed", consumed, least=0.9)
        _report_memory(run, brokers.cluster)
    run.note(
        f"{TURNS} turns of {PRODUCED} messages produced, {CONSUMED} consumed; {WIDE} partitions, "
        "3 replicas, acks=all"
    )


LARGEST_MB: Final = {"broker": 120, "etcd": 80}


def _report_memory(run: Run, cluster: ClusterProcesses) -> None:
    for name, bar in LARGEST_MB.items():
        found = max(cluster.memory_mb(name))
        run.row(f"memory, the largest {name}", found, "MB")
        if found > bar:
            run.note(f"MISSED: memory: {name} {found:.0f} MB, less than {bar} are asked for")


# --- Latency -----------------------------------------------------------------------------------

PACE: Final = Pace(1000, 0)
MANY_TIMES: Final = 5
LONGEST_MS: Final = 10.0


@benchmark("latency", "A message each millisecond, without a linger, to its acknowledgement")
def latency(run: Run) -> None:
    found: dict[str, list[dict[str, float]]] = {ONE: [], CLUSTER: []}
    with (
        _both(run) as brokers,
        ClientProcess("_kafka_client") as client,
        ClientProcess("_request_client") as alone,
    ):
        for turn in run.progress(TURNS + 1, "publish"):
            for broker in brokers.in_turn(turn):
                sent = client.call("paced", address=broker.address, topic=TOPIC, **asdict(PACE))
                expect(sent["left"] == 0 and sent["sent"] == PACE.count, f"{broker.name}: {sent}")
                if turn:
                    found[broker.name].append(sent)

        def one_in_flight(broker: Asked) -> tuple[float, float]:
            asked = {"address": broker.address, "topic": TOPIC, "producers": 1}
            sent = alone.call("one_in_flight", seconds=1.0, **asked)
            expect(sent["left"] == 0, f"{broker.name}: {sent}")
            return float(sent["a_second"]), 1.0

        ratio = _report_latencies(run, found)
        p99 = median(turn["p99"] for turn in found[CLUSTER])
        if ratio > MANY_TIMES or p99 >= LONGEST_MS:
            run.note(f"MISSED: p50 {ratio:.1f} times one node's (5), p99 {p99:.1f} ms (10)")
        _in_turns(run, brokers, "one at a time", one_in_flight, least=0.0)
    run.note(f"{TURNS} turns of {PACE.seconds} s, {WIDE} partitions, 3 replicas, acks=all")


def _report_latencies(run: Run, found: dict[str, list[dict[str, float]]]) -> float:
    ratios = {}
    for rank in ("p50", "p99", "p99.9"):
        plain = f"{PACE}: {ONE} {rank}"
        run.row(plain, median(turn[rank] for turn in found[ONE]), "ms")
        pairs = zip(found[CLUSTER], found[ONE], strict=True)
        ratios[rank] = median(ours[rank] / one[rank] for ours, one in pairs)
        value = median(turn[rank] for turn in found[CLUSTER])
        run.row(f"{PACE}: {CLUSTER} {rank}", value, "ms", ratios[rank], plain)
    return ratios["p50"]


# --- fsync=always ------------------------------------------------------------------------------

WRITERS: Final = 64
SYNCED_S: Final = 2.0
SMALL_BYTES: Final = 170
"""A batch with one message of 100 bytes."""


@benchmark("always", "64 producers that each wait for every message to be on the disks")
def always(run: Run) -> None:
    with (
        _both(run, **{"goqueue.fsync": "always"}) as brokers,
        ClientProcess("_raw_client") as client,
        ClientProcess("_cluster_client") as admin,
    ):

        def synced(broker: Asked) -> tuple[float, float]:
            ports = admin.call("leaders", address=broker.address, topic=TOPIC)["ports"]
            asked = {"topic": TOPIC, "count": WRITERS, "batch_bytes": SMALL_BYTES}
            sent = client.call("publish", port=ports, seconds=SYNCED_S, **asked)
            expect(not sent["failed"], f"{broker.name}: {sent}")
            return float(sent["batches_a_second"]) * SYNCED_S, SYNCED_S

        _in_turns(run, brokers, "messages on the disks", synced, least=0.4)
    run.note(f"{TURNS} turns of {SYNCED_S:.0f} s, {WRITERS} connections, one message under way")


# --- Starting, catching up, failing over -------------------------------------------------------

STARTS: Final = 3
START_S: Final = 10.0


@benchmark("queues", "One producer, two consumers that acknowledge each message, on three nodes")
def queues(run: Run) -> None:
    with _both(run) as brokers:
        measure_queues(run, brokers, TURNS)


@benchmark("start", "goqueue cluster start: until three nodes serve clients")
def start(run: Run) -> None:
    took = []
    for turn in run.progress(STARTS, "start"):
        with tempfile.TemporaryDirectory(dir=run.scratch, prefix=f"start-{turn}-") as folder:
            took.append(start_by_command(Path(folder) / "cluster"))
    run.row("three nodes ready, median", median(took), "s")
    run.row("three nodes ready, slowest", max(took), "s")
    if max(took) > START_S:
        run.note(f"MISSED: {max(took):.1f} s, at most {START_S:.0f} are asked for")


MISSED_MB: Final = int(os.environ.get("GOQUEUE_BENCH_CATCH_UP_MB", "256"))
"""2048 for the record."""
OF_CP: Final = 0.3


@benchmark("catch_up", "A node that missed much fetches it, against cp of the same files")
def catch_up(run: Run) -> None:
    with ClusterProcesses(run.scratch / "cluster") as cluster:
        ratio = caught_up(run, cluster, MISSED_MB, WIDE)
    if ratio < OF_CP:
        run.note(f"MISSED: {ratio:.2f} of cp, at least {OF_CP} is asked for")


@benchmark("failover", "Kill the node that is leader, controller and etcd leader at once")
def failover(run: Run) -> None:
    with ClusterProcesses(run.scratch / "cluster") as cluster:
        through_kills(run, cluster, WIDE)


@benchmark("partitions", "1000 partitions: led again after a kill, idle, and beside a busy one")
def partitions(run: Run) -> None:
    with ClusterProcesses(run.scratch / "cluster") as cluster:
        many_partitions(run, cluster)


@benchmark("transactions", "Transactions of 100 and of 10 000 messages")
def transactions(run: Run) -> None:
    with _both(run) as brokers, ClientProcess("_transaction_client") as client:
        throughput(run, brokers.one, brokers.cluster, client)
    run.note("3 partitions of 3 replicas; both cores are shared with the client")


@benchmark("http", "Publish over HTTP through another node than the leader")
def http(run: Run) -> None:
    with ClusterProcesses(run.scratch / "cluster") as cluster:
        through_another_node(run, cluster, TURNS)


@benchmark("delays", "Delayed messages: taken in against one node, and how late they come")
def delays(run: Run) -> None:
    with _both(run) as brokers:
        measure_delays(run, brokers, TURNS)


@benchmark("sources", "A work queue that reads its topic at other nodes, against its own replicas")
def sources(run: Run) -> None:
    forced = "--cluster-remote-queue-sources"
    with (
        ClusterProcesses(run.scratch / "local") as local,
        ClusterProcesses(run.scratch / "remote", forced) as remote,
    ):
        measure_sources(run, local, remote, TURNS)


@benchmark("spark", "Spark's batch read of a topic of three nodes, against one")
def spark(run: Run) -> None:
    with _both(run) as brokers:
        measure_reads(run, brokers, TURNS)


@benchmark("take_over", "Offsets, messages in flight, transactions, delays whose leader dies")
def take_over_states(run: Run) -> None:
    with ClusterProcesses(run.scratch / "cluster", environment=WATCHED) as cluster:
        transactions_taken_over(run, cluster)
        states_taken_over(run, cluster)
