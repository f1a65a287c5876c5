"""What a lane needs before its next batch can be sent: a leader, a connection, an identity.

What is missing is seen to beside everything else, once at a time, and tried again after a pause;
then the sender looks at its lanes again. Failures show in what becomes of the messages.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from goqueue.client.link.codes import check_code
from goqueue.client.link.connection import check_version
from goqueue.client.producing.lanes import NO_IDENTITY, Identity, Lane
from goqueue.model.errors import GoQueueError, UnknownTopicError
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

    from goqueue.client.link.connection import Connection
    from goqueue.client.link.link import Link
    from goqueue.client.producing.ledger import Ledger

_log = logging.getLogger(__name__)

PRODUCE_VERSION: Final = 12
_INIT_PRODUCER_ID: Final = 5
_LANE: Final = "produce"
_IN_FLIGHT: Final = 5
"""Requests to one broker that wait for their answers."""


class Transactional(NamedTuple):
    """The transactional id that everything is sent under, as the broker knows it."""

    transactional_id: str
    identity: Identity


class Node:
    """One broker, as batches are sent to it."""

    __slots__ = ("connection", "failures", "in_flight", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.in_flight = 0
        self.connection: Connection | None = None
        self.failures = 0
        """Connections in a row that were not made, or lost before they answered."""


class Lanes(Protocol):
    """Whose lanes are supplied."""

    def lanes(self) -> list[Lane]:
        """Those with something in them."""

    def pump_at(self, when_s: float) -> None:
        """Look at them again."""

    def topic_is_gone(self, topic: str, error: Exception) -> None:
        """There is no such topic."""


class Supplies:
    """Finds leaders, connects to them, and gives lanes their identities."""

    def __init__(
        self, link: Link, ledger: Ledger, sender: Lanes, transactional: Transactional | None
    ) -> None:
        self._link = link
        self._ledger = ledger
        self._settings = link.settings
        self._sender = sender
        self._transactional = transactional
        self._nodes: dict[int, Node] = {}
        self._identity: Identity | None = None
        self._identifying = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: set[Hashable] = set()
        self._failures = 0

    def stop(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something beside; then it is looked what can be sent."""
        task = asyncio.get_running_loop().create_task(self._quietly(work), name="goqueue producer")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _quietly(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Work whose failure shows in what becomes of the messages."""
        try:
            await work()
        except GoQueueError as error:
            self._ledger.last_error = error
            _log.info("the producer goes on after: %s", error)
        self._sender.pump_at(0.0)

    def ready_node(self, lane: Lane) -> Node | None:
        """The broker that takes the lane's next batch; None while something is missing for that.

        What is missing is being seen to, and the lane is looked at again then.
        """
        led = self._link.metadata.led(lane.place)
        if led is None or led.node not in self._link.metadata.nodes:
            self._once(("leader", lane.place.topic), self._find_leaders, lane.place.topic)
            return None
        if lane.identity is None:
            self._once(("identity", lane.place), self._identify, lane)
            return None
        node = self._nodes.get(led.node)
        if node is None:
            node = self._nodes[led.node] = Node(led.node)
        if node.connection is None or not node.connection.is_open:
            self._once(("connection", node), self._connect, node)
            return None
        return node if node.in_flight < _IN_FLIGHT else None

    def _once(
        self, what: Hashable, work: Callable[..., Coroutine[Any, Any, None]], *args: Any
    ) -> None:
        """Start it, unless it is under way."""
        if what not in self._under_way:
            self._under_way.add(what)
            self.start(partial(self._then_forget, what, partial(work, *args)))

    async def _then_forget(
        self, what: Hashable, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        try:
            await work()
        finally:
            self._under_way.discard(what)

    async def _find_leaders(self, topic: str) -> None:
        self._failures += 1
        try:
            await self._link.refresh((topic,))
        except UnknownTopicError as error:
            self._sender.topic_is_gone(topic, error)
            raise
        except GoQueueError:
            await asyncio.sleep(self._settings.backoff_s(self._failures))
            raise
        if all(led.node < 0 for led in self._link.metadata.topics[topic].partitions.values()):
            await asyncio.sleep(self._settings.backoff_s(self._failures))
            self._link.metadata.forget(topic)
        else:
            self._failures = 0

    async def _connect(self, node: Node) -> None:
        if node.failures:
            await asyncio.sleep(self._settings.backoff_s(node.failures))
        try:
            node.connection = await self._link.to_node(node.number, _LANE)
            check_version(node.connection, ApiKey.PRODUCE, PRODUCE_VERSION)
        except GoQueueError:
            node.failures += 1
            for lane in self._sender.lanes():  # somebody else may lead them now
                led = self._link.metadata.led(lane.place)
                if led is not None and led.node == node.number:
                    self._link.metadata.forget(lane.place.topic)
            raise

    async def _identify(self, lane: Lane) -> None:
        """Give a lane the name by which the broker knows its batches."""
        if not self._settings.idempotent or self._settings.acks == "none":
            lane.identify(NO_IDENTITY)
            return
        if self._transactional is not None:
            lane.identify(self._transactional.identity)
            return
        if lane.was_identified:
            lane.identify(await self._new_identity())
            return
        async with self._identifying:
            if self._identity is None:
                self._identity = await self._new_identity()
        lane.identify(self._identity)

    async def _new_identity(self) -> Identity:
        answer = await self._link.ask(
            ApiKey.INIT_PRODUCER_ID,
            _INIT_PRODUCER_ID,
            transactional_id=None,
            transaction_timeout_ms=0,
            producer_id=-1,
            producer_epoch=-1,
        )
        check_code(answer.error_code, "asking for a producer id")
        return Identity(answer.producer_id, answer.producer_epoch)
