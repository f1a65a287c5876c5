"""Random faults for minutes, under clients at work: `make test-chaos SEED=7 MINUTES=10`.

The clients are those of one or more workloads, `WORKLOADS=queues,delays`: logs, transactions,
queues, delays, schemas. Ends with what their judges say. The same seed draws the same faults; when
they come is another matter. What happened stays in `build/chaos/`.

`FAULTS=tear_files,lose_folder` has those in their order, and no others. `MISTAKE=watermark_ahead`
plants a mistake in the brokers, in the run that `support.node_hooks.mistakes` names for it: there
must be findings.

Seeds that have found something: 4001 a cut of a failed log that could not be repeated; 4003 and
4004 a leader in the metadata that was not among the brokers; 5001 (all nodes killed, eight times)
a node that gave up because etcd was slow at its start; 7001 (etcd stopped) a store kept slow by
requests that were given up and sent again; 1 of schemas (a writer cut off) a node that said 404 of
what the next writer had stored; 20005 of delays and schemas (a coordinator killed twice) a message
that came twice, and a 409 of a node that registered anew; the same later (a leader of a partition
that led no unit of delays) a producer told to be out of order after a batch that was refused.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.cluster_nodes import NODE, ClusterNodes
from support.cluster_report import report
from support.disk_faults import clock_environment, fill_disk, small_disks
from support.faults import CHAOS, OF_COORDINATORS, OF_MISTAKES, ORDINARY, draw
from support.history import Ack, Finding, History, Poll
from support.hooked_nodes import hook_environment, write_stacks
from support.node_hooks.mistakes import ALL as MISTAKES, MISTAKE
from support.trouble import Trouble
from support.workloads.base import Workload, make_topics
from support.workloads.delays import Delays
from support.workloads.logs import Logs
from support.workloads.queues import FLAGS as FOR_QUEUES, Queues
from support.workloads.schemas import Schemas
from support.workloads.transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

DISK_MB: Final = 512
"""Of each node; etcd alone takes 130 of it."""
FLAGS: Final = (
    *("--groups-initial-rebalance-delay", "0ms"),
    *("--groups-offsets-partitions", "6"),
    *("--transactions-state-partitions", "6"),
    *FOR_QUEUES,
)
"""With few internal partitions: each election costs the metadata store something."""
KAFKA_HEADERS: Final = {"goqueue.kafka.headers": "true"}
"""Of topics whose Kafka producers may delay messages."""
LOGS: Final = "logs"
_SHOWN: Final = 6000
"""Of a report that stands in a file as a whole."""
WORKLOADS: Final[dict[str, Callable[[ClusterNodes, int], Workload]]] = {
    "transactions": Transactions,
    "queues": Queues,
    "delays": Delays,
    "schemas": Schemas,
}


class Run:
    """A cluster with clients at work, from start to judgement."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        workloads: Sequence[str],
        *,
        has_clocks: bool = False,
        mistake: str = "",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.cluster = ClusterNodes(folder, *FLAGS)
        for number, node in self.cluster.nodes.items():
            node.environment |= hook_environment(folder, number)
            if has_clocks:
                node.environment |= clock_environment(folder, number)
            if mistake:
                node.environment[MISTAKE] = mistake
        self.history = History(folder / "history.jsonl")
        self.faults = Counter[str]()
        """How often each fault was there."""
        self.logs = Logs(self.cluster, self.history) if LOGS in workloads else None
        self.workloads: list[Workload] = [self.logs] if self.logs is not None else []
        others = [each for each in workloads if each != LOGS]
        self.workloads += [WORKLOADS[each](self.cluster, seed) for each in others]
        topics = [topic for each in self.workloads for topic in each.topics]
        self.trouble = Trouble(self.cluster, topics, random.Random(seed), self.history)
        self.trouble.keys = [key for each in self.workloads for key in each.coordinators()]

    def start(self) -> None:
        """All nodes, the topics, and the clients."""
        self.cluster.start()
        for each in self.workloads:
            make_topics(self.cluster.bootstrap, each.topics, **KAFKA_HEADERS)
            each.prepare()
        self.trouble.wait_until_whole()
        for each in self.workloads:
            each.start()
        self.wait_for_progress()

    def wait_for_progress(self) -> None:
        for each in self.workloads:
            each.wait_for_progress()

    def suffer(self, *faults: Callable[[Trouble], None]) -> None:
        """Faults one after the other, after which the cluster is whole and clients go on."""
        try:
            for fault in faults:
                self.faults[fault.__name__] += 1
                fault(self.trouble)
            self.trouble.wait_until_whole()
            self.wait_for_progress()
        except Exception as error:
            error.add_note(f"after {', '.join(each.__name__ for each in faults)}")
            error.add_note(self.report())
            raise

    def report(self) -> str:
        """How the cluster and its clients are; the whole of it stays in a file."""
        file = self.cluster.folder / "stuck.txt"
        told = report(self.cluster)
        with file.open("w") as out:
            print(told, file=out)
            print(write_stacks(self.cluster.folder, self.trouble.nodes), file=out)
            print("--- threads of the clients", file=out, flush=True)
            faulthandler.dump_traceback(out)
        return f"{told[:_SHOWN]}\nmore in {file}"

    def recover(self) -> None:
        """End every fault that may still be there, so that what was done can be judged."""
        self.cluster.network.heal()
        for node in self.trouble.nodes:
            node.send(NODE, signal.SIGCONT)
            if not node.is_running:
                node.close()
                self.cluster.launch(node)

    def judged(self) -> list[Finding]:
        """What is wrong, once the clients are done."""
        findings: list[Finding] = []
        for each in self.workloads:
            findings += each.finish()
        self.trouble.wait_until_whole()
        for node in self.cluster.nodes.values():
            node.stop()
        if self.logs is not None:
            findings += self.logs.compared()
        return findings

    def done(self) -> dict[str, int]:
        """How much was done."""
        kinds = {kind.__name__: self.history.count(kind) for kind in (Ack, Poll)}
        kinds["faults"] = self.faults.total()
        for each in self.workloads:
            kinds |= each.done()
        return {name: count for name, count in kinds.items() if count}

    def close(self) -> None:
        for each in self.workloads:
            each.give_up()
        self.cluster.close()
        self.history.close()


def main() -> int:
    """Run until the time is over, or something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--workloads", default=LOGS, help="their names, with commas")
    parser.add_argument("--folder", type=Path, default=Path("build/chaos"))
    parser.add_argument("--faults", default="", help="their names; at random without any")
    parser.add_argument(
        "--mistake",
        default="",
        choices=["", *MISTAKES],
        help="one that brokers make, in the run that finds it",
    )
    asked = parser.parse_args()
    if asked.mistake:
        planted = MISTAKES[asked.mistake]
        asked.seed, asked.workloads = planted.seed, planted.workload
        asked.faults = ",".join(planted.faults)
    folder: Path = asked.folder / str(asked.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    note_clients(folder / "clients.log")
    say(f"seed {asked.seed}, in {folder}: {asked.workloads}")
    workloads = asked.workloads.split(",")
    # Where a message is due by the clock of a node, that clock has to be right.
    has_clocks = not asked.faults and "delays" not in workloads
    mistake = asked.mistake
    run = Run(folder, asked.seed, workloads, has_clocks=has_clocks, mistake=mistake)
    single = (*ORDINARY, *OF_COORDINATORS, *OF_MISTAKES)
    named = {each.__name__: each for each in (*single, *(kind.run for kind in CHAOS))}
    chosen = [named[each] for each in asked.faults.split(",") if each]
    needs_disks = not chosen or fill_disk in chosen
    with small_disks(run.cluster, DISK_MB) if needs_disks else nullcontext():
        try:
            run.start()
            say("started")
            bursts = [[each] for each in chosen] or at_random(run.trouble, 60 * asked.minutes)
            findings = judged(run, bursts)
            if findings:
                keep(run)
        finally:
            for number, node in run.cluster.nodes.items():
                (folder / f"node-{number}.log").write_text("\n".join(node.log))
                with suppress(OSError):  # of a disk that goes away with the run
                    shutil.copy(node.data_dir / "etcd" / "etcd.log", folder / f"etcd-{number}.log")
            run.close()
    say(f"seed {asked.seed}: {run.done()}: {len(findings)} findings")
    say(", ".join(f"{name} {count}" for name, count in run.faults.most_common()))
    for workload in run.workloads:
        say(f"{type(workload).__name__}: {workload.errors()}"[:2000])
    for each in findings[:50]:
        say(str(each))
    return 1 if findings else 0


def keep(run: Run) -> None:
    """Copy the logs of the nodes: their disks go away with the run."""
    for number, node in run.cluster.nodes.items():
        kept = run.cluster.folder / f"kept-{number}"
        with suppress(OSError, shutil.Error):
            shutil.copytree(node.data_dir / "topics", kept)


def judged(run: Run, bursts: Iterable[Sequence[Callable[[Trouble], None]]]) -> list[Finding]:
    """What is wrong after these faults; one that the cluster does not get over is a finding."""
    findings = []
    try:
        suffer(run, bursts)
    except Exception as error:  # noqa: BLE001 - told, and what was done before is judged
        say("".join(traceback.format_exception(error)))
        findings.append(Finding("stuck", f"{error}"[:500]))
        run.recover()
    try:
        return findings + run.judged()
    except Exception as error:
        if not findings:
            error.add_note(run.report())
            raise
        say("".join(traceback.format_exception(error)))
        return [*findings, Finding("not judged", f"{error}"[:500])]


def note_clients(file: Path) -> None:
    """What clients complain of is done to them on purpose; one that hangs has said why, perhaps."""
    handler = logging.FileHandler(file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(threadName)s %(name)s: %(message)s"))
    for name in ("kafka", "aiokafka"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.addHandler(handler)
        logger.propagate = False


def at_random(trouble: Trouble, for_s: float) -> Iterator[Sequence[Callable[[Trouble], None]]]:
    """Faults, for so long."""
    end_s = time.monotonic() + for_s
    while time.monotonic() < end_s:
        yield draw(trouble)
        trouble.rest(0, 1)


def suffer(run: Run, bursts: Iterable[Sequence[Callable[[Trouble], None]]]) -> None:
    """One fault after the other, each told."""
    count = 0
    for burst in bursts:
        began_s = time.monotonic()
        names = ", ".join(each.__name__ for each in burst)
        count += len(burst)
        say(f"{count:4d} {names}")
        run.suffer(*burst)
        say(f"{count:4d} {names}: {time.monotonic() - began_s:.1f} s")


def say(line: str) -> None:
    """Tell whoever watches."""
    print(line, flush=True)  # noqa: T201 - a command


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # clients' threads may hang on, and are nobody's business any more
