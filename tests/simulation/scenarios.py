"""Scenario files: what is done, and under it the trace that follows; both are read in review.

A file has lines of commands, a line `----`, and the expected trace. Commands:

    cluster nodes=3 min_isr=2 [always]   start nodes, make a partition of three replicas, led by 1
    run 1.5                  let so many seconds pass
    produce 3 [acks=1]       send so many records to the leader, without waiting
    flush | flush 1          put all logs on the disks, or those of a node
    kill 1 | power 1         end a process; the power cut also loses all that is not on the disk
    start 1 | pause 1 2.0    start a process; let it stand still for so long
    cut 1 2 | cut 1 store    cut a link, both ways; `heal` restores all links
    damage 1 3               a record is damaged on a disk, which the next start finds
    fail 1 | fail 1 dropped  the disk refuses a write; it has dropped what was not on it, or not
    lapse 1                  the session of a node ends, although the node is alive
    lose-answer              the next transaction happens, and its answer is lost
    lag 1 0.5                the watch of a node is late by so much
    configure 1              change min.insync.replicas
    show                     the record, and every log with its end and high watermark
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.cluster import Cluster, Shape
from simulation.world import STORE, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goqueue.cluster.records import PartitionKey

SEED = 1


class Scenario:
    """Runs the commands of one file."""

    def __init__(self) -> None:
        self.world = World(SEED)
        self.world.trace = []
        self.cluster: Cluster | None = None
        self._sequence = 0
        self._commands: dict[str, Callable[..., None]] = {
            "cluster": self._cluster,
            "run": self._run,
            "produce": self._produce,
            "flush": self._flush,
            "kill": self._kill,
            "power": self._power,
            "start": self._start,
            "pause": self._pause,
            "cut": self._cut,
            "heal": self._heal,
            "damage": self._damage,
            "fail": self._fail,
            "lapse": self._lapse,
            "lose-answer": self._lose_answer,
            "lag": self._lag,
            "configure": self._configure,
            "show": self._show,
        }

    @property
    def _world_of(self) -> Cluster:
        assert self.cluster is not None, "a scenario begins with `cluster`"
        return self.cluster

    @property
    def _key(self) -> PartitionKey:
        return self._world_of.keys[0]

    def do(self, line: str) -> None:
        """One command."""
        name, *arguments = line.split()
        if name != "show":
            self.world.say(f"> {line}")
        self._commands[name](*arguments)

    def _cluster(self, *arguments: str) -> None:
        named = dict(each.split("=") for each in arguments if "=" in each)
        shape = Shape(
            nodes=int(named.get("nodes", 3)),
            min_isr=int(named.get("min_isr", 2)),
            is_always="always" in arguments,
        )
        self.cluster = Cluster(self.world, shape)
        self.cluster.start()
        self.world.run(self.world.now_s + 0.2)

    def _run(self, seconds: str) -> None:
        self.world.run(self.world.now_s + float(seconds))

    def _produce(self, count: str, acks: str = "acks=-1") -> None:
        leader = self._world_of.leader(self._key)
        process = None if leader is None else self._world_of.machines[leader].process
        for _ in range(int(count)):
            number, self._sequence = self._sequence, self._sequence + 1
            if process is None:
                self.world.say(f"record {number}: nobody leads")
            else:
                wanted = int(acks.removeprefix("acks="))
                # A producer of its own each, so that none waits for another.
                process.produce(self._key, number, 0, wanted, self._teller(number))

    def _teller(self, number: int) -> Callable[[str, int | None], None]:
        def tell(problem: str, offset: int | None) -> None:
            self.world.say(f"record {number}: {problem or f'acknowledged at {offset}'}")

        return tell

    def _nodes(self, node: str | None) -> list[int]:
        return list(self._world_of.machines) if node is None else [int(node)]

    def _flush(self, node: str | None = None) -> None:
        for each in self._nodes(node):
            self._world_of.machines[each].log(self._key).flush()

    def _kill(self, node: str) -> None:
        self._world_of.machines[int(node)].kill()

    def _power(self, node: str) -> None:
        machine = self._world_of.machines[int(node)]
        machine.log(self._key).truncate(machine.log(self._key).flushed)
        machine.power_cut()

    def _start(self, node: str) -> None:
        self._world_of.machines[int(node)].start()

    def _pause(self, node: str, seconds: str) -> None:
        process = self._world_of.machines[int(node)].process
        assert process is not None
        process.pause(float(seconds))

    def _cut(self, one: str, other: str) -> None:
        first = int(one)
        second = STORE if other == "store" else int(other)
        self._world_of.network.cut.update({(first, second), (second, first)})

    def _heal(self) -> None:
        self._world_of.network.heal()

    def _damage(self, node: str, offset: str) -> None:
        machine = self._world_of.machines[int(node)]
        machine.lost_power = True
        self._world_of.oracle.lost(machine.node_id, self._key)
        machine.log(self._key).damage(int(offset))

    def _fail(self, node: str, dropped: str = "") -> None:
        process = self._world_of.machines[int(node)].process
        assert process is not None
        process.disk_error(self._key)
        failure = process.failed[self._key]
        process.failed[self._key] = failure._replace(has_dropped=bool(dropped))

    def _lapse(self, node: str) -> None:
        process = self._world_of.machines[int(node)].process
        assert process is not None
        assert process.session is not None
        self._world_of.store.end_session(process.session)

    def _lose_answer(self) -> None:
        self._world_of.store.loses_next_answer = True

    def _lag(self, node: str, seconds: str) -> None:
        self._world_of.store.watch_lag_s[int(node)] = float(seconds)

    def _configure(self, min_isr: str) -> None:
        self._world_of.configure(self._key, int(min_isr))

    def _show(self) -> None:
        for node_id, machine in self._world_of.machines.items():
            log = machine.log(self._key)
            epochs = " ".join(f"{each.epoch}@{each.start_offset}" for each in log.epochs.starts)
            process = machine.process
            role = "down"
            if process is not None:
                led = process.led.get(self._key)
                hw = process.watermark(self._key)
                role = f"leads, hw {hw}" if led is not None else f"follows, hw {hw}"
            self.world.say(f"  node {node_id} {role}, end {log.end}, epochs {epochs or '-'}")


def parse(path: Path) -> tuple[list[str], list[str]]:
    """The commands of a file, and the trace that it expects."""
    script, _, expected = path.read_text(encoding="utf-8").partition("----\n")
    commands = [line for line in script.splitlines() if line and not line.startswith("#")]
    return commands, expected.splitlines()


def play(path: Path) -> list[str]:
    """Run a file; returns its trace."""
    scenario = Scenario()
    for command in parse(path)[0]:
        scenario.do(command)
    assert scenario.world.trace is not None
    return scenario.world.trace
