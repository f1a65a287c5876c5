"""Deliberate mistakes, each of which the simulator must find: one that finds none proves nothing.

A mistake in a core is a patch of that core; one that only a shell can make is a switch in the
simulated shell. `seed` is the first seed that finds it, kept so that the ordinary suite is fast.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from msgspec.structs import replace

from goqueue.cluster import controller, elections, following, progress, proposals
from goqueue.cluster.following import FollowerState
from goqueue.cluster.progress import FollowerProgress, LeaderProgress
from simulation import cluster as simulated_cluster
from simulation.cluster import Mistakes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from goqueue.cluster.following import FetchAsk
    from goqueue.cluster.proposals import Proposal
    from goqueue.cluster.records import PartitionRecord
    from goqueue.cluster.view import ClusterView, Stored
    from goqueue.storage.epochs import LeaderEpochs


@dataclass
class Mutant:
    """One mistake."""

    name: str
    seed: int
    """The first seed that finds it."""
    patches: list[tuple[Any, str, Any]] = field(default_factory=list)
    mistakes: Mistakes = field(default_factory=Mistakes)

    @contextmanager
    def applied(self) -> Iterator[Mistakes]:
        """The cores with the mistake in them."""
        patchers = [patch.object(owner, name, new) for owner, name, new in self.patches]
        for patcher in patchers:
            patcher.start()
        try:
            yield self.mistakes
        finally:
            for patcher in reversed(patchers):
                patcher.stop()


# --- Leader ---------------------------------------------------------------------------------------


@property  # type: ignore[misc]
def _proposed_alone(self: LeaderProgress) -> frozenset[int]:
    record = self.record if self._pending is None else self._pending_record
    return frozenset(record.isr)


@property  # type: ignore[misc]
def _stored_alone(self: LeaderProgress) -> frozenset[int]:
    return frozenset(self.record.isr)


@property  # type: ignore[misc]
def _never(_: LeaderProgress) -> bool:
    return False


def _is_any_run(self: LeaderProgress, node_id: int, _: int) -> bool:
    return node_id in self.followers


def _enters_in_any_run(self: LeaderProgress, node_id: int, now_s: float, view: ClusterView) -> bool:
    follower = self.followers[node_id]
    return (
        node_id not in self.record.isr
        and follower.position >= max(self.hw, self.start)
        and now_s - follower.fetched_s <= progress.UNREGISTERED_LAG_S
        and view.is_active(node_id)
    )


def _enters_below_start(
    self: LeaderProgress, node_id: int, now_s: float, view: ClusterView
) -> bool:
    follower = self.followers[node_id]
    return (
        node_id not in self.record.isr
        and follower.position >= self.hw
        and now_s - follower.fetched_s <= progress.UNREGISTERED_LAG_S
        and view.is_active(node_id)
        and view.nodes[node_id].incarnation == follower.incarnation
    )


def _enters_behind(self: LeaderProgress, node_id: int, now_s: float, view: ClusterView) -> bool:
    follower = self.followers[node_id]
    return (
        node_id not in self.record.isr
        and follower.position >= 0
        and view.is_active(node_id)
        and view.nodes[node_id].incarnation == follower.incarnation
    )


def _unknown_is_conflict(self: LeaderProgress, proposal: Proposal) -> None:
    if proposal is self._pending:
        self._pending = None


def _unknown_is_success(self: LeaderProgress, proposal: Proposal) -> None:
    if proposal is self._pending:
        self.record, self._pending = self._pending_record, None
        self._move()


def _credited_early(
    self: FollowerProgress, incarnation: int, position: int, end: int, now_s: float
) -> None:
    self.incarnation, self.position = incarnation, end
    self.fetched_s = self.caught_up_s = now_s


def _own_position_is_the_end(self: LeaderProgress, end: int, position: int | None = None) -> bool:
    del position
    self.end = self.position = end
    return self._move()


def _without_registration(  # noqa: PLR0917 - as what it replaces
    self: LeaderProgress,
    purpose: str,
    record: PartitionRecord,
    nodes: frozenset[int],
    now_s: float,
    view: ClusterView,
) -> Proposal:
    del nodes
    return _PROPOSE(self, purpose, record, frozenset(), now_s, view)


_PROPOSE = LeaderProgress._propose


# --- Elections ------------------------------------------------------------------------------------


def _elr_survives(record: PartitionRecord, min_isr: int) -> PartitionRecord:
    return replace(record, min_isr=min_isr)


def _anybody(record: PartitionRecord, view: ClusterView) -> Iterator[int]:
    yield from (each for each in record.replicas if view.is_active(each))


def _may_resume(stored: Stored[PartitionRecord], node_id: int, _: int) -> bool:
    return stored.value.leader == node_id


def _never_outdated(stored: Stored[PartitionRecord], view: ClusterView) -> bool:
    leader = stored.value.leader
    return leader is None or not view.is_active(leader)


def _never_struck(*_: object) -> None:
    return None


def _always_eligible(
    record: PartitionRecord, isr: Collection[int], lost: Collection[int] = ()
) -> PartitionRecord:
    kept = tuple(each for each in record.replicas if each in isr)
    left = {*record.isr, *record.elr}.difference(kept, lost)
    return replace(record, isr=kept, elr=tuple(left), struck=())


def _out_of_sync_is_enough(record: PartitionRecord, node_id: int, _: int) -> bool:
    return node_id in record.isr or node_id in record.elr


def _recovers_early(stored: Stored[PartitionRecord], view: ClusterView) -> bool:
    record = stored.value
    return record.leader is None and any(view.is_active(each) for each in record.struck)


def _ask_whoever_is_there(
    self: controller.ControllerCore, view: ClusterView
) -> Iterator[controller.Inquiry]:
    for each in _INQUIRIES(self, view):
        yield each._replace(nodes=tuple(filter(view.is_active, each.nodes)))


_INQUIRIES = controller.ControllerCore.inquiries


def _recover_with_any(
    self: controller.ControllerCore,
    inquiry: controller.Inquiry,
    ends: Any,
    view: ClusterView,
    now_s: float,
) -> Proposal | None:
    key = inquiry.key
    stored = view.partitions.get(key)
    if stored is None or not self._is_recoverable(key, stored, view):
        return None
    if not all(map(view.is_active, ends)):
        return None
    record = elections.recovered(stored.value, ends, view)
    change = proposals.PartitionChange(key, stored.revision, record, frozenset(ends))
    return next(self._propose("recover", iter([change]), view, now_s), None)


def _recover_with_old_answers(
    self: controller.ControllerCore,
    inquiry: controller.Inquiry,
    ends: Any,
    view: ClusterView,
    now_s: float,
) -> Proposal | None:
    """Whoever has said how far its log reaches is taken at its word, whatever came after."""
    stored = view.partitions.get(inquiry.key)
    if stored is None or ends.keys() != set(inquiry.nodes):
        return None
    if not self._is_recoverable(inquiry.key, stored, view):
        return None
    record = elections.recovered(stored.value, ends, view)
    change = proposals.PartitionChange(inquiry.key, stored.revision, record, frozenset(ends))
    return next(self._propose("recover", iter([change]), view, now_s), None)


def _others_forgotten(
    record: PartitionRecord, ends: dict[int, elections.LogEnd], view: ClusterView
) -> PartitionRecord:
    return replace(_RECOVERED(record, ends, view), struck=())


_RECOVERED = elections.recovered


def _same_epoch(
    record: PartitionRecord, leader: int | None, before: PartitionRecord, view: ClusterView
) -> PartitionRecord:
    return replace(_LED_BY(record, leader, before, view), epoch=before.epoch)


_LED_BY = elections.led_by


def _shortest(
    record: PartitionRecord, ends: dict[int, elections.LogEnd], view: ClusterView
) -> PartitionRecord:
    best = min(ends, key=lambda each: ends[each])
    return elections.led_by(replace(record, isr=(best,), elr=(), struck=()), best, record, view)


# --- Controller and follower ----------------------------------------------------------------------


def _unguarded(
    purpose: str, changes: Any, view: ClusterView, token: Any, guards: Any = ()
) -> Iterator[Proposal]:
    del guards
    yield from _BUNDLES(purpose, changes, view, token)


def _unconditional(
    purpose: str, changes: Any, view: ClusterView, token: Any, guards: Any = ()
) -> Iterator[Proposal]:
    for proposal in _BUNDLES(purpose, changes, view, token, guards):
        yield proposal._replace(conditions=guards)


_BUNDLES = proposals.bundles


def _asks_unflushed(
    self: FollowerState, now_s: float, end: int, position: int, epochs: LeaderEpochs
) -> FetchAsk | None:
    del position
    return _PLAN(self, now_s, end, end, epochs)


_PLAN = FollowerState.plan


def _no_divergence(
    ask: FetchAsk, epochs: LeaderEpochs, log_start: int, end: int
) -> following.FetchProblem | None:
    del epochs
    return None if log_start <= ask.offset <= end else following.FetchProblem.OUT_OF_RANGE


MUTANTS = [
    Mutant(
        "a removal counts before it is stored", 1, [(LeaderProgress, "maximal", _proposed_alone)]
    ),
    Mutant(
        "an addition counts only once stored", 108, [(LeaderProgress, "maximal", _stored_alone)]
    ),
    Mutant("the high watermark moves under min ISR", 1, [(LeaderProgress, "is_short", _never)]),
    Mutant(
        "logs are cut at the high watermark",
        3,
        [(following, "divergence", _no_divergence)],
        Mistakes(cut_by_hw=True),
    ),
    Mutant("logs are never cut", 1, [(following, "divergence", _no_divergence)]),
    Mutant(
        "fetches of an earlier run count",
        34,
        [
            (LeaderProgress, "is_current", _is_any_run),
            (LeaderProgress, "_may_enter", _enters_in_any_run),
        ],
    ),
    Mutant(
        "an epoch is resumed after a restart",
        5,
        [(elections, "may_lead", _may_resume), (elections, "needs_leader", _never_outdated)],
    ),
    Mutant(
        "eligible leaders survive a change of min ISR",
        52,
        [(simulated_cluster, "with_min_isr", _elr_survives)],
    ),
    Mutant("the controller writes unguarded", 75, [(controller, "bundles", _unguarded)]),
    Mutant("the controller writes unconditionally", 1, [(controller, "bundles", _unconditional)]),
    Mutant("anybody may be elected", 2, [(elections, "candidates", _anybody)]),
    Mutant(
        "a follower acknowledges before its flush", 1, [(FollowerState, "plan", _asks_unflushed)]
    ),
    Mutant(
        "a follower is credited with what it is sent",
        0,
        [(FollowerProgress, "fetched", _credited_early)],
    ),
    Mutant(
        "a leader counts on what it has not flushed",
        1,
        [(LeaderProgress, "appended", _own_position_is_the_end)],
    ),
    Mutant(
        "a lost answer is taken for a conflict",
        63,
        [(LeaderProgress, "unknown", _unknown_is_conflict)],
    ),
    Mutant(
        "a lost answer is taken for success", 4, [(LeaderProgress, "unknown", _unknown_is_success)]
    ),
    Mutant(
        "duplicates are acknowledged before they are committed",
        0,
        mistakes=Mistakes(duplicates_at_once=True),
    ),
    Mutant("a replica that lost data is not struck", 2, [(elections, "strike", _never_struck)]),
    Mutant(
        "a failed log is cut as soon as its replica is out of sync",
        21,
        [(elections, "is_counted", _out_of_sync_is_enough)],
    ),
    Mutant("a hole stays after a recovery", 2, mistakes=Mistakes(keep_holes=True)),
    Mutant(
        "a follower enters below the start of the epoch",
        14,
        [(LeaderProgress, "_may_enter", _enters_below_start)],
    ),
    Mutant("a follower enters wherever it is", 0, [(LeaderProgress, "_may_enter", _enters_behind)]),
    Mutant(
        "a follower enters whatever it is registered as",
        116,
        [(LeaderProgress, "_propose", _without_registration)],
    ),
    Mutant(
        "whoever leaves stays eligible",
        0,
        [(elections, "with_isr", _always_eligible), (progress, "with_isr", _always_eligible)],
    ),
    Mutant(
        "a recovery does not wait for everybody",
        2,
        [
            (elections, "is_recoverable", _recovers_early),
            (controller.ControllerCore, "inquiries", _ask_whoever_is_there),
            (controller.ControllerCore, "recover", _recover_with_any),
        ],
    ),
    Mutant(
        "answers of an earlier run count in a recovery",
        50,
        [(controller.ControllerCore, "recover", _recover_with_old_answers)],
    ),
    Mutant("each replica cuts at its own damage", 2, mistakes=Mistakes(cut_own_damage=True)),
    Mutant("a leader goes on with a hole", 141, mistakes=Mistakes(go_on_with_holes=True)),
    Mutant(
        "a loss is forgotten when the start is killed", 155, mistakes=Mistakes(forget_losses=True)
    ),
    Mutant(
        "a recovery forgets who else lost something",
        7,
        [(elections, "recovered", _others_forgotten)],
    ),
    Mutant("a recovery takes the shortest log", 2, [(elections, "recovered", _shortest)]),
    Mutant("a new leader keeps the epoch", 0, [(elections, "led_by", _same_epoch)]),
]
