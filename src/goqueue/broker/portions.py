"""What of the messages that were taken a member can be given: by its own count of bytes."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.broker.deliver import Portion
    from goqueue.broker.record_reader import StoredBatch
    from goqueue.delivery.operations import Range


def cut_whole(portion: Portion, left_bytes: int, *, is_first: bool) -> tuple[int, list[Range]]:
    """Leave out what there is no room for, where whole batches are sent for some of their messages.

    Each batch counts once, however few of its messages are meant. Says how much room is left, and
    which messages were left out.
    """
    kept: list[tuple[StoredBatch, int, int]] = []
    back: list[Range] = []
    counted: set[int] = set()
    for batch, first, end in portion.loaded.parts:
        base, size_bytes = batch.info.base_offset, batch.info.size_bytes
        if base not in counted:
            if size_bytes > left_bytes and (counted or not is_first):
                back += around(first, end, portion.loaded.gone)
                continue
            counted.add(base)
            left_bytes -= size_bytes
        kept.append((batch, first, end))
    portion.loaded.parts[:] = kept
    return left_bytes, back


def batches(portion: Portion) -> list[memoryview]:
    """The stored batches that hold the messages, each once, in the order of their offsets."""
    found = {batch.info.base_offset: batch.data for batch, _, _ in portion.loaded.parts}
    return [found[base] for base in sorted(found)]


def acquired(portion: Portion, longest: int) -> Iterator[tuple[int, int, int]]:
    """First and last offset of each run of messages, and how often they were delivered.

    In the order of their offsets, whatever the lanes. A run lies in one batch, has no gaps, and is
    no longer than `longest`.
    """
    for span in sorted(portion.spans(), key=attrgetter("first")):
        runs = [(span.first, span.end)]
        if not span.batch.is_dense:
            runs = list(around(span.first, span.end, portion.loaded.gone))
        for run_first, run_end in runs:
            first = run_first
            for count, same in groupby(span.counts[first - span.first : run_end - span.first]):
                end = first + sum(1 for _ in same)
                for from_ in range(first, end, longest):
                    yield from_, min(from_ + longest, end) - 1, count
                first = end


def around(first: int, end: int, gone: list[Range]) -> Iterator[Range]:
    """The parts of [first, end) that are not gone."""
    for from_, to in sorted(gone):
        if to <= first or from_ >= end:
            continue
        if from_ > first:
            yield first, from_
        first = max(first, to)
    if end > first:
        yield first, end
