"""Reads a set of partitions from their leaders, ahead of the program that takes the messages.

One connection a broker, with one Fetch under way on it: it is sent as soon as the answer before it
has come, so the broker works on it while the program works on what is there. Nothing is sent while
the buffer is full.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from goqueue.client.consuming.decoding import Chunk, Decode, Fetched
from goqueue.client.consuming.fetch_session import FetchSession
from goqueue.client.consuming.log_offsets import MISLED, READ_COMMITTED
from goqueue.client.errors import BrokerUnavailableError
from goqueue.client.link.addresses import Address
from goqueue.client.link.codes import check_code, error_of
from goqueue.client.link.connection import check_version
from goqueue.model.errors import (
    BatchError,
    ChecksumMismatchError,
    GoQueueError,
    UnknownPartitionError,
    UnknownTopicError,
)
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from uuid import UUID

    from goqueue.client.link.connection import Connection
    from goqueue.client.link.link import Link
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.wire.kafka.reading import Struct

_log = logging.getLogger(__name__)

_FETCH: Final = 17
_MAX_WAIT_MS: Final = 500
"""How long a broker waits for messages; a partition that is added is read after that."""
_MAX_BYTES: Final = 4 * 1024 * 1024
"""Of one answer, unless its first batch is larger."""
_MAX_PARTITION_BYTES: Final = 1024 * 1024
_MAX_DAMAGED: Final = 3
"""How often a batch is fetched whose checksum is wrong each time, before the reader is told."""
_SESSION_LOST: Final = frozenset(
    {ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch}
)

_numbers: Final = count(1)


class Buffer(Protocol):
    """Where messages wait for the program."""

    @property
    def has_room(self) -> bool:
        """Whether more may be fetched."""

    def put(self, chunk: Chunk) -> None:
        """Messages have come."""

    def fail(self, error: Exception) -> None:
        """No more will come."""


class Reading:
    """One partition that is read."""

    __slots__ = (
        "asked",
        "broker",
        "damaged",
        "failures",
        "is_out_of_range",
        "leader_epoch",
        "offset",
        "place",
        "topic_id",
        "until",
    )

    def __init__(
        self, place: TopicPartition, topic_id: UUID, offset: int, until: int | None
    ) -> None:
        self.place = place
        self.topic_id = topic_id
        self.offset = offset
        """Where to read on."""
        self.until = until
        self.asked = -1
        """The offset of the last request; an answer to another one is too late."""
        self.is_out_of_range = False
        """Whether the broker has nothing at the offset."""
        self.leader_epoch = -1
        self.broker: _Broker | None = None
        """Who is asked; None when that must be looked up first."""
        self.failures = 0
        """How often in a row it could not be read."""
        self.damaged = 0
        """How often the batch at the offset had a wrong checksum."""

    @property
    def key(self) -> tuple[UUID, int]:
        """How a Fetch names it."""
        return self.topic_id, self.place.partition


class _Broker:
    """What is read from one broker."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.readings: dict[tuple[UUID, int], Reading] = {}
        self.session = FetchSession(_MAX_PARTITION_BYTES)
        self.is_busy = False


class Fetcher:
    """Reads partitions into a buffer until it is closed; a lost broker is waited for.

    Args:
        link: The cluster.
        buffer: Where messages go.
        decode: What is made of the batches of a fetch.
        relocate: Where to read on in a partition that has nothing at an offset.
        is_patient: Whether to wait for a topic that is deleted, because somebody else says when to
            stop; otherwise the buffer is told.
    """

    def __init__(
        self,
        link: Link,
        buffer: Buffer,
        decode: Decode,
        relocate: Callable[[TopicPartition, int], Awaitable[int]],
        *,
        is_patient: bool = False,
    ) -> None:
        self._link = link
        self._buffer = buffer
        self._decode = decode
        self._relocate = relocate
        self._is_patient = is_patient
        self._lane: Final = f"fetch {next(_numbers)}"
        self._readings: dict[TopicPartition, Reading] = {}
        self._unsettled: dict[TopicPartition, Reading] = {}
        """Those whose leader or offset must be looked up."""
        self._brokers: dict[int, _Broker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_settling = False
        self._is_closed = False

    @property
    def is_done(self) -> bool:
        """Whether every partition has been read up to its end."""
        return not self._readings

    def add(
        self, place: TopicPartition, topic_id: UUID, offset: int, until: int | None = None
    ) -> None:
        """Read a partition from an offset on, up to an end if there is one."""
        self.remove((place,))
        if until is None or offset < until:
            reading = Reading(place, topic_id, offset, until)
            self._readings[place] = self._unsettled[place] = reading

    def remove(self, places: Iterable[TopicPartition]) -> None:
        """Read partitions no more; what is under way of them is dropped."""
        for place in tuple(places):
            reading = self._readings.pop(place, None)
            if reading is not None:
                self._unsettled.pop(place, None)
                self._detach(reading)

    def clear(self) -> None:
        """Read nothing any more."""
        self.remove(tuple(self._readings))

    async def close(self) -> None:
        """End, and close the connections."""
        self._is_closed = True
        self.clear()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._link.hang_up(self._lane)

    def poke(self) -> None:
        """Fetch whatever can be fetched now; to be called when partitions or room were added."""
        if self._is_closed:
            return
        if self._unsettled and not self._is_settling:
            self._is_settling = True
            self._start(self._settle)
        self._fetch_settled()

    def _start(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        task = asyncio.create_task(self._guarded(work, *args), name="goqueue fetcher")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Whatever goes wrong is told: nobody must wait for what will never come."""
        try:
            await work(*args)
        except Exception as error:  # noqa: BLE001 - it reaches whoever reads
            self._buffer.fail(self._link.reason(error))

    # --- Who is asked, and for what ---------------------------------------------------------------

    def _detach(self, reading: Reading) -> None:
        if reading.broker is not None:
            reading.broker.readings.pop(reading.key, None)
            reading.broker = None

    def _unsettle(self, reading: Reading) -> None:
        """Look up its leader again, and its offset if it has none."""
        self._detach(reading)
        reading.failures += 1
        if self._readings.get(reading.place) is reading:
            self._unsettled[reading.place] = reading

    async def _settle(self) -> None:
        """Find the leader and the offset of everything that lacks one."""
        try:
            while self._unsettled:
                failures = max(reading.failures for reading in self._unsettled.values())
                if failures > 1:
                    await asyncio.sleep(self._link.settings.backoff_s(failures - 1))
                for reading in tuple(self._unsettled.values()):
                    try:
                        await self._settle_one(reading)
                    except GoQueueError as error:
                        if not error.retriable or self._link.is_closed:
                            raise
                        _log.info("%s is read again in a moment: %s", reading.place, error)
                        reading.failures += 1
                        if isinstance(error, BrokerUnavailableError):
                            break
                self._fetch_settled()
        finally:
            self._is_settling = False

    async def _settle_one(self, reading: Reading) -> None:
        place = reading.place
        try:
            node = await self._link.leader(place)
            self._check_same(reading)
        except (UnknownTopicError, UnknownPartitionError) as error:
            if self._is_patient:
                raise
            self._buffer.fail(error)
            self.remove((place,))
            return
        if reading.is_out_of_range:
            reading.offset = await self._relocate(place, reading.offset)
            reading.is_out_of_range = False
        if self._unsettled.get(place) is not reading:
            return  # given up meanwhile
        del self._unsettled[place]
        if reading.until is not None and reading.offset >= reading.until:
            self.remove((place,))
            self._buffer.put(Chunk(place, (), 0, reading.offset, 0))
            return
        led = self._link.metadata.led(place)
        reading.leader_epoch = -1 if led is None else led.epoch
        reading.broker = self._brokers.setdefault(node, _Broker(node))
        reading.broker.readings[reading.key] = reading

    def _check_same(self, reading: Reading) -> None:
        """Raise `UnknownTopicError` where another topic has the name by now."""
        metadata = self._link.metadata
        view = metadata.topics.get(reading.place.topic)
        if view is not None and view.topic_id != reading.topic_id:
            raise UnknownTopicError(
                f"topic {view.name!r} was deleted, and another one of its name was created"
            )

    # --- Fetching ---------------------------------------------------------------------------------

    def _fetch_settled(self) -> None:
        if not self._buffer.has_room:
            return
        for broker in self._brokers.values():
            if broker.readings and not broker.is_busy:
                broker.is_busy = True
                self._start(self._fetch_all, broker)

    async def _fetch_all(self, broker: _Broker) -> None:
        """Read what one broker leads, one Fetch after the other, as long as there is room."""
        try:
            while broker.readings and self._buffer.has_room:
                try:
                    await self._fetch(broker)
                except GoQueueError as error:
                    if not error.retriable or self._link.is_closed:
                        raise
                    _log.info("broker %d is asked again in a moment: %s", broker.node, error)
                    broker.session.reset()
                    for reading in tuple(broker.readings.values()):
                        self._link.misled(reading.place)
                        self._unsettle(reading)
                if self._unsettled:
                    self.poke()
        finally:
            broker.is_busy = False
        self.poke()

    async def _fetch(self, broker: _Broker) -> None:
        connection = await self._link.to_node(broker.node, self._lane)
        check_version(connection, ApiKey.FETCH, _FETCH)
        for reading in broker.readings.values():
            reading.asked = reading.offset
        answer = await connection.ask(
            ApiKey.FETCH,
            _FETCH,
            wait_s=_MAX_WAIT_MS / 1000,
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            isolation_level=READ_COMMITTED,
            rack_id="",
            **broker.session.fields(broker.readings),
        )
        if answer.error_code in _SESSION_LOST:
            broker.session.reset()
            return
        check_code(answer.error_code, f"fetching from broker {broker.node}")
        broker.session.answered(answer.session_id)
        for each in answer.node_endpoints:
            self._link.metadata.nodes[each.node_id] = Address(each.host, each.port)
        for topic in answer.responses:
            for part in topic.partitions:
                found = broker.readings.get((topic.topic_id, part.partition_index))
                if found is None or found.asked != found.offset:
                    continue  # given up meanwhile
                if part.error_code:
                    self._refused(found, part)
                elif part.records:
                    self._received(connection, found, part)

    def _refused(self, reading: Reading, part: Struct) -> None:
        """A broker does not serve a partition: look up who does, and from where on."""
        error = error_of(part.error_code, f"{reading.place}: error code {part.error_code}")
        if part.error_code in MISLED:
            leader = part.current_leader
            self._link.misled(reading.place, leader if leader.leader_id >= 0 else None)
        elif part.error_code == ErrorCode.offset_out_of_range:
            reading.is_out_of_range = True
        elif not error.retriable:
            raise error
        self._unsettle(reading)

    def _received(self, connection: Connection, reading: Reading, part: Struct) -> None:
        aborted = [
            (each.producer_id, each.first_offset) for each in part.aborted_transactions or ()
        ]
        try:
            chunk = self._decode(
                Fetched(reading.place, part.records, reading.offset, reading.until, aborted)
            )
        except ChecksumMismatchError as error:
            reading.damaged += 1
            if reading.damaged >= _MAX_DAMAGED:
                raise
            raise connection.misunderstood(ApiKey.FETCH, error) from None
        if chunk.next_offset <= reading.offset:
            error_text = f"{reading.place} has no whole batch from offset {reading.offset} on"
            raise connection.misunderstood(ApiKey.FETCH, BatchError(error_text))
        reading.offset = chunk.next_offset
        reading.damaged = reading.failures = 0
        if reading.until is not None and reading.offset >= reading.until:
            self.remove((reading.place,))
        self._buffer.put(chunk)
