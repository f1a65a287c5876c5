"""What a metric can be: a definition says its name, its labels and how it adds up."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

LATENCY_BUCKETS_S: Final = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0,
)  # fmt: skip
"""Upper bounds of the buckets of every latency, in seconds; one above the last is implied."""

BATCH_BUCKETS: Final = (1.0, 10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, 10_000.0, 50_000.0)
"""Upper bounds for numbers of records handed out at once."""


class Definition(msgspec.Struct, frozen=True, eq=False):
    """One metric. Its full name is `goqueue_` and `name`; `node_id` is added to its labels.

    There is one of each, in the file of names: they are told apart by identity, which is what
    makes them cheap keys.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()


class CounterName(Definition, frozen=True, eq=False):
    """Only grows; its name ends in `_total`."""


class HistogramName(Definition, frozen=True, eq=False):
    """How often a measurement fell under each bound, how often in all, and their sum."""

    buckets: tuple[float, ...] = LATENCY_BUCKETS_S


class Combine(Enum):
    """What becomes of values that share their labels: partitions of a topic, or the overflow."""

    SUM = "sum"
    MAX = "max"


class GaugeName(Definition, frozen=True, eq=False):
    """A state, read when somebody asks and never kept: it cannot drift from what it describes."""

    per_partition: bool = False
    """The last label is `partition`, and is dropped (values combined) unless it was asked for."""
    combine: Combine = Combine.SUM
