"""Publishing: `add` puts a message into the batch of its partition, at once.

Sending happens behind it, on the loop. `add` and `add_rows` may be called in another thread by
whoever holds `lock`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from goqueue.client.link.link import TOPIC_AGE_S
from goqueue.client.producing.deliveries import Delivery, Fate
from goqueue.client.producing.lanes import Batch, Lane
from goqueue.client.producing.ledger import Ledger
from goqueue.client.producing.routes import Route
from goqueue.client.producing.rows import BatchRows, Part, Rows, parts
from goqueue.client.producing.sender import Sender
from goqueue.model.errors import UnknownTopicError
from goqueue.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.client.link.link import Link
    from goqueue.client.producing.supplies import Transactional
    from goqueue.client.types import Content, Headers, SendStats

_now_ms: Final = SystemClock().now_ms

D = TypeVar("D", bound=Delivery)


class Producer(Generic[D]):
    """Puts messages into batches, and has them sent."""

    def __init__(
        self,
        link: Link,
        make: Callable[[Fate, int, int], D],
        transactional: Transactional | None = None,
    ) -> None:
        """Send over `link`; `make` makes the handles."""
        self.loop: Final = link.check()
        self.ledger: Final = Ledger(link.settings)
        self.lock: Final = self.ledger.lock
        self.is_busy = False
        """A batch was closed: there is something to send at once."""
        self._link = link
        self._settings = link.settings
        self._make = make
        self._routes: dict[str, Route] = {}
        self._sender = Sender(link, self.ledger, self._forget, transactional)
        self._most_messages = link.settings.batch_messages
        self._linger_s = link.settings.linger_ms / 1000

    @property
    def stats(self) -> SendStats:
        """What became of the messages so far."""
        return self.ledger.stats

    def _forget(self, topic: str) -> None:
        """Look a topic up again before it is next used."""
        self._routes.pop(topic, None)

    # --- In --------------------------------------------------------------------------------------

    def add(  # noqa: PLR0917 - called for each message, and keywords cost
        self,
        topic: str,
        value: Content,
        key: Content,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
        *,
        says_delivery: bool = False,
    ) -> D | None:
        """Put a message into a batch; None when its topic must be looked up or there is no room.

        Raises:
            UnknownPartitionError: there is no such partition.
            BatchTooLargeError: no batch can hold it.
            TypeError: what it is made of is not what messages are made of.
        """
        route = self._routes.get(topic)
        if route is None or self.ledger.is_full:
            return None
        number = route.number(key, partition)
        lane = route.lanes.get(number)
        batch = lane.open if lane is not None else None
        if batch is None:
            if key is None and partition is None:
                number = route.next_turn()
            batch = self._begin(route, number)
        if timestamp_ms is None:
            timestamp_ms = _now_ms()
        at = batch.add(value, key, headers, timestamp_ms)
        if at < 0:
            if key is None and partition is None:
                number = route.next_turn()
            batch = self._begin(route, number)
            at = batch.add(value, key, headers, timestamp_ms)
        if says_delivery:
            batch.says_delivery()
        if at + 1 == self._most_messages:
            self._close(route.lanes[number])
        self.ledger.taken(1)
        return self._make(batch.fate, at, timestamp_ms)

    def add_rows(self, topic: str, rows: Rows, part: Part) -> BatchRows | None:
        """Put rows of one part into a batch; None when the topic is not known or there is no room.

        Raises:
            TypeError: what a row is made of is not what messages are made of.
        """
        route = self._routes.get(topic)
        if route is None or self.ledger.is_full:
            return None
        number = route.turn if part.partition is None else part.partition
        while True:
            lane = route.lanes.get(number)
            batch = lane.open if lane is not None else None
            if batch is None:
                number = route.next_turn() if part.partition is None else number
                batch = self._begin(route, number)
            first, taken = self._take_rows(batch, rows, part)
            if taken:
                break
            number = route.next_turn() if part.partition is None else number
            self._begin(route, number)
        if first + taken >= self._most_messages:
            self._close(route.lanes[number])
        return part.took(batch.fate, first, taken)

    def _take_rows(self, batch: Batch, rows: Rows, part: Part) -> tuple[int, int]:
        """Put rows into a batch; the place of the first, and how many were taken."""
        assert batch.builder is not None
        first = batch.builder.count
        try:
            batch.builder.add_many(
                rows.values, rows.keys, rows.timestamps_ms, part.numbers, part.start
            )
        finally:  # one that is wrong leaves those before it in the batch
            taken = batch.builder.count - first
            self.ledger.taken(taken)
        return first, taken

    async def put_rows(self, topic: str, rows: Rows) -> list[BatchRows]:
        """All of them, as there is room."""
        runs: list[BatchRows] = []
        await self.ready(topic)
        for part in parts(rows, self._routes[topic]):
            while part.left:
                run = self.add_rows(topic, rows, part)
                if run is None:
                    await self.ready(topic)
                    continue
                runs.append(run)
                await self.breathe()
        return runs

    def _begin(self, route: Route, number: int) -> Batch:
        """Begin a batch; the one before is sent."""
        now_s = self.loop.time()
        lane = route.lanes.get(number)
        if lane is None:
            lane = route.lanes[number] = Lane(route.place(number), self._settings)
        if lane.open is not None:
            self._close(lane)
        elif route.until_s < now_s:
            route.until_s = now_s + TOPIC_AGE_S
            look_up = partial(self._look_up, route.topic, max_age_s=0.0)
            self._sender.soon(self._sender.start, look_up)
        self._sender.activate(lane)
        self._sender.pump_at(now_s + self._linger_s)
        return lane.begin(now_s)

    def _close(self, lane: Lane) -> None:
        """A batch is full: it is sent at once."""
        self.is_busy = True
        self._sender.close_open(lane)

    async def put(self, topic: str, *message: Any, says_delivery: bool = False) -> D:
        """`add`, and what has to be waited for before.

        Raises:
            UnknownTopicError: there is no such topic.
            BufferFullError: the buffer is full, and `when_full` is `raise`.
        """
        while True:
            await self.ready(topic)
            delivery = self.add(topic, *message, says_delivery=says_delivery)
            if delivery is not None:
                return delivery

    async def ready(self, topic: str) -> None:
        """Until the topic is known and there is room; raises as `put`."""
        self.ledger.check()
        if not isinstance(topic, str):
            raise TypeError(f"a topic is named by a str, not {type(topic).__name__}")
        if topic not in self._routes:
            await self._look_up(topic)
        await self.ledger.wait_for_room()

    async def renew(self, topic: str) -> None:
        """Look a topic up again: it may have more partitions by now. Raises as `put`."""
        await self._look_up(topic, max_age_s=0.0)

    def knows(self, topic: str) -> bool:
        """Whether the topic needs no looking up."""
        return topic in self._routes

    def refused(self, topic: str, error: Exception) -> D:
        """The handle of a message that could not even be put into a batch."""
        fate = Fate(topic, -1)
        fate.settle(error=error)
        self.ledger.refused(error)
        return self._make(fate, 0, _now_ms())

    async def breathe(self) -> None:
        """Let the loop send what has filled up, when something has."""
        if self.is_busy:
            self.is_busy = False
            await asyncio.sleep(0)

    async def _look_up(self, topic: str, max_age_s: float = TOPIC_AGE_S) -> None:
        """Learn how many partitions a topic has."""
        try:
            view = await self._link.topic(topic, max_age_s=max_age_s)
        except UnknownTopicError:
            self._routes.pop(topic, None)
            raise
        with self.lock:
            known = self._routes.get(topic)
            until_s = self.loop.time() + TOPIC_AGE_S
            if known is None:
                self._routes[topic] = Route(topic, view.count, until_s)
            else:
                known.count, known.until_s = view.count, until_s

    # --- The end ---------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Send everything and wait until it is settled; see `AsyncClient.flush`."""
        with self.lock:
            lanes = self._sender.lanes()
            for lane in lanes:
                self._close(lane)
            fates = [batch.fate for lane in lanes for batch in lane.batches()]
        for fate in fates:
            await fate.settled()
        failure, self.ledger.failure = self.ledger.failure, None
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """Flush, then stop."""
        self.ledger.close()
        with self.lock:
            self._routes.clear()
        try:
            await self.flush()
        finally:
            self.stop()

    def stop(self) -> None:
        """Send nothing more; what waits fails."""
        self.ledger.close()
        self._sender.stop()
