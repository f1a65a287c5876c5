"""Times as jobs are given them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from goqueue.spark import clock

Moment: TypeAlias = datetime | timedelta | int
"""A time, how long ago it was, or milliseconds since 1970."""

DAY_MS: Final = 24 * 3600 * 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def as_ms(moment: Moment | None, now_ms: int | None = None) -> int | None:
    """Milliseconds since 1970; a time without a zone is one of this machine's.

    What is between two milliseconds becomes the later one: messages have whole ones, and so both
    those from then on and those before then are the right ones.
    """
    if isinstance(moment, timedelta):
        now = clock.now_ms() if now_ms is None else now_ms
        return now - moment // _MS
    if isinstance(moment, datetime):
        return -((_EPOCH - moment.astimezone(UTC)) // _MS)
    return moment


def as_asked(moment: Moment | None) -> int | str | None:
    """What a job with the same arguments says again, whenever it is run."""
    return f"{moment // _MS} ms ago" if isinstance(moment, timedelta) else as_ms(moment)
