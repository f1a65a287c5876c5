"""The last attempts of each endpoint, as the node that delivers its events remembers them."""

from __future__ import annotations

from collections import Counter, deque
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.webhooks.events import Event
    from goqueue.webhooks.sending import Attempt

_MAX_KEPT: Final = 100
"""Attempts of one endpoint; of more, the oldest is forgotten."""


class Outcome(StrEnum):
    """How an attempt has ended."""

    DELIVERED = "delivered"
    RETRYING = "retrying"
    """It failed, and is attempted again."""
    DEAD = "dead_lettered"
    """It failed, and was the last."""
    FAILED = "failed"
    """A test failed; tests are attempted once."""


class PastAttempt(NamedTuple):
    """One attempt to deliver an event."""

    event_id: str
    event_type: str
    attempt: int
    at_ms: int
    outcome: Outcome
    status: int | None
    error: str
    took_ms: int


def past_attempt(
    event: Event, number: int, now_ms: int, ended: Attempt, failed_as: Outcome
) -> PastAttempt:
    """What is remembered of an attempt; `failed_as` is its outcome unless it was delivered."""
    outcome = Outcome.DELIVERED if ended.is_delivered else failed_as
    return PastAttempt(
        event.id, event.type, number, now_ms, outcome, ended.status, ended.error, ended.took_ms
    )


class History:
    """What became of the last events."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[PastAttempt]] = {}
        self.counts: Counter[tuple[str, Outcome]] = Counter()
        """Attempts since the start, by endpoint and outcome."""

    def note(self, endpoint_id: str, past: PastAttempt) -> None:
        """Remember an attempt."""
        self._kept.setdefault(endpoint_id, deque(maxlen=_MAX_KEPT)).append(past)
        self.counts[endpoint_id, past.outcome] += 1

    def of(self, endpoint_id: str) -> list[PastAttempt]:
        """The attempts of an endpoint, the newest first."""
        return list(reversed(self._kept.get(endpoint_id, ())))

    def forget(self, endpoint_id: str) -> None:
        """An endpoint was deleted."""
        self._kept.pop(endpoint_id, None)
        for outcome in Outcome:
            self.counts.pop((endpoint_id, outcome), None)
