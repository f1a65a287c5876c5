"""What members of type `consumer` write into their opaque metadata and assignments.

The classic protocol never needs to look inside. We look to know which topics a group reads (for
expiring and deleting offsets) and how many partitions a rebalance moved. Anything that does not
parse is simply not known.
"""

from __future__ import annotations

import struct
from typing import Final

PROTOCOL_TYPE: Final = "consumer"

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")


class _Reader:
    """A cursor over big-endian fields; running off the end raises `ValueError`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise ValueError("the bytes end early")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def i16(self) -> int:
        return int(_I16.unpack(self._take(2))[0])

    def i32(self) -> int:
        return int(_I32.unpack(self._take(4))[0])

    def string(self) -> str:
        return self._take(self.i16()).decode()


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in a member's subscription, or None when it is something else."""
    reader = _Reader(metadata)
    try:
        if reader.i16() < 0:
            return None
        return frozenset(reader.string() for _ in range(reader.i32()))
    except ValueError:
        return None


def assigned_partitions(assignment: bytes) -> frozenset[tuple[str, int]] | None:
    """The partitions in a member's assignment, or None when it is something else."""
    if not assignment:
        return frozenset()
    reader = _Reader(assignment)
    parts: set[tuple[str, int]] = set()
    try:
        if reader.i16() < 0:
            return None
        for _ in range(reader.i32()):
            topic = reader.string()
            parts.update((topic, reader.i32()) for _ in range(reader.i32()))
    except ValueError:
        return None
    return frozenset(parts)


def encode_subscription(topics: frozenset[str]) -> bytes:
    """A version 0 subscription without user data."""
    parts = [_I16.pack(0), _I32.pack(len(topics))]
    parts += [_string(topic) for topic in sorted(topics)]
    return b"".join([*parts, _I32.pack(-1)])


def encode_assignment(partitions: frozenset[tuple[str, int]]) -> bytes:
    """A version 0 assignment without user data."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [_I16.pack(0), _I32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        parts += [_string(topic), _I32.pack(len(numbers)), *map(_I32.pack, numbers)]
    return b"".join([*parts, _I32.pack(-1)])


def _string(text: str) -> bytes:
    data = text.encode()
    return _I16.pack(len(data)) + data
