"""What dead letters are called, wherever they are written: by the broker, or by rules of pipelines.

Whoever writes one says in headers of the message itself where it came from and why it died; a
redrive takes these off again. So the broker, its tools and Spark's jobs all know a letter.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

SUFFIX: Final = ".dlq"
"""Behind a topic's name: where its dead messages are."""
HEADER_PREFIX: Final = "goqueue-dlq-"
"""Of all headers that say what became of a message."""
UNDECODABLE_HEADER: Final = HEADER_PREFIX + "undecodable"
"""Of a letter without a message: why the record that died does not decode. It cannot go back."""
REDRIVEN_HEADER: Final = "goqueue-redriven"
"""How often a message went back from the dead letters."""
REDRIVEN_GROUP_HEADER: Final = "goqueue-redriven-group"
"""The only group that a message went back for."""
RETENTION_MS: Final = 336 * 3600 * 1000
"""Two weeks: somebody has to look into them."""
_LONGEST_NAME: Final = 249 - len(SUFFIX)


class Reason(StrEnum):
    """Why a message is dead."""

    MAX_RETRIES_EXCEEDED = "MAX_RETRIES_EXCEEDED"
    REJECTED = "REJECTED"
    TTL_EXPIRED = "TTL_EXPIRED"
    POISON_MESSAGE = "POISON_MESSAGE"
    BACKPRESSURE = "BACKPRESSURE"


def dead_letter_topic(topic: str) -> str:
    """Where the dead messages of a topic go."""
    return topic[:_LONGEST_NAME] + SUFFIX


def is_dead_letter_topic(topic: str) -> bool:
    """Whether a topic holds the dead messages of another."""
    return topic.endswith(SUFFIX)
