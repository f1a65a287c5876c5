"""Attacks: what other clients notice of them, and what the broker holds meanwhile.

For each attack a broker of its own, a small and steady load on every listener, and attempts from
several connections for a minute. `GOQUEUE_BENCH_ATTACK_SECONDS` makes it shorter, for trying.

The bar is the same for all: nobody else waits longer than `MAX_LATE_MS` for the event loop, memory
grows by less than `MAX_GROWTH_BYTES` and comes back, nothing crashes, and attempts are refused
clearly where a refusal is due. Rows beyond it are named in a note.
"""

from __future__ import annotations

import os
import re
import time
import urllib.request
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from benchmarks._attacks import HOST, Attack, Target
from benchmarks._attacks_client import ALL
from benchmarks._attacks_load import GIVE_UP_S
from benchmarks._brokers import grpc_port, http_port, start_goqueue
from benchmarks._client import ClientProcess
from benchmarks.harness import Run, benchmark

if TYPE_CHECKING:
    from benchmarks._brokers import BrokerProcess

SECONDS: Final = float(os.environ.get("GOQUEUE_BENCH_ATTACK_SECONDS", "60"))
CONNECTIONS: Final = 8
MAX_LATE_MS: Final = 100.0
MAX_GROWTH_BYTES: Final = 100 << 20

_QUIET_S: Final = min(10.0, SECONDS)
"""How long the load runs alone before the attack."""
_WORST_KEPT_S: Final = 30.0
"""The broker forgets how late its loop was after this (`runtime/pauses.py`)."""
_RECOVERY_S: Final = 30.0
"""How long memory may take to come back; the row is the least that is held within it."""
_MS: Final = 1000.0
_WORST: Final = re.compile(
    r"^goqueue_process_loop_lag_worst_seconds(?:\{.*\})? (\S+)$", re.MULTILINE
)
_BUCKET: Final = re.compile(
    r'^goqueue_process_loop_lag_seconds_bucket\{.*le="([^"]+)".*\} (\S+)$', re.MULTILINE
)


class LoopLag:
    """How late the broker's event loop was since this was made, from its metrics."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._counts = self._read()[1]
        self.worst_ms = 0.0

    def look(self) -> None:
        """Ask again. The broker keeps the worst for a while, so what was before may show."""
        try:
            worst_s, counts = self._read()
        except OSError:  # it does not answer
            self.worst_ms = GIVE_UP_S * _MS
            return
        new = {bound: counts[bound] - self._counts.get(bound, 0.0) for bound in counts}
        reached_s = min(bound for bound in new if new[bound] == new[max(new)])
        self.worst_ms = max(self.worst_ms, min(worst_s, reached_s) * _MS)

    def _read(self) -> tuple[float, dict[float, float]]:
        url = f"http://{HOST}:{self._port}/metrics"
        with urllib.request.urlopen(url, timeout=GIVE_UP_S) as answer:
            text = answer.read().decode()
        worst = _WORST.search(text)
        counts = {float(bound): float(count) for bound, count in _BUCKET.findall(text)}
        if worst is None or not counts:
            raise RuntimeError("the broker does not tell how late its loop is")
        return float(worst[1]), counts


def _measure(run: Run, attack: Attack) -> None:
    with (
        start_goqueue(run.scratch / "data", *attack.flags) as broker,
        ClientProcess("_attacks_load") as load,
        ClientProcess("_attacks_client") as attacker,
    ):
        target = asdict(Target(broker.port, http_port(broker), grpc_port(broker)))
        load.call("prepare", target=target)
        attacker.call("prepare", name=attack.name, target=target)
        quiet = load.call("load", target=target, seconds=_QUIET_S)
        before_bytes = broker.memory().own_bytes
        broker.forget_peak()
        before_peak_bytes = broker.memory().peak_bytes
        lag = LoopLag(target["http_port"])
        load.begin("load", target=target, seconds=SECONDS)
        attacker.begin(
            "attack", name=attack.name, target=target, seconds=SECONDS, connections=CONNECTIONS
        )
        _watch(lag)
        answers, beside = attacker.end(), load.end()
        lag.look()
        grown_bytes = broker.memory().peak_bytes - before_peak_bytes
        left_bytes = _until_released(broker, before_bytes)
        _report_load(run, quiet, beside)
        _report_broker(run, lag.worst_ms, grown_bytes, left_bytes)
        _report_answers(run, attack, answers)
        if attack.note:
            run.note(attack.note)


def _watch(lag: LoopLag) -> None:
    """Ask as often as the broker needs it, so that nothing of the attack is forgotten."""
    until_s = time.monotonic() + SECONDS
    while (left_s := until_s - time.monotonic()) > _WORST_KEPT_S / 2:
        time.sleep(min(left_s, _WORST_KEPT_S / 2))
        lag.look()


def _until_released(broker: BrokerProcess, before_bytes: int) -> int:
    """What is still held of what was taken, at the least within the time to recover."""
    until_s = time.monotonic() + _RECOVERY_S
    least_bytes = broker.memory().own_bytes - before_bytes
    while least_bytes > MAX_GROWTH_BYTES // 10 and time.monotonic() < until_s:
        time.sleep(1.0)
        least_bytes = min(least_bytes, broker.memory().own_bytes - before_bytes)
    return least_bytes


def _report_load(run: Run, quiet: dict[str, Any], beside: dict[str, Any]) -> None:
    without_ms = max(each["slowest_ms"] for each in quiet.values())
    slowest_ms = max(each["slowest_ms"] for each in beside.values())
    run.row("slowest request without the attack", without_ms, "ms")
    ratio = slowest_ms / without_ms
    run.row("slowest other request", slowest_ms, "ms", ratio, "without the attack")
    run.row("other requests", sum(each["count"] for each in beside.values()) / SECONDS, "1/s")
    kinds = ", ".join(f"{kind} {each['slowest_ms']:.0f} ms" for kind, each in beside.items())
    run.note(f"slowest by kind: {kinds}")
    for kind, each in beside.items():
        if each["slowest_ms"] >= GIVE_UP_S * _MS:
            run.note(f"MISSED: {kind} was not answered within {GIVE_UP_S:.0f} s")


def _report_broker(run: Run, late_ms: float, grown_bytes: int, left_bytes: int) -> None:
    run.row("event loop late, at its worst", late_ms, "ms")
    run.row("memory grown, at its highest", grown_bytes, "B")
    run.row("memory grown, afterwards", left_bytes, "B")
    if late_ms > MAX_LATE_MS:
        run.note(f"MISSED: the event loop was late by more than {MAX_LATE_MS:.0f} ms")
    if grown_bytes > MAX_GROWTH_BYTES:
        run.note(f"MISSED: memory grew by more than {MAX_GROWTH_BYTES >> 20} MB")
    if left_bytes > MAX_GROWTH_BYTES // 2:
        run.note(f"MISSED: {left_bytes >> 20} MB were not given back")


def _report_answers(run: Run, attack: Attack, answers: dict[str, int]) -> None:
    as_due = sum(n for answer, n in answers.items() if answer.startswith(attack.due))
    run.row("attempts", sum(answers.values()) / SECONDS, "1/s")
    run.row("attempts answered as is due", as_due / max(sum(answers.values()), 1), "of all")
    for answer, count in sorted(answers.items(), key=lambda each: -each[1])[:5]:
        run.note(f"answered {count} times: {answer}")
    if not as_due:
        run.note(f"MISSED: no answer began with {' or '.join(attack.due)}")


def _register(attack: Attack) -> None:
    def measure(run: Run) -> None:
        _measure(run, attack)

    name = attack.name.lower().replace(" ", "-")
    benchmark(name, f"Attack {attack.number}, beside a normal load: {attack.name}")(measure)


for _attack in ALL:
    _register(_attack)
