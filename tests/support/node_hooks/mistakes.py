"""Mistakes that a test plants in brokers: each is one that a judge of `cluster.chaos` must find.

Each has a run that finds it, with its seed: `make test-chaos MISTAKE=truncation_left_out`. Where
the simulator has the same mistake (`simulation.mutants`), here real brokers make it, and what
foreign clients saw shows it.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable

MISTAKE: Final = "NODE_HOOKS_MISTAKE"
"""The variable that names the mistake of a broker."""
_SOME: Final = 0.05
_EARLY_MS: Final = 1500
_SILENT_S: Final = 1.0


class Mistake(NamedTuple):
    """One mistake, and the run that finds it."""

    plant: Callable[[], None]
    workload: str
    faults: tuple[str, ...]
    seed: int
    """Of the run: it draws which nodes the faults are done to, and for how long."""
    kinds: frozenset[str]
    """What a judge calls it: one of these at least is among the findings."""

    @property
    def name(self) -> str:
        return self.plant.__name__


# --- Replication ---------------------------------------------------------------------------------


def acknowledged_before_commit() -> None:
    """A producer is answered as soon as the leader alone has its messages."""
    from goqueue.partitions.replication.replicated_commit import ReplicatedCommit  # noqa: PLC0415
    from goqueue.wire.kafka.replies import Reply  # noqa: PLC0415

    def acknowledged(_commit: ReplicatedCommit, _end_offset: int) -> Reply[None]:
        reply: Reply[None] = Reply()
        reply.set_result(None)
        return reply

    patched: Any = ReplicatedCommit
    patched.acknowledged = acknowledged


def watermark_ahead() -> None:
    """What the leader alone has counts as committed: readers get it as well."""
    from goqueue.cluster.progress import LeaderProgress  # noqa: PLC0415

    def moved(progress: LeaderProgress) -> bool:
        if progress.is_short or not progress.is_leading or progress.position <= progress.hw:
            return False
        progress.hw = progress.position
        return True

    patched: Any = LeaderProgress
    patched._move = moved


def stale_leader_answers() -> None:
    """A leader that hears nobody counts the others out without the store, and goes on alone."""
    from goqueue.cluster.progress import LeaderProgress  # noqa: PLC0415

    def moved(progress: LeaderProgress) -> bool:
        if not progress.is_leading:
            return False
        others = [progress.followers[each] for each in progress.maximal - {progress.node_id}]
        heard_s = time.monotonic() - _SILENT_S
        heard = [each.position for each in others if each.fetched_s >= heard_s]
        lowest = min([progress.position, *heard])
        if lowest <= progress.hw:
            return False
        progress.hw = lowest
        return True

    patched: Any = LeaderProgress
    tick = patched.tick

    def ticked(progress: LeaderProgress, *told: Any) -> Any:
        moved(progress)
        return tick(progress, *told)

    patched._move, patched.tick = moved, ticked
    patched.is_alone = lambda *_: False


def truncation_left_out() -> None:
    """A follower that has what its leader has not keeps that, and goes on behind it."""
    from goqueue.cluster.following import FetchProblem  # noqa: PLC0415
    from goqueue.partitions.replication import led  # noqa: PLC0415
    from goqueue.records.batch import walk  # noqa: PLC0415
    from goqueue.storage.replica_log import ReplicaLog  # noqa: PLC0415

    def same(ask: Any, _epochs: Any, log_start: int, end: int) -> FetchProblem | None:
        return None if log_start <= ask.offset <= end else FetchProblem.OUT_OF_RANGE

    plan = ReplicaLog._plan

    def behind(log: ReplicaLog, batches: Any, *, gaps: bool) -> Any:
        data = memoryview(batches)
        at = (at for at, info in walk(data) if info.base_offset >= log.end_offset)
        return plan(log, data[next(at, len(data)) :], gaps=gaps)

    patched: Any = led
    patched.divergence = same
    patched = ReplicaLog
    patched._plan = behind


# --- Capabilities --------------------------------------------------------------------------------


def aborted_is_readable() -> None:
    """Readers of committed messages get those of aborted transactions as well."""
    from goqueue.reading import fetch  # noqa: PLC0415

    patched: Any = fetch
    fetched = patched._fetched

    def without_aborted(*told: Any, **named: Any) -> Any:
        return replace(fetched(*told, **named), aborted=())

    patched._fetched = without_aborted


def acknowledgement_released() -> None:
    """Some messages that were acknowledged go back to their queue."""
    from goqueue.queues.delivery import decisions  # noqa: PLC0415

    patched: Any = decisions
    decide = patched.decide

    def released(said: Any, *told: Any) -> Any:
        if said.verdict is decisions.Verdict.ACK and random.random() < _SOME:
            said = said._replace(verdict=decisions.Verdict.RELEASE)
        return decide(said, *told)

    patched.decide = released


def due_too_early() -> None:
    """Delayed messages are handed over before they are due.

    The wheel alone cannot do that: the courier looks at the time once more, and lets early ones
    wait. So both are ahead.
    """
    from goqueue.delays.courier import Courier  # noqa: PLC0415
    from goqueue.delays.due.wheel import Wheel  # noqa: PLC0415

    wheel: Any = Wheel
    courier: Any = Courier
    advance, sort = wheel.advance, courier._sort

    def early(own: Wheel, now_ms: int) -> Any:
        return advance(own, now_ms + _EARLY_MS)

    def sorted_early(own: Courier, number: int, record: Any, now_ms: int, due: Any) -> None:
        sort(own, number, record, now_ms + _EARLY_MS, due)

    wheel.advance, courier._sort = early, sorted_early


def version_missed() -> None:
    """No node takes in every third version of the subjects."""
    from goqueue.schemas.state import RegistryState  # noqa: PLC0415

    patched: Any = RegistryState
    apply_version = patched._apply_version

    def missed(state: RegistryState, subject: str, number: int, value: Any) -> None:
        if number % 3:
            apply_version(state, subject, number, value)

    patched._apply_version = missed


_CUT: Final = ("cut_off_leader",)
_RETURNED: Final = (*_CUT, "kill_all_but_the_cut_off")
"""Whoever was cut off leads afterwards, with what it has."""
_QUIET: Final = ("slow_links", "slow_links")
"""Faults that nobody has to take over for: some seconds of work."""
_DIVERGED: Final = frozenset({"lost", "inconsistent"})
"""Clients were told of something that the next leader does not have."""

MISTAKES: Final = (
    Mistake(acknowledged_before_commit, "logs", _CUT, 1, _DIVERGED),
    Mistake(watermark_ahead, "logs", _CUT, 1, _DIVERGED),
    Mistake(stale_leader_answers, "logs", _CUT, 1, _DIVERGED),
    Mistake(truncation_left_out, "logs", _RETURNED, 1, _DIVERGED),
    Mistake(aborted_is_readable, "transactions", _QUIET, 1, frozenset({"aborted read"})),
    Mistake(acknowledgement_released, "queues", _QUIET, 1, frozenset({"redelivered"})),
    Mistake(due_too_early, "delays", _QUIET, 1, frozenset({"early"})),
    Mistake(version_missed, "schemas", _QUIET, 1, frozenset({"gap", "lost"})),
)
ALL: Final = {each.name: each for each in MISTAKES}
