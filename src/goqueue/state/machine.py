"""What a state shard keeps, as it sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.state.log import StateEntry


class StateMachine(Protocol):
    """What a shard keeps. Nothing in it awaits, and only its shard changes it."""

    def begin(self) -> None:
        """Forget everything: a replay begins."""

    def replay(self, entries: Sequence[StateEntry], lost_count: int) -> Iterable[None] | None:
        """Take in entries as they were stored; so many are known to be lost before them.

        Where single entries may be large, it returns the steps in which that is done as they are
        drawn: between two of them the event loop may turn.
        """

    def loaded(self, lost_count: int) -> None:
        """The replay is over, and so many entries were lost."""

    def dump(self) -> Iterable[StateEntry]:
        """Everything, as entries that would build it. They may be drawn while it changes."""
