"""A whole cluster in virtual time: machines, store, network, clients, and the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING
from uuid import UUID

from goqueue.cluster.elections import with_min_isr
from goqueue.cluster.metadata import ABSENT, Condition, Put
from goqueue.cluster.placement import first_record
from goqueue.cluster.records import PartitionKey, PartitionRecord, decode, encode
from goqueue.cluster.view import ClusterView
from simulation.model_log import ModelLog
from simulation.node import Machine
from simulation.oracle import Oracle, ViolationError
from simulation.world import ModelStore, Network, World

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC = UUID(int=1)
REQUEST_TIMEOUT_S = 1.0
HEALED_S = 30.0
"""So long after the last fault everything must be led and whole."""


@dataclass
class Mistakes:
    """Mistakes that a shell could make; a mutant of a core patches that instead."""

    keep_holes: bool = False
    duplicates_at_once: bool = False
    cut_by_hw: bool = False
    cut_own_damage: bool = False
    """Cut at the own damage, whoever else has the record."""
    go_on_with_holes: bool = False
    """Lead on, alone, with what a failed disk has left."""
    forget_losses: bool = False
    """Note a loss once the start is over, and not before."""


@dataclass
class Shape:
    """What a run consists of."""

    nodes: int = 3
    partitions: int = 1
    replicas: int = 3
    min_isr: int = 2
    is_always: bool = False


class Cluster:
    """Everything of one run."""

    def __init__(
        self,
        world: World,
        shape: Shape,
        mistakes: Mistakes | None = None,
        log_factory: Callable[[int, PartitionKey], ModelLog] | None = None,
    ) -> None:
        self.world = world
        self.shape = shape
        self.mistakes = mistakes or Mistakes()
        self.is_always = shape.is_always
        self.lag_s = 2.0
        self._sessions = count(1)
        self._log_factory = log_factory
        self.network = Network(world)
        self.store = ModelStore(world, self.network)
        self.machines = {each: Machine(self, each) for each in range(1, shape.nodes + 1)}
        self.oracle = Oracle(world, lambda node, key: self.machines[node].log(key))
        self.oracle.is_always = shape.is_always
        self.store.on_commit.append(self.oracle.stored)
        self.keys = [PartitionKey(TOPIC, each) for each in range(shape.partitions)]
        self.producers: list[Producer] = []
        self.on_entry: Callable[[int], None] = lambda _: None
        """Called when a leader proposes that a node enters the in-sync set."""
        self.on_lead: Callable[[int], None] = lambda _: None
        """Called when a node begins to lead."""
        self.on_answer: Callable[[int], None] = lambda _: None
        """Called when a node has said how far its log reaches."""

    def new_log(self, node_id: int, key: PartitionKey) -> ModelLog:
        """An empty log for a replica."""
        return ModelLog() if self._log_factory is None else self._log_factory(node_id, key)

    def next_session(self) -> int:
        """The id of another session."""
        return next(self._sessions)

    def start(self) -> None:
        """Start every node, and make the topic once they are active."""
        for machine in self.machines.values():
            machine.start()
        self.world.run(self.world.now_s + 1.0)
        ids = list(self.machines)
        for number, key in enumerate(self.keys):
            first = number % len(ids)
            replicas = (ids[first:] + ids[:first])[: self.shape.replicas]
            view = ClusterView()
            view.reset(self.store.snapshot())
            record = first_record(replicas, view, self.shape.min_isr)
            assert record is not None
            put = Put(str(key), encode(record))
            self.store.commit(0, "create", [Condition(str(key), ABSENT)], [put])

    def record(self, key: PartitionKey) -> PartitionRecord:
        """What the store has."""
        return decode(self.store.entries[str(key)].value, PartitionRecord, str(key))

    def configure(self, key: PartitionKey, min_isr: int) -> None:
        """Change `min.insync.replicas`, as an operator does."""
        entry = self.store.entries[str(key)]
        record = with_min_isr(self.record(key), min_isr)
        self.world.say(f"min.insync.replicas is {min_isr} now")
        put = Put(str(key), encode(record))
        self.store.commit(0, "configure", [Condition(str(key), entry.revision)], [put])

    def leader(self, key: PartitionKey) -> int | None:
        """Who leads, by the store."""
        return self.record(key).leader

    # --- Healing ---------------------------------------------------------------------------------

    def heal(self) -> None:
        """Everything works again."""
        self.world.say("everything is healed")
        self.network.heal()
        self.store.is_down = False
        self.store.lost_answers = 0.0
        self.store.watch_lag_s.clear()
        for machine in self.machines.values():
            if machine.process is not None:
                machine.process.resume()
        self._start_all()

    def _start_all(self) -> None:
        """Start every node, also those that are about to stop."""
        for machine in self.machines.values():
            machine.start()
        self.world.at(1.0, self._start_all)

    def is_whole(self) -> bool:
        """Whether every partition is led, every replica in sync and every log the same."""
        return not self.missing()

    def missing(self) -> str:
        """What keeps the cluster from being whole."""
        for key in self.keys:
            record = self.record(key)
            if record.leader is None or set(record.isr) != set(record.replicas):
                return f"{record}"
            process = self.machines[record.leader].process
            leader = process.led.get(key) if process is not None else None
            if leader is None:
                return f"node {record.leader} does not lead"
            ends = {self.machines[each].log(key).end for each in record.replicas}
            if len(ends) > 1 or leader.progress.hw not in ends:
                return f"logs end at {ends}, committed is {leader.progress.hw}"
        waiting = [each for each in self.producers if not each.is_idle]
        return f"{len(waiting)} producers wait" if waiting else ""

    def check_heals(self) -> None:
        """Everything works from now on: within a while every partition is led and whole."""
        self.heal()
        for producer in self.producers:
            producer.is_stopping = True
        self.world.run(self.world.now_s + HEALED_S, self.is_whole)
        missing = self.missing()
        if missing:
            raise ViolationError(f"{HEALED_S} s after the last fault: {missing}")
        self.oracle.finish()


class Producer:
    """Idempotent, one record under way; asks another node when one does not answer."""

    def __init__(
        self, cluster: Cluster, key: PartitionKey, number: int, acks: int, pace_s: float
    ) -> None:
        self.cluster = cluster
        self.key = key
        self.number = number
        self.acks = acks
        self.pace_s = pace_s
        self.sequence = 0
        self.is_idle = True
        self.is_stopping = False
        self.acknowledged = 0
        self._attempt = 0
        cluster.producers.append(self)
        cluster.world.at(pace_s, self.send)

    def send(self) -> None:
        """Send the next record."""
        if self.is_stopping:
            return
        self.is_idle = False
        self._try()

    def _try(self) -> None:
        self._attempt += 1
        world, attempt = self.cluster.world, self._attempt
        target = self._target()
        machine = self.cluster.machines[target]
        process = machine.process
        world.at(REQUEST_TIMEOUT_S, self._told, attempt, "timed out", None)
        if process is None:
            return

        def tell(problem: str, offset: int | None) -> None:
            world.at(0.0005, self._told, attempt, problem, offset)

        request = (self.key, self.number, self.sequence, self.acks, tell)
        world.at(0.0005, process.do, process.produce, *request)

    def _target(self) -> int:
        """The leader as some node sees it."""
        rng, machines = self.cluster.world.rng, self.cluster.machines
        asked = machines[rng.randint(1, len(machines))].process
        if asked is not None and self.key in asked.view.partitions:
            leader = asked.view.partitions[self.key].value.leader
            if leader is not None:
                return leader
        return rng.randint(1, len(machines))

    def _told(self, attempt: int, problem: str, _: int | None) -> None:
        if attempt != self._attempt or self.is_idle:
            return
        world = self.cluster.world
        if problem:
            self._attempt += 1
            world.at(0.05 + world.rng.random() * 0.1, self._retry, self._attempt)
            return
        self.acknowledged += 1
        self.sequence += 1
        self.is_idle = True
        world.at(self.pace_s * (0.5 + world.rng.random()), self.send)

    def _retry(self, attempt: int) -> None:
        if attempt == self._attempt:
            self._try()
