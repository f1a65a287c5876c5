"""What the node has counted so far, added up over all topics, and what two such counts tell.

Counts only grow; what people want to see, rates and percentiles, is in the difference of two of
them. A topic that is deleted takes its counts with it: no rate is ever below zero for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.metrics import names
from goqueue.metrics.kinds import LATENCY_BUCKETS_S
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.metrics.registry import Metrics


class Counts(NamedTuple):
    """Everything that rates and percentiles are made of, at one moment."""

    at_s: float
    published: float
    consumed: float
    acked: float
    nacked: float
    """Nacked, to be redelivered."""
    failed: float
    """Publishes that were refused, and messages that were rejected or nacked."""
    bytes_in: float
    bytes_out: float
    publish: tuple[int, ...]
    """How many publishes fell into each bucket of latency."""
    fetch: tuple[int, ...]
    ack: tuple[int, ...]


def read_counts(metrics: Metrics, now_s: float) -> Counts:
    """The counts now; a fraction of a millisecond with 500 topics."""
    total = metrics.total
    nacked = total(names.MESSAGES_NACKED)
    return Counts(
        at_s=now_s,
        published=total(names.MESSAGES_PUBLISHED),
        consumed=total(names.MESSAGES_FETCHED),
        acked=total(names.MESSAGES_ACKED),
        nacked=nacked,
        failed=total(names.MESSAGES_FAILED) + nacked + total(names.MESSAGES_REJECTED),
        bytes_in=total(names.BYTES_PUBLISHED),
        bytes_out=total(names.BYTES_CONSUMED),
        publish=metrics.total_counts(names.PUBLISH_LATENCY),
        fetch=metrics.total_counts(names.FETCH_LATENCY),
        ack=metrics.total_counts(names.ACK_LATENCY),
    )


class Rates(msgspec.Struct, frozen=True):
    """Per second."""

    published_per_s: float = 0.0
    consumed_per_s: float = 0.0
    acked_per_s: float = 0.0
    failed_per_s: float = 0.0
    bytes_in_per_s: float = 0.0
    bytes_out_per_s: float = 0.0


class Percentiles(msgspec.Struct, frozen=True):
    """Of latencies, in milliseconds; null where nothing happened."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


NO_RATES: Final = Rates()


def rates_between(before: Counts, after: Counts) -> Rates:
    """What happened a second between two moments."""
    span_s = after.at_s - before.at_s
    if span_s <= 0:
        return NO_RATES

    def rate(was: float, now: float) -> float:
        return round(max(now - was, 0.0) / span_s, 3)

    return Rates(
        published_per_s=rate(before.published, after.published),
        consumed_per_s=rate(before.consumed, after.consumed),
        acked_per_s=rate(before.acked, after.acked),
        failed_per_s=rate(before.failed, after.failed),
        bytes_in_per_s=rate(before.bytes_in, after.bytes_in),
        bytes_out_per_s=rate(before.bytes_out, after.bytes_out),
    )


def percentiles_between(before: Sequence[int], after: Sequence[int]) -> Percentiles:
    """Of what was measured between two counts of the buckets."""
    counts = _between(before, after)
    return Percentiles(
        quantile_ms(counts, 0.50), quantile_ms(counts, 0.95), quantile_ms(counts, 0.99)
    )


def p99_between(before: Sequence[int], after: Sequence[int]) -> float | None:
    """The last of them alone."""
    return quantile_ms(_between(before, after), 0.99)


def _between(before: Sequence[int], after: Sequence[int]) -> list[int]:
    return [max(now - was, 0) for was, now in zip(before, after, strict=True)]


def quantile_ms(
    counts: Sequence[int], share: float, bounds_s: Sequence[float] = LATENCY_BUCKETS_S
) -> float | None:
    """Where a share of the measurements lies below, in milliseconds; None without any.

    Within a bucket they are taken to be spread evenly; above the last bound nobody knows, and the
    bound is said.
    """
    wanted = share * sum(counts)
    if wanted <= 0:
        return None
    seen = 0
    lower_s = 0.0
    for count, upper_s in zip(counts, bounds_s, strict=False):
        if count and seen + count >= wanted:
            return round((lower_s + (upper_s - lower_s) * (wanted - seen) / count) * 1000, 3)
        seen += count
        lower_s = upper_s
    return round(lower_s * 1000, 3)
