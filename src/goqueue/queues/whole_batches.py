"""Stored batches for share consumers: sent whole, with the ranges of offsets that are theirs."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from goqueue.model.ranges import Range, around
from goqueue.model.tuples import NamedTuple
from goqueue.records.cutting import cut_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.queues.acquired_batch import Portion
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.reading.record_reader import RecordReader, StoredBatch


def cut_whole(portion: Portion, left_bytes: int, *, is_first: bool) -> int:
    """Give back what there is no room for, where whole batches are sent for some of their messages.

    Each batch counts once, however few of its messages are meant. Says how much room is left.
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
    portion.back += back
    return left_bytes


def round_up(group: QueueGroup, portion: Portion, reader: RecordReader) -> None:
    """Reserve the rest of the batches of which the member gets some messages: of the same lanes."""
    rest = [
        (batch, (lane, first, end))
        for (lane, base), batch in portion.batches_by_lane().items()
        for first, end in portion.queue.available(lane, base, batch.info.next_offset)
    ]
    if not rest:
        return
    group.reserve_along(portion.queue, portion.reservation, [part for _, part in rest])
    isolation = group.isolation
    for batch, (_, first, end) in rest:
        reader.sort(portion.partition, batch, (first, end), portion.loaded, isolation)


def batches(portion: Portion) -> list[memoryview]:
    """The stored batches that hold the messages, each once, in the order of their offsets."""
    found = {batch.info.base_offset: batch.sound_data for batch, _, _ in portion.loaded.parts}
    return [found[base] for base in sorted(found)]


def parts(portion: Portion) -> list[memoryview | bytearray]:
    """The same batches, each without the messages before and behind those that are meant."""
    found: dict[int, tuple[StoredBatch, int, int]] = {}
    for batch, first, end in portion.loaded.parts:
        base = batch.info.base_offset
        known = found.get(base)
        if known is not None:
            first, end = min(first, known[1]), max(end, known[2])  # noqa: PLW2901 - both together
        found[base] = (batch, first, end)
    return [
        cut_batch(batch.sound_data, batch.info, first, end)
        for _, (batch, first, end) in sorted(found.items())
    ]


def acquired(portion: Portion, batch_size: int) -> Iterator[tuple[int, int, int]]:
    """First and last offset of each run of messages, and how often they were delivered.

    In the order of their offsets, whatever the lanes. A run has no gaps. It goes on over the next
    batch as long as it is shorter than `batch_size`.
    """
    first = end = count = base = -1
    for from_, to, delivered, batch_base in _pieces(portion):
        is_full = batch_base != base and end - first >= batch_size
        if from_ != end or delivered != count or is_full:
            if end > first:
                yield first, end - 1, count
            first, count = from_, delivered
        end, base = to, batch_base
    if end > first:
        yield first, end - 1, count


def _pieces(portion: Portion) -> Iterator[tuple[int, int, int, int]]:
    """Messages in a row of one batch that were delivered equally often, in order.

    First offset, the offset behind the last, the number of deliveries, where the batch begins.
    """
    for span in sorted(portion.spans(), key=attrgetter("first")):
        base = span.batch.info.base_offset
        for first, end, count in equally_often(span.first, span.counts):
            yield first, end, count, base


def equally_often(first: int, counts: bytes) -> Iterator[tuple[int, int, int]]:
    """Messages in a row, told apart by their delivery counts: first, end and count."""
    if counts.count(counts[0]) == len(counts):
        yield first, first + len(counts), counts[0]
        return
    for count, same in groupby(counts):
        end = first + sum(1 for _ in same)
        yield first, end, count
        first = end


class DeliveredRange(NamedTuple):
    """Messages in a row of one lane that were delivered equally often."""

    lane: int
    first: int
    end: int
    delivery_count: int
    nonces: bytes
    """Of their deliveries, eight bytes each."""


def delivered(portion: Portion) -> list[DeliveredRange]:
    """What a member was handed, the most urgent first."""
    found: list[DeliveredRange] = []
    for lane, start, _, counts, nonces in sorted(portion.marks, key=attrgetter("lane")):
        for first, end, count in equally_often(start, counts):
            drawn = nonces[first - start : end - start].tobytes()
            found.append(DeliveredRange(lane, first, end, count, drawn))
    return found
