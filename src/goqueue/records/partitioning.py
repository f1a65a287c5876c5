"""Which rows go to which partition; `_native_hash.c` does the same in C."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from goqueue.model.partitioning import PARTITIONERS
from goqueue.records.contents import entries, to_bytes

if TYPE_CHECKING:
    from goqueue.records.contents import Contents


def key_hash(key: bytes | str, /) -> int:
    """`goqueue.model.partitioning.key_hash`, also of text.

    Raises:
        TypeError: it is neither bytes nor text.
    """
    content = to_bytes("key", key)
    if content is None:
        raise TypeError("a key must be bytes or str to have a hash, not None")
    return PARTITIONERS["mmh3"](content)


def split_rows(
    keys: Contents, partition_count: int, unkeyed: int, partitioner: str = "mmh3", /
) -> list[bytes]:
    """The numbers of the rows of each partition, as i32 and in their order.

    Args:
        keys: A list, a tuple, or a column.
        partition_count: How many partitions the topic has.
        unkeyed: The partition of rows without a key.
        partitioner: Of `goqueue.model.partitioning.PARTITIONERS`.

    Raises:
        TypeError: a key is neither bytes, text nor None.
        ValueError: there is no such partition or partitioner.
    """
    if not 0 <= unkeyed < partition_count < 1 << 31:
        raise ValueError(f"there is no partition {unkeyed} of {partition_count}")
    if partitioner not in PARTITIONERS:
        raise ValueError(
            f"there is no partitioner {partitioner!r}; known are {' and '.join(PARTITIONERS)}"
        )
    hash_of = PARTITIONERS[partitioner]
    count, key_at = entries("key", keys)
    rows = [array("i") for _ in range(partition_count)]
    for row in range(count):
        key = key_at(row)
        rows[unkeyed if key is None else hash_of(key) % partition_count].append(row)
    return [each.tobytes() for each in rows]
