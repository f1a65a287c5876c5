"""Random faults for minutes, under clients at work: `make test-chaos SEED=7 MINUTES=10`.

Ends with what the judge of the history says. The same seed draws the same faults; when they come
is another matter. The history stays in `build/chaos/`.

Seeds that have found something: 4001 a cut of a failed log that could not be repeated; 4003 and
4004 a leader in the metadata that was not among the brokers; 5001 (all nodes killed, eight times)
a node that gave up because etcd was slow at its start; 7001 (etcd stopped) a store kept slow by
requests that were given up and sent again.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import random
import shutil
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from support.cluster_nodes import ClusterNodes
from support.disk_faults import clock_environment, fill_disk, small_disks
from support.faults import CHAOS, ORDINARY, draw
from support.history import Ack, Fault, Finding, History, Poll, judge
from support.pace import PATIENCE
from support.replicas import differences
from support.trouble import Trouble
from support.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TOPIC: Final = "chaos"
PARTITIONS: Final = 6
PROGRESS_S: Final = 60.0 * PATIENCE
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

    def suffer(self, fault: Callable[[Trouble], None]) -> None:
        """A fault, after which the cluster is whole and clients go on."""
        try:
            fault(self.trouble)
            self.trouble.wait_until_whole()
            self.workload.wait_for_progress(PROGRESS_S)
        except Exception as error:
            with (self.cluster.folder / "threads.txt").open("w") as file:
                faulthandler.dump_traceback(file)
            error.add_note(f"after {fault.__name__}")
            error.add_note(self.cluster.told())
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
    parser.add_argument("--faults", default="", help="their names; at random without any")
    asked = parser.parse_args()
    folder: Path = asked.folder / str(asked.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    note_clients(folder / "clients.log")
    say(f"seed {asked.seed}, in {folder}")
    run = Run(folder, asked.seed, has_clocks=not asked.faults)
    named = {each.__name__: each for each in (*ORDINARY, *(kind.run for kind in CHAOS))}
    chosen = [named[each] for each in asked.faults.split(",") if each]
    end_s = time.monotonic() + 60 * asked.minutes
    needs_disks = not chosen or fill_disk in chosen
    with small_disks(run.cluster, DISK_MB) if needs_disks else nullcontext():
        try:
            run.start()
            say("started")
            if chosen:
                suffer(run, chosen)
            else:
                suffer(run, at_random(run.trouble, end_s))
            findings = run.judged()
        finally:
            for number, node in run.cluster.nodes.items():
                (folder / f"node-{number}.log").write_text("\n".join(node.log))
                with suppress(OSError):  # of a disk that goes away with the run
                    shutil.copy(node.data_dir / "etcd" / "etcd.log", folder / f"etcd-{number}.log")
            run.close()
    kinds = {kind.__name__: run.history.count(kind) for kind in (Fault, Ack, Poll)}
    say(f"{kinds}: {len(findings)} findings")
    for each in findings[:50]:
        say(str(each))
    return 1 if findings else 0


def note_clients(file: Path) -> None:
    """What clients complain of is done to them on purpose; one that hangs has said why, perhaps."""
    handler = logging.FileHandler(file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(threadName)s %(name)s: %(message)s"))
    for name in ("kafka", "aiokafka"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.addHandler(handler)
        logger.propagate = False


def at_random(trouble: Trouble, end_s: float) -> Iterator[Callable[[Trouble], None]]:
    """Faults, until a time."""
    while time.monotonic() < end_s:
        yield draw(trouble)
        trouble.rest(0, 3)


def suffer(run: Run, faults: Iterable[Callable[[Trouble], None]]) -> None:
    """One fault after the other, each told."""
    for number, fault in enumerate(faults, start=1):
        began_s = time.monotonic()
        say(f"{number:4d} {fault.__name__}")
        run.suffer(fault)
        say(f"{number:4d} {fault.__name__}: {time.monotonic() - began_s:.1f} s")


def say(line: str) -> None:
    """Tell whoever watches."""
    print(line, flush=True)  # noqa: T201 - a command


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # clients' threads may hang on, and are nobody's business any more
