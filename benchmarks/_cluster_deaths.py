"""What clients notice when a node dies, and what many partitions cost."""

from __future__ import annotations

import os
import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Protocol

from benchmarks._client import ClientProcess
from benchmarks._clusters import cpu_s_of
from benchmarks._turns import expect

if TYPE_CHECKING:
    from benchmarks._clusters import ClusterProcesses
    from benchmarks.harness import Run

KILLS: Final = int(os.environ.get("GOQUEUE_BENCH_KILLS", "5"))
"""20 for the record."""
TOPIC: Final = "through-kills"
RATE: Final = 240.0
"""Messages a second in all partitions: each is due every 50 ms at twelve of them."""
RUN_S: Final = 12.0
BEFORE_S: Final = 2.0
GROUPS: Final = ("classic", "consumer")
MEMBERS: Final = 2
_GIVE_UP_S: Final = 30.0


class Mortal(Protocol):
    """A cluster whose nodes can be killed."""

    @property
    def address(self) -> str:
        """The addresses of all nodes."""

    def address_of(self, node: int) -> str:
        """That of one."""

    def kill(self, node: int) -> None:
        """End a node as `kill -9` does."""

    def start(self, node: int) -> None:
        """Start it again."""

    def settle(self) -> None:
        """Wait until every replica is in sync."""


# --- Kills -------------------------------------------------------------------------------------


class Deaths:
    """What was found out by killing nodes."""

    def __init__(self) -> None:
        self.led_s: list[float] = []
        self.gap_s: list[float] = []
        """The longest time without an acknowledgement, in whichever partition had it."""
        self.silent_s: list[float] = []
        """The same over all partitions together."""
        self.committed_s: list[float] = []
        self.rebalances = 0

    def report(self, run: Run, name: str = "") -> None:
        """A row or two for each."""
        for what, found in (
            ("all its partitions led again", self.led_s),
            ("longest gap of a partition's acknowledgements", self.gap_s),
            ("longest gap of all acknowledgements", self.silent_s),
            ("members of its groups commit again", self.committed_s),
        ):
            if found:
                run.row(f"{name}{what}, median", median(found), "s")
                run.row(f"{name}{what}, longest", max(found), "s")


def through_kills(run: Run, cluster: ClusterProcesses, partitions: int) -> None:
    """Kill the node that has every office, again and again, under producers and groups."""
    deaths = Deaths()
    with ClientProcess("_cluster_client") as admin:
        admin.call("make", address=cluster.address, topics=[TOPIC], partitions=partitions)
        cluster.settle()
        for turn in run.progress(KILLS, "kills"):
            victim = cluster.controller()
            cluster.give_etcd_leadership(victim)
            kill_once(
                cluster,
                admin,
                victim,
                partitions,
                deaths,
                groups=_groups(admin, cluster, victim, turn),
            )
    deaths.report(run)
    run.row("rebalances of groups", deaths.rebalances, "")
    for what, found, middle, most in (
        ("led again", deaths.led_s, 1.0, 3.0),
        ("gap between acknowledgements", deaths.gap_s, 2.0, 5.0),
        ("commits", deaths.committed_s, 3.0, 3.0),
    ):
        if found and (median(found) > middle or max(found) > most):
            run.note(
                f"MISSED: {what}: {median(found):.2f} s at the median, {max(found):.2f} at most; "
                f"{middle:g} and {most:g} are asked for"
            )
    if deaths.rebalances:
        run.note(f"MISSED: {deaths.rebalances} rebalances, none is asked for")
    run.note(f"{KILLS} kills of the leader, controller and etcd leader; {RATE:.0f} messages/s")


def _groups(admin: ClientProcess, cluster: Mortal, victim: int, turn: int) -> list[tuple[str, str]]:
    """A group of each kind that the victim coordinates."""
    found = []
    for kind in GROUPS:
        names = (f"{kind}-{turn}-{number}" for number in range(100))
        address = cluster.address
        chosen = next(
            name
            for name in names
            if admin.call("coordinator", address=address, group=name) == victim
        )
        found.append((chosen, kind))
    return found


def kill_once(
    cluster: Mortal,
    admin: ClientProcess,
    victim: int,
    partitions: int,
    deaths: Deaths,
    *,
    groups: list[tuple[str, str]],
) -> None:
    """Kill a node under producers and groups, note what they saw, and start it again."""
    survivor = cluster.address_of(victim % 3 + 1)
    asked: dict[str, Any] = {"address": cluster.address, "topic": TOPIC}
    members = [ClientProcess("_cluster_client") for _ in groups]
    with ClientProcess("_cluster_client") as producer, ClientProcess("_cluster_client") as watcher:
        try:
            admin.call("prefer", address=cluster.address)
            for process, (group, protocol) in zip(members, groups, strict=True):
                given = {"group": group, "protocol": protocol, "members": MEMBERS}
                process.begin("join", **asked, **given)
            for process in members:
                expect(process.end() == MEMBERS, "not all members have partitions")
            left = producer.call("warm_up", **asked, partitions=partitions)
            expect(left == 0, f"{left} partitions take no messages")
            for process in members:
                process.begin("commit_through", seconds=RUN_S)
            producer.begin("steady", **asked, partitions=partitions, rate=RATE, seconds=RUN_S)
            time.sleep(BEFORE_S)
            led = admin.call("leaders", address=cluster.address, topic=TOPIC)["nodes"]
            expect(victim in led, f"node {victim} leads nothing: {led}")
            watch: dict[str, Any] = {"topics": [TOPIC], "dead": victim, "give_up_s": _GIVE_UP_S}
            watcher.call("leaders", address=survivor, topic=TOPIC)
            killed = time.perf_counter()
            cluster.kill(victim)
            again = watcher.call("led_again", address=survivor, **watch)
            deaths.led_s.append(again["at"] - killed)
            sent = producer.end()
            expect(not sent["failed"], f"messages failed: {sent}")
            deaths.gap_s.append(max(sent["partition_gap_s"].values()))
            deaths.silent_s.append(sent["gap_s"])
            for process in members:
                _note_commits(deaths, process.end(), killed)
        finally:
            for process in members:
                process.__exit__()
    cluster.start(victim)
    cluster.settle()


def _note_commits(deaths: Deaths, committed: dict[str, Any], killed: float) -> None:
    for moments in committed["moments"]:
        after = [moment for moment in moments if moment > killed]
        before = [moment for moment in moments if moment <= killed]
        expect(before and after, f"a member never committed: {committed['errors']}")
        deaths.committed_s.append(after[0] - killed)
    deaths.rebalances += committed["rebalances"]


# --- Many partitions ---------------------------------------------------------------------------

TOPICS: Final = 10
EACH: Final = 100
FEW: Final = 10
IDLE_S: Final = 10.0
BUSY_S: Final = 4.0
BUSY_TURNS: Final = 3
LED_S: Final = 3.0
IDLE_SHARE: Final = 0.05
TIMES: Final = 1.3
_BUSY: Final = "busy"
_SMALL_BYTES: Final = 170
_WRITERS: Final = 8


def many_partitions(run: Run, cluster: ClusterProcesses) -> None:
    """Idle cost, the cost of a fetch round, and a kill, with a thousand partitions."""
    with ClientProcess("_cluster_client") as admin, ClientProcess("_raw_client") as raw:
        address = cluster.address
        admin.call("make", address=address, topics=[_BUSY], partitions=3)
        admin.call("make", address=address, topics=["few"], partitions=FEW)
        cluster.settle()
        few_s = _request_s(run, cluster, admin, raw)
        topics = [f"many-{number}" for number in range(TOPICS)]
        made = admin.call("make", address=address, topics=topics, partitions=EACH)
        run.row(f"{TOPICS * EACH} partitions made", made["seconds"], "s")
        cluster.settle()
        _report_idle(run, cluster)
        many_s = _request_s(run, cluster, admin, raw)
        plain = f"CPU of the brokers a request, beside {FEW} idle partitions"
        run.row(plain, few_s * 1e6, "µs")
        label = f"CPU of the brokers a request, beside {TOPICS * EACH} idle partitions"
        run.row(label, many_s * 1e6, "µs", many_s / few_s, plain)
        if many_s / few_s > TIMES:
            run.note(f"MISSED: a fetch round: {many_s / few_s:.2f} times, at most {TIMES} is asked")
        admin.call("prefer", address=address)
        victim = cluster.controller()
        cluster.give_etcd_leadership(victim)
        survivor = cluster.address_of(victim % 3 + 1)
        admin.call("leaders", address=survivor, topic=_BUSY)
        killed = time.perf_counter()
        cluster.kill(victim)
        watched = {"topics": topics, "dead": victim, "give_up_s": _GIVE_UP_S}
        led_s = admin.call("led_again", address=survivor, **watched)["at"] - killed
        run.row("a killed node's partitions are led again", led_s, "s")
        if led_s > LED_S:
            run.note(f"MISSED: led again after {led_s:.1f} s, at most {LED_S:.0f} are asked for")
        run.row("memory, the largest broker", max(cluster.memory_mb("broker")), "MB")


def _report_idle(run: Run, cluster: ClusterProcesses) -> None:
    """What each broker and each etcd uses when nobody asks for anything."""
    for name in ("broker", "etcd"):
        pids = cluster.pids(name)
        before = [cpu_s_of([pid]) for pid in pids]
        time.sleep(IDLE_S)
        used = [cpu_s_of([pid]) - was for pid, was in zip(pids, before, strict=True)]
        run.row(f"the busiest idle {name}", 100 * max(used) / IDLE_S, "% of a core")
        if name == "broker" and max(used) / IDLE_S > IDLE_SHARE:
            run.note(f"MISSED: idle broker: {100 * max(used) / IDLE_S:.1f} % of a core, 5 at most")


def _request_s(
    run: Run, cluster: ClusterProcesses, admin: ClientProcess, raw: ClientProcess
) -> float:
    """Processor seconds of all brokers a request, in the median of some turns, without idling."""
    ports = admin.call("leaders", address=cluster.address, topic=_BUSY)["ports"]
    found: list[float] = []
    asked = {"topic": _BUSY, "count": _WRITERS, "batch_bytes": _SMALL_BYTES}
    raw.call("publish", port=ports, seconds=1.0, **asked)
    for _ in run.progress(BUSY_TURNS, "requests"):
        before_s = cluster.cpu_s()
        time.sleep(BUSY_S)
        idle_s = cluster.cpu_s() - before_s
        sent = raw.call("publish", port=ports, seconds=BUSY_S, **asked)
        expect(not sent["failed"], f"requests failed: {sent}")
        used_s = cluster.cpu_s() - before_s - 2 * idle_s
        found.append(used_s / sent["acknowledged"])
    return median(found)
