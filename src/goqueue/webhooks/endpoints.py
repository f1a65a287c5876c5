"""An endpoint: where events go, which ones, and how often delivering one is attempted."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import WebhookError
from goqueue.model.limits import MAX_WEBHOOK_RETRIES, MAX_WEBHOOK_TIMEOUT_MS
from goqueue.queues.delivery.group import WEBHOOK_GROUP_PREFIX
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.webhooks.events import CHOOSABLE, EventType
from goqueue.webhooks.urls import parse_target

if TYPE_CHECKING:
    from goqueue.webhooks.events import Event

_ID_PREFIX: Final = "wh_"
_SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - how secrets start
_MIN_SECRET_CHARS: Final = 16
"""A shorter secret is refused: it could be guessed from one signed request."""
_MAX_SECRET_CHARS: Final = 200
_MAX_TOPICS: Final = 100
"""That the filter of one endpoint names; more are refused."""
_MAX_DESCRIPTION_CHARS: Final = 500
_MAX_BACKOFF_MS: Final = 3_600_000
_MIN_TIMEOUT_MS: Final = 100
_GRACE_MS: Final = 5_000
"""What an attempt may need beyond its timeout before the group takes the event back."""


class Endpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """One endpoint as it is stored, under its id."""

    url: str
    secret: str
    """In plain text, as every request is signed with it. No answer shows it again."""
    created_ms: int
    start_offset: int
    """Of the topic of events: those from here on count."""
    events: tuple[str, ...] = ()
    """Empty: all."""
    topics: tuple[str, ...] = ()
    """Empty: all. Events that are about no topic are sent either way."""
    description: str = ""
    is_enabled: bool = True
    timeout_ms: int = 5_000
    max_retries: int = 20
    """With the back-off below, an event is given up after about fifteen minutes."""
    backoff_ms: int = 1_000
    max_backoff_ms: int = 60_000

    def takes(self, event: Event) -> bool:
        """Whether an event is to be sent there."""
        if self.events and event.type not in self.events:
            return False
        return not self.topics or event.topic is None or event.topic in self.topics

    def wants(self, kind: EventType) -> bool:
        """Whether there is a reason to record such an event."""
        return not self.events or kind.value in self.events

    def group_settings(self) -> QueueSettings:
        """How the queue group of the endpoint delivers.

        Exclusive: in order, and behind a failed event nothing is delivered before its retry.
        """
        return QueueSettings(
            mode=Mode.EXCLUSIVE,
            visibility_ms=self.timeout_ms + _GRACE_MS,
            max_deliveries=1 + self.max_retries,
            backoff_ms=self.backoff_ms,
            max_backoff_ms=self.max_backoff_ms,
            max_unacked=1,
            was_joined=True,
        )

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"  # no secret


def new_id() -> str:
    """The id of a new endpoint."""
    return _ID_PREFIX + secrets.token_hex(8)


def new_secret() -> str:
    """A secret that cannot be guessed."""
    return _SECRET_PREFIX + secrets.token_hex(32)


def group_of(endpoint_id: str) -> str:
    """The queue group that delivers the events of an endpoint."""
    return WEBHOOK_GROUP_PREFIX + endpoint_id


def check_endpoint(endpoint: Endpoint) -> None:
    """Hold an endpoint to the rules.

    Raises:
        WebhookTargetError: its URL cannot be called.
        WebhookError: something else is wrong with it.
    """
    parse_target(endpoint.url)
    unknown = sorted(set(endpoint.events) - {each.value for each in CHOOSABLE})
    if unknown:
        raise WebhookError(
            f"there is no event {unknown[0][:80]!r}, expected some of {', '.join(CHOOSABLE)}"
        )
    if len(endpoint.topics) > _MAX_TOPICS:
        raise WebhookError(
            f"the filter names {len(endpoint.topics)} topics, expected at most {_MAX_TOPICS}"
        )
    if not _MIN_SECRET_CHARS <= len(endpoint.secret) <= _MAX_SECRET_CHARS:
        raise WebhookError(
            f"the secret has {len(endpoint.secret)} characters, expected {_MIN_SECRET_CHARS} to "
            f"{_MAX_SECRET_CHARS}; leave it out to have one made"
        )
    if len(endpoint.description) > _MAX_DESCRIPTION_CHARS:
        raise WebhookError(
            f"the description has {len(endpoint.description)} characters, expected at most "
            f"{_MAX_DESCRIPTION_CHARS}"
        )
    _check_number("timeout", endpoint.timeout_ms, _MIN_TIMEOUT_MS, MAX_WEBHOOK_TIMEOUT_MS)
    _check_number("max_retries", endpoint.max_retries, 0, MAX_WEBHOOK_RETRIES)
    _check_number("backoff", endpoint.backoff_ms, 1, _MAX_BACKOFF_MS)
    _check_number("max_backoff", endpoint.max_backoff_ms, endpoint.backoff_ms, _MAX_BACKOFF_MS)


def _check_number(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise WebhookError(f"{name} is {value}, expected {low} to {high}")
