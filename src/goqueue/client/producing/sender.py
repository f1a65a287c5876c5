"""Sending: batches to the leaders of their partitions, answers back to those who wait.

`_pump` takes what is due out of the lanes and gives it to the broker that leads its partition, up
to a few requests at a time. What is missing for that (a leader, a connection, an identity) is seen
to beside it, and the lane is looked at again then. Everything happens on the loop; only `activate`
and `pump_at` may be called in other threads, by whoever holds the ledger's lock.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goqueue.client.errors import ClientClosedError, DeliveryTimeoutError
from goqueue.client.link.addresses import Address
from goqueue.client.link.codes import error_of
from goqueue.client.producing.deliveries import Stored
from goqueue.client.producing.lanes import Batch, Lane, Refusal
from goqueue.client.producing.supplies import PRODUCE_VERSION, Node, Supplies, Transactional
from goqueue.model.errors import (
    BatchTooLargeError,
    FencedLeaderEpochError,
    GoQueueError,
    NotLeaderError,
    OutOfOrderSequenceError,
    TopicError,
)
from goqueue.records import TRANSACTIONAL
from goqueue.records.compression import Compression
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.produce import DELAYED, encode_request

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from goqueue.client.link.connection import Connection
    from goqueue.client.link.link import Link
    from goqueue.client.producing.ledger import Ledger
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.wire.kafka.reading import Struct

_ACKS: Final = {"all": -1, "leader": 1, "none": 0}
_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""Batches of one request, together; one that is larger goes alone."""
_ANSWER_S: Final = 30.0
"""How long a broker may take to answer, after which the connection is given up; less where a
message would wait for longer than it may."""
_LOOK_S: Final = 1.0
"""How often it is looked whether something has waited for too long."""


class _Sent(NamedTuple):
    """A batch in a request."""

    lane: Lane
    batch: Batch
    flight: int
    """Of the lane: when its batches were lost meanwhile, the answer says nothing any more."""


class Sender:
    """Sends what is in lanes."""

    def __init__(
        self,
        link: Link,
        ledger: Ledger,
        forget_topic: Callable[[str], object],
        transactional: Transactional | None,
    ) -> None:
        """Send over `link`; `forget_topic` is told of topics that are not there."""
        self._link = link
        self._ledger = ledger
        self._settings = link.settings
        self._forget_topic = forget_topic
        self._transactional = transactional
        self._loop = link.check()
        self._thread = threading.get_ident()
        self._active: dict[TopicPartition, Lane] = {}
        """Lanes with something in them."""
        self._supplies = Supplies(link, ledger, self, transactional)
        self._compression = Compression[self._settings.compression.upper()]
        self._wake: asyncio.TimerHandle | asyncio.Handle | None = None
        self._wake_s = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def activate(self, lane: Lane) -> None:
        """There is something in a lane."""
        self._active[lane.place] = lane

    def lanes(self) -> list[Lane]:
        """Those with something in them."""
        return list(self._active.values())

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something beside; then it is looked what can be sent."""
        self._supplies.start(work)

    def topic_is_gone(self, topic: str, error: Exception) -> None:
        """There is no such topic: what waits for it fails."""
        with self._ledger.lock:
            self._forget_topic(topic)
            lanes = [lane for lane in self._active.values() if lane.place.topic == topic]
            failed = [batch for lane in lanes for batch in lane.give_up()]
        self._ledger.failed(failed, error)

    def close_open(self, lane: Lane) -> None:
        """A batch is full, or has waited for long enough: it can be sent."""
        batch = lane.close_open()
        if batch is not None:
            self._ledger.closed(batch.size_bytes)
            self.pump_at(0.0)

    # --- When ------------------------------------------------------------------------------------

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        """Call it on the loop, from whichever thread this is."""
        if threading.get_ident() == self._thread:
            call(*args)
        else:
            self._loop.call_soon_threadsafe(call, *args)

    def pump_at(self, when_s: float) -> None:
        """Look for what is due at a moment, unless that is done before; from any thread."""
        if self._wake is None or self._wake_s > when_s:
            self.soon(self._set_wake, when_s)

    def _set_wake(self, when_s: float) -> None:
        if self._wake is not None:
            if self._wake_s <= when_s:
                return
            self._wake.cancel()
        self._wake_s = when_s
        is_due = when_s <= self._loop.time()
        self._wake = (
            self._loop.call_soon(self._pump) if is_due else self._loop.call_at(when_s, self._pump)
        )
        if self._watch is None:
            self._watch = self._loop.call_later(_LOOK_S, self._expire)

    def _pump(self) -> None:
        """Send what is due, as far as the brokers take it."""
        self._wake = None
        while True:
            with self._ledger.lock:
                requests, due_s = self._take_due(self._loop.time())
            if not requests:
                break
            for node, sent in requests.items():
                self._send(node, sent)
        if due_s is not None:
            self.pump_at(due_s)

    def _take_due(self, now_s: float) -> tuple[dict[Node, list[_Sent]], float | None]:
        """One batch of each lane that has one to send, by broker; and when to look again."""
        requests: dict[Node, list[_Sent]] = {}
        sizes: dict[Node, int] = {}
        next_s: float | None = None
        for lane in self.lanes():
            due_s = lane.due_s()
            if due_s is None:
                if lane.is_idle:
                    del self._active[lane.place]
                continue
            if due_s > now_s:
                next_s = due_s if next_s is None else min(next_s, due_s)
                continue
            node = self._supplies.ready_node(lane)
            if node is None or sizes.get(node, 0) > _REQUEST_BYTES:
                continue
            if not lane.waiting:
                self.close_open(lane)
            batch = lane.take(now_s)
            if batch is not None:
                requests.setdefault(node, []).append(_Sent(lane, batch, lane.flight))
                sizes[node] = sizes.get(node, 0) + batch.size_bytes
        return requests, next_s

    def _send(self, node: Node, sent: list[_Sent]) -> None:
        """Send one request with a batch of each of several partitions."""
        by_topic: dict[str, list[tuple[int, bytearray]]] = {}
        transactional_id, attributes = None, 0
        if self._transactional is not None:
            transactional_id, attributes = self._transactional.transactional_id, TRANSACTIONAL
        for lane, batch, _ in sent:
            data = batch.seal(self._compression, attributes)
            by_topic.setdefault(lane.place.topic, []).append((lane.place.partition, data))
        acks = _ACKS[self._settings.acks]
        body = encode_request(transactional_id, acks, int(_ANSWER_S * 1000), by_topic)
        assert node.connection is not None
        if not acks:
            node.connection.send(ApiKey.PRODUCE, PRODUCE_VERSION, body)
            self._ledger.stored([(lane.stored(), Stored(-1), {}) for lane, _, _ in sent])
            return
        node.in_flight += 1
        opened_s = min(batch.opened_s for _, batch, _ in sent)
        left_s = opened_s + self._settings.delivery_timeout_ms / 1000 - self._loop.time()
        wait_s = min(_ANSWER_S, max(left_s, 0)) - self._settings.call_timeout_ms / 1000
        answer = node.connection.exchange(
            ApiKey.PRODUCE, PRODUCE_VERSION, body, wait_s, is_prompt=True
        )
        answer.add_done_callback(partial(self._answered, node, node.connection, sent))

    # --- Answers ---------------------------------------------------------------------------------

    def _answered(
        self,
        node: Node,
        connection: Connection,
        sent: list[_Sent],
        future: asyncio.Future[memoryview],
    ) -> None:
        node.in_flight -= 1
        lost: BaseException | None = (
            asyncio.CancelledError() if future.cancelled() else future.exception()
        )
        if lost is None:
            try:
                answer = connection.parse(future.result(), ApiKey.PRODUCE, PRODUCE_VERSION)
                results = _results(connection, sent, answer)
            except GoQueueError as error:
                lost = error
        if lost is None:
            node.failures = 0
            for each in answer.node_endpoints:
                self._link.metadata.nodes[each.node_id] = Address(each.host, each.port)
            self._take_results(sent, results)
        else:
            node.failures += 1
            self._ledger.last_error = (
                lost if isinstance(lost, Exception) else self._ledger.last_error
            )
            with self._ledger.lock:
                for lane, _, flight in sent:
                    if lane.flight == flight:
                        lane.lost()
        self.pump_at(0.0)

    def _take_results(self, sent: list[_Sent], results: dict[tuple[str, int], Struct]) -> None:
        stored: list[tuple[Batch, Stored, dict[int, tuple[int | None, int]]]] = []
        failed: list[tuple[Batch, Exception]] = []
        with self._ledger.lock:
            for lane, batch, flight in sent:
                if lane.flight != flight:
                    continue  # it was given up meanwhile
                result = results[batch.place]
                if result.error_code:
                    self._refused(lane, result, failed)
                else:
                    placed = Stored(result.base_offset, result.log_append_time_ms)
                    stored.append((lane.stored(), placed, delayed_ids(result)))
        self._ledger.stored(stored)
        for each, error in failed:
            self._ledger.failed([each], error)

    def _refused(self, lane: Lane, result: Struct, failed: list[tuple[Batch, Exception]]) -> None:
        error = error_of(result.error_code, result.error_message)
        refusal = Refusal.FOR_NOW if error.retriable else Refusal.FINAL
        if isinstance(error, OutOfOrderSequenceError):
            refusal = Refusal.OUT_OF_ORDER
        elif isinstance(error, BatchTooLargeError) or result.record_errors:
            refusal = Refusal.TOO_LARGE  # in halves, until what cannot be stored is alone
        elif isinstance(error, NotLeaderError | FencedLeaderEpochError):
            refusal = Refusal.ELSEWHERE
            self._link.misled(lane.place, result.current_leader)
        elif isinstance(error, TopicError):
            self._link.metadata.forget(lane.place.topic)
            self._forget_topic(lane.place.topic)
        self._ledger.last_error = error
        given_up = lane.refused(refusal, self._loop.time())
        if given_up is not None:
            failed.append((given_up, error))

    def _expire(self) -> None:
        """Give up what has waited for too long."""
        self._watch = None
        timeout_s = self._settings.delivery_timeout_ms / 1000
        with self._ledger.lock:
            before_s = self._loop.time() - timeout_s
            failed = []
            for lane in self._active.values():
                if lane.open is not None and lane.open.opened_s < before_s:
                    self.close_open(lane)
                failed += lane.expired(before_s)
        for batch in failed:
            self._ledger.failed(
                [batch],
                DeliveryTimeoutError(
                    f"{batch.count} messages for {batch.place.topic}-{batch.place.partition} were "
                    f"not acknowledged by {self._link} within {timeout_s:g} s; last: "
                    f"{self._ledger.last_error or 'no answer'}"
                ),
            )
        if self._active and not self._is_stopped:
            self._watch = self._loop.call_later(_LOOK_S, self._expire)
            self.pump_at(0.0)

    def stop(self) -> None:
        """Send nothing more; what waits fails."""
        self._is_stopped = True
        for handle in (self._wake, self._watch):
            if handle is not None:
                handle.cancel()
        self._supplies.stop()
        with self._ledger.lock:
            left = [batch for lane in self._active.values() for batch in lane.give_up()]
            self._active.clear()
        self._ledger.failed(
            left, ClientClosedError("the client was closed before this was acknowledged")
        )


def _results(
    connection: Connection, sent: list[_Sent], answer: Struct
) -> dict[tuple[str, int], Struct]:
    """What became of each batch of a request.

    Raises:
        UnexpectedAnswerError: the answer does not say; the connection is given up.
    """
    results = {
        (topic.name, each.index): each
        for topic in answer.responses
        for each in topic.partition_responses
    }
    for _, batch, _ in sent:
        result = results.get(batch.place)
        if result is None or len(result.delayed) % DELAYED.size:
            missing = ValueError(f"it does not say what became of a batch for {batch.place}")
            raise connection.misunderstood(ApiKey.PRODUCE, missing)
    return results


def delayed_ids(result: Struct) -> dict[int, tuple[int | None, int]]:
    """Ids and due times of the messages of a batch that wait, by their places in it."""
    return {
        at: (delayed_id if delayed_id >= 0 else None, due_ms)
        for at, delayed_id, due_ms in DELAYED.iter_unpack(result.delayed)
    }
