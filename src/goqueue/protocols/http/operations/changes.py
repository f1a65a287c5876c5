"""What can change on this node, and how to see that it has."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from zlib import crc32

from goqueue.metrics import names
from goqueue.model.dead_letters import is_dead_letter_topic
from goqueue.model.errors import GoQueueError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goqueue.broker.broker import Broker

_log = logging.getLogger(__name__)


def _topics(broker: Broker) -> object:
    return broker.topics.catalogue.version


def _groups(broker: Broker) -> object:
    return [
        (each.group_id, each.state, each.generation, each.member_count)
        for each in broker.group_views.all()
    ]


def _schemas(broker: Broker) -> object:
    return broker.schemas.registry.generation


def _pipelines(broker: Broker) -> object:
    return broker.pipelines.generation, [each.state for each in broker.pipelines.all()]


def _transactions(broker: Broker) -> object:
    return [
        (each.transactional_id, each.state, each.started_ms) for each in broker.transactions.list()
    ]


def _delayed(broker: Broker) -> object:
    stats = broker.delays.stats()
    return stats.scheduled, stats.delivered, stats.cancelled, stats.expired


def _dead_letters(broker: Broker) -> object:
    found = []
    for topic in broker.topics.catalogue.by_name.values():
        if is_dead_letter_topic(topic.name):
            figures = broker.figures.of_topic(topic)
            ends = [(each.log_start, each.log_end) for each in figures if each is not None]
            found.append((topic.name, ends))
    return found, broker.metrics.values(names.DEAD_LETTERS_REDRIVEN)


LISTS: Final[dict[str, tuple[str, Callable[[Broker], object]]]] = {
    "topics": ("topic", _topics),
    "groups": ("group", _groups),
    "schemas": ("schema", _schemas),
    "pipelines": ("pipeline", _pipelines),
    "transactions": ("transaction", _transactions),
    "delayed": ("delayed", _delayed),
    "dead_letters": ("dead_letter", _dead_letters),
}
"""What can be listened to: what an event says has changed, and what is compared to know it."""


def look_at(broker: Broker, before: Mapping[str, object]) -> dict[str, object]:
    """What every list looks like now; a part that stops looks as it did `before`."""
    found: dict[str, object] = {}
    for name, (_, look) in LISTS.items():
        try:
            found[name] = look(broker)
        except GoQueueError as error:
            _log.debug("no look at %s: %s", name, error)
            found[name] = before.get(name)
    return found


def marks_of(broker: Broker) -> dict[str, int]:
    """The same for another node, which only compares: a number for each list."""
    return {name: crc32(repr(seen).encode()) for name, seen in look_at(broker, {}).items()}
