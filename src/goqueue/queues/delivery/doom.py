"""What is known of a dead message until it is in the dead-letter topic."""

from __future__ import annotations

from typing import NamedTuple


class Doom(NamedTuple):
    """Why and how a message died, for those who look into the dead-letter topic."""

    reason: str
    error: str
    at_ms: int
    deliveries: int
    first_delivery_ms: int
    last_delivery_ms: int
    member: str
