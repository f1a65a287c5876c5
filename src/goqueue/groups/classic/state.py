"""The states of a classic group, and the only moves between them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class ClassicState(StrEnum):
    """The names are the ones that Kafka's tools show."""

    EMPTY = "Empty"
    """No members; perhaps offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members join; nobody is answered until all have, or time is up."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun; the leader's assignment is awaited."""
    STABLE = "Stable"
    """Everyone can have its assignment."""
    DEAD = "Dead"
    """Deleted; nothing comes after."""


LEGAL_MOVES: Final[dict[ClassicState, frozenset[ClassicState]]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}
    ),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}
"""Where a group may go from each state."""
