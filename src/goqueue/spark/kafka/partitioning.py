"""Which partition a row goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.partitioning import PARTITIONERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MAX_KNOWN_KEYS: Final = 100_000
"""Keys whose partition a task remembers; beyond it they are forgotten and reckoned again."""
_MAX_KNOWN_BYTES: Final = 256
"""Of such a key; longer ones are reckoned each time."""


class _Known(dict[bytes | None, int]):
    """Partitions by key; one that is not known is reckoned when it is looked up."""

    def __init__(self, hash_of: Callable[[bytes], int], count: int) -> None:
        super().__init__()
        self._hash_of = hash_of
        self._count = count

    def __missing__(self, key: bytes) -> int:
        number = self._hash_of(key) % self._count
        if len(key) <= _MAX_KNOWN_BYTES:
            self[key] = number
        return number


class Partitioner:
    """The partitions of one topic, as one task fills them."""

    def __init__(self, name: str, count: int, first: int) -> None:
        self.count: Final = count
        self._turn = first
        self._known = _Known(PARTITIONERS[name], count)

    def partitions(self, keys: Sequence[bytes | None]) -> list[int]:
        """One for each key.

        Rows without a key go to one partition together, and the next ones to the next: so they
        make few and long record batches.
        """
        if len(self._known) > _MAX_KNOWN_KEYS:
            self._known.clear()
        if None in keys:
            self._known[None] = self.turn()
        return list(map(self._known.__getitem__, keys))

    def turn(self) -> int:
        """Where rows go together that have no keys."""
        self._turn += 1
        return (self._turn - 1) % self.count
