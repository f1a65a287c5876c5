"""How a message wants to be delivered, as the headers that say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from goqueue.client.times import moment_ms, to_ms
from goqueue.model.delivery import Priority, delivery_headers
from goqueue.runtime.clock import SystemClock

if TYPE_CHECKING:
    from datetime import datetime

    from goqueue.client.types import Content, Headers, Time

_now_ms: Final = SystemClock().now_ms


def with_handling(
    headers: Headers | None,
    delay: Time | None,
    deliver_at: datetime | None,
    priority: Priority | str | None,
    ttl: Time | None,
) -> tuple[tuple[str, Content], ...]:
    """The headers of a message, and what the publisher said besides.

    Raises:
        ValueError: it contradicts itself, or a time makes no sense.
        PriorityError: there is no such priority.
    """
    if delay is not None and deliver_at is not None:
        raise ValueError("a message has a delay or a time of delivery, not both")
    deliver_at_ms = None if deliver_at is None else moment_ms(deliver_at)
    delay_ms, ttl_ms = to_ms(delay), to_ms(ttl)
    if delay_ms:
        deliver_at_ms = _now_ms() + delay_ms
    if ttl_ms == 0:
        raise ValueError("ttl: a message lives for a millisecond or more")
    if isinstance(priority, str):
        priority = Priority.parse(priority)
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    return (*pairs, *delivery_headers(priority, deliver_at_ms, ttl_ms))
