"""What is done to a cluster while clients are at work. Each fault ends with all nodes running.

A fault takes the `Trouble`, draws what it needs from its luck and returns when the cluster could be
whole again. Those that need something of the machine say so in `needs`.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from support.cluster_nodes import BROKER, ETCD, NODE
from support.disk_faults import (
    cut_power,
    fail_syncs,
    fail_writes,
    fill_disk,
    has_clocks,
    lose_etcd_folder,
    lose_folder,
    slow_syncs,
    step_clock,
    tear_files,
)
from support.hooked_nodes import StoppedBeforeElections
from support.pace import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.cluster_nodes import ClusterNode
    from support.trouble import Trouble


STORE_ANSWERED: Final = "the store answered"
_MOMENT_S: Final = 20.0 * PATIENCE
"""Within which a controller elects for a node that was killed, and another takes over from it."""


class Kind(NamedTuple):
    """One kind of fault, and how often it is drawn."""

    run: Callable[[Trouble], None]
    weight: int = 1
    needs: Callable[[Trouble], bool] = lambda _: True
    takes_data: bool = False
    """Whether a replica has less afterwards: then the others have to be whole before and after."""


# --- Kills ---------------------------------------------------------------------------------------


def kill_leading_broker(trouble: Trouble) -> None:
    node = trouble.leader()
    trouble.say(f"kill broker {node.number}")
    node.send(BROKER, signal.SIGKILL)


def kill_coordinating_broker(trouble: Trouble) -> None:
    node = trouble.coordinator()
    trouble.say(f"kill broker {node.number}, which coordinates")
    node.send(BROKER, signal.SIGKILL)


def kill_any_broker(trouble: Trouble) -> None:
    node = trouble.any()
    trouble.say(f"kill broker {node.number}")
    node.send(BROKER, signal.SIGKILL)


def kill_etcd(trouble: Trouble) -> None:
    node = trouble.any()
    trouble.say(f"kill etcd {node.number}")
    node.send(ETCD, signal.SIGKILL)


def kill_leading_node(trouble: Trouble) -> None:
    _kill(trouble, [trouble.leader()])


def kill_coordinating_node(trouble: Trouble) -> None:
    _kill(trouble, [trouble.coordinator()])


def kill_two_nodes(trouble: Trouble) -> None:
    _kill(trouble, list(trouble.pair()))


def kill_all_nodes(trouble: Trouble) -> None:
    _kill(trouble, trouble.nodes)


def kill_all_but_the_cut_off(trouble: Trouble) -> None:
    """Kill those that went on while one was cut off: what that one has is read from now on."""
    _kill(trouble, [each for each in trouble.nodes if each is not trouble.cut_off])


def _kill(trouble: Trouble, nodes: list[ClusterNode]) -> None:
    trouble.say(f"kill nodes {[each.number for each in nodes]}")
    for node in nodes:
        node.kill()
    trouble.rest(0.2, 4)
    for node in trouble.luck.sample(nodes, len(nodes)):
        trouble.cluster.launch(node)
    for node in nodes:
        trouble.cluster.wait_ready(node)


def rolling_restart(trouble: Trouble) -> None:
    trouble.say("rolling restart")
    for node in trouble.nodes:
        node.stop()
        trouble.cluster.restart(node)
        trouble.wait_until_whole()


# --- Pauses and cuts -----------------------------------------------------------------------------


def pause_leader(trouble: Trouble) -> None:
    _pause(trouble, trouble.leader(), BROKER, trouble.luck.uniform(2, 5))


def pause_coordinator(trouble: Trouble) -> None:
    _pause(trouble, trouble.coordinator(), BROKER, trouble.luck.uniform(2, 5))


def pause(trouble: Trouble) -> None:
    what = trouble.luck.choice([BROKER, BROKER, ETCD, NODE])
    long_s = 0.3 * 100 ** trouble.luck.random()
    node = trouble.luck.choice([trouble.leader(), trouble.any()])
    _pause(trouble, node, what, long_s)


def pause_controller(trouble: Trouble) -> None:
    """The controller stands still while it elects for another node: before it writes, perhaps."""
    controller = trouble.controller() or trouble.any()
    victim = trouble.luck.choice([each for each in trouble.nodes if each is not controller])
    trouble.say(f"kill broker {victim.number}")
    victim.send(BROKER, signal.SIGKILL)
    trouble.rest(0, 1)
    _pause(trouble, controller, BROKER, trouble.luck.uniform(2, 5))


def stop_controller_before_its_write(trouble: Trouble) -> None:
    """The controller stands still between its read and its compare-and-set.

    That comes when another node has long decided, and must change nothing.
    """
    controller = trouble.controller() or trouble.any()
    others = [each for each in trouble.nodes if each is not controller]
    moment = StoppedBeforeElections(trouble.cluster.folder, controller)
    # Of a node that leads nothing, as one that was just cut off, nothing is elected.
    leading = [each for each in trouble.leaders() if each in others] if trouble.topics else []
    victim = trouble.luck.choice(leading or others)
    trouble.say(f"kill broker {victim.number}, stop controller {controller.number} as it elects")
    victim.send(BROKER, signal.SIGKILL)
    try:
        if not _within(lambda: moment.is_reached):
            trouble.say(f"controller {controller.number} had nothing to elect")
            moment.disarm()  # or it stops itself later, when nobody lets it go on
            return
        taken = _within(lambda: trouble.controller(others) in others)
    finally:
        controller.send(BROKER, signal.SIGCONT)
    _within(lambda: moment.result)
    trouble.say(f"another took over: {taken}; {STORE_ANSWERED} {moment.result or 'nothing'}")
    moment.disarm()
    assert not taken or moment.result != "Committed", "a controller that was replaced has elected"


def _within(look: Callable[[], object], within_s: float = _MOMENT_S) -> bool:
    """Whether something came to be so."""
    until_s = time.monotonic() + within_s
    while not (is_so := bool(look())) and time.monotonic() < until_s:
        time.sleep(0.02)
    return is_so


def _pause(trouble: Trouble, node: ClusterNode, what: str, long_s: float) -> None:
    trouble.say(f"pause {what} {node.number} for {long_s:.1f} s")
    with node.paused(what):
        time.sleep(long_s)


def stop_store(trouble: Trouble) -> None:
    """Every etcd stands still, for longer than sessions last; leaders go on meanwhile."""
    long_s = trouble.luck.uniform(2.5, 8)
    trouble.say(f"pause every etcd for {long_s:.1f} s")
    with ExitStack() as paused:
        for node in trouble.nodes:
            paused.enter_context(node.paused(ETCD))
        time.sleep(long_s)


def cut_off_leader(trouble: Trouble) -> None:
    """Nothing gets from a leader to the others, or back."""
    _cut_off(trouble, trouble.leader())


def cut_off_coordinator(trouble: Trouble) -> None:
    """Nothing gets from a coordinator to the others, or back."""
    _cut_off(trouble, trouble.coordinator())


def _cut_off(trouble: Trouble, node: ClusterNode) -> None:
    trouble.say(f"cut off {node.number}")
    trouble.cut_off = node
    with _healed(trouble):
        for other in trouble.nodes:
            if other is not node:
                trouble.cluster.network.cut(node.number, other.number)
        trouble.rest(3, 8)


def cut_pair(trouble: Trouble) -> None:
    one, other = trouble.pair()
    trouble.say(f"cut {one.number} and {other.number}")
    with _healed(trouble):
        trouble.cluster.network.cut(one.number, other.number)
        trouble.rest(2, 12)


def cut_one_way(trouble: Trouble) -> None:
    """What a node sends to another, or to all others, does not come; what they send does."""
    node = trouble.luck.choice([trouble.leader(), trouble.any()])
    others = [each for each in trouble.nodes if each is not node]
    others = trouble.luck.choice([others, others[:1], others[1:]])
    into = trouble.luck.random() < 0.5
    numbers = [each.number for each in others]
    trouble.say(f"cut {node.number} {'from' if into else 'to'} {numbers}, one way")
    with _healed(trouble):
        for other in numbers:
            link = (other, node.number) if into else (node.number, other)
            trouble.cluster.network.cut(*link, one_way=True)
        trouble.rest(2, 12)


def slow_links(trouble: Trouble) -> None:
    one, other = trouble.pair()
    delay_ms = trouble.luck.choice([20, 100, 400])
    trouble.say(f"{one.number} and {other.number} {delay_ms} ms apart")
    with _healed(trouble):
        trouble.cluster.network.slow(one.number, other.number, delay_ms)
        trouble.rest(2, 8)


def reset_links(trouble: Trouble) -> None:
    one, other = trouble.pair()
    trouble.say(f"reset connections of {one.number} and {other.number}")
    for _ in range(trouble.luck.randint(1, 5)):
        trouble.cluster.network.reset(one.number, other.number)
        trouble.rest(0.05, 0.5)


@contextmanager
def _healed(trouble: Trouble) -> Iterator[None]:
    try:
        yield
    finally:
        trouble.cluster.network.heal()


ORDINARY: Final = (
    kill_leading_broker,
    kill_leading_node,
    kill_etcd,
    pause_leader,
    cut_off_leader,
    stop_controller_before_its_write,
    kill_all_nodes,
)
"""One of each, in the ordinary suite."""

OF_COORDINATORS: Final = (
    kill_coordinating_node,
    pause_coordinator,
    cut_off_coordinator,
)
"""Done to the nodes that coordinate, in the ordinary suite."""

OF_MISTAKES: Final = (kill_all_but_the_cut_off,)
"""Done where a mistake has to come to light, after another fault."""

CHAOS: Final = (
    Kind(kill_leading_broker, 4),
    Kind(kill_coordinating_broker, 3),
    Kind(kill_any_broker, 2),
    Kind(kill_etcd, 3),
    Kind(kill_leading_node, 4),
    Kind(kill_coordinating_node, 3),
    Kind(kill_two_nodes, 2),
    Kind(kill_all_nodes, 2),
    Kind(rolling_restart),
    Kind(pause, 5),
    Kind(pause_coordinator, 2),
    Kind(pause_controller, 2),
    Kind(stop_controller_before_its_write, 2),
    Kind(cut_off_leader, 3),
    Kind(cut_off_coordinator, 2),
    Kind(cut_pair, 3),
    Kind(cut_one_way, 3),
    Kind(slow_links, 2),
    Kind(reset_links, 2),
    Kind(fail_syncs, 2, lambda _: shutil.which("strace") is not None, takes_data=True),
    Kind(fail_writes, 2, lambda _: shutil.which("strace") is not None, takes_data=True),
    Kind(slow_syncs, 2, lambda _: shutil.which("strace") is not None),
    Kind(tear_files, 2, takes_data=True),
    Kind(cut_power, 3, takes_data=True),
    Kind(fill_disk, 2, lambda trouble: os.path.ismount(trouble.nodes[0].data_dir), takes_data=True),
    Kind(lose_folder, takes_data=True),
    Kind(lose_etcd_folder, takes_data=True),
    Kind(stop_store),
    Kind(step_clock, 2, has_clocks),
)
"""What is drawn from at random."""


MOST_AT_ONCE: Final = 6
"""Faults that come one after the other without the cluster being whole in between."""


def draw(trouble: Trouble) -> list[Callable[[Trouble], None]]:
    """The next faults: one, or some that take nothing away."""
    found = [_drawn(trouble)]
    if not found[0].takes_data:
        more = (_drawn(trouble) for _ in range(trouble.luck.randrange(MOST_AT_ONCE)))
        found += [each for each in more if not each.takes_data]
    return [each.run for each in found]


def _drawn(trouble: Trouble) -> Kind:
    possible = [each for each in CHAOS if each.needs(trouble)]
    (kind,) = trouble.luck.choices(possible, [each.weight for each in possible])
    return kind
