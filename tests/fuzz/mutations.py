"""Damaged copies of good inputs: what a fuzzer tries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

MAX_BYTES: Final = 1 << 20
"""Inputs grow no larger than this."""
_MOST_CHANGES: Final = 8
_NUMBERS: Final = (
    b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff",
    b"\xff\xff", b"\x7f\xff", b"\x80\x00",
    b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
)  # fmt: skip
"""Lengths and counts at the edges of their types, as big-endian numbers and as varints."""


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A copy of one of the seeds with one to a few changes."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, _MOST_CHANGES)):
        rng.choice(_CHANGES)(rng, data, seeds)
    return bytes(data[:MAX_BYTES])


def _flip(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _number(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    at, number = rng.randint(0, len(data)), rng.choice(_NUMBERS)
    data[at : at + rng.choice((0, len(number)))] = number


def _cut(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    at = rng.randint(0, len(data))
    del data[at : at + rng.randint(1, 32)]


def _end(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    del data[rng.randint(0, len(data)) :]


def _repeat(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    at = rng.randint(0, len(data))
    part = data[at : at + rng.randint(1, 64)]
    data[at:at] = part * rng.choice((1, 2, 100))


def _splice(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = rng.choice(seeds)
    at, start = rng.randint(0, len(data)), rng.randint(0, len(other))
    data[at:at] = other[start : start + rng.randint(1, 256)]


_CHANGES: Final[list[Callable[[random.Random, bytearray, Sequence[bytes]], None]]] = [
    _flip,
    _number,
    _cut,
    _end,
    _repeat,
    _splice,
]
