"""From the answer to a fetch to messages: ranges of deliveries, and the rows that they are of."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, TypeVar

from goqueue.client.queues.acknowledgements import NACK, Acknowledgement
from goqueue.client.queues.deliveries import NONCE_BYTES, Deliveries
from goqueue.client.queues.messages import Delivered
from goqueue.model.delivery import Priority
from goqueue.model.errors import BatchError
from goqueue.records import decode_messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from goqueue.client.queues.messages import Owner
    from goqueue.records import Messages
    from goqueue.wire.kafka.reading import Struct

M = TypeVar("M", bound=Delivered)


def received(
    answer: Struct, names: Mapping[UUID, str], owner: Owner, kind: type[M], until_s: float
) -> tuple[list[tuple[Deliveries, list[M]]], list[tuple[Deliveries, Acknowledgement]]]:
    """What was handed over, the most urgent first; and what of it cannot be read, and why."""
    found: list[tuple[Deliveries, list[M]]] = []
    broken: list[tuple[Deliveries, Acknowledgement]] = []
    for topic in answer.responses:
        for part in topic.partitions:
            if not part.acquired_records:
                continue
            ranges = list(_ranges(topic.topic_id, part, owner, until_s))
            try:
                messages = decode_messages(
                    names[topic.topic_id], part.partition_index, part.records or b""
                )
                found += [(each, _rows(messages, each, kind)) for each in ranges]
            except (BatchError, KeyError) as error:
                said = Acknowledgement(NACK, f"the client cannot read it: {error}", is_quiet=True)
                broken += [(each, said) for each in ranges]
    found.sort(key=lambda each: each[0].lane)
    return found, broken


def _ranges(topic_id: UUID, part: Struct, owner: Owner, until_s: float) -> Iterator[Deliveries]:
    nonces, at = memoryview(part.nonces), 0
    for number, each in enumerate(part.acquired_records):
        end = at + (each.last_offset - each.first_offset + 1) * NONCE_BYTES
        yield Deliveries(
            owner,
            topic_id,
            part.partition_index,
            first=each.first_offset,
            count=each.delivery_count,
            lane=part.lanes[number] if part.lanes else Priority.NORMAL,
            nonces=nonces[at:end],
            until_s=until_s,
        )
        at = end


def _rows(messages: Messages, deliveries: Deliveries, kind: type[M]) -> list[M]:
    """The messages of a range.

    Raises:
        BatchError: they are not there.
    """
    count = deliveries.left
    start = deliveries.first - messages.offset(0) if len(messages) else 0
    if not 0 <= start < len(messages) or messages.offset(start) != deliveries.first:
        start = bisect_left(messages.offsets(), deliveries.first)
    rows = messages.rows(kind, start, start + count)
    if len(rows) != count or rows[-1].offset != deliveries.first + count - 1:
        raise BatchError(
            f"offsets {deliveries.first} to {deliveries.first + count - 1} are missing"
        )
    for at, row in enumerate(rows):
        row.deliveries = deliveries
        row.at = at
    return rows
