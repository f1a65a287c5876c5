"""The topics in which the broker keeps its own state, by their exact names.

Clients cannot create, change or delete these. Every other name is a user's, also one that begins
with `__`, as tools around Kafka like to call theirs.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
QUEUE_STATE: Final = "__queue_state"
SCHEMAS: Final = "__schemas"
DELAYED: Final = "__delayed"
DELAY_STATE: Final = "__delay_state"
PIPELINES: Final = "__pipelines"
AUDIT: Final = "__audit"
WEBHOOKS: Final = "__webhooks"
WEBHOOKS_DEAD: Final = "__webhooks.dlq"
USAGE: Final = "__usage"

COMPANIONS: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {QUEUE_STATE: (CONSUMER_OFFSETS, 1), DELAYED: (DELAY_STATE, 3)}
)
"""Topics whose partitions belong to those of another topic, so many to each: a unit, which one node
has to lead as a whole."""

_NEWEST_VALUES: Final = {"cleanup.policy": "compact"}
_CHANGES: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""The broker itself removes what a snapshot covers; retention must not, whatever the server's
defaults for topics are."""
_EVENTS: Final = {"cleanup.policy": "delete", "retention.bytes": "-1", "goqueue.fsync": "always"}

INTERNAL_TOPICS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        CONSUMER_OFFSETS: _NEWEST_VALUES,
        TRANSACTION_STATE: _NEWEST_VALUES,
        QUEUE_STATE: _CHANGES,
        # A schema is registered once and needed for as long as there are messages of it.
        SCHEMAS: {
            **_NEWEST_VALUES,
            "goqueue.fsync": "always",
            "max.message.bytes": str(8 << 20),
        },
        DELAYED: _CHANGES,
        DELAY_STATE: {**_CHANGES, "goqueue.fsync": "always"},
        # Reports come every few seconds and only the newest counts: small segments are compacted
        # early.
        PIPELINES: {**_NEWEST_VALUES, "segment.bytes": str(8 << 20)},
        # Every node tells every second what its clients use: small segments here, too.
        USAGE: {**_NEWEST_VALUES, "segment.bytes": str(1 << 20)},
        # A copy of the audit log's lines for those who follow them; the file is kept by its size.
        AUDIT: {"cleanup.policy": "delete", "retention.ms": str(90 * 24 * 3_600_000)},
        # Events that wait for their targets, and those that were given up.
        WEBHOOKS: {**_EVENTS, "retention.ms": str(14 * 24 * 3_600_000)},
        WEBHOOKS_DEAD: {**_EVENTS, "retention.ms": str(14 * 24 * 3_600_000)},
    }
)
"""The settings that the state in each depends on."""


def is_internal_topic(name: str) -> bool:
    """Whether the broker keeps its own state under this name, now or once it needs to."""
    return name in INTERNAL_TOPICS
