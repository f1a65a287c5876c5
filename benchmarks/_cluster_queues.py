"""Work queues on three nodes against one: the Python client, and Kafka's own share consumer."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, ClassVar, Final

from benchmarks._queue_run import Outcome, Queue, measure
from benchmarks._queue_share import ShareGroup
from goqueue import AsyncClient
from goqueue.client.link.link import GROUP_KEY
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from benchmarks._pairs import Asked
    from benchmarks.cluster import Both
    from benchmarks.harness import Run

SECONDS: Final = 3.0
LONGEST_MS: Final = 30.0
WAYS: Final = (
    ("work queue, Python client", "_queue_goqueue:Batches", 0.5),
    ("work queue, Kafka's share consumer", "_cluster_queues:AnywhereShared", 0.4),
)
"""What is measured, how, and how much of one node is asked for."""
_DESCRIBE_OFFSETS: Final = 1


class AnywhereShared(ShareGroup):
    """Asks the coordinator of the group, whichever node that is."""

    replicas: ClassVar = -1

    async def left(self, topic: str) -> int:
        """What the group is not done with."""
        async with AsyncClient(self._address) as client:
            answer = await client.link.ask_coordinator(
                GROUP_KEY,
                topic,
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
                _DESCRIBE_OFFSETS,
                groups=[{"group_id": topic, "topics": None}],
            )
        return sum(
            partition.lag
            for group in answer.groups
            for each in group.topics
            for partition in each.partitions
        )


def measure_queues(run: Run, brokers: Both, turns: int) -> None:
    """Measure each way in turns, as fast as possible; the cluster then at half of that."""
    taken: list[float] = []
    for what, way, least in WAYS:
        found: dict[str, list[Outcome]] = {brokers.one.name: [], brokers.cluster.name: []}
        for turn in run.progress(turns, what):
            for broker in brokers.in_turn(turn):
                found[broker.name].append(_measured(run, way, broker, f"{turn}"))
        rates = [median(each.rate for each in outcomes) for outcomes in found.values()]
        for name, rate in zip(found, rates, strict=True):
            run.row(f"{what}, {name}", rate, "a second")
        ratio = rates[1] / rates[0]
        run.row(f"{what}: of one node", ratio, "")
        if ratio < least:
            run.note(f"MISSED: {what}: {ratio:.2f} of one node, at least {least} is asked for")
        for name, outcomes in found.items():
            used_us = median(sum(each.cpu_us.values()) for each in outcomes)
            run.row(f"{what}: CPU of clients and brokers a message, {name}", used_us, "µs")
            taken += [each.taken for each in outcomes]
        _report_latency(run, what, _measured(run, way, brokers.cluster, "paced", rates[1] / 2))
    told = f"{median(taken):.0%} of the cores, at most {max(taken):.0%} in one turn"
    run.note(f"what else ran on the machine took {told}")


REMOTE: Final = "every source remote"
LOCAL: Final = "local sources"
OF_LOCAL: Final = 0.5


def measure_sources(run: Run, local: Asked, remote: Asked, turns: int) -> None:
    """The Python client's queue on a cluster that reads its own replicas, and on one that asks."""
    found: dict[str, list[Outcome]] = {LOCAL: [], REMOTE: []}
    ways = {LOCAL: local, REMOTE: remote}
    for turn in run.progress(turns, "sources"):
        for name in sorted(ways, reverse=bool(turn % 2)):
            topic = f"sources-{turn}-{name.replace(' ', '-')}"
            queue = Queue("_queue_goqueue:Batches", ways[name], topic)
            found[name].append(measure(queue, run.scratch / topic, SECONDS))
    rates = {name: median(each.rate for each in outcomes) for name, outcomes in found.items()}
    run.row(f"work queue, {LOCAL}", rates[LOCAL], "a second")
    ratio = median(
        theirs.rate / ours.rate for theirs, ours in zip(found[REMOTE], found[LOCAL], strict=True)
    )
    run.row(f"work queue, {REMOTE}", rates[REMOTE], "a second", ratio, f"work queue, {LOCAL}")
    if ratio < OF_LOCAL:
        run.note(f"MISSED: {REMOTE}: {ratio:.2f} of local ones, at least {OF_LOCAL} is asked for")
    run.note(f"two clusters of three nodes at the same time, {turns} turns of {SECONDS:g} s")


def _report_latency(run: Run, what: str, paced: Outcome) -> None:
    for rank, taken_ms in paced.latency_ms.items():
        run.row(f"{what}: end to end at half of the rate, {rank}", taken_ms, "ms")
    longest_ms = paced.latency_ms["p99"]
    if longest_ms > LONGEST_MS:
        run.note(f"MISSED: {what}: p99 {longest_ms:.0f} ms, less than {LONGEST_MS:.0f} is asked")


def _measured(run: Run, way: str, broker: Asked, name: str, rate: float | None = None) -> Outcome:
    system = way.partition(":")[2].lower()
    topic = f"{system}-{broker.name.replace(' ', '-')}-{name}"
    return measure(Queue(way, broker, topic), run.scratch / topic, SECONDS, rate)
