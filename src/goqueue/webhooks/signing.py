"""The headers of a request: who sends it, which event it is, and the proof that it is from us."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from goqueue.webhooks.events import Event

USER_AGENT: Final = "GoQueue-Webhook/1.0"
SIGNATURE_PREFIX: Final = "sha256="


def signature(secret: str, timestamp_s: int, body: bytes) -> str:
    """The HMAC-SHA256 of `TIMESTAMP.BODY`.

    The timestamp is in it, so that a request that somebody has recorded cannot be sent again later.
    """
    signed = b"%d." % timestamp_s + body
    return SIGNATURE_PREFIX + hmac.digest(secret.encode(), signed, "sha256").hex()


def headers_of(
    event: Event, body: bytes, secret: str, timestamp_s: int, attempt: int
) -> dict[str, str]:
    """The headers of one attempt to deliver an event."""
    return {
        "User-Agent": USER_AGENT,
        "X-GoQueue-Event": event.type,
        "X-GoQueue-Delivery": event.id,
        "X-GoQueue-Attempt": str(attempt),
        "X-GoQueue-Timestamp": str(timestamp_s),
        "X-GoQueue-Signature": signature(secret, timestamp_s, body),
        "Connection": "close",
    }
