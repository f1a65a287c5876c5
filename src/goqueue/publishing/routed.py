"""A batch on its way to the node that leads its partition, and what became of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from goqueue.model.error_names import named_error
from goqueue.partitions.partition import Placed
from goqueue.publishing.requests import Acks
from goqueue.records.batch import peek

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.model.errors import GoQueueError
    from goqueue.publishing.deferred import DeferredPublish
    from goqueue.publishing.delivery_headers import Delayed
    from goqueue.publishing.requests import Published, PublishRequest
    from goqueue.wire.kafka.produce import PartitionResult

_NOWHERE: Final = Placed(-1, -1)


class RoutedPublish:
    """What `Published` says, once `durable` was awaited, of a batch that another node may lead."""

    __slots__ = (
        "append_time_ms",
        "count",
        "delayed",
        "durable",
        "give_up_s",
        "has_producer",
        "log_start",
        "number",
        "placed",
        "request",
        "stored_count",
    )

    def __init__(self, request: PublishRequest, number: int, give_up_s: float) -> None:
        info = peek(request.batch)
        self.request = request
        self.number = number
        """Counts the batches of a router: those of one partition leave in this order."""
        self.give_up_s = give_up_s
        """Until then a leader is waited for."""
        self.count = info.count
        self.has_producer = info.has_producer
        """Its leader knows it again: it may be sent twice."""
        self.durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.placed = _NOWHERE
        self.log_start = -1
        self.append_time_ms = -1
        self.delayed: Sequence[Delayed] = ()
        self.stored_count = 0

    @property
    def acks(self) -> int:
        """What the leader is to wait for; it always answers, because clients are told offsets."""
        acks = self.request.acks
        return Acks.LEADER if acks is Acks.NONE else acks

    def store(self, result: PartitionResult) -> None:
        """The leader has it, and has answered."""
        first = result.base_offset
        self.placed = Placed(first, first + self.count, result.is_duplicate)
        self.log_start = result.log_start_offset
        self.append_time_ms = result.log_append_time_ms
        self.delayed = [
            (at, None if delayed_id < 0 else delayed_id, due_ms)
            for at, delayed_id, due_ms in result.delayed
        ]
        self.stored_count = self.count - len(self.delayed)

    def store_here(self, published: Published | DeferredPublish) -> None:
        """This node has come to lead the partition meanwhile."""
        self.placed = published.placed
        self.log_start = published.log_start
        self.append_time_ms = published.append_time_ms
        self.delayed = published.delayed
        self.stored_count = published.stored_count

    def settle(self, error: GoQueueError | None) -> None:
        """It is stored; or it is refused, or nobody knows what became of it."""
        if self.durable.done():
            return  # whoever asked is gone
        if error is None:
            self.durable.set_result(None)
        else:
            self.durable.set_exception(error)
            self.durable.exception()


def refusal_of(result: PartitionResult) -> GoQueueError:
    """What the leader has against a batch, as the class that it had there."""
    refused = {at: text or "" for at, text in result.record_errors}
    return named_error(result.error_name, result.error_message, refused)
