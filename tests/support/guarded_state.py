"""What the nodes of `guarded` know and keep, but for what the client `other` owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goqueue.model.internal_topics import USAGE

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

TENANT = "globex"
"""That of the client `other`."""


def known_everywhere(broker: Broker) -> dict[str, Any]:
    """What every node knows, sooner or later."""
    topics = broker.topics.catalogue.by_name.values()
    return {
        "topics": {
            topic.name: (topic.partition_count, dict(topic.settings.overrides))
            for topic in topics
            if not _is_of_other(topic.name) and topic.name != USAGE  # which makes itself
        },
        "schemas": {
            name: sorted(versions)
            for name, versions in broker.schemas.registry.contexts.subjects("")
            if not _is_of_other(name)
        },
        "levels": dict(broker.schemas.registry.state.levels),
        "tenants": dict(broker.access.tenants.records.all),
        "webhooks": dict(broker.webhooks.endpoints.all) if broker.webhooks else {},
        "users": [each.name for each in broker.users.all()],
        "bindings": dict(broker.access.bindings.all),
        "keys": dict(broker.access.keys.all),
        "rules": dict(broker.access.rules.all),
    }


def kept_by(broker: Broker) -> dict[str, Any]:
    """What a node knows of its own partitions and of the groups and others that it coordinates."""
    return {
        "ends": {
            (each.id.topic, each.id.partition): (each.log_start, each.log_end)
            for each in broker.partitions
            if not each.id.topic.startswith("__") and not _is_of_other(each.id.topic)
        },
        "groups": [
            (each.group_id, each.state, each.member_count)
            for each in broker.group_views.all()
            if not _is_of_other(each.group_id)
        ],
        "transactions": [
            (each.transactional_id, each.state, each.producer_id, each.epoch)
            for each in broker.transactions.list()
            if not _is_of_other(each.transactional_id)
        ],
        "pipelines": [each.name for each in broker.pipelines.all() if not _is_of_other(each.name)],
        "redrives": [
            (each.request.topic, each.state)
            for each in broker.redrives
            if not _is_of_other(each.request.topic)
        ],
    }


def _is_of_other(name: str) -> bool:
    return name.startswith(f"{TENANT}.")
