"""How soon the next leader answers for a state that the dead one led, and what that costs it.

A node is killed; both others are asked over HTTP again and again for something that only the leader
of the state knows. The clock runs from the kill to the first answer, which must be the right one.
"""

from __future__ import annotations

import os
import threading
import time
import urllib.error
import urllib.request
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from benchmarks._client import ClientProcess
from benchmarks._cluster_states import CommittedOffsets, InFlight, Waiting
from benchmarks._clusters import NODES
from benchmarks._loop_lag import LATE_MS, LoopLag
from benchmarks._turns import expect

if TYPE_CHECKING:
    from benchmarks._clusters import ClusterProcesses
    from benchmarks.harness import Run

MOVES: Final = int(os.environ.get("GOQUEUE_BENCH_MOVES", "3"))
"""20 for the record."""
FULL: Final = os.environ.get("GOQUEUE_BENCH_TAKE_OVER") == "full"
"""The sizes that are asked for; without it a tenth of them, which is a matter of minutes."""
_GIVE_UP_S: Final = 120.0
_ASKED_S: Final = 1.0
_PAUSE_S: Final = 0.01


class State(Protocol):
    """Something that the leader of one partition knows."""

    what: str
    median_s: float
    longest_s: float

    def prepare(self) -> None:
        """Have it there, also again: before each kill."""

    def leader(self) -> int:
        """The node that has it."""

    @property
    def path(self) -> str:
        """What is asked for over HTTP."""

    def is_right(self, answer: bytes) -> bool:
        """Whether that is what the dead leader knew."""


class Move(NamedTuple):
    """What one death cost."""

    took_s: float
    late_ms: float
    """How late the event loops of the others were, until a moment after the answer."""


def take_over(run: Run, cluster: ClusterProcesses) -> None:
    """Each kind of state, in turn."""
    scale = 1.0 if FULL else 0.1
    with ClientProcess("_cluster_client") as admin, ClientProcess("_delay_client") as client:
        states: tuple[State, ...] = (
            CommittedOffsets(cluster, admin, scale),
            InFlight(cluster, admin, scale),
            Waiting(cluster, admin, client, scale),
        )
        for state in states:
            _measure(run, cluster, admin, state)
    if not FULL:
        run.note("a tenth of the sizes; GOQUEUE_BENCH_TAKE_OVER=full has all of them")
    run.note(f"{MOVES} moves each, from kill -9 of the node to the first answer of the next leader")


def _measure(run: Run, cluster: ClusterProcesses, admin: ClientProcess, state: State) -> None:
    moves = []
    for _ in run.progress(MOVES, state.what):
        admin.call("prefer", address=cluster.address)
        cluster.settle()
        state.prepare()
        moves.append(_moved(cluster, state))
        cluster.settle()
    took_s = [each.took_s for each in moves]
    run.row(f"take-over, {state.what}: p50", median(took_s), "s")
    run.row(f"take-over, {state.what}: most", max(took_s), "s")
    late_ms = max(each.late_ms for each in moves)
    run.row(f"event loop late, {state.what}: at most", late_ms, "ms")
    if median(took_s) > state.median_s or max(took_s) > state.longest_s:
        asked = f"{state.median_s:g} and {state.longest_s:g} s are asked for"
        run.note(f"MISSED: {state.what}: {median(took_s):.1f} / {max(took_s):.1f} s; {asked}")
    if late_ms > LATE_MS:
        run.note(f"MISSED: {state.what}: the event loop was {late_ms:.0f} ms late")


def _moved(cluster: ClusterProcesses, state: State) -> Move:
    """Kill the leader, wait for the next one's answer, and start the node again."""
    _answered(cluster, list(range(1, NODES + 1)), state)
    node = state.leader()
    others = [each for each in range(1, NODES + 1) if each != node]
    lag = LoopLag(cluster, others)
    began = time.perf_counter()
    cluster.kill(node)
    took_s = _answered(cluster, others, state) - began
    late_ms = lag.most_ms()
    cluster.start(node)
    return Move(took_s, late_ms)


def _answered(cluster: ClusterProcesses, nodes: list[int], state: State) -> float:
    """When the first node of these answered rightly; each is asked by a thread."""
    moments: list[float] = []
    wrong: list[bytes] = []
    give_up = time.perf_counter() + _GIVE_UP_S

    def ask(node: int) -> None:
        while not moments and not wrong and time.perf_counter() < give_up:
            answer = _ask(cluster, node, state.path)
            if answer is None:
                time.sleep(_PAUSE_S)
            elif state.is_right(answer):
                moments.append(time.perf_counter())
            else:
                wrong.append(answer)

    threads = [threading.Thread(target=ask, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(moments and not wrong, f"{state.what}: {wrong or 'no answer'}")
    return min(moments)


def _ask(cluster: ClusterProcesses, node: int, path: str) -> bytes | None:
    """What a node answers; None when it cannot now."""
    url = f"http://127.0.0.1:{cluster.http_port_of(node)}{path}"
    try:
        with urllib.request.urlopen(url, timeout=_ASKED_S) as answer:
            read: bytes = answer.read()
            return read
    except OSError:  # what is answered by 503, too
        return None
