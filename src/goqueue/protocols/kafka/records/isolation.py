"""Isolation levels as clients number them."""

from __future__ import annotations

from goqueue.partitions.partition import Isolation
from goqueue.protocols.kafka.errors import InvalidIsolationLevelError


def isolation_of(level: int) -> Isolation:
    """The isolation that a request asks for.

    Raises:
        InvalidIsolationLevelError: there is none of this number.
    """
    try:
        return Isolation(level)
    except ValueError:
        known = ", ".join(f"{each.value} ({each.name.lower()})" for each in Isolation)
        raise InvalidIsolationLevelError(f"isolation level {level}; there are {known}") from None
