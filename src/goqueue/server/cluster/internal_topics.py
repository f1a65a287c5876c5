"""The topics that the controller of a cluster makes for the broker's own state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.internal_topics import (
    AUDIT,
    COMPANIONS,
    CONSUMER_OFFSETS,
    DELAY_STATE,
    DELAYED,
    PIPELINES,
    QUEUE_STATE,
    SCHEMAS,
    TRANSACTION_STATE,
    USAGE,
    WEBHOOKS,
    WEBHOOKS_DEAD,
)

if TYPE_CHECKING:
    from goqueue.configs.broker_settings import BrokerSettings

_DELAY_UNITS_A_NODE: Final = 2
"""Each node leads some, and when one dies its share goes to several others."""


def internal_topics(settings: BrokerSettings, node_count: int) -> dict[str, int]:
    """How many partitions each has; those that others belong to come before them."""
    delay_units = _DELAY_UNITS_A_NODE * node_count
    return {
        CONSUMER_OFFSETS: settings.offsets_partitions,
        QUEUE_STATE: settings.offsets_partitions,
        TRANSACTION_STATE: settings.transactions_partitions,
        DELAY_STATE: delay_units,
        DELAYED: delay_units * COMPANIONS[DELAYED][1],
        SCHEMAS: 1,
        PIPELINES: 1,
        USAGE: 1,
        **({AUDIT: 1} if settings.audit_topic else {}),
        **({WEBHOOKS: 1, WEBHOOKS_DEAD: 1} if settings.webhooks.is_on else {}),
    }
