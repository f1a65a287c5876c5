"""What is asked and answered when messages are published."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from goqueue.model.limits import MAX_PUBLISHED_MESSAGES
from goqueue.protocols.http.api.codecs import Duration, Encoding, Time
from goqueue.protocols.http.api.shapes import doc


class HeaderIn(msgspec.Struct, forbid_unknown_fields=True):
    """A header of a message to be published."""

    name: Annotated[str, doc("The same name may occur several times.", "source")]
    value: Annotated[str | None, doc("Null is a header without a value.", "web")]
    encoding: Annotated[Encoding, doc("How `value` is written.", "text")] = "text"


class MessageIn(msgspec.Struct, forbid_unknown_fields=True):
    """A message to be published."""

    value: Annotated[str | None, doc("Null is a tombstone.", '{"id": 1}')]
    key: Annotated[str | None, doc("Messages of a key keep their order.", "customer-7")] = None
    headers: Annotated[
        dict[str, str] | list[HeaderIn], doc("Texts by name, or a list.", {"source": "web"})
    ] = []
    partition: Annotated[
        int | None, doc("If left out, the key chooses, or the message's turn.")
    ] = None
    timestamp: Annotated[Time | None, doc("Now, if left out.")] = None
    encoding: Annotated[Encoding, doc("How `value` is written.", "text")] = "text"
    key_encoding: Annotated[Encoding, doc("How `key` is written.", "text")] = "text"
    delay: Annotated[Duration | None, doc("Nobody sees it before that.", "15m")] = None
    deliver_at: Annotated[Time | None, doc("The same as a time; one that has passed is now.")] = (
        None
    )
    deliver_at_camel: Annotated[Time | None, doc("Another name for `deliver_at`.")] = msgspec.field(
        name="deliverAt", default=None
    )
    priority: Annotated[
        str | int | None,
        doc("critical, high, normal, low or background, or 0 to 4.", "high"),
    ] = None
    ttl: Annotated[Duration | None, doc("For how long queue groups may hand it out.", "1h")] = None


class PublishBody(msgspec.Struct, forbid_unknown_fields=True):
    """Messages for one topic."""

    messages: Annotated[
        list[MessageIn], msgspec.Meta(min_length=1, max_length=MAX_PUBLISHED_MESSAGES)
    ]
    acks: Annotated[
        Literal["all", "leader", "none"], doc("Who must have a message before the answer.", "all")
    ] = "all"


class PublishResult(msgspec.Struct, omit_defaults=True):
    """What became of one message: its place, or why it has none."""

    status: Annotated[int, doc("200, or what a request with this message alone would get.", 200)]
    partition: Annotated[int | None, doc("Where it is.", 0)] = None
    offset: Annotated[int | None, doc("Where it is in the partition.", 42)] = None
    timestamp: Annotated[int | None, doc("When it was published, in ms.", 1767225600000)] = None
    priority: Annotated[str | None, doc("The lane that it waits in.", "normal")] = None
    delayed: Annotated[bool | None, doc("Whether it waits until it is due.")] = None
    deliver_at: Annotated[int | None, doc("When a delayed message is due, in ms.")] = msgspec.field(
        name="deliverAt", default=None
    )
    id: Annotated[
        int | None,
        doc("Of a delayed message, which has no place in the log yet; `offset` says the same."),
    ] = None
    code: Annotated[str | None, doc("Why it was refused, for programs.")] = None
    error: Annotated[str | None, doc("Why it was refused, for people.")] = None
    field: Annotated[str | None, doc("The field at fault.")] = None
    retriable: Annotated[bool | None, doc("Whether it may be accepted later.")] = None


class PublishAnswer(msgspec.Struct):
    """One result for each message, in their order."""

    results: list[PublishResult]
