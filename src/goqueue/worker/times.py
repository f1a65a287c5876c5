"""Lengths of time as users write them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.client.types import Time


def seconds(time: Time, name: str) -> float:
    """A length of time in seconds.

    Raises:
        ValueError: it is negative; the text begins with the name of the parameter.
    """
    found = time.total_seconds() if isinstance(time, timedelta) else float(time)
    if not found >= 0:
        raise ValueError(f"{name}: {found:g} s is less than 0")
    return found


def positive_seconds(time: Time, name: str) -> float:
    """The same for a time that must be more than nothing."""
    found = seconds(time, name)
    if not found:
        raise ValueError(f"{name}: expected more than 0 s")
    return found
