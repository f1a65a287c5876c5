"""One run of a work queue: a producer and two consumers, watched and then checked."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks._client import ClientProcess
from benchmarks._queue_board import CONSUMERS, Board
from benchmarks._queue_system import load
from benchmarks._turns import expect
from benchmarks.harness import percentiles

if TYPE_CHECKING:
    from benchmarks._pairs import Asked

WARM_UP_S: Final = 1.0
"""What is sent in the first second is not counted: connections open in it."""
PRODUCER: Final = "producer"
CONSUMING: Final = "consumers"
SERVER: Final = "server"

_READY_S: Final = 20.0
_LOOK_S: Final = 0.01
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_NS: Final = 1e9
_NS_A_MS: Final = 1e6


@dataclass(frozen=True)
class Queue:
    """Where a run takes place: a system, its server, and a queue that nobody has used yet."""

    way: str
    """Module and class, such as `_queue_redis:Streams`."""
    server: Asked
    topic: str


@dataclass(frozen=True)
class Outcome:
    """What was measured after the warm-up."""

    rate: float
    """Acknowledged messages a second."""
    cpu_us: dict[str, float]
    """Processor time a message: of the producer, of both consumers, and of the server."""
    latency_ms: dict[str, float]
    """From the moment when a message was due to be sent to when its consumer had it."""
    taken: float
    """The share of all cores that processes had which are no part of the run."""


@dataclass(frozen=True)
class _Moment:
    at_ns: int
    acked: int
    cpu_s: dict[str, float]
    machine: tuple[float, float]
    """What all processes have had together, and what they could have had."""


def measure(queue: Queue, folder: Path, seconds: float, rate: float | None = None) -> Outcome:
    """Send as fast as possible, or at a rate, for so long; insist that each came just once."""
    folder.mkdir(parents=True)
    board = Board.create(folder / "board")
    with ExitStack() as stack:
        producer, *consumers = (
            stack.enter_context(ClientProcess("_queue_worker")) for _ in range(1 + CONSUMERS)
        )
        where: dict[str, Any] = {
            "way": queue.way,
            "address": queue.server.address,
            "topic": queue.topic,
        }
        producer.call("prepare", **where)
        processes = {
            PRODUCER: [producer.call("pid")],
            CONSUMING: [consumer.call("pid") for consumer in consumers],
        }
        shared = {**where, "board": str(folder / "board")}
        for number, consumer in enumerate(consumers):
            consumer.begin("consume", consumer=number, **shared)
        _wait_until_ready(board)
        producer.begin("produce", rate=rate, **shared)
        time.sleep(WARM_UP_S)
        before = _moment(board, processes, queue.server)
        time.sleep(seconds)
        after = _moment(board, processes, queue.server)
        board.stop()
        board.total = producer.end()
        for consumer in consumers:
            consumer.end()
        left = producer.call("left", **where)
    expect(left == 0, f"{queue.way}: {left} messages are not acknowledged")
    _check_numbers(queue, folder, board.total)
    return _outcome(folder, before, after)


def _wait_until_ready(board: Board) -> None:
    give_up_at = time.monotonic() + _READY_S
    while not board.is_ready:
        expect(time.monotonic() < give_up_at, "the consumers are not ready")
        time.sleep(_LOOK_S)


def _moment(board: Board, processes: dict[str, list[int]], server: Asked) -> _Moment:
    cpu_s = {role: sum(map(_cpu_s, pids)) for role, pids in processes.items()}
    cpu_s[SERVER] = server.cpu_s()
    return _Moment(time.perf_counter_ns(), board.acked, cpu_s, _machine_cpu_s())


def _cpu_s(pid: int) -> float:
    """The processor time that a process has had, in all threads, to 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def _machine_cpu_s() -> tuple[float, float]:
    """Busy and in all; what the hypervisor gives to others is busy as well."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().split()[1:9]]
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / _TICKS_A_SECOND, sum(ticks) / _TICKS_A_SECOND


def _check_numbers(queue: Queue, folder: Path, total: int) -> None:
    """Each message that was sent has come, and none of them twice."""
    numbers = [number for name in _consumers() for number in load(folder, name, "numbers")]
    unique = set(numbers)
    expect(unique == set(range(total)), f"{queue.way}: {len(unique)} of {total} messages came")
    expect(len(numbers) == total, f"{queue.way}: {len(numbers) - total} messages came again")


def _outcome(folder: Path, before: _Moment, after: _Moment) -> Outcome:
    acked = after.acked - before.acked
    expect(acked > 0, "nothing was acknowledged")
    latencies_ms = [
        (seen - sent) / _NS_A_MS
        for name in _consumers()
        for sent, seen in zip(load(folder, name, "sent"), load(folder, name, "seen"), strict=True)
        if before.at_ns <= sent < after.at_ns
    ]
    used_s = {role: after.cpu_s[role] - before.cpu_s[role] for role in before.cpu_s}
    busy_s, offered_s = (b - a for a, b in zip(before.machine, after.machine, strict=True))
    return Outcome(
        rate=acked * _NS / (after.at_ns - before.at_ns),
        cpu_us={role: each_s / acked * 1e6 for role, each_s in used_s.items()},
        latency_ms=percentiles(latencies_ms, (50, 99)),
        taken=max(0.0, busy_s - sum(used_s.values())) / offered_s,
    )


def _consumers() -> list[str]:
    return [f"consumer-{number}" for number in range(CONSUMERS)]
