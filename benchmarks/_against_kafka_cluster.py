"""Three nodes of goqueue and three of Apache Kafka under the same loads."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks._client import ClientProcess
from benchmarks._cluster_deaths import TOPIC as KILLED_TOPIC, Deaths, kill_once
from benchmarks._clusters import ClusterProcesses
from benchmarks._kafka_cluster import KafkaCluster
from benchmarks._kafka_server import KAFKA
from benchmarks._latency import Pace
from benchmarks._pairs import in_turn, send
from benchmarks._turns import Turns, expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks._pairs import Asked
    from benchmarks.harness import Run

TURNS: Final = 5
WARM_UPS: Final = 2
WIDE: Final = 12
TOPIC: Final = "measured"
PRODUCED: Final = 500_000
PACE: Final = Pace(1000, 0)
KILLS: Final = 3


def compare_loads(run: Run) -> None:
    """Forming, producing, consuming and latency, in alternating turns."""
    with (
        KafkaCluster(run.scratch / "kafka") as kafka,
        ClusterProcesses(run.scratch / "ours") as ours,
        ClientProcess("_cluster_client") as admin,
        ClientProcess("_kafka_client") as client,
        ClientProcess("_request_client") as alone,
    ):
        plain = f"until three nodes have formed, {KAFKA}"
        run.row(plain, kafka.started_s, "s")
        ratio = ours.started_s / kafka.started_s
        run.row(f"until three nodes have formed, {ours.name}", ours.started_s, "s", ratio, plain)
        for address in (kafka.address, ours.address):
            admin.call("make", address=address, topics=[TOPIC], partitions=WIDE)
        both: tuple[Asked, Asked] = kafka, ours

        def produced_s(broker: Asked) -> float:
            sent = send(client, broker, TOPIC, PRODUCED, reports=False)
            return float(sent["seconds"]) / PRODUCED

        def consumed_s(broker: Asked) -> float:
            asked: dict[str, Any] = {"topic": TOPIC, "starts": [0] * WIDE, "count": PRODUCED}
            read = client.call("consume", address=broker.address, **asked)
            expect(read["read"] >= PRODUCED and not read["wrong"], f"{broker.name}: {read}")
            return float(read["seconds"]) / float(read["read"])

        def one_in_flight_s(broker: Asked) -> float:
            asked = {"address": broker.address, "topic": TOPIC, "producers": 1}
            sent = alone.call("one_in_flight", seconds=1.0, **asked)
            expect(sent["left"] == 0, f"{broker.name}: {sent}")
            return 1 / float(sent["a_second"])

        _rates(run, both, "messages produced", produced_s)
        _rates(run, both, "messages consumed", consumed_s)
        _rates(run, both, "messages, one in flight", one_in_flight_s)
        _latencies(run, both, client)
        run.row(f"memory a node, {KAFKA}", max(kafka.memory_mb()), "MB")
        nodes = zip(ours.memory_mb("broker"), ours.memory_mb("etcd"), strict=True)
        run.row(f"memory a node, {ours.name}: broker and etcd", max(map(sum, nodes)), "MB")
    run.note(f"{TURNS} turns; {WIDE} partitions, 3 replicas, acks=all, 100-byte messages")


def _rates(
    run: Run, both: tuple[Asked, Asked], what: str, seconds_of: Callable[[Asked], float]
) -> None:
    taken = Turns(plain=KAFKA)
    for turn in run.progress(WARM_UPS + TURNS, what):
        for broker in in_turn(both, turn):
            seconds = seconds_of(broker)
            if turn >= WARM_UPS:
                taken.add(broker.name, seconds)
    taken.report_rates(run, f"{what}:", 1, "a second")


def _latencies(run: Run, both: tuple[Asked, Asked], client: ClientProcess) -> None:
    found: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in both}
    for turn in run.progress(WARM_UPS + TURNS, "latency"):
        for broker in in_turn(both, turn):
            sent = client.call("paced", address=broker.address, topic=TOPIC, **asdict(PACE))
            expect(sent["left"] == 0, f"{broker.name}: {sent}")
            if turn >= WARM_UPS:
                found[broker.name].append(sent)
    for rank in ("p50", "p99"):
        plain = f"{PACE}: {KAFKA} {rank}"
        theirs = [turn[rank] for turn in found[KAFKA]]
        run.row(plain, median(theirs), "ms")
        (name,) = found.keys() - {KAFKA}
        ours = [turn[rank] for turn in found[name]]
        ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
        run.row(f"{PACE}: {name} {rank}", median(ours), "ms", ratio, plain)


def compare_kills(run: Run) -> None:
    """Kill each node of both clusters once, under a producer."""
    with KafkaCluster(run.scratch / "kafka") as kafka, ClientProcess("_cluster_client") as admin:
        _killed(run, kafka, admin, kafka.name)
    with ClusterProcesses(run.scratch / "ours") as ours, ClientProcess("_cluster_client") as admin:
        _killed(run, ours, admin, ours.name)
    run.note(f"{KILLS} kills, each of another node; one cluster after the other")


def _killed(
    run: Run, cluster: KafkaCluster | ClusterProcesses, admin: ClientProcess, name: str
) -> None:
    deaths = Deaths()
    admin.call("make", address=cluster.address, topics=[KILLED_TOPIC], partitions=WIDE)
    cluster.settle()
    for turn in run.progress(KILLS, f"kills, {name}"):
        kill_once(cluster, admin, turn % 3 + 1, WIDE, deaths, groups=[])
    deaths.report(run, f"{name}: ")
