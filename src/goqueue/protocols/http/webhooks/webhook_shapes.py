"""What administrators of webhooks send and are answered."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from goqueue.protocols.http.api.codecs import Duration
from goqueue.protocols.http.api.shapes import Milliseconds, doc

Url: TypeAlias = Annotated[
    str,
    doc("http or https; without a user name.", "https://example.com/goqueue", max_length=2000),
]
EventNames: TypeAlias = Annotated[
    list[str], doc("Types of events; empty: all.", ["topic.created"], max_length=20)
]
TopicNames: TypeAlias = Annotated[
    list[str],
    doc(
        "Only events about these topics, and events that are about no topic; empty: all.",
        ["orders"],
        max_length=100,
    ),
]
SecretText: TypeAlias = Annotated[
    str | None,
    doc("What requests are signed with, 16 to 200 characters. No response shows it again."),
]
Description: TypeAlias = Annotated[str, doc("What it is for.", "chat", max_length=500)]
EventIds: TypeAlias = Annotated[list[str], doc("Ids of events.", max_length=1000)]
Retries: TypeAlias = Annotated[
    int, doc("Further attempts before the event is dead-lettered.", 20, ge=0, le=249)
]


class WebhookBody(msgspec.Struct, forbid_unknown_fields=True):
    """A webhook to make."""

    url: Url
    events: EventNames = msgspec.field(default_factory=list)
    topics: TopicNames = msgspec.field(default_factory=list)
    secret: Annotated[SecretText, doc("One is made if it is omitted.")] = None
    description: Description = ""
    enabled: Annotated[bool, doc("Whether events are delivered; they are kept either way.")] = True
    timeout: Annotated[Duration, doc("For a target to respond.", "5s")] = 5_000
    max_retries: Retries = 20
    backoff: Annotated[
        Duration, doc("Before the first retry of an event; it doubles with each.", "1s")
    ] = 1_000
    max_backoff: Annotated[Duration, doc("The back-off grows no further.", "1m")] = 60_000

    def __repr__(self) -> str:
        return f"WebhookBody({self.url!r})"  # no secret


class WebhookChanges(msgspec.Struct, forbid_unknown_fields=True):
    """What is to change; what is omitted stays."""

    url: Url | None = None
    events: EventNames | None = None
    topics: TopicNames | None = None
    secret: SecretText = None
    new_secret: Annotated[bool, doc("Have another secret made; the response shows it.")] = False
    description: Description | None = None
    enabled: Annotated[bool | None, doc("Deliver events, or keep them until later.")] = None
    timeout: Annotated[Duration | None, doc("For a target to respond.", "5s")] = None
    max_retries: Retries | None = None
    backoff: Annotated[Duration | None, doc("Before the first retry.", "1s")] = None
    max_backoff: Annotated[Duration | None, doc("The longest back-off.", "1m")] = None

    def __repr__(self) -> str:
        return f"WebhookChanges({self.url!r})"  # no secret


class WebhookInfo(msgspec.Struct, kw_only=True):
    """A webhook, without its secret."""

    id: Annotated[str, doc("The id.", "wh_5f0c9a7d1e2b3c4d")]
    url: str
    events: list[str]
    topics: list[str]
    description: str
    enabled: bool
    timeout_ms: int
    max_retries: int
    backoff_ms: int
    max_backoff_ms: int
    created_at: Milliseconds


class WebhookSecret(WebhookInfo, kw_only=True):
    """A webhook that has a new secret. It is shown here and nowhere else."""

    secret: Annotated[str | None, doc("The secret; null where it has not changed.", "whsec_…")]


class WebhookList(msgspec.Struct):
    """Every webhook."""

    webhooks: list[WebhookInfo]


class WebhookPath(msgspec.Struct, frozen=True):
    """A webhook in the path."""

    id: Annotated[str, doc("The id of a webhook.", "wh_5f0c9a7d1e2b3c4d", max_length=64)]


class DeliveryInfo(msgspec.Struct):
    """One attempt to deliver an event."""

    event: Annotated[str, doc("The id of the event, the same for each attempt.")]
    type: Annotated[str, doc("", "topic.created")]
    attempt: Annotated[int, doc("1 is the first.", 1)]
    at: Milliseconds
    outcome: Annotated[str, doc("delivered, retrying, dead_lettered or failed.", "delivered")]
    status: Annotated[int | None, doc("Of the response; null: there was none.", 200)]
    error: str
    took_ms: int


class DeliveryList(msgspec.Struct):
    """The last attempts of a webhook, the newest first."""

    webhook: str
    pending: Annotated[int | None, doc("Events that wait; null: nothing was recorded yet.")]
    deliveries: list[DeliveryInfo]


class DeadEventInfo(msgspec.Struct):
    """An event that was given up."""

    event: Annotated[str, doc("The id of the event.")]
    type: Annotated[str, doc("", "topic.created")]
    happened_at: Milliseconds
    dead_at: Milliseconds
    attempts: int
    error: Annotated[str, doc("Why the last attempt failed.")]


class DeadEventList(msgspec.Struct):
    """Dead events of a webhook that were not redelivered, the newest first."""

    webhook: str
    events: list[DeadEventInfo]


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many."""

    limit: Annotated[int, doc("At most so many.", 20, ge=1, le=1000)] = 20


class RedeliverBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead events to deliver again."""

    events: Annotated[EventIds | None, doc("All of the webhook, if omitted.")] = None


class Redelivered(msgspec.Struct):
    """What is delivered again."""

    webhook: str
    events: Annotated[int, doc("How many events go to the end of the webhook's queue.", 3)]


class WebhookDeleted(msgspec.Struct):
    """What was deleted."""

    deleted: Annotated[str, doc("The id.", "wh_5f0c9a7d1e2b3c4d")]
