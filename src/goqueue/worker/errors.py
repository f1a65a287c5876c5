"""What tasks raise, and what is raised in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError
from goqueue.model.limits import MAX_VISIBILITY_MS
from goqueue.worker.times import seconds

if TYPE_CHECKING:
    from goqueue.client.types import Time

LONGEST_RETRY_DELAY_S: Final = MAX_VISIBILITY_MS / 1000


class Reject(Exception):  # noqa: N818 - raised to say what becomes of the message, as in Celery
    """Raised by a task that can never succeed: its message is dead-lettered with this reason."""


class Retry(Exception):  # noqa: N818 - as above
    """Raised by a task that failed for now: its message is redelivered."""

    def __init__(self, reason: str = "the task asked for a retry", *, delay: Time | None = None):
        """Redeliver it after a delay in seconds; without one, after the task's or group's back-off.

        Raises:
            ValueError: the delay is negative, or longer than the broker keeps a message waiting.
        """
        super().__init__(reason)
        self.delay_s = None if delay is None else seconds(delay, "delay")
        if self.delay_s is not None and self.delay_s > LONGEST_RETRY_DELAY_S:
            raise ValueError(
                f"delay: {self.delay_s:g} s is more than {LONGEST_RETRY_DELAY_S / 3600:g} h; "
                "send the task again with options(delay=...), and return"
            )


class Interrupted(BaseException):
    """Raised in the thread of a synchronous task when its worker cannot wait any longer.

    Not an `Exception`, so that a task which catches those lets it pass. An asynchronous task is
    cancelled instead.
    """


class TimeLimitExceeded(Interrupted):
    """Raised in the thread of a synchronous task that ran for longer than its `time_limit`."""


class StuckTaskError(Exception):
    """A task that exceeded its time limit and does not end."""


class AppNotFoundError(GoQueueError):
    """`module:app` does not name an `App` with tasks."""
