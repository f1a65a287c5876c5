"""Dead letters grouped by why they died: one line a reason and last error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from goqueue.queues.dead_letters.error_patterns import error_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.queues.dead_letters.letters import Letter

_MAX_GROUPS: Final = 200
"""Groups of one answer; letters with an error beyond them are counted as others."""
_MAX_CONSUMERS: Final = 20
"""Consumer groups that one group of letters names."""


@dataclass(slots=True)
class ErrorGroup:
    """Letters that died of the same."""

    reason: str | None
    error: str
    """Without numbers and ids; empty if no error was given."""
    count: int
    oldest_ms: int
    newest_ms: int
    example: Letter
    """The newest."""
    consumers: set[str]
    """The groups in which they died."""


class ErrorGroups:
    """Counts letters by reason and error, as they come."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str | None, str], ErrorGroup] = {}
        self.letters = 0
        self.others = 0
        """Letters of more groups than are kept."""

    def add(self, letters: Iterable[Letter]) -> None:
        """Count some more letters."""
        for letter in letters:
            self.letters += 1
            cause, died_ms = letter.cause, letter.died_ms
            name = (cause.get("reason"), error_pattern(cause.get("error", "")))
            group = self._groups.get(name)
            if group is None:
                if len(self._groups) >= _MAX_GROUPS:
                    self.others += 1
                    continue
                group = ErrorGroup(*name, 0, died_ms, died_ms, letter, set())
                self._groups[name] = group
            group.count += 1
            group.oldest_ms = min(group.oldest_ms, died_ms)
            if died_ms >= group.newest_ms:
                group.newest_ms, group.example = died_ms, letter
            if len(group.consumers) < _MAX_CONSUMERS and (consumer := cause.get("group")):
                group.consumers.add(consumer)

    def largest_first(self) -> list[ErrorGroup]:
        """What was found, the group with the most letters first."""
        return sorted(self._groups.values(), key=lambda each: (-each.count, -each.newest_ms))
