"""What goes wrong, at random; and a whole run of a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.cluster import Cluster, Mistakes, Producer, Shape
from simulation.world import STORE, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cluster.records import PartitionKey
    from simulation.model_log import ModelLog

TROUBLE_S = 7.0


class Faults:
    """Strikes at random moments, with what the seed prefers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.rng = cluster.world.rng
        kinds: list[Callable[[], None]] = [
            self.kill,
            self.kill_leader,
            self.power_cut,
            self.power_cut_leader,
            self.power_cut_all,
            self.pause,
            self.partition,
            self.one_way,
            self.slow,
            self.lose_store,
            self.store_down,
            self.lag_watch,
            self.lapse,
            self.disk_error,
            self.configure,
            self.stop,
            self.trim,
            self.step_clock,
            self.start_all,
            self.heal_links,
            self.shrink_then_cut,
            self.restart_all,
            self.stale_fetch,
            self.cut_at_entry,
            self.lose_at_entry,
            self.kill_at_lead,
            self.cut_at_answer,
            self.kill_at_start,
            self.fail_alone,
            self.fail_at_entry,
        ]
        # A few kinds a run, so that they meet each other often.
        self.kinds = self.rng.sample(kinds, self.rng.choice((2, 3, 4, 6, 9)))
        self.pace_s = self.rng.choice((0.15, 0.4, 0.9))
        self.cluster.store.lost_answers = self.rng.choice((0.0, 0.05, 0.3))
        self.is_over = False

    def begin(self) -> None:
        """Do the next one, and so on."""
        if self.is_over:
            return
        self.rng.choice(self.kinds)()
        self.world.at(self.pace_s * self.rng.expovariate(1.0), self.begin)

    def _node(self) -> int:
        return self.rng.choice(list(self.cluster.machines))

    def _leader(self) -> int:
        return self.cluster.leader(self.rng.choice(self.cluster.keys)) or self._node()

    def _back(self, node_id: int) -> None:
        """Start a node again, soon or late."""
        delay_s = self.rng.choice((0.05, 0.3, 1.0, 3.0))
        self.world.at(delay_s, self.cluster.machines[node_id].start)

    def kill(self, node_id: int | None = None) -> None:
        if self.is_over:
            return
        node_id = node_id or self._node()
        self.world.say(f"fault: kill {node_id}")
        self.cluster.machines[node_id].kill()
        self._back(node_id)

    def kill_leader(self) -> None:
        self.kill(self._leader())

    def power_cut(self, node_id: int | None = None) -> None:
        if self.is_over:
            return
        node_id = node_id or self._node()
        self.world.say(f"fault: power cut {node_id}")
        self.cluster.machines[node_id].power_cut()
        self._back(node_id)

    def power_cut_leader(self) -> None:
        self.power_cut(self._leader())

    def power_cut_all(self) -> None:
        if self.rng.random() < 0.4:
            for node_id in self.cluster.machines:
                self.power_cut(node_id)

    def shrink_then_cut(self) -> None:
        """The in-sync set loses a member after the other, then the last one the power."""
        leader = self._leader()
        for node_id in self.cluster.machines:
            if node_id != leader:
                self.world.at(self.rng.random(), self.kill, node_id)
        self.world.at(1.0 + self.rng.random() * 2, self.power_cut, leader)

    def restart_all(self) -> None:
        """A node is away for a while; then every other is restarted, and all are back at once."""
        away = self._node()
        self.cluster.machines[away].kill()
        self.world.at(1.0 + self.rng.random(), self._restart_all, away)

    def _restart_all(self, away: int) -> None:
        if self.is_over:
            return
        self.world.say(f"fault: restart all, {away} being slow")
        for node_id, machine in self.cluster.machines.items():
            machine.kill()
            self.cluster.network.slow[node_id, away] = 0.1
            delay_s = 0.005 if node_id == away else self.rng.choice((0.01, 0.8))
            self.world.at(delay_s, machine.start)
        self.world.at(2.0, self.cluster.network.slow.clear)

    def stale_fetch(self) -> None:
        """A follower's fetches are under way for long, and it loses power meanwhile."""
        leader, node_id = self._leader(), self._node()
        if node_id != leader:
            self.cluster.network.slow[node_id, leader] = self.rng.choice((0.15, 0.4))
            self.world.at(self.rng.random(), self._quick_power_cut, node_id)

    def _quick_power_cut(self, node_id: int) -> None:
        if not self.is_over:
            self.world.say(f"fault: quick power cut {node_id}")
            self.cluster.machines[node_id].power_cut()
            self.world.at(0.005, self.cluster.machines[node_id].start)
            self.world.at(1.0, self.cluster.network.slow.clear)

    def cut_at_entry(self) -> None:
        """From now on whoever is about to enter an in-sync set may lose power, the store slow."""
        self.cluster.on_entry = self._entering

    def lose_at_entry(self) -> None:
        """From now on the answer may be lost that a node is in sync, and the node cut off."""
        self.cluster.on_entry = self._entering_unknown

    def _entering_unknown(self, node_id: int) -> None:
        if not self.is_over and self.rng.random() < 0.6:
            self.cluster.store.loses_next_answer = True
            for each in self.cluster.machines:
                self.cluster.store.watch_lag_s[each] = 0.7
            self.world.at(2.0, self.cluster.store.watch_lag_s.clear)
            links = self._links(node_id)
            self.cluster.network.cut.update(links)
            self.world.at(2.0, self._restore, links)

    def cut_at_answer(self) -> None:
        """All lose power; whoever says what is left may lose its disk, before that is used."""
        self.cluster.on_answer = self._answered
        for node_id in self.cluster.machines:
            self.power_cut(node_id)

    def _answered(self, node_id: int) -> None:
        first = next(iter(self.cluster.oracle.records.values())).replicas[0]
        is_drawn = self.rng.random() < (0.8 if node_id == first else 0.2)  # it is chosen of equals
        if not self.is_over and is_drawn and self._is_spare(node_id):
            for other in self.cluster.machines:  # whose answers come later
                if other != node_id:
                    self.cluster.network.slow |= dict.fromkeys(
                        ((other, each) for each in self.cluster.machines), 0.2
                    )
            self.world.at(0.0005, self._lose_disk, node_id)

    def _is_spare(self, node_id: int) -> bool:
        """Whether another that is counted on has as much of every partition."""
        oracle = self.cluster.oracle
        for key, record in oracle.records.items():
            counted = {*record.isr, *record.elr, *record.struck} - {node_id}
            others = [oracle.common(each, key) for each in counted]
            if oracle.common(node_id, key) > max(others, default=0):
                return False
        return True

    def _lose_disk(self, node_id: int) -> None:
        if not self.is_over and self._is_spare(node_id):
            self.world.say(f"fault: node {node_id} loses its disk")
            self.cluster.machines[node_id].lose_disk()
            self.world.at(0.005, self.cluster.machines[node_id].start)
        self.world.at(1.0, self.cluster.network.slow.clear)

    def kill_at_start(self) -> None:
        """A node loses power, and is killed while it starts."""
        node_id = self._leader() if self.rng.random() < 0.5 else self._node()
        self.cluster.machines[node_id].power_cut()
        self.cluster.machines[node_id].start()
        self.world.at(self.rng.random() * 0.01, self._kill_quickly, node_id)

    def fail_alone(self) -> None:
        """The disk of a leader fails while the others are away."""
        leader = self._leader()
        for node_id in self.cluster.machines:
            if node_id != leader:
                self.kill(node_id)
        self.world.at(self.rng.random() * 0.5, self._fail_disk, leader)

    def _fail_disk(self, node_id: int) -> None:
        process = self.cluster.machines[node_id].process
        if not self.is_over and process is not None and not process.is_paused:
            process.disk_error(self.rng.choice(self.cluster.keys))

    def fail_at_entry(self) -> None:
        """From now on the disk may fail of whoever is about to enter an in-sync set."""
        self.cluster.on_entry = self._entering_failing
        self.kill()

    def _entering_failing(self, node_id: int) -> None:
        if not self.is_over and self.rng.random() < 0.6:
            self.cluster.store.next_delay_s = 0.1 + 0.2 * self.rng.random()
            self._fail_disk(node_id)
            for other in self.cluster.machines:  # what it lacks then comes later
                self.cluster.network.slow[other, node_id] = 0.2
            self.world.at(1.0, self.cluster.network.slow.clear)

    def kill_at_lead(self) -> None:
        """A follower lags, its leader dies; from now on a new leader may be killed at once."""
        self.cluster.on_lead = self._leading
        leader, late = (
            self._leader(),
            self.rng.choice(self.cluster.record(self.cluster.keys[0]).isr),
        )
        if late != leader:
            self.cluster.network.slow[leader, late] = 0.3
            self.world.at(0.4, self.kill, leader)
            self.world.at(2.0, self.cluster.network.slow.clear)

    def _leading(self, node_id: int) -> None:
        if not self.is_over and self.rng.random() < 0.6:
            self.world.at(self.rng.random() * 0.005, self._kill_quickly, node_id)

    def _kill_quickly(self, node_id: int) -> None:
        if not self.is_over:
            self.world.say(f"fault: quick kill {node_id}")
            self.cluster.machines[node_id].kill()
            self.world.at(self.rng.choice((0.005, 1.0)), self.cluster.machines[node_id].start)

    def _entering(self, node_id: int) -> None:
        if not self.is_over and self.rng.random() < 0.6:
            self.cluster.store.next_delay_s = 0.3 + self.rng.random()
            self._quick_power_cut(node_id)

    def pause(self) -> None:
        node_id = self._leader() if self.rng.random() < 0.5 else self._node()
        process = self.cluster.machines[node_id].process
        if process is not None:
            length_s = self.rng.choice((0.3, 1.0, 2.0, 5.0))
            self.world.say(f"fault: pause {node_id} for {length_s} s")
            process.pause(length_s)

    def _links(self, node_id: int) -> list[tuple[int, int]]:
        others = [each for each in self.cluster.machines if each != node_id]
        links = [(node_id, each) for each in others] + [(each, node_id) for each in others]
        if self.rng.random() < 0.5:
            links += [(node_id, STORE), (STORE, node_id)]
        return links

    def partition(self) -> None:
        node_id = self._leader() if self.rng.random() < 0.5 else self._node()
        links = self._links(node_id)
        self.world.say(f"fault: cut off {node_id}")
        self.cluster.network.cut.update(links)
        self.world.at(self.rng.choice((0.5, 2.0, 4.0)), self._restore, links)

    def one_way(self) -> None:
        link = (self._node(), self.rng.choice((STORE, self._node())))
        if self.rng.random() < 0.5:
            link = (link[1], link[0])
        self.world.say(f"fault: cut {link[0]} to {link[1]}")
        self.cluster.network.cut.add(link)
        self.world.at(self.rng.choice((0.5, 2.0, 4.0)), self._restore, [link])

    def slow(self) -> None:
        link = (self._node(), self._node())
        self.cluster.network.slow[link] = self.rng.choice((0.02, 0.2, 1.0))

    def _restore(self, links: list[tuple[int, int]]) -> None:
        self.cluster.network.cut.difference_update(links)

    def lose_store(self) -> None:
        node_id = self._node()
        links = [(node_id, STORE), (STORE, node_id)]
        self.cluster.network.cut.update(links)
        self.world.at(self.rng.choice((0.5, 3.0)), self._restore, links)

    def store_down(self) -> None:
        self.cluster.store.is_down = True
        self.world.at(self.rng.choice((0.3, 2.0)), self._store_up)

    def _store_up(self) -> None:
        self.cluster.store.is_down = False

    def lag_watch(self) -> None:
        self.cluster.store.watch_lag_s[self._node()] = self.rng.choice((0.0, 0.2, 1.0))

    def lapse(self) -> None:
        process = self.cluster.machines[self._node()].process
        if process is not None and process.session is not None:
            self.cluster.store.end_session(process.session)

    def disk_error(self) -> None:
        process = self.cluster.machines[self._node()].process
        if process is not None and not process.is_paused:
            process.disk_error(self.rng.choice(self.cluster.keys))

    def configure(self) -> None:
        """Change `min.insync.replicas`; or lower it when one replica is left in sync."""
        if self.rng.random() < 0.5:
            self._configure(self.rng.choice((1, 2, 2, 3)))
            return
        self._configure(2)
        leader = self._leader()
        for node_id in self.cluster.machines:
            if node_id != leader:
                self.kill(node_id)
        self.world.at(0.7, self._configure, 1)

    def _configure(self, min_isr: int) -> None:
        if not self.is_over:
            self.cluster.configure(self.rng.choice(self.cluster.keys), min_isr)

    def stop(self) -> None:
        node_id = self._node()
        process = self.cluster.machines[node_id].process
        if process is not None:
            process.do(process.stop)
            self.world.at(1.0, self._back, node_id)

    def trim(self) -> None:
        """Retention removes the beginning of a log, at most to what is committed."""
        key = self.rng.choice(self.cluster.keys)
        node_id = self.cluster.leader(key)
        process = None if node_id is None else self.cluster.machines[node_id].process
        if process is not None and key in process.led and key not in process.failed:
            process.machine.log(key).delete_before(process.led[key].progress.hw)

    def step_clock(self) -> None:
        """The wall clock is set; nothing may follow from it."""

    def start_all(self) -> None:
        for machine in self.cluster.machines.values():
            machine.start()

    def heal_links(self) -> None:
        self.cluster.network.heal()


def shape_of(world: World) -> Shape:
    """What a seed's run consists of."""
    rng = world.rng
    nodes = rng.choice((3, 3, 3, 4))
    return Shape(
        nodes=nodes,
        partitions=rng.choice((1, 1, 2)),
        replicas=rng.choice((3, 3, 3, 2)),
        min_isr=rng.choice((2, 2, 2, 1)),
        is_always=rng.random() < 0.3,
    )


def run(
    seed: int,
    mistakes: Mistakes | None = None,
    log_factory: Callable[[int, PartitionKey], ModelLog] | None = None,
    *,
    traced: bool = False,
) -> Cluster:
    """Run a seed to its end.

    Raises:
        ViolationError: an invariant did not hold, or the cluster did not heal.
    """
    world = World(seed)
    if traced:
        world.trace = []
    cluster = Cluster(world, shape_of(world), mistakes, log_factory)
    rng = world.rng
    cluster.start()
    number = 0
    pace_s = rng.choice((0.03, 0.1, 0.4))
    for key in cluster.keys:
        for acks in (-1, -1, 1):
            Producer(cluster, key, number, acks, pace_s)
            number += 1
    world.run(world.now_s + 0.5)
    faults = Faults(cluster)
    faults.begin()
    try:
        world.run(world.now_s + TROUBLE_S)
        faults.is_over = True
        cluster.check_heals()
    except Exception as error:
        error.cluster = cluster  # type: ignore[attr-defined]
        raise
    return cluster
