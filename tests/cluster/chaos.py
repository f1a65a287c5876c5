"""Random faults for minutes, under clients at work: `make test-chaos SEED=7 MINUTES=10`.

Ends with what the judge of the history says. The same seed draws the same faults; when they come
is another matter. The history stays in `build/chaos/`.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from support.cluster_nodes import ClusterNodes
from support.disk_faults import clock_environment, small_disks
from support.faults import draw
from support.history import Ack, Finding, History, Poll, judge
from support.replicas import differences
from support.trouble import Trouble
from support.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TOPIC: Final = "chaos"
PARTITIONS: Final = 6
PROGRESS_S: Final = 60.0
DISK_MB: Final = 512
"""Of each node; etcd alone takes 130 of it."""
FLAGS: Final = ("--groups-initial-rebalance-delay", "0ms")


class Run:
    """A cluster with clients at work, from start to judgement."""

    def __init__(self, folder: Path, seed: int, *, has_clocks: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.cluster = ClusterNodes(folder, *FLAGS)
        for number, node in self.cluster.nodes.items() if has_clocks else ():
            node.environment |= clock_environment(folder, number)
        self.history = History(folder / "history.jsonl")
        self.trouble = Trouble(self.cluster, TOPIC, random.Random(seed), self.history)
        self.workload = Workload(self.cluster.bootstrap, TOPIC, PARTITIONS, self.history)

    def start(self) -> None:
        """All nodes, the topic, and the clients."""
        self.cluster.start()
        make_topic(self.cluster.bootstrap)
        self.trouble.wait_until_whole()
        self.workload.start()
        self.workload.wait_for_progress(PROGRESS_S)

    def suffer(self, faults: Iterable[Callable[[Trouble], None]]) -> None:
        """One fault after the other; after each, the cluster is whole and clients go on."""
        for fault in faults:
            try:
                fault(self.trouble)
                self.trouble.wait_until_whole()
                self.workload.wait_for_progress(PROGRESS_S)
            except Exception as error:
                error.add_note(f"after {fault.__name__}")
                raise

    def judged(self) -> list[Finding]:
        """What is wrong, once the clients are done."""
        log = self.workload.finish()
        self.trouble.wait_until_whole()
        watermarks = {partition: max(at, default=-1) + 1 for partition, at in log.items()}
        for node in self.cluster.nodes.values():
            node.stop()
        folders = {number: node.data_dir for number, node in self.cluster.nodes.items()}
        findings = judge(self.history.operations, log)
        findings += [Finding("replicas", each) for each in differences(folders, TOPIC, watermarks)]
        return findings

    def close(self) -> None:
        for client in self.workload.clients:
            client.stopping.set()
        self.cluster.close()
        self.history.close()


def make_topic(bootstrap: str) -> None:
    """Every partition on every node."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + PROGRESS_S
    while True:
        try:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(10)
        except KafkaException as error:
            if time.monotonic() > deadline or not error.args[0].retriable():
                raise
            time.sleep(0.2)
        else:
            return


def main() -> int:
    """Run until the time is over, or something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--folder", type=Path, default=Path("build/chaos"))
    asked = parser.parse_args()
    folder: Path = asked.folder / str(asked.seed)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"seed {asked.seed}, in {folder}", flush=True)  # noqa: T201 - a command
    run = Run(folder, asked.seed, has_clocks=True)
    end_s = time.monotonic() + 60 * asked.minutes
    count = 0
    with small_disks(run.cluster, DISK_MB):
        try:
            run.start()
            while time.monotonic() < end_s:
                fault = draw(run.trouble)
                began_s = time.monotonic()
                run.suffer([fault])
                count += 1
                took_s = time.monotonic() - began_s
                print(f"{count:4d} {fault.__name__} {took_s:.1f} s", flush=True)  # noqa: T201
                run.trouble.rest(0, 3)
            findings = run.judged()
        finally:
            run.close()
    kinds = {kind.__name__: run.history.count(kind) for kind in (Ack, Poll)}
    print(f"{count} faults, {kinds}: {len(findings)} findings")  # noqa: T201
    for each in findings[:50]:
        print(each)  # noqa: T201
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
