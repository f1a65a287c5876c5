"""Acknowledgements of clients that show the nonces of their deliveries, as a receipt does.

A nonce tells the delivery of a message from every other one, also to the same member: what has
expired and was redelivered is not acknowledged by who had it before.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from goqueue.model.errors import ReceiptError, UnknownReceiptError
from goqueue.model.tuples import NamedTuple
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.receipts import refusal_by_nonce

if TYPE_CHECKING:
    from goqueue.model.ranges import Range
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.queues.delivery.decisions import Acknowledgement
    from goqueue.queues.delivery.queue import PartitionQueue


class Settlement(NamedTuple):
    """What became of messages of one partition."""

    acknowledgement: Acknowledgement
    ranges: list[Range]
    nonces: bytes
    """Eight bytes a message, in the order of the ranges."""


class Unsettled(NamedTuple):
    """A message whose acknowledgement does not count."""

    offset: int
    nonce: int
    error: ReceiptError


def held_by_nonces(
    queue: PartitionQueue | None, place: TopicPartition, settlement: Settlement, now_ms: int
) -> tuple[list[Range], list[Unsettled]]:
    """The messages that are in the deliveries shown, in order, and why the others are not."""
    ranges, nonces = settlement.ranges, settlement.nonces
    if queue is None:
        gone = f"the group does not read {place}, or not any more"
        return [], [
            Unsettled(offset, nonce, UnknownReceiptError(gone))
            for offset, nonce in _each(ranges, nonces)
        ]
    held = ops.joined(ranges)
    if len(nonces) == 8 * sum(end - first for first, end in held):
        window, drawn = queue.window, 0
        for first, end in ranges:
            upto = drawn + 8 * (end - first)
            if not window.is_held(first, end, nonces[drawn:upto], now_ms):
                break
            drawn = upto
        else:
            return held, []
    return _one_by_one(queue, place, settlement, now_ms)


def _one_by_one(
    queue: PartitionQueue, place: TopicPartition, settlement: Settlement, now_ms: int
) -> tuple[list[Range], list[Unsettled]]:
    held: dict[int, int] = {}
    failed: list[Unsettled] = []
    for offset, nonce in _each(settlement.ranges, settlement.nonces):
        error = refusal_by_nonce(queue, place, offset, nonce, now_ms)
        if error is None and offset in held:
            error = UnknownReceiptError(f"offset {offset} of {place} is there twice")
        if error is None:
            held[offset] = nonce
        else:
            failed.append(Unsettled(offset, nonce, error))
    return ops.ranges_of(held), failed


def _each(ranges: list[Range], nonces: bytes) -> zip[tuple[int, int]]:
    offsets = (offset for first, end in ranges for offset in range(first, end))
    return zip(offsets, array("Q", nonces), strict=True)
