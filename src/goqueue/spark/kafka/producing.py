"""A producer for one task: its transaction, its sequences, and batches that are under way.

A batch is numbered, so it may be sent again: after a lost connection everything that was not
answered is sent anew, in its order, and the broker recognises what it has.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from goqueue.client.link.codes import RetriableBrokerError, check_code
from goqueue.client.link.connection import check_version
from goqueue.client.link.link import TRANSACTION_KEY
from goqueue.model.errors import GoQueueError
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import TRANSACTIONAL, Compression, Record, encode
from goqueue.spark.errors import BrokerRefusedError, TopicMissingError, TransactionLostError
from goqueue.spark.kafka.cluster import PRODUCING
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.produce import encode_request

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Sequence

    from goqueue.client.link.connection import Connection
    from goqueue.spark.kafka.cluster import Cluster
    from goqueue.wire.kafka.reading import Struct

INIT_VERSION: Final = 4
ADD_PARTITIONS_VERSION: Final = 3
PRODUCE_VERSION: Final = 9
END_VERSION: Final = 3
_SEQUENCES: Final = 1 << 31
_MAX_IN_FLIGHT: Final = 4
"""Requests without an answer. A partition remembers the last five batches of a producer, so none
of these can be taken for new when it is repeated."""
_ALL: Final = -1
_TIMEOUT_MS: Final = 30_000
_LOST: Final = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_abortable,
    }
)


class Producer(NamedTuple):
    """Who writes; a driver can end its transaction from this."""

    transactional_id: str | None
    producer_id: int
    epoch: int


@dataclass(slots=True)
class _Sent:
    """Batches of one request, each for another partition of the same leader."""

    node: int
    batches: Sequence[tuple[TopicPartition, bytearray]]
    answer: tuple[Connection, asyncio.Future[memoryview]] | None = None
    """None: it was not sent."""


def check_transaction_code(code: int, what: str) -> None:
    """Raise what an answer about a transaction means.

    Raises:
        TransactionLostError: the broker has ended it.
        GoQueueError: as for any request.
    """
    if code in _LOST:
        raise TransactionLostError(
            f"{what}: {ErrorCode(code).name}. The broker has ended the transaction: more time "
            "passed between a task's first row and the driver's commit than "
            "kafka.transaction.timeout.ms allows, or another attempt was committed meanwhile"
        )
    check_code(code, what)


class TaskProducer:
    """Writes record batches. Nothing in a transaction is visible before the driver says so."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        transactional_id: str | None,
        timeout_ms: int,
        compression: Compression = Compression.NONE,
    ) -> None:
        self._cluster = cluster
        self._compression = compression
        self._timeout_ms = timeout_ms
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._in_flight: deque[_Sent] = deque()
        self._must_resend = False
        self.who = self._cluster.retry(
            "initialising a producer", lambda: self._init(transactional_id)
        )

    async def _init(self, transactional_id: str | None) -> Producer:
        fields: dict[str, Any] = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": self._timeout_ms,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        api, link = ApiKey.INIT_PRODUCER_ID, self._cluster.link
        if transactional_id is None:
            answer = await link.ask(api, INIT_VERSION, **fields)
        else:
            answer = await link.ask_coordinator(
                TRANSACTION_KEY, transactional_id, api, INIT_VERSION, **fields
            )
        if answer.error_code == ErrorCode.invalid_transaction_timeout:
            raise BrokerRefusedError(
                f"kafka.transaction.timeout.ms={self._timeout_ms} is more than the broker allows "
                "(transactions.max_timeout)"
            )
        check_code(answer.error_code, f"initialising {transactional_id!r}")
        return Producer(transactional_id, answer.producer_id, answer.producer_epoch)

    # --- The transaction -------------------------------------------------------------------------

    def add_partitions(self, places: Iterable[TopicPartition]) -> None:
        """Say where the transaction may write; what is never written to costs nothing."""
        wanted = sorted(set(places) - self._added)
        if not wanted or self.who.transactional_id is None:
            return
        self._cluster.retry("adding partitions", lambda: self._add(wanted))
        self._added.update(wanted)

    async def _add(self, places: Sequence[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, number in places:
            topics.setdefault(topic, []).append(number)
        name = self.who.transactional_id or ""
        answer = await self._cluster.link.ask_coordinator(
            TRANSACTION_KEY,
            name,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ADD_PARTITIONS_VERSION,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=self.who.producer_id,
            v3_and_below_producer_epoch=self.who.epoch,
            v3_and_below_topics=[
                {"name": topic, "partitions": numbers} for topic, numbers in topics.items()
            ],
        )
        codes = [
            (each.partition_error_code, f"{topic.name}-{each.partition_index}")
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]
        for code, place in sorted(codes, key=lambda each: each[0] == _NOT_TRIED):
            check_transaction_code(code, f"adding {place} to the transaction")

    def abort(self) -> None:
        """End the transaction, if it is not too late for that; for tasks that fail."""
        if self.who.transactional_id is not None:
            self._cluster.once(self._abort)

    async def _abort(self) -> None:
        name = self.who.transactional_id or ""
        self._cluster.link.hang_up(PRODUCING)  # whatever is under way is nobody's any more
        await self._cluster.link.ask_coordinator(
            TRANSACTION_KEY,
            name,
            ApiKey.END_TXN,
            END_VERSION,
            transactional_id=name,
            producer_id=self.who.producer_id,
            producer_epoch=self.who.epoch,
            committed=False,
        )

    # --- Batches ---------------------------------------------------------------------------------

    def batch(self, place: TopicPartition, records: Sequence[Record]) -> bytearray:
        """A record batch with the next numbers of its partition."""
        first = self._sequences.get(place, 0)
        self._sequences[place] = (first + len(records)) % _SEQUENCES
        return encode(
            records,
            compression=self._compression,
            attributes=TRANSACTIONAL if self.who.transactional_id is not None else 0,
            producer_id=self.who.producer_id,
            producer_epoch=self.who.epoch,
            base_sequence=first,
        )

    def send(self, batches: Sequence[tuple[TopicPartition, bytearray]]) -> None:
        """Send batches for different partitions; answers are taken later.

        Raises:
            SparkSourceError: something that was sent before could not be stored.
        """
        self._cluster.once(lambda: self._send(batches))

    async def _send(self, batches: Sequence[tuple[TopicPartition, bytearray]]) -> None:
        by_leader = await self._cluster.tried("finding leaders", lambda: self._by_leader(batches))
        for sent in by_leader:
            while len(self._in_flight) >= _MAX_IN_FLIGHT:
                await self._settle_oldest()
            self._in_flight.append(sent)
            if not self._must_resend:
                try:
                    await self._post(sent)
                except GoQueueError:
                    self._must_resend = True  # and what is wrong is met again then

    def finish(self) -> None:
        """Return when everything is stored.

        Raises:
            SparkSourceError: something could not be.
        """
        self._cluster.once(self._finish)

    async def _finish(self) -> None:
        while self._in_flight:
            await self._settle_oldest()

    async def _by_leader(self, batches: Iterable[tuple[TopicPartition, bytearray]]) -> list[_Sent]:
        found: dict[int, list[tuple[TopicPartition, bytearray]]] = {}
        for place, batch in batches:
            found.setdefault(await self._cluster.link.leader(place), []).append((place, batch))
        return [_Sent(node, each) for node, each in found.items()]

    async def _post(self, sent: _Sent) -> None:
        topics: dict[str, list[tuple[int, bytearray]]] = {}
        for (topic, number), batch in sent.batches:
            topics.setdefault(topic, []).append((number, batch))
        body = encode_request(self.who.transactional_id, _ALL, _TIMEOUT_MS, topics)
        connection = await self._cluster.link.to_node(sent.node, PRODUCING)
        check_version(connection, ApiKey.PRODUCE, PRODUCE_VERSION)
        sent.answer = connection, connection.exchange(ApiKey.PRODUCE, PRODUCE_VERSION, body)

    async def _settle_oldest(self) -> None:
        await self._cluster.tried("writing", self._take_answer)

    async def _take_answer(self) -> None:
        try:
            if self._must_resend:
                await self._resend()
            answer = await _answer(self._in_flight[0])
            for topic in answer.responses:
                for each in topic.partition_responses:
                    _check_stored(
                        each.error_code, each.error_message, TopicPartition(topic.name, each.index)
                    )
        except GoQueueError:
            self._must_resend = True
            raise
        self._in_flight.popleft()

    async def _resend(self) -> None:
        """Everything without an answer, one by one: leaders may have changed."""
        self._cluster.link.hang_up(PRODUCING)
        waiting = [each for sent in self._in_flight for each in sent.batches]
        self._in_flight = deque([(await self._by_leader([each]))[0] for each in waiting])
        for sent in self._in_flight:
            await self._post(sent)
        self._must_resend = False


async def _answer(sent: _Sent) -> Struct:
    if sent.answer is None:
        raise RetriableBrokerError("a batch was not sent")
    connection, answer = sent.answer
    return connection.parse(await answer, ApiKey.PRODUCE, PRODUCE_VERSION)


_NOT_TRIED: Final = ErrorCode.operation_not_attempted


def _check_stored(code: int, message: str | None, place: TopicPartition) -> None:
    what = f"writing to {place[0]}-{place[1]}" + (f" ({message})" if message else "")
    if code in {ErrorCode.none, ErrorCode.duplicate_sequence_number}:
        return
    if code == ErrorCode.unknown_topic_or_partition:
        raise TopicMissingError(f"{what}: the topic is gone")
    if code in {ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch}:
        raise RetriableBrokerError(f"{what}: another broker leads it now")
    if code == ErrorCode.message_too_large:
        raise BrokerRefusedError(
            f"{what}: a record batch is longer than the topic allows (max.message.bytes). Set "
            "batchBytes lower; if one message alone is too long, raise the topic's limit"
        )
    check_transaction_code(code, what)
