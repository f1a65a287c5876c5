"""How the nodes of a cluster share out a rate: by demand, so that together they keep to it.

Pure. Every node reckons with the same reports and so with the same shares, but for a second's
difference in what has arrived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

_IDLE_PART: Final = 0.05
"""Of the rate, for all nodes together: what a node has for a client that comes to it first, until
the others know of it."""
_GROWTH: Final = 1.25
"""A node whose clients do not wait may use so much more than it did."""


class Demand(msgspec.Struct, frozen=True, array_like=True):
    """What the clients of one node did with a rate in the last second."""

    used_per_s: float
    is_short: bool
    """Whether some of them have to wait: they would use more."""


NO_DEMAND: Final = Demand(0.0, is_short=False)


def shares(rate: float, demands: Mapping[int, Demand]) -> dict[int, float]:
    """The part of a rate that each node may use; together they are the rate.

    Nodes get what they use and a little more, the small ones first; those whose clients wait share
    what is left. What nobody wants is given to all alike.
    """
    count = len(demands)
    idle = rate * _IDLE_PART / count
    left = rate - idle * count
    given = dict.fromkeys(demands, idle)
    order = sorted(demands, key=lambda node: (demands[node].is_short, demands[node].used_per_s))
    for place, node in enumerate(order):
        demand = demands[node]
        fair = left / (count - place)
        wanted = fair if demand.is_short else min(demand.used_per_s * _GROWTH, fair)
        given[node] += wanted
        left -= wanted
    return {node: share + left / count for node, share in given.items()}
