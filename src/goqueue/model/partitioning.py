"""Which partition a key belongs to: its hash, modulo the number of partitions.

The broker (for HTTP and gRPC), the Python client and Spark choose alike, so that the messages of a
key stay in order whichever way they come.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import mmh3

if TYPE_CHECKING:
    from collections.abc import Callable

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_U32: Final = 0xFFFFFFFF

key_hash: Final[Callable[[bytes], int]] = partial(mmh3.hash, signed=False)
"""GoQueue's own: MurmurHash3, 32 bits."""


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


PARTITIONERS: Final[dict[str, Callable[[bytes], int]]] = {"mmh3": key_hash, "murmur2": murmur2}
"""By the names that Spark's option has for them."""
