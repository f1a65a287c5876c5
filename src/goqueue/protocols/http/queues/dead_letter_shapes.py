"""What requests and answers about dead letters look like."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from goqueue.model.dead_letters import Reason
from goqueue.protocols.http.api.codecs import Encoding, Time
from goqueue.protocols.http.api.shapes import (
    GroupName,
    Milliseconds,
    Offset,
    PartitionNumber,
    TopicName,
    doc,
)
from goqueue.protocols.http.limits import MAX_OFFSET_RANGES, MAX_REDRIVE_RATE
from goqueue.protocols.http.messages.message_shapes import (
    HeaderIn,
    HeaderOut,
    Limit,
)

_KNOWN: Final = list(Reason)
_REASONS: Final = f"{', '.join(_KNOWN[:-1])} or {_KNOWN[-1]}."

# --- Looking -------------------------------------------------------------------------------------


LastError = Annotated[
    str | None,
    doc(
        "The last error, ignoring numbers and ids in it. Empty: letters without an error.",
        "no customer #",
    ),
]


class ChosenQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of dead letters, all of which must match."""

    reason: Annotated[str | None, doc(_REASONS, "REJECTED")] = None
    group: Annotated[GroupName | None, doc("The consumer group.")] = None
    since: Annotated[Time | None, doc("Dead-lettered at this time or later.")] = None
    until: Annotated[Time | None, doc("Dead-lettered before this time.")] = None
    error: LastError = None


class LettersQuery(ChosenQuery, forbid_unknown_fields=True):
    """Filters of dead letters, and which page of them."""

    limit: Limit = 100
    skip: Annotated[int, doc("Matching letters to skip.", 0, ge=0)] = 0
    cursor: Annotated[str | None, doc("`next` of the last response.", "0:99")] = None


class LetterLine(msgspec.Struct):
    """One dead letter in a list."""

    partition: Annotated[int, doc("Partition of the dead-letter topic.", 0)]
    offset: Annotated[int, doc("Offset in the dead-letter topic.", 3)]
    key: Annotated[str | None, doc("Null if there is none.", "customer-7")]
    key_encoding: Encoding
    preview: Annotated[str | None, doc("Preview of the value.", '{"id": 1}')]
    preview_encoding: Encoding
    size_bytes: Annotated[int, doc("Size of the whole value.", 9)]
    source_topic: Annotated[str | None, doc("The original topic.", "orders")]
    source_partition: int | None
    source_offset: int | None
    source_timestamp: Milliseconds | None
    group: Annotated[str | None, doc("The consumer group.", "billing")]
    member: Annotated[str | None, doc("The last member that it was delivered to.", "worker-1-5f0c")]
    reason: Annotated[str | None, doc(_REASONS, "REJECTED")]
    error: Annotated[str | None, doc("The last error.", "no such customer")]
    deliveries: Annotated[int | None, doc("Deliveries before it was dead-lettered.", 3)]
    first_delivery: Milliseconds | None
    last_delivery: Milliseconds | None
    died_at: Milliseconds
    redriven_count: Annotated[int, doc("Earlier redrives.", 0)]
    priority: Annotated[str, doc("The priority lane after a redrive.", "normal")]


class LetterDetail(LetterLine):
    """One dead letter with value and headers."""

    value: Annotated[str | None, doc("Null for a tombstone.", '{"id": 1}')]
    encoding: Encoding
    headers: Annotated[list[HeaderOut], doc("The original headers.")]
    is_redriven: Annotated[
        bool, doc("Whether it was redriven or deleted; it is not listed any more.")
    ]


class LetterList(msgspec.Struct):
    """Dead letters that have not been redriven, by partition and offset."""

    topic: Annotated[str, doc("The original topic.", "orders")]
    dead_letter_topic: Annotated[str | None, doc("Null if there is none.", "orders.dlq")]
    total: Annotated[
        int, doc("All letters that have not been redriven, regardless of the filters.", 12)
    ]
    letters: list[LetterLine]
    next: Annotated[str | None, doc("The `cursor` of the next page; null at the end.", "0:99")]


class BoxLine(msgspec.Struct):
    """A topic with a dead-letter topic."""

    topic: Annotated[str, doc("The original topic.", "orders")]
    dead_letter_topic: Annotated[str, doc("The dead-letter topic.", "orders.dlq")]
    total: Annotated[int, doc("Letters that have not been redriven.", 12)]
    newest_at: Annotated[
        Milliseconds | None, doc("When the newest letter was dead-lettered; null if none is left.")
    ]


class BoxList(msgspec.Struct):
    """Topics with a dead-letter topic."""

    topics: list[BoxLine]


# --- Redriving -----------------------------------------------------------------------------------


LettersIn = Annotated[
    TopicName | None,
    doc("The topic that holds the letters; the dead-letter topic if omitted."),
]


class FilterBody(msgspec.Struct, forbid_unknown_fields=True):
    """Filters, all of which must match."""

    reason: Annotated[str | None, doc(_REASONS, "REJECTED")] = None
    group: Annotated[GroupName | None, doc("The consumer group.")] = None
    key: Annotated[str | None, doc("The whole key.", "customer-7")] = None
    key_encoding: Annotated[Encoding, doc("Encoding of `key`.", "text")] = "text"
    since: Annotated[Time | None, doc("Dead-lettered at this time or later.")] = None
    until: Annotated[Time | None, doc("Dead-lettered before this time.")] = None
    offsets: Annotated[
        dict[PartitionNumber, list[Offset]] | None,
        doc("Only these offsets, by partition of the dead-letter topic.", {"0": [3, 4]}),
    ] = None
    error: LastError = None


class LetterEditBody(msgspec.Struct, forbid_unknown_fields=True):
    """What replaces parts of a letter; what is omitted stays."""

    key: Annotated[
        str | msgspec.UnsetType | None,
        doc("With another key it goes to the partition of that key.", "customer-7"),
    ] = msgspec.UNSET
    key_encoding: Annotated[Encoding, doc("Encoding of `key`.", "text")] = "text"
    value: Annotated[str | msgspec.UnsetType | None, doc("Null for a tombstone.", '{"id": 1}')] = (
        msgspec.UNSET
    )
    encoding: Annotated[Encoding, doc("Encoding of `value`.", "text")] = "text"
    headers: Annotated[list[HeaderIn] | msgspec.UnsetType, doc("Replace all original headers.")] = (
        msgspec.UNSET
    )


class RedriveBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which letters are redriven, and how fast."""

    to: Annotated[TopicName | None, doc("Another target topic; the original topic if omitted.")] = (
        None
    )
    filter: Annotated[FilterBody, doc("All if omitted.")] = msgspec.field(
        default_factory=FilterBody
    )
    limit: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None, doc("The most letters to redrive.")
    ] = None
    rate: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=MAX_REDRIVE_RATE)] | None,
        doc("Messages per second.", 100),
    ] = None
    dry_run: Annotated[bool, doc("Count the letters without redriving them.")] = False
    letters_in: LettersIn = None
    to_source: Annotated[
        bool,
        doc("Redrive each letter to the original topic in its headers, or to `to` without one."),
    ] = False
    edit: Annotated[
        LetterEditBody | None, doc("Corrects the one letter that `filter.offsets` names.")
    ] = None


class RedrivePath(msgspec.Struct, frozen=True):
    """A redrive in the path."""

    id: Annotated[int, doc("From the response that started the redrive.", 1, ge=1)]


class RefusedLine(msgspec.Struct):
    """A letter refused by its target topic."""

    partition: Annotated[int, doc("Partition of the dead-letter topic.", 0)]
    offset: Annotated[int, doc("Offset in the dead-letter topic.", 3)]
    to: Annotated[str, doc("The target topic.", "orders")]
    error: Annotated[str, doc("Why it was refused.")]


class RedriveAnswer(msgspec.Struct):
    """A redrive."""

    id: int
    topic: Annotated[str, doc("The original topic.", "orders")]
    to: Annotated[str, doc("The target.", "orders")]
    dry_run: bool
    state: Annotated[str, doc("counting, running, done, cancelled or failed.", "running")]
    total: Annotated[int, doc("Matching letters, after counting.", 12)]
    done: Annotated[int, doc("Letters redriven.", 5)]
    failed: Annotated[
        int, doc("Letters refused by the target; they stay in the dead-letter queue.", 0)
    ]
    rate: Annotated[float, doc("Messages per second so far.", 99.5)]
    error: Annotated[str | None, doc("The last error.")]
    started_at: Milliseconds
    ended_at: Milliseconds | None
    targets: Annotated[dict[str, int], doc("Letters redriven, by target topic.", {"orders": 5})]
    refused: Annotated[list[RefusedLine], doc("The first hundred letters that were refused.")]


class RedriveList(msgspec.Struct):
    """Redrives since the server started, the newest last."""

    redrives: list[RedriveAnswer]


class PurgeQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Confirmation of a purge."""

    confirm: Annotated[bool, doc("Must be true: the letters are deleted permanently.")] = False


class Purged(msgspec.Struct):
    """What was deleted."""

    topic: str
    purged: Annotated[int, doc("Letters that had not been redriven.", 12)]


LetterRange = Annotated[tuple[Offset, Offset], doc("First offset, and last offset + 1.")]


class MovedQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Start of the list."""

    from_offset: Annotated[Offset, doc("Partition of the dead-letter topic.")] = 0
    letters_in: LettersIn = None


class MovedAnswer(msgspec.Struct):
    """Letters of one partition that have been redriven."""

    topic: Annotated[str, doc("The original topic.", "orders")]
    partition: Annotated[int, doc("Partition of the dead-letter topic.", 0)]
    ranges: Annotated[
        list[Annotated[list[int], msgspec.Meta(min_length=2, max_length=2)]],
        doc("Offset ranges: first, and last + 1.", [[3, 5]]),
    ]
    next_offset: Annotated[int | None, doc("Start of the next request; null at the end.", None)]


class MovedBody(msgspec.Struct, forbid_unknown_fields=True):
    """Letters that were redriven by other means."""

    ranges: Annotated[
        Annotated[list[LetterRange], msgspec.Meta(max_length=MAX_OFFSET_RANGES)],
        doc("Offsets of the dead-letter topic.", [[3, 5]]),
    ]
    letters_in: LettersIn = None


class Noted(msgspec.Struct):
    """Newly recorded redriven letters."""

    topic: str
    partition: int
    noted: Annotated[int, doc("Letters newly recorded as redriven.", 2)]
