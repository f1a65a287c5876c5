"""Which partition a row goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mmh3

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MAX_KNOWN_KEYS: Final = 100_000
"""Keys whose partition a task remembers; beyond it they are forgotten and reckoned again."""
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_U32: Final = 0xFFFFFFFF


def _by_mmh3(key: bytes) -> int:
    """As the broker does for HTTP, gRPC and the Python client."""
    number: int = mmh3.hash(key, signed=False)
    return number


def murmur2(key: bytes) -> int:
    """As Kafka's Java clients do, and so Spark's own Kafka sink: without the sign bit."""
    size = len(key)
    found = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(key[at : at + 4], "little") * _M & _U32
        part = (part ^ part >> 24) * _M & _U32
        found = found * _M & _U32 ^ part
    if whole < size:
        found = (found ^ int.from_bytes(key[whole:], "little")) * _M & _U32
    found = (found ^ found >> 13) * _M & _U32
    return (found ^ found >> 15) & 0x7FFFFFFF


PARTITIONERS: Final[dict[str, Callable[[bytes], int]]] = {"mmh3": _by_mmh3, "murmur2": murmur2}


class Partitioner:
    """The partitions of one topic, as one task fills them."""

    def __init__(self, name: str, count: int, first: int) -> None:
        self._hash = PARTITIONERS[name]
        self.count: Final = count
        self._turn = first
        self._known: dict[bytes, int] = {}

    def partitions(self, keys: Sequence[bytes | None]) -> list[int]:
        """One for each key.

        Rows without a key go to one partition together, and the next ones to the next: so they
        make few and long record batches.
        """
        if len(self._known) > _MAX_KNOWN_KEYS:
            self._known.clear()
        turn = self._turn % self.count
        known = self._known
        found = []
        used_turn = False
        for key in keys:
            if key is None:
                used_turn = True
                found.append(turn)
                continue
            number = known.get(key)
            if number is None:
                number = known[key] = self._hash(key) % self.count
            found.append(number)
        self._turn += used_turn
        return found

    def turn(self) -> int:
        """Where rows go together that have no keys."""
        self._turn += 1
        return (self._turn - 1) % self.count
