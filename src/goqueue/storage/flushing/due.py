"""A log that waits to be flushed, as those see it who flush many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

End: TypeAlias = "Callable[[], None]"
Run: TypeAlias = "Callable[[bool], End]"


class Due(Protocol):
    """A log that waits to be flushed."""

    def begin(self) -> Run | None:
        """On the loop: what to do in a thread, which returns what to do on the loop afterwards.

        It is told whether all files are on the disk already. None when there is nothing to flush.
        """
