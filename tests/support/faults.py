"""What is done to a cluster while clients are at work. Each fault ends with all nodes running.

A fault takes the `Trouble`, draws what it needs from its luck and returns when the cluster could be
whole again. Those that need something of the machine say so in `needs`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient

from support.cluster_nodes import BROKER, ETCD, NODE, ClusterNode, ClusterNodes
from support.history import Fault, History

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

WHOLE_S: Final = 60.0
FAKETIME: Final = tuple(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


class Trouble:
    """A cluster, who leads in it, and luck."""

    def __init__(
        self, cluster: ClusterNodes, topic: str, luck: random.Random, history: History
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.luck = luck
        self._history = history
        settings: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "socket.timeout.ms": 3000,
            "error_cb": lambda error: None,
        }
        self._admin = AdminClient(settings)

    @property
    def nodes(self) -> list[ClusterNode]:
        return list(self.cluster.nodes.values())

    def say(self, what: str) -> None:
        """Note in the history what is done now."""
        self._history.add(Fault(self._history.now(), what))

    def leader(self) -> ClusterNode:
        """The node that leads one of the topic's partitions."""
        leaders = [each[0] for each in self._partitions().values() if each[0] in self.cluster.nodes]
        return self.cluster.nodes[self.luck.choice(leaders)] if leaders else self.any()

    def any(self) -> ClusterNode:
        return self.luck.choice(self.nodes)

    def pair(self) -> tuple[ClusterNode, ClusterNode]:
        one, other = self.luck.sample(self.nodes, 2)
        return one, other

    def _partitions(self) -> dict[int, tuple[int, int]]:
        """By partition: its leader, and how many are in sync."""
        found = self._admin.list_topics(self.topic, timeout=5).topics[self.topic].partitions
        return {number: (each.leader, len(each.isrs)) for number, each in found.items()}

    def wait_until_whole(self, within_s: float = WHOLE_S) -> None:
        """Every partition is led, and every node is in sync."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                found = self._partitions()
            except Exception as error:  # noqa: BLE001 - no node answers yet
                told = str(error)
            else:
                behind = {
                    number: each
                    for number, each in found.items()
                    if each[0] < 1 or each[1] < len(self.nodes)
                }
                if found and not behind:
                    return
                told = f"(leader, in sync) by partition: {behind}"
            assert time.monotonic() < deadline, f"not whole after {within_s:.0f} s: {told}"
            time.sleep(0.1)

    def rest(self, low_s: float, high_s: float) -> None:
        time.sleep(self.luck.uniform(low_s, high_s))


class Kind(NamedTuple):
    """One kind of fault, and how often it is drawn."""

    run: Callable[[Trouble], None]
    weight: int = 1
    needs: Callable[[], bool] = lambda: True


# --- Kills ---------------------------------------------------------------------------------------


def kill_leading_broker(trouble: Trouble) -> None:
    node = trouble.leader()
    trouble.say(f"kill broker {node.number}")
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


def kill_two_nodes(trouble: Trouble) -> None:
    _kill(trouble, list(trouble.pair()))


def kill_all_nodes(trouble: Trouble) -> None:
    _kill(trouble, trouble.nodes)


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


def pause(trouble: Trouble) -> None:
    what = trouble.luck.choice([BROKER, BROKER, ETCD, NODE])
    long_s = 0.3 * 100 ** trouble.luck.random()
    node = trouble.luck.choice([trouble.leader(), trouble.any()])
    _pause(trouble, node, what, long_s)


def _pause(trouble: Trouble, node: ClusterNode, what: str, long_s: float) -> None:
    trouble.say(f"pause {what} {node.number} for {long_s:.1f} s")
    with node.paused(what):
        time.sleep(long_s)


def cut_off_leader(trouble: Trouble) -> None:
    """Nothing gets from a leader to the others, or back."""
    node = trouble.leader()
    trouble.say(f"cut off {node.number}")
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


# --- Disks and clocks ----------------------------------------------------------------------------


def fail_syncs(trouble: Trouble) -> None:
    """The disk of one broker fails to sync for a while."""
    _inject(trouble, "error=EIO:when=1+3")


def slow_syncs(trouble: Trouble) -> None:
    _inject(trouble, f"delay_enter={trouble.luck.choice([50, 300, 1500])}000")


def _inject(trouble: Trouble, what: str) -> None:
    node = trouble.luck.choice([trouble.leader(), trouble.any()])
    pids = node.pids(BROKER)
    trouble.say(f"syncs of broker {node.number}: {what}")
    command = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=fsync,fdatasync"]
    command += ["-e", f"inject=fsync,fdatasync:{what}", *(f"-p{pid}" for pid in pids)]
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        trouble.rest(1, 4)
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()


def tear_files(trouble: Trouble) -> None:
    """A node is killed, and the ends of some of its files are not what was written."""
    node = trouble.any()
    trouble.say(f"tear files of {node.number}")
    node.kill()
    torn = [*node.data_dir.glob(f"topics/{trouble.topic}/*/*/*.log")]
    torn += node.data_dir.glob(f"topics/{trouble.topic}/*/*/log.checkpoint")
    torn += [each for each in (node.data_dir / "high-watermarks",) if each.exists()]
    for path in trouble.luck.sample(torn, min(3, len(torn))):
        _tear(trouble, path)
    trouble.cluster.restart(node)


def _tear(trouble: Trouble, path: Path) -> None:
    size = path.stat().st_size
    if not size:
        return
    count = trouble.luck.randint(1, min(size, 200))
    how = trouble.luck.choice(["cut", "zero", "flip"])
    trouble.say(f"{how} the last {count} bytes of {path}")
    with path.open("r+b") as file:
        if how == "cut":
            file.truncate(size - count)
            return
        file.seek(size - count)
        data = bytearray(file.read(count)) if how == "flip" else bytearray(count)
        if how == "flip":
            data[trouble.luck.randrange(count)] ^= 1 << trouble.luck.randrange(8)
        file.seek(size - count)
        file.write(data)


def lose_folder(trouble: Trouble) -> None:
    """A node comes back with nothing but its etcd."""
    node = trouble.any()
    trouble.say(f"lose the folder of {node.number}")
    node.kill()
    for each in node.data_dir.iterdir():
        if each.name != "etcd":
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    trouble.cluster.restart(node)


def step_clock(trouble: Trouble) -> None:
    """The wall clock of one node jumps, and comes back."""
    node = trouble.any()
    step_s = trouble.luck.choice([-600, -60, 60, 600])
    trouble.say(f"clock of {node.number} by {step_s:+d} s")
    file = clock_file(trouble.cluster.folder, node.number)
    with ExitStack() as back:
        back.callback(file.write_text, "+0")
        file.write_text(f"{step_s:+d}")
        trouble.rest(2, 8)


def clock_file(folder: Path, number: int) -> Path:
    """What says how far a node's wall clock is off."""
    return folder / f"clock-{number}"


def clock_environment(folder: Path, number: int) -> dict[str, str]:
    """Lets the clock of a node be stepped, where libfaketime is installed."""
    if not FAKETIME:
        return {}
    clock_file(folder, number).write_text("+0")
    return {
        "LD_PRELOAD": str(FAKETIME[0]),
        "FAKETIME_TIMESTAMP_FILE": str(clock_file(folder, number)),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


ORDINARY: Final = (
    kill_leading_broker,
    kill_leading_node,
    kill_etcd,
    pause_leader,
    cut_off_leader,
    kill_all_nodes,
)
"""One of each, in the ordinary suite."""

CHAOS: Final = (
    Kind(kill_leading_broker, 4),
    Kind(kill_any_broker, 2),
    Kind(kill_etcd, 3),
    Kind(kill_leading_node, 4),
    Kind(kill_two_nodes, 2),
    Kind(kill_all_nodes, 2),
    Kind(rolling_restart),
    Kind(pause, 5),
    Kind(cut_off_leader, 3),
    Kind(cut_pair, 3),
    Kind(cut_one_way, 3),
    Kind(slow_links, 2),
    Kind(reset_links, 2),
    Kind(fail_syncs, 2, lambda: shutil.which("strace") is not None),
    Kind(slow_syncs, 2, lambda: shutil.which("strace") is not None),
    Kind(tear_files, 2),
    Kind(lose_folder),
    Kind(step_clock, 1, lambda: bool(FAKETIME)),
)
"""What is drawn from at random."""


def draw(luck: random.Random) -> Callable[[Trouble], None]:
    """The next fault."""
    possible = [each for each in CHAOS if each.needs()]
    (kind,) = luck.choices(possible, [each.weight for each in possible])
    return kind.run
