"""Transactions as JSON says and shows them."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from goqueue.protocols.http.api.codecs import Encoding
from goqueue.protocols.http.api.gathered import Gathered
from goqueue.protocols.http.api.shapes import (
    Generation,
    GroupName,
    MemberId,
    Milliseconds,
    Offset,
    OffsetsByTopic,
    PartitionNumber,
    PartitionsByTopic,
    TopicName,
    doc,
)

HEARTBEAT_MS: Final = 3000
"""The heartbeat interval that producers are told; a transaction counts as a heartbeat."""

TransactionalId: TypeAlias = Annotated[
    str,
    doc(
        "Names a producer across its restarts: a new instance takes over from the old one.",
        "billing-1",
        min_length=1,
        max_length=249,
    ),
]
ProducerId: TypeAlias = Annotated[
    int, doc("From the response of `init`.", 1000, ge=0, le=2**63 - 1)
]
Epoch: TypeAlias = Annotated[
    int,
    doc("From the response of `init`; a newer instance has a higher epoch.", 0, ge=0, le=2**15 - 1),
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
    doc("The state of the transaction.", "Ongoing"),
]


class InitBody(msgspec.Struct, forbid_unknown_fields=True):
    """The producer; without a transactional id it is idempotent only."""

    transactional_id: TransactionalId | None = None
    transaction_timeout_ms: Annotated[
        int, doc("Transaction timeout.", 60_000, ge=1, le=2**31 - 1)
    ] = 60_000


class InitAnswer(msgspec.Struct):
    """The identity of the producer, for all further requests."""

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: str | None
    transaction_timeout_ms: int
    session_timeout_ms: Annotated[int, doc("Session timeout of the producer.", 30_000)]
    heartbeat_interval_ms: Annotated[int, doc("Heartbeat interval.", HEARTBEAT_MS)]


class ProducerPath(msgspec.Struct, frozen=True):
    """A producer in the path."""

    producer_id: ProducerId


class HeartbeatBody(msgspec.Struct, forbid_unknown_fields=True):
    """A heartbeat of the producer."""

    epoch: Epoch
    transactional_id: TransactionalId | None = None


class ProducerBody(msgspec.Struct, forbid_unknown_fields=True):
    """The producer that sends the request."""

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: Annotated[TransactionalId | None, doc("Checked if present.")] = None


class AddPartitionBody(ProducerBody, kw_only=True):
    """A partition to add to the transaction."""

    topic: TopicName
    partition: PartitionNumber


class TransactionPublishBody(ProducerBody, kw_only=True):
    """One message of the transaction."""

    topic: TopicName
    value: Annotated[str | None, doc("Null for a tombstone.", '{"id": 1}')]
    key: Annotated[
        str | None, doc("Messages with the same key go to one partition, in order.", "customer-7")
    ] = None
    partition: Annotated[
        PartitionNumber | None, doc("By key hash, or round-robin, if omitted.")
    ] = None
    sequence: Sequence | None = None
    headers: Annotated[dict[str, str], doc("Texts by name.", {"source": "web"})] = {}
    encoding: Annotated[Encoding, doc("Encoding of `value`.", "text")] = "text"
    key_encoding: Annotated[Encoding, doc("Encoding of `key`.", "text")] = "text"


class TransactionPublished(msgspec.Struct):
    """The offset of the message, which is visible to read_committed consumers after the commit."""

    partition: PartitionNumber
    offset: Offset
    duplicate: Annotated[bool, doc("Whether the message is a duplicate.")]


class OffsetsBody(ProducerBody, kw_only=True):
    """Offsets that are committed with the transaction."""

    group: GroupName
    offsets: Annotated[
        dict[str, dict[Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)], Offset]],
        doc(
            "The next offset to read, by topic and partition.",
            {"orders": {"0": 42}},
            min_length=1,
        ),
    ]
    member_id: Annotated[MemberId | None, doc("The member that has read the messages.")] = None
    generation: Annotated[Generation | None, doc("Checked if present.", 3)] = None


class OffsetsStaged(msgspec.Struct):
    """The offsets that the commit will store."""

    group: str
    offsets: OffsetsByTopic


class AbortBody(msgspec.Struct, forbid_unknown_fields=True):
    """The transaction to abort: of a producer, or by its transactional id alone."""

    producer_id: ProducerId | None = None
    epoch: Epoch | None = None
    transactional_id: TransactionalId | None = None


class TransactionOut(msgspec.Struct):
    """A transactional id and its transaction."""

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
    """Filters."""

    state: Annotated[StateName | None, doc("Filter by state.")] = None
    transactional_id: Annotated[str | None, doc("Restrict to this one.", "billing-1")] = None


class TransactionList(Gathered):
    """Transactional ids by name."""

    transactions: list[TransactionOut]
    count: int


class TransactionStats(Gathered):
    """Counts of transactions."""

    active: Annotated[int, doc("Open transactions.", 1)]
    by_state: Annotated[dict[str, int], doc("Transactional ids by state.", {"Ongoing": 1})]
    producers: Annotated[int, doc("Transactional ids.", 3)]
    sequence_states: Annotated[int, doc("Producer states of all partitions.", 4)]
    log_size_bytes: Annotated[int, doc("Size of the transaction log.", 4096)]
    records_since_snapshot: Annotated[int, doc("Records that a start would replay.", 12)]
