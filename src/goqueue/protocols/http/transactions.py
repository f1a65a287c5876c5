"""Transactions: who produces, what belongs together, and how it ends."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, cast

import msgspec

from goqueue.broker.messages import NewMessage
from goqueue.broker.partition import PartitionId
from goqueue.broker.transaction_offsets import stage_offsets
from goqueue.model.errors import TopicError, UnknownProducerError
from goqueue.protocols.http.codecs import Encoding, to_bytes
from goqueue.protocols.http.errors import AtFieldError, FieldError
from goqueue.protocols.http.routing import route
from goqueue.protocols.http.shapes import (
    Generation,
    GroupName,
    MemberId,
    Milliseconds,
    Offset,
    OffsetsByTopic,
    PartitionNumber,
    PartitionsByTopic,
    TopicName,
    by_topic,
    doc,
)
from goqueue.transactions.markers import Marker
from goqueue.transactions.messages import Identity, InitRequest, TransactionFilter
from goqueue.transactions.states import TransactionState

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.transactions.messages import TransactionView

PUBLISH_BODY_BYTES: Final = 16 * 1024 * 1024
HEARTBEAT_MS: Final = 3000
"""How often a producer is told to be heard of; a transaction also counts as a word."""
_TAG: Final = "transactions"

TransactionalId: TypeAlias = Annotated[
    str,
    doc(
        "Names a producer across its restarts: a new instance takes over from the old one.",
        "billing-1",
        min_length=1,
        max_length=249,
    ),
]
ProducerId: TypeAlias = Annotated[int, doc("As `init` answered it.", 1000, ge=0, le=2**63 - 1)]
Epoch: TypeAlias = Annotated[
    int, doc("As `init` answered it; a newer instance has a higher one.", 0, ge=0, le=2**15 - 1)
]
Sequence: TypeAlias = Annotated[
    int,
    doc(
        "The producer's own number of the message in its partition, from 0 on: sent again, it is "
        "recognised. If left out, the broker gives the next one.",
        0,
        ge=0,
        le=2**31 - 1,
    ),
]
StateName: TypeAlias = Annotated[
    Literal[
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
    ],
    doc("Where the id stands.", "Ongoing"),
]


class InitBody(msgspec.Struct, forbid_unknown_fields=True):
    """Who wants to produce; without an id, a producer whose messages are only never doubled."""

    transactional_id: TransactionalId | None = None
    transaction_timeout_ms: Annotated[
        int, doc("How long a transaction may stay open.", 60_000, ge=1, le=2**31 - 1)
    ] = 60_000


class InitAnswer(msgspec.Struct):
    """The producer's identity, for everything that follows."""

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: str | None
    transaction_timeout_ms: int
    session_timeout_ms: Annotated[
        int, doc("A producer that is silent for so long is taken for dead.", 30_000)
    ]
    heartbeat_interval_ms: Annotated[int, doc("So say something this often.", HEARTBEAT_MS)]


class ProducerPath(msgspec.Struct, frozen=True):
    """A producer in the path."""

    producer_id: ProducerId


class HeartbeatBody(msgspec.Struct, forbid_unknown_fields=True):
    """The producer is alive."""

    epoch: Epoch
    transactional_id: TransactionalId | None = None


class ProducerBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which producer speaks."""

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: Annotated[TransactionalId | None, doc("Checked if it is given.")] = None


class AddPartitionBody(ProducerBody, kw_only=True):
    """Where the transaction is going to write."""

    topic: TopicName
    partition: PartitionNumber


class TransactionPublishBody(ProducerBody, kw_only=True):
    """One message of the transaction."""

    topic: TopicName
    value: Annotated[str | None, doc("Null is a tombstone.", '{"id": 1}')]
    key: Annotated[str | None, doc("Messages of a key keep their order.", "customer-7")] = None
    partition: Annotated[
        PartitionNumber | None, doc("If left out, the key chooses, or the message's turn.")
    ] = None
    sequence: Sequence | None = None
    headers: Annotated[dict[str, str], doc("Texts by name.", {"source": "web"})] = {}
    encoding: Annotated[Encoding, doc("How `value` is written.", "text")] = "text"
    key_encoding: Annotated[Encoding, doc("How `key` is written.", "text")] = "text"


class TransactionPublished(msgspec.Struct):
    """Where the message is; readers of committed messages see it after the commit."""

    partition: PartitionNumber
    offset: Offset
    duplicate: Annotated[bool, doc("It was there already.")]


class OffsetsBody(ProducerBody, kw_only=True):
    """How far the transaction has read; it counts with the commit."""

    group: GroupName
    offsets: Annotated[
        dict[str, dict[Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)], Offset]],
        doc(
            "The next offset to be read, by topic and partition.",
            {"orders": {"0": 42}},
            min_length=1,
        ),
    ]
    member_id: Annotated[MemberId | None, doc("Who has read, if it is a member.")] = None
    generation: Annotated[Generation | None, doc("Checked if it is given.", 3)] = None


class OffsetsStaged(msgspec.Struct):
    """What counts with the commit."""

    group: str
    offsets: OffsetsByTopic


class AbortBody(msgspec.Struct, forbid_unknown_fields=True):
    """The producer gives up; or, by its transactional id alone, an administrator ends it."""

    producer_id: ProducerId | None = None
    epoch: Epoch | None = None
    transactional_id: TransactionalId | None = None


class TransactionOut(msgspec.Struct):
    """One transactional id, and its transaction."""

    transactional_id: str
    transaction_id: Annotated[str, doc("Of the open transaction, or of the last one.")]
    producer_id: ProducerId
    epoch: Epoch
    state: StateName
    transaction_timeout_ms: int
    started_at: Annotated[Milliseconds | None, doc("Null when none is open.")]
    updated_at: Milliseconds
    partitions: PartitionsByTopic


class ListQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which ones to show."""

    state: Annotated[StateName | None, doc("Only those in this state.")] = None
    transactional_id: Annotated[str | None, doc("Only this one.", "billing-1")] = None


class TransactionList(msgspec.Struct):
    """Transactional ids by name."""

    transactions: list[TransactionOut]
    count: int


class TransactionStats(msgspec.Struct):
    """How many there are."""

    active: Annotated[int, doc("Transactions that wait for their end.", 1)]
    by_state: Annotated[dict[str, int], doc("Transactional ids by state.", {"Ongoing": 1})]
    producers: Annotated[int, doc("Transactional ids.", 3)]
    sequence_states: Annotated[
        int, doc("Producers that partitions remember, counted in each partition.", 4)
    ]
    log_size_bytes: Annotated[int, doc("Of the topic that holds all this.", 4096)]
    records_since_snapshot: Annotated[int, doc("What a start would have to replay.", 12)]


class TransactionRoutes:
    """Producers and their transactions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._transactions = broker.transactions

    # --- Producers -------------------------------------------------------------------------------

    @route("POST", "/producers/init", tag=_TAG)
    async def init(self, body: InitBody) -> InitAnswer:
        """Become a producer.

        With a transactional id, whoever used it before is fenced, and what it had open is aborted.
        """
        session_ms = self._transactions.settings.session_timeout_ms
        if body.transactional_id is None:
            identity = Identity(await self._broker.producer_ids.allocate(), 0)
        else:
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

    @route("POST", "/producers/{producer_id}/heartbeat", tag=_TAG)
    async def heartbeat(self, path: ProducerPath, body: HeartbeatBody) -> TransactionOut:
        """Be heard of, so that an open transaction is not taken for abandoned."""
        identity = Identity(path.producer_id, body.epoch)
        transactional_id = self._id_of(path.producer_id, body.transactional_id)
        self._transactions.heartbeat(transactional_id, identity)
        return _out(self._transactions.describe(transactional_id))

    def _id_of(self, producer_id: int, claimed: str | None) -> str:
        """The transactional id of a producer, which is also what the request says, if it does."""
        actual = self._transactions.transactional_id_of(producer_id)
        if claimed not in {None, actual}:
            raise UnknownProducerError(f"producer {producer_id} is not the one of {claimed!r}")
        return actual

    # --- One transaction -------------------------------------------------------------------------

    @route("POST", "/transactions/begin", tag=_TAG)
    async def begin(self, body: ProducerBody) -> TransactionOut:
        """Open a transaction. A producer can have one at a time."""
        transactional_id, identity = self._who(body)
        await self._transactions.begin(transactional_id, identity)
        return _out(self._transactions.describe(transactional_id))

    def _who(self, body: ProducerBody) -> tuple[str, Identity]:
        identity = Identity(body.producer_id, body.epoch)
        return self._id_of(body.producer_id, body.transactional_id), identity

    @route("POST", "/transactions/add-partition", tag=_TAG)
    async def add_partition(self, body: AddPartitionBody) -> TransactionOut:
        """Say that the transaction writes to a partition; `publish` does so by itself."""
        transactional_id, identity = self._who(body)
        place = PartitionId(body.topic, body.partition)
        self._broker.partitions.partition(place)
        await self._transactions.add_partitions(transactional_id, identity, [place])
        return _out(self._transactions.describe(transactional_id))

    @route("POST", "/transactions/publish", tag=_TAG, max_body_bytes=PUBLISH_BODY_BYTES)
    async def publish(self, body: TransactionPublishBody) -> TransactionPublished:
        """Publish a message that counts with the commit of the transaction."""
        _, identity = self._who(body)
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

    @route("POST", "/transactions/offsets", tag=_TAG)
    async def offsets(self, body: OffsetsBody) -> OffsetsStaged:
        """Say how far a group has read; it counts with the commit, as the messages do."""
        _, identity = self._who(body)
        offsets = {
            self._place(topic, number): offset
            for topic, numbers in body.offsets.items()
            for number, offset in numbers.items()
        }
        outcomes = await stage_offsets(
            self._broker,
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

    def _place(self, topic: str, number: int) -> PartitionId:
        place = PartitionId(topic, number)
        try:
            self._broker.partitions.partition(place)
        except TopicError as error:
            raise AtFieldError(error, f"offsets.{topic}.{number}") from error
        return place

    @route("POST", "/transactions/commit", tag=_TAG)
    async def commit(self, body: ProducerBody) -> TransactionOut:
        """Let everything of the transaction count, at once and for ever."""
        return await self._end(*self._who(body), Marker.COMMIT)

    @route("POST", "/transactions/abort", tag=_TAG)
    async def abort(self, body: AbortBody) -> TransactionOut:
        """Let nothing of the transaction count.

        Without a producer, an administrator ends what hangs: its producer is fenced.
        """
        if body.producer_id is not None and body.epoch is not None:
            transactional_id = self._id_of(body.producer_id, body.transactional_id)
            identity = Identity(body.producer_id, body.epoch)
            return await self._end(transactional_id, identity, Marker.ABORT)
        if body.transactional_id is None or body.producer_id is not None or body.epoch is not None:
            raise FieldError(
                "say who aborts: a producer by its id and epoch, or a transactional id alone",
                field="producer_id",
                expected="a producer id and an epoch",
            )
        await self._transactions.abort(body.transactional_id)
        return _out(self._transactions.describe(body.transactional_id))

    async def _end(
        self, transactional_id: str, identity: Identity, marker: Marker
    ) -> TransactionOut:
        await self._transactions.end(transactional_id, identity, marker)
        return _out(self._transactions.describe(transactional_id))

    # --- Looking ---------------------------------------------------------------------------------

    @route("GET", "/transactions", tag=_TAG)
    async def list(self, query: ListQuery) -> TransactionList:
        """The transactional ids and where each stands."""
        states = frozenset() if query.state is None else frozenset({query.state})
        name = query.transactional_id
        wanted = TransactionFilter(states, matches=lambda each: name is None or each == name)
        found = [_out(each) for each in self._transactions.list(wanted)]
        found.sort(key=lambda each: each.transactional_id)
        return TransactionList(found, len(found))

    @route("GET", "/transactions/stats", tag=_TAG)
    async def stats(self) -> TransactionStats:
        """How many transactions and producers there are."""
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


def _out(view: TransactionView) -> TransactionOut:
    return TransactionOut(
        view.transactional_id,
        view.transaction_id,
        view.producer_id,
        view.epoch,
        cast("StateName", view.state),
        view.timeout_ms,
        view.started_ms if view.started_ms >= 0 else None,
        view.updated_ms,
        by_topic(PartitionId(*place) for place in view.partitions),
    )
