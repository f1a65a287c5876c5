"""Transactions as JSON says and shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, cast

import msgspec

from goqueue.partitions.partition import PartitionId
from goqueue.protocols.http.codecs import Encoding  # noqa: TC001 - read by the router
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

if TYPE_CHECKING:
    from goqueue.transactions.messages import TransactionView

HEARTBEAT_MS: Final = 3000
"""How often a producer is told to be heard of; a transaction also counts as a word."""

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


def transaction_out(view: TransactionView) -> TransactionOut:
    """A transactional id as JSON shows it."""
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
