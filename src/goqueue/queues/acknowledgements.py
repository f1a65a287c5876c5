"""What members say of messages."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """What a member says of a message."""

    ACK = "ack"
    """It is processed."""
    NACK = "nack"
    """It failed for now, and may be tried again later."""
    RELEASE = "release"
    """It was not processed, and may be tried again at once."""
    REJECT = "reject"
    """It will never succeed."""
    EXTEND = "extend"
    """It takes longer."""
    RETURN = "return"
    """Nobody has looked at it: the delivery does not count."""


class Acknowledgement(NamedTuple):
    """A verdict, and what goes with it."""

    verdict: Verdict
    reason: str = ""
    delay_ms: int | None = None
    """Of a `NACK`: before the next delivery, in place of the group's back-off. Of an `EXTEND`: how
    much longer from now on."""
