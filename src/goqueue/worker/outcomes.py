"""What becomes of a message after its task has run: acknowledged, redelivered or dead-lettered."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import msgspec

from goqueue.model.limits import MAX_REASON_CHARS
from goqueue.model.tuples import NamedTuple
from goqueue.worker.errors import LONGEST_RETRY_DELAY_S, Reject, Retry

DEFAULT_MAX_BACKOFF_S: Final = 600.0


class Action(Enum):
    """What the broker is told."""

    ACK = auto()
    NACK = auto()
    REJECT = auto()


class Outcome(NamedTuple):
    """An action, and what goes with it."""

    action: Action
    reason: str = ""
    delay_s: float | None = None
    """Of a `NACK`: before the next delivery; None is the group's back-off."""


SUCCEEDED: Final = Outcome(Action.ACK)
STOPPED: Final = Outcome(Action.NACK, "the worker stopped before the task had finished", 0.0)


class RetryRule(msgspec.Struct, frozen=True):
    """How often a task is retried, and when. The group's `max_deliveries` is the upper bound."""

    max_retries: int | None = None
    """None: until the group's `max_deliveries` is reached."""
    backoff_s: float | None = None
    """Before the first retry; doubled each time. None: the group's back-off."""
    max_backoff_s: float = DEFAULT_MAX_BACKOFF_S
    reject_on: tuple[type[Exception], ...] = ()
    """Errors that no retry would help."""

    def after(self, error: BaseException, delivery_count: int) -> Outcome:
        """What an error makes of a message that was delivered so often."""
        if isinstance(error, Reject):
            return Outcome(Action.REJECT, _cut(str(error) or "rejected by the task"))
        reason = str(error) if isinstance(error, Retry) else describe(error)
        if isinstance(error, self.reject_on):
            return Outcome(Action.REJECT, _cut(reason))
        if self.max_retries is not None and delivery_count > self.max_retries:
            return Outcome(Action.REJECT, _cut(f"failed {delivery_count} times: {reason}"))
        delay_s = error.delay_s if isinstance(error, Retry) else None
        if delay_s is None:
            delay_s = self._backoff_s(delivery_count)
        return Outcome(Action.NACK, _cut(reason), delay_s)

    def _backoff_s(self, delivery_count: int) -> float | None:
        if self.backoff_s is None:
            return None
        doubled = self.backoff_s * 2.0 ** (delivery_count - 1)
        return min(doubled, self.max_backoff_s, LONGEST_RETRY_DELAY_S)


def describe(error: BaseException) -> str:
    """An error as a reason: its class and its text."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _cut(reason: str) -> str:
    return reason if len(reason) <= MAX_REASON_CHARS else f"{reason[: MAX_REASON_CHARS - 1]}…"
