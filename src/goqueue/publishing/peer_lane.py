"""The connection on which batches go to one other node, in the order in which they are given."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError, PeerUnavailableError
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.errors import RequestError
from goqueue.wire.kafka.produce import encode_request
from goqueue.wire.kafka.produce_answers import parse_response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.cluster.peers import PeerConnection
    from goqueue.publishing.routed import RoutedPublish
    from goqueue.topics.routes import Routes
    from goqueue.wire.kafka.primitives import Buffer
    from goqueue.wire.kafka.produce import PartitionResult

_log = logging.getLogger(__name__)

_VERSION: Final = 11
"""The last one that does not add partitions to transactions by writing to them."""
_TIMEOUT_S: Final = 30.0
"""How long a leader waits for its followers before it answers."""


class PeerLane:
    """Sends Produce requests to one node and tells what came of each batch."""

    def __init__(
        self,
        node_id: int,
        routes: Routes,
        on_open: Callable[[], None],
        on_answer: Callable[[RoutedPublish, PartitionResult | GoQueueError], None],
        on_unreachable: Callable[[int, GoQueueError], None],
    ) -> None:
        """`on_open` is called when batches can be sent, `on_unreachable` when they cannot."""
        self.node_id = node_id
        self._routes = routes
        self._on_open = on_open
        self._on_answer = on_answer
        self._on_unreachable = on_unreachable
        self._connection: PeerConnection | None = None
        self._opening: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether `send` may be called."""
        return self._connection is not None and self._connection.is_open

    def open(self) -> None:
        """Connect, unless that is under way."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        try:
            self._connection = await self._routes.peers.dial(self.node_id)
        except GoQueueError as error:
            self._on_unreachable(self.node_id, error)
        else:
            self._on_open()
        finally:
            self._opening = None

    def send(self, batches: Sequence[RoutedPublish]) -> None:
        """Send a batch each for some partitions, alike in acks and transaction."""
        assert self._connection is not None
        topics: dict[str, list[tuple[int, Buffer]]] = {}
        for each in batches:
            topic, number = each.request.partition
            topics.setdefault(topic, []).append((number, each.request.batch))
        first = batches[0]
        timeout_ms = round(_TIMEOUT_S * 1000)
        body = encode_request(first.request.transactional_id, first.acks, timeout_ms, topics)
        answer = self._connection.exchange(ApiKey.PRODUCE, _VERSION, body, _TIMEOUT_S)
        answer.add_done_callback(partial(self._answered, batches))

    def _answered(
        self, batches: Sequence[RoutedPublish], answer: asyncio.Future[memoryview]
    ) -> None:
        lost = None if answer.cancelled() else answer.exception()
        if answer.cancelled() or lost is not None:
            self._fail(batches, lost)
            return
        try:
            told = {
                (topic.name, result.partition): result
                for topic in parse_response(answer.result())
                for result in topic.partitions
            }
        except RequestError as error:
            _log.error("node %d sent an invalid Produce response: %s", self.node_id, error)
            self.close()
            self._fail(batches, error)
            return
        for each in batches:
            result = told.get(each.request.partition)
            if result is None:
                self._fail((each,), None)
            else:
                self._on_answer(each, result)

    def _fail(self, batches: Sequence[RoutedPublish], why: BaseException | None) -> None:
        for each in batches:
            said = f": {why}" if why is not None else ""
            error = PeerUnavailableError(
                f"node {self.node_id} leads {each.request.partition} and gave no answer{said}. The "
                "messages may be stored or not; send them again, which stores them twice unless "
                "the producer numbers them"
            )
            self._on_answer(each, error)

    def close(self) -> None:
        """Hang up; what was sent and not answered fails."""
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.close()
