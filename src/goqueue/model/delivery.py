"""How a message wants to be delivered (priority, due time, life), and the headers that say so.

A message says these things in headers of its own, so that they travel with the record through
every protocol, every log and every copy of it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import DeliveryHeaderError, PriorityError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

PRIORITY_HEADER: Final = "goqueue-priority"
"""The name of a priority, or its number."""
DELIVER_AT_HEADER: Final = "goqueue-deliver-at"
"""When the message is due, in milliseconds since the epoch, as decimal digits."""
TTL_HEADER: Final = "goqueue-ttl"
"""For how many milliseconds after its time stamp the message is worth delivering."""
PUBLISHED_AT_HEADER: Final = "goqueue-published-at"
"""Written by the broker: when a delayed message was published; its time stamp says when it was
delivered. In milliseconds since the epoch, as decimal digits."""

DELIVERY_HEADERS: Final = frozenset({PRIORITY_HEADER, DELIVER_AT_HEADER, TTL_HEADER})
"""What a producer may say; a batch of which a record has one carries the attribute `DELIVERY`."""

_LONGEST_SHOWN: Final = 40


class Priority(IntEnum):
    """The five lanes of a queue; smaller is more urgent."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4

    @property
    def label(self) -> str:
        """What people call it."""
        return self.name.lower()

    @classmethod
    def parse(cls, text: str) -> Priority:
        """The priority of that name or number.

        Raises:
            PriorityError: it is neither.
        """
        found = _BY_TEXT.get(text.strip().lower())
        if found is None:
            names = ", ".join(each.label for each in cls)
            raise PriorityError(
                f"{text[:_LONGEST_SHOWN]!r} is no priority: expected {names}, or 0 to {cls(4):d}"
            )
        return found


_BY_TEXT: Final = {each.label: each for each in Priority} | {
    str(each.value): each for each in Priority
}


class Delivery(NamedTuple):
    """What the headers of one record say."""

    priority: Priority = Priority.NORMAL
    deliver_at_ms: int | None = None
    ttl_ms: int | None = None


_MAX_DIGITS: Final = 15
"""Of a moment or a length of time; enough for the next thirty thousand years."""


def delivery_of(headers: Iterable[tuple[str, bytes | None]]) -> Delivery | None:
    """What a record's headers say about its delivery; None when they say nothing.

    Of a header that occurs more than once, the last counts.

    Raises:
        PriorityError, DeliveryHeaderError: a value makes no sense.
    """
    found = {name: value for name, value in headers if name in DELIVERY_HEADERS}
    if not found:
        return None
    priority = Priority.NORMAL
    if PRIORITY_HEADER in found:
        priority = Priority.parse((found[PRIORITY_HEADER] or b"").decode("ascii", "replace"))
    deliver_at_ms = _required(DELIVER_AT_HEADER, found) if DELIVER_AT_HEADER in found else None
    ttl_ms = _required(TTL_HEADER, found) if TTL_HEADER in found else None
    return Delivery(priority, deliver_at_ms, ttl_ms)


def milliseconds(value: bytes | None) -> int | None:
    """A moment or a length of time as a header says it; None when it says none.

    Whoever reads a stored header asks here: any bytes may be in it, and any number of digits.
    """
    if value is None or not value.isdigit() or len(value) > _MAX_DIGITS:
        return None
    return int(value)


def _required(name: str, found: dict[str, bytes | None]) -> int:
    value = found[name]
    number = milliseconds(value)
    if number is None:
        raise DeliveryHeaderError(
            f"{name} is {(value or b'')[:_LONGEST_SHOWN]!r}, expected milliseconds as at most "
            f"{_MAX_DIGITS} decimal digits"
        )
    return number


def delivery_headers(
    priority: Priority | None, deliver_at_ms: int | None, ttl_ms: int | None
) -> tuple[tuple[str, bytes], ...]:
    """The headers that say so. The normal priority is not worth one.

    Raises:
        DeliveryHeaderError: a number does not fit.
    """
    headers = []
    if priority is not None and priority is not Priority.NORMAL:
        headers.append((PRIORITY_HEADER, priority.label.encode()))
    for name, number in ((DELIVER_AT_HEADER, deliver_at_ms), (TTL_HEADER, ttl_ms)):
        if number is not None:
            if not 0 <= number < 10**_MAX_DIGITS:
                raise DeliveryHeaderError(f"{name} cannot be {number} ms")
            headers.append((name, b"%d" % number))
    return tuple(headers)
