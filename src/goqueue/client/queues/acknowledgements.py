"""Acknowledgements of messages: Kafka's types, and our own."""

from __future__ import annotations

from typing import Final, NamedTuple

ACK: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
EXTEND: Final = 4
NACK: Final = 64
"""It failed: it is redelivered after a delay, and the delivery counts."""
RETURN: Final = 65
"""As if it had never been delivered."""

GIVES_BACK: Final = frozenset({NACK, RELEASE, RETURN})


class Acknowledgement(NamedTuple):
    """How the program acknowledges a message."""

    verdict: int
    reason: str = ""
    delay_ms: int | None = None
    is_quiet: bool = False
    """It is the client's own: the program is not told that it failed."""
