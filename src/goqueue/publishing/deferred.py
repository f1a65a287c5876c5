"""A batch that cannot be stored at once, and what became of it later."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from goqueue.partitions.partition import Placed
from goqueue.wire.kafka.replies import future_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.publishing.delivery_headers import Delayed
    from goqueue.publishing.requests import Published


class DeferredPublish:
    """Stands for `Published`; its fields hold once `durable` was awaited."""

    __slots__ = (
        "append_time_ms",
        "delayed",
        "durable",
        "log_start",
        "placed",
        "stored_count",
    )

    def __init__(self) -> None:
        self.placed = Placed(-1, -1)
        self.log_start = -1
        self.append_time_ms = -1
        self.delayed: Sequence[Delayed] = ()
        self.stored_count = 0
        self.durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def follow(self, published: Published | DeferredPublish) -> None:
        """The batch is stored, or at least on its way: what becomes of it becomes of this."""
        if published.durable is None:
            self._take(published)
            return
        waited_for = future_of(published.durable)
        waited_for.add_done_callback(lambda future: self._settle(published, future))

    def _settle(self, published: Published | DeferredPublish, future: asyncio.Future[None]) -> None:
        if future.cancelled():
            self.durable.cancel()
            return
        error = future.exception()
        if error is None:
            self._take(published)
        else:
            self.fail(error)

    def _take(self, published: Published | DeferredPublish) -> None:
        self.placed = published.placed
        self.log_start = published.log_start
        self.append_time_ms = published.append_time_ms
        self.delayed = published.delayed
        self.stored_count = published.stored_count
        if not self.durable.done():
            self.durable.set_result(None)

    def fail(self, error: BaseException) -> None:
        """The batch is not stored, or nobody knows."""
        if not self.durable.done():
            self.durable.set_exception(error)
            self.durable.exception()  # seen: whoever waits may be gone, and the loop would complain
