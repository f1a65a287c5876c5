"""The metrics of webhooks; see `names`."""

from __future__ import annotations

from typing import Final

from goqueue.metrics.kinds import Combine, CounterName, Definition, GaugeName

EVENTS: Final = CounterName(
    "webhook_events_total", "Events recorded for webhooks, by type.", ("type",)
)
EVENTS_DROPPED: Final = CounterName(
    "webhook_events_dropped_total",
    "Events that were not recorded: too many waited for the topic `__webhooks`.",
)
ATTEMPTS: Final = CounterName(
    "webhook_attempts_total",
    "Attempts to deliver an event, by webhook and outcome.",
    ("webhook", "outcome"),
)
PENDING: Final = GaugeName(
    "webhook_pending_events",
    "Events that wait for a webhook, as its coordinator knows.",
    ("webhook",),
    combine=Combine.MAX,
)

OF_WEBHOOKS: Final[tuple[Definition, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Definition)
)
