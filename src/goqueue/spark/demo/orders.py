"""The shop of the demonstration: its customers, and an hour of orders with some that are wrong."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTRIES: Final = ("Norway", "Ghana", "Japan", "Chile")
CUSTOMERS: Final = 200
SPAN_MS: Final = 3600 * 1000
"""The orders are spread over an hour of their own time."""
BAD_SHARE: Final = 0.02
_SEED: Final = 7


class Order(NamedTuple):
    """A message of the topic `orders`."""

    key: str
    value: str
    is_good: bool


def customers_csv() -> str:
    """Every customer with the country that they live in."""
    lines = [f"customer-{each},{COUNTRIES[each % len(COUNTRIES)]}" for each in range(CUSTOMERS)]
    return "\n".join(["name,country", *lines]) + "\n"


def orders(count: int, start_ms: int) -> Iterator[Order]:
    """So many orders from a moment on, the same ones each time."""
    chance = random.Random(_SEED)  # noqa: S311 - a demonstration, no secret
    for number in range(count):
        customer = f"customer-{chance.randrange(CUSTOMERS)}"
        at_ms = start_ms + number * SPAN_MS // count
        order: dict[str, object] = {
            "id": number,
            "customer": customer,
            "amount": round(chance.lognormvariate(3.5, 0.8), 2),
            "at": _iso(at_ms),
        }
        if chance.random() >= BAD_SHARE:
            yield Order(customer, json.dumps(order), is_good=True)
        else:
            yield Order(customer, _spoilt(order, chance), is_good=False)


def _spoilt(order: dict[str, object], chance: random.Random) -> str:
    match chance.randrange(3):
        case 0:
            return json.dumps({**order, "amount": -1.0})
        case 1:
            return json.dumps({**order, "customer": None})
        case _:
            return json.dumps(order)[:-9]


def _iso(at_ms: int) -> str:

    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
