"""Many dead letters at once, as the broker would have stored them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from support.http_api import HttpApi

_BATCH: Final = 2000
_ERRORS: Final = (
    ("REJECTED", "no customer {number}"),
    ("REJECTED", "no customer {number}"),
    ("REJECTED", "no customer {number}"),
    ("MAX_RETRIES_EXCEEDED", "ConnectionError: payments.internal:443 timed out after {number} ms"),
    ("MAX_RETRIES_EXCEEDED", "ConnectionError: payments.internal:443 timed out after {number} ms"),
    ("REJECTED", "ValueError: amount must be positive, got -{number}"),
    ("TTL_EXPIRED", ""),
    ("MAX_RETRIES_EXCEEDED", "KeyError: 'currency'"),
)
"""In this order, over and over: five errors, once numbers do not count."""


def add_dead_letters(api: HttpApi, topic: str, count: int, partitions: int = 3) -> None:
    """A topic with dead letters."""
    for name in (topic, f"{topic}.dlq"):
        api.post("/topics", {"name": name, "num_partitions": partitions})
    now_ms = int(time.time() * 1000)
    for first in range(0, count, _BATCH):
        messages = [
            _letter(topic, at, partitions, now_ms)
            for at in range(first, min(first + _BATCH, count))
        ]
        api.post(f"/topics/{topic}.dlq/messages", {"messages": messages})


def _letter(topic: str, at: int, partitions: int, now_ms: int) -> dict[str, Any]:
    reason, error = _ERRORS[at % len(_ERRORS)]
    said = {
        "topic": topic,
        "partition": at % partitions,
        "offset": at // partitions,
        "timestamp": now_ms - 7_200_000 + at,
        "group": "billing" if at % 3 else "shipping",
        "consumer": "worker-2-9f31",
        "reason": reason,
        "error": error.format(number=1000 + at * 7 % 9000),
        "attempts": 3,
        "first-delivery": now_ms - 7_000_000 + at,
        "last-delivery": now_ms - 3_700_000 + at,
        "time": now_ms - 3_600_000 + at * 300,
    }
    value = {
        "order_id": 100_000 + at,
        "customer": {"id": at * 31 % 5000, "country": ("DE", "FR", "US")[at % 3]},
        "amount": at * 17 % 90_000 / 100,
        "currency": "EUR",
    }
    return {
        "key": f"customer-{at * 31 % 5000}",
        "value": json.dumps(value),
        "partition": at % partitions,
        "headers": {
            **{f"goqueue-dlq-{name}": str(each) for name, each in said.items()},
            "source": "web",
        },
    }
