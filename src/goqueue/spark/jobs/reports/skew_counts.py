"""What was counted of a topic, for the report on its skew and the pictures of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.spark.jobs.report import Row


class Skew(NamedTuple):
    """Everything that was counted."""

    partitions: Sequence[Row]
    keys: Sequence[tuple[bytes | None, int, int]]
    """The hottest: key, messages, bytes."""
    distinct_keys: int
    sizes: Mapping[int, int]
    moments: Sequence[tuple[int, int, int]]
    """Time in ms, messages, bytes."""
    messages: int
    bytes: int
    largest_bytes: int
