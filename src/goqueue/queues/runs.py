"""Messages that were handed out together, kept in columns: for streams that deliver many.

A stream names its deliveries by small numbers. What a receipt would say is kept here for all
messages of a run at once, so that neither delivering nor settling one costs an object.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from goqueue.model.topic_partition import TopicIdPartition
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.queue import PartitionQueue
from goqueue.queues.delivery.receipts import Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.queues.acquired_batch import Portion
    from goqueue.records import Record


class Run(msgspec.Struct, eq=False):
    """Messages of one partition and one lane that one member was handed at once."""

    topic: str
    partition: int
    key: TopicIdPartition
    lane: int
    lease: int
    queue: PartitionQueue
    """As it was then: in one that was built anew, leases are other leases."""
    deadline_ms: int
    shard: int | None = None
    """What keeps the group, in a cluster."""
    offsets: list[int] = msgspec.field(default_factory=list)
    counts: bytearray = msgspec.field(default_factory=bytearray)
    nonces: array[int] = msgspec.field(default_factory=lambda: array("Q"))

    def receipt(self, place: int) -> Receipt:
        """The receipt of the message at a place of the run."""
        return Receipt(
            self.topic,
            self.partition,
            self.offsets[place],
            self.counts[place],
            self.nonces[place],
            self.shard,
        )

    def part(self, places: list[int]) -> Run:
        """Some of the messages, as a run of their own."""
        return replace(
            self,
            offsets=[self.offsets[place] for place in places],
            counts=bytearray(self.counts[place] for place in places),
            nonces=array("Q", [self.nonces[place] for place in places]),
        )

    def is_held(self, queue: PartitionQueue, offsets: list[int], now_ms: int) -> bool:
        """Whether the member still has all of these as they were handed to it, and none is twice.

        When not, it takes a look at each receipt to tell: one that was extended has another lease.
        """
        lease = queue.window.leases.get(self.lease)
        if lease is None or lease.deadline_ms <= now_ms:
            return False
        held = sum(
            end - first
            for range_ in ops.ranges_of(offsets)
            for first, end, number in queue.window.flights(*range_)
            if number == self.lease
        )
        return held == len(offsets)


def runs_of(portions: Iterable[Portion]) -> list[tuple[Run, list[Record]]]:
    """What was acquired, with its records, the most urgent first."""
    found: dict[tuple[int, int], tuple[Run, list[Record]]] = {}
    for number, portion in enumerate(portions):
        for lane, batch, first, end, counts, nonces in portion.spans():
            known = found.get((lane, number))
            if known is None:
                known = found[lane, number] = (_run(portion, lane), [])
            run, records = known
            rows = batch.rows(first, end)
            records += rows
            if len(rows) == end - first:
                run.offsets += range(first, end)
                run.counts += counts
                run.nonces += nonces
                continue
            for record in rows:
                run.offsets.append(record.offset)
                run.counts.append(counts[record.offset - first])
                run.nonces.append(nonces[record.offset - first])
    return [found[place] for place in sorted(found)]


def _run(portion: Portion, lane: int) -> Run:
    topic, number = portion.partition.id
    return Run(
        topic,
        number,
        portion.key,
        lane,
        portion.reservation.lease,
        portion.queue,
        portion.deadline_ms,
        portion.shard,
    )
