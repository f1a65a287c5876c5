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
    HeaderOut,
    Limit,
)

_KNOWN: Final = list(Reason)
_REASONS: Final = f"{', '.join(_KNOWN[:-1])} or {_KNOWN[-1]}."

# --- Looking -------------------------------------------------------------------------------------


class LettersQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters are wanted."""

    limit: Limit = 100
    skip: Annotated[int, doc("So many of those that are meant are left out.", 0, ge=0)] = 0
    reason: Annotated[str | None, doc(_REASONS, "REJECTED")] = None
    group: Annotated[GroupName | None, doc("In which they died.")] = None
    since: Annotated[Time | None, doc("Died from then on.")] = None
    until: Annotated[Time | None, doc("Died before then.")] = None


class LetterLine(msgspec.Struct):
    """One dead letter in a list."""

    partition: Annotated[int, doc("Of the dead-letter topic.", 0)]
    offset: Annotated[int, doc("In the dead-letter topic.", 3)]
    key: Annotated[str | None, doc("Null if it has none.", "customer-7")]
    key_encoding: Encoding
    preview: Annotated[str | None, doc("The beginning of the value.", '{"id": 1}')]
    preview_encoding: Encoding
    size_bytes: Annotated[int, doc("Of the whole value.", 9)]
    source_topic: Annotated[str | None, doc("Where it came from.", "orders")]
    source_partition: int | None
    source_offset: int | None
    source_timestamp: Milliseconds | None
    group: Annotated[str | None, doc("In which it died.", "billing")]
    member: Annotated[str | None, doc("Who had it last.", "worker-1-5f0c")]
    reason: Annotated[str | None, doc(_REASONS, "REJECTED")]
    error: Annotated[str | None, doc("The last error.", "no such customer")]
    deliveries: Annotated[int | None, doc("How often it was tried.", 3)]
    first_delivery: Milliseconds | None
    last_delivery: Milliseconds | None
    died_at: Milliseconds
    redriven_count: Annotated[int, doc("How often it was redriven before.", 0)]
    priority: Annotated[str, doc("The lane that it waits in after a redrive.", "normal")]


class LetterDetail(LetterLine):
    """One dead letter, whole."""

    value: Annotated[str | None, doc("Null is a tombstone.", '{"id": 1}')]
    encoding: Encoding
    headers: Annotated[list[HeaderOut], doc("As they were before it died.")]
    is_redriven: Annotated[bool, doc("It was redriven; it is not listed any more.")]


class LetterList(msgspec.Struct):
    """Dead letters that have not been redriven, by partition and offset."""

    topic: Annotated[str, doc("Where they came from.", "orders")]
    dead_letter_topic: Annotated[str | None, doc("Null if there never was one.", "orders.dlq")]
    total: Annotated[int, doc("All that have not been redriven, whatever is asked for.", 12)]
    letters: list[LetterLine]


class BoxLine(msgspec.Struct):
    """A topic with a dead-letter topic."""

    topic: Annotated[str, doc("Where the letters came from.", "orders")]
    dead_letter_topic: Annotated[str, doc("Where they are.", "orders.dlq")]
    total: Annotated[int, doc("Letters that have not been redriven.", 12)]
    newest_at: Annotated[Milliseconds | None, doc("When the last one came; null: none is left.")]


class BoxList(msgspec.Struct):
    """Every topic that has dead letters, or had some."""

    topics: list[BoxLine]


# --- Redriving -----------------------------------------------------------------------------------


LettersIn = Annotated[
    TopicName | None,
    doc("The topic that holds the letters; the dead-letter topic, if left out."),
]


class FilterBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which letters are meant; everything that is said must hold."""

    reason: Annotated[str | None, doc(_REASONS, "REJECTED")] = None
    group: Annotated[GroupName | None, doc("In which they died.")] = None
    key: Annotated[str | None, doc("The whole key.", "customer-7")] = None
    key_encoding: Annotated[Encoding, doc("How `key` is written.", "text")] = "text"
    since: Annotated[Time | None, doc("Died from then on.")] = None
    until: Annotated[Time | None, doc("Died before then.")] = None
    offsets: Annotated[
        dict[PartitionNumber, list[Offset]] | None,
        doc("Only these, by partition of the dead-letter topic.", {"0": [3, 4]}),
    ] = None


class RedriveBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which letters are redriven, and how fast."""

    to: Annotated[TopicName | None, doc("Another topic; where they came from, if left out.")] = None
    filter: Annotated[FilterBody, doc("All, if left out.")] = msgspec.field(
        default_factory=FilterBody
    )
    limit: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None, doc("The most letters to redrive.")
    ] = None
    rate: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=MAX_REDRIVE_RATE)] | None,
        doc("Messages a second.", 100),
    ] = None
    dry_run: Annotated[bool, doc("Only count them.")] = False
    letters_in: LettersIn = None
    to_source: Annotated[
        bool, doc("Each goes to the topic that its headers name, `to` if they name none.")
    ] = False


class RedrivePath(msgspec.Struct, frozen=True):
    """A redrive in the path."""

    id: Annotated[int, doc("As the answer to the request said it.", 1, ge=1)]


class RefusedLine(msgspec.Struct):
    """A letter that its target refused."""

    partition: Annotated[int, doc("Of the dead-letter topic.", 0)]
    offset: Annotated[int, doc("In the dead-letter topic.", 3)]
    to: Annotated[str, doc("The target.", "orders")]
    error: Annotated[str, doc("Why it was refused.")]


class RedriveAnswer(msgspec.Struct):
    """A redrive, under way or over."""

    id: int
    topic: Annotated[str, doc("Where the letters came from.", "orders")]
    to: Annotated[str, doc("Where they go.", "orders")]
    dry_run: bool
    state: Annotated[str, doc("counting, running, done, cancelled or failed.", "running")]
    total: Annotated[int, doc("Letters that are meant, once they are counted.", 12)]
    done: Annotated[int, doc("Letters that have gone.", 5)]
    failed: Annotated[int, doc("Letters that were refused; they stay.", 0)]
    rate: Annotated[float, doc("Messages a second so far.", 99.5)]
    error: Annotated[str | None, doc("Why letters were refused, or all of it failed.")]
    started_at: Milliseconds
    ended_at: Milliseconds | None
    targets: Annotated[dict[str, int], doc("Letters that have gone, by topic.", {"orders": 5})]
    refused: Annotated[list[RefusedLine], doc("The first hundred letters that were refused.")]


class RedriveList(msgspec.Struct):
    """Redrives of this server since it started, the newest last."""

    redrives: list[RedriveAnswer]


class PurgeQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Whether one is sure."""

    confirm: Annotated[bool, doc("Must be true: what is removed is gone for good.")] = False


class Purged(msgspec.Struct):
    """What is gone."""

    topic: str
    purged: Annotated[int, doc("Letters that had not been redriven.", 12)]


LetterRange = Annotated[tuple[Offset, Offset], doc("The first, and the one behind the last.")]


class MovedQuery(msgspec.Struct, forbid_unknown_fields=True):
    """From where on."""

    from_offset: Annotated[Offset, doc("Of the dead-letter topic.")] = 0
    letters_in: LettersIn = None


class MovedAnswer(msgspec.Struct):
    """Letters of one partition that have been redriven."""

    topic: Annotated[str, doc("Where they came from.", "orders")]
    partition: Annotated[int, doc("Of the dead-letter topic.", 0)]
    ranges: Annotated[
        list[tuple[int, int]], doc("Offsets: the first, and behind the last.", [[3, 5]])
    ]
    next_offset: Annotated[int | None, doc("Ask again from here; null: that is all.", None)]


class MovedBody(msgspec.Struct, forbid_unknown_fields=True):
    """Letters that were redriven by other means."""

    ranges: Annotated[
        Annotated[list[LetterRange], msgspec.Meta(max_length=MAX_OFFSET_RANGES)],
        doc("Offsets of the dead-letter topic.", [[3, 5]]),
    ]
    letters_in: LettersIn = None


class Noted(msgspec.Struct):
    """What was not known before."""

    topic: str
    partition: int
    noted: Annotated[int, doc("Letters that were not known to be redriven.", 2)]
