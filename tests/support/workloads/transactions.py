"""Consume, transform, produce with three clients, each in a process that dies when in doubt."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

from support.exactly_once import PARTITIONS, Names, Reader, Worker, judged, read_all
from support.workloads.base import Client, Feeder, Workload

if TYPE_CHECKING:
    from support.cluster_nodes import ClusterNodes
    from support.history import Finding

CLIENTS: Final = ("confluent", "aiokafka", "kafka-python")
BATCH: Final = 40
RATE: Final = 15.0
GROUP_KEY, TRANSACTION_KEY = 0, 1
"""Kinds of FindCoordinator."""


class Transforming(Client):
    """A worker process, and a reader of what it has committed."""

    def __init__(self, bootstrap: str, client: str, luck: random.Random) -> None:
        super().__init__(f"transform-{client}")
        self.names = Names(f"{client}-")
        self.reader = Reader(bootstrap, self.names)
        self._worker = Worker(
            client, bootstrap, self.names, batch=BATCH, partitions=range(PARTITIONS)
        )
        self._luck = luck
        self._next_kill_s = time.monotonic() + 30
        self.is_ending = False
        """Set when there is only what is left to do: the worker is not killed any more."""

    def work(self, name: str) -> None:
        """Start the worker whenever it has died, and see that it dies now and then."""
        try:
            while not self.stopping.is_set():
                self._worker.ensure()
                self.reader.look(0.3)
                if time.monotonic() > self._next_kill_s and not self.is_ending:
                    self._next_kill_s = time.monotonic() + self._luck.uniform(10, 90)
                    self._worker.kill()
        finally:
            self._worker.kill()


class Transactions(Workload):
    """One worker for each client that has transactions."""

    def __init__(self, cluster: ClusterNodes, seed: int) -> None:
        self._bootstrap = cluster.bootstrap
        luck = random.Random(seed)
        self._transforming = [Transforming(self._bootstrap, each, luck) for each in CLIENTS]
        names = [each.names for each in self._transforming]
        self.topics = {topic: PARTITIONS for each in names for topic in (each.source, each.target)}
        self._feeder = Feeder(self._bootstrap, [each.source for each in names], PARTITIONS, RATE)
        self.clients = [self._feeder, *self._transforming]

    def coordinators(self) -> list[tuple[int, str]]:
        found = [(GROUP_KEY, each.names.group) for each in self._transforming]
        names = [f"{each.names.prefix}worker-0" for each in self._transforming]
        return found + [(TRANSACTION_KEY, each) for each in names]

    def done(self) -> dict[str, int]:
        return {each.name: len(each.reader.seen) for each in self._transforming}

    def finish(self) -> list[Finding]:
        self._feeder.stopping.set()
        self._feeder.join()
        for each in self._transforming:
            each.is_ending = True
        inputs = {
            each.name: len(read_all(self._bootstrap, each.names.source))
            for each in self._transforming
        }
        self.drain(
            lambda: {
                name: (done, inputs[name])
                for name, done in self.done().items()
                if done < inputs[name]
            },
            "outputs",
        )
        time.sleep(1)  # nothing is doubled by then
        self.stop()
        findings = []
        for each in self._transforming:
            acked = self._feeder.acked[each.names.source]
            found = judged(self._bootstrap, each.names, acked, each.reader.seen)
            findings += [one._replace(told=f"{each.name}: {one.told}") for one in found]
            each.reader.close()
        return findings
