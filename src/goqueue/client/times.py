"""Lengths of time and moments as users give them, in the milliseconds that the wire speaks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.client.types import Time


def to_ms(time: Time | None) -> int | None:
    """A length of time.

    Raises:
        ValueError: it is less than nothing.
        TypeError: it is no length of time.
    """
    if time is None:
        return None
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"a time is a number of seconds or a timedelta, not {type(time).__name__}")
    if seconds < 0:
        raise ValueError(f"{seconds} s is less than 0")
    return round(seconds * 1000)


def moment_ms(moment: datetime) -> int:
    """A moment; one without a time zone is of the machine's.

    Raises:
        TypeError: it is no moment.
    """
    if not isinstance(moment, datetime):
        raise TypeError(f"a moment is a datetime, not {type(moment).__name__}")
    return max(round(moment.timestamp() * 1000), 1)
