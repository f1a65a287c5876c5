"""Transactions: who produces, what belongs together, and how it ends."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, cast

from goqueue.model.errors import TopicError
from goqueue.model.topic_partition import TopicPartition, numbers_by_topic
from goqueue.partitions.markers import Marker
from goqueue.protocols.http.api.codecs import to_bytes
from goqueue.protocols.http.api.errors import AtFieldError, FieldError
from goqueue.protocols.http.api.merging import total
from goqueue.protocols.http.api.places import gather, group, transaction
from goqueue.protocols.http.api.rights import (
    DESCRIBE,
    ID_DESCRIBE,
    ID_WRITE,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC_DESCRIBE,
    WRITE,
    all_of,
    on_cluster,
    on_group,
    on_topic,
    some,
    within,
)
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.transactions.transaction_merges import merge_transactions
from goqueue.protocols.http.transactions.transaction_shapes import (
    HEARTBEAT_MS,
    AbortBody,
    AddPartitionBody,
    HeartbeatBody,
    InitAnswer,
    InitBody,
    ListQuery,
    OffsetsBody,
    OffsetsStaged,
    ProducerBody,
    ProducerPath,
    StateName,
    TransactionList,
    TransactionOut,
    TransactionPublishBody,
    TransactionPublished,
    TransactionStats,
)
from goqueue.protocols.own_producers import own_transactional_id
from goqueue.protocols.permissions import Permissions
from goqueue.publishing.new_messages import NewMessage
from goqueue.transactions.messages import Identity, InitRequest, TransactionFilter, TransactionView
from goqueue.transactions.states import TransactionState

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

PUBLISH_BODY_BYTES: Final = 16 * 1024 * 1024
_TAG: Final = "transactions"
_PLACE: Final = transaction("body.transactional_id", "body.producer_id")


_OWN: Final = some(ID_WRITE, note="of the producer")
_INITIALISED: Final = all_of(
    within(ID_WRITE, note="of the producer, if it has one"),
    within(IDEMPOTENT_WRITE, note="if it has none"),
)


class TransactionRoutes:
    """Producers and their transactions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._transactions = broker.transactions

    # --- Producers -------------------------------------------------------------------------------

    @route(
        "POST",
        "/producers/init",
        right=_INITIALISED,
        tag=_TAG,
        place=transaction("body.transactional_id"),
    )
    async def init(self, body: InitBody, may: Permissions) -> InitAnswer:
        """Initialise a producer.

        With a transactional id, its earlier producer is fenced and the open transaction aborted.
        """
        session_ms = self._transactions.settings.session_timeout_ms
        if body.transactional_id is None:
            may.require(IDEMPOTENT_WRITE)
            identity = Identity(await self._broker.producer_ids.allocate(), 0)
        else:
            may.require(ID_WRITE, body.transactional_id)
            identity = await self._transactions.init_producer(
                InitRequest(
                    transactional_id=body.transactional_id,
                    timeout_ms=body.transaction_timeout_ms,
                    session_timeout_ms=session_ms,
                )
            )
        return InitAnswer(
            identity.producer_id,
            identity.epoch,
            body.transactional_id,
            body.transaction_timeout_ms,
            session_ms,
            HEARTBEAT_MS,
        )

    @route(
        "POST",
        "/producers/{producer_id}/heartbeat",
        right=_OWN,
        tag=_TAG,
        place=transaction("body.transactional_id", "path.producer_id"),
    )
    async def heartbeat(
        self, path: ProducerPath, body: HeartbeatBody, may: Permissions
    ) -> TransactionOut:
        """Send a heartbeat, so that an open transaction is not aborted."""
        identity = Identity(path.producer_id, body.epoch)
        transactional_id = await own_transactional_id(
            self._transactions, may, path.producer_id, body.transactional_id
        )
        self._transactions.heartbeat(transactional_id, identity)
        return self._out(may, transactional_id)

    def _out(self, may: Permissions, transactional_id: str) -> TransactionOut:
        return _transaction_out(may, self._transactions.describe(transactional_id))

    # --- One transaction -------------------------------------------------------------------------

    @route("POST", "/transactions/begin", right=_OWN, tag=_TAG, place=_PLACE)
    async def begin(self, body: ProducerBody, may: Permissions) -> TransactionOut:
        """Begin a transaction. A producer has at most one open."""
        transactional_id, identity = await self._who(may, body)
        await self._transactions.begin(transactional_id, identity)
        return self._out(may, transactional_id)

    async def _who(self, may: Permissions, body: ProducerBody) -> tuple[str, Identity]:
        transactional_id = await own_transactional_id(
            self._transactions, may, body.producer_id, body.transactional_id
        )
        return transactional_id, Identity(body.producer_id, body.epoch)

    @route(
        "POST",
        "/transactions/add-partition",
        right=all_of(_OWN, on_topic(WRITE, "body.topic")),
        tag=_TAG,
        place=_PLACE,
    )
    async def add_partition(self, body: AddPartitionBody, may: Permissions) -> TransactionOut:
        """Add a partition to the transaction; `publish` does so implicitly."""
        transactional_id, identity = await self._who(may, body)
        place = TopicPartition(body.topic, body.partition)
        self._broker.topics.catalogue.require(place)
        await self._transactions.add_partitions(transactional_id, identity, [place])
        return self._out(may, transactional_id)

    @route(
        "POST",
        "/transactions/publish",
        right=all_of(_OWN, on_topic(WRITE, "body.topic")),
        tag=_TAG,
        max_body_bytes=PUBLISH_BODY_BYTES,
        place=_PLACE,
    )
    async def publish(self, body: TransactionPublishBody, may: Permissions) -> TransactionPublished:
        """Publish a message in a transaction."""
        _, identity = await self._who(may, body)
        message = NewMessage(
            None if body.value is None else to_bytes(body.value, body.encoding, "value"),
            None if body.key is None else to_bytes(body.key, body.key_encoding, "key"),
            tuple(
                (name, to_bytes(text, "text", f"headers.{name}"))
                for name, text in body.headers.items()
            ),
            body.partition,
        )
        published = await self._broker.transaction_writer.publish(
            identity, body.topic, [message], body.sequence
        )
        (result,) = published.results
        if result.error is not None:
            raise result.error
        return TransactionPublished(result.partition or 0, result.offset or 0, published.duplicate)

    @route(
        "POST",
        "/transactions/offsets",
        right=all_of(_OWN, on_group(READ, "body.group"), on_topic(READ, "body.offsets")),
        tag=_TAG,
        place=group("body.group"),
    )
    async def offsets(self, body: OffsetsBody, may: Permissions) -> OffsetsStaged:
        """Commit the offsets of a group with the transaction."""
        _, identity = await self._who(may, body)
        offsets = {
            self._place(topic, number): offset
            for topic, numbers in body.offsets.items()
            for number, offset in numbers.items()
        }
        outcomes = await self._broker.transaction_offsets.stage(
            identity,
            body.group,
            offsets,
            member_id=body.member_id,
            generation=body.generation,
        )
        for (topic, number), error in outcomes.partitions:
            if error is not None:
                raise AtFieldError(error, f"offsets.{topic}.{number}") from error
        return OffsetsStaged(body.group, body.offsets)

    def _place(self, topic: str, number: int) -> TopicPartition:
        place = TopicPartition(topic, number)
        try:
            self._broker.topics.catalogue.require(place)
        except TopicError as error:
            raise AtFieldError(error, f"offsets.{topic}.{number}") from error
        return place

    @route("POST", "/transactions/commit", right=_OWN, tag=_TAG, place=_PLACE)
    async def commit(self, body: ProducerBody, may: Permissions) -> TransactionOut:
        """Commit a transaction."""
        transactional_id, identity = await self._who(may, body)
        await self._transactions.end(transactional_id, identity, Marker.COMMIT)
        return self._out(may, transactional_id)

    @route("POST", "/transactions/abort", right=_OWN, tag=_TAG, place=_PLACE)
    async def abort(self, body: AbortBody, may: Permissions) -> TransactionOut:
        """Abort a transaction.

        Without a producer, by an administrator: the producer is fenced.
        """
        if body.producer_id is not None and body.epoch is not None:
            transactional_id = await own_transactional_id(
                self._transactions, may, body.producer_id, body.transactional_id
            )
            identity = Identity(body.producer_id, body.epoch)
            await self._transactions.end(transactional_id, identity, Marker.ABORT)
            return self._out(may, transactional_id)
        if body.transactional_id is None or body.producer_id is not None or body.epoch is not None:
            raise FieldError(
                "no producer is named: expected its id and epoch, or a transactional id alone",
                field="producer_id",
                expected="a producer id and an epoch",
            )
        may.require(ID_WRITE, body.transactional_id)
        await self._transactions.abort(body.transactional_id)
        return self._out(may, body.transactional_id)

    # --- Looking ---------------------------------------------------------------------------------

    @route(
        "GET",
        "/transactions",
        right=within(ID_DESCRIBE, note="the ids that it covers"),
        tag=_TAG,
        place=gather(merge_transactions),
    )
    async def list(self, query: ListQuery, may: Permissions) -> TransactionList:
        """List the transactional ids and their states."""
        states = frozenset() if query.state is None else frozenset({query.state})
        name = query.transactional_id
        wanted = TransactionFilter(states, matches=lambda each: name is None or each == name)
        listed = await self._transactions.listed(wanted)
        seen = may.visible(ID_DESCRIBE, listed, lambda each: each.transactional_id)
        found = [_transaction_out(may, each) for each in seen]
        found.sort(key=lambda each: each.transactional_id)
        return TransactionList(found, len(found))

    @route("GET", "/transactions/stats", right=on_cluster(DESCRIBE), tag=_TAG, place=gather(total))
    async def stats(self) -> TransactionStats:
        """Counts of transactions and producers."""
        states = Counter(each.state for each in self._transactions.list())
        active = sum(count for name, count in states.items() if TransactionState(name).is_open)
        return TransactionStats(
            active,
            dict(states),
            states.total(),
            sum(len(partition.sequences) for partition in self._broker.partitions),
            self._transactions.log_bytes,
            self._transactions.records_since_snapshot,
        )


def _transaction_out(may: Permissions, view: TransactionView) -> TransactionOut:
    """A transactional id as JSON shows it, with the topics that the client may see."""
    places = [each for each in view.partitions if may.allows(TOPIC_DESCRIBE, each[0])]
    return TransactionOut(
        view.transactional_id,
        view.transaction_id,
        view.producer_id,
        view.epoch,
        cast("StateName", view.state),
        view.timeout_ms,
        view.started_ms if view.started_ms >= 0 else None,
        view.updated_ms,
        numbers_by_topic(TopicPartition(*place) for place in places),
    )
