"""Whose turn it is: a weighted fair choice among the lanes, by deficit round robin.

In each round every lane, the most urgent first, gets as many messages as its weight says. A
message costs one credit and a lane's credit ends with its turn, so all that is carried from one
call to the next is whose turn it is and what is left of it: polls of one message get the same
shares as polls of a thousand. A lane that runs empty loses the rest of its turn; nothing is saved.

While only one lane has anything there is no round: it gets everything, and the next round begins
with the most urgent lane. A lane of weight 0 is served when no lane with a weight has anything,
then the most urgent first, or by the starvation guard.

The guard: a lane that has something and was not served for `starvation_ms` gets one message before
everything else, the longest waiting lane first, and waits anew. That message is on the house.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.errors import InvalidGroupRequestError, InvariantError
from goqueue.model.limits import MAX_LANE_WEIGHT, PRIORITY_COUNT
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


DEFAULT_STARVATION_MS: Final = 30_000

Plan: TypeAlias = list[tuple[int, int]]
"""Lanes and how many messages of each, in the order in which they are to be handed out."""

_LAST: Final = PRIORITY_COUNT - 1
_NOBODY: Final = -1
_LANES: Final = range(PRIORITY_COUNT)


class Weights(NamedTuple):
    """How many messages each lane gets in a round."""

    critical: int = 50
    high: int = 25
    normal: int = 15
    low: int = 7
    background: int = 3

    @classmethod
    def of(cls, values: Sequence[int]) -> Weights:
        """The weights, the most urgent lane's first.

        Raises:
            InvalidGroupRequestError: they are not five whole numbers from 0 to `MAX_LANE_WEIGHT`,
                or none is above 0.
        """
        if (
            len(values) != PRIORITY_COUNT
            or not all(type(each) is int and 0 <= each <= MAX_LANE_WEIGHT for each in values)
            or not any(values)
        ):
            raise InvalidGroupRequestError(
                f"weights {list(values)[: PRIORITY_COUNT + 1]}: expected {PRIORITY_COUNT} whole "
                f"numbers from 0 to {MAX_LANE_WEIGHT}, at least one above 0"
            )
        return cls(*values)


DEFAULT_WEIGHTS: Final = Weights()


class LaneStats(NamedTuple):
    """What a lane got so far."""

    served: int
    boosts: int
    """How often the starvation guard had to help."""
    last_served_ms: int | None
    waiting_since_ms: int | None
    """Since when it has something and gets nothing; None when it has nothing, as far as known."""


class _State(NamedTuple):
    """All that changes. Lists are replaced, never changed, so that a plan can be taken back."""

    turn: int
    """The lane whose turn it is, or nobody's: then a round begins."""
    credit: int
    """How many messages are left of that turn: 0 to the lane's weight."""
    waiting: list[int | None]
    last_served: list[int | None]
    served: list[int]
    boosts: list[int]


class Scheduler:
    """Chooses among the lanes of whatever one poll can take from.

    `plan` counts everything planned as handed out. Who hands out less says so before the next
    plan: `took` with how many of them, from the first on. Then all is as if no more had been
    asked for.
    """

    def __init__(
        self,
        weights: Sequence[int] = DEFAULT_WEIGHTS,
        starvation_ms: int = DEFAULT_STARVATION_MS,
    ) -> None:
        self._state = _State(
            _NOBODY,
            0,
            [None] * PRIORITY_COUNT,
            [None] * PRIORITY_COUNT,
            [0] * PRIORITY_COUNT,
            [0] * PRIORITY_COUNT,
        )
        self._before = self._state
        self._asked: tuple[tuple[int, ...], int] = ((), 0)
        self._planned = 0
        self.configure(weights, starvation_ms)

    def configure(self, weights: Sequence[int], starvation_ms: int) -> None:
        """Share by these weights from now on, beginning a round; 0 ms switches the guard off.

        Raises:
            InvalidGroupRequestError: the weights or the time are not acceptable.
        """
        if starvation_ms < 0:
            raise InvalidGroupRequestError(f"starvation_ms is {starvation_ms}, expected 0 or more")
        self._weights = Weights.of(weights)
        self._starvation_ms = starvation_ms
        self._order = sorted(_LANES, key=lambda lane: self._weights[lane] == 0)
        self._state = self._state._replace(turn=_NOBODY, credit=0)
        self._before = self._before._replace(turn=_NOBODY, credit=0)

    def plan(self, ready: Sequence[int], limit: int, now_ms: int) -> Plan:
        """Choose up to `limit` of the messages that each lane could give now, and count them.

        A caller may stop counting what is ready at `limit`. `now_ms` should never fall.
        """
        self._before = before = self._state
        self._asked = tuple(ready), now_ms  # a copy: it may be needed again
        self._planned = 0
        if limit <= 0:
            return []
        if len(ready) != PRIORITY_COUNT or min(ready) < 0:
            raise InvariantError(f"ready {ready}: expected {PRIORITY_COUNT} counts")
        if ready.count(0) < _LAST:
            return self._plan_among(ready, limit, now_ms)
        amount = max(ready)
        waiting: list[int | None] = [None] * PRIORITY_COUNT
        if amount == 0:
            self._state = before._replace(turn=_NOBODY, credit=0, waiting=waiting)
            return []
        lane = ready.index(amount)
        if amount > limit:
            amount, waiting[lane] = limit, now_ms
        served, last_served = before.served.copy(), before.last_served.copy()
        served[lane] += amount
        last_served[lane] = now_ms
        self._state = _State(_NOBODY, 0, waiting, last_served, served, before.boosts)
        self._planned = amount
        return [(lane, amount)]

    def took(self, count: int) -> None:
        """Only the first `count` messages of the last plan were handed out.

        Whoever found less in a lane than was ready corrects that and plans again for the rest.

        Raises:
            InvariantError: so many were not planned.
        """
        if count == self._planned:
            return
        if not 0 <= count < self._planned:
            raise InvariantError(f"took {count} of {self._planned} planned")
        ready, now_ms = self._asked
        self._state = before = self._before
        if count:
            self.plan(ready, count, now_ms)
        else:
            waiting = _waiting(ready, before.waiting, now_ms)
            self._state = before._replace(waiting=waiting)
            self._planned = 0

    def served_beside(self, lane: int, count: int) -> None:
        """Count messages that were handed out beside the plan; they cost the lane no credit."""
        served = self._state.served.copy()
        served[lane] += count
        self._state = self._state._replace(served=served)

    def stats(self) -> tuple[LaneStats, ...]:
        """What each lane got, the most urgent first."""
        state = self._state
        return tuple(map(LaneStats, state.served, state.boosts, state.last_served, state.waiting))

    def check_invariants(self) -> None:
        """Raise `InvariantError` when a turn is nobody's or is worth more than its weight."""
        turn, credit = self._state.turn, self._state.credit
        if not _NOBODY <= turn <= _LAST:
            raise InvariantError(f"it is the turn of lane {turn}")
        if not 0 <= credit <= (0 if turn == _NOBODY else self._weights[turn]):
            raise InvariantError(f"lane {turn} has {credit} of {self._weights[turn]} left")

    def _plan_among(self, ready: Sequence[int], limit: int, now_ms: int) -> Plan:
        """The plan when at least two lanes have something."""
        before = self._before
        left = list(ready)
        budget = self._planned = min(limit, sum(left))
        waiting = _waiting(ready, before.waiting, now_ms)
        last_served, served = before.last_served.copy(), before.served.copy()
        boosts = before.boosts
        plan: Plan = []
        starving = self._starving(waiting, now_ms)[:budget]
        if starving:
            boosts = boosts.copy()
            for lane in starving:
                boosts[lane] += 1
                left[lane] -= 1
                plan.append((lane, 1))
        turn, credit = self._share(left, budget - len(starving), plan)
        for lane in _LANES:
            if left[lane] != ready[lane]:
                served[lane] += ready[lane] - left[lane]
                last_served[lane] = now_ms
                waiting[lane] = now_ms if left[lane] else None
        self._state = _State(turn, credit, waiting, last_served, served, boosts)
        return plan

    def _starving(self, waiting: list[int | None], now_ms: int) -> list[int]:
        """The lanes that have waited too long, the longest waiting first."""
        if not self._starvation_ms:
            return []
        before_ms = now_ms - self._starvation_ms
        found = [
            (since, lane)
            for lane, since in enumerate(waiting)
            if since is not None and since <= before_ms
        ]
        return [lane for _, lane in sorted(found)]

    def _share(self, left: list[int], budget: int, plan: Plan) -> tuple[int, int]:
        """Hand out `budget` of what is left, in rounds; returns whose turn is next.

        The loop ends: it runs while two lanes with a weight have something, and moving on from
        lane to lane reaches one of them, with credit for a message, after five steps at the most.
        """
        weights = self._weights
        turn, credit = self._before.turn, self._before.credit
        contenders = sum(1 for lane in _LANES if left[lane] and weights[lane])
        while budget and contenders > 1:
            available = left[turn]
            if not credit or not available:
                turn = turn + 1 if turn < _LAST else 0
                credit = weights[turn] if left[turn] else 0
                continue
            count = min(credit, available, budget)
            _add(plan, turn, count)
            credit -= count
            budget -= count
            left[turn] = available - count
            if count == available:
                contenders -= 1
        if not budget:
            return turn, credit
        for lane in self._order:
            count = min(left[lane], budget)
            if count:
                _add(plan, lane, count)
                left[lane] -= count
                budget -= count
        return _NOBODY, 0


def _waiting(ready: Sequence[int], waiting: Sequence[int | None], now_ms: int) -> list[int | None]:
    """Since when each lane waits, now that we see which have something."""
    return [
        None if not count else now_ms if since is None or since > now_ms else since
        for count, since in zip(ready, waiting, strict=True)
    ]


def _add(plan: Plan, lane: int, count: int) -> None:
    if plan and plan[-1][0] == lane:
        count += plan.pop()[1]
    plan.append((lane, count))
