"""HTTP through the node that leads a partition, and through one that has to pass batches on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks._client import ClientProcess
from benchmarks._turns import Turns, expect

if TYPE_CHECKING:
    from benchmarks._clusters import ClusterProcesses
    from benchmarks.harness import Run

TOPIC: Final = "published"
RIGHT: Final = "the leader"
WRONG: Final = "another node"
MESSAGES: Final = 100
CONNECTIONS: Final = 16
SECONDS: Final = 2.0
LEAST: Final = 0.5
MICROSECONDS: Final = 1e6


def through_another_node(run: Run, cluster: ClusterProcesses, turns: int) -> None:
    """Publish over HTTP to one partition, by way of its leader and of another node in turn."""
    taken, used_s = Turns(plain=RIGHT), {RIGHT: 0.0, WRONG: 0.0}
    counts = dict.fromkeys(used_s, 0)
    with ClientProcess("_cluster_client") as admin, ClientProcess("_http_client") as client:
        admin.call("make", address=cluster.address, topics=[TOPIC], partitions=1, settings={})
        cluster.settle()
        leader = cluster.leader_of(TOPIC, 0)
        ways = {RIGHT: leader, WRONG: leader % 3 + 1}
        for turn in run.progress(turns + 1, "publish over HTTP"):
            for way in sorted(ways, reverse=bool(turn % 2)):
                before_s = cluster.cpu_s()
                done = client.call(
                    "publish",
                    port=cluster.http_port_of(ways[way]),
                    topic=TOPIC,
                    messages=MESSAGES,
                    connections=CONNECTIONS,
                    seconds=SECONDS,
                )
                if turn:  # the first connects, and fills caches
                    count = done["requests"] * MESSAGES
                    taken.add(way, done["seconds"] / count)
                    used_s[way] += cluster.cpu_s() - before_s
                    counts[way] += count
        expect(cluster.leader_of(TOPIC, 0) == leader, "the leader has moved meanwhile")
    taken.report_rates(run, "messages published through", 1, "messages/s")
    for way, cpu_s in used_s.items():
        run.row(f"CPU of the brokers, through {way}", cpu_s / counts[way] * MICROSECONDS, "µs")
    ratio = 1 / taken.times_slower(WRONG)
    if ratio < LEAST:
        run.note(f"MISSED: through another node {ratio:.2f} of the leader, at least {LEAST} asked")
    run.note(
        f"one partition with three replicas, {MESSAGES} messages of 100 bytes a request, acks=all, "
        f"{CONNECTIONS} connections with one request under way on each, {turns} turns of "
        f"{SECONDS:g} s"
    )
