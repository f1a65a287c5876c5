"""What this node is to a partition: its leader, a follower of another node, or neither.

The role says who may append. It comes from the cluster's metadata, never from a clock or a lease;
a node on its own leads everything in epoch 0.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Leading(NamedTuple):
    """This node appends, and says what is committed."""

    epoch: int


class Following(NamedTuple):
    """This node copies what the leader appends; clients are sent there."""

    leader: int | None
    """The id of the node that leads; None while there is no leader."""
    epoch: int


class Absent(NamedTuple):
    """This node holds no replica."""

    leader: int | None = None
    epoch: int = -1
    """-1 while it is not known here."""


Role = Leading | Following | Absent
ABSENT: Final = Absent()
ALONE: Final = Leading(0)
"""Of a node without others, which leads everything."""
